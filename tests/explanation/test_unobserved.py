"""A step gives the same results when it is observed as when it is not, bit for bit, None included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from tests import slices
from tests.explanation import test_causes, test_scenarios

Step = Callable[[], Any]
Make = Callable[[], Step]


def python_functions() -> Step:
    x = tf.Variable([0.5, -1.5], dtype=tf.float64)

    @tf.custom_gradient
    def cubed(a: tf.Tensor) -> Any:
        cube = tf.numpy_function(lambda a: a**3, [a], tf.float64)
        cube.set_shape(a.shape)
        return cube, lambda dy: 3 * dy * a**2

    def step() -> Any:
        with tf.GradientTape() as tape:
            sine = tf.py_function(tf.sin, [x], tf.float64)
            loss = tf.reduce_sum(cubed(x) + tf.reshape(sine, [2]))
        return loss, tape.gradient(loss, x)

    return step


def data_and_loops() -> Step:
    x = tf.Variable(1.5, dtype=tf.float64)
    data = tf.data.Dataset.from_tensor_slices(np.linspace(0.1, 0.9, 6)).batch(2)

    def step() -> Any:
        total, state = tf.zeros([], tf.float64), tf.ones([], tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            for batch in data:
                total += tf.reduce_sum(tf.sin(x * batch))
            _, state = tf.while_loop(lambda n, _: n < 3, lambda n, s: (n + 1, s * tf.cos(x)), (0, state))
            scanned = tf.scan(lambda a, b: a * x + b, tf.constant([0.1, 0.2, 0.3], tf.float64))
        return total, tape.gradient(total, x), tape.gradient(state, x), tape.gradient(scanned, x)

    return step


def second_order() -> Step:
    x = tf.Variable([0.3, 0.7], dtype=tf.float64)

    def step() -> Any:
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(tf.tanh(x) ** 3)
            slope = inner.gradient(y, x)
            penalty = tf.reduce_sum(slope**2)
        return slope, outer.gradient(penalty, x), outer.jacobian(slope, x)

    return step


def drawn() -> Step:
    x = tf.Variable(tf.ones([4, 3]))
    layer, generator = keras.layers.Dropout(0.5, seed=2), tf.random.Generator.from_seed(1)

    def step() -> Any:
        with tf.GradientTape() as tape:
            noise = tf.random.stateless_normal([4, 3], [1, 2]) + generator.normal([4, 3])
            loss = tf.reduce_mean((layer(x, training=True) + noise) ** 2)
        return loss, tape.gradient(loss, x)

    return step


def kept(code: Step) -> Step:
    """Code that trains a variable of its module, reset to its start."""
    test_causes.x.assign(1.5)
    test_causes.y.assign(2.0)
    return code


OWN: dict[str, Make] = {make.__name__: make for make in (python_functions, data_and_loops, second_order, drawn)}
CODES = {code.__name__: partial(kept, code) for code in (*test_causes.CAUSES, *test_causes.right())}
STEPS: dict[str, Make] = {**test_scenarios.PROGRAMS, **CODES, **OWN}

DRAWING = {"random", "drawn"}
"""A tf.function that draws runs eagerly, as a note says, and draws other numbers there."""

ENDLESS = {"python_function"}
"""A generator expression over a data set ends only in eager code."""


def made(make: Make, traced: bool) -> Step:
    keras.utils.set_random_seed(4)
    step = make()
    return tf.function(step) if traced else step


def bits(result: Any) -> list[Any]:
    """The bytes of each tensor, with None for None."""
    flat = [part for one in tf.nest.flatten(result) for part in ([one.values, one.indices] if _sliced(one) else [one])]
    return [part if part is None else (part.dtype.name, part.numpy().tobytes()) for part in flat]


def _sliced(one: Any) -> bool:
    return isinstance(one, tf.IndexedSlices)


def observed(step: Step) -> tuple[Step, list[Any]]:
    """The step, and what each of its runs returns or raises."""
    runs: list[Any] = []
    note = runs.append  # the list itself would be put back

    def looked_at() -> Any:
        try:
            result = step()
        except Exception as error:
            note(type(error))
            raise
        note(bits(result))
        return result

    return looked_at, runs


def unobserved(step: Step) -> Any:
    try:
        return bits(step())
    except Exception as error:
        return type(error)


def cases() -> list[tuple[str, bool]]:
    pairs = [(name, traced) for name in STEPS for traced in (False, True)]
    return [(name, traced) for name, traced in pairs if not (traced and name in DRAWING | ENDLESS)]


@slices.parametrized(("name", "traced"), cases(), lambda found: [*((name, False) for name in OWN), *found[3:-8:21]])
def test_explain_sees_what_the_step_gives(name: str, traced: bool) -> None:
    """One of its runs gives the same bits; in the first one functions run eagerly, where the last digits may differ."""
    alone = unobserved(made(STEPS[name], traced))
    step, runs = observed(made(STEPS[name], traced))
    try:
        gradcheck.explain(step)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        assert runs  # nothing to explain, but it was run
    if traced and isinstance(alone, type):  # AutoGraph raises errors of its own for those of the code
        assert any(isinstance(run, type) for run in runs)
        return
    assert alone in runs
    if not traced:
        assert_near(runs[0], alone)


def assert_near(one: Any, other: Any) -> None:
    """Assert that two runs gave the same up to the last digits, None in the same places, or raised the same."""
    if isinstance(other, type):
        assert one is other
        return
    assert [part is None for part in one] == [part is None for part in other]
    for (dtype, mine), (expected, theirs) in ((a, b) for a, b in zip(one, other, strict=True) if a is not None):
        assert dtype == expected
        kind = tf.as_dtype(dtype).as_numpy_dtype
        np.testing.assert_allclose(np.frombuffer(mine, kind), np.frombuffer(theirs, kind), rtol=1e-6)


def penalised(x: tf.Variable) -> Any:
    """A loss with a gradient of its own, none of which may change while differences are taken."""
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.sin(x) ** 2)
    return y + tf.reduce_sum(tape.gradient(y, x) ** 2)


def random_loss(x: tf.Variable) -> Any:
    return tf.reduce_sum(tf.nn.dropout(x**2, 0.3) + tf.random.normal(x.shape, dtype=x.dtype))


LOSSES = {"eager": (penalised, False), "traced": (penalised, True), "random": (random_loss, False)}
LOOKS = ("check", "check of order 2", "spot_check")


@slices.parametrized(("look", "name"), product(LOOKS, LOSSES), slices.every(4))  # the diagonal
def test_a_check_sees_what_the_function_gives(look: str, name: str) -> None:
    loss, traced = LOSSES[name]
    x = tf.Variable([0.3, 0.8], dtype=tf.float64)
    alone = unobserved(made(lambda: partial(loss, x), traced))
    step, runs = observed(made(lambda: partial(loss, x), traced))
    if look == "spot_check":
        result = gradcheck.spot_check(step, [x]).result
    else:
        result = gradcheck.check(step, variables=[x], order=2 if look.endswith("2") else 1)
    assert result.verdict == "agree"
    assert alone == runs[0]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_assert_step_sees_what_the_step_gives(traced: bool) -> None:
    def make() -> Step:
        model = keras.Sequential([keras.layers.Input((3,), dtype="float64"), keras.layers.Dense(2, dtype="float64")])
        optimizer, data = keras.optimizers.Adam(0.1), tf.constant(np.random.default_rng(0).normal(size=(4, 3)))
        optimizer.build(model.trainable_variables)

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(data) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss, *gradients

        return step

    alone = unobserved(made(make, traced))
    step, runs = observed(made(make, traced))
    gradcheck.assert_step(step)
    assert alone in runs
