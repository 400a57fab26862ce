"""A derivative that somebody's code took, as a problem: replays give the values, its answer is the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, coordinate_count, from_coordinates, to_coordinates
from gradcheck.autodiff.reverse import Gradients, WrongShapeError
from gradcheck.autodiff.sources import Source
from gradcheck.comparison.autodiff_rounding import ulp_rounding
from gradcheck.comparison.lines import Lines, along, slope_estimate
from gradcheck.comparison.probes import SMALL
from gradcheck.comparison.tables import Comparison, Tolerance, compare
from gradcheck.explanation.record import DerivativeCall, Origin, RecordedOperation
from gradcheck.explanation.replay import Code, SourceMove, replayed
from gradcheck.numerics.probing import magnitudes, probe_directions
from gradcheck.result import Verdict

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CallProblem:
    """The targets of `call` as a function of its sources; the sum of them where it is a gradient, each for a Jacobian.

    `sources` (with their `origins`) are those with a floating or complex dtype, each once, and `places` their positions
    among the sources of the call.
    """

    code: Code
    call: DerivativeCall
    sources: tuple[Source, ...]
    origins: tuple[Origin, ...]
    places: tuple[int, ...]

    @cached_property
    def point(self) -> Array:
        return np.concatenate([to_coordinates(source.value) for source in self.sources])

    @property
    def outputs(self) -> int:
        if self.call.method == "gradient":
            return 1
        return int(sum(coordinate_count(t.shape, t.dtype.as_numpy_dtype) for t in self.call.targets))

    @cached_property
    def roundoff(self) -> float:
        names = [source.dtype for source in self.sources] + [target.dtype.name for target in self.call.targets]
        return max(ROUNDOFF.get(name, ROUNDOFF["float64"]) for name in names)

    @property
    def precision(self) -> float:
        return self.roundoff

    @property
    def gradient_roundoff(self) -> float:
        return self.roundoff

    @cached_property
    def terms(self) -> float:
        return float(np.max(np.abs(self.values(self.point[None, :])), initial=0.0))

    @property
    def smooth(self) -> bool:
        return False

    def perturbed(self, draw: int) -> CallProblem:
        """Itself: what somebody's code computes inside is out of reach."""
        return self

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        """The steps as they are: the sources lie in no set."""
        return steps

    def gap(self, cotangents: Array, point: Array) -> Array | None:
        """None: the code has no float64 form."""
        return None

    def values(self, points: Array) -> Array:
        """The outputs (p, m) at points (p, n); NaN where the code throws or does not come to the call."""
        return np.stack([self._value(point) for point in points])

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The answer of the call at the inputs given, or that of a replay at another point."""
        results: Any = self.call.results
        if point is not None:
            results = replayed(self.code, self.call, self.moves(point), answer=True).results
        if results is None:
            shape = (len(cotangents), self.point.size)
            return Gradients(np.full(shape, np.nan), np.ones(shape, bool))
        parts = [self._matrix(results[place], source) for place, source in zip(self.places, self.sources, strict=True)]
        connected = np.concatenate(
            [np.full(p.shape[1], results[i] is not None) for p, i in zip(parts, self.places, strict=True)]
        )
        return Gradients(
            cotangents @ np.concatenate(parts, axis=1), np.broadcast_to(connected, (len(cotangents), self.point.size))
        )

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        """The gradient of <w, f> for one cotangent (m,) at points (p, n); shape (p, n)."""
        return np.concatenate([self.gradients(cotangent[None, :], point).values for point in points])

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """Second derivatives are calls of their own."""
        raise NotImplementedError

    def moves(self, point: Array) -> list[SourceMove]:
        """How far each source has to be moved to come to a point (n,)."""
        found, start = [], 0
        for source, origin in zip(self.sources, self.origins, strict=True):
            part = slice(start, start + source.count)
            start += source.count
            delta = point[part] - self.point[part]
            value = from_coordinates(delta, source.shape, tf.as_dtype(source.dtype).as_numpy_dtype)
            found.append(SourceMove(origin, tf.constant(value) if np.any(delta != 0) else None))
        return found

    def _value(self, point: Array) -> Array:
        replay = replayed(self.code, self.call, self.moves(point))
        outside = np.full(self.outputs, np.nan)
        if replay.target is None:
            return outside
        value = flat_target(replay.target, self.call)
        return value if value.shape == outside.shape else outside

    def _matrix(self, result: Any, source: Source) -> Array:
        """The answer for one source, (m, its coordinates)."""
        if result is None:
            return np.zeros((self.outputs, source.count))
        value = np.asarray(tf.convert_to_tensor(result).numpy())
        if self.call.method == "batch_jacobian":
            value = _spread(value, source)
        expected = self._target_shape() + source.shape
        if value.shape != expected:
            raise WrongShapeError(source.name, f"of shape {value.shape}", f"of shape {expected}")
        return np.reshape(to_coordinates(value), (self.outputs, -1))

    def _target_shape(self) -> tuple[int, ...]:
        return () if self.call.method == "gradient" else tuple(self.call.targets[0].shape)


def flat_target(targets: Sequence[Any], call: DerivativeCall) -> Array:
    """The coordinates of the targets, (m,), or for a gradient their sum, weighted by its output_gradients, (1,)."""
    values = [np.asarray(tf.convert_to_tensor(target).numpy()) for target in targets]
    if call.method != "gradient":
        return np.concatenate([to_coordinates(value) for value in values])
    total = 0.0
    for position, value in enumerate(values):
        weight = None if call.weights is None else call.weights[position]
        weights = np.ones_like(value) if weight is None else np.asarray(tf.convert_to_tensor(weight).numpy())
        total += float(to_coordinates(weights.astype(value.dtype)) @ to_coordinates(value))
    return np.array([total])


def _spread(value: Array, source: Source) -> Array:
    """A batch Jacobian (b, out..., in...) as a whole one (b, out..., b, in...): rows do not depend on one another."""
    count = len(value)
    rank = value.ndim - len(source.shape) + 1
    whole = np.zeros((*value.shape[:rank], count, *value.shape[rank:]), value.dtype)
    for row in range(count):
        np.moveaxis(whole[row], rank - 1, 0)[row] = value[row]
    return whole


FEW = 3
"""So many random lines do while the coordinates are few; two errors cancel on none of them but by a rare accident."""


def plainly_agrees(problem: CallProblem, tolerance: Tolerance, probes: int) -> Comparison | None:
    """The table of the lines where all of them agree at the first look, else None. Raises WrongShapeError."""
    count = FEW if problem.point.size <= SMALL else probes
    if problem.point.size <= FEW or problem.outputs > SMALL:
        return None
    cotangents = np.eye(problem.outputs)
    gradients = problem.gradients(cotangents).values
    if not np.isfinite(gradients).all():
        return None
    directions = probe_directions(np.random.default_rng(0), count, magnitudes(problem.point))
    estimate = slope_estimate(Lines(problem, directions, cotangents, tolerance).sample())
    autodiff = along(directions, gradients)
    table = compare(autodiff, estimate, tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
    if not table.where(Verdict.AGREE).all():
        return None
    contribution = np.max(np.abs(directions[:, None, :] * gradients[None, :, :]), axis=2)
    rows = tuple(range(problem.outputs))
    return replace(table, columns=(None,) * count, rows=rows, contribution=contribution)


NEAR = (2.0**-7, -(2.0**-6))
"""How far, relatively, a source is moved to see what depends on it smoothly."""
FAR = (0.3, -0.3, 1.2, -1.2, 4.0, -4.0)
"""How far it is moved to see what depends on it in steps."""


@dataclass(frozen=True)
class Influence:
    """What changed when the source moved: `near` says whether the targets follow small moves, `far` larger ones."""

    near: bool
    far: bool
    base: Sequence[RecordedOperation]
    moved: Sequence[Sequence[RecordedOperation]]

    def changed(self, number: int, output: int) -> bool | None:
        """Whether an output of an operation changed; None where nobody can tell, such as beyond another branch."""
        answers = [_changed(self.base[number], run[number], output) for run in self.moved if number < len(run)]
        if not answers or None in answers:
            return None
        return any(answers)


def influence(code: Code, call: DerivativeCall, origin: Origin) -> Influence:
    """Move the source, a little and then more, until the targets of the call change."""
    base = code.record.operations
    runs: list[Sequence[RecordedOperation]] = []
    for far, sizes in ((False, NEAR), (True, FAR)):
        for size in sizes:
            replay = replayed(code, call, [SourceMove(origin, _delta(origin.value, size))], events=True)
            run = aligned(base, [event for event in replay.events if isinstance(event, RecordedOperation)])
            if replay.target is None:
                continue
            runs.append(run)
            if not np.array_equal(flat_target(replay.target, call), flat_target(call.targets, call), equal_nan=True):
                return Influence(not far, True, base, [run] if far else runs)
    return Influence(False, False, base, runs[:1])


def unlike(code: Code, call: DerivativeCall) -> str | None:
    """What differs between two runs of the same code, in words; None where they agree."""
    replay = replayed(code, call, [])
    if replay.target is None:
        why = "it came to no such call" if replay.error is None else f"{type(replay.error).__name__}: {replay.error}"
        return f"a second run did not get here: {why}"
    first, second = flat_target(call.targets, call), flat_target(replay.target, call)
    slack = 1e3 * ROUNDOFF.get(call.targets[0].dtype.name, 0.0) * max(1.0, float(np.max(np.abs(first), initial=0.0)))
    if first.shape == second.shape and np.allclose(first, second, rtol=0.0, atol=slack, equal_nan=True):
        return None
    return "two runs differ; fix the seed inside f, and give it data that does not change from run to run"


def aligned(base: Sequence[RecordedOperation], moved: Sequence[RecordedOperation]) -> Sequence[RecordedOperation]:
    """The operations of the second run as far as both did the same."""
    for number, (one, two) in enumerate(zip(base, moved, strict=False)):
        if (one.name, len(one.outputs)) != (two.name, len(two.outputs)):
            return moved[:number]
    return moved[: len(base)]


def _delta(value: Any, size: float) -> Any:
    array = np.asarray(value)
    # Not the same for all elements, or a difference of two of them would not move.
    pattern = 1.0 + np.cos(1.0 + np.arange(array.size)).reshape(array.shape) / 4
    delta = size * pattern * np.maximum(np.abs(array), 0.5)
    return tf.constant(delta.astype(array.dtype))


def _changed(one: RecordedOperation, two: RecordedOperation, output: int) -> bool | None:
    before, after = one.outputs[output], two.outputs[output]
    if before.dtype in (tf.resource, tf.variant) or not hasattr(before, "_numpy"):
        return None
    first, second = np.asarray(before._numpy()), np.asarray(after._numpy())
    return not np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
