"""Graphs as functions of real coordinates: batches, cotangents, blame and the places of nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck.autodiff.reverse import Gradients
from gradcheck.graph import Graph, Input, Node, alone, literal
from gradcheck.hunt import trial
from gradcheck.hunt.blame import blame
from gradcheck.hunt.evaluation import forward, values_of
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.nonsmooth import count_on, nonsmooth_nodes
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import forget
from gradcheck.operations.spec import OpSpec
from gradcheck.problem.mapped import MEASURED
from gradcheck.result import Verdict

X = Input((3,), (0.5, -1.0, 2.0))
S = Input((), (3.0,))
GRAPH = Graph((X, S), (Node.of("sin", 0), Node.of("mul", 2, 1), Node.of("mul", 3, 3)))


def problem(cotangent: Any = None) -> GraphProblem:
    return GraphProblem(GRAPH, values_of(GRAPH), cotangent)


def exact(point: Any) -> Any:
    return (np.sin(point[:3]) * point[3]) ** 2


def test_points_are_evaluated_as_one_batch_with_scalars_broadcast() -> None:
    points = problem().point + np.linspace(0, 1, 5)[:, None]
    assert np.allclose(problem().values(points), [exact(point) for point in points], rtol=1e-15)


def test_a_cotangent_makes_one_number() -> None:
    weights = np.array([1.0, -2.0, 0.5])
    assert problem(weights).outputs == 1
    assert np.allclose(problem(weights).values(problem().point[None]), exact(problem().point) @ weights)


def test_gradients_in_one_batch_are_those_point_by_point() -> None:
    points = problem().point + np.linspace(0, 1, 4)[:, None]
    weights = np.array([1.0, -2.0, 0.5])
    batch = problem(weights).gradients_at(np.ones(1), points)
    single = [problem(weights).gradients(np.ones((1, 1)), point).values[0] for point in points]
    assert np.allclose(batch, single, rtol=1e-14)


@pytest.fixture
def slow() -> Iterator[list[bool]]:
    """An operation of a project that takes a hundredth of a second; lists for each call whether it was eager."""
    eager: list[bool] = []

    def slow_sine(x: Any) -> Any:
        eager.append(tf.executing_eagerly())
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return tf.reduce_sum(tf.sin(x)) * x

    gradcheck.operation(shapes=[(2,)], modes=())(slow_sine)
    yield eager
    forget(["slow_sine"])


def test_the_gradients_of_a_slow_operation_are_taken_by_a_graph_and_are_the_same(slow: list[bool]) -> None:
    graph = Graph((literal([0.3, 0.7]),), (Node.of("slow_sine", 0), Node.of("tanh", 1)))
    problem = GraphProblem.evaluated(graph, np.array([1.0, -2.0]))
    points = problem.point + np.random.default_rng(0).normal(size=(200, 2))
    before = problem.gradients_at(np.ones(1), points)
    slow.clear()
    np.testing.assert_allclose(problem.gradients_at(np.ones(1), points), before, rtol=1e-13, atol=1e-14)
    assert 0 < sum(slow) <= 2 * MEASURED
    slow.clear()
    other = GraphProblem.evaluated(replace(graph, inputs=(literal([0.5, 0.1]),)), np.array([0.5, 3.0]))
    np.testing.assert_allclose(
        other.gradients_at(np.ones(1), points[:9]), [other.gradients(np.ones((1, 1)), p).values[0] for p in points[:9]]
    )
    assert sum(slow) == 1 + 9, "the point itself, and one by one what it is compared with"


def doubled(gradients: Gradients) -> Gradients:
    return replace(gradients, values=2 * gradients.values)


def test_a_slow_operation_that_is_wrong_is_checked_within_seconds(slow: list[bool]) -> None:
    graph = Graph((literal([0.3, 0.7]),), (Node.of("slow_sine", 0),))
    assert trial.run(graph).result.verdict == Verdict.AGREE
    slow.clear()
    with pytest.MonkeyPatch.context() as patch:
        right = GraphProblem.products
        patch.setattr(GraphProblem, "products", lambda *given: doubled(right(*given)))
        assert trial.run(graph, (2,)).result.verdict == Verdict.MISMATCH
    assert sum(slow) < 100


def test_a_gradient_that_throws_beyond_the_domain_is_not_a_number() -> None:
    graph = Graph((Input((1,), (0.5,)),), (Node.of("check_numerics", 0), Node.of("asin", 1)))
    found = GraphProblem(graph, values_of(graph)).gradients_at(np.ones(1), np.array([[0.5], [1.5]]))
    assert np.allclose(found[0], 1 / np.sqrt(0.75))
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("zeta", {"exponent": 3.0}), ("polygamma", {"order": 2.0}), ("digamma", {}), ("lgamma", {})],
)
def test_points_far_beyond_the_domain_take_no_longer(name: str, attributes: dict[str, Any]) -> None:
    """Two derivatives at -4e15 would take the kernels years: they sum one term per unit."""
    graph = Graph((Input((1,), (2.5,)),), (Node.of(name, 0, **attributes),))
    found, far = GraphProblem(graph, values_of(graph)), np.array([[2.5], [-4e15 + 0.5]])
    assert np.isfinite(found.values(far)[0]).all()
    assert np.isfinite(found.gradients_at(np.ones(1), far)[0]).all()


def test_a_value_of_another_size_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = OpSpec("positive", lambda x: tf.boolean_mask(x, x > 0), ("Select",), "planted", looped=True)
    monkeypatch.setitem(CATALOGUE, "positive", spec)
    graph = Graph((Input((2,), (0.5, 1.5)),), (Node.of("positive", 0),))
    found = GraphProblem(graph, values_of(graph)).values(np.array([[0.5, 1.5], [0.5, -1.5], [2.0, 1.0]]))
    np.testing.assert_array_equal(found, [[0.5, 1.5], [np.nan, np.nan], [2.0, 1.0]])


def test_products_are_those_of_the_hessian() -> None:
    weights = np.array([1.0, 0.0, 0.0])
    found = problem(weights).products(np.ones(1), np.eye(4)[[0, 3]]).values
    x, s = 0.5, 3.0
    second, mixed = 2 * s**2 * np.cos(2 * x), 2 * s * np.sin(2 * x)
    assert np.allclose(found[0], [second, 0, 0, mixed])
    assert np.allclose(found[1], [mixed, 0, 0, 2 * np.sin(x) ** 2])


def test_a_looped_operation_has_a_leading_dimension_too() -> None:
    literal = Input((1, 2, 2, 1), (1.0, 2.0, 3.0, 4.0))
    stacked = tf.stack([tf.constant(literal.array())] * 3)
    graph = Graph((literal,), (Node.of("square", 0),))
    assert forward(graph, [stacked], points=True)[-1].shape == (3, 1, 2, 2, 1)


def test_alone_keeps_the_arguments_values_and_what_is_used_twice() -> None:
    node = alone(GRAPH, 4, values_of(GRAPH))
    assert node.nodes == (Node.of("mul", 0, 0),)
    assert np.allclose(node.inputs[0].array(), np.sin(X.array()) * 3.0)


def test_blame_names_the_first_wrong_node() -> None:
    assert blame(GRAPH, values_of(GRAPH), 1, lambda graph, _: graph.nodes[0].op == "mul") == 3
    assert blame(GRAPH, values_of(GRAPH), 2, lambda graph, _: False) is None


def test_blame_names_the_node_with_which_the_graph_becomes_wrong() -> None:
    asked: list[Any] = []

    def is_wrong(graph: Graph, places: Any) -> bool:
        asked.append(places)
        return len(graph.nodes) > 1

    assert blame(GRAPH, values_of(GRAPH), 1, is_wrong) == 3
    assert asked == [[2], [3], [4], [2], [2, 3]]


def test_blame_names_the_node_that_nobody_can_judge_by_itself_where_only_the_whole_is_wrong() -> None:
    def blamed(undecided: str, wrong: str = "") -> int | None:
        def is_wrong(graph: Graph, _: Any) -> bool | None:
            alone = graph.nodes[0].op if len(graph.nodes) == 1 else ""
            return None if alone == undecided else alone in ("", wrong)

        return blame(GRAPH, values_of(GRAPH), 1, is_wrong)

    assert blamed("sin") == 2
    assert blamed("mul", "mul") == blamed("nothing") == 3
    assert blamed("sin", "mul") == 3


def test_blame_asks_every_node_by_itself_before_it_puts_anything_behind_one() -> None:
    def is_wrong(graph: Graph, _: Any) -> bool:
        return [node.op for node in graph.nodes] in (["sin", "square"], ["mul"])

    assert blame(GRAPH, values_of(GRAPH), 2, is_wrong) == 3
    assert blame(GRAPH, values_of(GRAPH), 2, lambda graph, _: graph.nodes[-1].op == "square") == 2


def test_nodes_at_kinks_are_told_from_smooth_ones() -> None:
    graph = Graph((Input((2,), (0.0, 1.0)),), (Node.of("relu", 0), Node.of("sin", 1)))
    found = nonsmooth_nodes(graph, values_of(graph))
    assert (found.kinks, found.singular, found.curvature_jumps, found.kinked_elements) == ((1,), (), (), 1)
    assert found.positions == (1,)
    assert not found.composed
    assert nonsmooth_nodes(GRAPH, values_of(GRAPH)).positions == ()


@pytest.mark.parametrize(("product", "kinked"), [(0.5, (1,)), (0.375, ())])
def test_the_margin_of_pairs_of_one_class_is_a_kink(product: float, kinked: tuple[int, ...]) -> None:
    """keras circle clips the weight margin + 1 - s at zero, for a pair of one class with the product s."""
    attributes = {"labels": (0, 1), "removed": False, "margin": -0.5, "gamma": 1.0}
    x = [[0.5, (product - 0.25) ** 0.5], [0.25, 0.0]]
    graph = Graph((literal(x),), (Node.of("keras_circle", 0, **attributes),))
    assert nonsmooth_nodes(graph, values_of(graph)).kinks == kinked


@pytest.mark.parametrize(("x", "y"), [(2.0, 1e-7), (1e-7, 2.0)])
def test_a_vector_of_the_least_norm_on_either_side_is_singular(x: float, y: float) -> None:
    graph = Graph((literal([x]), literal([y])), (Node.of("keras_cosine_similarity", 0, 1, axis=-1),))
    assert nonsmooth_nodes(graph, values_of(graph)).singular == (2,)


def test_a_singular_point_is_composed() -> None:
    graph = Graph((Input((), (0.0,)),), (Node.of("sqrt", 0),))
    assert nonsmooth_nodes(graph, values_of(graph)).composed


def test_rounding_away_from_a_kink_still_counts() -> None:
    def distance(x: Any, y: Any) -> Any:
        return np.abs(x - y)

    one = np.array([1.0])
    assert count_on(distance, [one, one + 1e-15], {}) == 1
    assert count_on(distance, [one, one + 1e-9], {}) == 0
    assert count_on(None, [one, one], {}) == 0


def test_points_where_the_function_raises_have_no_value() -> None:
    graph = Graph((Input((1,), (1.0,)),), (Node.of("log", 0), Node.of("check_numerics", 1)))
    found = GraphProblem(graph, values_of(graph)).values(np.array([[1.0], [-1.0], [2.0]]))
    np.testing.assert_array_equal(found, [[0.0], [np.nan], [np.log(2.0)]])
