"""Derivatives of findings and known defects, taken again: whether they are still wrong on the installed TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.execution import pullbacks, second_pullbacks
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects.records import NONE, ZEROS, Defect, Known, Outcome, TapeDefect, Values
from gradcheck.hunt import trial
from gradcheck.hunt.admission import admit
from gradcheck.hunt.evaluation import forward, forward_points
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import Example, GraphFinding
from gradcheck.hunt.graph import coordinates_of, split_coordinates
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.interpreter import Observed
from gradcheck.numerics.difference import difference_quotient
from gradcheck.result import Kind, OrderResult, Verdict

Array = np.ndarray[Any, Any]
STEP = 2.0**-10
SAME = 1e-9


def derivative(example: Example) -> list[Array | None]:
    """TensorFlow's derivative for each input; None where it gives None.

    Raises DerivativeRaisedError where it throws, ModeUnavailableError where the mode has none, WrongShapeError where a
    derivative has another shape than its input.
    """

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(example.graph, sources)[-1]]

    sources = [tf.constant(value.array()) for value in example.graph.inputs]
    weights = [tf.constant(example.cotangent.array())]
    if example.order == 1:
        parts = pullbacks(example.taken, outputs, sources, [weights])[0]
    else:
        vectors = [tf.constant(vector.array()) for vector in example.direction]
        parts = second_pullbacks(example.taken, outputs, sources, weights, [vectors])[1][0]
    arrays = [None if part is None else tf.convert_to_tensor(part).numpy() for part in parts]
    for number, (array, value) in enumerate(zip(arrays, example.graph.inputs, strict=True)):
        if array is not None and array.shape != value.shape:
            raise WrongShapeError(f"input {number}", f"of shape {array.shape}", f"of shape {value.shape}")
    return arrays


def differences(example: Example, *, step: float = STEP) -> list[Array]:
    """The same from the values of the references alone, without a bound: difference quotients at two steps, combined.

    The error of the quotient at half the step is a quarter, so that (4 half - whole) / 3 is left with the next order's.
    """
    inputs = example.graph.inputs
    point = coordinates_of(inputs)
    along, weights = coordinates_of(example.direction), example.cotangent.array()

    def objective(points: Array) -> Array:
        # A reference may compare with row 0, the unperturbed point.
        rows = [split_coordinates(row, inputs) for row in (point, *points)]
        output = forward_points(example.graph, [tf.constant(np.stack(one)) for one in zip(*rows, strict=True)])[-1]
        moved = np.conj(weights) * output.numpy()[1:]
        return np.asarray(moved.reshape(len(points), -1).sum(axis=1).real)

    def quotient(unit: Array, h: float) -> Array:
        if example.order == 1:
            return difference_quotient(objective, point, unit, h)

        def slopes(points: Array) -> Array:
            return np.stack([difference_quotient(objective, moved, along, h) for moved in points])

        return difference_quotient(slopes, point, unit, h)

    entries = [(4 * quotient(unit, step / 2) - quotient(unit, step)) / 3 for unit in np.eye(point.size)]
    return split_coordinates(np.array(entries), inputs)


def values(parts: Sequence[Array | None]) -> Values:
    """Arrays as tuples in row-major order, complex elements as real part, imaginary part."""
    return tuple(None if part is None else tuple(to_coordinates(part).tolist()) for part in parts)


def close(one: Values, other: Values, rtol: float) -> bool:
    """Whether two derivatives agree to `rtol`, relative above 1 and absolute below; NaN agrees with NaN.

    >>> close(((1.0, float("nan")), None), ((1.0, float("nan")), None), 1e-9)
    True
    """
    return len(one) == len(other) and all(
        (a is None and b is None) or (a is not None and b is not None and len(a) == len(b) and _near(a, b, rtol))
        for a, b in zip(one, other, strict=True)
    )


def _near(one: tuple[float, ...], other: tuple[float, ...], rtol: float) -> bool:
    return bool(np.allclose(one, other, rtol=rtol, atol=rtol, equal_nan=True))


@dataclass(frozen=True)
class Recheck:
    """What became of it, and in a few words what was seen; `changed`: it is wrong, but not as it was."""

    state: State
    message: str
    changed: bool = False


def of_report(found: GraphFinding) -> Recheck:
    """Compare the derivative that a report is about with finite differences again; nothing is raised."""
    return _guarded(lambda: _compared(found.example, found.signature.kind))


def of_known(record: Known) -> Recheck:
    """Whether TensorFlow still does what a record of reports/known says; nothing is raised."""
    return of_tape_defect(record) if isinstance(record, TapeDefect) else of_defect(record)


def of_defect(defect: Defect) -> Recheck:
    """Compare TensorFlow's derivative with what a known defect calls wrong and right; nothing is raised.

    Where it is neither, finite differences decide.
    """

    def seen() -> Recheck:
        example = example_of(defect)
        output_of(example)
        now = taken(example)
        if close(now, defect.right, SAME):
            return Recheck(State.FIXED, "gives the right derivative")
        if close(now, defect.wrong, SAME):
            return Recheck(State.STILL, f"{defect.kind}, as recorded")
        compared = _compared(example, defect.kind)
        if compared.state is not State.STILL:
            return compared
        return Recheck(State.STILL, f"{compared.message}; not the value that is recorded", changed=True)

    return _guarded(seen)


def of_tape_defect(record: TapeDefect) -> Recheck:
    """Run a program of tapes, and compare what it comes to with what is recorded and documented; nothing is raised."""

    def seen() -> Recheck:
        observed = interpreter.run(record.program)
        if _came_to(record.documented, observed, record.derivative):
            return Recheck(State.FIXED, "gives what is documented")
        if _came_to(record.given, observed, record.derivative):
            return Recheck(State.STILL, f"{record.kind}, as recorded")
        return Recheck(State.STILL, f"gives {_seen(observed, record.derivative)}, which is neither", changed=True)

    return _guarded(seen)


def taken(example: Example) -> Values:
    """TensorFlow's derivative, as a known defect records it: empty where it raises or has another shape."""
    try:
        return values(derivative(example))
    except (DerivativeRaisedError, WrongShapeError):
        return ()


