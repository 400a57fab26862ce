"""Unusual models, data and trainings: each is trained bit for bit the same with a monitor as without it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from gradcheck import InconclusiveWarning, MismatchWarning
from gradcheck.keras import GradientMonitor
from tests import slices

OWN = ("gradient_error", "gradient_resolution")
SAID = (InconclusiveWarning, MismatchWarning)
ROWS = 24

Training = tuple[Any, dict[str, Any]]
"""A compiled model, and the arguments of its fit."""


def numbers(*shape: int, kind: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(kind)


def stack(*middle: Any, out: int = 1) -> Any:
    return keras.Sequential([kl.Dense(4, "tanh"), *middle, kl.Dense(out)])


def data(**more: Any) -> dict[str, Any]:
    return {"x": numbers(ROWS, 3), "y": numbers(ROWS, 1), "batch_size": 8, "epochs": 2, "verbose": 0, **more}


def compiled(model: Any, optimizer: Any = "sgd", loss: Any = "mse", **options: Any) -> Any:
    model.compile(optimizer, loss, **options)
    return model


def plain(optimizer: Any = "sgd", **options: Any) -> Callable[[], Training]:
    return lambda: (compiled(stack(), optimizer, **options), data())


class Stepping(keras.Model):
    """A model of two halves whose step is `step(model, x, y)`."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.first, self.second = stack(), stack()
        self.count = self.add_weight(shape=(), initializer="zeros", dtype="int32", trainable=False)
        self.calls, self.flipped = 0, False
        self.seen: list[int] = []
        self.made: Any = None

        def stepping(model: Any, batch: Any) -> Any:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            return step(model, x, y)

        self.train_step = MethodType(stepping, self)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.first(x, training=training) + self.second(x, training=training)

    def taken(self, half: Any, x: Any, y: Any) -> Any:
        """The loss of a half, and its gradients."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((half(x, training=True) - y) ** 2)
        return loss, tape.gradient(loss, half.trainable_variables)

    def moved(self, half: Any, x: Any, y: Any) -> Any:
        """The loss of a half after its update."""
        loss, gradients = self.taken(half, x, y)
        self.optimizer.apply_gradients(zip(gradients, half.trainable_variables, strict=True))
        return loss


def stepping(step: Any, *, options: dict[str, Any] | None = None, **more: Any) -> Callable[[], Training]:
    def make() -> Training:
        model = Stepping(step)
        model(np.zeros((1, 3), np.float32))
        compiled(model, **(options or {}))
        model.optimizer.build(model.trainable_variables)
        return model, data(**more)

    return make


def by_parity(model: Any, x: Any, y: Any) -> Any:
    model.count.assign_add(1)
    even = model.count.value % 2 == 0
    return {"loss": tf.cond(even, lambda: model.moved(model.first, x, y), lambda: model.moved(model.second, x, y))}


def one_or_two(model: Any, x: Any, y: Any) -> Any:
    model.count.assign_add(1)

    def both() -> Any:
        return model.moved(model.first, x, y) + model.moved(model.second, x, y)

    return {"loss": tf.cond(model.count.value % 2 == 0, both, lambda: model.moved(model.first, x, y))}


def by_python_parity(model: Any, x: Any, y: Any) -> Any:
    model.calls += 1
    model.seen.append(model.calls)
    model.flipped = not model.flipped
    half = model.first if model.flipped else model.second
    return {"loss": model.moved(half, x, y) * (1 + 0 * len(model.seen))}


def every_third(model: Any, x: Any, y: Any) -> Any:
    """Takes a derivative of every third batch only."""
    model.count.assign_add(1)
    due = model.count.value % 3 == 0
    return {"loss": tf.cond(due, lambda: model.moved(model.first, x, y), lambda: tf.reduce_mean(model.first(x)))}


def accumulated(model: Any, x: Any, y: Any) -> Any:
    """Updates with the summed gradients of three batches."""
    loss, gradients = model.taken(model.first, x, y)
    model.count.assign_add(1)
    if model.made is None:
        model.made = [tf.Variable(tf.zeros(one.shape), trainable=False) for one in model.first.trainable_variables]
    for held, one in zip(model.made, gradients, strict=True):
        held.assign_add(one)

    def update() -> Any:
        model.optimizer.apply_gradients(zip(model.made, model.first.trainable_variables, strict=True))
        for held in model.made:
            held.assign(tf.zeros_like(held))
        return tf.constant(True)

    tf.cond(model.count.value % 3 == 0, update, lambda: tf.constant(False))
    return {"loss": loss}


def gan_like(model: Any, x: Any, y: Any) -> Any:
    noise = tf.random.normal(tf.shape(y))
    critic = model.moved(model.first, x, y + noise)
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(model.first(x * model.second(x, training=True)))
    variables = model.second.trainable_variables
    model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return {"loss": critic, "generator": loss}


def inner_loop(model: Any, x: Any, y: Any) -> Any:
    loss = tf.constant(0.0)
    for _ in tf.range(3) if tf.executing_eagerly() else range(3):
        loss = model.moved(model.first, x, y)
    return {"loss": loss}


def while_loop(model: Any, x: Any, y: Any) -> Any:
    def turn(turns: Any, _: Any) -> Any:
        return turns + 1, model.moved(model.first, x, y)

    return {"loss": tf.while_loop(lambda turns, _: turns < 3, turn, (0, 0.0))[1]}


def by_hand(model: Any, x: Any, y: Any) -> Any:
    loss, gradients = model.taken(model.first, x, y)
    for variable, gradient in zip(model.first.trainable_variables, gradients, strict=True):
        variable.assign_sub(0.01 * gradient)
    return {"loss": loss}


def without_tape(model: Any, x: Any, y: Any) -> Any:
    model.first.trainable_variables[0].assign_add(tf.ones_like(model.first.trainable_variables[0]))
    return {"loss": tf.reduce_mean(model.first(x) - y)}


def with_an_empty_gradient(model: Any, x: Any, y: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model.first(x) - y) ** 2)
    assert tape.gradient(loss, []) == []
    return {"loss": model.moved(model.first, x, y)}


def inside_a_function(model: Any, x: Any, y: Any) -> Any:
    @tf.function
    def inner(x: Any, y: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            return model.moved(model.first, x, y)
        return model.moved(model.first, -x, y)

    if model.made is None:
        model.made = inner
    return {"loss": model.made(x, y)}


def random_all_over(model: Any, x: Any, y: Any) -> Any:
    x = tf.nn.dropout(x + tf.random.normal(tf.shape(x)), 0.3)
    return {"loss": model.moved(model.first, x, y)}


def random_on_the_host(model: Any, x: Any, y: Any) -> Any:
    noise = np.random.normal(size=y.shape).astype(np.float32) + random.random()
    return {"loss": model.moved(model.first, x, y + noise)}


def by_a_persistent_tape(model: Any, x: Any, y: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        one, two = tf.reduce_mean((model.first(x) - y) ** 2), tf.reduce_mean(tf.abs(model.second(x) - y))
    for loss, half in ((one, model.first), (two, model.second)):
        variables = half.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return {"loss": one}


def complex_weights(model: Any, x: Any, y: Any) -> Any:
    if model.made is None:
        model.made = tf.Variable([1.0 + 1.0j])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.abs(model.made) ** 2)
    model.made.assign_sub(0.1 * tape.gradient(loss, model.made))
    return {"loss": tf.cast(loss, tf.float32) + model.moved(model.first, x, y)}


def host_code(x: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(np.tanh, [x], x.dtype), x.shape)


@tf.custom_gradient
def host_function(x: Any) -> Any:
    y = tf.ensure_shape(tf.py_function(lambda one: one * 2.0, [x], x.dtype), x.shape)
    return y, lambda upstream: 2.0 * upstream


class Counting(kl.Layer):
    """Counts its calls in a variable and in Python, and scales its output with the count."""

    def __init__(self) -> None:
        super().__init__()
        self.python = 0

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        self.python += 1
        self.calls.assign_add(1.0)
        return x * (1.0 + 0.01 * self.calls + 0.001 * self.python)


def frozen(count: int | None = 1) -> Training:
    model = stack()
    model.build((None, 3))
    for layer in model.layers[:count]:
        layer.trainable = False
    return compiled(model), data()


def policy(name: str) -> Training:
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(name)
    try:
        model = stack()
    finally:
        keras.mixed_precision.set_dtype_policy(before)
    return compiled(model, keras.optimizers.SGD(1e-3)), data()


def under(strategy: Callable[[], Any], *middle: Callable[[], Any], **options: Any) -> Callable[[], Training]:
    def make() -> Training:
        with strategy().scope():
            return compiled(stack(*(one() for one in middle)), **options), data()

    return make


def datasets(kind: str) -> Training:
    x, y, weights = numbers(21, 3), numbers(21, 1), np.abs(numbers(21))
    rest = {"epochs": 2, "verbose": 0}
    if kind == "uneven batches":
        return compiled(stack()), {"x": x, "y": y, "batch_size": 8, **rest}
    if kind == "sample weights":
        return compiled(stack()), {"x": x, "y": y, "sample_weight": weights, "batch_size": 7, **rest}
    if kind == "class weights":
        classes = (y > 0).astype(int)
        return compiled(stack()), {"x": x, "y": classes, "class_weight": {0: 1.0, 1: 3.0}, "batch_size": 7, **rest}
    if kind == "a generator":

        def generated() -> Iterator[Any]:
            rng = np.random.default_rng(0)
            while True:
                size = int(rng.integers(1, 6))
                yield rng.normal(size=(size, 3)).astype(np.float32), np.ones((size, 1), np.float32)

        return compiled(stack()), {"x": generated(), "steps_per_epoch": 4, **rest}
    if kind == "an unknown size":
        rows = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda one, _: one[0] > -1).batch(4)
        return compiled(stack()), {"x": rows, **rest}
    if kind == "shuffled anew":
        rows = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(21).batch(4, drop_remainder=True)
        return compiled(stack()), {"x": rows, **rest}
    if kind == "a dict":
        inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((3,), name="b")}
        model = keras.Model(inputs, kl.Dense(1)(kl.Concatenate()([inputs["a"], kl.Dropout(0.5)(inputs["b"])])))
        return compiled(model), {"x": {"a": x, "b": 2 * x}, "y": y, "batch_size": 8, **rest}
    if kind == "ragged":
        rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [1]] * 4)
        model = keras.Sequential([kl.Embedding(8, 2), kl.GlobalAveragePooling1D(), kl.Dense(1)])
        pairs = tf.data.Dataset.from_tensor_slices((rows, np.ones((16, 1), np.float32))).batch(4)
        return compiled(model), {"x": pairs.map(lambda one, two: (one.to_tensor(), two)), **rest}
    if kind == "texts":
        texts = np.array(["a b", "b c", "c a", "a a"] * 5, object)
        words = kl.TextVectorization(output_sequence_length=2, vocabulary=["a", "b", "c"])
        model = keras.Sequential([words, kl.Embedding(8, 2), kl.Flatten(), kl.Dense(1)])
        pairs = tf.data.Dataset.from_tensor_slices((texts.astype(str), np.ones((20, 1), np.float32))).batch(4)
        return compiled(model), {"x": pairs, **rest}
    raise KeyError(kind)


class Sparse(keras.Model):
    """Takes sparse and ragged tensors as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = kl.Dense(1)

    def train_step(self, batch: Any) -> Any:
        (rows, uneven), y = batch
        with tf.GradientTape() as tape:
            scale = tf.reduce_mean(tf.cast(uneven, tf.float32), axis=1)[:, None]
            dense = tf.ensure_shape(tf.sparse.to_dense(rows), [None, 3])
            loss = tf.reduce_mean((self.dense(dense) * scale - y) ** 2)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        return {"loss": loss}


