"""Functions that are applied to each row, folded over rows, chosen, or differentiated in a way of their own."""

from __future__ import annotations

import functools
from functools import partial

from gradcheck.hunt.catalogue.language import operation, tf, traced
from gradcheck.hunt.catalogue.shapes import vector
from gradcheck.hunt.graph import Shape

_control = partial(operation, "control flow")
ROWS: tuple[Shape, ...] = ((2,), (3,), (2, 2))
_rows = partial(_control, shapes=vector, starts=ROWS)
_each = partial(_rows, batched=lambda x: x * tf.sin(x))
_folded = partial(_rows, batched=lambda x: fold_points(tf.unstack(x, axis=1)))


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
    _each("map_fn", lambda x: mapped(x), "Sin Mul"),
    _each("map_fn_traced", lambda x: traced(mapped)(x), "StatelessWhile"),
    _each("vectorized_map", lambda x: mapped_at_once(x), "Sin Mul"),
    _folded("foldl", lambda x: folded(x), "Sin Mul"),
    _folded("foldl_traced", lambda x: traced(folded)(x), "StatelessWhile"),
    _folded("foldr", lambda x: folded_back(x), "Sin Mul", batched=lambda x: fold_points(tf.unstack(x, axis=1)[::-1])),
    _control("case", lambda x, *, flag: traced(first_case)(x, tf.constant(flag)), "StatelessIf", flag=(True, False)),
    _control("recompute_grad", lambda x: traced(recomputed)(x), "Sin Mul"),
)
