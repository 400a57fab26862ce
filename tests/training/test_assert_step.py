"""Whole training steps: correct ones pass, planted faults are found and named, clipping and averaging are noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import cycle, product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import GradientMissing, GradientPartial, GradientWrongUpdate, GradientWrongValue, assert_step
from tests import slices
from tests.training.conftest import FORMS

Step = Callable[..., Any]
AFTERWARDS = "changed after it was taken: "


def in_turn(name: str, cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Each case in both forms of a step; in the test command each in one form, alternating."""
    cases = list(cases)
    return slices.parametrized(
        (name, "traced"), product(cases, FORMS), lambda _: zip(cases, cycle(FORMS)), indirect=["traced"]
    )


def failure_message(error: type[AssertionError], step: Step, **arguments: Any) -> str:
    """The message of the one expected error, without its summary and the sizes of its error bounds."""
    with pytest.raises(error) as caught:
        assert_step(step, **arguments)
    assert type(caught.value) is error
    return re.sub(r"(error at most|allowed) [-+.e\d]+", r"\1 ...", str(caught.value).partition("\n\norder 1:")[0])


def notes(step: Step, *inputs: Any, **arguments: Any) -> tuple[str, ...]:
    result = assert_step(step, *inputs, **arguments)
    assert result.verdict == "agree"
    return result.orders[1].notes


def test_a_right_step_agrees(training: Any, traced: Any, x: tf.Variable, y: tf.Variable, optimizer: Any) -> None:
    result = assert_step(traced(training()))
    assert str(result).splitlines()[:2] == ["gradcheck: agree", "order 1: agree (3 compared, 0 inconclusive)"]
    assert result.orders[1].notes == ()
    assert (float(x), y.numpy().tolist(), int(optimizer.iterations)) == (3.0, [1.0, 2.0], 0)


def test_a_variable_may_be_listed_twice(training: Any, x: tf.Variable, y: tf.Variable) -> None:
    assert assert_step(training(), variables=[x, y, x]).orders[1].compared == 3

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        return loss, tape.gradient(loss, [x, x])

    assert assert_step(step, variables=[x, x]).orders[1].compared == 1


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.1, weight_decay=0.01),
    "schedule": lambda: keras.optimizers.RMSprop(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)),
    "averages": lambda: keras.optimizers.Lion(0.1, use_ema=True),
    "v1": lambda: tf.compat.v1.train.AdagradOptimizer(0.1),
    "v1 momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
}


@in_turn("name", OPTIMIZERS)
def test_optimizers(name: str, traced: Any, x: tf.Variable) -> None:
    optimizer, z = OPTIMIZERS[name](), tf.Variable([2.0], name="z", dtype=tf.float64)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(z**3)
        optimizer.apply_gradients(zip(tape.gradient(loss, [x, z]), [x, z], strict=True))
        return loss, "anything"

    run = traced(step)
    assert notes(run) == ()
    run()
    assert notes(run) == ()


def test_apply_and_minimize(x: tf.Variable) -> None:
    optimizer, old = keras.optimizers.SGD(0.1), tf.compat.v1.train.GradientDescentOptimizer(0.1)
    optimizer.build([x])

    def applied() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        optimizer.apply([tape.gradient(loss, x)])
        return loss

    def minimized() -> Any:
        old.minimize(lambda: x**2, var_list=[x])
        return x**2

    assert notes(applied) == ()
    with pytest.raises(GradientWrongValue, match=r"given        6\n    estimate     3\.8399"):
        assert_step(minimized)  # the loss that it returns is that after the update, at 0.8 x


