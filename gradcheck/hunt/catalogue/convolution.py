"""Convolutions, biases and morphology (family `nn`). Images have no batch dimension: the points are the batch."""

from __future__ import annotations

from gradcheck.hunt.catalogue.pooling import IMAGES, VOLUMES, steps
from gradcheck.hunt.catalogue.windows import gaps
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Choice, OpSpec

PATCHES = (
    "tf.einsum('phwk,pko->phwo', tf.image.extract_patches({0}, [1, 2, 2, 1], [1, {stride}, {stride}, 1], "
    "[1, 1, 1, 1], {padding}), tf.reshape({1}, [{1}.shape[0], -1, {1}.shape[-1]]))"
)

CHANNEL_PATCHES = (
    "(lambda x, f: tf.reshape(tf.einsum('phwkc,pkcm->phwcm', tf.reshape(x, [*x.shape[:3], 4, f.shape[3]]), "
    "tf.reshape(f, [f.shape[0], 4, *f.shape[3:]])), [*x.shape[:3], -1]))(tf.image.extract_patches({0}, [1, 2, 2, 1], "
    "[1, {stride}, {stride}, 1], [1, 1, 1, 1], {padding}), {1})"
)
VOLUME_PATCHES = (
    "tf.einsum('pdhwk,pko->pdhwo', tf.compat.v1.extract_volume_patches({0}, [1, 2, 2, 2, 1], "
    "[1, {stride}, {stride}, {stride}, 1], {padding}), tf.reshape({1}, [{1}.shape[0], -1, {1}.shape[-1]]))"
)
# The images spread by the stride, with zeros between and one row and column before, meet the filters upside down.
SPREAD_PATCHES = (
    "(lambda x, f, s: tf.einsum('phwk,pko->phwo', tf.image.extract_patches(tf.pad(tf.reshape(tf.pad("
    "x[:, :, tf.newaxis, :, tf.newaxis], [[0, 0], [0, 0], [0, s - 1], [0, 0], [0, s - 1], [0, 0]]), "
    "[x.shape[0], s * x.shape[1], s * x.shape[2], x.shape[3]]), [[0, 0], [1, 0], [1, 0], [0, 0]]), [1, 2, 2, 1], "
    "[1, 1, 1, 1], [1, 1, 1, 1], 'VALID'), tf.reshape(tf.transpose(f[:, ::-1, ::-1], [0, 1, 2, 4, 3]), "
    "[f.shape[0], -1, f.shape[3]])))({0}, {1}, {stride})"
)
# A dilation pads with minus infinity, behind the image only, as far as windows of two reach.
RAISED_PATCHES = (
    "(lambda x, f: tf.reduce_max(tf.reshape(x, [*x.shape[:3], 4, f.shape[3]]) + tf.reshape(f, "
    "[f.shape[0], 1, 1, 4, f.shape[3]]), 3))(tf.image.extract_patches(tf.pad({0}, [[0, 0], "
    "*[[0, int({padding} == 'SAME')]] * 2, [0, 0]], constant_values=-np.inf), [1, 2, 2, 1], "
    "[1, {stride}, {stride}, 1], [1, 1, 1, 1], 'VALID'), {1})"
)


def _filters(shape: Shape) -> list[tuple[Shape, ...]]:
    fits = len(shape) == 3 and min(shape[:-1]) > 1 and shape[-1]
    return [(shape, (2, 2, shape[-1], channels)) for channels in (1, 2)] if fits else []


def _filters_3d(shape: Shape) -> list[tuple[Shape, ...]]:
    fits = len(shape) == 4 and min(shape[:-1]) > 1 and shape[-1]
    return [(shape, (2, 2, 2, shape[-1], channels)) for channels in (1, 2)] if fits else []


def _structuring(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, (2, 2, shape[-1]))] if len(shape) == 3 and min(shape[:-1]) > 1 and shape[-1] else []


def _transposed(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, (2, 2, channels, shape[-1])) for channels in (1, 2)] if len(shape) == 3 and min(shape) else []


def _last(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, shape[-1:])] if len(shape) > 1 else []


OPERATIONS = (
    OpSpec(
        "bias_add",
        "nn",
        "tf.nn.bias_add({0}, {1})",
        ("BiasAdd",),
        arity=2,
        batched="{0} + {1}",
        broadcasts=True,
        shapes=_last,
        starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)),
    ),
    OpSpec(
        "bias_add_channels_first",
        "nn",
        "tf.nn.bias_add({0}, {1}, data_format='NCHW')",
        ("BiasAdd",),
        arity=2,
        batched="{0} + {1}[:, tf.newaxis, :, tf.newaxis, tf.newaxis]",
        shapes=lambda shape: [(shape, shape[1:2])] if len(shape) == 4 else [],
        starts=((1, 2, 1, 1), (2, 2, 1, 3)),
    ),
    OpSpec(
        "conv2d",
        "nn",
        "tf.nn.conv2d({0}[tf.newaxis], {1}, {stride}, {padding})[0]",
        ("Conv2D",),
        arity=2,
        batched=PATCHES,
        shapes=_filters,
        starts=IMAGES,
        attributes=steps,
    ),
    OpSpec(
        "conv2d_dilated",
        "nn",
        "tf.nn.conv2d({0}[tf.newaxis], {1}, 1, 'SAME', dilations=2)[0]",
        ("Conv2D",),
        arity=2,
        batched=PATCHES.replace("[1, 1, 1, 1]", "[1, 2, 2, 1]").replace("{stride}", "1").replace("{padding}", "'SAME'"),
        shapes=_filters,
        starts=((3, 3, 1), (3, 4, 2)),
    ),
    OpSpec(
        "conv2d_transpose",
        "nn",
        "tf.nn.conv2d_transpose({0}[tf.newaxis], {1}, [1, {stride} * {0}.shape[0], {stride} * {0}.shape[1], "
        "{1}.shape[-2]], {stride}, 'SAME')[0]",
        ("Conv2DBackpropInput",),
        arity=2,
        batched=SPREAD_PATCHES,
        shapes=_transposed,
        starts=IMAGES,
        attributes=lambda *shapes: {"stride": Choice((1, 2))},
    ),
    OpSpec(
        "depthwise_conv2d",
        "nn",
        "tf.nn.depthwise_conv2d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, 1], {padding})[0]",
        ("DepthwiseConv2dNative",),
        arity=2,
        batched=CHANNEL_PATCHES,
        shapes=_filters,
        starts=IMAGES,
        attributes=steps,
    ),
    OpSpec(
        "conv3d",
        "nn",
        "tf.nn.conv3d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, {stride}, 1], {padding})[0]",
        ("Conv3D",),
        arity=2,
        batched=VOLUME_PATCHES,
        shapes=_filters_3d,
        starts=VOLUMES,
        attributes=steps,
    ),
    OpSpec(
        "dilation2d",
        "nn",
        "tf.nn.dilation2d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, 1], {padding}, 'NHWC', [1, 1, 1, 1])[0]",
        ("Dilation2D",),
        arity=2,
        batched=RAISED_PATCHES,
        shapes=_structuring,
        starts=IMAGES,
        attributes=steps,
        orders=(1,),  # Dilation2DBackpropInput and Dilation2DBackpropFilter have no registered gradients
        kinks=lambda x, filters, stride, padding: gaps(x, 2, stride, padding, added=filters),
    ),
)
