"""What a page shows beyond the finding itself, computed anew from the graph when the report is made.

A diagram that cannot be computed is left out, with the reason; it never costs the finding.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.hunt.blame import alone, squared
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck, StepCurve
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.report.comparison import ElementComparison
from gradcheck.hunt.report.step_curve import step_curve
from gradcheck.numerics.probing import magnitudes, probe_directions
from gradcheck.numerics.sampling import coordinate_steps
from gradcheck.result import Verdict

VERDICTS = (Verdict.AGREE, Verdict.AGREE, Verdict.INCONCLUSIVE, Verdict.MISMATCH)
Array = np.ndarray[Any, Any]


def completed(found: GraphFinding) -> GraphFinding:
    """The finding with the nodes' own derivatives, the elements' comparison and the step-size curve.

    What cannot be computed is left out; it never costs the finding.
    """
    with contextlib.suppress(Exception):
        nodes = own_derivatives(found.graph, values_of(found.graph), found.order, found.taken)
        found = replace(found, nodes=nodes)
    with contextlib.suppress(Exception):
        comparison = ElementComparison.of(found.graph, found.cotangent, found.direction, found.taken)
        table = comparison.entries
        columns = (table.autodiff, table.difference, table.bound, table.allowed)
        rows = zip(table.status.tolist(), *(column.tolist() for column in columns), strict=True)
        found = replace(found, elements=tuple(ElementCheck(VERDICTS[status], *row) for status, *row in rows))
        found = replace(found, curve=_curve(comparison))
    return found


def _curve(comparison: ElementComparison) -> StepCurve:
    """The curve at the worst element: of function values at order 1, of autodiff's first derivative at order 2."""
    worst, problem, along = comparison.worst, comparison.problem, comparison.direction
    point = problem.point
    if along is None:
        largest = float(coordinate_steps(point)[worst])
        return step_curve(lambda at: problem.values(at)[:, 0], point, np.eye(point.size)[worst], largest, worst)
    largest = float(np.min((coordinate_steps(point) / np.abs(along))[along != 0]))
    return step_curve(lambda at: problem.gradients_at(np.ones(1), at)[:, worst], point, along, largest, worst)


def own_derivatives(graph: Graph, values: list[Array], order: int, mode: Mode = PLAIN) -> tuple[NodeCheck, ...]:
    """Every node's own derivative at its actual arguments, at its worst element.

    At order 2 a node that is right is tried with its square behind it, as blaming does.
    """
    checks = []
    for position, _ in graph.positions():
        node = alone(graph, position, values)
        check = _checked(node, position, order, mode)
        if order == 2 and check.verdict == Verdict.AGREE:
            behind = _checked(squared(node), position, order, mode)
            check = behind if behind.verdict == Verdict.MISMATCH else check
        checks.append(check)
    return tuple(checks)


def _checked(graph: Graph, position: int, order: int, mode: Mode) -> NodeCheck:
    try:
        output = values_of(graph)[-1]
        count = coordinate_count(output.shape, output.dtype)
        comparison = ElementComparison(graph, _random(np.ones(count)), None, mode)
        if order == 2:
            comparison = replace(comparison, direction=_random(magnitudes(comparison.problem.point)))
        entries, worst = comparison.entries, comparison.worst
    except (DerivativeRaisedError, WrongShapeError) as error:
        return NodeCheck(position, f"mismatch: {_told(error)}")
    except Exception as error:
        return NodeCheck(position, f"cannot be checked: {_told(error)}")
    table = (entries.autodiff, entries.difference, entries.bound)
    return NodeCheck(position, comparison.verdict, *(float(column[worst]) for column in table))


def _random(scale: Array) -> Array:
    only: Array = probe_directions(np.random.default_rng(scale.size), 1, scale)[0]
    return only


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}".rstrip(
        ": "
    )
