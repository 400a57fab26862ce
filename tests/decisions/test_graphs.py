"""Graphs on which a check once raised a false alarm: none does now, and a planted fault in them is found."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt import graph_check, trial
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.verdict.probes import first_order
from gradcheck.verdict.tables import Comparison
from tests import slices
from tests.planting import planted


def graph(inputs: list[Any], *nodes: Node) -> Graph:
    return Graph(tuple(literal(values) for values in inputs), nodes)


def test_what_hides_beside_larger_terms_is_no_mismatch() -> None:
    """1 / (x + sin x) at 1e5 oscillates by less than the rounding of 1 / 2e-5: differences only see 1 / x."""
    hidden = graph(
        [[1e-5, 0.7, 1e5]],
        Node.of("sin", 0),
        Node.of("add", 1, 0),
        Node.of("reciprocal", 2),
    )
    slope = -(1 + np.cos(1e5)) / (1e5 + np.sin(1e5)) ** 2
    problem = GraphProblem.evaluated(hidden)
    assert problem.cotangent is not None
    assert problem.gradients(np.ones((1, 1))).values[0, 2] == pytest.approx(slope * problem.cotangent[2])
    first = trial.run(hidden, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))


def test_the_slope_of_one_tilted_stair_is_no_mismatch() -> None:
    """A focal loss takes the root of 1 - p, which for p = 1 - 2e-12 has 13 bits; other inputs move its gradient, too.

    The second derivative was computed with mpmath from the same formulas, with 120 digits.
    """
    stairs = graph(
        [[[1e-12, 0.5, 0.073]]],
        Node.of("keras_binary_focal_crossentropy_of_soft_labels", 0, 0, gamma=0.5, smoothing=0.0),
        Node.of("selu", 1),
        Node.of("multiply_no_nan", 2, 1),
        Node.of("numpy_logaddexp", 3, 3),
        Node.of("cos", 4),
        Node.of("log", 5),
        Node.of("atan", 6),
    )
    problem = GraphProblem.evaluated(stairs)
    right = [-0.00443810399867498, 0.209322171776956, -0.0249889185815254]
    np.testing.assert_allclose(problem.products(np.ones(1), problem.direction[None, :]).values[0], right, rtol=1e-4)
    assert trial.run(stairs, (2,)).result.orders[2].verdict == Verdict.INCONCLUSIVE
    with planted(["Cos"], lambda right: lambda op, upstream: 2 * right(op, upstream)):
        assert trial.run(stairs, (2,)).result.orders[2].verdict == Verdict.MISMATCH


def test_nor_is_it_one_beside_a_jump_of_the_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    """elu has a first derivative at 0 and no second one; the differences of the whole graph are off by a hundredth."""

    def off(problem: Any, *more: Any) -> list[Comparison]:
        tables = first_order(problem, *more)
        if len(problem.graph.nodes) == 1:
            return tables
        (table,) = tables
        everywhere = np.ones(table.difference.shape, bool)
        return [
            replace(table, difference=1.01 * table.difference).marked(everywhere, Verdict.MISMATCH, Kind.WRONG_VALUE)
        ]

    monkeypatch.setattr(graph_check, "first_order", off)
    bent = graph([[0.0, 0.5, -0.5]], Node.of("elu", 0), Node.of("square", 1))
    assert GraphProblem.evaluated(bent).nonsmooth_nodes.curvature_jumps == (1,)
    assert trial.run(bent, (1,)).result.orders[1].verdict == Verdict.INCONCLUSIVE
    with planted(["Square"], lambda right: lambda op, upstream: 2 * right(op, upstream)):
        assert trial.run(bent, (1,)).result.orders[1].verdict == Verdict.MISMATCH


@pytest.mark.parametrize("x", [9.812269990698807e-17, -1.1126615928650171e-17, 1.666784540411076e-17])
def test_rounding_that_takes_few_values_may_be_off_twice_alike(x: float) -> None:
    """The second derivative of x / |x| is zero; autodiff gives multiples of 4, some of them in one draw of ten."""
    sign = graph([[x]], Node.of("normalize", 0, axis=-1, which=0))
    assert trial.run(sign).result.verdict != Verdict.MISMATCH
    with planted(["Sqrt"], lambda right: lambda op, upstream: 1.5 * right(op, upstream)):
        assert trial.run(sign).result.verdict == Verdict.MISMATCH


def test_what_a_node_hides_whose_values_have_lost_digits_is_no_mismatch() -> None:
    """TensorFlow's fresnel_sin is 1/2 beyond 36974: its correct derivative does not show in the values."""
    stuck = graph([[3.3, -0.97, 1e5]], Node.of("rgb_to_yuv", 0), Node.of("fresnel_sin", 1), Node.of("square", 2))
    first = trial.run(stuck, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))
    with planted(["Square"], lambda right: lambda op, upstream: 2 * right(op, upstream)):
        assert trial.run(stuck, (1,)).result.orders[1].verdict == Verdict.MISMATCH


