"""The public API for a check during a training: `spot_check` compares a gradient with a few differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.reverse import shaped
from gradcheck.autodiff.sources import parse_arguments
from gradcheck.check import result_of
from gradcheck.diagnosis.unconnected import nothing_connected, tell_unconnected, without_effect
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.sampling import EPS64, MANTISSA, QUICK, Sample
from gradcheck.options import name_of, refuse_directions, refuse_modes, refuse_uncallable
from gradcheck.result import OrderResult, Reason, Result, Verdict
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.replay import MOVES, Move, displacement
from gradcheck.tracing.state import ChangedState, generators, hidden_state, seeded, state_restored
from gradcheck.training.moved_variables import MovedVariables, not_finite
from gradcheck.training.spot_result import SpotCheck, nothing_compared
from gradcheck.typing import Array
from gradcheck.verdict.lines import slope_estimate, ulp_rounding
from gradcheck.verdict.resolution import MARGIN
from gradcheck.verdict.tables import EXCLUSION, GRANTED

FINER = 2.0**-4
"""Scale of the finer steps that are tried if the usual ones on a line do not agree: a network has many kinks."""

STEP = MANTISSA / 2
"""The largest step on a line, which moves no coordinate by more of its size than any check does."""

COARSE = replace(QUICK, count=7)
"""The stencil for less than float64, which resolves no finer steps."""

BLOCK = 2**13
"""Number of products that are summed at a time: fresh memory for all of them takes longer than the arithmetic."""

LEAST = 0.5
"""Least share, relative to its size, by which a line moves a coordinate in comparison with the others."""


def spot_check(
    loss: Callable[[], Any],
    variables: Any,
    gradient: Callable[[], Any] | None = None,
    *,
    directions: int = 2,
    unconnected: str = "warn",
) -> SpotCheck:
    """Compare the current gradient of a training's loss with differences of the loss along a few directions.

    `loss` takes no arguments and returns the loss of the current batch, a scalar; make it a tf.function if it is called
    often. `gradient` takes no arguments and returns a tensor or None for each of `variables`, as the training's own
    code computes them; by default TensorFlow's gradient of `loss` is taken. It is a function, so that it draws the
    random numbers that the loss draws. The first direction follows the signs of the gradient, so that no entries
    cancel; the others are random. Each takes 16 values of the loss, 4 more if they do not agree. A mismatch is then
    confirmed by `check`, which takes the time it needs, and comes with its cause; if `check` finds nothing, the verdict
    is inconclusive.

    `unconnected`, "warn", "raise" or "ignore", is for variables without a gradient that do not change the loss, as in
    `assert_close`; if all of them are such, the verdict is inconclusive, which raises nothing.

    The variables, other state that the loss changes, and all generators are left as they were; randomness is held
    fixed. The verdict is inconclusive if the loss or a variable is not finite. Raises TypeError and ValueError, naming
    the argument, for what cannot be compared at any point, such as complex variables.

    >>> import tensorflow as tf
    >>> weights = tf.Variable([0.5, -1.0])
    >>> print(spot_check(lambda: tf.reduce_sum(tf.sin(weights) ** 2), [weights]).verdict)
    agree
    """
    refuse_directions(directions)
    refuse_modes(None, unconnected)
    refuse_uncallable(loss, gradient)
    variables = list(variables) if isinstance(variables, Iterator) else variables
    listed = tf.nest.flatten(variables)
    try:
        walk = SpotWalk.of(loss, variables, gradient)
    except ValueError:
        if not (endless := not_finite(listed)):
            raise
        note = f"{endless}, so that there is nothing to compare; start again from finite values"
        return nothing_compared(Reason.NOT_FINITE, note, listed, finite=False)
    found = walk.along(directions).noted(walk.named, partial(recorded, walk.own))
    if found.verdict == Verdict.MISMATCH:
        return found.looked_into(result_of(loss, (), 1, variables, gradient, unused=True))
    tell_unconnected(name_of(loss), found.result, unconnected, "warn", stacklevel=2)
    return found


@dataclass(frozen=True)
class SpotWalk:
    """A loss, its variables, and a function that takes their gradients, one per variable."""

    loss: Callable[[], Any]
    variables: tuple[Any, ...]
    names: tuple[str, ...]
    gradient: Callable[[], Any]

    @staticmethod
    def of(loss: Any, variables: Any, gradient: Any = None) -> SpotWalk:
        """Make a walk of the given arguments. Raises TypeError and ValueError, naming the variable."""
        arguments = parse_arguments((), variables)
        held = tuple(source.variable for source in arguments.sources)

        def given() -> Any:
            taken = tf.nest.flatten(gradient())
            return arguments.ordered(taken) or taken

        names = tuple(source.name for source in arguments.sources)
        walk = SpotWalk(loss, held, names, given)
        return replace(walk, gradient=walk.own) if gradient is None else walk

    @property
    def named(self) -> dict[str, Any]:
        """The variables by their names."""
        return dict(zip(self.names, self.variables, strict=True))

    def own(self) -> Any:
        """TensorFlow's gradient of the loss."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.variables)
            value = self.loss()
        return tape.gradient(value, self.variables)

    def __post_init__(self) -> None:
        for name, variable in zip(self.names, self.variables, strict=True):
            if variable.dtype.is_complex:
                raise TypeError(
                    f"{name} has the dtype {variable.dtype.name}; real variables were expected: for complex ones use "
                    "gradcheck.check(loss, variables=[...])"
                )

    def along(self, directions: int = 2) -> SpotCheck:
        """Compare along the directions alone; a mismatch is only a suspicion so far."""
        with state_restored() as snapshot, ExitStack() as stack:
            before = generators()
            loss = self._scalar()
            used = tuple(generator for generator in before if generator.used)
            changed = ChangedState(snapshot.changed(), used)
            changed.put_back()  # a step may move its variables by hand
            held = changed.besides(self.variables)
            if not np.isfinite(loss):
                return self._at_no_number(loss, self._flat(self.gradient()))
            losses = _Losses.around(self, held)
            if losses is None:
                stack.enter_context(seeded())
                held = ChangedState(held.variables, (*used, generators()[-1]))
                losses = _Losses.around(self, held)
            if losses is None:
                note = f"two losses at the same weights differ; {hidden_state(self._scalar)}"
                return nothing_compared(Reason.NOT_DETERMINISTIC, note, self.variables)
            held.put_back()
            given = self.gradient()
            snapshot.restore()
            found = self._compared(losses, self._flat(given), directions)
            return replace(found, result=self._with_unconnected(found.result, losses, given))

    def _with_unconnected(self, result: Result, losses: _Losses, given: Sequence[Any]) -> Result:
        """Add the names of the variables without a gradient that do not change the loss, either."""
        unmoved = without_effect((place for place, one in enumerate(given) if one is None), losses.change_with)
        orders = {1: nothing_connected(result.orders[1])} if len(unmoved) == len(given) else result.orders
        return replace(result, orders=orders, unconnected=tuple(self.names[place] for place in unmoved))

    def swept(self, line: Any, offsets: Array, held: ChangedState) -> Array:
        """The losses with the variables moved by each offset times the line (n,); they are put back afterwards."""
        around = MovedVariables.of(self.variables, line)
        losses = []
        for offset in offsets:
            around.move(offset)
            held.put_back()
            losses.append(float(self.loss()))
        around.leave()
        return np.array(losses)

    def _flat(self, given: Sequence[Any]) -> Array:
        """The concatenated gradients, zeros for None, (n,) in float64."""
        if len(given) != len(self.variables):
            raise ValueError(
                f"gradient returned {len(given)} values for {len(self.variables)} variables; expected one for each, "
                "which may be None"
            )
        rows = []
        for name, variable, one in zip(self.names, self.variables, given, strict=True):
            dense = np.zeros(variable.shape)
            if one is not None:
                dense = tf.convert_to_tensor(shaped(one, variable)).numpy().astype(np.float64)
            if dense.shape != tuple(variable.shape):
                raise ValueError(
                    f"the gradient of {name} has the shape {dense.shape}; that of the variable was expected, "
                    f"{tuple(variable.shape)}"
                )
            rows.append(dense.ravel())
        return np.concatenate(rows)

    def _scalar(self) -> float:
        value = tf.convert_to_tensor(self.loss())
        if value.shape.rank != 0 or not value.dtype.is_floating:
            raise TypeError(
                f"loss returned {value.dtype.name}{tuple(value.shape)}; a scalar of a floating type was expected: "
                "return the mean or the sum over the batch"
            )
        return float(value)

    def _at_no_number(self, loss: float, gradient: Array) -> SpotCheck:
        """The result where the loss is NaN or infinite."""
        bad = int(np.sum(~np.isfinite(gradient)))
        spoilt = not_finite(self.variables)
        where = spoilt or (
            "look for NaN in the batch; gradcheck.explain(loss, variables=variables) names an operation that causes it"
        )
        note = (
            f"the loss is {loss}, and {bad or 'none'} of the {gradient.size} entries of its gradient are NaN or "
            f"infinite, so that there is nothing to compare; {where}"
        )
        return nothing_compared(Reason.NOT_FINITE, note, self.variables, finite=not (bad or spoilt))

    def _compared(self, losses: _Losses, gradient: Array, directions: int) -> SpotCheck:
        rng = np.random.default_rng(0)
        looks: list[_Look] = []
        for number in range(directions):
            direction = _drawn(rng, losses.sizes, gradient if number == 0 else None)
            line = _Line(losses, direction, tf.constant(direction))
            # If one line had too many kinks for the usual steps, so will the next.
            finer_first = bool(looks) and looks[-1].step < STEP
            looks.append(_Look.of(line, gradient, finer_first=finer_first))
        seen = [look for look in looks if look.conclusive]
        wrong = [look for look in seen if look.wrong]
        finite = bool(np.isfinite(gradient).all())
        verdict = Verdict.MISMATCH if wrong or not finite else Verdict.AGREE if seen else Verdict.INCONCLUSIVE
        # Both numbers are those of the wrong direction, or the largest of all.
        told = [max(wrong, key=lambda look: look.error - look.allowed)] if wrong else seen
        note = f"{gradient.size} derivatives were compared together, along {len(seen)} of {directions} directions"
        order = OrderResult(
            order=1,
            verdict=verdict,
            reasons=() if seen else (Reason.ILL_CONDITIONED,),
            notes=(note,),
            resolution=max((look.noticed for look in told), default=float("nan")),
            relative_resolution=max((look.noticed / look.size for look in told), default=float("nan")),
            compared=gradient.size if seen else 0,
            inconclusive=0 if seen else gradient.size,
        )
        error = max((look.error / look.size for look in told), default=float("nan"))
        return SpotCheck(error, order.relative_resolution, Result({1: order}), finite)


