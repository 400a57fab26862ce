"""A spot check: a gradient compared with differences of the loss along a few directions through the variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.reverse import shaped
from gradcheck.autodiff.sources import parse_arguments, variable_of
from gradcheck.diagnosis.unconnected import nothing_connected, unconnected_notes, without_effect
from gradcheck.numerics.difference import EXCLUSION
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.sampling import EPS64, MANTISSA, MANY, QUICK, Sample, slices
from gradcheck.result import NoTruth, OrderResult, Reason, Result, Verdict
from gradcheck.tracing.record import CodeRecord
from gradcheck.tracing.replay import MOVES, Move, displacement
from gradcheck.tracing.state import ChangedState, generators, hidden_state, seeded, state_restored
from gradcheck.typing import Array
from gradcheck.verdict.looks import slope_estimate
from gradcheck.verdict.measured_rounding import ulp_rounding
from gradcheck.verdict.resolution import MARGIN
from gradcheck.verdict.summary import undecided
from gradcheck.verdict.tables import GRANTED, Comparison, Tolerance, compare

FINER = 2.0**-4
"""Scale of the finer steps that are tried if the usual ones on a line do not agree: a network has many kinks."""

STEP = MANTISSA / 2
"""The largest step on a line, which moves no coordinate by more of its size than any check does."""

COARSE = replace(QUICK, count=7)
"""The stencil for less than float64, which resolves no finer steps."""

LEAST = 0.5
"""Least share, relative to its size, by which a line moves a coordinate in comparison with the others."""

NAMED = 3
"""The number of variables that are not finite that are named."""


@dataclass(frozen=True)
class SpotCheck(NoTruth):
    """A gradient compared with differences of the loss along a few directions.

    `error` is the largest difference between the two, `resolution` the smallest error that would have been noticed,
    both relative to sum |gradient * direction|, and of the worst direction where one is wrong; NaN where nothing could
    be compared. `result` is the verdict, that of a whole `check` where the few directions raised a suspicion. `finite`
    is False where the gradient, or a variable, held NaN or infinity.
    """

    error: float
    resolution: float
    result: Result
    finite: bool = True

    @property
    def verdict(self) -> Verdict:
        """The verdict of `result`."""
        return self.result.verdict

    def noted(self, variables: Mapping[str, Any], recorded: Callable[[], CodeRecord]) -> SpotCheck:
        """Add a note on each unconnected variable; `recorded` returns the record of a run that takes the gradient."""
        named = [(name, variables[name]) for name in self.result.unconnected]
        order = self.result.orders[1]
        order = replace(order, notes=(*order.notes, *unconnected_notes(recorded, named, "the loss")))
        return replace(self, result=replace(self.result, orders={1: order}))

    def looked_into(self, closer: Result) -> SpotCheck:
        """Return the same with the result of a whole check, which confirms the suspicion, or leaves it undecided.

        An agreement does not refute it: errors of many entries cancel in the check's random combinations.
        """
        order = closer.orders[1]
        if order.verdict == Verdict.AGREE:
            note = (
                "along one direction the gradient disagrees with the differences of the loss, but the random "
                "combinations that gradcheck.check compares do not show which entries are wrong: call it with more "
                "probes=, or with fewer variables at once"
            )
            entries = order.compared + order.inconclusive
            doubted = replace(order, verdict=Verdict.INCONCLUSIVE, reasons=(Reason.ILL_CONDITIONED,))
            order = replace(doubted, compared=0, inconclusive=entries, notes=(*order.notes, note))
        return replace(self, result=replace(closer, orders={1: order}, unconnected=self.result.unconnected))

    def __str__(self) -> str:
        measured = f"error {self.error:.1e}, an error of {self.resolution:.1e} would have been noticed"
        return f"{self.result}\n{measured if np.isfinite(self.error) else 'no direction could be compared'}"


def nothing_compared(reason: Reason, note: str, variables: Sequence[Any], *, finite: bool = True) -> SpotCheck:
    """The result where the loss or its variables leave nothing to compare; the note says why."""
    unique = {id(held): held.shape.num_elements() for held in map(variable_of, variables) if held is not None}
    order = replace(undecided(1, reason, note), inconclusive=sum(unique.values()))
    return SpotCheck(float("nan"), float("nan"), Result({1: order}), finite)


def not_finite(variables: Sequence[Any]) -> str:
    """Describe which of the variables, Keras's or TensorFlow's, hold NaN or infinity; "" if none does."""
    endless: dict[int, Any] = {}
    for item in variables:
        held = variable_of(item)
        if held is not None and held.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(held)):
            endless.setdefault(id(held), item)
    names = [getattr(item, "path", None) or item.name for item in endless.values()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} hold{'s' * (len(names) == 1)} NaN or infinity" if names else ""


@dataclass(frozen=True)
class MovedVariables:
    """Variables with their original values, and their displacements for the offset 1; also in a graph."""

    variables: Sequence[Any]
    start: Sequence[Any]
    moves: Sequence[Any]

    @staticmethod
    def of(variables: Sequence[Any], line: Any) -> MovedVariables:
        """Return the same for a line (n,) in all of their coordinates."""
        parts = tf.split(line, [variable.shape.num_elements() for variable in variables])
        moves = [tf.reshape(tf.cast(part, one.dtype), one.shape) for part, one in zip(parts, variables, strict=True)]
        return MovedVariables(variables, [variable.read_value() for variable in variables], moves)

    def move(self, offset: Any) -> None:
        """Set the variables to their original values plus the offset times the displacements."""
        for variable, value, move in zip(self.variables, self.start, self.moves, strict=True):
            variable.assign(value + tf.cast(offset, move.dtype) * move)

    def leave(self) -> None:
        """Set the variables to their original values."""
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)


@dataclass(frozen=True)
class SpotWalk:
    """A loss, its variables, and a function that takes their gradients, one per variable.

    `in_graph` takes the losses along a line in one run of a graph, as `swept` does.
    """

    loss: Callable[[], Any]
    variables: tuple[Any, ...]
    names: tuple[str, ...]
    gradient: Callable[[], Any]
    in_graph: Callable[[Any, Array, ChangedState], Array] | None = None

    @staticmethod
    def of(loss: Any, variables: Any, gradient: Any = None) -> SpotWalk:
        """Make a walk of the given arguments. Raises TypeError and ValueError, naming the variable."""
        arguments = parse_arguments((), variables)

        def given() -> Any:
            taken = tf.nest.flatten(gradient())
            return arguments.ordered(taken) or taken

        held, names = zip(*((source.variable, source.name) for source in arguments.sources), strict=True)
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
        if self.in_graph is not None and not held.generators:  # their state is not TensorFlow's to put back
            return self.in_graph(line, offsets, held)
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
            # If one line had too many kinks for the usual steps, so will the next.
            finer_first = bool(looks) and looks[-1].step < STEP
            looks.append(losses.compared(direction, gradient, finer_first=finer_first))
        seen = [look for look in looks if look.verdict != Verdict.INCONCLUSIVE]
        wrong = [look for look in seen if look.verdict == Verdict.MISMATCH]
        finite = bool(np.isfinite(gradient).all())
        verdict = Verdict.MISMATCH if wrong or not finite else Verdict.AGREE if seen else Verdict.INCONCLUSIVE
        # Both numbers are those of the wrong direction, or the largest of all.
        shown = [max(wrong, key=lambda look: look.error - look.allowed)] if wrong else seen
        note = f"{gradient.size} derivatives were compared together, along {len(seen)} of {directions} directions"
        order = OrderResult(
            order=1,
            verdict=verdict,
            reasons=() if seen else (Reason.ILL_CONDITIONED,),
            notes=(note,),
            resolution=max((look.noticed for look in shown), default=float("nan")),
            relative_resolution=max((look.noticed / look.size for look in shown), default=float("nan")),
            compared=gradient.size if seen else 0,
            inconclusive=0 if seen else gradient.size,
        )
        error = max((look.error / look.size for look in shown), default=float("nan"))
        return SpotCheck(error, order.relative_resolution, Result({1: order}), finite)


@dataclass(frozen=True)
class _Look:
    """Autodiff compared with a difference along one direction: the `verdict`, its `error`, and what is `allowed`.

    `size` is sum |gradient * direction|, `step` the largest step.
    """

    verdict: Verdict
    error: float
    allowed: float
    size: float
    step: float

    @property
    def noticed(self) -> float:
        """The error that would have been noticed, however close the look; a wrong one was noticed by this look."""
        wrong = self.verdict == Verdict.MISMATCH
        return self.allowed if wrong else MARGIN * (GRANTED * self.allowed + self.error)


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
        first, low, high, last = walk.swept(tf.constant(point), np.array([0.0, -ulp, ulp, 0.0]), held)
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
        values = self.walk.swept(tf.constant(line), np.array([move.size for move in MOVES]), self.held)
        slack = EXCLUSION * self.roundoff * abs(self.centre) + self.noise
        return bool(np.any(np.abs(values[np.isfinite(values)] - self.centre) > slack))

    def compared(self, direction: Array, gradient: Array, *, finer_first: bool) -> _Look:
        """Compare along a direction (n,) with the usual steps, or with finer ones if these leave a doubt.

        With `finer_first`, the finer ones are taken first, and are enough if they agree.
        """
        line, known = tf.constant(direction), {0.0: self.centre}
        with np.errstate(invalid="ignore", over="ignore"):
            derivative, size = _sums(gradient, direction)
        rounding = ulp_rounding(np.array([[size]]), self.roundoff)

        def look(step: float) -> Comparison:
            estimate = slope_estimate(self._sample(line, step, known))
            return compare(np.array([[derivative]]), estimate, Tolerance(), rounding, factor=EXCLUSION)

        steps = (STEP * FINER, STEP) if finer_first else (STEP, STEP * FINER)
        table, step = look(steps[0]), steps[0]
        if not table.any(Verdict.AGREE):
            other = look(steps[1])
            wide, fine = (other, table) if finer_first else (table, other)
            apart = not abs(wide.difference - fine.difference) <= wide.bound + fine.bound
            agrees = fine.any(Verdict.AGREE) and (apart or wide.any(Verdict.INCONCLUSIVE))
            table, step = (fine, STEP * FINER) if agrees or fine.any(Verdict.MISMATCH) else (wide, STEP)
        value, allowed = float(table.difference[0, 0]), float(table.allowed[0, 0])
        size = size if size > 0 and np.isfinite(size) else abs(value) or 1.0
        return _Look(Verdict(table.verdict[0, 0]), abs(derivative - value), allowed, size, step)

    def _sample(self, line: Any, step: float, known: dict[float, float]) -> Sample:
        """Sample the losses on a line from a largest step on; `known` are those at earlier offsets."""
        stencil = QUICK if self.roundoff <= EPS64 else COARSE
        offsets = (step * stencil.offsets).tolist()
        # Samples whose steps are multiples by the stencil's ratio share most of their points.
        fresh = np.array([offset for offset in offsets if offset not in known])
        if fresh.size:
            known.update(zip(fresh.tolist(), self.walk.swept(line, fresh, self.held).tolist(), strict=True))
        values, one = np.array([known[offset] for offset in offsets]), np.ones(1)
        return Sample(stencil, step * one, values[None, :, None], one / LEAST, self.roundoff, floor=self.noise)


def _drawn(rng: np.random.Generator, sizes: Array, gradient: Array | None) -> Array:
    """A random direction (n,), each coordinate at least LEAST times its size, with the signs of any gradient given."""
    line = np.empty(sizes.size)
    for block in slices(sizes.size, MANY):
        signed = 2 * rng.random(sizes[block].size, np.float32) - 1
        sign = signed if gradient is None else np.where(gradient[block] == 0, signed, gradient[block])
        np.multiply(np.copysign(LEAST + (1 - LEAST) * np.abs(signed), sign), sizes[block], out=line[block])
    return line


def _sums(gradient: Array, line: Array) -> tuple[float, float]:
    """The sum of gradient times line, (n,) each, and the sum of the products' magnitudes."""
    derivative = size = 0.0
    for block in slices(gradient.size, MANY):
        products = gradient[block] * line[block]
        derivative += float(products.sum())
        size += float(np.abs(products, out=products).sum())
    return derivative, size
