"""The callback that watches a training: its findings, its messages, and that the training is unchanged."""

from __future__ import annotations

import re
import warnings
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl
from tensorflow.python.eager import context
from tensorflow.python.summary.tb_summary import TBNotInstalledError

import gradcheck
from gradcheck import GradientNonFinite, GradientWrongValue, InconclusiveWarning, MismatchWarning
from gradcheck.keras import GradientMonitor
from gradcheck.tracing.state import ChangedState, VariableSnapshot
from gradcheck.training.side_effects import PythonState
from gradcheck.training.spot_walk import MovedVariables, SpotWalk
from gradcheck.training.step_recorder import StepRecorder
from gradcheck.training.watched_step import WatchedStep
from tests import slices
from tests.datasets import untuned


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * 1.02


def dense(width: int = 8) -> Any:
    return keras.Sequential([kl.Dense(width, "relu"), kl.Dropout(0.3), kl.Dense(width, "tanh"), kl.Dense(1)])


def small(activation: Any = "tanh") -> Any:
    return keras.Sequential([kl.Dense(1, activation, use_bias=False)])


def convolutional() -> Any:
    return keras.Sequential(
        [
            kl.Reshape((2, 2, 1)),
            kl.Conv2D(3, 2, padding="same"),
            kl.BatchNormalization(),
            kl.GlobalAveragePooling2D(),
            kl.Dense(1),
        ]
    )


