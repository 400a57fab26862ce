"""Steps with several losses, each with its own variables: those of a GAN, simultaneously or in turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import GradientMismatch, GradientPartial, GradientWrongValue, assert_step
from gradcheck.training.side_effects import UnrepeatableStepError
from tests import slices
from tests.training.conftest import FORMS

Step = Callable[[], Any]
Returned = Callable[[Any, Any], Any]
BOTH = "2 variables were compared with the loss of their own tape"
ONE = "1 variable was compared with the loss of their own tape"
HELD = "1 of them with earlier updates held fixed"

RETURNED: dict[str, Returned] = {
    "both": lambda one, other: (one, other),
    "the other first": lambda one, other: (other, one),
    "one": lambda one, other: one,
    "dict": lambda one, other: {"one": one, "other": other},
    "nothing": lambda one, other: None,
}


@pytest.fixture
def generator() -> tf.Variable:
    return tf.Variable([0.5, -1.0], name="generator", dtype=tf.float64)


@pytest.fixture
def discriminator() -> tf.Variable:
    return tf.Variable([1.0, 2.0], name="discriminator", dtype=tf.float64)


@pytest.fixture
def at_once(generator: tf.Variable, discriminator: tf.Variable) -> Callable[..., Step]:
    """A step that takes both gradients before it updates anything."""
    optimizers = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)
    optimizers[0].build([generator])
    optimizers[1].build([discriminator])

    def make(returned: Returned, change: Callable[[Any], Any] = tf.identity) -> Step:
        def step() -> Any:
            with tf.GradientTape() as one, tf.GradientTape() as other:
                score = tf.reduce_sum(discriminator * tf.tanh(generator))
                fooled, told = -score, score**2 + tf.reduce_sum(discriminator**2)
            first, second = one.gradient(fooled, generator), other.gradient(told, discriminator)
            optimizers[0].apply_gradients([(first, generator)])
            optimizers[1].apply_gradients([(change(second), discriminator)])
            return returned(fooled, told)

        return step

    return make


@pytest.fixture
def in_turn(generator: tf.Variable, discriminator: tf.Variable) -> Callable[..., Step]:
    """A step that updates the discriminator, on the generator's output, before it takes the generator's gradient."""
    first = keras.optimizers.SGD(0.1)
    first.build([discriminator])

    def make(returned: Returned, *, outside: bool = False, scale: float | None = None) -> Step:
        second = keras.optimizers.SGD(0.1, loss_scale_factor=scale)
        second.build([generator])

        def step() -> Any:
            with tf.GradientTape() as tape:
                told = (tf.reduce_sum(discriminator * tf.tanh(generator)) - 1.0) ** 2
            first.apply_gradients([(tape.gradient(told, discriminator), discriminator)])
            made = tf.tanh(generator)
            with tf.GradientTape() as tape:
                made = made if outside else tf.tanh(generator)
                fooled = -tf.reduce_sum(discriminator * made + 0.0 * generator)
                scaled = second.scale_loss(fooled)
            second.apply_gradients([(tape.gradient(scaled, generator), generator)])
            return returned(fooled, told)

        return step

    return make


def each_returned(share: slice) -> Callable[[Any], Any]:
    """All kinds of results that steps return, in both forms; in the test command a share, in alternating forms."""
    return slices.parametrized(
        ("returned", "traced"),
        product(RETURNED, FORMS),
        lambda _: zip(list(RETURNED)[share], cycle(FORMS)),
        indirect=["traced"],
    )


@each_returned(slice(1, None, 2))
def test_each_variable_has_the_loss_of_its_own_tape(at_once: Any, traced: Any, returned: str) -> None:
    result = assert_step(traced(at_once(RETURNED[returned])))
    assert (result.verdict, result.orders[1].compared) == ("agree", 4)
    assert result.orders[1].notes == (BOTH,)


@each_returned(slice(0, None, 2))
def test_updates_before_a_tape_are_no_part_of_its_loss(
    in_turn: Any, traced: Any, returned: str, generator: tf.Variable
) -> None:
    result = assert_step(traced(in_turn(RETURNED[returned])))
    assert (result.verdict, result.orders[1].compared) == ("agree", 4)
    assert result.orders[1].notes == (BOTH, HELD)
    alone = assert_step(traced(in_turn(RETURNED[returned], scale=4.0)), variables=[generator])
    assert (alone.verdict, alone.orders[1].compared) == ("agree", 2)


def findings(error: type[GradientMismatch], step: Step) -> tuple[list[str], str]:
    """The variables with a wrong gradient, and the message."""
    with pytest.raises(error) as caught:
        assert_step(step)
    assert caught.value.result is not None
    return [finding.input for finding in caught.value.result.orders[1].findings], str(caught.value)


def test_what_is_computed_before_the_tape_is_lost_all_the_same(in_turn: Any, traced: Any) -> None:
    found, message = findings(GradientPartial, traced(in_turn(RETURNED["dict"], outside=True)))
    assert found == ["variables[1] (generator:0)"]
    assert "cause        computed outside the tape" in message


def test_a_wrong_gradient_of_one_of_them(at_once: Any, traced: Any) -> None:
    found, message = findings(GradientWrongValue, traced(at_once(RETURNED["both"], lambda gradient: -gradient)))
    assert found == ["variables[1] (discriminator:0)"]
    assert "changed after it was taken" in message


def test_a_sum_of_losses_is_what_counts_for_all(at_once: Any, traced: Any) -> None:
    _, message = findings(GradientWrongValue, traced(at_once(lambda one, other: one + other)))
    assert "differentiated another loss, 1.061071155, than the one that the step returned, 7.18694315" in message
    assert "return one of them first, as in" in message


def test_an_update_inside_of_the_tape_belongs_to_its_loss() -> None:
    """A rate is learned through a step that is made by assignment, which no tape follows."""
    rate, weight = tf.Variable(0.3, dtype=tf.float64, name="rate"), tf.Variable(2.0, dtype=tf.float64, name="weight")
    inner, outer = keras.optimizers.SGD(1.0), keras.optimizers.SGD(0.1)
    inner.build([weight])
    outer.build([rate])

    def step() -> Any:
        with tf.GradientTape() as around:
            with tf.GradientTape() as tape:
                loss = weight**2
            inner.apply_gradients([(rate * tape.gradient(loss, weight), weight)])
            after = weight**2 + rate
        outer.apply_gradients([(around.gradient(after, rate), rate)])
        return after, loss

    with pytest.raises(GradientWrongValue, match="went through state"):
        assert_step(step, variables=[rate])


def test_variables_that_are_moved_several_times_may_be_left_out(
    generator: tf.Variable, discriminator: tf.Variable
) -> None:
    optimizer, other = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)

    def step() -> Any:
        for _ in range(2):
            with tf.GradientTape() as tape:
                told = tf.reduce_sum(discriminator * tf.tanh(generator)) ** 2
            optimizer.apply_gradients([(tape.gradient(told, discriminator), discriminator)])
        with tf.GradientTape() as tape:
            fooled = -tf.reduce_sum(discriminator * tf.tanh(generator))
        other.apply_gradients([(tape.gradient(fooled, generator), generator)])
        return fooled

    result = assert_step(step, variables=[generator])
    assert (result.verdict, result.orders[1].notes[:2]) == ("agree", (ONE, HELD))
    with pytest.raises(UnrepeatableStepError, match=r"to an optimizer twice.*or only the other variables"):
        assert_step(step)


def test_one_loss_whose_gradients_are_asked_for_in_two_calls(x: tf.Variable, y: tf.Variable, optimizer: Any) -> None:
    def step() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = x**2 + tf.reduce_sum(y**3)
        optimizer.apply_gradients([(tape.gradient(loss, x), x), (tape.gradient(loss, y), y)])
        return loss

    assert assert_step(step).orders[1].notes == ()


def test_half_a_gradient_of_one_of_two_losses_is_no_average(at_once: Any, traced: Any) -> None:
    with pytest.raises(GradientWrongValue):
        assert_step(traced(at_once(RETURNED["both"], lambda gradient: 0.5 * gradient)))


def test_nor_is_half_a_gradient_beside_one_of_an_input(optimizer: Any) -> None:
    weights, inputs = tf.Variable([1.0, 2.0], name="weights"), tf.constant([0.5, -1.5])
    optimizer.build([weights])

    def step() -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                score = tf.reduce_sum(tf.tanh(weights * inputs))
            loss = score + tf.reduce_sum(inner.gradient(score, inputs) ** 2)
        optimizer.apply_gradients([(0.5 * tape.gradient(loss, weights), weights)])
        return loss

    with pytest.raises(GradientWrongValue):
        assert_step(step)
