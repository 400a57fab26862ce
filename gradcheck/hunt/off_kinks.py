"""Moves a shrunk example off its kinks, declared or not, so that its derivative can be decided once it is corrected.

Hypothesis shrinks to the simplest literals, zeros and ties, and so into the kinks of operations. An error that is also
there beside the kinks is shown beside them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.defects.records import Defect
from gradcheck.graph import Graph, literal
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.evidence import NodeTrials, finding_of
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.known_graphs import match
from gradcheck.hunt.nonsmooth import nonsmooth_nodes
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind, Verdict

STEPS = (1.0, -1.0, 0.5, -0.5, 0.25, -0.25)
MOST = 32
"""The most other inputs that are tried; each costs a check."""


def moved(found: GraphFinding, node_trial: NodeTrials, defects: Sequence[Defect] | None = None) -> GraphFinding:
    """The finding at inputs that differ in as few elements as possible, with no or fewer elements left undecided.

    It has the same signature and matches none of the known `defects`; `found` itself if there are no such inputs
    nearby.
    """
    best, left = found, undecided(found)
    if not left:
        return found
    for step, (place, index) in islice(product(STEPS, _elements(found)), MOST):
        graph = _stepped(best.graph, place, index, step, found.taken.number_type)
        with contextlib.suppress(Exception):  # an example that cannot be run at other inputs is kept at these
            other = _same_at(graph, found, node_trial)
            if other and undecided(other) < left and match(other, defects=defects) is None:
                best, left = other, undecided(other)
        if not left:
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
