"""The random numbers that a function draws are the same in every call, in float32 as in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import tensorflow as tf

from tests import slices
from tests.verdicts import check

GENERATOR = tf.random.Generator.from_seed(1)

DRAWS: dict[str, Callable[[Any, str], Any]] = {
    "dropout": lambda x, dtype: tf.nn.dropout(x, 0.5),
    "normal": lambda x, dtype: tf.random.normal(x.shape, dtype=dtype),
    "a generator": lambda x, dtype: GENERATOR.normal(x.shape, dtype=dtype),
    "dropout in a tf.function": tf.function(lambda x, dtype: tf.nn.dropout(x, 0.5)),
}


@slices.parametrized(
    ("drawn", "dtype"),
    product(DRAWS, ("float64", "float32")),
    lambda cases: [(drawn, dtype) for drawn, dtype in cases if (drawn == "a generator") == (dtype == "float64")],
)
def test_a_loss_that_draws_is_decided(drawn: str, dtype: str) -> None:
    x, w = tf.ones((8, 3), dtype), tf.constant([[0.5], [1.0], [-0.3]], dtype)

    @tf.custom_gradient
    def wrong(w: tf.Tensor) -> Any:
        return tf.identity(w), lambda dy: 1.01 * dy

    def loss(w: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean((DRAWS[drawn](x, dtype) @ w) ** 2)

    assert check(loss, w).verdict == "agree"
    assert check(lambda w: loss(wrong(w)), w).verdict == "mismatch"