class TwoLosses(keras.Model):
    """Trains two halves with one tape each, the second with a penalty on its own gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = kl.Dense(1), kl.Dense(1)

    def call(self, x: Any) -> Any:
        return self.first(x) + self.second(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        for half in (self.first, self.second):
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    error = half(x) - y
                loss = tf.reduce_mean(error**2) + tf.reduce_mean(inner.gradient(error, x) ** 2)
            gradients = tape.gradient(loss, half.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, half.trainable_variables, strict=True))
        return {"loss": loss}


def batches(x: Any, y: Any, size: int = 8) -> Any:
    return untuned((x, y)).batch(size, drop_remainder=True)


def fitted(make: Any, *callbacks: Any, **options: Any) -> tuple[Any, dict[str, list[float]]]:
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 4)).astype(np.float32), rng.normal(size=(64, 1)).astype(np.float32)
    model = make()
    model.compile(keras.optimizers.SGD(1e-3), "mse", **options)
    model(x)
    model.optimizer.build(model.trainable_variables)
    return model, model.fit(batches(x, y), epochs=2, verbose=0, callbacks=list(callbacks)).history


@slices.parametrized(
    ("make", "options"),
    product((dense, convolutional, TwoLosses), ({}, {"steps_per_execution": 3}, {"run_eagerly": True})),
    slices.every(4),  # the diagonal
)
def test_a_training_is_the_same_with_a_monitor(make: Any, options: dict[str, Any]) -> None:
    monitor = GradientMonitor(every=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MismatchWarning)
        watched, history = fitted(make, monitor, **options)
    alone, plain = fitted(make, **options)
    for one, other in zip(watched.variables, alone.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert history["loss"] == plain["loss"]
    assert all(check.verdict == "agree" for check in monitor.checks)
    # The first of 16 batches and each fifth after it, or, where three run at a time, the calls that these are in.
    assert len(monitor.checks) == (2 if make is TwoLosses else 1) * 4
    assert np.less(history["gradient_error"], history["gradient_resolution"]).all()
    assert len(history["gradient_error"]) == 2


class Logged(keras.Model):
    """Reads a value that it computed, which no graph can do."""

    def __init__(self) -> None:
        super().__init__()
        self.all = keras.Sequential([kl.Dense(2, "tanh"), kl.Dense(1)])

    def call(self, x: Any) -> Any:
        result = self.all(x)
        self.last = float(tf.reduce_mean(result))
        return result


def test_a_model_that_runs_eagerly_alone_is_not_traced() -> None:
    monitor = GradientMonitor(every=16)
    fitted(Logged, monitor, run_eagerly=True)
    (check,) = monitor.checks
    assert check.verdict == "agree"


@pytest.mark.parametrize("activation", ["tanh", lambda x: x * np.nan])
def test_every_epoch_has_an_entry_which_is_nan_without_a_finite_check(activation: Any, tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MismatchWarning)
        monitor, logger = GradientMonitor(every=16), keras.callbacks.CSVLogger(str(table))
        _, history = fitted(lambda: small(activation), monitor, logger)
    told = [str(one.message) for one in caught if one.category is MismatchWarning]
    assert len(told) == (activation != "tanh")
    assert all(re.search(r"a constant in `.*lambda x: x \* np\.nan.*` .* holds nan", message) for message in told)
    assert len(monitor.checks) == 1
    for name in ("gradient_error", "gradient_resolution"):
        assert np.isfinite(history[name]).tolist() == [activation == "tanh", False]
        assert name in table.read_text().splitlines()[0]


def test_the_losses_along_a_line_take_no_gradient() -> None:
    backward = []

    @tf.custom_gradient
    def noting(x: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            backward.append(upstream)
            return upstream

        return x, gradient

    model, _ = fitted(lambda: small(noting))
    step, data = WatchedStep(model.train_step), (tf.ones([8, 4]), tf.ones([8, 1]))
    (sources,) = step.sources(data)
    walk = step.walk(data, 0, sources)
    backward.clear()
    line = tf.ones([sum(variable.shape.num_elements() for variable in walk.variables)], tf.float64)
    losses = walk.swept(line, np.array([0.0, 0.1]), ChangedState())
    assert len(set(losses)) == 2
    assert backward == []
    assert walk.gradient()[0] is not None
    assert len(backward) == 1


def test_a_wrong_gradient_is_told_once_with_its_cause() -> None:
    monitor = GradientMonitor(every=4)
    with pytest.warns(
        MismatchWarning, match="at batch 0 of the training the gradient differs from finite differences"
    ) as caught:
        fitted(lambda: small(scaled_slope), monitor)
    (told,) = [one for one in caught if one.category is MismatchWarning]
    assert "wrong custom gradient" in str(told.message)
    assert "test_gradient_monitor.py" in str(told.message)
    assert len(monitor.checks) == 4


@slices.parametrized("activation", ["tanh", scaled_slope], slices.every(2))
def test_a_model_with_an_embedding_is_watched(activation: Any) -> None:
    keras.utils.set_random_seed(1)
    words = np.random.default_rng(0).integers(0, 12, size=(32, 5))
    model = keras.Sequential([kl.Embedding(12, 2), kl.GlobalAveragePooling1D(), kl.Dense(2, activation), kl.Dense(1)])
    model.build((None, 5))
    model.compile("sgd", "mse")
    monitor = GradientMonitor(every=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MismatchWarning)
        model.fit(batches(words, np.ones((32, 1))), epochs=2, verbose=0, callbacks=[monitor])
    told = [str(one.message) for one in caught if one.category is MismatchWarning]
    assert len(monitor.checks) == 3
    if activation == "tanh":
        assert {check.verdict for check in monitor.checks} == {"agree"}
        assert told == []
    else:
        assert monitor.checks[0].verdict == "mismatch"
        (message,) = told
        assert "embeddings: a gradient of shape (12, 2)" in message
        assert "wrong custom gradient" in message


def test_or_raised() -> None:
    with pytest.raises(GradientWrongValue, match="wrong custom gradient"):
        fitted(lambda: small(scaled_slope), GradientMonitor(action="raise"))


def guarded(x: Any) -> Any:
    return tf.where(x > 0, tf.math.log(x), 0.0)


def test_a_gradient_that_is_not_finite_is_told_and_where_it_is_made() -> None:
    with pytest.warns(MismatchWarning, match="at batch 0 of the training the gradient is not finite") as caught:
        fitted(lambda: keras.Sequential([*small("relu").layers, kl.Activation(guarded)]), GradientMonitor())
    (told,) = [one for one in caught if one.category is MismatchWarning]
    assert "finite numbers turned into NaN or infinity" in str(told.message)
    assert "test_gradient_monitor.py" in str(told.message)


def spoilt(part: int) -> Any:
    """Data for `fit` with one NaN, among the inputs or the targets."""
    data = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
    data[part][0, 0] = np.nan
    return data


def compiled(model: Any) -> Any:
    model.compile("sgd", "mse")
    model.build((None, 4))
    return model


@pytest.mark.parametrize(("part", "size"), [(0, 32), (1, 8)])
def test_nan_in_the_batch_is_told(part: int, size: int) -> None:
    model, monitor = compiled(small()), GradientMonitor(action="raise")
    before = [variable.numpy() for variable in model.variables]
    with pytest.raises(GradientNonFinite, match="at batch 0 of the training the gradient is not finite") as caught:
        model.fit(*spoilt(part), verbose=0, callbacks=[monitor])
    assert f"the batch contains NaN or infinity: data[{part}] (1 of {size} numbers); leave such" in str(caught.value)
    (check,) = monitor.checks
    assert (check.verdict, check.finite) == ("inconclusive", False)
    assert check.result.orders[1].reasons == (gradcheck.Reason.NOT_FINITE,)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_nan_that_came_with_an_earlier_batch_is_told_of_the_weights() -> None:
    keras.utils.set_random_seed(1)
    model = compiled(dense(1))
    model.fit(*spoilt(0), verbose=0)
    rows = np.ones((8, 4), np.float32)
    with pytest.warns(MismatchWarning, match="the gradient is not finite") as caught:
        model.fit(batches(rows, rows[:, :1]), epochs=3, verbose=0, callbacks=[GradientMonitor(every=1)])
    (told,) = [str(one.message) for one in caught if one.category is MismatchWarning]
    path = model.layers[0].kernel.path
    assert f"{path}, " in told.splitlines()[1]
    assert "and 3 more hold NaN or infinity, from an earlier update or as loaded" in told
    assert "in the batch" not in told


def test_complex_weights_are_named() -> None:
    class Rotated(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.angle = tf.Variable([1.0 + 1.0j], name="angle")

        def call(self, x: Any) -> Any:
            return x

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.abs(self.angle) ** 2)
            self.angle.assign_sub(tape.gradient(loss, [self.angle])[0])
            return {"loss": loss}

    with pytest.warns(InconclusiveWarning, match="angle:0 has the dtype complex128; real variables were expected"):
        fitted(Rotated, GradientMonitor())


def test_a_summary_writer_needs_no_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def missing(name: str, *_: Any, **__: Any) -> None:
        told.append(name)
        raise TBNotInstalledError("tf.summary.scalar")

    monkeypatch.setattr(tf.summary, "scalar", missing)
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        _, history = fitted(small, GradientMonitor(every=8))
    assert told == ["gradient_error"] * 2
    assert max(history["gradient_error"]) < 1e-3


def test_the_graphs_of_many_trainings_are_no_retracing(caplog: pytest.LogCaptureFixture) -> None:
    model, _ = fitted(small)
    rows = np.zeros((8, 4), np.float32)
    data = batches(rows, rows[:, :1])
    tf.get_logger().addHandler(caplog.handler)
    try:
        for _ in range(6):
            model.fit(data, verbose=0, callbacks=[GradientMonitor()])
    finally:
        tf.get_logger().removeHandler(caplog.handler)
    assert "retracing" not in caplog.text


def stopped(x: Any) -> Any:
    return tf.stop_gradient(x) * x


def test_a_missing_gradient_is_told() -> None:
    with pytest.warns(MismatchWarning, match="stop_gradient"):
        fitted(lambda: small(stopped), GradientMonitor())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "every was 0; a number of batches, at least 1, was expected"),
        ({"action": "stop"}, "action was 'stop'; expected one of 'warn', 'raise'"),
        ({"directions": 0}, "directions was 0; an integer of at least 1 was expected"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GradientMonitor(**arguments)


def test_a_model_without_a_tape_is_told() -> None:
    class Constant(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.add_weight(shape=(1,), initializer="zeros")

        def call(self, x: Any) -> Any:
            return x[:, :1] + self.weight

        def train_step(self, data: Any) -> dict[str, Any]:
            return {"loss": tf.reduce_mean(self(data[0]))}

    with pytest.warns(InconclusiveWarning, match=r"no gradient of a loss with respect to variables with a tf\.Grad"):
        fitted(Constant, GradientMonitor(action="raise"))


def failing(kind: type[BaseException] = ZeroDivisionError, times: int = 99) -> Any:
    """A stand-in for a function, which raises `times` times and counts its calls."""

    def fail(*_: Any, **__: Any) -> Any:
        fail.calls += 1  # type: ignore[attr-defined]
        if fail.calls <= times:  # type: ignore[attr-defined]
            raise kind("planted")

    fail.calls = 0  # type: ignore[attr-defined]
    return fail


class Trained:
    """A model whose training is repeated from the same start, with callbacks or without."""

    def __init__(self, activation: Any = "tanh") -> None:
        keras.utils.set_random_seed(1)
        self.model = compiled(keras.Sequential([kl.Dense(2, activation), kl.BatchNormalization(), kl.Dense(1)]))
        self.start = self.model.get_weights()
        rows = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
        self.data = batches(rows, rows[:, :1], 4)
        self.model.make_train_function()
        self.function = self.model.train_function
        self.alone, _, _ = self.weights()

    def weights(self, *callbacks: Any) -> tuple[list[Any], dict[str, list[float]], list[str]]:
        """The weights after a training, the history, and the warnings about gradients."""
        keras.utils.set_random_seed(1)
        self.model.set_weights(self.start)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InconclusiveWarning)
            history = self.model.fit(self.data, verbose=0, callbacks=list(callbacks)).history
        assert self.model.train_function is self.function
        said = [str(one.message) for one in caught if one.category is InconclusiveWarning]
        return self.model.get_weights(), history, said

    def assert_same(self, weights: list[Any]) -> None:
        for one, other in zip(weights, self.alone, strict=True):
            np.testing.assert_array_equal(one, other)


FAULTS = [
    (gradcheck.keras, "WatchedStep"),
    (gradcheck.keras, "_beginning_with"),
    (GradientMonitor, "_replace_train_function"),
    (GradientMonitor, "_check"),
    (WatchedStep, "checks"),
    (WatchedStep, "sources"),
    (WatchedStep, "walk"),
    (WatchedStep, "_gradients"),
    (StepRecorder, "without_updates"),
    (SpotWalk, "_compared"),
    (VariableSnapshot, "changed"),
    (MovedVariables, "leave"),
    (PythonState, "restore"),
]


def test_whatever_fails_in_a_check_the_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained()
    for owner, name in FAULTS:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing())
            weights, history, said = trained.weights(GradientMonitor(every=6, action="raise"))
        trained.assert_same(weights)
        (message,) = said
        assert "GradientMonitor could not compare the gradient at batch 0 of the training: ZeroDiv" in message, name
        assert "planted (raised in " in message
        assert np.isnan([*history["gradient_error"], *history["gradient_resolution"]]).all()


def test_what_fails_is_tried_again_three_times_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained()
    for times, calls in ((99, 3), (2, 6)):
        fault, monitor = failing(times=times), GradientMonitor(every=1)
        monkeypatch.setattr(monitor, "_check", fault)
        weights, _, said = trained.weights(monitor)
        trained.assert_same(weights)
        assert fault.calls == calls
        assert len(said) == 1


def test_a_check_without_its_explanation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(stopped)
    monkeypatch.setattr(gradcheck.keras, "explain", failing())
    weights, history, said = trained.weights(GradientMonitor())
    trained.assert_same(weights)
    assert len(said) == 1
    assert history["gradient_error"][0] > history["gradient_resolution"][0]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_check_leaves_all_as_it_was(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained()
    monkeypatch.setattr(MovedVariables, "leave", failing(kind))
    with pytest.raises(kind, match="planted"):
        trained.weights(GradientMonitor())
    assert trained.model.train_function is trained.function
    for one, other in zip(trained.model.get_weights(), trained.start, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_training_that_takes_another_train_function_is_told() -> None:
    class Replacing(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.train_function = trained.function

    trained = Trained()
    weights, _, said = trained.weights(GradientMonitor(), Replacing())
    trained.assert_same(weights)
    assert "the training does not call model.train_function" in "".join(said)


def test_warnings_that_are_errors_end_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(stopped)
    told = SimpleNamespace(verdict=gradcheck.Verdict.MISMATCH, sources=[])
    monkeypatch.setattr(gradcheck.keras, "explain", lambda *_: told)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MismatchWarning)
        with pytest.raises(MismatchWarning, match="the gradient differs from finite differences"):
            trained.weights(GradientMonitor())
    assert trained.model.train_function is trained.function


def test_replicas_are_told() -> None:
    monitor = GradientMonitor()
    monitor.set_model(SimpleNamespace(distribute_strategy=SimpleNamespace(num_replicas_in_sync=2)))
    with pytest.warns(InconclusiveWarning, match="the model is trained on 2 replicas, but a check sees the gradient"):
        monitor.on_train_begin()
    monitor.on_train_batch_begin(0)
    monitor.on_train_batch_end(0)


def test_a_training_that_ends_before_a_check_is_told() -> None:
    model = small()
    model.compile("sgd", "mse")
    with pytest.warns(InconclusiveWarning, match="the only batches were those that created the weights; build"):
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[GradientMonitor()])


def test_random_operations_without_a_seed_are_held_fixed() -> None:
    def noisy(x: Any) -> Any:
        return tf.nn.dropout(x + tf.random.normal(tf.shape(x)), 0.2) * tf.random.truncated_normal([])

    before = context.global_seed()
    try:
        tf.random.set_seed(None)  # Keras' own seeds come from elsewhere
        model, monitor = compiled(keras.Sequential([kl.Dense(3, noisy), kl.Dense(1)])), GradientMonitor(every=2)
        data = batches(np.ones((8, 4)), np.ones((8, 1)), 2)
        history = model.fit(data, verbose=0, callbacks=[monitor]).history
    finally:
        tf.random.set_seed(before)
    assert [check.verdict for check in monitor.checks] == ["agree", "agree"]
    assert history["gradient_error"][0] < history["gradient_resolution"][0] < 0.05


def test_it_is_found_under_its_name() -> None:
    assert gradcheck.keras.GradientMonitor is GradientMonitor
