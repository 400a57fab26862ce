"""Operations once more, in the uses for which their gradient functions have branches of their own (all families).

Dimensions that a function does not know when it is traced, gradients that are taken inside of a function, stacks that
broadcast, equal elements, and options that are one among many elsewhere. They are drawn in the plain mode alone: in
others they are what the operations of the other files are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import (
    compiled_by_xla,
    float32,
    of_unknown_dimensions,
    operation,
    points_last,
    tf,
    traced,
)
from gradcheck.operations.linalg import bounded, dominant, full_rank, least_squares, right_sides, right_sides_of_bands
from gradcheck.operations.nn import per_channel
from gradcheck.operations.shapes import alike, at_least, nonempty_matrix, vector
from gradcheck.operations.sparse import compressed, compressed_matrix
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Interval, Rule, Shapes
from gradcheck.operations.special_sets import SINGLE_BAND

_plain = partial(operation, modes=())


def pulled_back(form: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, cotangent: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = form(x)
    return tape.gradient(value, x, cotangent)


def linear(form: Callable[[tf.Tensor], tf.Tensor], pull: Callable[..., tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """A linear form whose gradient `pull` takes. That one's gradient is the form again, for TensorFlow has none."""

    @tf.custom_gradient
    def back(cotangent):  # type: ignore[no-untyped-def]
        return pull(form, tf.stop_gradient(x), tf.stop_gradient(cotangent)), form

    @tf.custom_gradient
    def value(x):  # type: ignore[no-untyped-def]
        return form(x), back

    return value(x)


def all_but_first(x: tf.Tensor) -> tf.Tensor:
    return tf.slice(x, [1] + [0] * (len(x.shape) - 1), [-1] * len(x.shape))


def weighted_thrice(x: tf.Tensor) -> tf.Tensor:
    """The weight comes from outside of the loop, through an operation without a gradient."""
    weight = tf.sqrt(tf.constant(0.25, tf.float64))
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.unique([weight]).y[0] * y), (0, x))[1]


def one_of_weighted(x: tf.Tensor) -> tf.Tensor:
    """The gradient takes the sine that the branch has taken."""
    angle = tf.sqrt(tf.constant(0.25, tf.float64))
    return tf.switch_case(tf.constant(1), [lambda: x, lambda: x * tf.sin(angle)])


