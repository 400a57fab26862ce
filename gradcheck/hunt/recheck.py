"""Takes the derivatives of findings and known defects again: are they still wrong on the installed TensorFlow?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import numpy as np

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects.records import NONE, ZEROS, Defect, DerivativeValues, Known, ProgramOutcome, TapeDefect
from gradcheck.graph import coordinates_of, split_coordinates
from gradcheck.hunt import trial
from gradcheck.hunt.admission import AdmissionError, admit
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import Example, GraphFinding
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.interpreter import Observed
from gradcheck.numerics.difference import difference_quotient
from gradcheck.result import Kind, Verdict
from gradcheck.typing import Array

STEP = 2.0**-10
SAME = 1e-9
AT_ONCE = 256
"""The entries of a derivative that are evaluated as one batch, so that a large one does not fill the memory."""


def problem_of(example: Example) -> GraphProblem:
    """The problem whose derivative an example is. Exceptions of operations propagate."""
    direction = coordinates_of(example.direction) if example.order == 2 else None
    return GraphProblem.evaluated(
        example.graph, to_coordinates(example.cotangent.array()), direction, mode=example.taken
    )


def derivative(example: Example) -> list[Array | None]:
    """TensorFlow's derivative for each input; None where TensorFlow returns None.

    Raises DerivativeRaisedError where TensorFlow raises, ModeUnavailableError where the mode has no derivative,
    WrongShapeError where a derivative has another shape or dtype than its input.
    """
    problem, one, first = problem_of(example), np.ones(1), example.order == 1
    rows = problem.gradients(one[None, :]) if first else problem.products(one, problem.direction[None, :])
    parts = split_coordinates(rows.values[0], example.graph.inputs)
    connected = np.split(rows.connected[0], np.cumsum([source.count for source in problem.sources])[:-1])
    return [None if part.size and not any(seen) else part for part, seen in zip(parts, connected, strict=True)]


def differences(example: Example, *, step: float = STEP) -> list[Array]:
    """The derivative from values of the references alone, by Richardson extrapolation of two steps, without a bound.

    The error of the quotient at half the step is a quarter, so that (4 half - whole) / 3 cancels the leading term.
    """
    problem = problem_of(example)

    def value(points: Array) -> Array:
        return problem.values(points)[:, 0]

    def quotients(units: Array, h: float) -> Array:
        def slopes(points: Array) -> Array:
            return difference_quotient(value, points, problem.direction, h)

        return difference_quotient(value if example.order == 1 else slopes, problem.point, units, h)

    size = problem.point.size
    blocks = np.array_split(np.eye(size), size // AT_ONCE + 1)
    entries = [(4 * quotients(units, step / 2) - quotients(units, step)) / 3 for units in blocks]
    return split_coordinates(np.concatenate(entries), example.graph.inputs)


def values(parts: Sequence[Array | None]) -> DerivativeValues:
    """Arrays as tuples in row-major order, complex elements as real part, imaginary part."""
    return tuple(None if part is None else tuple(to_coordinates(part).tolist()) for part in parts)


def close(one: DerivativeValues, other: DerivativeValues, rtol: float) -> bool:
    """Whether two derivatives agree to `rtol`, relative above 1 and absolute below; NaN agrees with NaN.

    >>> close(((1.0, float("nan")), None), ((1.0, float("nan")), None), 1e-9)
    True
    """

    def near(a: tuple[float, ...] | None, b: tuple[float, ...] | None) -> bool:
        if a is None or b is None:
            return a is b
        return len(a) == len(b) and np.allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True)

    return len(one) == len(other) and all(map(near, one, other))


@dataclass(frozen=True)
class Recheck:
    """The state, and in a few words what was seen; `changed`: the derivative is wrong in another way than recorded."""

    state: State
    message: str
    changed: bool = False


T = TypeVar("T")


def guarded(recheck: Callable[[T], Recheck]) -> Callable[[T], Recheck]:
    """Turns an exception of `recheck` into State.CANNOT_TELL."""

    @wraps(recheck)
    def seen(subject: T) -> Recheck:
        try:
            return recheck(subject)
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            return Recheck(State.CANNOT_TELL, f"{type(error).__name__}: {first[:300]}")

    return seen


@guarded
def of_report(found: GraphFinding) -> Recheck:
    """Compares a report's derivative with finite differences again; nothing is raised."""
    return _compared(found.example, found.signature.kind)


