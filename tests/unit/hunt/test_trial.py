"""The check of one graph: the rules about points that are not smooth, blame, and the data of a trial."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck.autodiff.mode import Mode
from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt import blame, trial
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.result import Kind, Reason, Verdict


def graph(inputs: list[Any], *nodes: Node) -> Graph:
    return Graph(tuple(literal(values) for values in inputs), nodes)


SMOOTH = graph([[0.5, -2.0]], Node.of("sin", 0), Node.of("mul", 1, 0))
KINKED = graph([[0.0, 2.0]], Node.of("relu", 0), Node.of("sin", 1))
COMPOSED = {
    "maximum(x, y) + minimum(x, y) at a tie": graph(
        [[1.0], [1.0]], Node.of("maximum", 0, 1), Node.of("minimum", 0, 1), Node.of("add", 2, 3)
    ),
    "relu(x) - relu(-x) at 0": graph(
        [0.0], Node.of("relu", 0), Node.of("negative", 0), Node.of("relu", 2), Node.of("subtract", 1, 3)
    ),
    "sqrt(x**4) at 0": graph([0.0], Node.of("square", 0), Node.of("square", 1), Node.of("sqrt", 2)),
}


def test_a_smooth_graph_agrees_at_both_orders() -> None:
    checked = trial.run(SMOOTH)
    assert checked.result.verdict == Verdict.AGREE
    assert checked.problem.nonsmooth_nodes.kinks == ()
    assert 0 < checked.error_ratio(1) < 1
    assert all(0 < resolution < 1e-8 for resolution in checked.result.resolution.values())


def test_one_kink_is_the_subgradient_test_and_has_no_second_order() -> None:
    checked = trial.run(KINKED)
    assert len(checked.problem.nonsmooth_nodes.kinks) == 1
    assert checked.result.orders[1].verdict == Verdict.AGREE
    assert checked.result.orders[2].verdict == Verdict.INCONCLUSIVE
    assert checked.result.orders[2].reasons == (Reason.HIGHER_KINK,)


@pytest.mark.parametrize("name", COMPOSED)
def test_a_composed_kink_is_a_convention(name: str) -> None:
    checked = trial.run(COMPOSED[name])
    for order in (1, 2):
        assert checked.result.orders[order].verdict == Verdict.INCONCLUSIVE
        assert checked.result.orders[order].reasons == (Reason.COMPOSED_KINK,)


def test_a_kink_that_is_small_beside_the_bend_is_one() -> None:
    """6 - 1e-5 r - 6 r**2 with r = relu(x) at 0: autodiff's 0 is the left slope, differences see the mean."""
    bent = graph(
        [[0.0], [-1e-5], [6.0]],
        Node.of("relu", 0),
        Node.of("mul", 3, 1),
        Node.of("square", 3),
        Node.of("mul", 5, 2),
        Node.of("subtract", 4, 6),
        Node.of("add", 7, 2),
    )
    checked = trial.run(bent, (1,))
    assert checked.result.verdict == Verdict.AGREE
    assert checked.tables[1][0].at_kink[0, 0]


def test_near_a_kink_is_no_kink() -> None:
    checked = trial.run(graph([[1e-5, -1e-5]], Node.of("relu", 0)))
    assert checked.problem.nonsmooth_nodes.kinks == ()
    assert checked.result.verdict == Verdict.AGREE


def test_cumprod_at_a_zero_is_a_mismatch_and_the_culprit() -> None:
    wrong = graph(
        [[0.0, 2.0, 3.0]], Node.of("sin", 0), Node.of("cumprod", 1, exclusive=False, reverse=False), Node.of("exp", 2)
    )
    checked = trial.run(wrong, (1,))
    assert checked.result.verdict == Verdict.MISMATCH
    assert checked.result.findings[0].kind is Kind.WRONG_VALUE
    assert checked.result.findings[0].index == (0,)
    assert blame.culprit(wrong, 1) == 2