@pytest.mark.exhaustive
def test_nor_is_it_one_at_a_kink() -> None:
    """The smaller singular value is the rounding error of the larger one, 1e10, and so is all that its reciprocal
    gives."""
    rounded = graph(
        [
            [-7 - 31j, -2.5e9 - 3.1e-4j, -3.1e-4 - 3.1e-4j],
            [-3 + 0j, 0.5 + 0j],
            [[0j, 1j, 1 + 0j], [1 + 0j, 0j, 0.5 + 0j]],
        ],
        Node.of("complex_scatter_nd_non_aliasing_add", 0, 1, indices=(1, 0)),
        *(Node.of("complex_multiply", 3, 2), Node.of("complex_matrix_set_diag", 4, 1)),
        Node.of("complex_scatter_nd_non_aliasing_add", 5, 5, indices=(1, 0)),
        *(Node.of("complex_singular_values", 6), Node.of("bessel_k1", 7)),
    )
    assert not GraphProblem.evaluated(rounded).smooth
    first = trial.run(rounded, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))
    # What becomes of the products on the diagonal is known: they are replaced.
    with planted(["Mul"], lambda right: lambda op, upstream: [part + 1 for part in right(op, upstream)]):
        assert trial.run(rounded, (1,)).result.orders[1].verdict == Verdict.MISMATCH


def behind_a_tie(*operations: str) -> Graph:
    volume = [[-0.84, 0.23, -1.41], [5.7, 1.07, -0.84], [1.3, 0.23, -1.19], [5.7, 5.7, -0.97]]
    return graph(
        [np.reshape(volume, (2, 2, 3, 1))],
        Node.of("max_pool3d", 0, count=1, padding="SAME", stride=2),
        *(Node.of(operation, place) for place, operation in enumerate(operations, 1)),
    )


def test_what_single_precision_loses_at_a_tie_is_no_mismatch_and_a_wrong_slope_is() -> None:
    """The slope falls by 2e-4 of itself within the rounding of 5.7. Whichever element wins a broken tie is larger."""
    drawn = behind_a_tie("softplus", "keras_rad2deg", "cos", "atanh")
    assert trial.run(drawn, (1,)).result.verdict == Verdict.AGREE
    for operation in ("MaxPool3D", "Softplus", "Cos"):
        with planted([operation], lambda right: lambda op, *given: 1.05 * right(op, *given)):
            assert trial.run(drawn, (1,)).result.verdict == Verdict.MISMATCH, operation


@pytest.mark.parametrize(
    ("operation", "behind", "factor"),
    [("Atan", ("keras_rad2deg", "atan"), 1.005), ("Cos", ("keras_rad2deg", "cos"), 1.02)],
)
def test_a_slope_that_is_wrong_at_one_tie_alone_is_a_mismatch(
    operation: str, behind: tuple[str, ...], factor: float
) -> None:
    """Points beside it, where the tie holds, too, have right slopes: they do not show that its own is rounding."""
    tied = behind_a_tie(*behind)
    point = float(np.max(GraphProblem.evaluated(tied).intermediates[-2]))

    def at_the_point(right: Any) -> Any:
        def gradient(op: Any, *given: Any) -> Any:
            part = right(op, *given)
            return tf.where(op.inputs[0] == tf.constant(point, part.dtype), factor * part, part)

        return gradient

    assert trial.run(tied, (1,)).result.verdict == Verdict.AGREE
    with planted([operation], at_the_point):
        assert trial.run(tied, (1,)).result.verdict == Verdict.MISMATCH


