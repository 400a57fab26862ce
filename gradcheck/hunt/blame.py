"""From a trial to a finding: the culprit, the elements as the trial compared them, nodes, the step-size curve.

The culprit of a failing graph is the first node whose own derivative is wrong at its actual arguments. If no node is
wrong by itself, it is the first that is wrong when a node is added behind it. Else it is the node with which the graph
becomes wrong, since some derivatives fail only in combination; but where a node up to there has lost too many digits to
be judged by itself, the first such node.

No verdict is decided here. What cannot be computed is left out; the finding is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from gradcheck.autodiff.coordinates import from_coordinates, to_coordinates
from gradcheck.autodiff.mode import Mode
from gradcheck.graph import Graph, Node, alone, coordinates_of, literal, split_coordinates
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.environment import current
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.finding import LOST_DIGITS, ElementCheck, GraphFinding, NodeCheck
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.known_graphs import tells_of
from gradcheck.hunt.trial import Trial
from gradcheck.numerics.difference import difference_quotient
from gradcheck.numerics.sampling import FIRST, largest_steps
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.special_sets import describe
from gradcheck.result import Kind, Verdict
from gradcheck.step_curve import StepCurve
from gradcheck.typing import Array

NodeTrials = Callable[[Graph, tuple[int, ...]], Trial]
SQUARES = {"float64": "square", "complex128": "complex_square"}
PRODUCTS = {"float64": "mul", "complex128": "complex_multiply"}
RATIO, STEPS = 2.0, 44
"""The steps of a step-size curve: each is the one before it over RATIO."""
FACTOR = 1.5
MOST = 256
"""The most elements in a report: the first ones that were compared."""


def squared(graph: Graph) -> Graph:
    """The graph with the square of its output as its output."""
    square = SQUARES[CATALOGUE[graph.nodes[-1].op].result]
    return Graph(graph.inputs, (*graph.nodes, Node.of(square, graph.size - 1)))


def multiplied(graph: Graph) -> Graph:
    """The graph with its output times one more input as its output."""
    output, n = values_of(graph)[-1], len(graph.inputs)
    moved = (replace(node, parents=tuple(p + (p >= n) for p in node.parents)) for node in graph.nodes)
    product = Node.of(PRODUCTS[CATALOGUE[graph.nodes[-1].op].result], graph.size, n)
    factor = literal(np.full(output.shape, FACTOR, output.dtype))
    return Graph((*graph.inputs, factor), (*moved, product))


def tried(graph: Graph, order: int) -> tuple[Graph, ...]:
    """The graph and, at order 2, two extensions that show errors of its last node which the graph alone does not show.

    Its square: a linear operation can be wrong only where the incoming cotangent depends on the inputs. Its product
    with a factor: an error in the backward sweep that the node itself drops reaches the factor.
    """
    return (graph, squared(graph), multiplied(graph)) if order == 2 else (graph,)


def blame(
    graph: Graph, values: Sequence[Array], order: int, is_wrong: Callable[[Graph, Sequence[int]], bool | None]
) -> int | None:
    """The first position whose node is wrong alone, else when extended (`tried`), else up to which the graph is wrong.

    In the last case the first undecided node up to there takes its place. None if nothing is wrong. `is_wrong` takes a
    graph to try, and the positions of its first nodes in the whole graph; None: it has lost too many digits to tell.
    """
    positions = [position for position, _ in graph.positions()]
    nodes = {position: alone(graph, position, values) for position in positions}
    by_itself = {}
    for position, node in nodes.items():
        by_itself[position] = is_wrong(node, [position])
        if by_itself[position]:
            return position
    for position, node in nodes.items():
        if any(is_wrong(more, [position]) for more in tried(node, order)[1:]):
            return position
    for position in positions:
        part = Graph(graph.inputs, graph.nodes[: position + 1 - len(graph.inputs)]).pruned()
        places = sorted(graph.ancestors(position).intersection(positions))
        if any(is_wrong(one, places) for one in tried(part, order)):
            return next((place for place in places if by_itself[place] is None), position)
    return None


def culprit(graph: Graph, order: int, check: NodeTrials = trial.run, *, weights: Array | None = None) -> int | None:
    """The position of the first node whose own derivative is wrong by a `check`; None if only the whole graph's is.

    `weights` are those of the graph's own trial.
    """

    def is_wrong(part: Graph, places: Sequence[int]) -> bool | None:
        checked = check(part, (order,))
        if checked.result.verdict == Verdict.INCONCLUSIVE and LOST_DIGITS & {*checked.result.orders[order].reasons}:
            return None
        return tells_wrong(graph, order, checked, places, weights)

    return blame(graph, values_of(graph), order, is_wrong)


def tells_wrong(graph: Graph, order: int, part: Trial, places: Sequence[int], weights: Array | None) -> bool:
    """Whether a part of a graph, whose first nodes have the positions `places` there, is wrong as the graph is.

    `weights` are those of the graph's own trial.
    """
    wrong = part.result.verdict == Verdict.MISMATCH
    return wrong and tells_of(graph, order, part.problem, places, weights=weights)


def node_trials(mode: Mode) -> NodeTrials:
    """Trials of single nodes, each run once: for blame, and for the report that is written afterwards."""
    return cache(partial(trial.run, mode=mode))


def finding_of(checked: Trial, order: int, node_trial: NodeTrials | None = None) -> GraphFinding:
    """The finding of a mismatch: the culprit, what is special about its arguments, the cotangent, the elements."""
    problem, graph, values = checked.problem, checked.problem.graph, checked.problem.intermediates
    position = culprit(graph, order, node_trial or node_trials(problem.mode), weights=problem.cotangent)
    position = graph.size - 1 if position is None else position
    node = graph.nodes[position - len(graph.inputs)]
    findings = checked.result.orders[order].findings
    cotangent, element = np.asarray(problem.cotangent), findings[0].output
    if problem.nonsmooth_nodes.kinks and element is not None:
        # At a kink, the outputs are compared one by one.
        cotangent = np.eye(cotangent.size)[element]
    direction = split_coordinates(problem.direction, graph.inputs) if order == 2 else []
    return GraphFinding(
        graph,
        order,
        findings,
        node.op,
        position,
        describe([values[parent] for parent in node.parents]),
        literal(from_coordinates(cotangent, problem.output.shape, problem.output.dtype)),
        tuple(map(literal, direction)),
        problem.mode,
        current(monitor.current().seed),
        values=tuple(map(literal, values)),
        elements=elements(checked, order),
    )


def elements(checked: Trial, order: int) -> tuple[ElementCheck, ...]:
    """The coordinates that the trial compared one by one, in their order.

    At a kink, where every output is compared by itself, these are the comparisons of the worst finding's output.
    """
    findings = checked.result.orders[order].findings
    output = findings[0].output if findings else None
    compared: dict[int, ElementCheck] = {}
    for table in checked.tables[order]:
        row = table.outputs.index(output) if output in table.outputs else 0
        numbers = (table.autodiff, table.difference, table.bound, table.allowed)
        for line, coordinate in enumerate(table.coordinates):
            if coordinate is not None:
                verdict = Verdict(str(table.verdict[line, row]))
                values = (float(column[line, row]) for column in numbers)
                compared[coordinate] = ElementCheck(coordinate, verdict, *values)
    return tuple(compared[coordinate] for coordinate in sorted(compared)[:MOST])


def worst(found: tuple[ElementCheck, ...]) -> ElementCheck | None:
    """The element with the largest error over what is allowed, a wrong one if there is any; None if there are none."""
    return max(found, key=lambda each: (list(Verdict).index(each.verdict), each.excess), default=None)


def completed(found: GraphFinding, node_trial: NodeTrials | None = None) -> GraphFinding:
    """The finding with every node's own derivative, and with the step-size curve of its worst element."""
    with contextlib.suppress(Exception):
        trials, weights = node_trial or node_trials(found.taken), to_coordinates(found.cotangent.array())
        found = replace(found, nodes=node_checks(found.graph, found.order, trials, weights))
    with contextlib.suppress(Exception):
        found = replace(found, curve=curve(found))
    return found


