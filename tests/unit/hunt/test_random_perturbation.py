"""Random-rounding perturbation between nodes: what it shows, and what remains under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt import trial
from gradcheck.hunt.evaluation import RandomPerturbation, forward, single, values_of
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Verdict
from gradcheck.tracing.perturbation import UNIT
from tests import slices
from tests.planting import planted

DRAWS = 6

GAP = 15.3
SMALL = np.array([1e-6 + 2e-6j])
AFTER_LABELS = [[1e3, 0.0]], [[GAP, 0.0]]
LOGARITHMS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "reduce_logsumexp": (([[0.0, -GAP]],), {"axis": -1, "keepdims": False}),
    "log_softmax": (([[GAP, 0.0]],), {}),
    "log_softmax_axis": (([[GAP], [0.0]],), {}),
    "softmax_cross_entropy": (AFTER_LABELS, {}),
    "softmax_cross_entropy_of_logits": (([[GAP, 0.0]],), {"label": 0}),
    "softmax_cross_entropy_over_axis": (AFTER_LABELS, {"axis": -1}),
    "sparse_softmax_cross_entropy": (([[GAP, 0.0]],), {"labels": (0,)}),
    # The bias of the label compensates for how often it and the sample were expected, 0.5 and 0.75.
    "sampled_softmax_loss": (
        ([[0.0], [0.0]], [GAP + np.log(0.5), np.log(0.75)], [[0.0], [0.0]]),
        {"labels": (0, 0), "remove": True},
    ),
    "keras_categorical_crossentropy_of_logits": (AFTER_LABELS[::-1], {"axis": -1, "smoothing": 0.0}),
    "keras_sparse_categorical_crossentropy_of_logits": (([[GAP, 0.0]],), {"labels": (0,), "ignored": None}),
}
"""Arguments for which the value, or the first element's, is the logarithm of 1 + exp(-GAP), or minus that."""


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


def test_values_move_by_a_unit_of_the_terms_that_left_them() -> None:
    drawn = graph([[GAP, 0.0], [800.0, 0.0]], Node.of("sparse_softmax_cross_entropy", 0, labels=(0, 0)))
    inputs = [tf.constant(values_of(drawn)[0])]
    plain = forward(drawn, inputs)[1].numpy()
    moved = forward(drawn, inputs, perturbation=RandomPerturbation(1))[1].numpy()
    assert plain[0] == pytest.approx(2.3e-7, rel=0.1)
    np.testing.assert_allclose(np.abs(moved - plain), [UNIT, 0.0], rtol=1e-3)


def test_operations_that_state_terms_lose_the_digits_of_a_logarithm_next_to_1() -> None:
    """Up to an ulp of 1 is lost, a share of 1e-10 or more of 2e-7; the logarithm of a sigmoid loses none."""
    assert {*LOGARITHMS, "keras_tanh_shrink"} == {name for name, spec in CATALOGUE.items() if spec.terms}
    right = float(mpmath.log1p(mpmath.exp(-mpmath.mpf(GAP))))
    arguments = {**LOGARITHMS, "log_sigmoid": (([GAP],), {})}
    lost = {}
    for name, (values, attributes) in arguments.items():
        tensors = [tf.constant(value, tf.float64) for value in values]
        value = single(CATALOGUE[name])(*tensors, **attributes).numpy().ravel()[0]
        lost[name] = abs(abs(value) - right)
    assert lost.pop("log_sigmoid") < 1e-15 * right
    assert all(1e-10 * right < one <= UNIT for one in lost.values()), lost


def test_what_shrinks_by_a_hyperbolic_tangent_has_lost_the_digits_of_its_argument() -> None:
    """Its code subtracts the tangent: from a third of its cube, an ulp of the argument is lost."""
    x = np.random.default_rng(1).uniform(0.005, 0.5, 100)
    values = single(CATALOGUE["keras_tanh_shrink"])(tf.constant(x)).numpy()
    lost = [
        abs(float(mpmath.mpf(value) - (mpmath.mpf(at) - mpmath.tanh(at)))) for at, value in zip(x, values, strict=True)
    ]
    assert max(lost) <= UNIT
    assert max(np.array(lost) / values) > 1e-14


