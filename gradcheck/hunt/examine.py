"""Checks and counts a drawn graph for a property test, and raises a mismatch as a class of its own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice, product

import numpy as np
import tensorflow as tf
from hypothesis import event, target
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.records import Defect
from gradcheck.graph import Graph, literal
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.blame import NodeTrials, completed, finding_of, node_trials
from gradcheck.hunt.coverage import CANNOT_RUN, COMPOSED, INVALID, KINK, Coverage
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.known_graphs import match
from gradcheck.hunt.nonsmooth import nonsmooth_nodes
from gradcheck.hunt.trial import Trial
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.failure import FAILURES, GradientMismatch


class Found(GradientMismatch):
    """A mismatch in a drawn graph; its report is written from `finding`, which is completed when it is asked for."""

    found: GraphFinding
    node_trial: NodeTrials
    defects: Sequence[Defect] | None

    @cached_property
    def finding(self) -> GraphFinding:
        """The finding, moved off kinks where it is wrong there, too, with all that its report shows."""
        found = moved(self.found, self.node_trial, self.defects)
        monitor.current().before(lambda: found.graph)
        return completed(found, self.node_trial)


@contextmanager
def drawing(operation: str, order: int, coverage: Coverage) -> Iterator[None]:
    """A context for drawing a graph as an example of `operation`: counts a rejected one as invalid."""
    monitor.current().begin(operation, order)
    try:
        yield
    except UnsatisfiedAssumption:
        coverage.count(operation, order, verdict=INVALID)
        raise


def examine(
    graph: Graph,
    order: int,
    coverage: Coverage,
    *,
    operation: str,
    defects: Sequence[Defect] | None = None,
    mode: Mode = PLAIN,
    lower: bool = False,
    weights: Array | None = None,
) -> Trial | None:
    """Checks a graph at one order in a mode, and counts the verdict as an example of `operation`.

    With `lower`, also checks and counts the order below, which costs hardly anything more. `weights` are the
    coordinates of a cotangent; a random one, if None.

    Call it inside a Hypothesis test, whose search it steers towards larger errors, by log10(error / allowed). Raises a
    subclass of Found that is made for the kind, the culprit and the order, unless the mismatch has the signature of one
    of the known `defects` (those of the installed TensorFlow, if None).

    Returns None for a graph that the monitor skips because the time is up.
    """
    now = monitor.current()
    if now.passes_over(graph):
        return None
    now.begin(operation, order, mode)
    now.before(lambda: graph)
    checked = trial.run(graph, (*range(1, order), order) if lower else (order,), weights=weights, mode=mode)
    ratio = checked.error_ratio(order)
    if 0 < ratio < math.inf:
        target(math.log10(ratio), label=f"log10(error / allowed) at order {order}")
    verdicts = {each: outcome(checked, each) for each in checked.result.orders}
    for each, verdict in verdicts.items():
        coverage.count(operation, each, verdict=verdict, mode=mode)
        now.resolve(each, checked.result.orders[each].relative_resolution)
    event("verdict", verdicts[order])
    for each, verdict in verdicts.items():
        if verdict == Verdict.MISMATCH:
            _raise_unless_known(graph, checked, each, defects)
    return checked


def _raise_unless_known(graph: Graph, checked: Trial, order: int, defects: Sequence[Defect] | None) -> None:
    """Raises the mismatch of a graph at an order, unless it has the signature of a known defect."""
    node_trial = node_trials(checked.problem.mode)
    found = finding_of(checked, order, node_trial)
    if match(found, defects=defects) is None:
        made = failure_class(found.findings[0].kind, found.culprit, order, found.taken)
        failure = made(f"{checked.result}\n{graph}", checked.result)
        failure.found, failure.node_trial, failure.defects = found, node_trial, defects
        monitor.current().fail(graph, failure)
        raise failure from None


def outcome(checked: Trial, order: int) -> str:
    """The outcome to count: the verdict, or agreement at a kink, a composed kink, or a mode that cannot run."""
    result, kinks = checked.result.orders[order], checked.problem.nonsmooth_nodes.kinks
    if result.verdict == Verdict.INCONCLUSIVE and Reason.COMPOSED_KINK in result.reasons:
        return COMPOSED
    if Reason.CANNOT_RUN in result.reasons:
        return CANNOT_RUN
    if set(result.reasons) == {Reason.HIGHER_KINK} or (kinks and result.verdict == Verdict.AGREE):
        return KINK
    return result.verdict


@cache
def failure_class(kind: Kind, culprit: str, order: int, mode: Mode) -> type[Found]:
    """The class of exceptions of a kind, an operation, an order and a mode; the same each time.

    Hypothesis takes two failures for the same if their class and line agree, and would shrink one into the other.
    """
    base = FAILURES[kind]
    suffix = "" if mode == PLAIN else f" ({mode})"
    return type(f"{base.__name__}_{culprit}_order{order}{suffix}", (Found, base), {"__module__": __name__})


STEPS = (1.0, -1.0, 0.5, -0.5, 0.25, -0.25)
MOST = 32
"""The most other inputs that are tried; each costs a check."""


def moved(found: GraphFinding, node_trial: NodeTrials, defects: Sequence[Defect] | None = None) -> GraphFinding:
    """The finding at inputs that differ in as few elements as possible, with no or fewer elements left undecided.

    It has the same signature and matches none of the known `defects`; `found` itself if there are no such inputs
    nearby. They are looked for as long as the monitor lets a test shrink.
    """
    best, left = found, undecided(found)
    if not left:
        return found
    now = monitor.current()
    over = now.clock() + now.shrink_seconds
    for step, (place, index) in islice(product(STEPS, _elements(found)), MOST):
        graph = _stepped(best.graph, place, index, step, found.taken.number_type)
        with contextlib.suppress(Exception):  # an example that cannot be run at other inputs is kept at these
            other = _same_at(graph, found, node_trial)
            if other and undecided(other) < left and match(other, defects=defects) is None:
                best, left = other, undecided(other)
        if not left or now.clock() >= over:
            break
    return best


def _same_at(graph: Graph, found: GraphFinding, node_trial: NodeTrials) -> GraphFinding | None:
    """The finding at other inputs; None if its signature differs, or if they are outside of a domain."""
    if not _in_domains(graph):
        return None
    monitor.current().before(lambda: graph)
    checked = trial.run(graph, (found.order,), mode=found.taken)
    if checked.result.verdict != Verdict.MISMATCH:
        return None
    other = finding_of(checked, found.order, node_trial)
    return other if other.signature == found.signature else None


def undecided(found: GraphFinding) -> int:
    """The number of its nodes' elements at a kink, plus that of inconclusive elements of its derivative.

    Kinks do not count for a value outside the one-sided slopes, which is decided at the kink.
    """
    inconclusive = sum(element.verdict == Verdict.INCONCLUSIVE for element in found.elements)
    if found.kind is Kind.SUBDIFFERENTIAL:
        return inconclusive
    return inconclusive + nonsmooth_nodes(found.graph, [value.array() for value in found.values]).kinked_elements


def _elements(found: GraphFinding) -> list[tuple[int, int]]:
    """The inputs' elements, as (input, index): those with an inconclusive derivative first, then zeros."""
    unclear = {element.coordinate for element in found.elements if element.verdict == Verdict.INCONCLUSIVE}
    ranked, start = [], 0
    for place, given in enumerate(found.graph.inputs):
        count = coordinate_count((), given.dtype)
        for index, value in enumerate(given.values):
            own = range(start, start + count)
            ranked.append((unclear.isdisjoint(own), value != 0, place, index))
            start += count
    return [(place, index) for *_, place, index in sorted(ranked)]


def _stepped(graph: Graph, place: int, index: int, step: float, number_type: str | None) -> Graph:
    """The graph with one element of an input moved, rounded to a number type."""
    array = graph.inputs[place].array()
    array.flat[index] += step
    if number_type is not None:
        array = array.astype(tf.as_dtype(number_type).as_numpy_dtype).astype(array.dtype)
    return replace(graph, inputs=(*graph.inputs[:place], literal(array), *graph.inputs[place + 1 :]))


def _in_domains(graph: Graph) -> bool:
    values = values_of(graph)
    return all(
        CATALOGUE[node.op].domain(argument).contains(np.asarray(values[parent]))
        for _, node in graph.positions()
        for argument, parent in enumerate(node.parents)
    )
