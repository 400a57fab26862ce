"""Surrogate gradients, such as straight-through estimators: derivatives that are not meant to be those of the value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import from_coordinates, to_coordinates
from gradcheck.diagnosis.held_values import kept_on_purpose, marks
from gradcheck.diagnosis.paths import dependency_path
from gradcheck.diagnosis.rules import SHOWN, written
from gradcheck.result import Cause, Diagnosis, Finding
from gradcheck.tracing.kernels import GRADIENT_NONE, STEPS, STOPPING, STRAIGHT_THROUGH
from gradcheck.tracing.record import CallSource, CodeRecord, RecordedOperation
from gradcheck.tracing.replay import replayed, target_value
from gradcheck.tracing.state import state_restored
from gradcheck.tracing.user_code import at, definition_of, listed, place_of, quoted, short

SURROGATE = "a surrogate; if that is meant, nothing is wrong"
STEP = 2.0**-7
"""The larger of two relative steps on either side."""
EXPLAINED = 0.05
"""The part of an error that may remain where stop_gradient explains it."""


def _on_path(source: CallSource) -> list[RecordedOperation]:
    """The operations between a source and the targets by the structure of the code."""
    record, call = source.record, source.call
    path = dependency_path(record.before(call), call.targets, source.tensor, lambda number, output: None)
    return [record.operations[number] for number in path.operations]


def surrogate_on_path(source: CallSource) -> str:
    """Name the surrogates between a source and the targets, where no difference can tell; empty if there are none."""
    found, names = [], []
    for one in _on_path(source):
        if one.name in STOPPING and written(one):
            found.append(f"tf.stop_gradient{at(one.line)} lets the value through, not the gradient")
            names += [] if one.line is None else [short(one.line)]
        elif _rounds(one):
            found.append(f"{one.name}{at(one.line)} rounds, and its gradient passes as if it did not")
        elif one.custom_gradient is not None and (step := _step_inside(source.record, one)) is not None:
            name = one.custom_gradient.func.__name__
            found.append(f"{name}{at(one.line)} moves only in steps, by {step.name}, and has a custom gradient")
            names.append(name)
    return f"{listed(list(dict.fromkeys(found))[:SHOWN])}: {meant(*names)}" if found else ""


def meant(*names: str) -> str:
    """Say that a surrogate may be meant, and how to mark those with names: of functions, or of lines."""
    return SURROGATE + marks(*names)


def surrogate(
    source: CallSource, finding: Finding, place: tuple[int, int] | None, lost: float | None
) -> Diagnosis | None:
    """Diagnose a wrong value that is right as long as what stop_gradient stops is held; None where it is not.

    `place` is the row and the coordinate of the finding. Without it the code's structure alone decides.
    """
    stops, held = [one for one in _on_path(source) if one.name in STOPPING], ""
    stops = [one for one in stops if written(one)] or stops
    given, expected = finding.autodiff, finding.difference
    if not stops or given is None or expected is None:
        return None
    if place is not None:

        def explained(stops: Sequence[RecordedOperation]) -> bool:
            return bool(stops) and abs(_slope(source, stops, *place) - given) <= EXPLAINED * abs(expected - given)

        if not explained(stops):
            return None
        lines = list(dict.fromkeys(one.line for one in stops))
        for line in lines if len(lines) <= SHOWN else ():
            without = [one for one in stops if one.line != line]
            stops = without if explained(without) else stops
        held = f": with its value held, differences give {given:.4g}, too; without that, the estimate is {expected:.4g}"
    lines = list(dict.fromkeys(one.line for one in stops))[:SHOWN]
    own = "tf.stop_gradient" if written(stops[0]) else "a tf.stop_gradient inside of what is called"
    evidence = f"{own}{' and'.join(map(at, lines))} lets the value through, not the gradient{held}"
    marks = meant(*(short(line) for line in lines if line is not None))
    remedy = f"{marks}; otherwise leave tf.stop_gradient out of {listed(list(map(quoted, lines)))}"
    remedy = (len(lines) == 1 and kept_on_purpose(source, stops[0])) or remedy
    return Diagnosis(Cause.STOP_GRADIENT, evidence, remedy, stops[0].place, lost)


def _slope(source: CallSource, stops: Collection[RecordedOperation], row: int, coordinate: int) -> float:
    """The derivative of a row of the targets along a coordinate, by differences, with the values of some stops held."""
    held = replace(source, kept=source.kept | {one.number for one in stops})
    value = np.asarray(source.value)
    point = to_coordinates(value)
    step = STEP * max(abs(float(point[coordinate])), 0.5)

    def at_distance(distance: float) -> float:
        delta = from_coordinates(distance * np.eye(1, point.size, coordinate)[0], value.shape, value.dtype)
        targets = replayed(source.record, source.call, [(held, tf.constant(delta))]).target
        found = np.full(row + 1, np.nan) if targets is None else target_value(targets, source.call)
        return float(found[row])

    wide, near = ((at_distance(one) - at_distance(-one)) / (2 * one) for one in (step, step / 2))
    return (4 * near - wide) / 3


def as_surrogate(record: CodeRecord, operation: RecordedOperation, finding: Finding, found: Diagnosis) -> Diagnosis:
    """Return the diagnosis of a wrong operation as that of a surrogate, if its value says so."""
    why, custom = _why(record, operation, finding), operation.custom_gradient
    marks = meant(*([] if custom is None else [custom.func.__name__]))
    return (
        replace(found, evidence=f"{found.evidence}; {why}", remedy=f"{marks}; otherwise {found.remedy}")
        if why
        else found
    )


def _why(record: CodeRecord, operation: RecordedOperation, finding: Finding) -> str:
    """Why the derivative of an operation is a surrogate; empty if nothing shows that."""
    if _rounds(operation):
        return f"{operation.name} rounds, and its gradient is meant to pass as if it did not"
    if operation.custom_gradient is None:
        return ""
    if _is_identity(operation):
        return "it returns its argument unchanged"
    if abs(finding.difference or 0.0) > 2 * (finding.bound or 0.0):
        return ""
    step = _step_inside(record, operation)
    return "" if step is None else f"its value moves only in steps, by {step.name}{at(step.line)}"


def _is_identity(operation: RecordedOperation) -> bool:
    """Whether a function under tf.custom_gradient returns one of its arguments, here and at a moved point.

    One point cannot tell: at zero, the sum of x and sin(x) is x, too.
    """
    rng, moved = np.random.default_rng(0), list(operation.inputs)
    places = [one for one in operation.movable(1) if _is_number(moved[one])]
    same = [one for one in places if _equal(operation.outputs[0], moved[one])]
    if not same:
        return False
    for place in places:
        value = moved[place].numpy()
        step = STEP * np.maximum(np.abs(value), 0.5) * rng.uniform(0.5, 1.0, value.shape)
        moved[place] = tf.constant((value + step).astype(value.dtype))
    with state_restored():
        outputs = operation.rerun_if_it_can(moved)
    return outputs is not None and any(_equal(outputs[0], moved[one]) for one in same)


def _is_number(tensor: Any) -> bool:
    """Whether a tensor has values that can be moved."""
    return hasattr(tensor, "_numpy") and bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _equal(tensor: Any, other: Any) -> bool:
    return hasattr(tensor, "_numpy") and np.array_equal(tensor.numpy(), other.numpy())


def surrogate_among(
    record: CodeRecord, operations: Sequence[RecordedOperation], lost: float | None
) -> Diagnosis | None:
    """Diagnose the first of some operations that no difference can tell to be wrong, but whose value moves in steps."""
    for one in operations:
        if _rounds(one):
            evidence = f"{one.name}{at(one.line)} rounds, and its gradient is meant to pass as if it did not"
            remedy = f"{SURROGATE}; otherwise write {one.quoted} with other operations"
            return Diagnosis(Cause.OPERATION, evidence, remedy, one.place, lost)
        step = None if one.custom_gradient is None else _step_inside(record, one)
        if step is not None and one.custom_gradient is not None:
            name, defined = one.custom_gradient.func.__name__, definition_of(one.custom_gradient.func)
            evidence = (
                f"the value of {name} under tf.custom_gradient, called{at(one.line)}, moves only in steps, "
                f"by {step.name}{at(step.line)}, and its gradient does not"
            )
            remedy = f"{meant(name)}; otherwise correct the gradient that {name}{at(defined)} returns"
            return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), lost)
    return None


def _rounds(operation: RecordedOperation) -> bool:
    """Whether an operation is a kernel that rounds, with the gradient that TensorFlow registers for it."""
    return operation.name in STRAIGHT_THROUGH and operation.backward is None


def _step_inside(record: CodeRecord, custom: RecordedOperation) -> RecordedOperation | None:
    """The first piecewise constant operation inside of a custom gradient."""
    end = next(position for position, event in enumerate(record.events) if event is custom)
    body = (one for one in record.events[custom.began : end] if isinstance(one, RecordedOperation))
    return next((one for one in body if _steps(one)), None)


def _steps(operation: RecordedOperation) -> bool:
    """Whether an operation is piecewise constant, or turns what is no floating number into one."""
    if operation.name != "Cast":
        return operation.name in STEPS | GRADIENT_NONE
    (given,), (made,) = operation.inputs, operation.outputs
    return bool(made.dtype.is_floating and not given.dtype.is_floating)
