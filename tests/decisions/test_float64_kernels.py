"""Kernels that exist in single precision only: the same functions in float64, and verdicts on code that calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.opening import open_function
from gradcheck.tracing.float64_kernels import IN_FLOAT64
from tests import slices
from tests.verdicts import check

BATCH, IMAGE, SPACE = (1, 3, 4, 2), (1, 3, 4, 1), (1, 3, 4, 3, 1)


def batch_norm(training: bool, factor: float = 1.0) -> Callable[..., Any]:
    def f(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
        kept = {"mean": tf.constant([0.1, 0.2]), "variance": tf.constant([1.5, 0.7])}
        return tf.compat.v1.nn.fused_batch_norm(
            *(x, scale, offset), **kept, is_training=training, exponential_avg_factor=factor, epsilon=0.01
        )

    return f


def lstm(kernel: str, **options: Any) -> Callable[..., Any]:
    def f(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, state: tf.Tensor) -> Any:
        peepholes = dict.fromkeys(("wci", "wcf", "wco"), tf.constant([0.3, -0.2]))
        given = {"cell_clip": 0.0, "use_peephole": True, **options}
        results = getattr(tf.raw_ops, kernel)(
            seq_len_max=2, x=x, cs_prev=state, h_prev=0.5 * state, w=w, b=b, **peepholes, **given
        )
        return results.h

    return f


def resized(method: str, **options: Any) -> Callable[..., Any]:
    return lambda x: tf.image.resize(x, (5, 3), method=method, **options)


LSTM = (3, 1, 1), (3, 8), (8,), (1, 2)
NORM = BATCH, (2,), (2,)
KERNELS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], set[str]]] = {
    "batch norm": (batch_norm(True), NORM, {"FusedBatchNormV3"}),
    "batch norm, moving averages": (batch_norm(True, 0.9), NORM, {"FusedBatchNormV3"}),
    "batch norm, inference": (batch_norm(False), NORM, {"FusedBatchNormV3"}),
    "BlockLSTM": (lstm("BlockLSTM", forget_bias=0.7), LSTM, {"BlockLSTM"}),
    "BlockLSTM, clipped": (lstm("BlockLSTM", cell_clip=0.2), LSTM, {"BlockLSTM"}),
    "BlockLSTMV2": (lstm("BlockLSTMV2", use_peephole=False), LSTM, {"BlockLSTMV2"}),
    "bilinear": (resized("bilinear"), (IMAGE,), {"ResizeBilinear"}),
    "bicubic": (resized("bicubic"), (IMAGE,), {"ResizeBicubic"}),
    "antialiased": (resized("lanczos3", antialias=True), (IMAGE,), {"ScaleAndTranslate"}),
    "crops": (
        lambda x: tf.image.crop_and_resize(x, [[0.1, 0.2, 0.9, 1.3]], [0], (2, 3), extrapolation_value=0.5),
        *((IMAGE,), {"CropAndResize"}),
    ),
    "LRN": (lambda x: tf.nn.local_response_normalization(x, 1, 1.0, 0.5, 0.75), ((1, 1, 2, 4),), {"LRN"}),
    "max pooling": (lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), (SPACE,), {"MaxPool3D"}),
    "max pooling, overlapping": (lambda x: tf.nn.max_pool3d(x, 2, 1, "VALID"), (SPACE,), {"MaxPool3D"}),
    "average pooling": (lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), (SPACE,), {"AvgPool3D"}),
    "sparse product": (
        lambda a, b: (
            tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(tf.eye(2)), b)
            + tf.raw_ops.SparseMatMul(a=a, b=b, transpose_a=True, a_is_sparse=True)
        ),
        *(((2, 2), (2, 3)), {"SparseMatMul"}),
    ),
}


def drawn(shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def differentiable(f: Callable[..., Any]) -> Callable[..., Any]:
    """The first of several results, the one that has a gradient."""
    return lambda *inputs: tf.nest.flatten(f(*inputs))[0]


def test_every_kernel_is_tested() -> None:
    old = {"FusedBatchNorm", "FusedBatchNormV2"}  # the same function with fewer outputs
    assert set().union(*(kernels for _, _, kernels in KERNELS.values())) | old == set(IN_FLOAT64)


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_function_in_float64(name: str) -> None:
    f, shapes, _ = KERNELS[name]
    function = with_float64_form(open_function(f, tuple(drawn(shapes)), None))
    wide = function.wide
    assert wide is not None
    assert function.roundoff == 2.0**-53
    rng = np.random.default_rng(0)
    for _ in range(3):
        point = function.rounded(function.point + 0.3 * rng.normal(size=function.point.size))
        low, high = function.value(point), wide.value(point)
        np.testing.assert_allclose(low, high, atol=2e-6 * np.abs(high).max())


WRONG = {"BlockLSTM, clipped", "BlockLSTMV2"}
"""Kernels whose gradient in TensorFlow is wrong."""


def one_of_each_kernel(names: Sequence[str]) -> Sequence[str]:
    """The first of several calls of the same kernels."""
    return list({frozenset(KERNELS[name][2]): name for name in reversed(names)}.values())


TAKEN = one_of_each_kernel(sorted(KERNELS.keys() - WRONG))


@slices.parametrized("name", sorted(KERNELS.keys() - WRONG), lambda _: TAKEN)
def test_a_right_gradient_agrees_and_a_wrong_one_is_found(name: str) -> None:
    f, shapes, _ = KERNELS[name]
    inputs = drawn(shapes)
    result = check(differentiable(f), *inputs)
    assert result.verdict == "agree"
    assert result.orders[1].relative_resolution < 1e-3
    if not slices.whole and name not in TAKEN[1::3]:  # a hundredth is far beyond the resolution of each
        return

    @tf.custom_gradient
    def wrong(*given: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            value = differentiable(f)(*given)
        return value, lambda upstream: [
            1.01 * part for part in tape.gradient(value, given, upstream, unconnected_gradients="zero")
        ]

    assert check(wrong, *inputs).verdict == "mismatch"
