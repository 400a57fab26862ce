"""Variables that are never trained: what rounds or compares stops the gradient, and the loss changes in jumps alone."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_close, assert_step, check
from gradcheck.diagnosis.jumps import changes_in_jumps, notes_on_jumps
from gradcheck.progress import LongCheck
from tests import slices

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(8, 4)), GENERATOR.normal(size=(8, 1))

Middle = Callable[[Any], Any]
MIDDLES: dict[str, tuple[Middle, str]] = {
    "round": (tf.round, "Round"),
    "sign": (tf.sign, "Sign"),
    "cast": (lambda t: tf.cast(tf.cast(3 * t, tf.int32), t.dtype), "Cast"),
    "argmax": (lambda t: tf.one_hot(tf.argmax(t, -1), 5, dtype=t.dtype), "ArgMax"),
    "greater": (lambda t: tf.where(t > 0, tf.ones_like(t), tf.zeros_like(t)), "Greater"),
}


class Model(keras.Model):
    """Two dense layers with something between them."""

    def __init__(self, middle: Middle, **first: Any) -> None:
        super().__init__()
        keras.utils.set_random_seed(1)
        self.first = keras.layers.Dense(5, **{"activation": "tanh", **first})
        self.last, self.middle = keras.layers.Dense(1), middle
        self.compile("sgd", "mse")
        self(X)

    def call(self, x: Any) -> Any:
        return self.last(self.middle(self.first(x)))


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@slices.parametrized("name", MIDDLES, slices.every(2))
def test_a_step_names_what_it_never_trains(name: str) -> None:
    middle, operation = MIDDLES[name]
    model = Model(middle)
    with pytest.warns(gradcheck.UnconnectedWarning, match="never trained") as caught:
        result = assert_step(model.train_step, (X, Y))
    (note,) = (one for one in result.orders[1].notes if one.startswith("never trained"))
    kernel, bias = (variable.path for variable in model.first.variables)
    assert note.startswith(f"never trained: {kernel} and {bias}; the loss changes with them in jumps alone"), note
    assert f"through {operation} at test_never_trained.py:" in note
    assert (result.verdict, result.unconnected) == ("agree", ())
    (one,) = (one for one in caught if one.category is gradcheck.UnconnectedWarning)
    assert one.filename == __file__


@slices.parametrized("name", MIDDLES, lambda names: names[1::2])
def test_a_check_of_a_model_names_them_too(name: str) -> None:
    middle, operation = MIDDLES[name]
    model = Model(middle)

    def loss() -> Any:
        return tf.reduce_mean((model(X) - Y) ** 2)

    with pytest.warns(gradcheck.UnconnectedWarning, match=f"first|kernel.* through {operation} at") as caught:
        assert_close(loss, variables=model)
    assert [one.filename for one in caught if one.category is gradcheck.UnconnectedWarning] == [__file__]
    assert any(one.startswith("never trained: variables[0] ") for one in check(loss, variables=model).orders[1].notes)
    with pytest.raises(gradcheck.GradientUnconnected, match="never trained"):
        assert_close(loss, variables=model, unconnected="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(loss, variables=model, unconnected="ignore")
        assert_close(loss, variables=model, skip=[one.path for one in model.first.variables])


def test_where_nothing_is_trained_at_all() -> None:
    model = Model(tf.identity)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.sign(model(X)) - Y) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    with pytest.warns(gradcheck.UnconnectedWarning, match="and up to 1 more; the loss changes with them"):
        assert_step(step)


def squared(model: Any, variables: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(X) - Y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(variables)

    return step


def off() -> Callable[[], Any]:
    model = Model(tf.identity, activation="relu", bias_initializer=keras.initializers.Constant(-20.0))
    return squared(model, model.trainable_variables)


def saturated() -> Callable[[], Any]:
    model = Model(tf.identity, activation="hard_sigmoid", bias_initializer=keras.initializers.Constant(40.0))
    return squared(model, model.trainable_variables)


def zero_head() -> Callable[[], Any]:
    model = Model(tf.identity)
    model.last.kernel.assign(tf.zeros((5, 1)))
    return squared(model, model.trainable_variables)


def frozen() -> Callable[[], Any]:
    model = Model(tf.round)
    model.first.trainable = False
    return squared(model, model.trainable_variables)


def not_asked() -> Callable[[], Any]:
    model = Model(tf.round)
    return squared(model, model.last.trainable_variables)


def straight_through() -> Callable[[], Any]:
    model = Model(tf.grad_pass_through(tf.identity))
    return squared(model, model.trainable_variables)


def embedding() -> Callable[[], Any]:
    table = tf.Variable(GENERATOR.normal(size=(9, 2)), name="table")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [1, 3, 3]) ** 2)
        return loss, tape.gradient(loss, [table])

    return step


SILENT = {
    one.__name__.replace("_", " "): one
    for one in (off, saturated, zero_head, frozen, not_asked, straight_through, embedding)
}


@pytest.mark.parametrize("name", SILENT)
def test_zeros_of_another_kind_are_not_mentioned(name: str) -> None:
    step = SILENT[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gradcheck.UnconnectedWarning)
        result = assert_step(step)
    assert result.verdict == "agree", str(result)
    assert not any("never trained" in note for note in result.orders[1].notes)


def rounded(variable: Any) -> Any:
    return 1.0 + tf.reduce_sum(tf.cast(tf.round(3 * variable), tf.float32) ** 2)


def notes_of(result: Any) -> list[str]:
    return [note for note in result.orders[1].notes if note.startswith("never trained")]


def test_where_the_code_raises_there_is_no_value() -> None:
    variable = tf.Variable(0.4)

    def loss() -> Any:
        tf.debugging.assert_less(variable, 0.5)
        return rounded(variable)

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return value, [tape.gradient(value, variable)]

    assert notes_of(check(loss, variables=[variable]))
    with pytest.warns(gradcheck.UnconnectedWarning, match="never trained"):
        assert_step(step)
    assert variable.numpy() == np.float32(0.4)


def test_sixteen_bits_tell_a_jump_from_rounding() -> None:
    variable = tf.Variable([0.4, 1.3], dtype=tf.bfloat16)
    assert notes_of(check(lambda: rounded(variable), variables=[variable]))
    assert not notes_of(check(lambda: tf.nn.relu(variable - 3), variables=[variable]))


def test_a_time_limit_does_not_cost_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    variable, late = tf.Variable([0.02], dtype=tf.float64), threading.Event()
    monkeypatch.setattr(LongCheck, "out_of_time", property(lambda running: late.is_set()))

    def loss() -> Any:
        if abs(float(variable[0])) > 2.0:  # further than differences are taken
            late.set()
        return 1.0 + tf.reduce_sum(tf.round(variable) ** 2)

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return value, [tape.gradient(value, variable)]

    for run in (lambda: check(loss, variables=[variable], seconds=9.0), lambda: assert_step(step, seconds=9.0)):
        late.clear()
        result = run()
        assert late.is_set()
        assert result.verdict == "agree", str(result)
        assert "whether all variables are ever trained was not seen: 9 s were over" in result.orders[1].notes


def test_an_operation_with_another_output_that_has_a_gradient_is_named() -> None:
    router, experts = tf.Variable([0.4, 1.3, 0.2]), tf.constant([1.0, 2.0, 4.0])

    def routed() -> Any:
        return tf.gather(experts, tf.math.top_k(router, 1).indices)

    (note,) = notes_of(check(routed, variables=[router]))
    assert "through TopKV2 at test_never_trained.py:" in note


def test_many_that_are_off_are_moved_together() -> None:
    points, looks = [np.array(-3.0 - n / 16) for n in range(20)], list[int]()

    def look(moved: Mapping[int, Any]) -> tuple[Any, set[int]]:
        looks.append(len(moved))
        return np.array(1.0 + sum(max(x, 0.0) for x in moved.values())), {n for n, x in moved.items() if x > 0}

    assert notes_on_jumps(None, [("off", None, point) for point in points], look, 2.0**-53, "f") == []
    assert len(looks) < 10


def test_a_jump_is_told_from_a_steep_slope() -> None:
    def slope(x: Any) -> Any:
        return np.clip(1e4 * (x - 2.0), 0.0, 1.0)

    def jumps(value: Callable[[Any], Any], sloped: Callable[[Any], Any] = lambda x: False) -> bool:
        zero = np.array(0.0)
        return changes_in_jumps(zero, value(zero), lambda x: (value(x), bool(sloped(x))), 2.0**-53)

    assert jumps(lambda x: np.where(x > 2.0, 1.0, 0.0))
    assert jumps(lambda x: np.round(1e5 * x) / 1e5)
    assert not jumps(slope, lambda x: 0.0 < slope(x) < 1.0)
    assert not jumps(lambda x: 0 * x)
    assert not jumps(np.sin)  # its gradient is lost
    assert not jumps(np.round, lambda x: x < -1)