def node_checks(
    graph: Graph, order: int, node_trial: NodeTrials, weights: Array | None = None
) -> tuple[NodeCheck, ...]:
    """Every node's own derivative at its actual arguments, at its worst element, as blame takes it."""
    values, checks = values_of(graph), []
    for position, _ in graph.positions():
        node = alone(graph, position, values)
        checks_of_node = [node_trial(one, (order,)) for one in tried(node, order)]
        wrong = (one for one in checks_of_node if tells_wrong(graph, order, one, [position], weights))
        checked = next(wrong, checks_of_node[0])
        result, element = checked.result.orders[order], worst(elements(checked, order))
        reasons = ", ".join(result.reasons)
        if result.findings and result.findings[0].kind in (Kind.RAISES, Kind.SHAPE):
            reasons = result.findings[0].reason
        elif result.findings and reasons:
            reasons = f"other elements are inconclusive ({reasons})"
        check = NodeCheck(position, result.verdict, detail=reasons)
        if element is not None:
            check = replace(check, autodiff=element.autodiff, difference=element.difference, bound=element.bound)
        checks.append(check)
    return tuple(checks)


def curve(found: GraphFinding) -> StepCurve | None:
    """The curve at the worst element: of function values at order 1, of autodiff's first derivative at order 2."""
    element = worst(found.elements)
    if element is None:
        return None
    values = tuple(value.array() for value in found.values)
    problem = GraphProblem(found.graph, values, to_coordinates(found.cotangent.array()), mode=found.taken)
    point, place = problem.point, element.coordinate
    along = np.eye(point.size)[place] if found.order == 1 else coordinates_of(found.direction)
    largest = float(largest_steps(point, along[None, :], FIRST)[0])
    if found.order == 1:
        return step_curve(lambda at: problem.values(at)[:, 0], point, along, largest, place)
    return step_curve(lambda at: problem.gradients_at(np.ones(1), at)[:, place], point, along, largest, place)


def step_curve(
    f: Callable[[Array], Array], point: Array, direction: Array, largest: float, coordinate: int
) -> StepCurve:
    """The curve of a function of points (p, n) with values (p,), at steps that are halved from the largest one.

    Raises what evaluating the function raises.
    """
    steps = largest * RATIO ** -np.arange(STEPS, dtype=np.float64)
    quotients = difference_quotient(f, point, direction, steps)
    return StepCurve(coordinate, tuple(steps.tolist()), tuple(quotients.tolist()))
