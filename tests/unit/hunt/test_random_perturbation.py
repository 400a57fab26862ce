"""Random-rounding perturbation between nodes: what it shows, and what stays under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.perturbation import UNIT
from gradcheck.hunt import trial
from gradcheck.hunt.evaluation import RandomPerturbation, forward, values_of
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.result import Verdict

DRAWS = 6


def graph(values: Any, *nodes: Node) -> Graph:
    array = np.asarray(values, np.float64)
    return Graph((Input(array.shape, tuple(array.reshape(-1).tolist())),), nodes)


def problem(drawn: Graph) -> GraphProblem:
    return GraphProblem(drawn, values_of(drawn))


def spread(drawn: Graph) -> np.ndarray:
    whole = problem(drawn)
    ones = np.ones((1, whole.outputs))
    plain = whole.gradients(ones).values
    return np.max([np.abs(whole.perturbed(draw).gradients(ones).values - plain) for draw in range(DRAWS)], axis=0)[0]


def test_values_move_by_a_unit_unless_exempt() -> None:
    drawn = graph([2.0, 0.0], Node.of("square", 0), Node.of("negative", 1))
    inputs = [tf.constant([2.0, 0.0], tf.float64)]
    plain, moved = forward(drawn, inputs), forward(drawn, inputs, perturbation=RandomPerturbation(1, frozenset({1})))
    np.testing.assert_array_equal(moved[1], plain[1])
    assert abs(float(moved[2][0] / plain[2][0]) - 1) == UNIT
    assert float(moved[2][1]) == 0.0


def test_digits_lost_between_nodes_show() -> None:
    saturated = spread(graph([31.6, 1.4], Node.of("sigmoid", 0), Node.of("asin", 1)))
    assert saturated[0] > 1e-12
    assert saturated[1] < 1e-14


def test_terms_that_cancel_where_a_value_is_used_twice_show() -> None:
    twice = graph([3.0], Node.of("exp", 0), Node.of("square", 1), Node.of("negative", 1), Node.of("add", 2, 3))
    assert spread(twice)[0] > 0


def test_what_a_node_loses_inside_does_not_show() -> None:
    assert np.all(spread(graph([34.0], Node.of("sigmoid", 0))) <= 4 * UNIT * 1.5e-15)


def test_what_raises_when_perturbed_is_undefined() -> None:
    checked = problem(graph([1.0], Node.of("check_numerics", 0), Node.of("sqrt", 1)))
    beside = replace(checked, perturbation=RandomPerturbation(0)).gradients(np.full((1, 1), np.nan))
    assert np.isnan(beside.values).all()


def test_a_formula_that_loses_digits_by_itself_is_still_wrong() -> None:
    whole = graph([1e9], Node.of("cumulative_logsumexp", 0, reverse=False))
    assert trial.run(whole, (1,), weights=np.array([5.0])).result.verdict == Verdict.MISMATCH