def of_known(record: Known) -> Recheck:
    """Whether TensorFlow still does what a record of reports/known says; nothing is raised."""
    return record.by_kind(of_defect, of_tape_defect)


@guarded
def of_defect(defect: Defect) -> Recheck:
    """Compares TensorFlow's derivative with what a known defect calls wrong and right; nothing is raised.

    If it is neither, finite differences decide.
    """
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


@guarded
def of_tape_defect(record: TapeDefect) -> Recheck:
    """Runs a program of tapes, and compares its outcome with the recorded and the documented one; nothing is raised."""
    observed = interpreter.run(record.program)
    if _came_to(record.documented, observed, record.derivative):
        return Recheck(State.FIXED, "gives what is documented")
    if _came_to(record.given, observed, record.derivative):
        return Recheck(State.STILL, f"{record.kind}, as recorded")
    if observed.raised is not None:
        seen = f"{type(observed.raised).__name__}: {observed.raised}"
    else:
        found = observed.part(record.derivative)
        seen = NONE if found is None else str(found.tolist())
    return Recheck(State.STILL, f"gives {seen}, which is neither", changed=True)


def _came_to(outcome: ProgramOutcome, seen: Observed, derivative: str) -> bool:
    if seen.raised is not None:
        return type(seen.raised).__name__ == outcome
    found = seen.part(derivative)
    if found is None or outcome == NONE:
        return found is None and outcome == NONE
    if outcome == ZEROS:
        return not np.any(found)
    return not isinstance(outcome, str) and close(values([found]), (outcome,), SAME)


def taken(example: Example) -> DerivativeValues:
    """TensorFlow's derivative, as a known defect records it: empty where it raises or has another shape."""
    try:
        return values(derivative(example))
    except (DerivativeRaisedError, WrongShapeError):
        return ()


def output_of(example: Example) -> Array:
    """A graph's output, once the cotangent and the direction fit it.

    Raises AdmissionError for a graph that could not have been drawn, or a cotangent or a direction of other shapes than
    the graph's. Exceptions of its operations propagate.
    """
    output = admit(example.graph)[-1]
    if example.cotangent.shape != output.shape:
        raise AdmissionError(
            f"the cotangent is of shape {example.cotangent.shape}; expected the output's, {output.shape}"
        )
    shapes = [vector.shape for vector in example.direction]
    wanted = [literal.shape for literal in example.graph.inputs] if example.order == 2 else []
    if shapes != wanted:
        raise AdmissionError(f"the direction is of shapes {shapes}; expected {wanted} at order {example.order}")
    return output


def _compared(example: Example, kind: Kind) -> Recheck:
    """The verdict on a derivative, for its cotangent and, at order 2, along its direction. Raises as `output_of`."""
    weights = to_coordinates(example.cotangent.array().astype(output_of(example).dtype, copy=False))
    vector = coordinates_of(example.direction) if example.order == 2 else None
    checked = trial.run(example.graph, (example.order,), weights=weights, vector=vector, mode=example.taken)
    result = checked.result.orders[example.order]
    if result.verdict == Verdict.MISMATCH:
        now = result.findings[0].kind
        return Recheck(State.STILL, str(now) if now == kind else f"{now}, was {kind}", now != kind)
    if result.verdict == Verdict.AGREE:
        return Recheck(State.FIXED, "agrees with finite differences")
    reasons = ", ".join(result.reasons)
    return Recheck(State.CANNOT_TELL, f"inconclusive ({reasons or 'nothing could be compared'})")
