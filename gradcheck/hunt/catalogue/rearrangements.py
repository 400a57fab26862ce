"""Elements put in order, repeated, chosen or spread out (`array`), and special functions of a few terms (`math`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at_zero, ties
from gradcheck.hunt.catalogue.language import along_axis, operation, tf, traced
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
        lambda x, *, axis, direction: tf.sort(x, axis=axis, direction=direction),
        "TopKV2",
        direction=("ASCENDING", "DESCENDING"),
        kinks=ties,
    ),
    _along("repeat", lambda x, *, count, axis: tf.repeat(x, count, axis=axis), "Reshape", count=(2, 1, 3)),
    _array("repeat_unequally", lambda x, *, counts: tf.repeat(x, counts, axis=-1), "GatherV2", counts=_counts),
    _array(
        "boolean_mask",
        lambda x, *, rows: tf.boolean_mask(x, [row in rows for row in range(x.shape[0])]),
        "GatherV2",
        batched=lambda x, *, rows: tf.boolean_mask(x, [row in rows for row in range(x.shape[1])], axis=1),
        rows=lambda shape: Indices(2, shape[0]),
    ),
    _array(
        "boolean_mask_in_a_row",
        lambda x, *, odd: traced(masked_in_a_row)(x, odd),
        "GatherV2 Reshape",
        looped=True,
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 0), (2, 3)),
        odd=(0, 1),
    ),
    _array(
        "boolean_mask_of_matrix",
        lambda x, *, odd: tf.boolean_mask(
            x, [[(row + column) % 2 == odd for column in range(x.shape[1])] for row in range(x.shape[0])]
        ),
        "GatherV2",
        batched=lambda x, *, odd: tf.boolean_mask(
            x, [[(row + column) % 2 == odd for column in range(x.shape[2])] for row in range(x.shape[1])], axis=1
        ),
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3), (2, 2, 2)),
        odd=(0, 1),
    ),
    _array(
        "linspace",
        lambda x, y, *, count, axis: tf.linspace(x, y, count, axis=axis),
        "Sub AddV2",
        shapes=lambda shape: [(shape, shape)],
        starts=((), (2,), (2, 2)),
        batched=lambda x, y, *, count, axis: tf.linspace(x, y, count, axis=axis + (axis >= 0)),
        count=(3, 2, 1, 5),
        axis=(-1, 0),
    ),
    _array(
        "meshgrid",
        lambda x, y, *, indexing: tf.add_n(tf.meshgrid(x, y, indexing=indexing)),
        "Mul Reshape",
        looped=True,
        when=lambda shape: len(shape) == 1,
        others=lambda shape: [(shape,), ((2,),)],
        starts=((2,), (3,), (1,)),
        indexing=("xy", "ij"),
    ),
    _array(
        "saturate_cast",
        lambda x: tf.cast(tf.saturate_cast(x, tf.float32), tf.float64),
        "Cast",
        shapes=lambda shape: [(shape,)],
        rtol=1e-7,
    ),
    _math("lbeta", lambda x: tf.math.lbeta(x), "Lgamma Sum", POSITIVE, shapes=vector, starts=STARTS),
    _math("erfcinv", lambda x: tf.math.erfcinv(x), "Ndtri", Interval(0.0, 2.0)),
    _math("polyval", lambda x, y: tf.math.polyval([x, y, 2.0 * x], y), "Mul AddV2", others=alike),
    _math("reciprocal_no_nan", lambda x: tf.math.reciprocal_no_nan(x), "DivNoNan", singular=at_zero),
    _math(
        "normal_sample",
        lambda x, y: tf.random.stateless_normal(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "truncated_normal_sample",
        lambda x, y: tf.random.stateless_truncated_normal(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "uniform_sample",
        lambda x, y: tf.random.stateless_uniform(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2 Sub",
        looped=True,
        others=alike,
    ),
    _math("nextafter", lambda x, y: tf.math.nextafter(x, y), "NextAfter", broadcasts=True, shapes=broadcasting),
    operation(
        "nn",
        "approx_max_k",
        lambda x, *, k: tf.cast(tf.nn.approx_max_k(tf.cast(x, tf.float32), k)[0], tf.float64),
        "ApproxTopK",
        reference=lambda x, *, k: tf.math.top_k(x, k).values,
        rtol=1e-6,
        shapes=vector,
        starts=((2,), (3,), (2, 3)),
        k=lambda shape: range(1, shape[-1] + 1),
        kinks=lambda x, k: -np.diff(-np.sort(-x))[..., :k],
    ),
)