def verdict_on(example: Example) -> OrderResult:
    """The verdict on a derivative, for its cotangent and, at order 2, along its direction.

    Raises what `output_of` does.
    """
    output = output_of(example)
    order, graph = example.order, example.graph
    vector = coordinates_of(example.direction) if order == 2 else None
    weights = to_coordinates(example.cotangent.array().astype(output.dtype, copy=False))
    return trial.run(graph, (order,), weights=weights, vector=vector, mode=example.taken).result.orders[order]


def output_of(example: Example) -> Array:
    """A graph's output, once the cotangent and the direction fit it.

    Raises AdmissionError for a graph that could not have been drawn, ValueError for a cotangent or a direction of other
    shapes than the graph's, and what its operations raise.
    """
    output = admit(example.graph)[-1]
    if example.cotangent.shape != output.shape:
        raise ValueError(f"the cotangent is of shape {example.cotangent.shape}; expected the output's, {output.shape}")
    shapes = [vector.shape for vector in example.direction]
    wanted = [literal.shape for literal in example.graph.inputs] if example.order == 2 else []
    if shapes != wanted:
        raise ValueError(f"the direction is of shapes {shapes}; expected {wanted} at order {example.order}")
    return output


def _compared(example: Example, kind: Kind) -> Recheck:
    result = verdict_on(example)
    if result.verdict == Verdict.MISMATCH:
        now = result.findings[0].kind
        return Recheck(State.STILL, str(now) if now == kind else f"{now}, was {kind}", now != kind)
    if result.verdict == Verdict.AGREE:
        return Recheck(State.FIXED, "agrees with finite differences")
    reasons = ", ".join(result.reasons)
    return Recheck(State.CANNOT_TELL, f"inconclusive ({reasons or 'nothing could be compared'})")


def _came_to(outcome: Outcome, seen: Observed, derivative: str) -> bool:
    if seen.raised is not None:
        return type(seen.raised).__name__ == outcome
    found = seen.part(derivative)
    if found is None or outcome == NONE:
        return found is None and outcome == NONE
    if outcome == ZEROS:
        return not np.any(found)
    return not isinstance(outcome, str) and close(values([found]), (outcome,), SAME)


def _seen(seen: Observed, derivative: str) -> str:
    if seen.raised is not None:
        return f"{type(seen.raised).__name__}: {seen.raised}"
    found = seen.part(derivative)
    return NONE if found is None else str(found.tolist())


def _guarded(seen: Callable[[], Recheck]) -> Recheck:
    try:
        return seen()
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        return Recheck(State.CANNOT_TELL, f"{type(error).__name__}: {first[:300]}")