def composite() -> Training:
    rows = tf.sparse.from_dense(np.round(numbers(16, 3)))
    uneven = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [1]] * 4)
    pairs = tf.data.Dataset.from_tensor_slices(((rows, uneven), np.ones((16, 1), np.float32)))
    return compiled(Sparse()), {"x": pairs.batch(4), "epochs": 2, "verbose": 0}


class Stopping(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            self.model.stop_training = True


class Rescaling(keras.callbacks.Callback):
    """Changes the weights and the learning rate, and replaces train_function."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.01 / (1 + batch)
        self.model.layers[0].kernel.assign(self.model.layers[0].kernel * 0.99)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.make_train_function(force=True)


def with_callbacks() -> Training:
    plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=0)
    stop = keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)
    validation = (numbers(8, 3), numbers(8, 1))
    model = stack(kl.Dropout(0.2))
    model.build((None, 3))
    return compiled(model, metrics=["mae"]), data(
        callbacks=[Rescaling(), plateau, stop], validation_data=validation, epochs=4
    )


def own_train_function() -> Training:
    class Owned(keras.Sequential):
        def make_train_function(self, force: bool = False) -> Any:
            def train(iterator: Any) -> Any:
                x, y = next(iterator)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((self(x) - y) ** 2)
                variables = self.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
                return {"loss": loss}

            self.train_function = train
            return train

    return compiled(Owned([kl.Dense(4, "tanh"), kl.Dense(1)])), data()


def recurrent() -> Training:
    model = keras.Sequential([keras.Input((4, 3), batch_size=8), kl.LSTM(3, stateful=True, dropout=0.2), kl.Dense(1)])
    return compiled(model), data(x=numbers(ROWS, 4, 3))


def drawing_initializers() -> Training:
    def drawn(shape: Any, dtype: Any = None) -> Any:
        return tf.random.normal(shape) + np.random.normal() + random.random()

    return compiled(keras.Sequential([kl.Dense(2, kernel_initializer=drawn), kl.Lambda(noisy), kl.Dense(1)])), data()


def noisy(x: Any) -> Any:
    return x + 0.1 * tf.random.normal(tf.shape(x))


def old_keras(*, eager: bool = False, steps: int = 1) -> Callable[[], Training]:
    def make() -> Training:
        tf_keras = pytest.importorskip("tf_keras")
        tf_keras.utils.set_random_seed(1)
        layers = tf_keras.layers
        model = tf_keras.Sequential(
            [layers.Dense(4, "tanh"), layers.Dropout(0.3), layers.BatchNormalization(), layers.Dense(1)]
        )
        model.compile("adam", "mse", run_eagerly=eager, steps_per_execution=steps)
        return model, data()

    return make


OPTIMIZERS = ("adam", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "lion", "adamw", "adafactor")

EAGER, TOGETHER = {"run_eagerly": True}, {"steps_per_execution": 3}

TRAININGS: dict[str, Callable[[], Training]] = {
    "plain": plain(),
    **{name: plain(name) for name in OPTIMIZERS},
    "averaging": lambda: plain(keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True, ema_momentum=0.9))(),
    "accumulating optimizer": lambda: plain(keras.optimizers.Adam(0.1, gradient_accumulation_steps=2))(),
    "clipping": lambda: plain(keras.optimizers.Adam(0.1, global_clipnorm=0.1, weight_decay=0.1))(),
    "parity": stepping(by_parity),
    "parity, eagerly": stepping(by_parity, options=EAGER),
    "parity, three at a time": stepping(by_parity, options=TOGETHER),
    "one loss or two": stepping(one_or_two),
    "parity in Python": stepping(by_python_parity),
    "parity in Python, eagerly": stepping(by_python_parity, options=EAGER),
    "a derivative now and then": stepping(every_third),
    "accumulated by hand": stepping(accumulated),
    "accumulated by hand, eagerly": stepping(accumulated, options=EAGER),
    "two models": stepping(gan_like),
    "two models, eagerly": stepping(gan_like, options=EAGER),
    "an inner loop": stepping(inner_loop),
    "a while_loop": stepping(while_loop),
    "updated by hand": stepping(by_hand),
    "no tape": stepping(without_tape),
    "an empty gradient": stepping(with_an_empty_gradient),
    "a function inside": stepping(inside_a_function),
    "random numbers": stepping(random_all_over),
    "random numbers, eagerly": stepping(random_all_over, options=EAGER),
    "random numbers of the host": stepping(random_on_the_host, options=EAGER),
    "a persistent tape": stepping(by_a_persistent_tape),
    "complex weights": stepping(complex_weights),
    "numpy_function": lambda: (compiled(stack(kl.Lambda(host_code)), jit_compile=False), data()),
    "py_function": lambda: (compiled(stack(kl.Lambda(host_function)), jit_compile=False), data()),
    "a layer with a state": lambda: (compiled(stack(Counting())), data()),
    "a layer with a state, eagerly": lambda: (compiled(stack(Counting()), **EAGER), data()),
    "dropout": lambda: (compiled(stack(kl.Dropout(0.5), kl.GaussianNoise(0.1))), data()),
    "dropout, three at a time": lambda: (compiled(stack(kl.Dropout(0.5)), **TOGETHER), data()),
    "dropout, eagerly": lambda: (compiled(stack(kl.Dropout(0.5)), **EAGER), data()),
    "batch normalization": lambda: (compiled(stack(kl.BatchNormalization())), data()),
    "batch normalization, by XLA": lambda: (compiled(stack(kl.BatchNormalization()), jit_compile=True), data()),
    "noise without a seed": lambda: (compiled(stack(kl.Lambda(noisy))), data()),
    "noise, one device": under(lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), lambda: kl.Lambda(noisy)),
    "noise, mirrored": under(lambda: tf.distribute.MirroredStrategy(["/cpu:0"]), lambda: kl.Lambda(noisy)),
    "one device": under(lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), lambda: kl.Dropout(0.3)),
    "one device, three at a time": under(lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), **TOGETHER),
    "mirrored": under(lambda: tf.distribute.MirroredStrategy(["/cpu:0"]), lambda: kl.Dropout(0.3)),
    "mirrored, three at a time": under(lambda: tf.distribute.MirroredStrategy(["/cpu:0"]), **TOGETHER),
    "mirrored, eagerly": under(lambda: tf.distribute.MirroredStrategy(["/cpu:0"]), **EAGER),
    "frozen layers": frozen,
    "all layers frozen": lambda: frozen(None),
    "mixed_float16": lambda: policy("mixed_float16"),
    "mixed_bfloat16": lambda: policy("mixed_bfloat16"),
    "float64": lambda: policy("float64"),
    **{
        kind: (lambda kind=kind: datasets(kind))  # type: ignore[misc]
        for kind in (
            *("uneven batches", "sample weights", "class weights", "a generator", "an unknown size", "shuffled anew"),
            *("a dict", "ragged", "texts"),
        )
    },
    "sparse and ragged tensors": composite,
    "stopped early": lambda: (compiled(stack()), data(callbacks=[Stopping()])),
    "beside callbacks": with_callbacks,
    "a train_function of its own": own_train_function,
    "a recurrent state": recurrent,
    "initializers that draw": drawing_initializers,
    "Keras 2": old_keras(),
    "Keras 2, eagerly": old_keras(eager=True),
    "Keras 2, three at a time": old_keras(steps=3),
}

SAYS = {
    "no tape": "takes no gradient of a loss",
    "all layers frozen": "takes no gradient of a loss",
    "a derivative now and then": "takes no gradient of a loss",
    "complex weights": "complex128; real variables were expected",
    "numpy_function": "went through NumPy",
}
"""The monitor's messages for some trainings; for the others there is none, and all that it checks agrees."""


def trained(make: Callable[[], Training], *callbacks: Any) -> tuple[list[Any], dict[str, list[float]], Any]:
    """The weights after a training, its history without the monitor's own numbers, and the model's counts."""
    keras.utils.set_random_seed(1)
    model, given = make()
    given["callbacks"] = [*given.get("callbacks", ()), *callbacks]
    history = model.fit(**given).history
    optimizer = [variable.numpy() for variable in model.optimizer.variables] if hasattr(model, "optimizer") else []
    drawn = [float(tf.random.normal([])), float(np.random.normal()), random.random()]
    counted: list[Any] = [(one.calls, one.seen) for one in [model] if isinstance(one, Stepping)]
    counted += [one.python for one in model.layers if isinstance(one, Counting)]
    values = [*(variable.numpy() for variable in model.variables), *optimizer, *drawn]
    return values, history, counted


@slices.parametrized(
    "name", TRAININGS, lambda _: ["one loss or two", "noise, mirrored", "a layer with a state, eagerly"]
)
def test_a_training_is_the_same_with_a_monitor(name: str) -> None:
    monitor = GradientMonitor(every=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watched, history, counted = trained(TRAININGS[name], monitor)
    errors, _ = (history.pop(own) for own in OWN)
    alone, plain_history, plain_counted = trained(TRAININGS[name])
    for one, other in zip(watched, alone, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_equal(history, plain_history)
    assert counted == plain_counted
    said = [str(one.message) for one in caught if issubclass(one.category, SAID)]
    if name in SAYS:
        (message,) = said
        assert SAYS[name] in message
    elif not name.startswith("mixed_"):
        assert said == []
        assert {check.verdict for check in monitor.checks} == {"agree"}
        assert not np.isnan(errors).all()
