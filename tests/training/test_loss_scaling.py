"""Steps whose optimizer scales the loss against underflow, as those of every model in mixed_float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import assert_step

Step = Callable[[], Any]
BATCH = np.linspace(-1.0, 1.0, 24, dtype="f4").reshape(8, 3), np.linspace(0.0, 1.0, 8, dtype="f4")[:, None]


def scaling(**options: Any) -> Any:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, **options))


def test_a_model_that_returns_a_dict_is_seen_as_sharply_as_without_a_scale() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    seen = []
    for optimizer in (keras.optimizers.SGD(0.1), scaling()):
        model.compile(optimizer, "mse")
        order = assert_step(model.train_step, tuple(map(tf.constant, BATCH))).orders[1]
        assert (order.verdict, order.compared) == ("agree", 21)
        seen.append(order.resolution)
    assert seen[1] == pytest.approx(seen[0], rel=0.1)
