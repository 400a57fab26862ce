"""Functions that are applied to each row, folded over rows, chosen, or differentiated in a way of their own."""

from __future__ import annotations

import functools
from functools import partial

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import vector
from gradcheck.hunt.graph import Shape

_control = partial(operation, "control flow")
ROWS: tuple[Shape, ...] = ((2,), (3,), (2, 2))
_rows = partial(_control, shapes=vector, starts=ROWS)
_each = partial(_rows, batched="{0} * tf.sin({0})")
_folded = partial(_rows, batched="fold_points(tf.unstack({0}, axis=1))")


def mapped(x: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda row: row * tf.sin(row), x)


def mapped_at_once(x: tf.Tensor) -> tf.Tensor:
    return tf.vectorized_map(lambda row: row * tf.sin(row), x)


def folded(x: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda state, row: tf.sin(state) * row + state, x)


def fold_points(rows: list[tf.Tensor]) -> tf.Tensor:
    """The fold of the rows of every point."""
    return functools.reduce(lambda state, row: tf.sin(state) * row + state, rows)


def folded_back(x: tf.Tensor) -> tf.Tensor:
    return tf.foldr(lambda state, row: tf.sin(state) * row + state, x)


def first_case(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    return tf.case([(flag, lambda: tf.sin(x)), (~flag, lambda: x * x)], default=lambda: tf.exp(x))


def recomputed(x: tf.Tensor) -> tf.Tensor:
    return tf.recompute_grad(lambda value: value * tf.sin(value))(x)


MAPPING = (
    _each("map_fn", "mapped({0})", "Sin Mul"),
    _each("map_fn_traced", "traced(mapped)({0})", "StatelessWhile"),
    _each("vectorized_map", "mapped_at_once({0})", "Sin Mul"),
    _folded("foldl", "folded({0})", "Sin Mul"),
    _folded("foldl_traced", "traced(folded)({0})", "StatelessWhile"),
    _folded("foldr", "folded_back({0})", "Sin Mul", batched="fold_points(tf.unstack({0}, axis=1)[::-1])"),
    _control("case", "traced(first_case)({0}, tf.constant({flag}))", "StatelessIf", flag=(True, False)),
    _control("recompute_grad", "traced(recomputed)({0})", "Sin Mul"),
)
