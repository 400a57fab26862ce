"""Now and then an operation is drawn on tensors of up to 4,096 elements."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import (
    LARGE,
    LONGEST,
    MOST_OF_LARGE,
    SWARMS,
    graphs,
    is_modest,
    large_signatures,
    large_starts,
)
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis.errors import NoSuchExample

from gradcheck.defects.region import COMPLEX
from gradcheck.graph import Graph
from gradcheck.hunt import trial
from gradcheck.hunt.admission import LARGEST
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS
from gradcheck.result import Verdict
from gradcheck.tracing.hooks import GRAPH_OPERATION, gradients_looked_up, patched
from tests import slices


def is_large(graph: Graph) -> bool:
    return any(prod(literal.shape) > MOST_ELEMENTS for literal in graph.inputs)


def is_small(graph: Graph) -> bool:
    return not is_large(graph)


def drawn_with(op: str) -> Any:
    """Graphs that contain an operation; in the test command, of no other one: those that are large have none."""
    return graphs(containing=op, operations=None if slices.exhaustively else [op])


@cache
def found(op: str, condition: Callable[[Graph], bool] = is_large) -> Graph:
    few = settings(
        max_examples=500, database=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
    )
    for number in range(4):  # of one seed, Hypothesis may miss a number
        with suppress(NoSuchExample):
            return find(drawn_with(op), condition, settings=few, random=Random(number))
    raise NoSuchExample(op)


def test_nearly_every_operation_has_large_shapes() -> None:
    shapes = {op: large_starts(op) for op in CATALOGUE if not CATALOGUE[op].looped}
    # Sparse operations have patterns of a fixed shape, and their complex forms have them once more.
    real_forms = {op: op.removeprefix(COMPLEX) for op in shapes if op.removeprefix(COMPLEX) in shapes.keys() - {op}}
    assert all(bool(shapes[op]) == bool(shapes[real]) for op, real in real_forms.items())
    assert sum(bool(shapes[op]) for op in shapes.keys() - real_forms) >= 0.95 * len(shapes.keys() - real_forms)
    assert all(MOST_ELEMENTS < prod(one) <= MOST_OF_LARGE for many in shapes.values() for one in many)
    assert not any(large_starts(op) for op in CATALOGUE if CATALOGUE[op].looped)


def test_all_inputs_together_fit_into_a_report() -> None:
    for op in ("multiply_no_nan", "matmul", "batch_normalization_global"):
        for shape in large_starts(op):
            assert all(sum(map(prod, shapes)) <= LARGEST for shapes in large_signatures(op, shape))


@pytest.mark.sliced
def test_they_are_rare() -> None:
    drawn: list[Graph] = []
    for number in range(8 if slices.exhaustively else 4):  # of one seed, Hypothesis may miss a number

        @seed(number)
        @settings(max_examples=250, database=None)
        @given(drawn_with("sin"))
        def collect(graph: Graph) -> None:
            drawn.append(graph)

        collect()
    share = sum(map(is_large, drawn)) / len(drawn)
    assert 0 < share < 3 / SWARMS
    assert 0 < LARGE < SWARMS


def test_what_takes_much_memory_or_many_steps_stays_small() -> None:
    assert is_modest("sin", ((4096,),), ())
    assert not is_modest("sin", ((2**20,),), ())
    assert not is_modest("foldl", ((4096,),), ())  # a loop over the elements
    assert not is_modest("overlap_and_add", ((2, 2048),), (("step", 1),))  # frames times frames
    assert not is_modest("sin", ((4096,),), (("axis", 0),))  # no such attribute


def test_a_loop_of_python_is_not_traced_to_its_end() -> None:
    added: list[Any] = []

    def noted(original: Any, *args: Any, **kwargs: Any) -> Any:
        added.append(args[0])
        return original(*args, **kwargs)

    with patched((*GRAPH_OPERATION, noted)):
        assert not is_modest.__wrapped__("keras_conv_lstm", ((1300, 1, 1),), ())
    assert LONGEST / 2 < len(added) <= LONGEST + 1


@slices.parametrized("op", ["sin", "log", "matmul", "segment_max", "complex_exp", "atanh"], slices.every(2))
def test_their_values_are_spread_over_the_domain(op: str) -> None:
    graph = found(op)
    assert [node.op for node in graph.nodes] == [op]
    for argument, literal in enumerate(graph.inputs):
        values = literal.array()
        assert CATALOGUE[op].domain(argument).contains(values)
        assert len(np.unique(values)) >= values.size - 3


@pytest.mark.sliced
@pytest.mark.parametrize(("order", "wrong"), [(1, "Cos"), (2, "Sin")])
def test_a_fault_in_large_tensors_alone_is_found(order: int, wrong: str) -> None:
    def planted(name: str, function: Any) -> Any:
        if name != wrong:
            return function

        def gradient(op: Any, upstream: Any) -> Any:
            right = function(op, upstream)
            late = tf.reshape(tf.range(tf.size(right)) >= MOST_ELEMENTS, tf.shape(right))
            return tf.where(late, right * 1.001, right)

        return gradient

    graph = found("cos")
    with gradients_looked_up(planted):
        assert trial.run(graph, (order,)).result.verdict == Verdict.MISMATCH
        assert trial.run(found("cos", is_small), (order,)).result.verdict == Verdict.AGREE
    assert trial.run(graph, (order,)).result.verdict == Verdict.AGREE
