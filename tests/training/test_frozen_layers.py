"""Steps that train a part of a model: what Keras does not train counts as not trainable."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientMissing, assert_step
from tests import slices
from tests.training.conftest import FORMS

BATCH = np.linspace(-1.0, 1.0, 24, dtype="f4").reshape(8, 3), np.linspace(0.0, 1.0, 8, dtype="f4")[:, None]


@pytest.fixture(autouse=True)
def seeded() -> None:
    keras.utils.set_random_seed(1)


def compiled(*layers: Any, inputs: Any = None) -> Any:
    model = keras.Sequential([keras.layers.Input((3,)) if inputs is None else inputs, *layers])
    model.compile("sgd", "mse")
    return model


def frozen_later() -> Any:
    model = compiled(keras.layers.Dense(4, "tanh"), keras.layers.Dense(1))
    model.layers[0].trainable = False
    return model


def frozen_from_the_beginning() -> Any:
    return compiled(keras.layers.Dense(4, "tanh", trainable=False), keras.layers.Dense(1))


def frozen_base() -> Any:
    base = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    base.trainable = False
    inputs = keras.layers.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(base(inputs, training=False)))
    model.compile("sgd", "mse")
    return model


MODELS = {
    "frozen later": frozen_later,
    "frozen from the beginning": frozen_from_the_beginning,
    "a frozen base": frozen_base,
}


@slices.parametrized(
    ("name", "traced"), product(MODELS, FORMS), lambda _: zip(MODELS, cycle(FORMS)), indirect=["traced"]
)
def test_frozen_layers_do_not_count(name: str, traced: Any) -> None:
    model = MODELS[name]()
    result = assert_step(traced(model.train_step), tuple(map(tf.constant, BATCH)))
    count = sum(variable.value.shape.num_elements() for variable in model.trainable_variables)
    assert (result.verdict, result.orders[1].compared) == ("agree", count)


def test_a_frozen_embedding_does_not_count() -> None:
    rows = np.linspace(-1.0, 1.0, 10, dtype="f4").reshape(5, 2)
    embedding = keras.layers.Embedding(5, 2, weights=[rows], trainable=False)
    inputs = keras.layers.Input((3,), dtype="int32")
    model = compiled(embedding, keras.layers.Flatten(), keras.layers.Dense(1), inputs=inputs)
    batch = np.arange(24).reshape(8, 3) % 5, BATCH[1]
    assert assert_step(model.train_step, batch).orders[1].compared == 7


def test_a_step_by_hand_leaves_frozen_layers_out_but_those_that_it_trains() -> None:
    model, optimizer = frozen_later(), keras.optimizers.SGD(0.1)

    def step(sources: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(BATCH[0]) - BATCH[1]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, sources), sources, strict=True))
        return loss

    optimizer.build(model.variables)
    assert assert_step(lambda: step(model.trainable_variables)).orders[1].compared == 5
    assert assert_step(lambda: step(model.variables)).orders[1].compared == 21


def test_a_trainable_variable_that_no_tape_is_asked_for_is_told_with_both_ways_out() -> None:
    base, head = tf.Variable(2.0, name="base"), tf.Variable(3.0, name="head")
    optimizer = keras.optimizers.SGD(0.1)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.tanh(base) * head**2
        optimizer.apply_gradients([(tape.gradient(loss, head), head)])
        return loss

    with pytest.raises(GradientMissing) as caught:
        assert_step(step)
    message = str(caught.value)
    assert "cause        no operation wrong by itself" in message
    assert "the step never asks its tape for this gradient" in message
    assert "remedy       ask the tape for it, or, if it is not to be trained, exclude it: variables=[...]" in message
    assert "TensorFlow saw no path" not in message
