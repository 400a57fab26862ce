"""What a user wraps an input in, to have it perturbed inside of its set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradcheck.autodiff.sets import Increasing, PositiveDefinite, Set, Simplex, Symmetric, Triangular


@dataclass(frozen=True, eq=False)
class Structured:
    """An input of `check` and the set in which it is perturbed; made by the functions below."""

    value: Any
    within: Set


def symmetric(value: Any) -> Structured:
    """A symmetric matrix (..., n, n) for `check`, floating or complex: both elements of a pair move together.

    `check` gives the function the matrix itself, perturbs it within the symmetric matrices, and names the element in
    the lower triangle. The derivatives compared are those of a pair: the sum of the gradient's two elements. `check`
    raises ValueError, naming the element, where the value is not symmetric within rounding.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> check(tf.linalg.eigvalsh, symmetric([[2.0, 0.5], [0.5, 1.0]])).verdict
    'agree'
    """
    return Structured(value, Symmetric())


def hermitian(value: Any) -> Structured:
    """A Hermitian matrix (..., n, n) for `check`: as `symmetric`, with conjugates across a real diagonal.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> check(tf.linalg.eigvalsh, hermitian([[2.0 + 0j, 0.5j], [-0.5j, 1.0]])).verdict
    'agree'
    """
    return Structured(value, Symmetric(conjugate=True))


def positive_definite(value: Any) -> Structured:
    """A positive definite matrix (..., n, n) for `check`, symmetric or (complex) Hermitian; steps stay in the set.

    `check` raises ValueError where the value is not symmetric, or has an eigenvalue that is not positive.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> check(tf.linalg.cholesky, positive_definite([[2.0, 0.5], [0.5, 1.0]]), order=2).verdict
    'agree'
    """
    return Structured(value, PositiveDefinite())


def lower_triangular(value: Any) -> Structured:
    """A lower triangular matrix (..., n, n) for `check`: the zeros above the diagonal stay what they are.

    `check` raises ValueError where an element above the diagonal is not zero.
    """
    return Structured(value, Triangular(lower=True))


def upper_triangular(value: Any) -> Structured:
    """An upper triangular matrix (..., n, n) for `check`: the zeros below the diagonal stay what they are."""
    return Structured(value, Triangular(lower=False))


def simplex(value: Any) -> Structured:
    """Distributions (..., n) for `check`: positive real numbers that sum to one along the last axis, and keep doing so.

    Where one element gains d, every element p gives p d; the derivative compared is g - sum(p g) for a gradient g.
    `check` raises ValueError where an element is not positive, or the sum is not one within rounding.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> check(lambda p: tf.reduce_sum(p * tf.math.log(p)), simplex([0.25, 0.75])).verdict
    'agree'
    """
    return Structured(value, Simplex())


def increasing(value: Any) -> Structured:
    """Sorted vectors (..., n) for `check`: real numbers that increase strictly along the last axis, and keep doing so.

    `check` raises ValueError where two neighbours do not increase.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> check(lambda x: tf.math.log(x[1:] - x[:-1]), increasing([1.0, 2.0, 4.0])).verdict
    'agree'
    """
    return Structured(value, Increasing())