def test_the_hessian_of_a_product_at_a_zero() -> None:
    checked = trial.run(graph([[0.0, 2.0, 3.0]], Node.of("reduce_prod", 0, axis=-1, keepdims=False)))
    assert checked.result.orders[1].verdict == Verdict.AGREE
    assert checked.result.orders[2].verdict == Verdict.MISMATCH
    assert (
        "the one that disagrees with the other two estimates: autodiff of autodiff" in checked.result.findings[0].reason
    )


def test_a_right_graph_has_no_culprit() -> None:
    assert blame.culprit(SMOOTH, 1) is None


def test_many_inputs_are_probed() -> None:
    wide = graph([np.linspace(-2, 2, 40)], Node.of("tanh", 0), Node.of("square", 1))
    checked = trial.run(wide)
    assert checked.result.verdict == Verdict.AGREE
    assert checked.result.orders[1].compared < 40 * 40


def test_no_elements_agree_and_say_so() -> None:
    checked = trial.run(graph([np.zeros(0)], Node.of("sin", 0)))
    assert checked.result.verdict == Verdict.AGREE
    assert "no elements" in checked.result.orders[1].notes[0]


def test_a_trial_carries_what_it_was_decided_on() -> None:
    checked = trial.run(SMOOTH)
    np.testing.assert_allclose(checked.problem.intermediates[-1], np.sin([0.5, -2.0]) * [0.5, -2.0])
    cotangent, direction = checked.problem.cotangent, checked.problem.direction
    assert cotangent is not None
    assert (cotangent.shape, direction.shape) == ((2,), (2,))
    (first,), (second, *_) = (checked.tables[order] for order in (1, 2))
    x = np.array([0.5, -2.0])
    gradient = cotangent * (np.sin(x) + x * np.cos(x))
    np.testing.assert_allclose(first.autodiff[:, 0], gradient, rtol=1e-14)
    np.testing.assert_allclose(first.difference[:, 0], gradient, rtol=1e-10)
    curvature = cotangent * (2 * np.cos(x) - x * np.sin(x)) * direction
    np.testing.assert_allclose(second.autodiff.ravel(), curvature, rtol=1e-13)
    for order, tables in checked.tables.items():
        assert checked.error_ratio(order) == max(table.excess().max() for table in tables)


def test_a_convention_has_no_tables() -> None:
    checked = trial.run(COMPOSED["sqrt(x**4) at 0"])
    assert list(checked.tables.values()) == [(), ()]
    assert checked.error_ratio(1) == 0


def test_given_coordinates_replace_the_random_ones() -> None:
    weights, vector = np.array([1.0, -0.5]), np.array([2.0, 0.25])
    checked = trial.run(SMOOTH, (2,), weights=weights, vector=vector)
    np.testing.assert_array_equal(checked.problem.cotangent, weights)
    np.testing.assert_array_equal(checked.problem.direction, vector)


def test_another_mode_is_checked_one_order_at_a_time() -> None:
    with pytest.raises(ValueError, match=r"orders were \(1, 2\)"):
        trial.run(SMOOTH, (1, 2), mode=Mode("forward"))


def test_a_trial_is_the_same_every_time() -> None:
    assert str(trial.run(SMOOTH).result) == str(trial.run(SMOOTH).result)


def test_where_the_curvature_jumps_the_first_order_is_checked_and_the_second_is_not() -> None:
    graph = Graph((Input((2,), (0.0, 1.0)),), (Node.of("elu", 0), Node.of("exp", 1)))
    result = trial.run(graph).result
    assert result.orders[1].verdict == Verdict.AGREE
    assert result.orders[2].verdict == Verdict.INCONCLUSIVE
    assert result.orders[2].reasons == (Reason.HIGHER_KINK,)


def test_a_linear_operation_is_blamed_for_a_second_derivative_that_raises() -> None:
    graph = Graph((Input((2,), (1.0, 2.0)),), (Node.of("py_function", 0), Node.of("sin", 1)))
    assert blame.culprit(graph, 2) == 1
    graph = Graph(
        (Input((2,), (0.5, 0.25)),),
        (Node.of("fake_quant_with_min_max_args", 0, way=(-1.0, 0.9921875, 8, False)), Node.of("sin", 1)),
    )
    assert blame.culprit(graph, 2) == 1