def test_digits_lost_between_nodes_show() -> None:
    saturated = spread(graph([31.6, 1.4], Node.of("sigmoid", 0), Node.of("asin", 1)))
    assert saturated[0] > 1e-12
    assert saturated[1] < 1e-14


def test_terms_that_cancel_where_a_value_is_used_twice_show() -> None:
    twice = graph([3.0], Node.of("exp", 0), Node.of("square", 1), Node.of("negative", 1), Node.of("add", 2, 3))
    assert spread(twice)[0] > 0


def test_a_kink_whose_value_has_lost_digits_is_one() -> None:
    """The minimum of two zeros beside 1e5: steps below 1e-11 do not move the range, but that does not make it
    smooth."""
    drawn = Graph(
        tuple(literal(np.asarray(one)) for one in ([0.0, 0.0, 1e5, 0.7], 0.7)),
        (Node.of("divide", 0, 1), Node.of("numpy_ptp", 2, axis=-1, keepdims=False), Node.of("sin", 3)),
    )
    result = trial.run(drawn, (1,)).result.orders[1]
    assert result.verdict == Verdict.AGREE
    assert result.notes == ("2 of 5 entries lie at a kink, between the one-sided slopes",)


def of_a_batch(second: float, scale: float) -> Graph:
    """The sine of a normalized batch of two elements, the first of which is 1."""
    batch, one, zero = np.array([1.0, second]).reshape(2, 1, 1, 1), np.array([scale]), np.zeros(1)
    nodes = Node.of("batch_norm_v1", 0, 1, 2, epsilon=0.1, layout="NHWC", training=True), Node.of("sin", 3)
    return Graph(tuple(map(literal, (batch, one, zero))), nodes)


def test_what_a_coarse_kernel_has_lost_beside_its_reference_shows() -> None:
    """A difference of 2.4e-8 vanishes in single precision, and times 1e12 it is thousands of periods of a sine."""
    lost = problem(of_a_batch(1 + 2.4e-8, 1e12))
    assert lost.lost[3].min() > 1e4
    assert trial.run(lost.graph, (2,)).result.orders[2].verdict == Verdict.INCONCLUSIVE
    kept = problem(of_a_batch(1.5, 2.0))
    assert not kept.lost
    assert trial.run(kept.graph, (2,)).result.orders[2].verdict == Verdict.AGREE


@pytest.mark.sliced
def test_what_squaring_has_lost_of_a_matrix_exponential_shows() -> None:
    """For a matrix of norm 1e12 the relative error of the value is 2e-5; the lost digits do not vary with the input.

    With --exhaustive, the graph is decided, too.
    """
    matrix = [[0.073, 1e12], [-9.42, -4.0]]
    lost = problem(graph(matrix, Node.of("matrix_exponential", 0), Node.of("keras_percentage_error", 1, 0)))
    with mpmath.workdps(60):
        right = mpmath.expm(mpmath.matrix(matrix), method="taylor")
    off = np.abs(lost.intermediates[1] - np.array(right.tolist(), np.float64))
    assert 1e6 * UNIT * np.abs(lost.intermediates[1]).max() < off.max() < 10 * lost.lost[1].min()
    if slices.whole:
        assert trial.run(lost.graph, (1,)).result.orders[1].verdict == Verdict.INCONCLUSIVE
    moderate = problem(graph([[0.5, 1.0], [-2.0, 0.25]], Node.of("matrix_exponential", 0)))
    assert moderate.lost[1].max() < 20 * UNIT
    assert trial.run(moderate.graph, (2,)).result.orders[2].verdict == Verdict.AGREE


def system(matrix: Any, right: Any) -> Graph:
    return Graph((literal(np.array(matrix)), literal(np.array(right))), (Node.of("matrix_solve_ls", 0, 1, ridge=1.0),))


def doubled(right: Any) -> Any:
    return lambda *given: tf.nest.map_structure(lambda part: None if part is None else 2 * part, right(*given))


