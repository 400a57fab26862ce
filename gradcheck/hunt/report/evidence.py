"""What a page shows beyond the finding itself, computed anew from the graph when the report is made.

A diagram that cannot be computed is left out, with the reason; it never costs the finding.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.hunt.blame import alone, squared
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.finding import GraphFinding, NodeCheck, literal
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.report.comparison import ElementComparison
from gradcheck.hunt.report.heat_map import HeatMap, heat_maps
from gradcheck.hunt.report.step_curve import StepCurve, step_curve
from gradcheck.numerics.probing import magnitudes, probe_directions
from gradcheck.result import Verdict

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PageEvidence:
    """How many elements are wrong of those compared, the step-size curve, the heat maps; or why there are none."""

    wrong: int = 0
    compared: int = 0
    curve: StepCurve | None = None
    maps: tuple[HeatMap, ...] = ()
    problem: str = ""


def evidence(found: GraphFinding) -> PageEvidence:
    """The evidence for a discovery. Whatever is raised on the way becomes its `problem`."""
    comparison = ElementComparison.of(found.graph, found.cotangent, found.direction, found.taken)
    try:
        wrong, compared = comparison.counts
        maps = heat_maps(comparison)
    except Exception as error:
        return PageEvidence(problem=_told(error))
    try:
        return PageEvidence(wrong, compared, step_curve(comparison), maps)
    except Exception as error:
        return PageEvidence(wrong, compared, None, maps, _told(error))


def completed(found: GraphFinding) -> GraphFinding:
    """The discovery with the values at all positions and every node's own derivative, where it came without them."""
    with contextlib.suppress(Exception):
        values = values_of(found.graph)
        if not found.values:
            found = replace(found, values=tuple(literal(value) for value in values))
        if not found.nodes:
            found = replace(found, nodes=own_derivatives(found.graph, values, found.order, found.taken))
    return found


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
