"""The record of a step: gradients of tapes, calls of optimizers, clipping; and what recording leaves unchanged."""

from __future__ import annotations

from collections.abc import Callable

import keras
import pytest
import tensorflow as tf

from gradcheck.training.step_recorder import StepRecorder


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable([3.0, 4.0])


def step_of(x: tf.Variable, clip: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> Callable[[], None]:
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([x])

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x**2)
        optimizer.apply_gradients([(clip(tape.gradient(loss, x)), x)])

    return step


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_gradients_and_the_optimizer(x: tf.Variable, traced: bool) -> None:
    step = tf.function(step_of(x)) if traced else step_of(x)
    recorder = StepRecorder()
    with recorder.recording() as recording:
        step()
    (taken,), (call,) = recording.tape_gradients, recording.optimizer_calls
    assert (float(taken.loss), taken.sources[0] is x) == (25.0, True)
    assert taken.gradients[0].numpy().tolist() == [6.0, 8.0]
    assert (call.name, call.variables[0] is x, call.scale) == ("SGD", True, 1.0)
    assert call.gradients[0].numpy().tolist() == [6.0, 8.0]
    assert recording.clip_functions == []
    x.assign([3.0, 4.0])
    call.repeat([(tf.ones(2), x)])
    assert x.numpy().tolist() == [2.5, 3.5]


def test_the_users_function_is_not_traced(x: tf.Variable) -> None:
    function = tf.function(step_of(x))
    with StepRecorder().recording():
        function()
    assert function.experimental_get_tracing_count() == 0


def test_a_clip_function_that_gradients_go_through(x: tf.Variable) -> None:
    with StepRecorder().recording() as recording:
        step_of(x, lambda gradient: tf.clip_by_norm(gradient, 1.0))()
        tf.clip_by_value(x, 0.0, 1.0)
    assert set(recording.clip_functions) == {"clip_by_norm"}


def test_each_run_has_a_recording_of_its_own_and_nothing_stays_patched(x: tf.Variable) -> None:
    before = tf.GradientTape.gradient, tf.clip_by_norm
    recorder = StepRecorder()
    for _ in range(2):
        with recorder.recording() as recording:
            step_of(x)()
        assert len(recording.optimizer_calls) == 1
    assert (tf.GradientTape.gradient, tf.clip_by_norm) == before


def test_a_step_ends_as_the_gradient_of_its_last_loss_is_asked_for(x: tf.Variable) -> None:
    reached: list[str] = []

    def step() -> None:
        with tf.GradientTape(persistent=True) as tape:
            point = tf.constant(2.0)
            tape.watch(point)
            first, second = tf.reduce_sum(x**2), tf.reduce_sum(x) * point
        try:
            tape.gradient(second, point)
            reached.append("no variable")
            tape.gradient(first, [x])
            reached.append("first")
            tape.gradient(second, [x])
            reached.append("second")
        except Exception:
            reached.append("handled")

    for losses, expected in ((1, ["no variable"]), (2, ["no variable", "first"])):
        reached.clear()
        with StepRecorder().without_updates(losses) as recording:
            step()
        assert reached == expected
        taken = [one for one in recording.tape_gradients if one.of_variables]
        assert [float(one.loss) for one in taken] == [25.0, 14.0][:losses]
        assert taken[-1].gradients == ()
    reached.clear()
    with StepRecorder().without_updates():
        step()
    assert reached == ["no variable", "first", "second"]