def test_at_a_tie_a_derivative_between_the_slopes_of_the_node_alone_is_no_mismatch() -> None:
    """Quantization maps 7.3e6 and 1e7 to the same value: added moves of -0.5 and 0 are below their digits."""
    x = [[[0.0, 12.5], [13.0, 7.3e6]], [[-3.1e-6, 700.0], [1e7, 1.0]]]
    tied = graph(
        [x, [-0.5, 0.0]],
        *(
            Node.of("norm_frobenius", 0, keepdims=False, power="fro"),
            Node.of("tensor_scatter_nd_add", 2, 1, indices=(0, 0)),
        ),
        Node.of("quantize_and_dequantize_v2", 3, narrow=False, rounding="HALF_TO_EVEN", signed=True),
        Node.of("nth_element", 4, n=0, reverse=False),
    )
    assert GraphProblem.evaluated(tied).nonsmooth_nodes.kinks == (5,)
    assert trial.run(tied, (1,)).result.orders[1].verdict == Verdict.INCONCLUSIVE
    with planted(["ScatterNdAdd", "TensorScatterAdd"], lambda right: lambda *g: [-part for part in right(*g)]):
        assert trial.run(tied, (1,)).result.orders[1].verdict == Verdict.MISMATCH


def test_a_residue_that_jumps_between_two_roundings_is_no_mismatch() -> None:
    """A softmax of equal numbers is constant; at 1e5, autodiff of autodiff leaves 0 or 3.6e-12 of terms of size 1e4."""
    residue = graph(
        [[[1e5, 0.7, 0.7], [0.7, 0.7, 0.7]]],
        Node.of("broadcast_to_rank", 0),
        Node.of("legacy_matrix_diag_part", 1),
        Node.of("softmax_axis", 2),
    )
    assert trial.run(residue, (2,)).result.orders[2].verdict == "agree"


def test_stairs_that_are_narrower_than_what_their_argument_has_lost_are_no_mismatch() -> None:
    """1 / J0 is 4e4 here, up to 0.1: steps that show more than that span stairs, whose slope is another one."""
    lost = graph(
        [[-3.1e6, 1e9, -0.031], [3.3, -0.61, 0.93], [[4.2, 4.2, 1.62], [2.74, 3.3, 0.81]]],
        *(Node.of("where", 0, 1), Node.of("xlog1py", 3, 2), Node.of("idct", 4, norm="ortho", type=3)),
        *(Node.of("bessel_j0", 5), Node.of("square", 6), Node.of("rsqrt", 7)),
        *(Node.of("transpose", 8, perm=(1, 0)), Node.of("rint", 9)),
    )
    first = trial.run(lost, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))
    assert first.notes == ("the arguments of rint are closer to a kink or jump than their rounding error",)
    known = graph([[-3.1, 1.3]], Node.of("square", 0), Node.of("rint", 1))
    with planted(["Square"], lambda right: lambda op, upstream: 2 * right(op, upstream)):
        assert trial.run(known, (1,)).result.orders[1].verdict == Verdict.MISMATCH


def test_a_kink_that_the_values_cannot_show_is_no_mismatch() -> None:
    """cosh x - x log(cosh x + 1e-7) of the first row is clipped at 1 except for 0 < x < 1e-7, where it falls by
    1e-7."""
    clipped = graph(
        [[[0.0, 0.0], [0.0, 2.0], [4.0, 0.0]]],
        *(Node.of("cosh", 0), Node.of("keras_poisson", 1, 0)),
        *(Node.of("clip_by_value", 2), Node.of("clip_by_norm", 3, axis=0, bound=0.5)),
    )
    first = trial.run(clipped, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))
    with planted(["RealDiv"], lambda right: lambda op, upstream: [2 * part for part in right(op, upstream)]):
        assert trial.run(clipped, (1,)).result.orders[1].verdict == Verdict.MISMATCH