def test_gradients_that_are_returned(x: tf.Variable, y: tf.Variable, traced: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        return loss, tape.gradient(loss, [x, y])

    assert notes(traced(step)) == ()
    assert notes(traced(step), variables=[x, y]) == ()
    assert notes(lambda: (float(x) ** 2, 2 * float(x)), variables=[x]) == ()


def test_frozen_layers_are_named() -> None:
    base = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)], name="base")
    base.trainable = False
    model = keras.Sequential([keras.Input((2,)), base, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    batch = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    for result in (assert_step(model.train_step, batch), gradcheck.explain(model.train_step, batch)):
        assert [note for note in result.orders[1].notes if note.startswith("frozen: base; ")]


def test_what_is_not_decided_names_explain() -> None:
    weight = tf.Variable(1.0)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = weight * tf.cast(weight >= 1.0, tf.float32)
        return loss, [tape.gradient(loss, weight)]

    result = assert_step(step, inconclusive="ignore")
    assert result.verdict == "inconclusive"
    assert result.orders[1].notes[-1].startswith("gradcheck.explain, which takes the same arguments")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scalars_in_16_bits(dtype: str) -> None:
    """NumPy refuses a scalar tensor in bfloat16."""
    weight, optimizer = tf.Variable(tf.constant(1.5, dtype)), keras.optimizers.SGD(0.1, clipvalue=1.0)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = weight * weight
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    assert "SGD clips by value to 1 (the largest was 3)" in str(assert_step(step))


def test_sparse_gradients() -> None:
    table = tf.Variable(np.arange(4.0).reshape(4, 1) + 1)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) ** 3)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        return loss

    rows = tf.constant([1, 3, 1])
    assert notes(step, rows) == ()
    assert notes(tf.function(step), rows) == ()


