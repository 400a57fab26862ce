"""Whatever code does to variables and generators is noticed and undone."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.function import Defun

from gradcheck import check
from gradcheck.tracing.state import (
    FUNCTION,
    VARIABLE,
    snapshot_variables,
    state_restored,
    stateful_operations,
    variables_restored,
)


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable([1.0, 2.0, 3.0])


WRITES = {
    "assign": lambda x: x.assign([7.0, 8.0, 9.0]),
    "assign_add": lambda x: x.assign_add([1.0, 1.0, 1.0]),
    "slice": lambda x: x[:2].assign([0.0, 0.0]),
    "scatter": lambda x: x.scatter_sub(tf.IndexedSlices([1.0], [2])),
    "raw": lambda x: tf.raw_ops.ResourceApplyGradientDescent(var=x.handle, alpha=0.1, delta=[1.0, 1.0, 1.0]),
    "keras": lambda x: keras.optimizers.SGD(0.1).apply_gradients([(tf.ones(3), x)]),
    "v1": lambda x: tf.compat.v1.train.AdamOptimizer(0.1).apply_gradients([(tf.ones(3), x)]),
    "tf.function": tf.function(lambda x: x.assign_add([1.0, 1.0, 1.0])),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_way_to_write(x: tf.Variable, write) -> None:
    with snapshot_variables() as snapshot:
        write(x)
    assert x.numpy().tolist() != [1.0, 2.0, 3.0]
    assert snapshot.value(x).numpy().tolist() == [1.0, 2.0, 3.0]
    snapshot.restore()
    assert x.numpy().tolist() == [1.0, 2.0, 3.0]


def test_a_variable_that_a_function_captured_long_ago(x: tf.Variable) -> None:
    @tf.function
    def inner() -> None:
        x.assign_add([1.0, 1.0, 1.0])

    outer = tf.function(lambda: tf.cond(tf.reduce_sum(x) > 0, inner, inner))
    outer()
    with state_restored():
        outer()
        assert x.numpy().tolist() == [3.0, 4.0, 5.0]
    assert x.numpy().tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_variables_made_inside_keep_their_first_values(traced: bool) -> None:
    held: list[tf.Variable] = []

    def count() -> tf.Tensor:
        if not held:
            held.append(tf.Variable(5.0))
        return held[0].assign_add(1.0)

    counting = tf.function(count) if traced else count
    for _ in range(2):
        with state_restored():
            assert float(counting()) == 6.0
        assert float(held[0]) == 5.0


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_everything_is_put_back_whatever_is_raised(x: tf.Variable, error: type[BaseException]) -> None:
    tf.random.set_seed(3)
    generator = tf.random.Generator.from_seed(7)

    def drawn() -> list[float]:
        values = [random.random(), np.random.uniform(), tf.random.normal(()), generator.normal(())]
        return [float(value) for value in values]

    handle, call = VARIABLE.handle, FUNCTION._call_flat
    first: list[float] = []

    def interrupted() -> None:
        with state_restored():
            first.extend(drawn())
            x.assign_add([1.0, 1.0, 1.0])
            raise error

    with pytest.raises(error):
        interrupted()
    assert x.numpy().tolist() == [1.0, 2.0, 3.0]
    assert drawn() == first
    assert (VARIABLE.handle, FUNCTION._call_flat) == (handle, call)


def test_a_tape_around_it_stays_connected(x: tf.Variable) -> None:
    with tf.GradientTape() as tape:
        with state_restored():
            y = tf.reduce_sum(x**2)
            x.assign_sub([1.0, 1.0, 1.0])
        z = y * 2
    assert tape.gradient(z, x).numpy().tolist() == [4.0, 8.0, 12.0]


def test_a_keras_model_in_training() -> None:
    """Weights, moving averages, the seeds of dropout, optimizer slots, its counter, and metrics."""
    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.layers.Input((2,)), *layers])
    model.compile("adam", "mse", metrics=["mae"], jit_compile=False)
    data = tf.constant([[1.0, 2.0], [3.0, 5.0]]), tf.ones((2, 3))
    model.train_step(data)
    held = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    before = [variable.numpy() for variable in held]
    for step in (model.train_step, tf.function(model.train_step)):
        with state_restored():
            step(data)
            moved = [not np.array_equal(v.numpy(), value) for v, value in zip(held, before, strict=True)]
        assert sum(moved) > len(held) / 2
        for variable, value in zip(held, before, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


def test_a_check_leaves_the_moving_averages_of_the_function() -> None:
    layer = keras.layers.BatchNormalization(dtype="float64")
    x = tf.constant([[1.0, 2.0], [3.0, 5.0], [4.0, -1.0]], tf.float64)
    layer(x)
    before = [variable.numpy() for variable in layer.variables]
    assert check(lambda x: tf.reduce_sum(x * layer(x, training=True)), x).verdict == "agree"
    for variable, value in zip(layer.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def numbers() -> list[float]:
    generator = tf.random.get_global_generator()
    return [random.random(), float(np.random.uniform()), float(tf.random.normal(())), float(generator.normal(()))]


def test_the_next_numbers_are_those_that_would_have_come() -> None:
    tf.random.set_seed(3)
    tf.random.get_global_generator()
    with variables_restored():
        first = numbers()
    with variables_restored():
        assert numbers() == first
    assert numbers() == first
    assert numbers() != first


def test_code_that_is_being_traced_may_use_it() -> None:
    """The global generator is a variable, which a trace can neither read as an array nor assign permanently."""
    state = tf.random.get_global_generator().state
    before = state.numpy().tolist()

    @tf.function
    def drawn() -> tf.Tensor:
        with variables_restored():
            state.assign_add(tf.ones_like(state))
            return state.value()

    drawn.get_concrete_function()
    assert state.numpy().tolist() == before
    assert drawn().numpy().tolist() != before


def test_kernels_with_a_seed_of_their_own_go_on_if_nothing_else_was_numbers() -> None:
    tf.random.set_seed(3)
    first = [float(tf.random.normal((), seed=7)) for _ in range(3)]
    tf.random.set_seed(3)
    assert float(tf.random.normal((), seed=7)) == first[0]
    with variables_restored():
        pass
    assert float(tf.random.normal((), seed=7)) == first[1]


def test_variables() -> None:
    variable = tf.Variable([1.0, 2.0])

    def interrupted() -> None:
        with variables_restored([variable]):
            variable.assign([3.0, 4.0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert variable.numpy().tolist() == [1.0, 2.0]


def numbers_of_python(x: Any) -> Any:
    return x * random.random()


def numbers_of_numpy(x: Any) -> Any:
    return x * np.random.rand()


def numbers_of_tensorflow(x: Any) -> Any:
    return x * tf.random.uniform((), dtype=tf.float64)


def numbers_of_a_generator(x: Any) -> Any:
    return x * GENERATOR.uniform((), dtype=tf.float64)


def numbers_to_come() -> list[Any]:
    return [random.getstate(), str(np.random.get_state(legacy=False)), GENERATOR.state.numpy().tolist()]


GENERATOR = tf.random.Generator.from_seed(1)


@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize(
    "f", [numbers_of_python, numbers_of_numpy, numbers_of_tensorflow, numbers_of_a_generator], ids=lambda f: f.__name__
)
def test_random_numbers_are_held_fixed_for_a_check_and_come_as_before_afterwards(f: Any, seed: int | None) -> None:
    before = context.global_seed()
    context.context()._set_global_seed(seed)
    try:
        state = numbers_to_come()
        result = check(f, 2.0)
        assert result.verdict == "agree"
        assert "all calls start from the same state" in str(result)
        assert numbers_to_come() == state
        assert context.global_seed() == seed
    finally:
        context.context()._set_global_seed(before)


@pytest.mark.parametrize("seed", [None, 1234])
def test_a_seed_that_the_function_sets_is_taken_back(seed: int | None) -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        tf.random.set_seed(0)
        return x * tf.random.uniform((), dtype=tf.float64)

    before = context.global_seed()
    context.context()._set_global_seed(seed)
    try:
        state = numbers_to_come()
        assert check(f, 2.0).verdict == "agree"
        assert context.global_seed() == seed
        assert numbers_to_come() == state
    finally:
        context.context()._set_global_seed(before)


def test_operations_of_functions_that_call_one_another_by_name_are_seen() -> None:
    """Graphs of TensorFlow 1 have nodes whose operation is the name of a function."""

    @Defun(tf.float32)  # type: ignore[untyped-decorator]
    def noisy(x: tf.Tensor) -> tf.Tensor:
        return x + tf.random.uniform([])

    calling = tf.function(lambda x: noisy(x), autograph=False)
    assert stateful_operations(lambda: calling(tf.constant(1.0))) == ["RandomUniform"]


def test_what_is_random_in_spite_of_all_is_named() -> None:
    x = tf.Variable(1.0)
    inside = tf.function(lambda: tf.random.normal(()))
    assert stateful_operations(inside) == ["RandomStandardNormal"]
    assert stateful_operations(lambda: x.assign_add(1.0) * tf.sin(x)) == []