def test_what_a_factorization_loses_of_small_elements_beside_large_ones_shows() -> None:
    """Elements of 1e12 absorb the effect of small steps, so that these move the product by x alone.

    By mpmath, the first derivative is 1621823.05 for the output cotangent of the check.
    """
    drawn = graph([[1.24, 1e6], [-3.48, 1e6]], Node.of("cholesky", 0), Node.of("mul", 1, 0))
    checked = trial.run(drawn, (1,))
    assert checked.result.verdict == Verdict.AGREE
    np.testing.assert_allclose(checked.tables[1][0].difference[0], 1621823.05, rtol=1e-3)
    with planted(["Cholesky"], doubled):
        assert trial.run(drawn, (1,)).result.verdict == Verdict.MISMATCH


def test_what_normal_equations_have_lost_shows() -> None:
    """Elements of 2e16 absorb the effect of a step, so that small steps move the solution by the rest alone."""
    matrix, right = [[3.0, 1.0, 1.5e8], [1.0, 2.0, 1.5e8]], [[1.0, 2.0], [3.0, 4.0]]
    lost = problem(system(matrix, right))
    with mpmath.workdps(60):
        a = mpmath.matrix(matrix)
        solution = a.T * mpmath.inverse(a * a.T + mpmath.eye(2)) * mpmath.matrix(right)
    off = np.abs(lost.intermediates[2] - np.array(solution.tolist(), np.float64))
    assert 1e6 * UNIT * np.abs(lost.intermediates[2]).max() < off.max() < 10 * lost.lost[2].min()
    assert trial.run(lost.graph, (1,)).result.orders[1].verdict == Verdict.INCONCLUSIVE
    moderate = problem(system([[3.0, 1.0, 15.0], [1.0, 2.0, -4.0]], right))
    assert moderate.lost[2].max() < 1e4 * UNIT
    assert trial.run(moderate.graph).result.verdict == Verdict.AGREE
    with planted(["MatrixSolveLs"], doubled):
        assert trial.run(moderate.graph, (1,)).result.verdict == Verdict.MISMATCH


@pytest.mark.parametrize(
    ("name", "arguments"), [("complex_log1p", (SMALL,)), ("complex_xlog1py", (np.array([3.0 + 1.0j]), SMALL))]
)
def test_complex_logarithms_next_to_1_lose_a_unit_of_1(name: str, arguments: tuple[Any, ...]) -> None:
    """The kernels add the 1, unlike those for real numbers."""
    node = Node.of(name, *range(len(arguments)))
    lost = problem(Graph(tuple(map(literal, arguments)), (node,)))
    place = len(arguments)
    *factor, z = (mpmath.mpmathify(complex(one[0])) for one in arguments)
    right = mpmath.fprod(factor) * mpmath.log1p(z)
    off = abs(complex(lost.intermediates[place][0]) - complex(right))
    assert 1e-12 * abs(right) < off < 4 * lost.lost[place][0]
    zero = Graph((*map(literal, arguments[:-1]), literal(0 * SMALL)), (node,))
    assert problem(zero).lost[place][0] == 0.0


def test_what_a_complex_logarithm_next_to_1_has_lost_is_no_alarm() -> None:
    nested = Graph((literal(SMALL),), (Node.of("complex_log1p", 0), Node.of("complex_log", 1)))
    assert trial.run(nested, (1, 2)).result.verdict == Verdict.AGREE


def test_what_a_node_loses_inside_does_not_show() -> None:
    assert np.all(spread(graph([34.0], Node.of("sigmoid", 0))) <= 4 * UNIT * 1.5e-15)


def test_what_raises_when_perturbed_is_undefined() -> None:
    checked = problem(graph([1.0], Node.of("check_numerics", 0), Node.of("sqrt", 1)))
    beside = replace(checked, perturbation=RandomPerturbation(0)).gradients(np.full((1, 1), np.nan))
    assert np.isnan(beside.values).all()


def test_a_formula_that_loses_digits_by_itself_is_still_wrong() -> None:
    whole = graph([1e9], Node.of("cumulative_logsumexp", 0, reverse=False))
    assert trial.run(whole, (1,), weights=np.array([5.0])).result.verdict == Verdict.MISMATCH
