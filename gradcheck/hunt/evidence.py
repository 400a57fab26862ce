"""What a report shows of a mismatch beside the verdict: elements as the trial compared them, blame, step-size curve.

Nothing here decides anew. Whatever cannot be computed is left out, and never costs the finding.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.mode import Mode
from gradcheck.hunt import trial
from gradcheck.hunt.blame import alone, squared
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck, StepCurve
from gradcheck.hunt.graph import Graph, coordinates_of
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.report.step_curve import step_curve
from gradcheck.hunt.trial import Trial
from gradcheck.numerics.sampling import FIRST, largest_steps
from gradcheck.result import Kind, Verdict

Array = np.ndarray[Any, Any]
MOST = 256
"""A report has room for so many elements, the first ones that were compared."""


def elements(checked: Trial, order: int) -> tuple[ElementCheck, ...]:
    """The coordinates that the trial compared one by one, in their order.

    At a kink, where every output is compared by itself, these are the comparisons of the worst finding's output.
    """
    check = checked.orders[order]
    output = check.result.findings[0].output if check.result.findings else None
    compared: dict[int, ElementCheck] = {}
    for table in check.tables:
        row = table.rows.index(output) if output in table.rows else 0
        numbers = (table.autodiff, table.difference, table.bound, table.allowed)
        for line, coordinate in enumerate(table.columns):
            if coordinate is not None:
                verdict = Verdict(str(table.verdict[line, row]))
                values = (float(column[line, row]) for column in numbers)
                compared[coordinate] = ElementCheck(coordinate, verdict, *values)
    return tuple(compared[coordinate] for coordinate in sorted(compared)[:MOST])


def worst(found: tuple[ElementCheck, ...]) -> ElementCheck | None:
    """The element with the largest error over what is allowed, a wrong one if there is any; None if there are none."""
    return max(found, key=lambda each: (list(Verdict).index(each.verdict), each.excess), default=None)


class NodeTrials:
    """The checks of nodes by themselves, each made once: for blame, and for the report that is written afterwards."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._trials: dict[Graph, Trial] = {}

    def check(self, graph: Graph, orders: tuple[int, ...]) -> Trial:
        """The check of a graph of one node, or of a node with its square behind it."""
        if graph not in self._trials:
            self._trials[graph] = trial.run(graph, orders, mode=self._mode)
        return self._trials[graph]

    def node_checks(self, graph: Graph, order: int) -> tuple[NodeCheck, ...]:
        """Every node's own derivative at its actual arguments, at its worst element, as blame takes it."""
        values, checks = values_of(graph), []
        for position, _ in graph.positions():
            node = alone(graph, position, values)
            checked = self.check(node, (order,))
            if order == 2 and checked.result.verdict == Verdict.AGREE:
                behind = self.check(squared(node), (order,))
                checked = behind if behind.result.verdict == Verdict.MISMATCH else checked
            checks.append(_node_check(position, checked, order))
        return tuple(checks)


def completed(found: GraphFinding, trials: NodeTrials | None = None) -> GraphFinding:
    """The finding with every node's own derivative, and with the step-size curve of its worst element.

    `trials` are those that blame has made already.
    """
    with contextlib.suppress(Exception):
        found = replace(found, nodes=(trials or NodeTrials(found.taken)).node_checks(found.graph, found.order))
    with contextlib.suppress(Exception):
        found = replace(found, curve=curve(found))
    return found


def curve(found: GraphFinding) -> StepCurve | None:
    """The curve at the worst element: of function values at order 1, of autodiff's first derivative at order 2."""
    element = worst(found.elements)
    if element is None:
        return None
    output = found.values[-1]
    weights = to_coordinates(found.cotangent.array())
    problem = GraphProblem(found.graph, output.shape, output.dtype, smooth=True, cotangent=weights, mode=found.taken)
    point, place = problem.point, element.coordinate
    along = np.eye(point.size)[place] if found.order == 1 else coordinates_of(found.direction)
    largest = float(largest_steps(point, along[None, :], FIRST)[0])
    if found.order == 1:
        return step_curve(lambda at: problem.values(at)[:, 0], point, along, largest, place)
    return step_curve(lambda at: problem.gradients_at(np.ones(1), at)[:, place], point, along, largest, place)


def _node_check(position: int, checked: Trial, order: int) -> NodeCheck:
    result, element = checked.result.orders[order], worst(elements(checked, order))
    reasons = ", ".join(result.reasons)
    if result.findings and result.findings[0].kind in (Kind.RAISES, Kind.SHAPE):
        reasons = result.findings[0].reason
    verdict = f"{result.verdict}: {reasons}" if reasons else str(result.verdict)
    if element is None:
        return NodeCheck(position, verdict)
    return NodeCheck(position, verdict, element.autodiff, element.difference, element.bound)