LOST_DIGITS = {
    "sigmoid * (1 - sigmoid) at 34": (
        graph([[34.0, 0.4]], Node.of("sigmoid", 0), Node.of("tanh", 1)),
        (Verdict.AGREE, Verdict.AGREE),
    ),
    "asin of a saturated sigmoid": (
        graph([[1000.7, 1.4]], Node.of("sqrt", 0), Node.of("sigmoid", 1), Node.of("asin", 2)),
        (Verdict.AGREE, Verdict.INCONCLUSIVE),
    ),
    "terms of 1e17 that cancel in the backward pass": (
        graph(
            [[[-0.5, -3.0, 4.0], [-3.0, -3.0, 0.5]], np.reshape([0.93, -0.84, -0.84, 1.13], (2, 2, 1, 1))],
            Node.of("cross", 0, 0),
            Node.of("squared_difference", 2, 0),
            Node.of("expand_dims", 3),
            Node.of("conv2d", 4, 1, count=1, padding="VALID", stride=1),
            Node.of("cosh", 5),
            Node.of("optional", 6),
            Node.of("while_loop", 7, count=1),
        ),
        (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE),
    ),
    "terms of 1e9 that cancel in the second derivative": (
        graph(
            [4.228699503805345, 2.0],
            Node.of("rsqrt_grad", 0, 0),
            Node.of("rsqrt_grad", 2, 0),
            Node.of("subtract", 3, 3),
            Node.of("add", 4, 1),
            Node.of("rsqrt_grad", 5, 5),
        ),
        (Verdict.AGREE, Verdict.AGREE),
    ),
    "a loss of 8e-9 that is the logarithm of 1 + 8e-9": (
        graph(
            [[[-3.0], [3.0]], [2.5, 1.34], [[3.67], [3.41]]],
            Node.of("sampled_softmax_loss", 0, 1, 2, labels=(0, 1), remove=True),
            Node.of("bessel_k0e", 3),
        ),
        (Verdict.AGREE, Verdict.AGREE),
    ),
    "a loss of 2e-7 in the product of two terms that cancel": (
        graph(
            [[[15.3, 0.0]]],
            Node.of("sparse_softmax_cross_entropy", 0, labels=(0,)),
            Node.of("bessel_k0e", 1),
        ),
        (Verdict.AGREE, Verdict.AGREE),
    ),
    "the other zero of a parabola whose size kinks at this one": (
        graph(
            [[4.0, 1.5e5, 0.2], 0.0, [1.0, -0.5, 0.0]],
            Node.of("xlog1py", 0, 1),
            Node.of("square", 3),
            Node.of("mul", 4, 2),
            Node.of("reduce_sum", 5),
            Node.of("add", 6, 1),
            Node.of("sign", 7),
        ),
        (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE),
    ),
    "the determinant of a matrix of -15 + 3i, whose tanh is -1": (
        Graph((Input((1, 1), (-15.0 + 3.0j,), "complex128"),), (Node.of("real_log_determinant", 0),)),
        (Verdict.AGREE, Verdict.AGREE),
    ),
    "tanh that saturates before the finest step": (
        graph([[0.8, 1e5], [1.0, 0.0]], Node.of("rsqrt_grad", 0, 1), Node.of("tanh", 2)),
        (Verdict.AGREE, Verdict.INCONCLUSIVE),
    ),
}

"""Each of these was a false alarm once; the right derivatives are known in closed form, and are TensorFlow's."""

LONG = {
    "a loss of 8e-9 that is the logarithm of 1 + 8e-9",
    "terms of 1e17 that cancel in the backward pass",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive if name in LONG else ()) for name in LOST_DIGITS]
)
def test_lost_digits_are_no_mismatch(name: str) -> None:
    drawn, verdicts = LOST_DIGITS[name]
    orders = trial.run(drawn).result.orders
    assert tuple(orders[number].verdict for number in (1, 2)) == verdicts