@slices.parametrized("traced", FORMS, lambda _: ["tf.function"], indirect=True)
def test_a_keras_model(traced: Any) -> None:
    keras.utils.set_random_seed(2)
    layers = [keras.layers.Dense(1, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    model = keras.Sequential([keras.layers.Input((2,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01, global_clipnorm=1e-3), "mse", metrics=["mae"])
    batch = np.random.default_rng(1).normal(size=(6, 2)).astype("f4"), np.ones((6, 1), "f4")
    model.fit(*batch, epochs=2, verbose=0)
    held = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    before = [variable.numpy() for variable in held]

    data, last = tuple(map(tf.constant, batch)), model.layers[-1].trainable_variables
    result = assert_step(traced(model.train_step), data, variables=last, rtol=1e-2, atol=1e-2)
    assert (result.verdict, result.orders[1].compared) == ("agree", 2)
    (note,) = [note for note in result.orders[1].notes if note.startswith(AFTERWARDS)]
    assert note.startswith(f"{AFTERWARDS}Adam clips to the global norm 0.001 (the largest was ")
    for variable, value in zip(held, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


SCALING = {
    "dynamic": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
    "static": lambda: keras.optimizers.SGD(0.1, loss_scale_factor=8.0),
}


def scaled_step(optimizer: Any, weight: tf.Variable) -> Step:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = weight**2
            scaled = optimizer.scale_loss(loss)
        optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])
        return loss

    return step


@pytest.mark.parametrize("make", SCALING.values(), ids=SCALING)
def test_scaled_losses(make: Callable[[], Any]) -> None:
    step = scaled_step(make(), tf.Variable(3.0))
    assert notes(step) == ()
    assert notes(tf.function(step)) == ()


@pytest.mark.parametrize("option", ["clipvalue", "clipnorm", "global_clipnorm"])
@pytest.mark.parametrize(("limit", "clipped"), [(5.0, False), (0.5, True)])
def test_what_is_clipped_is_the_gradient_of_the_loss_before_it_was_scaled(
    option: str, limit: float, clipped: bool
) -> None:
    weight = tf.Variable(0.5)
    step = scaled_step(keras.optimizers.SGD(0.1, loss_scale_factor=8.0, **{option: limit}), weight)
    found = notes(step)
    assert len(found) == clipped
    assert all(f"{limit:g} (the largest was 1)" in note for note in found)
    step()
    assert float(weight) == pytest.approx(0.5 - 0.1 * min(limit, 1.0))


# What a step may do to its gradients (C6).

CLIPS = {
    "value": (
        lambda gradients: [tf.clip_by_value(gradient, -5.0, 5.0) for gradient in gradients],
        "clipped by value to at most 5",
    ),
    "norm": (
        lambda gradients: [tf.clip_by_norm(gradient, 2.0) for gradient in gradients],
        "clipped to the norm 2 for each variable (the longest was 12.3693)",
    ),
    "global norm": (
        lambda gradients: tf.clip_by_global_norm(gradients, 1.0)[0],
        "clipped to the global norm 1 (it was 13.7477)",
    ),
    "global norm by hand": (
        lambda gradients: [gradient / tf.linalg.global_norm(gradients) for gradient in gradients],
        "clipped to the global norm 1 (it was 13.7477)",
    ),
}


@in_turn("name", CLIPS)
def test_c6_clipped_before_the_optimizer(training: Any, traced: Any, name: str) -> None:
    clip, note = CLIPS[name]
    assert notes(traced(training(clip))) == (AFTERWARDS + note,)


OWN = {
    "clipvalue": "SGD clips by value to 5 (the largest was 12), its clipvalue",
    "clipnorm": "SGD clips the gradient of each variable to the norm 5 (the largest was 12.3693), its clipnorm",
    "global_clipnorm": "SGD clips to the global norm 5 (the largest was 13.7477), its global_clipnorm",
}


@pytest.mark.parametrize(("option", "note"), OWN.items(), ids=OWN)
@pytest.mark.parametrize("optimizer", [None])
def test_c6_clipped_by_the_optimizer(x: tf.Variable, y: tf.Variable, optimizer: Any, option: str, note: str) -> None:
    optimizer = keras.optimizers.SGD(0.1, **{option: 5.0})

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        optimizer.apply_gradients(zip(tape.gradient(loss, [x, y]), [x, y], strict=True))
        return loss

    assert notes(step) == (AFTERWARDS + note,)


def test_c6_clipped_between_what_is_returned_and_a_move_by_hand(x: tf.Variable, y: tf.Variable) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        gradients = tape.gradient(loss, [x, y])
        for variable, gradient in zip([x, y], tf.clip_by_global_norm(gradients, 1.0)[0], strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss, gradients

    assert notes(step, learning_rate=0.1) == (f"{AFTERWARDS}clipped to the global norm 1 (it was 13.7477)",)


def test_a_clipped_gradient_that_was_wrong_before_is_wrong(x: tf.Variable, y: tf.Variable, optimizer: Any) -> None:
    def step() -> Any:
        square = x**2
        with tf.GradientTape() as tape:
            loss = square + 0 * x + tf.reduce_sum(y**3)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, [x, y]), 1.0)
        optimizer.apply_gradients(zip(gradients, [x, y], strict=True))
        return loss

    message = failure_message(GradientPartial, step)
    assert "partial: the derivative with respect to variables[0] (x:0)" in message
    assert "given        0\n    estimate     6 " in message


def test_averaged_over_samples(x: tf.Variable, optimizer: Any) -> None:
    def step(batch: Any) -> Any:
        losses, gradients = [], []
        for sample in batch:
            with tf.GradientTape() as tape:
                loss = (x - sample) ** 3
            losses.append(loss)
            gradients.append(tape.gradient(loss, x))
        optimizer.apply_gradients([(tf.add_n(gradients) / len(gradients), x)])
        return tf.add_n(losses)

    batch = tf.constant([1.0, 4.0, 7.0], tf.float64)
    assert notes(step, batch) == (f"{AFTERWARDS}averaged over the 3 samples of inputs[0]",)
    assert notes(lambda: step(batch)) == (f"{AFTERWARDS}averaged over 3 gradients",)


def test_averaged_over_steps_by_the_optimizer(x: tf.Variable) -> None:
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        optimizer.apply_gradients([(tape.gradient(loss, x), x)])
        return loss

    note = f"{AFTERWARDS}SGD averages over 2 steps, its gradient_accumulation_steps"
    assert notes(step) == (note,)
    step()
    assert notes(step) == (note,)


# Planted faults.


def test_a_wrong_sign(training: Any, traced: Any) -> None:
    evidence = (
        "    cause        changed after it was taken\n"
        "    evidence     the step's tape gave {0}, the optimizer got -{0}; all gradients were multiplied by "
        "-1: the sign is wrong\n"
        "    remedy       use the tape's gradient unchanged; to clip, use tf.clip_by_value, tf.clip_by_norm or "
        "tf.clip_by_global_norm"
    )
    assert failure_message(
        GradientWrongValue, traced(training(lambda gradients: [-gradient for gradient in gradients]))
    ) == (
        "the gradient of step is wrong\n"
        "\n"
        "  order 1, wrong value: the derivative with respect to variables[0] (x:0)\n"
        "    given        -6\n"
        "    estimate     6   (error at most ...)\n"
        "    off by       12   (allowed ...)\n"
        f"{evidence.format(6)}\n"
        "  order 1, wrong value: the derivative with respect to variables[1] (y:0)[1]\n"
        "    given        -12\n"
        "    estimate     12   (error at most ...)\n"
        "    off by       24   (allowed ...)\n"
        f"{evidence.format(12)}"
    )


def test_the_rate_applied_twice(training: Any) -> None:
    message = failure_message(
        GradientWrongValue, training(lambda gradients: [0.1 * gradient for gradient in gradients])
    )
    assert (
        "the step's tape gave 6, the optimizer got 0.6; all gradients were multiplied by 0.1, the learning "
        "rate, which the optimizer applies, too" in message
    )


def test_scaled_by_the_batch(x: tf.Variable, optimizer: Any) -> None:
    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x - batch) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, x) * len(batch), x)])
        return loss

    with pytest.raises(GradientWrongValue) as caught:
        assert_step(step, tf.constant([1.0, 4.0, 2.0], tf.float64))
    assert "all gradients were multiplied by 3, as many as the 3 samples of inputs[0]" in str(caught.value)


