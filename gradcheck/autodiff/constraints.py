"""Inputs that stay in a set while they are perturbed: symmetric and triangular matrices, distributions, sorted vectors.

Every set here is open in an affine space. The free coordinates are some of the tensor's own real coordinates; moving
them moves the others linearly (`spread`), and a derivative with respect to the whole tensor is brought to them by the
adjoint of that map (`fold`), in NumPy: TensorFlow's gradients of such a map are not what is under test. Points outside
of the set are no points at which the function has a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF

Array = np.ndarray[Any, Any]

SLACK = 32.0
"""So many roundings, times the number of terms, a value may be off its set: inverses and sums are rounded."""


class Set:
    """A set of tensors; all methods take and return tensors (of any leading batch dimensions) unless said otherwise."""

    def complaint(self, name: str, value: Array) -> str | None:
        """What is wrong with a value that does not lie in the set, what was expected and what to do; None if it does.

        `value` may be of low precision; its own dtype says how well it can lie in the set.
        """
        raise NotImplementedError

    def marked(self, value: Array) -> Array:
        """A tensor whose non-zero real coordinates are free."""
        return np.full(value.shape, 1 + 1j if np.iscomplexobj(value) else 1.0)

    def spread(self, value: Array, move: Array) -> Array:
        """How the tensor moves from `value` when its free coordinates move, the others in `move` being zero."""
        return move

    def fold(self, value: Array, gradient: Array) -> Array:
        """The adjoint of `spread`: what is found at the free coordinates is the derivative with respect to them."""
        return gradient

    def holds(self, value: Array) -> bool:
        """Whether a value that moved from one in the set is still inside."""
        return True

    def also(self, name: str, index: tuple[int, ...]) -> str:
        """What moves together with an element, in words; empty if nothing does."""
        return ""


@dataclass(frozen=True)
class Symmetric(Set):
    """Matrices that equal their transposes, or their adjoints (`conjugate`); the lower triangle is free."""

    conjugate: bool = False

    def complaint(self, name: str, value: Array) -> str | None:
        shape = _no_square(name, value)
        if shape is not None:
            return shape
        gap = np.abs(value - self._mirrored(value))
        if gap.size == 0 or np.max(gap) <= _slack(value):
            return None
        where = _place(gap)
        back = (*where[:-2], where[-1], where[-2])
        hermitian = self.conjugate and np.iscomplexobj(value)
        kind, fix = ("Hermitian", "adjoint") if hermitian else ("symmetric", "transpose")
        return (
            f"{name} is not {kind}: {_element(name, where)} is {value[where]}, {_element(name, back)} is "
            f"{value[back]}; give ({name} + {fix}({name})) / 2, or {name} itself to perturb its elements one by one"
        )

    def marked(self, value: Array) -> Array:
        marks = np.tril(super().marked(value))
        return np.where(np.eye(value.shape[-1], dtype=bool), marks.real, marks) if self.conjugate else marks

    def spread(self, value: Array, move: Array) -> Array:
        return move + self._mirrored(np.tril(move, -1))

    def fold(self, value: Array, gradient: Array) -> Array:
        return gradient + np.tril(self._mirrored(gradient), -1)

    def also(self, name: str, index: tuple[int, ...]) -> str:
        *batch, row, column = index
        return f"and {_element(name, (*batch, column, row))}" if row != column else ""

    def _mirrored(self, value: Array) -> Array:
        turned = np.swapaxes(value, -1, -2)
        return np.conj(turned) if self.conjugate else turned


@dataclass(frozen=True)
class PositiveDefinite(Symmetric):
    """Hermitian (real: symmetric) matrices with positive eigenvalues."""

    conjugate: bool = True

    def complaint(self, name: str, value: Array) -> str | None:
        asymmetric = super().complaint(name, value)
        if asymmetric is not None or value.size == 0:
            return asymmetric
        if self.holds(_wide(value)):
            return None
        smallest = np.linalg.eigvalsh(_wide(value))[..., 0]
        where = tuple(int(i) for i in np.unravel_index(np.argmin(smallest), smallest.shape))
        return (
            f"{name} is not positive definite: the smallest eigenvalue of {_element(name, where)} is "
            f"{smallest[where]:.3g}, a positive one was expected; add a multiple of the identity, or give "
            f"gradcheck.symmetric({name})"
        )

    def holds(self, value: Array) -> bool:
        try:
            np.linalg.cholesky(value)
        except np.linalg.LinAlgError:
            return False
        return True


@dataclass(frozen=True)
class Triangular(Set):
    """Matrices that are zero above (`lower`) or below the diagonal."""

    lower: bool

    def complaint(self, name: str, value: Array) -> str | None:
        shape = _no_square(name, value)
        if shape is not None:
            return shape
        rest = np.abs(value - self._part(value))
        if not rest.any():
            return None
        where = _place(rest)
        word, band = ("lower", "-1, 0") if self.lower else ("upper", "0, -1")
        return (
            f"{name} is not {word} triangular: {_element(name, where)} is {value[where]}, 0 was expected; "
            f"give tf.linalg.band_part({name}, {band}), or {name} itself to perturb all its elements"
        )

    def marked(self, value: Array) -> Array:
        return self._part(super().marked(value))

    def _part(self, value: Array) -> Array:
        return np.tril(value) if self.lower else np.triu(value)


@dataclass(frozen=True)
class Simplex(Set):
    """Vectors along the last axis of positive numbers that sum to one; what one element gains, all give in proportion.

    Moves by D go to p + D - p sum(D), so that the derivative is g - sum(p g) for a gradient g.
    """

    def complaint(self, name: str, value: Array) -> str | None:
        shape = _no_real_vector(name, value)
        if shape is not None or value.size == 0:
            return shape
        where = _place(-value)
        if not value[where] > 0:
            return (
                f"{name} lies not inside the simplex: {_element(name, where)} is {value[where]}, a positive number was "
                "expected; at the boundary there is no step to both sides, give a small number instead of zero"
            )
        totals = np.sum(_wide(value), axis=-1)
        gap = np.abs(totals - 1)
        where = _place(gap)
        if gap[where] <= value.shape[-1] * SLACK * ROUNDOFF[value.dtype.name]:
            return None
        return (
            f"{name} lies not inside the simplex: {_element(name, where)} sums to {totals[where]:.17g}, 1 was "
            "expected; divide by the sum along the last axis"
        )

    def spread(self, value: Array, move: Array) -> Array:
        spread: Array = move - value * np.sum(move, axis=-1, keepdims=True)
        return spread

    def fold(self, value: Array, gradient: Array) -> Array:
        folded: Array = gradient - np.sum(value * gradient, axis=-1, keepdims=True)
        return folded

    def holds(self, value: Array) -> bool:
        return bool(np.all(value > 0))

    def also(self, name: str, index: tuple[int, ...]) -> str:
        return "the others giving way in proportion"


@dataclass(frozen=True)
class Increasing(Set):
    """Vectors along the last axis whose elements increase strictly."""

    def complaint(self, name: str, value: Array) -> str | None:
        shape = _no_real_vector(name, value)
        if shape is not None or value.shape[-1] < 2 or self.holds(value):
            return shape
        where = _place(-np.diff(_wide(value), axis=-1))
        after = (*where[:-1], where[-1] + 1)
        return (
            f"{name} is not increasing: {_element(name, where)} is {value[where]}, {_element(name, after)} is "
            f"{value[after]}; sort it along the last axis and move equal elements apart"
        )

    def holds(self, value: Array) -> bool:
        return bool(np.all(np.diff(value, axis=-1) > 0))


def _no_square(name: str, value: Array) -> str | None:
    if value.ndim >= 2 and value.shape[-1] == value.shape[-2]:
        return None
    return f"{name} has shape {value.shape}; square matrices, of shape (..., n, n), were expected"


def _no_real_vector(name: str, value: Array) -> str | None:
    if value.ndim >= 1 and not np.iscomplexobj(value):
        return None
    return f"{name} has shape {value.shape} and dtype {value.dtype}; real vectors, of shape (..., n), were expected"


def _slack(value: Array) -> float:
    return float(SLACK * value.shape[-1] * ROUNDOFF[value.dtype.name] * np.max(np.abs(_wide(value)), initial=0.0))


def _wide(value: Array) -> Array:
    return value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)


def _place(size: Array) -> tuple[int, ...]:
    """Where the largest element is."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(size), size.shape))


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


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
    >>> print(check(tf.linalg.eigvalsh, symmetric([[2.0, 0.5], [0.5, 1.0]])).verdict)
    agree
    """
    return Structured(value, Symmetric())


def hermitian(value: Any) -> Structured:
    """A Hermitian matrix (..., n, n) for `check`: as `symmetric`, with conjugates across a real diagonal.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(tf.linalg.eigvalsh, hermitian([[2.0 + 0j, 0.5j], [-0.5j, 1.0]])).verdict)
    agree
    """
    return Structured(value, Symmetric(conjugate=True))


def positive_definite(value: Any) -> Structured:
    """A positive definite matrix (..., n, n) for `check`, symmetric or (complex) Hermitian; steps stay in the set.

    `check` raises ValueError where the value is not symmetric, or has an eigenvalue that is not positive.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(tf.linalg.cholesky, positive_definite([[2.0, 0.5], [0.5, 1.0]]), order=2).verdict)
    agree
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
    >>> print(check(lambda p: tf.reduce_sum(p * tf.math.log(p)), simplex([0.25, 0.75])).verdict)
    agree
    """
    return Structured(value, Simplex())


def increasing(value: Any) -> Structured:
    """Sorted vectors (..., n) for `check`: real numbers that increase strictly along the last axis, and keep doing so.

    `check` raises ValueError where two neighbours do not increase.

    >>> import tensorflow as tf
    >>> from gradcheck import check
    >>> print(check(lambda x: tf.math.log(x[1:] - x[:-1]), increasing([1.0, 2.0, 4.0])).verdict)
    agree
    """
    return Structured(value, Increasing())