@pytest.mark.parametrize("behind", ["log_softmax", "softmax"])
def test_what_goes_wrong_on_the_way_back_is_blamed_where_it_does(behind: str) -> None:
    """The ids have gaps: the mean's second derivative divides by zero, which only its cotangent sees."""
    rows = Input((3,), (-2.17, -0.3, 2.09))
    nodes = (Node.of("segment_mean", 0, ids=(0, 0, 3)), Node.of("identity", 1), Node.of(behind, 2))
    graph = Graph((rows,), nodes)
    assert trial.run(graph, (2,)).result.verdict == Verdict.MISMATCH
    assert blame.culprit(graph, 2) == 1


def test_a_gradient_that_can_be_taken_once_is_taken_from_a_tape_each() -> None:
    graph = Graph((Input((2,), (0.0, 2.0)),), (Node.of("relu", 0), Node.of("py_function", 1)))
    checked = trial.run(graph, (1,))
    assert len(checked.problem.nonsmooth_nodes.kinks) == 1
    assert checked.result.verdict == Verdict.AGREE


def test_both_orders_at_once_say_what_each_says_by_itself() -> None:
    for checked in (SMOOTH, graph([[0.0, 2.0, 3.0]], Node.of("reduce_prod", 0, axis=-1, keepdims=False))):
        together = trial.run(checked).result.orders
        for order in (1, 2):
            alone = trial.run(checked, (order,)).result.orders[order]
            assert together[order].verdict == alone.verdict
            assert [finding.index for finding in together[order].findings] == [f.index for f in alone.findings]
            assert together[order].resolution == pytest.approx(alone.resolution, rel=0.1)


def test_a_second_derivative_that_raises_leaves_the_first_order_its_verdict() -> None:
    checked = trial.run(graph([[1.0, 2.0]], Node.of("py_function", 0), Node.of("sin", 1))).result.orders
    assert checked[1].verdict == Verdict.AGREE
    assert [finding.kind for finding in checked[2].findings] == [Kind.RAISES]


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2)])
def test_a_graph_that_is_batched_is_sampled_once(
    size: int, orders: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[int] = []
    values = GraphProblem.values

    def noted(problem: GraphProblem, points: Any) -> Any:
        shapes.append(len(points))
        return values(problem, points)

    monkeypatch.setattr(GraphProblem, "values", noted)
    graph = Graph((Input((size,), tuple(np.linspace(0.3, 1.2, size).tolist())),), (Node.of("sin", 0),))
    assert trial.run(graph, orders).result.verdict == Verdict.AGREE
    assert sum(count > 1 for count in shapes) == (len(orders) if size > 24 else 1)


def test_a_coordinate_leaves_its_domain_within_the_finest_steps() -> None:
    """Outside of it there is no quantile, and no distance from its kink."""
    level = graph([[0.6, -0.3, 0.1, 1.62], 1 - 1e-12], Node.of("keras_quantile_of_level", 0, 1))
    assert GraphProblem.evaluated(level).hidden_kinks.tolist() == [False] * 4 + [True]


def test_a_sample_that_leaves_the_image_within_the_finest_steps_passes_its_edge() -> None:
    """Its places relative to the pixels are no longer among the distances."""
    image = graph(
        [[[[1.0], [2.0]], [[4.0], [3.0]]], [0.3, 0.2], [0.2, 0.5 - 1e-12]],
        Node.of("keras_scale_and_translate", 0, 1, 2, method="linear", smoothed=False),
    )
    assert GraphProblem.evaluated(image).hidden_kinks.tolist() == [False] * 7 + [True]


def test_a_tf_function_whose_gradient_cannot_be_made_is_a_finding() -> None:
    """TensorFlow builds the gradient where the function is called under a tape, and already raises there."""
    drawn = Graph(
        (literal(np.array([[1.0, 2.0], [4.0, 5.0]])),),
        (Node.of("matrix_diag_part_of_unknown_dimensions", 0, k=(0, 1)),),
    )
    (finding,) = trial.run(drawn, (1,)).result.orders[1].findings
    assert finding.kind == Kind.RAISES
    assert "Shapes must be equal rank" in finding.reason
