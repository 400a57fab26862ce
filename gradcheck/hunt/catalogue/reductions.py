"""The census's family `math`: reductions, cumulative operations, products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gradcheck.hunt.distances import norms, ties_of_largest, ties_of_smallest
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Attribute, Choice, OpSpec
from gradcheck.hunt.shape_rules import alike, matmul, only_if, ranked, vector

STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (2, 1, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (2, 3), (1, 2), (2, 2, 1))


def _axes(shape: Shape) -> Mapping[str, Attribute]:
    return {"axis": Choice(tuple(range(-1, -len(shape) - 1, -1)))}


def _reduced(shape: Shape) -> Mapping[str, Attribute]:
    return {**_axes(shape), "keepdims": BOOL}


def _cumulative(_shape: Shape) -> Mapping[str, Attribute]:
    return {"exclusive": BOOL, "reverse": BOOL}


_reduction: Callable[..., OpSpec] = partial(OpSpec, family="math", shapes=vector, starts=STARTS, attributes=_reduced)
_accumulation: Callable[..., OpSpec] = partial(
    OpSpec, family="math", shapes=ranked, starts=(*STARTS, (0,)), attributes=_cumulative
)

OPERATIONS = (
    OpSpec("reduce_sum", "math", "tf.reduce_sum({0}, axis=-1)", ("Sum",), shapes=ranked, starts=(*STARTS, (0,))),
    _reduction("sum_over_axis", source="tf.reduce_sum({0}, axis={axis}, keepdims={keepdims})", gradients=("Sum",)),
    _reduction("reduce_mean", source="tf.reduce_mean({0}, axis={axis}, keepdims={keepdims})", gradients=("Mean",)),
    _reduction("reduce_prod", source="tf.reduce_prod({0}, axis={axis}, keepdims={keepdims})", gradients=("Prod",)),
    _reduction(
        "reduce_max",
        source="tf.reduce_max({0}, axis={axis}, keepdims={keepdims})",
        gradients=("Max",),
        kinks=ties_of_largest,
    ),
    _reduction(
        "reduce_min",
        source="tf.reduce_min({0}, axis={axis}, keepdims={keepdims})",
        gradients=("Min",),
        kinks=ties_of_smallest,
    ),
    _reduction(
        "reduce_euclidean_norm",
        source="tf.math.reduce_euclidean_norm({0}, axis={axis}, keepdims={keepdims})",
        gradients=("EuclideanNorm",),
        kinks=norms,
    ),
    _reduction(
        "reduce_logsumexp",
        source="tf.reduce_logsumexp({0}, axis={axis}, keepdims={keepdims})",
        gradients=("Exp", "Log", "Sum"),
    ),
    _reduction(
        "reduce_variance",
        source="tf.math.reduce_variance({0}, axis={axis}, keepdims={keepdims})",
        gradients=("Mean", "Square", "Sub"),
    ),
    _accumulation(
        "cumsum",
        source="tf.cumsum({0}, axis=-1, exclusive={exclusive}, reverse={reverse})",
        gradients=("Cumsum",),
    ),
    _accumulation(
        "cumprod",
        source="tf.math.cumprod({0}, axis=-1, exclusive={exclusive}, reverse={reverse})",
        gradients=("Cumprod",),
    ),
    OpSpec(
        "cumulative_logsumexp",
        "math",
        "tf.math.cumulative_logsumexp({0}, axis=-1, reverse={reverse})",
        ("CumulativeLogsumexp",),
        shapes=vector,
        starts=STARTS,
        attributes=lambda shape: {"reverse": BOOL},
    ),
    OpSpec(
        "matmul",
        "math",
        "{0} @ {1}",
        ("BatchMatMulV2", "MatMul"),
        arity=2,
        broadcasts=True,
        shapes=matmul,
        starts=MATRICES,
    ),
    OpSpec(
        "matmul_transposed",
        "math",
        "tf.matmul({0}, {1}, transpose_a={transpose}, transpose_b=not {transpose})",
        ("BatchMatMulV2", "MatMul"),
        arity=2,
        shapes=only_if(lambda shape: len(shape) >= 2 and all(shape), alike(2)),
        starts=MATRICES,
        attributes=lambda *shapes: {"transpose": BOOL},
    ),
    OpSpec(
        "batch_matmul",
        "math",
        "tf.raw_ops.BatchMatMul(x={0}, y=tf.math.conj({0}), adj_y=True)",
        ("BatchMatMul",),
        shapes=only_if(lambda shape: len(shape) >= 2 and all(shape)),
        starts=MATRICES,
    ),
    OpSpec(
        "batch_matmul_v3",
        "math",
        "tf.raw_ops.BatchMatMulV3(x={0}, y={0}, Tout=tf.float64, adj_x=True)",
        ("BatchMatMulV3",),
        shapes=only_if(lambda shape: len(shape) >= 2 and all(shape)),
        starts=MATRICES,
    ),
    OpSpec(
        "cross",
        "math",
        "tf.linalg.cross({0}, {1})",
        ("Cross",),
        arity=2,
        shapes=only_if(lambda shape: shape[-1:] == (3,), alike(2)),
        starts=((3,), (2, 3)),
    ),
    _reduction(
        "take_argmax",
        source="tf.reduce_sum({0} * tf.one_hot(tf.argmax({0}, axis=-1), {0}.shape[-1], dtype=tf.float64), axis=-1)",
        gradients=("Mul", "Sum"),
        attributes=lambda shape: {},
        kinks=ties_of_largest,
    ),
)
