"""Constraints that an input satisfies while it is perturbed: symmetric matrices, distributions, sorted vectors, …

Every constraint is an open set in an affine space. The free coordinates are some of the tensor's own real coordinates;
a step in them moves the others linearly (`tangent`), and a gradient with respect to the whole tensor is pulled back to
them by the adjoint of that map, in NumPy: TensorFlow's gradient of such a map is not under test. Outside of its set the
function counts as undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.typing import Array

SLACK = 32.0
"""A value may violate its constraint by this many units of roundoff per term, since inverses and sums are rounded."""


@dataclass(frozen=True)
class Constraint:
    """No constraint, and the base class of all; tensors may have any leading batch dimensions."""

    def violation(self, name: str, value: Array) -> str | None:
        """Describe how a value of this name violates the constraint, and the remedy; None if it does not.

        The value has its own dtype, which limits how exactly it can satisfy the constraint.
        """
        return None

    def free(self, value: Array) -> Array:
        """A tensor whose nonzero real coordinates are the free ones."""
        return np.full(value.shape, 1 + 1j if np.iscomplexobj(value) else 1.0)

    def tangent(self, value: Array, step: Array) -> Array:
        """The displacement of the tensor at `value` for a step of its free coordinates; `step` is zero elsewhere."""
        return step

    def adjoint(self, value: Array, gradient: Array) -> Array:
        """The adjoint of `tangent`: its free coordinates are the derivatives with respect to them."""
        return gradient

    def contains(self, value: Array) -> bool:
        """Whether a value that was moved along `tangent` from one in the set is still in it."""
        return True

    def companions(self, name: str, index: tuple[int, ...]) -> str:
        """Describe what moves together with an element; empty if nothing does."""
        return ""


UNCONSTRAINED = Constraint()


@dataclass(frozen=True)
class Symmetric(Constraint):
    """Matrices that equal their transposes, or their adjoints (`conjugate`); the lower triangle is free."""

    conjugate: bool = False

    def violation(self, name: str, value: Array) -> str | None:
        if (message := _not_square(name, value)) is not None:
            return message
        gap = np.abs(value - self._mirrored(value))
        slack = SLACK * value.shape[-1] * ROUNDOFF[value.dtype.name] * np.max(np.abs(_wide(value)), initial=0.0)
        if gap.size == 0 or np.max(gap) <= slack:
            return None
        where = _largest(gap)
        back = (*where[:-2], where[-1], where[-2])
        hermitian = self.conjugate and np.iscomplexobj(value)
        kind, fix = ("Hermitian", "adjoint") if hermitian else ("symmetric", "transpose")
        return (
            f"{name} is not {kind}: {_element(name, where)} is {value[where]}, {_element(name, back)} is "
            f"{value[back]}; give ({name} + {fix}({name})) / 2, or {name} itself to perturb its elements one by one"
        )

    def free(self, value: Array) -> Array:
        marks = np.tril(super().free(value))
        return np.where(np.eye(value.shape[-1], dtype=bool), marks.real, marks) if self.conjugate else marks

    def tangent(self, value: Array, step: Array) -> Array:
        return step + self._mirrored(np.tril(step, -1))

    def adjoint(self, value: Array, gradient: Array) -> Array:
        return gradient + np.tril(self._mirrored(gradient), -1)

    def companions(self, name: str, index: tuple[int, ...]) -> str:
        *batch, row, column = index
        return f"and {_element(name, (*batch, column, row))}" if row != column else ""

    def _mirrored(self, value: Array) -> Array:
        transpose = np.swapaxes(value, -1, -2)
        return np.conj(transpose) if self.conjugate else transpose


@dataclass(frozen=True)
class PositiveDefinite(Symmetric):
    """Hermitian (real: symmetric) matrices with positive eigenvalues."""

    conjugate: bool = True

    def violation(self, name: str, value: Array) -> str | None:
        message = super().violation(name, value)
        if message is not None or value.size == 0:
            return message
        if self.contains(_wide(value)):
            return None
        smallest = np.linalg.eigvalsh(_wide(value))[..., 0]
        where = _largest(-smallest)
        return (
            f"{name} is not positive definite: the smallest eigenvalue of {_element(name, where)} is "
            f"{smallest[where]:.3g}, a positive one was expected; add a multiple of the identity, or give "
            f"gradcheck.symmetric({name})"
        )

    def contains(self, value: Array) -> bool:
        try:
            np.linalg.cholesky(value)
        except np.linalg.LinAlgError:
            return False
        return True


@dataclass(frozen=True)
class Triangular(Constraint):
    """Matrices that are zero above (`lower`) or below the diagonal."""

    lower: bool

    def violation(self, name: str, value: Array) -> str | None:
        if (message := _not_square(name, value)) is not None:
            return message
        rest = np.abs(value - self._part(value))
        if not rest.any():
            return None
        where = _largest(rest)
        word, band = ("lower", "-1, 0") if self.lower else ("upper", "0, -1")
        return (
            f"{name} is not {word} triangular: {_element(name, where)} is {value[where]}, 0 was expected; "
            f"give tf.linalg.band_part({name}, {band}), or {name} itself to perturb all its elements"
        )

    def free(self, value: Array) -> Array:
        return self._part(super().free(value))

    def _part(self, value: Array) -> Array:
        return np.tril(value) if self.lower else np.triu(value)


@dataclass(frozen=True)
class Simplex(Constraint):
    """Vectors along the last axis of positive numbers that sum to one.

    A step D leads to p + D - p sum(D), so that the derivative is g - sum(p g) for a gradient g.
    """

    def violation(self, name: str, value: Array) -> str | None:
        message = _not_real_vector(name, value)
        if message is not None or value.size == 0:
            return message
        where = _largest(-value)
        if not value[where] > 0:
            return (
                f"{name} is not inside the simplex: {_element(name, where)} is {value[where]}, a positive number was "
                "expected; at the boundary there is no step to both sides, give a small number instead of zero"
            )
        totals = np.sum(_wide(value), axis=-1)
        gap = np.abs(totals - 1)
        where = _largest(gap)
        if gap[where] <= value.shape[-1] * SLACK * ROUNDOFF[value.dtype.name]:
            return None
        return (
            f"{name} is not inside the simplex: {_element(name, where)} sums to {totals[where]:.17g}, 1 was "
            "expected; divide by the sum along the last axis"
        )

    def tangent(self, value: Array, step: Array) -> Array:
        return np.asarray(step - value * np.sum(step, axis=-1, keepdims=True))

    def adjoint(self, value: Array, gradient: Array) -> Array:
        return np.asarray(gradient - np.sum(value * gradient, axis=-1, keepdims=True))

    def contains(self, value: Array) -> bool:
        return bool(np.all(value > 0))

    def companions(self, name: str, index: tuple[int, ...]) -> str:
        return "the others giving way in proportion"


@dataclass(frozen=True)
class Increasing(Constraint):
    """Vectors along the last axis whose elements increase strictly."""

    def violation(self, name: str, value: Array) -> str | None:
        message = _not_real_vector(name, value)
        if message is not None or value.shape[-1] < 2 or self.contains(value):
            return message
        where = _largest(-np.diff(_wide(value), axis=-1))
        after = (*where[:-1], where[-1] + 1)
        return (
            f"{name} is not increasing: {_element(name, where)} is {value[where]}, {_element(name, after)} is "
            f"{value[after]}; sort it along the last axis and move equal elements apart"
        )

    def contains(self, value: Array) -> bool:
        return bool(np.all(np.diff(value, axis=-1) > 0))


def _not_square(name: str, value: Array) -> str | None:
    if value.ndim >= 2 and value.shape[-1] == value.shape[-2]:
        return None
    return f"{name} has shape {value.shape}; square matrices, of shape (..., n, n), were expected"


def _not_real_vector(name: str, value: Array) -> str | None:
    if value.ndim >= 1 and not np.iscomplexobj(value):
        return None
    return f"{name} has shape {value.shape} and dtype {value.dtype}; real vectors, of shape (..., n), were expected"


def _wide(value: Array) -> Array:
    return value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)


def _largest(size: Array) -> tuple[int, ...]:
    """The index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(size), size.shape))


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