def test_a_forgotten_variable(training: Any, traced: Any, x: tf.Variable) -> None:
    message = failure_message(GradientMissing, traced(training(sources=[x])))
    assert "missing: the derivative with respect to variables[1] (y:0)[1]\n    given        None" in message
    assert "the step never asks its tape for this gradient" in message


def test_a_gradient_that_is_not_handed_over(x: tf.Variable, y: tf.Variable, optimizer: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        gradient, _ = tape.gradient(loss, [x, y])
        optimizer.apply_gradients([(gradient, x)])
        return loss

    assert "the step's tape gave 12, the optimizer got None" in failure_message(GradientMissing, step)


def test_gradients_in_the_wrong_order(x: tf.Variable, optimizer: Any) -> None:
    z = tf.Variable(2.0, name="z", dtype=tf.float64)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + z**3
        optimizer.apply_gradients(zip(tape.gradient(loss, [z, x]), [x, z], strict=True))
        return loss

    message = failure_message(GradientWrongValue, step)
    assert "the step's tape gave 6, the optimizer got 12" in message
    assert "the step's tape gave 12, the optimizer got 6" in message


def test_a3_inside_a_step(x: tf.Variable, y: tf.Variable, optimizer: Any, traced: Any) -> None:
    def step() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            s = s + 0 * x
            loss = s + tf.reduce_sum(y**3)
        optimizer.apply_gradients(zip(tape.gradient(loss, [x, y]), [x, y], strict=True))
        return loss

    message = failure_message(GradientPartial, traced(step))
    assert "partial: the derivative with respect to variables[0] (x:0)\n    given        0\n" in message
    assert "6" in message.partition("off by")[2]


LOST = {
    "nothing else": lambda gradient: gradient,
    "a clip by value": lambda gradient: tf.clip_by_value(gradient, -5.0, 5.0),
    "a clip by norm": lambda gradient: tf.clip_by_norm(gradient, 5.0),
}


@in_turn("clip", LOST)
def test_a3_of_all_that_a_step_computes(y: tf.Variable, optimizer: Any, traced: Any, clip: str) -> None:
    def step() -> Any:
        square = y**2
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(square + 0 * y)
        optimizer.apply_gradients([(LOST[clip](tape.gradient(loss, y)), y)])
        return loss

    message = failure_message(GradientPartial, traced(step))
    assert "given        0\n    estimate     4 " in message
    assert "cause        computed outside the tape" in message


def test_zeros_that_numpy_leaves(y: tf.Variable, optimizer: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.constant(np.sum(y.numpy() ** 2))
        optimizer.apply_gradients([(tape.gradient(loss, y, unconnected_gradients="zero"), y)])
        return loss

    assert "given        0\n    estimate     4 " in failure_message(GradientWrongValue, step)


def test_zeros_that_are_made_of_small_gradients(y: tf.Variable, optimizer: Any, traced: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((0.1 * y) ** 2)
        whole = tf.cast(tf.cast(tape.gradient(loss, y), tf.int32), y.dtype)
        optimizer.apply_gradients([(whole, y)])
        return loss

    message = failure_message(GradientWrongValue, traced(step))
    assert "the step's tape gave 0.04, the optimizer got 0\n" in message


def test_a_clip_at_zero_that_is_meant(y: tf.Variable, optimizer: Any, traced: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = y[0] ** 2 - y[1] ** 2
        optimizer.apply_gradients([(tf.clip_by_value(tape.gradient(loss, y), 0, 9), y)])
        return loss

    assert notes(traced(step)) == (f"{AFTERWARDS}clipped by value to at least 0",)


# Values that a variable holds temporarily.


def test_gradients_that_a_variable_accumulates(y: tf.Variable, optimizer: Any, traced: Any) -> None:
    sums = tf.Variable([7.0, 7.0], dtype=tf.float64, trainable=False)
    optimizer.build([y])

    def step(batch: Any) -> Any:
        sums.assign(tf.zeros_like(sums))
        total = tf.constant(0.0, tf.float64)
        for part in tf.split(batch, 2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((part * y) ** 2)
            sums.assign_add(tape.gradient(loss, y))
            total += loss
        optimizer.apply_gradients([(sums, y)])
        sums.assign([5.0, 5.0])
        return total

    batch = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64)
    assert notes(traced(step), batch) == ()
    assert sums.numpy().tolist() == [7.0, 7.0]


RETURNED = {
    "gradients": lambda loss, gradients, metric: (loss, [gradients]),
    "a loss": lambda loss, gradients, metric: (loss, gradients),
    "a metric": lambda loss, gradients, metric: (metric, gradients),
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_variables_and_metrics_that_a_step_returns(y: tf.Variable, returned: Any) -> None:
    held = [tf.Variable(start, dtype=tf.float64, trainable=False) for start in (0.0, [0.0, 0.0])]
    metric = keras.metrics.Mean(dtype="float64")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(y**2)
        held[0].assign(loss)
        held[1].assign(tape.gradient(loss, y))
        metric.reset_state()
        metric.update_state(loss)
        return returned(*held, metric)

    assert notes(step, variables=[y]) == ()


def test_a_move_beside_the_optimizer(training: Any, x: tf.Variable) -> None:
    inner = training()

    def step() -> Any:
        loss = inner()
        x.assign_sub(0.1 * 6.0)
        return loss

    assert failure_message(GradientWrongUpdate, step) == (
        "the update of step is wrong\n"
        "\n"
        "  wrong update: the move of variables[0] (x:0)\n"
        "    the step moves it by -1.200000009; SGD, given the same gradients in the same state, moves it by "
        "-0.6000000089; that is 2 times as much"
    )


@pytest.fixture
def by_hand(x: tf.Variable, y: tf.Variable) -> Callable[..., Step]:
    """A step that moves x and y by hand, by these multiples of their gradients."""

    def make(*rates: float) -> Step:
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = x**2 + tf.reduce_sum(y**3)
            gradients = tape.gradient(loss, [x, y])
            for rate, variable, gradient in zip(rates, [x, y], gradients, strict=False):
                variable.assign_add(rate * gradient)
            return loss, gradients

        return step

    return make


def test_moves_by_hand(by_hand: Any, traced: Any) -> None:
    note = "each variable moves by -0.1 times its gradient"
    assert notes(traced(by_hand(-0.1, -0.1))) == (note,)
    assert notes(traced(by_hand(-0.1, -0.1)), learning_rate=0.1) == (note,)
    assert notes(by_hand(-0.1, -0.2)) == ("each variable moves by -0.1 or 0.2 times its gradient",)


def test_uphill(by_hand: Any) -> None:
    assert "moves it by 0.6; that is along its gradient, uphill" in failure_message(
        GradientWrongUpdate, by_hand(0.1, -0.1)
    )


def test_a_variable_that_is_not_moved(by_hand: Any) -> None:
    message = failure_message(GradientWrongUpdate, by_hand(-0.1))
    assert "variables[1] (y:0)[0]\n    the step moves it by 0; the step moves other variables" in message


def test_another_rate_than_the_one_given(by_hand: Any) -> None:
    message = failure_message(GradientWrongUpdate, by_hand(-0.1, -0.01), learning_rate=0.1)
    assert "variables[1] (y:0)[1]\n    the step moves it by -0.12; -learning_rate times its gradient is -1.2" in message
    assert message.endswith("(learning_rate=0.1); that is 0.1 times as much")


def test_a_move_that_is_forgotten(by_hand: Any, traced: Any) -> None:
    assert notes(by_hand()) == ()
    message = failure_message(GradientWrongUpdate, traced(by_hand()), learning_rate=0.1)
    assert "variables[0] (x:0)\n    the step moves it by 0; -learning_rate times its gradient is -0.6" in message
    assert "variables[1] (y:0)[1]\n    the step moves it by 0; -learning_rate times its gradient is -1.2" in message
    message = failure_message(GradientWrongUpdate, by_hand(-0.1), learning_rate=0.1)
    assert "variables[0]" not in message
    assert "variables[1] (y:0)[1]\n    the step moves it by 0; " in message


def test_no_move_is_right_where_the_gradient_is_zero(x: tf.Variable) -> None:
    flat = tf.Variable([0.0, 0.0], name="flat", dtype=tf.float64)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(flat**2)
        gradients = tape.gradient(loss, [x, flat])
        x.assign_sub(0.1 * gradients[0])
        return loss, gradients

    assert notes(step, learning_rate=0.1) == ("each variable moves by -0.1 times its gradient",)


def test_a_complex_variable_without_a_gradient_at_a_rate_given(x: tf.Variable) -> None:
    z = tf.Variable(np.array([1 + 2j, 3j]), name="z")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        gradient = tape.gradient(loss, x)
        x.assign_sub(0.1 * gradient)
        return loss + 0 * tf.math.real(tf.reduce_sum(z)), [gradient, None]

    with pytest.warns(gradcheck.UnconnectedWarning, match="z is unconnected"):
        *_, moves = notes(step, variables=[x, z], learning_rate=0.1)
    assert moves == "each variable moves by -0.1 times its gradient"


def test_momentum_by_hand_is_not_checked(x: tf.Variable, y: tf.Variable) -> None:
    velocity = tf.Variable([0.5, -0.25], dtype=tf.float64, trainable=False)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(y**3)
        gradient = tape.gradient(loss, y)
        velocity.assign(0.9 * velocity + gradient)
        y.assign_sub(0.1 * velocity)
        return loss, [gradient]

    (note,) = notes(step)
    assert note.startswith("the update is not proportional to the gradients (momentum?), and was not checked")


def test_a_rate_for_a_step_with_an_optimizer(training: Any) -> None:
    with pytest.raises(ValueError, match="learning_rate= is for steps that move the variables by hand"):
        assert_step(training(), learning_rate=0.1)


def test_variables_that_do_not_matter_are_left_out(x: tf.Variable) -> None:
    idle = tf.Variable(1.0, name="idle")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.cast(tf.stop_gradient(idle) > 5.0, tf.float64)
        return loss, [tape.gradient(loss, x)]

    assert assert_step(step, variables=[x]).orders[1].compared == 1


@in_turn("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_of_those_whose_gradient_is_returned_as_none_a_warning_says_that_they_are_unconnected(
    x: tf.Variable, y: tf.Variable, traced: Any, order: tuple[int, ...]
) -> None:
    unused = tf.Variable([5.0, 6.0], name="unused", dtype=tf.float64)
    sources = [(x, unused, y)[place] for place in order]

    def step(factor: float = 1.0) -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        gradients = tape.gradient(loss, sources)
        return loss, [gradient if gradient is None else factor * gradient for gradient in gradients]

    with pytest.warns(gradcheck.UnconnectedWarning, match="unused is unconnected"):
        result = assert_step(traced(step))
    assert (result.verdict, result.orders[1].compared, result.unconnected) == ("agree", 3, ("unused",))
    assert unused.numpy().tolist() == [5.0, 6.0]
    message = failure_message(GradientWrongValue, lambda: step(2.0))
    assert "(x:0)\n    given        12\n    estimate     6 " in message
    assert "(y:0)[1]\n    given        24\n    estimate     12 " in message


def test_what_is_no_step(x: tf.Variable) -> None:
    with pytest.raises(TypeError, match=r"step is of type int, a callable was expected: gradcheck.assert_step\(step"):
        assert_step(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"step gave no gradients: it returned a tensor of shape \(\); return \(loss"):
        assert_step(lambda: x**2)
    with pytest.raises(TypeError, match=r"a loss that takes no gradient is for gradcheck\.assert_close\(lambda: loss"):
        assert_step(lambda: x**2)
    with pytest.raises(TypeError, match="step returned None, and its tapes differentiated 0 losses"):
        assert_step(lambda: None, variables=[x])
    with pytest.raises(TypeError, match="step returned a loss of dtype string, a floating number was expected"):
        assert_step(lambda: ("loss", [x]), variables=[x])
    with pytest.raises(TypeError, match=r"variables holds float; tf.Variables were expected"):
        assert_step(lambda: x**2, variables=[1.0])
    with pytest.raises(ValueError, match="the step uses no trainable floating variable"):
        assert_step(lambda: (1.0, []))
    with pytest.raises(RuntimeError, match="step raised ZeroDivisionError: division by zero; it has to run before"):
        assert_step(lambda: 1 / 0, variables=[x])
    with pytest.raises(ValueError, match="inconclusive was 'often'"):
        assert_step(lambda: x**2, inconclusive="often")
    with pytest.raises(gradcheck.GradientInconclusive):
        assert_step(lambda: (tf.sqrt(x - 3.0), [x]), variables=[x], inconclusive="raise")


def test_a_gradient_that_is_handed_to_a_variable_that_the_loss_does_not_use(x: tf.Variable, optimizer: Any) -> None:
    target = tf.Variable(1.0, name="target", dtype=tf.float64)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        optimizer.apply_gradients([(tape.gradient(loss, x), target)])
        return loss

    message = failure_message(GradientMissing, step)
    assert "(target:0)\n    given        6\n    estimate     0 " in message
    assert "the step's tape gave 6, the optimizer got None" in message


def test_a_learning_rate_that_the_step_sets(x: tf.Variable, optimizer: Any, traced: Any) -> None:
    optimizer.build([x])

    def step() -> Any:
        optimizer.learning_rate.assign(0.01 * (tf.cast(optimizer.iterations.value, "float32") + 1.0))
        with tf.GradientTape() as tape:
            loss = x**2
        optimizer.apply_gradients([(tape.gradient(loss, x), x)])
        return loss

    assert notes(traced(step)) == ()
    assert float(optimizer.learning_rate) == pytest.approx(0.1)
    with pytest.raises(GradientWrongUpdate):
        assert_step(lambda: (step(), x.assign_add(0.1))[0])


def test_metrics_of_the_shapes_of_gradients(x: tf.Variable, optimizer: Any, traced: Any) -> None:
    z = tf.Variable(2.0, name="z", dtype=tf.float64)
    optimizer.build([x, z])

    def step(returned: Callable[[list[Any]], Any]) -> Any:
        with tf.GradientTape() as tape:
            loss = x**2 + z**3
        gradients = tape.gradient(loss, [x, z])
        optimizer.apply_gradients(zip(gradients, [x, z], strict=True))
        return loss, returned(gradients)

    metrics = {"error": tf.constant(0.25, tf.float64), "bias": tf.constant(0.5, tf.float64)}
    assert notes(traced(lambda: step(lambda gradients: metrics))) == ()
    message = failure_message(GradientWrongValue, lambda: step(lambda gradients: [gradients[0], 2.0 * gradients[1]]))
    assert "(z:0)\n    given        24\n    estimate     12 " in message


@pytest.mark.parametrize("rate", [tf.constant(0.1), "0.1", [0.1]])
def test_a_learning_rate_that_is_no_number(by_hand: Any, rate: Any) -> None:
    with pytest.raises(TypeError, match=r"learning_rate is of type .*, a number was expected"):
        assert_step(by_hand(0.1), learning_rate=rate)


@pytest.mark.parametrize(("together", "where"), [(True, "in one call"), (False, "at two values of it")])
def test_a_variable_that_is_moved_twice(x: tf.Variable, optimizer: Any, together: bool, where: str) -> None:
    optimizer.build([x])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        halves = [(0.5 * tape.gradient(loss, x), x)] * 2
        for pairs in [halves] if together else [halves[:1], halves[1:]]:
            optimizer.apply_gradients(pairs)
        return loss

    with pytest.raises(ValueError, match=f"to an optimizer twice, {where}; check a step that does it once"):
        assert_step(step)


def test_a_loss_that_is_not_finite(x: tf.Variable) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.math.log(x - 4.0)
        return loss, [tape.gradient(loss, x)]

    with pytest.raises(ValueError, match=r"loss of the step is nan.*; in the forward pass, tf\.math\.log at .* = -"):
        assert_step(step)


def test_an_optimizer_that_got_no_gradient_leads_to_explain() -> None:
    """A loss of argmax depends on no weight smoothly: all gradients are None, and Keras' optimizers raise."""
    weights, optimizer = tf.Variable([[1.0, 0.5]]), tf.keras.optimizers.SGD()

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(tf.argmax(x @ weights, axis=-1), tf.float32))
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
        return loss

    with pytest.raises(
        RuntimeError, match=r"for any variable; no variable got a gradient, and print\(gradcheck.explain"
    ):
        gradcheck.assert_step(step, tf.ones([2, 1]))
