"""Steps that update variables between one tape and the next: what belongs to a derivative, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from gradcheck import Cause, Result, explain

Code = Callable[[], Any]


def f64(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name)


def embedding(update: Callable[[tf.Variable, tf.IndexedSlices], Any]) -> Code:
    table = f64([[1.0], [2.0], [3.0]], "table")

    def train() -> Any:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, [0, 2, 2]) ** 3)
            update(table, tape.gradient(loss, table))

    return train


def dense(optimizer: Any) -> Code:
    variable = f64([1.0, 2.0], "variable")

    def train() -> Any:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable**3)
            optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

    return train


def scattered(variable: tf.Variable, slices: tf.IndexedSlices) -> None:
    variable.scatter_sub(tf.IndexedSlices(0.1 * slices.values, slices.indices))


def of_keras() -> Callable[[tf.Variable, tf.IndexedSlices], Any]:
    optimizer = keras.optimizers.SGD(0.1)
    return lambda variable, slices: optimizer.apply_gradients([(slices, variable)])


LOOPS = {
    "scattered": lambda: embedding(scattered),
    "rows by Keras": lambda: embedding(of_keras()),
    "Keras, slots made under way": lambda: dense(keras.optimizers.SGD(0.1, momentum=0.9)),
    "TensorFlow 1": lambda: dense(tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)),
    "TensorFlow 1, one resource": lambda: dense(tf.compat.v1.train.GradientDescentOptimizer(0.1)),
}


@pytest.fixture
def fresh() -> None:
    """A process that has taken no derivative yet: TensorFlow caches the ones and zeros of the first one."""
    for cache in (context.context().ones_rank_cache(), context.context().zeros_cache()):
        cache.flush()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", LOOPS)
def test_of_a_loop_every_step_counts_at_the_values_that_it_begins_with(name: str) -> None:
    result = explain(LOOPS[name]())
    assert result.verdict == "agree", str(result)
    assert [source.right for source in result.sources] == [True, True]


def test_rows_that_are_read_before_the_tape_are_lost_in_every_step() -> None:
    table = f64([[1.0], [2.0]], "table")

    def train() -> Any:
        for _ in range(2):
            rows = tf.gather(table, [0])
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(rows**2 + table[1])
            tape.gradient(loss, table)
            table.scatter_sub(tf.IndexedSlices([[0.25]], [0]))

    result = explain(train)
    found = [one.diagnosis for one in result.sources if one.diagnosis is not None]
    assert [one.cause for one in found] == [Cause.OUTSIDE_TAPE] * 2
    assert [one.lost for one in found] == pytest.approx([2.0, 1.5])


def adversaries(optimizer: Any = None, *, outside: bool = False, spare: bool = False) -> Code:
    """The generator's loss is taken after the discriminator's update, which depends on the generator, too."""
    generator, discriminator, bias = f64(1.5, "generator"), f64(0.5, "discriminator"), f64(0.25, "bias")

    def update(slope: tf.Tensor) -> None:
        if optimizer is None:
            discriminator.assign_sub(0.1 * slope)
        else:
            optimizer.apply_gradients([(slope, discriminator)])

    def step() -> Any:
        fake = 2.0 * generator + bias
        with tf.GradientTape() as tape:
            loss = (discriminator * fake - 1.0) ** 2
        update(tape.gradient(loss, discriminator))
        again = 2.0 * generator
        with tf.GradientTape() as tape:
            loss = -discriminator * (again + 0 * generator if outside else 2.0 * generator)
        return tape.gradient(loss, [generator, bias] if spare else generator)

    return step


@pytest.mark.parametrize("optimizer", [None, "sgd", "adam"])
def test_the_update_of_the_other_network_is_no_part_of_a_derivative(optimizer: str | None) -> None:
    code = adversaries(optimizer and keras.optimizers.get(optimizer))
    for given in (code, tf.function(code)) if optimizer is None else (code,):
        result = explain(given)
        assert result.verdict == "agree", str(result)
        assert all(source.right for source in result.sources)
        (note,) = result.orders[1].notes
        line = "discriminator.assign_sub" if optimizer is None else "optimizer.apply_gradients"
        assert line in note
        assert note.endswith("updated before the tape was opened count as constants in its derivative")


def test_what_is_lost_is_told_without_the_update_of_the_other_network() -> None:
    result = explain(adversaries(outside=True))
    diagnosis = result.sources[-1].diagnosis
    assert diagnosis is not None
    assert (diagnosis.cause, diagnosis.place and diagnosis.place.code) == (
        Cause.OUTSIDE_TAPE,
        "again = 2.0 * generator",
    )
    # d = 0.5 - 0.1 * 2 (0.5 * 3.25 - 1) 3.25, and the derivative of the loss is -2 d
    assert diagnosis.lost == pytest.approx(-2 * (0.5 - 0.2 * 0.625 * 3.25))


def test_a_variable_that_only_the_other_update_depends_on_has_no_gradient() -> None:
    (_, _, bias) = explain(adversaries(spare=True)).sources
    assert (bias.name, bias.gradient, bias.right) == ("bias", "None", None)


def test_an_update_with_a_number_of_python_is_no_part_of_a_derivative_either() -> None:
    x, scale = f64(1.5, "x"), f64(2.0, "scale")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = scale * x**2
        scale.assign_sub(0.1 * float(tape.gradient(loss, scale)))
        with tf.GradientTape() as tape:
            loss = scale * x**2
        return tape.gradient(loss, x)

    result = explain(step)
    assert result.verdict == "agree", str(result)


def test_an_input_that_the_tape_watches_after_an_update() -> None:
    w = f64(0.5, "w")

    def attack(images: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w * images - 1.0) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        with tf.GradientTape() as tape:
            tape.watch(images)
            loss = tf.reduce_sum((w * images - 1.0) ** 2)
        return tape.gradient(loss, images)

    result = explain(attack, [1.0, 2.0])
    assert result.verdict == "agree", str(result)


def through_state(result: Result) -> float:
    diagnosis = result.sources[-1].diagnosis
    assert diagnosis is not None, str(result)
    assert diagnosis.cause is Cause.STATE
    assert diagnosis.lost is not None
    return diagnosis.lost


def test_a_value_that_was_stored_before_the_tape_is_lost_where_the_tape_sees_nothing_else_of_the_source() -> None:
    x, total = f64(1.5, "x"), f64(0.0, "total")

    def step() -> Any:
        total.assign(x**2)
        with tf.GradientTape() as tape:
            loss = 3.0 * total
        return tape.gradient(loss, x)

    assert through_state(explain(step)) == pytest.approx(9.0)


def test_an_update_inside_of_the_tape_is_a_part_of_its_derivative() -> None:
    """An inner step of meta-learning, made by assignment."""
    start, w = f64(1.5, "start"), f64(0.5, "w")

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = (w * start - 1.0) ** 2
            w.assign_sub(0.1 * inner.gradient(loss, w))
            loss = w * start
        return outer.gradient(loss, start)

    # w - 0.1 * 2 (w s - 1) s, times s: its derivative in w's new value, d new/ds = -0.2 (2 w s - 1)
    assert through_state(explain(step)) == pytest.approx(1.5 * -0.2 * (2 * 0.5 * 1.5 - 1))


def test_a_row_stored_inside_of_the_tape_is_lost_in_a_variable() -> None:
    x, table = f64([[1.5]], "x"), f64([[0.0], [1.0]], "table")

    def step() -> Any:
        with tf.GradientTape() as tape:
            table.scatter_update(tf.IndexedSlices(2.0 * x, [0]))
            loss = tf.reduce_sum(tf.gather(table, [0]) ** 2)
        return tape.gradient(loss, x)

    result = explain(step)
    assert through_state(result) == pytest.approx(12.0)
    assert "ResourceScatterUpdate" in str(result)
    assert "depends on x into a variable;" in str(result)


def test_a_keras_variable_that_the_code_does_not_read() -> None:
    keras.utils.set_random_seed(1)
    used, spare = keras.layers.Dense(1, name="used"), keras.layers.Dense(1, name="spare")
    batch = tf.ones((2, 3))
    used(batch), spare(batch)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(used(batch) ** 2)
        return tape.gradient(loss, used.trainable_variables + spare.trainable_variables)

    told = [(one.name, one.right, one.note.split(";")[0]) for one in explain(step).sources]
    but = "the target does not depend on it, but on {} and {}"
    kernel = (None, but.format("used/kernel", "used/bias"))
    bias = (None, but.format("used/bias", "used/kernel"))
    assert told == [
        *(("used/kernel", True, ""), ("used/bias", True, "")),
        *(("spare/kernel", *kernel), ("spare/bias", *bias)),
    ]
