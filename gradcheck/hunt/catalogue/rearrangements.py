"""Elements put in order, repeated, chosen or spread out (`array`), and special functions of a few terms (`math`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at_zero, ties
from gradcheck.hunt.catalogue.language import along_axis, operation, tf
from gradcheck.hunt.catalogue.shapes import alike, axes, broadcasting, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import POSITIVE, Indices, Interval

STARTS: tuple[Shape, ...] = ((2,), (3,), (1,), (2, 2), (2, 3))

_array = partial(operation, "array", shapes=vector, starts=STARTS)
_along = partial(_array, batching=along_axis, axis=axes)
_math = partial(operation, "math")


def masked_in_a_row(x: tf.Tensor, odd: int) -> tf.Tensor:
    """Rows whose count is not known before they are chosen, one behind the other."""
    return tf.reshape(tf.boolean_mask(x, tf.range(tf.shape(x)[0]) % 2 == odd), [-1])


def _counts(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """How often every element of the last axis stands there: once more each time, or once less."""
    return (tuple(range(shape[-1], 0, -1)), tuple(range(shape[-1])))


REARRANGEMENTS = (
    _along(
        "sort",
        "tf.sort({0}, axis={axis}, direction={direction})",
        "TopKV2",
        direction=("ASCENDING", "DESCENDING"),
        kinks=ties,
    ),
    _along("repeat", "tf.repeat({0}, {count}, axis={axis})", "Reshape", count=(2, 1, 3)),
    _array("repeat_unequally", "tf.repeat({0}, {counts}, axis=-1)", "GatherV2", counts=_counts),
    _array(
        "boolean_mask",
        "tf.boolean_mask({0}, [row in {rows} for row in range({0}.shape[0])])",
        "GatherV2",
        batched="tf.boolean_mask({0}, [row in {rows} for row in range({0}.shape[1])], axis=1)",
        rows=lambda shape: Indices(2, shape[0]),
    ),
    _array(
        "boolean_mask_in_a_row",
        "traced(masked_in_a_row)({0}, {odd})",
        "GatherV2 Reshape",
        looped=True,
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 0), (2, 3)),
        odd=(0, 1),
    ),
    _array(
        "boolean_mask_of_matrix",
        "tf.boolean_mask({0}, [[(row + column) % 2 == {odd} for column in range({0}.shape[1])] "
        "for row in range({0}.shape[0])])",
        "GatherV2",
        batched="tf.boolean_mask({0}, [[(row + column) % 2 == {odd} for column in range({0}.shape[2])] "
        "for row in range({0}.shape[1])], axis=1)",
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3), (2, 2, 2)),
        odd=(0, 1),
    ),
    _array(
        "linspace",
        "tf.linspace({0}, {1}, {count}, axis={axis})",
        "Sub AddV2",
        shapes=lambda shape: [(shape, shape)],
        starts=((), (2,), (2, 2)),
        batched="tf.linspace({0}, {1}, {count}, axis={axis} + ({axis} >= 0))",
        count=(3, 2, 1, 5),
        axis=(-1, 0),
    ),
    _array(
        "meshgrid",
        "tf.add_n(tf.meshgrid({0}, {1}, indexing={indexing}))",
        "Mul Reshape",
        looped=True,
        when=lambda shape: len(shape) == 1,
        others=lambda shape: [(shape,), ((2,),)],
        starts=((2,), (3,), (1,)),
        indexing=("xy", "ij"),
    ),
    _array(
        "saturate_cast",
        "tf.cast(tf.saturate_cast({0}, tf.float32), tf.float64)",
        "Cast",
        shapes=lambda shape: [(shape,)],
        rtol=1e-7,
    ),
    _math("lbeta", "tf.math.lbeta({0})", "Lgamma Sum", POSITIVE, shapes=vector, starts=STARTS),
    _math("erfcinv", "tf.math.erfcinv({0})", "Ndtri", Interval(0.0, 2.0)),
    _math("polyval", "tf.math.polyval([{0}, {1}, 2.0 * {0}], {1})", "Mul AddV2", others=alike),
    _math("reciprocal_no_nan", "tf.math.reciprocal_no_nan({0})", "DivNoNan", singular=at_zero),
    _math(
        "normal_sample",
        "tf.random.stateless_normal({0}.shape, [1, 2], {0}, {1}, tf.float64)",
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "truncated_normal_sample",
        "tf.random.stateless_truncated_normal({0}.shape, [1, 2], {0}, {1}, tf.float64)",
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "uniform_sample",
        "tf.random.stateless_uniform({0}.shape, [1, 2], {0}, {1}, tf.float64)",
        "Mul AddV2 Sub",
        looped=True,
        others=alike,
    ),
    _math("nextafter", "tf.math.nextafter({0}, {1})", "NextAfter", broadcasts=True, shapes=broadcasting),
    operation(
        "nn",
        "approx_max_k",
        "tf.cast(tf.nn.approx_max_k(tf.cast({0}, tf.float32), {k})[0], tf.float64)",
        "ApproxTopK",
        reference="tf.math.top_k({0}, {k}).values",
        rtol=1e-6,
        shapes=vector,
        starts=((2,), (3,), (2, 3)),
        k=lambda shape: range(1, shape[-1] + 1),
        kinks=lambda x, k: -np.diff(-np.sort(-x))[..., :k],
    ),
)