@pytest.mark.parametrize("images", [[-0.3 + 0.7j, 0.37 - 0.61j], [-2.6 + 0.7j, 0.37 + 5.7j]])
def test_stairs_that_no_lost_digits_explain_are_no_slope(images: list[complex]) -> None:
    """a * floor(a / x) at a / x of -708 and -1723: between two stairs, hundreds apart, the derivative by x is 0."""
    drawn = Graph(
        (Input((1,), (-3.0 + 0j,), "complex128"), Input((2,), tuple(images), "complex128"), literal(0.5)),
        (
            Node.of("complex_tensor_scatter_nd_add", 0, 0, indices=(0,)),
            Node.of("complex_dynamic_stitch", 3, 3, first=(0,), second=(1,)),
            Node.of("complex_add", 4, 1),
            Node.of("complex_abs", 5),
            Node.of("cast", 6),
            Node.of("sigmoid_grad", 7, 7),
            Node.of("foldr", 8),
            Node.of("floordiv", 9, 2),
        ),
    )
    assert trial.run(drawn, (1,)).result.orders[1].verdict != Verdict.MISMATCH


@pytest.mark.exhaustive
def test_stairs_narrower_than_the_finest_steps_are_no_slope() -> None:
    """y - 13 floor(y / 13) at 1.9e7, where y moves by 2.5e10 t: the slope by 13 is constant for 5e-10 t."""
    drawn = Graph(
        (
            Input((1, 2), (730.0 - 88.5j, -3.1000000000000005e-09 - 1.5707963267948966j), "complex128"),
            literal(np.array([[-2.5e9], [13.0], [-math.pi]])),
        ),
        (
            Node.of("inverse_stft", 0, length=2, step=1, window=0),
            Node.of("strided_slice_range", 2, begin=-1, end=2, step=1),
            Node.of("subtract", 3, 3),
            Node.of("clip_between", 4, 3, 4),
            Node.of("pad", 5, paddings=((0, 2),)),
            Node.of("meshgrid", 6, 6, indexing="ij"),
            Node.of("composition_operator", 7, 1, action="solve of adjoint"),
            Node.of("floormod", 8, 1),
        ),
    )
    assert trial.run(drawn, (2,)).result.orders[2].verdict == Verdict.INCONCLUSIVE


def test_lost_digits_show_behind_an_operation_with_a_reference() -> None:
    """1 - sigmoid(29.2) has four digits left, and the stencil takes ndtri's stairs for a slope that is 0.8 % too small.

    A quantizing operation is compared with a function that knows how far a point is from the one that is checked.
    """
    drawn = graph(
        [[[-2.6, -2.17], [4.2, -3.4], [0.37, 5.7]]],
        Node.of("einsum_pair", 0, 0, equation="...ij,...kj->...ik"),
        Node.of("legacy_gather", 1, indices=(2, 1)),
        Node.of("sigmoid", 2),
        Node.of("ndtri", 3),
        Node.of("dawsn", 4),
        Node.of("quantize_and_dequantize_v3", 5, narrow=False, signed=True),
        Node.of("sin", 6),
        Node.of("cos", 7),
    )
    assert trial.run(drawn, (1,)).result.orders[1].verdict != Verdict.MISMATCH


@pytest.mark.exhaustive
def test_a_transition_within_the_finest_step_is_no_mismatch_though_it_passes_for_noise() -> None:
    """By mpmath it is 3.86728447e-10; autodiff gives 3.86728427e-10, and the differences 2.8e-14."""
    inputs = [[[1.0, 0.0, 1.0]], [[0.01, 1e9, 1e6], [1e4, 7.3e4, -250.0]], [0.25, 4.0, 0.25], [[1e9, 7.3e6, 745.0]]]
    nodes = (
        *(Node.of("sin", 0), Node.of("keras_dot_attention", 4, 1, causal=False)),
        *(Node.of("sigmoid_cross_entropy", 5, 4), Node.of("tanh", 6), Node.of("xlogy", 7, 2)),
        *(Node.of("keras_percentage_error", 8, 3), Node.of("numpy_linspace", 9, 9, axis=0, count=3, endpoint=True)),
        Node.of("vectorized_map", 10),
    )
    assert trial.run(graph(inputs, *nodes), (2,)).result.verdict == Verdict.INCONCLUSIVE


