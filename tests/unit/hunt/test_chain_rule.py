"""Derivatives of graphs from those of their nodes, which are right only where every node's are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import chain_rule, graph_check, trial
from gradcheck.hunt.chain_rule import chain_rule_gradient, chain_rule_products
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.result import Kind, Verdict
from gradcheck.verdict import second_order
from gradcheck.verdict.tables import Comparison, combined
from tests.planting import planted

LINE, PLANE = Input((2,), (0.5, -2.0)), Input((2, 2), (1.0, 0.3, -0.7, 2.0))
USED_TWICE = Graph((LINE,), (Node.of("sin", 0), Node.of("mul", 1, 0), Node.of("mul", 2, 2), Node.of("exp", 3)))
MANY = Graph((Input((30,), tuple(np.linspace(-2.0, 0.5, 30).tolist())),), USED_TWICE.nodes)
GRAPHS = {
    "values used twice": USED_TWICE,
    "matrices": Graph((PLANE, PLANE), (Node.of("batch_matmul", 0, 1, adjoint="a"), Node.of("determinant", 2))),
    "an input that nothing uses": Graph((LINE, LINE), (Node.of("square", 1), Node.of("tanh", 2))),
    "complex numbers": Graph(
        (Input((2,), (0.5 + 0.1j, -2.0 + 1.0j), "complex128"),),
        (Node.of("complex_square", 0), Node.of("complex_exp", 1), Node.of("real", 2), Node.of("sin", 3)),
    ),
}


def always(_problem: GraphProblem, _order: int) -> bool:
    return True


@pytest.mark.parametrize("name", GRAPHS)
def test_both_are_those_of_nested_tapes(name: str) -> None:
    problem = GraphProblem.evaluated(GRAPHS[name])
    gradient, products = problem.derivatives(np.ones(1), problem.direction[None, :])
    for trusted in (always, graph_check.agrees):
        found = chain_rule_gradient(problem, trusted), chain_rule_products(problem, trusted)
        assert found[0] is not None
        assert found[0].gradient == pytest.approx(gradient.values[0], rel=1e-12)
        assert found[1] == pytest.approx(products.values[0], rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_a_node_that_does_not_agree_leaves_them_open(order: int) -> None:
    def doubted(problem: GraphProblem, asked: int) -> bool:
        return not (asked == order and problem.graph.nodes[0].op == "exp")

    problem = GraphProblem.evaluated(USED_TWICE)
    assert chain_rule_products(problem, doubted) is None
    assert (chain_rule_gradient(problem, doubted) is None) == (order == 1)


@pytest.mark.parametrize("graph", [USED_TWICE, MANY], ids=["two coordinates", "thirty"])
@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, Verdict.INCONCLUSIVE), (1.001, Verdict.INCONCLUSIVE), (1.02, Verdict.MISMATCH)]
)
def test_differences_that_contradict_the_chain_rule_accuse_nobody(
    graph: Graph, factor: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differences of the whole graph are made to miss a part of 1e-3, along the axes and twice along the direction.

    Where autodiff misses the chain rule's value by no more than that, either may be rounding.
    """
    real = second_order.compare_second

    def missing(problem: GraphProblem, *given: Any, **options: Any) -> list[Comparison]:
        tables = real(problem, *given, **options)
        if len(problem.graph.nodes) == 1:
            return tables
        (table,) = tables
        table = replace(table, autodiff=factor * table.autodiff, difference=0.999 * table.difference)
        table = table.marked(table.autodiff != 0, Verdict.MISMATCH, Kind.WRONG_VALUE)
        sums = {name: problem.direction[None, :] @ getattr(table, name) for name in ("autodiff", "difference")}
        return [table, replace(combined(lambda part: part[:1], table), coordinates=(None,), **sums)]

    monkeypatch.setattr(graph_check, "compare_second", missing)
    found = trial.run(graph, (2,)).result.orders[2]
    assert found.verdict == verdict


def test_of_large_nodes_no_jacobian_is_taken() -> None:
    count = chain_rule.LARGEST + 1
    graph = Graph((Input((count,), (0.5,) * count),), (Node.of("sin", 0), Node.of("square", 1)))
    assert chain_rule_products(GraphProblem.evaluated(graph), graph_check.agrees) is None


def test_right_nodes_with_a_wrong_derivative_between_them_stay_a_mismatch() -> None:
    """The gradient of the sum passes the cotangent on as a constant, which is right at first order, and for a lone
    node."""
    cut = planted(["AddV2"], lambda right: lambda op, upstream: right(op, tf.stop_gradient(upstream)))
    graph = Graph((LINE, LINE), (Node.of("add", 0, 1), Node.of("square", 2)))
    with cut:
        found = trial.run(graph, (2,)).result.orders[2]
        assert found.verdict == Verdict.MISMATCH
        assert trial.run(Graph((LINE, LINE), graph.nodes[:1]), (2,)).result.verdict == Verdict.AGREE
