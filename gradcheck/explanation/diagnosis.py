"""Why one source of one derivative lost its gradient: the record, the replays and the rules brought together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import from_coordinates, to_coordinates
from gradcheck.comparison.lines import sample_values
from gradcheck.comparison.probes import SMALL
from gradcheck.comparison.summary import element_of, estimate_text
from gradcheck.explanation.call_problem import CallProblem, Influence, influence
from gradcheck.explanation.case import Case, Loss
from gradcheck.explanation.paths import Cut, cuts, paths
from gradcheck.explanation.record import DerivativeCall, Origin
from gradcheck.explanation.replay import Code
from gradcheck.explanation.rules import path_breaks, tape_coverage
from gradcheck.explanation.rules.formula import wrong_formula
from gradcheck.numerics.difference import first_difference
from gradcheck.result import Diagnosis, Finding, Kind

CLOSE = 1e-3
"""How near, relatively, a covering tape has to come to differences to count as the remedy."""


def diagnose(
    code: Code, call: DerivativeCall, name: str, origin: Origin, seen: Influence, loss: Loss
) -> Diagnosis | None:
    """The first answer to why the source's gradient is not what it should be; None where no rule knows.

    `seen` is the source's influence; `loss` the worst element: given, wanted, and what a tape around everything gives.
    """
    if _near(loss):
        loss = replace(loss, wanted=loss.covered)
    events = code.record.events[: call.position]
    path = paths(events, call.targets, origin.tensor, seen)
    own, none = cuts(events, path, call.tape), cuts(events, path, None)
    restored = bool(own) and (_restored(loss) or not none)
    chosen: Sequence[Cut] = own if restored else none
    case = Case(code.record, call, name, origin, loss, path, chosen, restored)
    if not chosen:
        return wrong_formula(case)
    rules = tape_coverage.RULES if restored else path_breaks.RULES
    return next((answer for rule in rules if (answer := rule(case)) is not None), None)


def covered(code: Code, call: DerivativeCall, origin: Origin, row: int, coordinate: int) -> float | None:
    """One element of the derivative under the tape that covered everything; None where it has none, either."""
    weights = _weights(call, row)
    try:
        result = code.record.covering.gradient(list(call.targets), origin.tensor, output_gradients=weights)
    except Exception:  # no second derivative, no registered gradient: then it gives nothing
        return None
    if result is None:
        return None
    return float(to_coordinates(np.asarray(tf.convert_to_tensor(result).numpy()))[coordinate])


def _weights(call: DerivativeCall, row: int) -> Any:
    """The cotangent of one row: all targets together for a gradient, one element for a Jacobian."""
    if call.method == "gradient":
        return None if call.weights is None else list(call.weights)
    (target,) = call.targets
    count = to_coordinates(target.numpy()).size
    return [tf.constant(from_coordinates(np.eye(count)[row], target.shape, target.dtype.as_numpy_dtype))]


def _near(loss: Loss) -> bool:
    """Whether a tape around everything gives what differences say, which it says more exactly."""
    if loss.covered is None or loss.wanted is None:
        return False
    return abs(loss.wanted - loss.covered) <= CLOSE * abs(loss.wanted)


def _restored(loss: Loss) -> bool:
    """Whether a tape around everything gives more of what is lost than it still misses."""
    if loss.covered is None or loss.wanted is None:
        return False
    missing = abs(loss.wanted - loss.covered)
    gained = abs(loss.covered - (loss.given or 0.0))
    return gained > missing or (missing <= CLOSE * abs(loss.wanted) and gained > 0)


Array = np.ndarray[Any, Any]

NOTHING = "the target does not depend on it"
BRANCH = "it only decides which way the code goes"
ZEROS = "zeros that stand for None: "
STEP = 2.0**-10


@dataclass(frozen=True)
class Worst:
    """The element with the largest derivative, as far as was looked: its coordinate, the target's row, the value."""

    coordinate: int
    row: int
    value: float
    bound: float


def unconnected(problem: CallProblem, name: str) -> tuple[str, Finding | None]:
    """A note on why None is right, or a finding with its diagnosis; the problem has this one source."""
    (origin,) = problem.origins
    seen = influence(problem.code, problem.call, origin)
    zeros = ZEROS if problem.call.zeros else ""
    if not seen.far:
        return zeros + NOTHING, None
    worst = _worst(problem) if seen.near else None
    finding = _missing(problem, worst)
    loss = Loss(None, None, steps=True)
    if worst is not None:
        whole = covered(problem.code, problem.call, origin, worst.row, worst.coordinate)
        loss = Loss(None, worst.value, whole, element=finding.element if finding.index else "")
    answer = diagnose(problem.code, problem.call, name, origin, seen, loss)
    if answer is None and (zeros or not seen.near):
        return ("" if seen.near else zeros + BRANCH), None
    return "", replace(finding, diagnosis=answer)


def _worst(problem: CallProblem) -> Worst | None:
    """One step along each coordinate finds the element; a row of differences its derivative."""
    count = min(problem.point.size, SMALL)
    lines = np.eye(count, problem.point.size)
    steps = STEP * np.maximum(np.abs(problem.point[:count, None]), 0.5)
    changes = np.abs(problem.values(problem.point + steps * lines) - problem.values(problem.point[None, :])) / steps
    changes = np.where(np.isfinite(changes), changes, 0.0)
    line, row = map(int, np.unravel_index(np.argmax(changes), changes.shape))
    estimate = first_difference(sample_values(problem, lines[[line]], np.eye(1, problem.outputs, row)))
    if not estimate.conclusive[0, 0]:
        return None
    return Worst(line, row, float(estimate.value[0, 0]), float(estimate.bound[0, 0]))


def _missing(problem: CallProblem, worst: Worst | None) -> Finding:
    if worst is None:
        name, index, value, bound = problem.sources[0].name, None, None, None
        said = "small moves of it do not move the target, larger ones do"
    else:
        (name, index, _), value, bound = element_of(problem.sources, worst.coordinate), worst.value, worst.bound
        said = estimate_text(value, bound)
    row = None if worst is None or problem.call.method == "gradient" else worst.row
    reason = f"autodiff gives {'zeros for None' if problem.call.zeros else 'None'}, {said}"
    return Finding(Kind.MISSING, 1, name, index, row, None, value, bound, None, reason)
