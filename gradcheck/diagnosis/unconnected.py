"""A source without a gradient, or with zeros for None: whether the targets depend on it all the same, and how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.diagnosis.call_problem import CallProblem
from gradcheck.diagnosis.case import Loss
from gradcheck.diagnosis.diagnose import covered, diagnose
from gradcheck.diagnosis.influence import influence
from gradcheck.finding import Finding, Kind
from gradcheck.numerics.difference import first_difference
from gradcheck.verdict.observation import observe
from gradcheck.verdict.probing import SMALL
from gradcheck.verdict.summary import Names

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
    estimate = first_difference(observe(problem, lines[[line]], np.eye(1, problem.outputs, row)))
    if not estimate.conclusive[0, 0]:
        return None
    return Worst(line, row, float(estimate.value[0, 0]), float(estimate.bound[0, 0]))


def _missing(problem: CallProblem, worst: Worst | None) -> Finding:
    names = Names.of(problem.sources)
    if worst is None:
        name, index, value, bound = problem.sources[0].name, None, None, None
        said = "small moves of it do not move the target, larger ones do"
    else:
        (name, index, _), value, bound = names.place(worst.coordinate), worst.value, worst.bound
        said = f"differences say {value:.10g} (error at most {bound:.1e})"
    row = None if worst is None or problem.call.method == "gradient" else worst.row
    reason = f"autodiff gives {'zeros for None' if problem.call.zeros else 'None'}, {said}"
    return Finding(Kind.MISSING, 1, name, index, row, None, value, bound, None, reason)