def the_only_case(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    return tf.switch_case(branch, [lambda: x * tf.sin(x)])


def mean_over(x: tf.Tensor, axis: tf.Tensor, keepdims: bool) -> tf.Tensor:
    return tf.reduce_mean(x, axis, keepdims)


def pixels_of_two(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """All pixels of two values, of which one is that of two channels."""
    pixels = [(x, x, y), (x, y, x), (y, x, x), (x, y, y), (y, x, y), (y, y, x)]
    return tf.stack([tf.stack(channels, -1) for channels in pixels], -2)


def band_set(x: tf.Tensor, y: tf.Tensor, *, kernel: str, k: tuple[int, int], shape: Shape) -> tf.Tensor:
    """Diagonals, whose lengths are not known, set in matrices of a known shape: in others, bands raise."""
    return getattr(tf.raw_ops, kernel)(input=tf.ensure_shape(x, shape), diagonal=y, k=k)


def with_no_rows(x: tf.Tensor) -> tf.Tensor:
    """All elements, and those of no rows, whose length alone is not known."""
    none = tf.ensure_shape(x[:0], [0, None])
    return tf.concat([tf.reshape(x, [-1]), tf.reshape(none, [-1])], 0)


def resized_to_nearest(x: tf.Tensor, *, size: tuple[int, int]) -> tf.Tensor:
    return tf.raw_ops.ResizeNearestNeighbor(images=x, size=size)


def by_constant(matrices: tf.Tensor, count: int, options: tuple[str, ...]) -> tf.Tensor:
    """The product of one sparse matrix, or of a stack of `count`, with a dense one that is the same for all."""
    dense = np.array([[1.0, 2.0, 3.0], [-2.0, 0.5, 4.0]])
    b = dense if count == 1 else np.stack([dense] * count)
    return tf.raw_ops.SparseMatrixMatMul(a=matrices, b=b, **dict.fromkeys(options, True))


def frozen_batch_norm_back(x: tf.Tensor, scale: tf.Tensor, back: tf.Tensor, *, part: int) -> tf.Tensor:
    """A cotangent of the batch, the scale or the offset where the mean is 0.5 and the variance 2."""
    x, scale, back = float32(x, scale, back)
    mean, variance = tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 2.0
    results = tf.raw_ops.FusedBatchNormGrad(
        y_backprop=back,
        x=x,
        scale=scale,
        reserve_space_1=mean,
        reserve_space_2=variance,
        epsilon=0.1,
        is_training=False,
    )
    return tf.cast(results[part], tf.float64)


def frozen_batch_norm_back_formula(x: tf.Tensor, scale: tf.Tensor, back: tf.Tensor, *, part: int) -> tf.Tensor:
    slope, axes = 1.0 / np.sqrt(2.1), [-4, -3, -2]
    to_scale = tf.reduce_sum(back * (x - 0.5) * slope, axes)
    return [back * per_channel(scale) * slope, to_scale, tf.reduce_sum(back, axes)][part]


def _pairs(*pairs: tuple[Shape, Shape]) -> Rule:
    """Two arguments of these shapes, and of no others."""
    return lambda shape: [pair for pair in pairs if pair[0] == shape]


def _two_diagonals(shape: Shape) -> Shapes:
    return [((*shape[:-2], 2, shape[-1]),)]


BRANCHES = (
    _plain(
        "image",
        "rgb_to_hsv_of_equal_channels",
        # Times 1, for IndexedSlices that arrive raise, known as rgb-to-hsv-indexed-slices.
        lambda x, y: 1.0 * tf.image.rgb_to_hsv(pixels_of_two(x, y)),
        "RGBToHSV",
        Interval(0.0, 1.0),
        others=alike,
        when=lambda shape: shape in ((), (1,), (2,), (3,)),
        starts=((), (2,), (3,), (1,)),
        singular=lambda x, y: np.abs(x - y),  # a grey pixel has no hue
    ),
    _plain(
        "image",
        "resize_nearest_of_unknown_dimensions",
        lambda x, *, size: linear(lambda y: of_unknown_dimensions(resized_to_nearest, y, size=size), pulled_back, x),
        "ResizeNearestNeighbor",
        in_batch=True,
        shapes=at_least(1, 1, 1),
        starts=((2, 2, 1), (1, 2, 1), (2, 3, 1)),
        size=((2, 2), (4, 4), (3, 2)),
    ),
    _plain(
        "array",
        "matrix_set_diag_of_unknown_band",
        lambda x, y, *, kernel, k: of_unknown_dimensions(band_set, x, y, kernel=kernel, k=k, shape=tuple(x.shape)),
        "MatrixSetDiagV2 MatrixSetDiagV3",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] == shape[-1] > 1,
        others=_two_diagonals,
        starts=((2, 2), (1, 3, 3), (3, 3)),
        kernel=("MatrixSetDiagV2", "MatrixSetDiagV3"),
        k=((-1, 0),),
    ),
    _plain(
        "array",
        "reshape_of_no_rows",
        lambda x: of_unknown_dimensions(with_no_rows, x),
        "Reshape",
        batched=lambda x: tf.reshape(x, [x.shape[0], -1]),
        shapes=at_least(1, 2),
        starts=((1, 2), (2, 2), (2, 3)),
    ),
    _plain(
        "array",
        "slice_with_gradient_in_xla",
        lambda x: linear(all_but_first, compiled_by_xla(pulled_back), x),
        "Slice",
        batched=lambda x: x[:, 1:],
        shapes=vector,
        when=lambda shape: shape[0] > 1,
        starts=((2,), (3,), (2, 2)),
    ),
    _plain(
        "control flow",
        "while_loop_with_gradient_in_function",
        lambda x: linear(weighted_thrice, traced(pulled_back), x),
        "StatelessWhile",
        batched=lambda x: x * 0.125,
    ),
    _plain(
        "control flow",
        "switch_case_of_one",
        lambda x: traced(the_only_case)(x, tf.constant(0)),
        "StatelessCase",
    ),
    _plain(
        "control flow",
        "switch_case_with_gradient_in_xla",
        lambda x: linear(one_of_weighted, compiled_by_xla(pulled_back), x),
        "StatelessCase",
        batched=lambda x: x * np.sin(0.5),
    ),
    _plain(
        "math",
        "reduce_mean_over_given_axis",
        lambda x, *, axis, keepdims: traced(mean_over)(x, tf.constant(axis), keepdims),
        "Mean",
        looped=True,
        # Traced for one shape only: for several shapes, a function is traced once more without them.
        when=lambda shape: shape == (2, 3),
        starts=((2, 3),),
        axis=(0, 1, -1, -2),
        keepdims=(True, False),
    ),
    _plain(
        "math",
        "unsorted_segment_prod_of_some",
        lambda x, *, ids: tf.math.unsorted_segment_prod(x, ids, 2),
        "UnsortedSegmentProd",
        POSITIVE,  # at zeros the second derivative is wrong, known as unsorted-segment-prod-zero
        batching=points_last,
        shapes=vector,
        when=lambda shape: shape[0] == 3,
        starts=((3,), (3, 2)),
        ids=((0, 1, -1), (-1, 0, 0), (1, -1, 0)),
    ),
    _plain(
        "nn",
        "batch_norm_grad_frozen",
        frozen_batch_norm_back,
        "FusedBatchNormGrad",
        looped=True,
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [(shape[-1:], shape)],
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        part=(1, 0, 2),
        reference=frozen_batch_norm_back_formula,
        rtol=1e-5,
    ),
    _plain(
        "linalg",
        "banded_triangular_solve_of_rows",
        lambda x, y, *, lower, adjoint: tf.linalg.banded_triangular_solve(x, y, lower=lower, adjoint=adjoint),
        "BandedTriangularSolve",
        *(Interval(0.5, 4.0), REALS),
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] <= 2 <= shape[-1],
        others=right_sides_of_bands,
        starts=((2, 2), (1, 2), (2, 3), (1, 3), (2, 1, 2)),
        special=(SINGLE_BAND,),
        lower=BOOL,
        adjoint=BOOL,
    ),
    _plain(
        "linalg",
        "banded_triangular_solve_of_three",
        lambda x, y, *, lower, adjoint: tf.linalg.banded_triangular_solve(
            bounded(x) + 2.0 * np.eye(x.shape[-2])[:, [0 if lower else -1]], y, lower=lower, adjoint=adjoint
        ),
        "BandedTriangularSolve",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] == 3 <= shape[-1],
        others=right_sides_of_bands,
        starts=((3, 3), (3, 4), (2, 3, 3)),
        lower=BOOL,
        adjoint=BOOL,
    ),
    _plain(
        "linalg",
        "matrix_solve_ls_of_full_rank_and_unknown_dimensions",
        lambda x, y: of_unknown_dimensions(least_squares, full_rank(x), y, ridge=0.0),
        "MatrixSolveLs",
        shapes=nonempty_matrix,
        others=right_sides,
        starts=((2, 3), (2, 2), (3, 2)),
    ),
    _plain(
        "linalg",
        "triangular_solve_of_stacks",
        lambda x, y, *, lower, adjoint: tf.linalg.triangular_solve(dominant(x), y, lower=lower, adjoint=adjoint),
        "MatrixTriangularSolve",
        broadcasts=True,
        shapes=_pairs(((2, 2), (2, 2, 2, 1)), ((2, 1, 2, 2), (2, 1)), ((1, 1), (1, 1, 1, 2))),
        starts=((2, 2), (2, 1, 2, 2), (1, 1)),
        lower=BOOL,
        adjoint=BOOL,
    ),
    _plain(
        "math",
        "matmul_of_stacks",
        lambda x, y: tf.matmul(x, y),
        "BatchMatMulV2",
        broadcasts=True,
        shapes=_pairs(((2, 2), (2, 2, 2, 1)), ((2, 1, 1, 2), (2, 1)), ((2, 3), (2, 3, 3, 1))),
        starts=((2, 2), (2, 1, 1, 2), (2, 3)),
    ),
    _plain(
        "math",
        "einsum_of_stacks",
        lambda x, y: tf.einsum("...ij,...jk->...ik", x, y),
        "Einsum",
        broadcasts=True,
        shapes=_pairs(((1, 2, 2, 1), (1, 1, 1, 2)), ((2, 1, 1, 2), (1, 2, 2, 1)), ((1, 1, 2, 2), (2, 3, 2, 1))),
        starts=((1, 2, 2, 1), (2, 1, 1, 2), (1, 1, 2, 2)),
    ),
    _plain(
        "sparse",
        "csr_matrix_matmul_of_adjoint",
        lambda x, *, options: linear(lambda y: by_constant(compressed_matrix(y), 1, options), pulled_back, x),
        "SparseMatrixMatMul DenseToCSRSparseMatrix",
        batched=lambda x, *, options: by_constant(compressed(x), x.shape[0], options),
        when=lambda shape: shape == (2, 3),
        starts=((2, 3),),
        options=(("adjoint_a",), ("adjoint_b", "transpose_output"), ("adjoint_b",), ("adjoint_a", "transpose_output")),
    ),
)
