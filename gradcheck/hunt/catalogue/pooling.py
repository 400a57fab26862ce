"""Pooling over windows (family `nn`). Images have no batch dimension: the points are the batch."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck.hunt.catalogue.windows import gaps
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Attribute, Choice, OpSpec

IMAGES: tuple[Shape, ...] = ((2, 2, 1), (3, 3, 1), (2, 3, 2))
VOLUMES: tuple[Shape, ...] = ((2, 2, 2, 1), (3, 2, 2, 1), (2, 2, 3, 2))


def images(shape: Shape) -> list[tuple[Shape, ...]]:
    """One image (height, width, channels), at least as large as a window of edge 2."""
    return [(shape,)] if len(shape) == 3 and min(shape[:-1]) > 1 and shape[-1] else []


def volumes(shape: Shape) -> list[tuple[Shape, ...]]:
    """One volume (depth, height, width, channels), at least as large as a window of edge 2."""
    return [(shape,)] if len(shape) == 4 and min(shape[:-1]) > 1 and shape[-1] else []


def steps(*_shapes: Shape) -> Mapping[str, Attribute]:
    """Stride and padding of a window."""
    return {"stride": Choice((1, 2)), "padding": Choice(("VALID", "SAME"))}


OPERATIONS = (
    OpSpec(
        "avg_pool2d",
        "nn",
        "tf.nn.avg_pool2d({0}[tf.newaxis], 2, {stride}, {padding})[0]",
        ("AvgPool",),
        batched="tf.nn.avg_pool2d({0}, 2, {stride}, {padding})",
        shapes=images,
        starts=IMAGES,
        attributes=steps,
    ),
    OpSpec(
        "max_pool2d",
        "nn",
        "tf.nn.max_pool2d({0}[tf.newaxis], 2, {stride}, {padding})[0]",
        ("MaxPool",),
        batched="tf.nn.max_pool2d({0}, 2, {stride}, {padding})",
        shapes=images,
        starts=IMAGES,
        attributes=steps,
        kinks=lambda x, stride, padding: gaps(x, 2, stride, padding),
    ),
    OpSpec(
        "max_pool_with_argmax",
        "nn",
        "tf.nn.max_pool_with_argmax({0}[tf.newaxis], 2, {stride}, {padding})[0][0]",
        ("MaxPoolWithArgmax",),
        batched="tf.nn.max_pool_with_argmax({0}, 2, {stride}, {padding})[0]",
        shapes=images,
        starts=IMAGES,
        attributes=steps,
        orders=(1,),  # MaxPoolGradWithArgmax has no registered gradient
        kinks=lambda x, stride, padding: gaps(x, 2, stride, padding),
    ),
    OpSpec(
        "avg_pool3d",
        "nn",
        "tf.cast(tf.nn.avg_pool3d(tf.cast({0}[tf.newaxis], tf.float32), 2, {stride}, 'VALID')[0], tf.float64)",
        ("AvgPool3D",),
        batched="tf.cast(tf.nn.avg_pool3d(tf.cast({0}, tf.float32), 2, {stride}, 'VALID'), tf.float64)",
        shapes=volumes,
        starts=VOLUMES,
        attributes=lambda shape: {"stride": Choice((1, 2))},
        reference="tf.add_n([{0}[..., i:{0}.shape[-4] - 1 + i:{stride}, j:{0}.shape[-3] - 1 + j:{stride}, "
        "k:{0}.shape[-2] - 1 + k:{stride}, :] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) / 8",
        rtol=1e-6,
    ),
    OpSpec(
        "max_pool3d",
        "nn",
        "tf.cast(tf.nn.max_pool3d(tf.cast({0}[tf.newaxis], tf.float32), 2, {stride}, 'VALID')[0], tf.float64)",
        ("MaxPool3D",),
        batched="tf.cast(tf.nn.max_pool3d(tf.cast({0}, tf.float32), 2, {stride}, 'VALID'), tf.float64)",
        shapes=volumes,
        starts=VOLUMES,
        attributes=lambda shape: {"stride": Choice((1, 2))},
        kinks=lambda x, stride: gaps(x, 2, stride, "VALID"),
        reference="tf.reduce_max([{0}[..., i:{0}.shape[-4] - 1 + i:{stride}, j:{0}.shape[-3] - 1 + j:{stride}, "
        "k:{0}.shape[-2] - 1 + k:{stride}, :] for i in (0, 1) for j in (0, 1) for k in (0, 1)], axis=0)",
        rtol=1e-6,
    ),
)