def test_nor_is_one_whose_slope_the_finest_row_knows_to_a_ninth_alone() -> None:
    """By mpmath it is -4.1167e-5; autodiff gives -4.119e-5, and the differences of the gradient 4e-13."""
    drawn = graph(
        [[[4.0, 0.0]], [[0.0, 0.25]], [[-3.1e-6, 7.3e9], [-2.5e6, -3.1e-6]]],
        Node.of("unsorted_segment_max", 0, ids=(0,)),
        *(Node.of("batch_matmul_v3", 3, 1, adjoint="a"), Node.of("erf", 4)),
        Node.of("keras_dot_attention", 5, 2, causal=False),
        Node.of("keras_squareplus", 6, b=0.5),
    )
    assert trial.run(drawn).result.orders[2].verdict == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("inputs", "before"),
    [
        (
            [[[7.3e7, 8.0], [-0.00031, -3.1e-7]]],
            [Node.of("reduce_mean", 0, axis=(0, -1), keepdims=False), Node.of("silu", 1, 1)],
        ),
        ([[61188827.84112765, 307229500.0610324]], [Node.of("negative", 0)]),
    ],
)
def test_the_derivative_of_a_gradient_that_is_rounding_is_no_mismatch(inputs: list[Any], before: list[Node]) -> None:
    """At 1.8e7 an ulp of 2 x F(x), with Dawson's F, is a quarter of the gradient 1 - 2 x F(x).

    The second derivative multiplies that by 2 x: autodiff gives 1.9e-9 for 1 / x**3, which is 1.6e-22.
    """
    drawn = graph(inputs, *before, Node.of("dawsn", len(before)))
    assert trial.run(drawn).result.orders[2].verdict == Verdict.INCONCLUSIVE


def clipped_beside() -> Graph:
    """Keras clips at 1e-7 before the logarithm: a kink, 1e-7 beside the zeros."""
    return graph(
        [[[0.0, -0.5, 1.0], [0.0, 0.5, -0.5]], [[1.0, 1.5, 1.0], [1.0, 4.0, 1.0]], [1.0]],
        Node.of("keras_squared_logarithmic_error", 0, 1),
        Node.of("tensor_scatter_nd_add", 3, 2, indices=(0,)),
        *(Node.of("square", 4), Node.of("foldl", 5), Node.of("sigmoid_grad", 6, 6), Node.of("tanh", 7)),
        Node.of("selu", 8),
    )


@slices.parametrized("orders", [(2,), (1, 2)], slices.every(2))
def test_a_coordinate_without_a_first_derivative_makes_no_second_one_wrong(orders: tuple[int, ...]) -> None:
    second = trial.run(clipped_beside(), orders).result.orders[2]
    assert (second.verdict, second.reasons, second.notes) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,), ())


@slices.parametrized("orders", [(2,), (1, 2)], lambda cases: cases[-1:])
def test_what_is_wrong_without_that_coordinate_is_wrong(orders: tuple[int, ...]) -> None:
    with planted(["TanhGrad"], lambda right: lambda op, upstream: [2 * part for part in right(op, upstream)]):
        assert trial.run(clipped_beside(), orders).result.orders[2].verdict == Verdict.MISMATCH


@pytest.mark.exhaustive
def test_a_kink_nearer_than_the_finest_step_makes_no_second_derivative_wrong() -> None:
    """The norm has a kink at a solution of zero, which one element of the matrix reaches after 6e-13."""
    drawn = graph(
        [[[-2.0, 0.0], [0.0, 1.5]], [[1e6], [-3.1e-7]], 0.93, math.pi, [0.5]],
        Node.of("solve", 0, 1, adjoint=False),
        Node.of("norm", 5, axis=-2, keepdims=False, power=1),
        Node.of("scan_from", 6, 2, reverse=True),
        Node.of("tensor_scatter_nd_add", 7, 7, indices=(0,)),
        *(Node.of("sigmoid", 8), Node.of("softplus_grad", 8, 9), Node.of("atan2", 10, 3)),
        Node.of("softplus_grad", 11, 4),
    )
    checked = trial.run(drawn)
    assert checked.problem.smooth
    assert checked.problem.hidden_kinks.tolist() == [place == 2 for place in range(9)]
    assert checked.result.orders[2].verdict == Verdict.INCONCLUSIVE


