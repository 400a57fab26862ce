"""Whether a finding or a known defect is still wrong on the TensorFlow that is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects.deviation import NONE, ZEROS, Deviation, Outcome
from gradcheck.defects.records import Defect, Values
from gradcheck.hunt import trial
from gradcheck.hunt.admission import admit
from gradcheck.hunt.derivative import close, derivative, values
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.interpreter import Observed
from gradcheck.result import Kind, OrderResult, Verdict

Array = np.ndarray[Any, Any]
SAME = 1e-9


@dataclass(frozen=True)
class Recheck:
    """What became of it, and in a few words what was seen; `changed`: it is wrong, but not as it was."""

    state: State
    message: str
    changed: bool = False


def of_report(found: GraphFinding) -> Recheck:
    """Hold the derivative that a report is about against differences again; nothing is raised."""
    return _guarded(lambda: _checked(found, found.signature.kind))


def of_known(record: Defect | Deviation) -> Recheck:
    """Whether TensorFlow still does what a record of reports/known says; nothing is raised."""
    return of_deviation(record) if isinstance(record, Deviation) else of_defect(record)


def of_defect(defect: Defect) -> Recheck:
    """Compare TensorFlow's derivative with what a known defect calls wrong and right; nothing is raised.

    Where it is neither, differences decide.
    """

    def look() -> Recheck:
        output_of(defect.graph, defect.order, defect.cotangent, defect.direction)
        now = taken(defect.graph, defect.order, defect.cotangent, defect.direction, defect.taken)
        if close(now, defect.right, SAME):
            return Recheck(State.FIXED, "gives the right derivative")
        if close(now, defect.given, SAME):
            return Recheck(State.STILL, f"{defect.kind.value}, as recorded")
        checked = _checked(defect, defect.kind)
        if checked.state is not State.STILL:
            return checked
        return Recheck(State.STILL, f"{checked.message}; not the value that is recorded", changed=True)

    return _guarded(look)


def of_deviation(deviation: Deviation) -> Recheck:
    """Run a program of tapes, and compare what it comes to with what is recorded and promised; nothing is raised."""

    def look() -> Recheck:
        seen = interpreter.run(deviation.program)
        if _came_to(deviation.promised, seen, deviation.derivative):
            return Recheck(State.FIXED, "gives what is promised")
        if _came_to(deviation.given, seen, deviation.derivative):
            return Recheck(State.STILL, f"{deviation.kind}, as recorded")
        return Recheck(State.STILL, f"gives {_seen(seen, deviation.derivative)}, which is neither", changed=True)

    return _guarded(look)


def taken(graph: Graph, order: int, cotangent: Input, direction: Sequence[Input], mode: Mode = PLAIN) -> Values:
    """TensorFlow's derivative, as a known defect records it: empty where it raises or has another shape."""
    try:
        return values(derivative(graph, order, cotangent, direction, mode))
    except (DerivativeRaisedError, WrongShapeError):
        return ()


def held(graph: Graph, order: int, cotangent: Input, direction: Sequence[Input], mode: Mode = PLAIN) -> OrderResult:
    """The verdict on the derivative at an order, for this cotangent and, at order 2, along this direction.

    Raises what `output_of` does.
    """
    output = output_of(graph, order, cotangent, direction)
    vector = np.concatenate([to_coordinates(part.array()) for part in direction]) if order == 2 else None
    weights = to_coordinates(cotangent.array().astype(output.dtype, copy=False))
    return trial.run(graph, (order,), weights=weights, vector=vector, mode=mode).result.orders[order]


def output_of(graph: Graph, order: int, cotangent: Input, direction: Sequence[Input]) -> Array:
    """A graph's output, once a cotangent and a direction fit it.

    Raises AdmissionError for a graph that could not have been drawn, ValueError for a cotangent or a direction of other
    shapes than the graph's, and what its operations raise.
    """
    output = admit(graph)[-1]
    if cotangent.shape != output.shape:
        raise ValueError(f"the cotangent is of shape {cotangent.shape}; expected the output's, {output.shape}")
    shapes = [vector.shape for vector in direction]
    wanted = [literal.shape for literal in graph.inputs] if order == 2 else []
    if shapes != wanted:
        raise ValueError(f"the direction is of shapes {shapes}; expected {wanted} at order {order}")
    return output


def _checked(found: GraphFinding | Defect, kind: Kind) -> Recheck:
    result = held(found.graph, found.order, found.cotangent, found.direction, found.taken)
    if result.verdict == Verdict.MISMATCH:
        now = result.findings[0].kind
        return Recheck(State.STILL, now.value if now == kind else f"{now.value}, was {kind.value}", now != kind)
    if result.verdict == Verdict.AGREE:
        return Recheck(State.FIXED, "agrees with differences")
    reasons = ", ".join(reason.value for reason in result.reasons)
    return Recheck(State.CANNOT_RUN, f"nobody can tell ({reasons or 'nothing could be compared'})")


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


def _guarded(look: Callable[[], Recheck]) -> Recheck:
    try:
        return look()
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        return Recheck(State.CANNOT_RUN, f"{type(error).__name__}: {first[:300]}")
