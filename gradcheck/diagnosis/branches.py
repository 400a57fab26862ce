"""A branch that is taken at one point alone, as in tf.where(x == 0, 1.0, f(x)), without the slope around it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile, zip_longest

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import element_of, from_coordinates, to_coordinates
from gradcheck.autodiff.reverse import dense
from gradcheck.result import Cause, Diagnosis, Finding
from gradcheck.tracing.kernels import WHERE
from gradcheck.tracing.record import CallSource, HostRead, RecordedEvent, RecordedOperation
from gradcheck.tracing.replay import replayed
from gradcheck.tracing.user_code import at, quoted
from gradcheck.typing import Array

ASIDE = 2.0**-10
"""The relative step to either side of the point."""
SAME = 0.05
"""The part of an error by which the gradient beside the point may differ from the estimate at it."""


def special_branch(source: CallSource, finding: Finding, coordinate: int, lost: float | None) -> Diagnosis | None:
    """Diagnose a gradient that is that of a branch taken at the point alone; None where no branch is.

    On both sides the code takes the same other branch, and the gradients of that are the finding's estimate.
    """
    expected, given = finding.difference, finding.autodiff or 0.0
    if source.call.method != "gradient" or expected is None or not np.isfinite(given):
        return None
    moves = [_moved(source, coordinate, way) for way in (1.0, -1.0)]
    branch = _branch(source.record.before(source.call), [_operations(source, move) for move in moves])
    if branch is None or branch.call is not None:  # what a public function selects may be a known defect
        return None
    slopes = [_slope(source, move, coordinate) for move in moves]
    if any(slope is None or not abs(slope - expected) <= SAME * abs(expected - given) for slope in slopes):
        return None
    index, _ = element_of(coordinate, tuple(source.tensor.shape), np.asarray(source.value).dtype)
    name = source.name + (f"[{', '.join(map(str, index))}]" if index else "")
    value = float(to_coordinates(np.asarray(source.value))[coordinate])
    takes = f"tf.where{at(branch.line)} selects" if branch.name in WHERE else f"the code takes{at(branch.line)}"
    evidence = (
        f"{takes} another branch at {name} = {value:.6g} than on either side of it, with the derivative "
        f"{given:.6g}; beside that point autodiff gives {slopes[0]:.6g}, as differences do at it ({expected:.6g})"
    )
    series = f"f0 + f1 * (x - {value:g})" if value else "f0 + f1 * x"
    remedy = (
        f"give the branch of {quoted(branch.line)} for {value:g} the slope of the other one: in place of a constant "
        f"the first terms of its Taylor series, {series}"
    )
    return Diagnosis(Cause.BRANCH, evidence, remedy, branch.place, lost)


def _moved(source: CallSource, coordinate: int, way: float) -> tuple[CallSource, tf.Tensor]:
    value = np.asarray(source.value)
    point = to_coordinates(value)
    delta = way * ASIDE * max(abs(float(point[coordinate])), 0.5) * np.eye(1, point.size, coordinate)[0]
    return source, tf.constant(from_coordinates(delta, value.shape, value.dtype))


def _operations(source: CallSource, move: tuple[CallSource, tf.Tensor]) -> list[RecordedOperation]:
    replay = replayed(source.record, source.call, [move], with_operations=True)
    return [] if replay.target is None else _of(replay.events)


def _of(events: Sequence[RecordedEvent]) -> list[RecordedOperation]:
    return [event for event in events if isinstance(event, RecordedOperation)]


def _slope(source: CallSource, move: tuple[CallSource, tf.Tensor], coordinate: int) -> float | None:
    """The gradient that the code takes with the source moved."""
    results = replayed(source.record, source.call, [move], with_results=True).results
    taken = None if results is None else dense(results[source.position], source.tensor)
    return None if taken is None else float(to_coordinates(np.asarray(taken.numpy()))[coordinate])


def _branch(events: Sequence[RecordedEvent], sides: Sequence[Sequence[RecordedOperation]]) -> RecordedOperation | None:
    """The first operation that only the point itself runs, or the last tf.where that selects elsewhere beside it."""
    here, found = _of(events), list[RecordedOperation]()
    names, others = [one.name for one in here], [[one.name for one in side] for side in sides]
    if others[0] != others[1]:
        return None
    if names != others[0]:
        pairs = zip_longest(here, others[0])
        first = next((one for one, name in pairs if one is not None and one.name != name), None)
        # Python chooses a branch by a value that it reads; what TensorFlow names anew in each run is no branch.
        read = first is not None and any(
            isinstance(one, HostRead) for one in takewhile(lambda e: e is not first, events)
        )
        return first if read else None
    for one, right, left in zip(here, *sides, strict=True):
        if one.name in WHERE:
            chosen, after, before = (_condition(each) for each in (one, right, left))
            if np.any((chosen != after) & (chosen != before)):
                found.append(one)
    return found[-1] if found else None


def _condition(operation: RecordedOperation) -> Array:
    return np.asarray(operation.inputs[0].numpy())