def test_leaps_within_the_finest_steps_make_no_slope_wrong() -> None:
    """Where quotients are 5e11, steps pass many jumps; beside two other quotients, whose slopes can be decided."""
    divisors = [[[-9.4], [-4.7]], [[1e-7], [7.3e-4]]]
    drawn = graph([[[84256.40858597], [49999.15]], divisors], Node.of("keras_fmod", 0, 1))
    checked = trial.run(drawn, (1,))
    assert checked.problem.smooth
    assert checked.problem.hidden_jumps.tolist() == [True, True, False, False, True, True]
    assert checked.result.verdict == Verdict.INCONCLUSIVE
    with planted(["FloorMod"], lambda right: lambda op, upstream: [2 * part for part in right(op, upstream)]):
        finding = trial.run(drawn, (1,)).result.orders[1].findings[0]
    assert (finding.input, finding.index) == ("input 1", (0, 0, 0))
    assert "2 entries are wrong" in finding.reason


def test_a_derivative_that_is_none_is_not_missing_where_steps_span_many_stairs() -> None:
    """x * floor(x / y) at 10000 / 4.2, where x is rounded and none of its decimal places is known."""
    drawn = Graph(
        (
            Input((2, 3), (2 + 0j, 1 + 1j, 0j, 1j, 0.5 + 0j, 2 + 0j), "complex128"),
            Input((3,), (1e4, -20.0, -2.5)),
            Input((3,), (4.2, 0.6, 5.7)),
        ),
        (
            Node.of("inverse_stft", 0, length=2, step=1, window=2),
            Node.of("saturate_cast", 3),
            Node.of("repeat", 4, axis=-1, count=1),
            Node.of("switch_case_of_either", 5, 1, branch=0),
            Node.of("cosh", 6),
            Node.of("normalize_moments", 7, 6, 1, shift=2.0, which=1),
            Node.of("grad_pass_through", 8),
            Node.of("floordiv", 9, 2),
        ),
    )
    first = trial.run(drawn, (1,)).result.orders[1]
    assert (first.verdict, first.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))


def test_the_second_derivative_of_narrow_stairs_inside_makes_no_sum_of_many_wrong() -> None:
    """y - d floor(y / d) with d = -2.5e-9: alone it is inconclusive; differences of the whole graph pass all stairs."""
    images = [
        [[0.0, 0.0], [-7.863419099181058e-09, 622.4065419183969], [-14.822195804450928, -248.96261676735875]],
        [[-7.863419099181058e-09, 0.0], [-109.18322499462363, 336.09953263593434], [25.162941117379386, -1493.7757006]],
        [[-94.3610291901727, 0.0], [25.162941117379386, 0.0], [0.0, 0.0]],
    ]
    divisors = np.reshape([-2.5e-9, 50.0, -30.0, 27.0, -4.71238898038469, -20.0, 8.0, -120.0], (2, 2, 2, 1))
    upstream = np.reshape([1.0, 1.5, -3.0, 1.0, 1.5, -1.0, 1.0, -2.0, 4.0], (3, 3, 1))
    stairs = graph(
        [images, divisors, upstream],
        Node.of("conv2d_backprop_filter", 0, 2, windows=(1, "SAME")),
        Node.of("floormod", 3, 1),
        Node.of("square", 4),
    )
    second = trial.run(stairs, (2,)).result.orders[2]
    assert (second.verdict, second.reasons) == (Verdict.INCONCLUSIVE, (Reason.ILL_CONDITIONED,))
    with planted(["Square"], lambda right: lambda op, upstream: 2 * right(op, upstream)):
        assert trial.run(stairs, (2,)).result.orders[2].verdict is Verdict.MISMATCH