@dataclass(frozen=True)
class _Losses:
    """The losses around the start, where the coordinates have magnitudes `sizes` (n,) and the loss is `centre`.

    Other state that a loss changes, `held`, is put back before each; they scatter by `noise`.
    """

    walk: SpotWalk
    held: ChangedState
    sizes: Array
    centre: float = 0.0
    noise: float = 0.0

    @staticmethod
    def around(walk: SpotWalk, held: ChangedState) -> _Losses | None:
        """Measure the losses around the start; None if two losses at the start differ."""
        point = np.concatenate([variable.numpy().ravel() for variable in walk.variables], dtype=np.float64)
        losses = _Losses(walk, held, magnitudes(point))
        ulp = 2.0 * losses.roundoff
        np.copysign(point, np.random.default_rng(0).random(point.size, np.float32) - 0.5, out=point)
        first, low, high, last = losses.along(tf.constant(point), np.array([0.0, -ulp, ulp, 0.0]))
        if abs(last - first) > EXCLUSION * losses.roundoff * abs(first):
            return None
        return replace(losses, centre=first, noise=max(abs(low - first), abs(high - first)))

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the coarsest variable."""
        return max(ROUNDOFF[variable.dtype.name] for variable in self.walk.variables)

    def change_with(self, places: Sequence[int]) -> bool:
        """Whether the loss changes when the variables at these places are moved together."""
        variables = enumerate(self.walk.variables)
        moved = np.concatenate([np.full(one.shape.num_elements(), place in places) for place, one in variables])
        line = displacement(self.sizes, Move(1.0)) * moved
        values = self.along(tf.constant(line), np.array([move.size for move in MOVES]))
        slack = EXCLUSION * self.roundoff * abs(self.centre) + self.noise
        return bool(np.any(np.abs(values[np.isfinite(values)] - self.centre) > slack))

    def along(self, line: Any, offsets: Array) -> Array:
        """The losses at the start plus each offset times the line (n,), a tensor."""
        return self.walk.swept(line, offsets, self.held)


@dataclass(frozen=True)
class _Line:
    """The losses on a line whose coordinates move by at least LEAST of their sizes, with a cache of known ones."""

    losses: _Losses
    direction: Array
    tensor: Any
    known: dict[float, float] = field(default_factory=dict)

    def sample(self, step: float) -> Sample:
        """Sample the losses from a largest step on."""
        roundoff = self.losses.roundoff
        stencil = QUICK if roundoff <= EPS64 else COARSE
        offsets = step * stencil.offsets[1:]
        # Samples whose steps are multiples by the stencil's ratio share most of their points.
        fresh = np.array([offset for offset in offsets.tolist() if offset not in self.known])
        if fresh.size:
            self.known.update(zip(fresh.tolist(), self.losses.along(self.tensor, fresh).tolist(), strict=True))
        values = np.array([self.losses.centre, *(self.known[offset] for offset in offsets.tolist())])
        one = np.ones(1)
        return Sample(stencil, step * one, values[None, :, None], one / LEAST, roundoff, floor=self.losses.noise)


def _drawn(rng: np.random.Generator, sizes: Array, gradient: Array | None) -> Array:
    """A random direction (n,), each coordinate at least LEAST times its size, with the signs of any gradient given."""
    line = np.empty(sizes.size)
    for first in range(0, sizes.size, BLOCK):
        block = slice(first, first + BLOCK)
        signed = 2 * rng.random(sizes[block].size, np.float32) - 1
        sign = signed if gradient is None else np.where(gradient[block] == 0, signed, gradient[block])
        np.multiply(np.copysign(LEAST + (1 - LEAST) * np.abs(signed), sign), sizes[block], out=line[block])
    return line


def _sums(gradient: Array, line: Array) -> tuple[float, float]:
    """The sum of gradient times line, (n,) each, and the sum of the products' magnitudes."""
    derivative = size = 0.0
    for first in range(0, gradient.size, BLOCK):
        products = gradient[first : first + BLOCK] * line[first : first + BLOCK]
        derivative += float(products.sum())
        size += float(np.abs(products, out=products).sum())
    return derivative, size