@dataclass(frozen=True, eq=False)
class Constrained:
    """An input of `check` with its constraint; made by the functions below."""

    value: Any
    constraint: Constraint


def symmetric(value: Any) -> Constrained:
    """Mark a symmetric matrix (..., n, n) for `check`, floating or complex: both elements of a pair move together.

    `check` calls the function with the matrix itself, perturbs it within the symmetric matrices, and names the element
    in the lower triangle. The derivatives compared are those of a pair: the sum of the gradient's two elements. `check`
    raises ValueError, naming the element, where the value is not symmetric within rounding.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(tf.linalg.eigvalsh, symmetric([[2.0, 0.5], [0.5, 1.0]])).verdict)
    agree
    """
    return Constrained(value, Symmetric())


def hermitian(value: Any) -> Constrained:
    """Mark a Hermitian matrix (..., n, n) for `check`: as `symmetric`, with conjugates across a real diagonal.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(tf.linalg.eigvalsh, hermitian([[2.0 + 0j, 0.5j], [-0.5j, 1.0]])).verdict)
    agree
    """
    return Constrained(value, Symmetric(conjugate=True))


def positive_definite(value: Any) -> Constrained:
    """Mark a positive definite matrix (..., n, n) for `check`, symmetric or (complex) Hermitian; steps stay in the set.

    `check` raises ValueError where the value is not symmetric, or has an eigenvalue that is not positive.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(tf.linalg.cholesky, positive_definite([[2.0, 0.5], [0.5, 1.0]]), order=2).verdict)
    agree
    """
    return Constrained(value, PositiveDefinite())


def lower_triangular(value: Any) -> Constrained:
    """Mark a lower triangular matrix (..., n, n) for `check`: the zeros above the diagonal are not perturbed.

    `check` raises ValueError where an element above the diagonal is not zero.
    """
    return Constrained(value, Triangular(lower=True))


def upper_triangular(value: Any) -> Constrained:
    """Mark an upper triangular matrix (..., n, n) for `check`: the zeros below the diagonal are not perturbed."""
    return Constrained(value, Triangular(lower=False))


def simplex(value: Any) -> Constrained:
    """Mark distributions (..., n) for `check`: positive real numbers that sum to one along the last axis, always.

    Where one element gains d, every element p loses p d; the derivative compared is g - sum(p g) for a gradient g.
    `check` raises ValueError where an element is not positive, or the sum is not one within rounding.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(lambda p: tf.reduce_sum(p * tf.math.log(p)), simplex([0.25, 0.75])).verdict)
    agree
    """
    return Constrained(value, Simplex())


def increasing(value: Any) -> Constrained:
    """Mark sorted vectors (..., n) for `check`: real numbers that increase strictly along the last axis, also in steps.

    `check` raises ValueError where two neighbours do not increase.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(lambda x: tf.math.log(x[1:] - x[:-1]), increasing([1.0, 2.0, 4.0])).verdict)
    agree
    """
    return Constrained(value, Increasing())
