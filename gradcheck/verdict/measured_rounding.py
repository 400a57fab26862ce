"""Rounding measured by perturbations, once there is a suspicion: of sampled values, and of autodiff's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError, along
from gradcheck.numerics.difference import EXCLUSION, Estimate
from gradcheck.numerics.rounding import PROMISE
from gradcheck.numerics.sampling import EPS64, LinePoints, Sample
from gradcheck.problem.problem import Problem
from gradcheck.tracing.perturbation import choices_of, perturbed_gradients, perturbed_matrices, perturbed_operations
from gradcheck.typing import Array
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.tables import GROSS

Derivative = Callable[[Problem, Array], Array]
"""Returns autodiff's derivatives at a point (n,), for a problem or a perturbed one."""

DRAWS, FIRST_DRAWS = 8, 2
SPREAD = 2.0
"""The largest of DRAWS perturbations may miss the largest possible one by this factor. After FIRST_DRAWS no more are
drawn where all values agree without them, or are too far off."""

Settled = Callable[[Sample], bool]
"""Whether autodiff's values agree with a sample's estimates, or are too far off for rounding to be the cause."""

POINTS = 4
"""Number of perturbed points. After FIRST_DRAWS, no more are tried if every value that is off is grossly off compared
with its changes there."""

NEXT = 64.0
"""Distance of the neighbours, in units in the last place."""

NEAR = 2.0**-8
"""Relative distance of the neighbours at which the rounding of a low-precision derivative is compared."""

NEIGHBOURS = 6
"""The number of neighbours at which the rounding error of a low-precision derivative is measured."""

TOGETHER = (1, 2)
"""Units in the last place by which all coordinates move alike, on either side."""

HELD = 2.0**-6
"""A value that moves by no more than this share of itself is still on the same side of all ties."""

SIDES = 2.0 ** np.array([6.0, 9.0, 12.0, 15.0])
"""Distances, in roundings, of the points that tell the two sides apart."""


def ulp_rounding(autodiff: Array, precision: float) -> Array:
    """The rounding that is granted to every autodiff value without measurement: twice the mixed error of functions."""
    finite = np.where(np.isfinite(autodiff), np.abs(autodiff), 0.0)
    granted: Array = 2 * PROMISE * precision * finite
    return granted


def with_inner_rounding(lines: Lines, *samples: Sample, enough: Settled) -> tuple[Sample, ...]:
    """Raise the error floor of samples of the lines to the effect of perturbing inner values.

    A function that has lost its digits inside may look constant, and its error bound does not show it. So may a
    gradient, so that the backward pass of each operation is perturbed, too. For gradients the forward pass is perturbed
    only where the problem reaches its inner values: elsewhere that would break ties, which moves a gradient but not a
    value. Comparisons are held: another branch is no rounding. Two draws do if `enough` holds for all samples.
    """
    point, changes = lines.problem.point[None, :], list[Array]()
    plain, chosen = lines.values(point)[0], None

    def rounded() -> tuple[Sample, ...]:
        floor = SPREAD * np.max(np.where(np.isfinite(changes), changes, 0.0), axis=0)
        return tuple(replace(sample, floor=np.maximum(sample.floor, floor)) for sample in samples)

    with np.errstate(invalid="ignore", over="ignore"):
        for draw in range(DRAWS):
            if chosen is None and not lines.gradients and lines.problem.perturbed(draw) is lines.problem:
                chosen = choices_of(lambda: lines.values(point))
            with _perturbed(lines.problem, draw, chosen) as noisy:
                changes.append(np.abs(lines.values(point, noisy)[0] - plain))
            if len(changes) == FIRST_DRAWS and all(map(enough, rounded())):
                break
    return rounded()


@contextmanager
def _perturbed(problem: Problem, draw: int, choices: Sequence[Any] | None) -> Iterator[Problem]:
    """Perturb the inner values of a problem in the block; those of its forward pass only with `choices`.

    A problem that reaches its inner values perturbs these itself.
    """
    noisy = problem.perturbed(draw)
    inner = noisy is problem and choices is not None
    operations = perturbed_operations(draw, choices=choices or ()) if inner else perturbed_matrices(draw)
    with perturbed_gradients(draw), operations:
        yield noisy


