"""The interface of a function to a comparison: values for the estimates, and the derivatives under test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import DerivativeRaisedError, Gradients, WrongShapeError, seen
from gradcheck.numerics.probing import directions_at
from gradcheck.numerics.sampling import LinePoints
from gradcheck.typing import Array


class Problem(ABC):
    """A function of n coordinates with m output coordinates, at a point."""

    straight: bool = False
    """Promises that the same operations run at all points, in no loop."""

    @property
    @abstractmethod
    def point(self) -> Array:
        """The coordinates (n,) of the inputs."""

    @property
    def parts(self) -> tuple[slice, ...]:
        """The slice of each source's coordinates; by default there is one source."""
        return (slice(0, self.point.size),)

    @cached_property
    def smallest(self) -> float:
        """The smallest magnitude of a coordinate that is not zero; infinite where all are."""
        sizes = np.abs(self.point)
        return float(np.min(sizes, initial=np.inf, where=sizes > 0))

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number m of output coordinates."""

    @property
    @abstractmethod
    def roundoff(self) -> float:
        """The unit roundoff of the arithmetic behind `values`."""

    @property
    def slope_roundoff(self) -> float:
        """The unit roundoff of the arithmetic behind `gradients_at`."""
        return self.roundoff

    @property
    def precision(self) -> float:
        """The unit roundoff of the derivatives under test."""
        return self.roundoff

    @property
    def in_float64(self) -> Problem | None:
        """The float64 form of a problem whose derivatives are taken in less; None where there is none."""
        return None

    @property
    def same_gradients(self) -> bool:
        """Whether the derivatives of this float64 form use the same formulas as those of the problem itself."""
        return True

    def gaps(self, cotangents: Array, gradients: Array) -> Array | None:
        """The rounding errors (l, n) of gradients in low precision, by the float64 form; None without such a form."""
        form = self.in_float64
        if form is None or not form.same_gradients:
            return None
        try:
            return np.asarray(gradients - form.gradients(cotangents).values)
        except (DerivativeRaisedError, WrongShapeError):
            return None

    @property
    def rounds_inside(self) -> bool:
        """Whether this float64 form can be perturbed by units of the problem's low precision."""
        return False

    @cached_property
    def terms(self) -> float:
        """The largest magnitude that is known to enter a value: the scale of possible cancellation."""
        return float(np.max(np.abs(self.values(self.point[None, :])), initial=0.0))

    def terms_of(self, cotangents: Array) -> Array:
        """The same for combinations of outputs (c, m), shape (c,)."""
        return np.asarray(self.terms * np.max(np.abs(cotangents), axis=1, initial=0.0))

    def directions(self, rng: np.random.Generator, count: int) -> Array:
        """Return random directions (count, n) of each coordinate's own magnitude, from `directions_at`.

        A generator in the same state as at the first draw gets the same array: second order begins with those of first
        order.
        """
        before = count, repr(rng.bit_generator.state)
        if before in self._drawn:
            drawn, rng.bit_generator.state = self._drawn[before]
            return drawn
        drawn = directions_at(rng, count, self.point)
        if not self._drawn:
            self._drawn[before] = drawn, rng.bit_generator.state
        return drawn

    @cached_property
    def _drawn(self) -> dict[tuple[int, str], tuple[Array, Any]]:
        return {}

    @property
    def smooth(self) -> bool:
        """Promises that there is no kink at the point, so that none is looked for."""
        return False

    @property
    def batched(self) -> bool:
        """Whether values at many points cost about as much as at a few, so that a first look with few does not pay."""
        return False

    @property
    def expensive(self) -> bool:
        """Whether there are more than FEW_INPUTS coordinates, and each value is known to take a run of Python code."""
        return False

    def perturbed(self, draw: int) -> Problem:
        """Return the same function with its inner values perturbed at random; itself where they are out of reach.

        Random-rounding perturbation (CESTAC; Vignes 1993): each value moves by a unit in the last place, up or down.
        """
        return self

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        """The largest `steps` (k,) along directions (k, n), reduced where an input would violate its constraint."""
        return steps

    def rounded(self, point: Array) -> Array:
        """A point (n,) rounded to the dtypes of the inputs."""
        return point

    @abstractmethod
    def values(self, points: Array | LinePoints) -> Array:
        """The outputs (p, m) at points (p, n); NaN where they are undefined."""

    def tables(self, cotangent: Array | None = None) -> list[tuple[LinePoints, Array]]:
        """Points on lines, with the values (p, m) there, or the gradients (p, n) of <w, f>, that are remembered."""
        return []

    @abstractmethod
    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The gradients of <w, f> for cotangents w (k, m)."""

    def gradients_at(self, cotangent: Array, points: Array | LinePoints, left: LeftVectors | None = None) -> Array:
        """The gradient of <w, f> for one cotangent (m,) at points (p, n); shape (p, n).

        Or its products with c left vectors; shape (p, c).
        """
        return np.concatenate([seen(self.gradients(cotangent[None, :], point).values, left) for point in points])

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """The second derivative of <w, f> applied to directions (k, n); NaN for a problem of first order alone."""
        return Gradients.undefined(len(directions), self.point.size)