@dataclass(frozen=True)
class _Look:
    """The derivative along one direction by autodiff, and its finite-difference estimate within a bound.

    `size` is sum |gradient * direction|, `allowed` the error that would not be noticed, `step` the largest step.
    """

    derivative: float
    estimate: float
    bound: float
    allowed: float
    size: float
    conclusive: bool
    step: float

    @property
    def error(self) -> float:
        """The distance of autodiff from the estimate."""
        return abs(self.derivative - self.estimate)

    @property
    def noticed(self) -> float:
        """The error that would have been noticed, however close the look; a wrong one was noticed by this look."""
        return self.allowed if self.wrong else MARGIN * (GRANTED * self.allowed + self.error)

    @property
    def wrong(self) -> bool:
        """Whether autodiff misses the estimate by more than is allowed."""
        return not self.error <= self.allowed

    @staticmethod
    def of(line: _Line, gradient: Array, *, finer_first: bool) -> _Look:
        """Look with the usual steps, or with finer ones if these cast doubt on the usual ones.

        With `finer_first`, the finer ones are taken first, and are enough if they agree.
        """
        steps = (STEP * FINER, STEP) if finer_first else (STEP, STEP * FINER)
        first = _Look._with(line, gradient, steps[0])
        if first.conclusive and not first.wrong:
            return first
        second = _Look._with(line, gradient, steps[1])
        wide, fine = (second, first) if finer_first else (first, second)
        apart = not abs(wide.estimate - fine.estimate) <= wide.bound + fine.bound
        return fine if fine.conclusive and (not wide.conclusive or apart or fine.wrong) else wide

    @staticmethod
    def _with(line: _Line, gradient: Array, step: float) -> _Look:
        found = slope_estimate(line.sample(step))
        value, bound = float(found.value[0, 0]), float(found.bound[0, 0])
        with np.errstate(invalid="ignore", over="ignore"):
            derivative, size = _sums(gradient, line.direction)
        allowed = EXCLUSION * (bound + float(ulp_rounding(np.array(size), line.losses.roundoff)))
        size = size if size > 0 and np.isfinite(size) else abs(value) or 1.0
        return _Look(derivative, value, bound, allowed, size, bool(found.conclusive[0, 0]), step)