def inner_rounding(lines: Lines, sample: Sample, places: Array, draw: int) -> Array:
    """Return the change (k, places, m) of a sample's values at some points when inner values are perturbed.

    Other branches may be taken: away from the point a tie is there by chance, and rounding decides it.
    """
    offsets = sample.step[:, None] * sample.stencil.offsets[places]
    points, plain = LinePoints.on(lines.problem.point, lines.directions, offsets), sample.values[:, places]
    with np.errstate(invalid="ignore", over="ignore"), _perturbed(lines.problem, draw, ()) as noisy:
        changes = np.abs(lines.values(points, noisy)[1:].reshape(plain.shape) - plain)
    return np.asarray(np.nan_to_num(changes, posinf=0.0))


class Draws:
    """Derivatives that are drawn one after the other, as they are asked for; one draw per row."""

    def __init__(self, taken: Callable[[int], Array]) -> None:
        self._taken, self._rows = taken, list[Array]()

    def first(self, count: int) -> Array:
        """The derivatives of the first draws."""
        while len(self._rows) < count:
            self._rows.append(self._taken(len(self._rows)))
        return np.stack(self._rows[:count])


@dataclass(frozen=True)
class Neighbourhood:
    """Autodiff's derivatives around the point, from `derivative`, each taken only once; one draw or point per row."""

    problem: Problem
    derivative: Derivative

    @cached_property
    def ulps(self) -> Draws:
        """The values of POINTS draws in which everything moves by one unit in the last place."""
        return self._drawn(np.ones)

    @cached_property
    def neighbours(self) -> Draws:
        """The values a little farther off, where no two coordinates move alike, so that ties break."""
        rng = np.random.default_rng(1)
        return self._drawn(lambda shape: NEXT * rng.uniform(0.1, 1.0, shape))

    @cached_property
    def together(self) -> Array:
        """The values when all coordinates move alike by some units in the last place, so that equal ones stay equal.

        They lie on either side of the point, (2, points, …), and not at it: a value may be wrong there alone.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            return self._on_either_side(2 * self.problem.precision * self.problem.point, TOGETHER)

    @cached_property
    def sides(self) -> Array:
        """The values at points on either side of a line through the point, (2, points, …)."""
        problem, signs = self.problem, np.random.default_rng(2)
        moves = problem.precision * problem.point * signs.choice([-1.0, 1.0], size=problem.point.shape)
        return self._on_either_side(moves, SIDES)

    def _on_either_side(self, moves: Array, distances: Iterable[float]) -> Array:
        """The values at multiples (`distances`) of `moves` (n,) from the point, on either side, (2, points, …)."""
        problem = self.problem
        return np.array(
            [[self.derivative(problem, problem.point + way * far * moves) for far in distances] for way in (1, -1)]
        )

    @cached_property
    def beside_float64(self) -> tuple[Array, Array] | None:
        """The gaps to the values of the float64 form, and the perturbed values of that form; None without one."""
        form = self.problem.in_float64
        if form is None:
            return None
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                moved = np.stack([self.derivative(form.perturbed(draw), form.point) for draw in range(DRAWS)])
                # The distance to another formula is no rounding.
                same = form.same_gradients
                gaps = gaps_to_float64(self.problem, self.derivative, NEIGHBOURS) if same else np.zeros_like(moved[:1])
        except (DerivativeRaisedError, WrongShapeError):
            return None
        return gaps, moved

    def _drawn(self, ulps: Callable[[tuple[int, ...]], Array]) -> Draws:
        """The values at inputs that all move by some units in the last place, up or down.

        Inner values, where they can be reached, and the cotangents between gradient functions are perturbed as well,
        differently each time: cancelling terms leave the rounding of each, which may be alike at all points nearby.
        What a formula loses by itself is its own fault; but a complex result is rounded as a whole, so that one part of
        1 - y * y may have lost the digits that differences of the other part show. A kernel that is correct for a
        matrix close to the given one, such as an inverse or a determinant, is off by its condition number.
        """
        rng, problem = np.random.default_rng(0), self.problem

        def taken(draw: int) -> Array:
            signs = rng.choice([-1.0, 1.0], size=problem.point.shape)
            shift = 2 * problem.precision * signs * ulps(problem.point.shape)
            with (
                np.errstate(invalid="ignore", over="ignore"),
                perturbed_gradients(draw, outputs=_is_complex),
                perturbed_matrices(draw),
            ):
                return self.derivative(problem.perturbed(draw), problem.point * (1 + shift))

        return Draws(taken)


@dataclass(frozen=True)
class OwnRounding:
    """The rounding of autodiff's own values, measured near the point; all arrays are (k, c).

    `around` took the values `autodiff`, or those that `seen` maps to them. `granted` is the rounding that is granted
    without measurement.
    """

    around: Neighbourhood
    autodiff: Array
    granted: Array
    seen: Callable[[Array], Array] | None = None

    def moved(self, outside: Array) -> Array:
        """Return how far the values move when everything moves by one unit in the last place.

        The first draws are enough if their changes are small compared with the distances (`outside`) of all values that
        are off; a single one may be off alike by chance. If all of these are infinite, nothing is drawn.
        """
        off = outside > EXCLUSION * self.granted
        if off.any() and np.isinf(outside[off]).all():
            return np.zeros(off.shape)
        few = self._change(self.around.ulps.first(FIRST_DRAWS if off.any() else 1))
        moved = np.where(few > 0, few, np.max(few, initial=0.0))  # a value that stayed might move as far as another
        far = (moved > 0) & (outside > GROSS * EXCLUSION * np.maximum(moved, self.granted))
        enough = self.around.problem.in_float64 is None and (far | ~off).all()
        return few if enough else self._change(self.around.ulps.first(POINTS))

    def settled(self, estimated: Callable[[Sample], Estimate]) -> Settled:
        """Return a test whether values agree with a sample's estimate, or are too far off for rounding to be the cause.

        A sample that no perturbation of its inner values has moved may be moved by the next one.
        """

        def by(sample: Sample) -> bool:
            estimate, moved = estimated(sample), np.asarray(sample.floor) > 0
            with np.errstate(invalid="ignore", over="ignore"):
                off, bound = np.abs(self.autodiff - estimate.value), estimate.bound + self.granted
                far = moved & ~(off <= GROSS * EXCLUSION * bound)
                return bool((estimate.conclusive & ((off <= bound) | far)).all())

        return by

    def _change(self, rows: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return _largest(np.abs(self._of(rows) - self.autodiff))

    @cached_property
    def lost(self) -> Array:
        """How much of the values low precision may lose, by two measures; zero without a float64 form.

        First, the variation of the gap to the float64 form around the point: rounding changes from point to point even
        where an ulp does not show it (1 - cos(x)**2 near 0); a wrong formula is as wrong at the neighbours. Second, the
        change of that form when its inner values are perturbed by low-precision roundings: as much may be lost at all
        points nearby (the slope of a sigmoid whose value rounds to one), or at a tie that rounding makes.
        """
        if self.around.beside_float64 is None:
            return np.zeros(self.autodiff.shape)
        gaps, moved = map(self._of, self.around.beside_float64)
        with np.errstate(invalid="ignore", over="ignore"):
            # Compared with one another, since perturbed forms have no custom gradient, which the form itself may have.
            return _largest(np.abs([*(gaps - gaps[0]), *(moved - moved[0])]))

    @cached_property
    def in_float64(self) -> Array | None:
        """The values by the same formulas in float64; None without such a form, or if its formulas differ."""
        taken = taken_in_float64(self.around.problem, self.around.derivative)
        return taken if taken is None or self.seen is None else self.seen(taken)

    def at(self, point: Array) -> Array:
        """The values at another point (n,)."""
        taken = self.around.derivative(self.around.problem, point)
        return taken if self.seen is None else self.seen(taken)

    def beside(self, low: Array, high: Array, counts: Array | bool = True) -> Array:
        """Return the rounding of values that should lie between `low` and `high`, where it `counts`; less of others.

        Rounding scatters the values at the neighbours, too: it is at most the distance of the farthest of them from the
        interval. A value that stands alone, among neighbours inside, is wrong; so is one that all neighbours on one
        side share, and none on the other: there a formula changes. No more are drawn once those that were decide.
        """
        with np.errstate(invalid="ignore"):
            outside = np.where(counts, _outside(self.autodiff, low, high), 0.0)
            moved = self.moved(outside)
            rounding = np.maximum(self.granted, moved)
            # Values that are too far off for any excuse need no neighbours. With a float64 form, what low precision
            # loses is granted as well; beside an excuse of that size, a rounding of a hundredth does not count.
            share = 1.0 if self.around.problem.in_float64 is None else EXCLUSION**2
            within = outside <= EXCLUSION * (share * rounding + (high - low))
            excused = within & (outside > EXCLUSION * self.granted) & (moved > self.granted)
            if not excused.any():
                return np.asarray(rounding)
            for draws in range(1, DRAWS + 1):
                near = self._of(self.around.neighbours.first(draws))
                missed, shared = np.max(_outside(near, low, high), axis=0), excused & self._shared(near, low, high)
                if not (shared | (excused & (missed < rounding))).any():
                    break
            if shared.any():
                missed = np.where(shared & self._wrong_on_one_side(low, high), 0.0, missed)
            if self.around.problem.precision > EPS64:
                missed = np.maximum(missed, self._held)
            return np.where(excused, np.maximum(self.granted, np.fmin(rounding, missed)), rounding)

    @cached_property
    def _held(self) -> Array:
        """How far the values move on one side of the point while ties hold; zero where they leave that at the point."""
        sides = np.array([self._of(side) for side in self.around.together])
        left = np.max(np.abs(sides[:, 0] - self.autodiff), axis=0) > HELD * np.abs(self.autodiff)
        return np.where(left, 0.0, _largest(np.ptp(sides, axis=1)))

    def _shared(self, near: Array, low: Array, high: Array) -> Array:
        """Where all values nearby either miss the interval as that at the point does, or do not miss it."""
        own, missed = _missed(self.autodiff, low, high), _missed(near, low, high)
        # Cancelled terms leave zero or a rounding, maybe on one side each; perturbed inside, they leave anything.
        return np.asarray((own != 0) & np.all(_alike(missed, own) | _inside(missed, own), axis=0))

    def _wrong_on_one_side(self, low: Array, high: Array) -> Array:
        """Where the values on one side miss the interval as that at the point does, and those on the other do not."""
        own = _missed(self.autodiff, low, high)
        beside = _missed(np.array([self._of(side) for side in self.around.sides]), low, high)
        one, none = np.all(_alike(beside, own), axis=1), np.all(_inside(beside, own), axis=1)
        return np.asarray(np.any(one & none[::-1], axis=0))

    def twice(self, lines: Lines) -> OwnRounding:
        """The same for the second derivatives along each direction twice."""
        granted = lines.twice(self.granted, bounds=True)
        return OwnRounding(self.around, lines.twice(self.autodiff), granted, lines.twice)

    def _of(self, rows: Array) -> Array:
        return rows if self.seen is None else np.stack([self.seen(row) for row in rows])


def _is_complex(output: Any) -> bool:
    return tf.is_tensor(output) and bool(output.dtype.is_complex)


def _largest(changes: Array) -> Array:
    """The largest finite change of each value over all rows."""
    return np.asarray(np.max(np.where(np.isfinite(changes), changes, 0.0), axis=0))


def _outside(values: Array, low: Array, high: Array) -> Array:
    """The distance of values from an interval; infinite if they are not finite."""
    beyond = np.maximum(np.maximum(low - values, values - high), 0.0)
    return np.asarray(np.where(np.isfinite(values), beyond, np.inf))


def _missed(values: Array, low: Array, high: Array) -> Array:
    """The signed distance of values from an interval."""
    return np.asarray(values - np.clip(values, low, high))


def _alike(missed: Array, own: Array) -> Array:
    return np.asarray((missed >= own / 2) & (missed <= own * 2) | (missed <= own / 2) & (missed >= own * 2))


def _inside(missed: Array, own: Array) -> Array:
    return np.asarray(np.abs(missed) <= np.abs(own) / 8)


def gaps_to_float64(problem: Problem, derivative: Derivative, neighbours: int) -> Array:
    """The low-precision derivative minus the float64 form's, at the point and at `neighbours` other points, by rows."""
    form = problem.in_float64
    assert form is not None
    rng, size = np.random.default_rng(0), problem.point.size
    shifts = [np.zeros(size), *(NEAR * rng.uniform(-1, 1, size) for _ in range(neighbours))]
    points = [problem.rounded(problem.point * (1 + shift)) for shift in shifts]
    return np.stack([derivative(problem, point) - derivative(form, point) for point in points])


def taken_in_float64(problem: Problem, derivative: Derivative) -> Array | None:
    """The derivative of the float64 form at the point; None without such a form, or if its formulas differ."""
    form = problem.in_float64
    if form is None or not form.same_gradients:
        return None
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return derivative(form, form.point)
    except (DerivativeRaisedError, WrongShapeError):
        return None


def slopes(cotangents: Array, directions: Array) -> Derivative:
    """Return the function that takes autodiff's derivatives (k, l) of <w, f> along directions."""
    return lambda problem, point: along(directions, problem.gradients(cotangents, point).values)


def slope_rounding(problem: Problem, autodiff: Array, cotangents: Array, directions: Array) -> OwnRounding:
    """The rounding (k, l) of autodiff's derivatives of <w, f> along directions."""
    granted = ulp_rounding(autodiff, problem.precision)
    return OwnRounding(Neighbourhood(problem, slopes(cotangents, directions)), autodiff, granted)
