"""Sources without a gradient that do not change the target: what every entry point says about them."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_close, assert_step, check, explain, spot_check
from gradcheck.keras import GradientMonitor
from gradcheck.result import SourceResult
from tests.datasets import untuned

log_scale = tf.Variable(0.3, dtype=tf.float64, name="log_scale")
weight = tf.Variable([1.0, 2.0, 0.5], dtype=tf.float64, name="weight")
twin = tf.Variable([1.0, 2.0, 0.5], dtype=tf.float64, name="twin")
off = tf.Variable(-1.0, dtype=tf.float64, name="off")
scale = tf.exp(log_scale)
batch = tf.ones((2, 3))
CONSTANT = "what was computed from log_scale in it is a constant here"
KEPT = "something is kept between calls"


def loss() -> Any:
    return scale * tf.reduce_sum(weight**2)


def gradients_of(value: Callable[[], Any], sources: Any, **options: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            target = value()
        return tape.gradient(target, sources, **options)

    return step


def step_of(*sources: Any, value: Callable[[], Any] = loss) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            target = value()
        return target, tape.gradient(target, list(sources))

    return step


def told(step: Callable[[], Any]) -> SourceResult:
    """The first source, which has to be unconnected."""
    one = explain(step).sources[0]
    assert (one.unconnected, one.right, one.finding) == (True, None, None)
    assert ", unconnected (" in str(one)
    return one


class Scaled(keras.layers.Layer):  # type: ignore[misc]
    """Computes with a weight only once, when it is built."""

    def build(self, shape: Any) -> None:
        self.log_scale = self.add_weight(name="log_scale", shape=shape[-1:])
        self.slope = self.add_weight(name="slope", shape=shape[-1:])
        self.scale = tf.exp(self.log_scale)

    def call(self, inputs: Any) -> Any:
        return inputs * self.scale * self.slope


class Normal:
    """Computes with its parameters only once, when it is created."""

    def __init__(self, loc: Any, log_scale: Any) -> None:
        self.loc, self.scale = loc, tf.exp(log_scale)

    def log_prob(self, x: Any) -> Any:
        return -(((x - self.loc) / self.scale) ** 2) / 2 - tf.math.log(self.scale)


def test_what_was_computed_from_a_variable_at_import_is_a_constant() -> None:
    result = explain(gradients_of(loss, [log_scale, weight]))
    reads, makes = "return scale * tf.reduce_sum(weight**2)", "scale = tf.exp(log_scale)"
    numbers = [linecache.getlines(__file__).index(f"{line}\n") + 1 for line in (f"    {reads}", makes)]
    note = (
        f"the target does not depend on it, but on weight; scale, of shape (), which `{reads}` (test_unconnected.py:"
        f"{numbers[0]}) reads, was made before the code ran by `{makes}` (test_unconnected.py:{numbers[1]}): {CONSTANT}"
    )
    first, second = result.sources
    assert (first.name, first.note, second.right) == ("log_scale", note, True)
    assert (result.verdict, result.unconnected) == ("agree", ("log_scale",))


def test_what_a_layer_computes_when_it_is_built_is_one() -> None:
    layer = Scaled(name="scaled")
    layer(batch)
    note = told(gradients_of(lambda: tf.reduce_sum(layer(batch) ** 2), layer.trainable_variables)).note
    assert "but on scaled/slope; self.scale, of shape (3,), which `return inputs * self.scale * self.slope` (" in note
    assert "by `self.scale = tf.exp(self.log_scale)` (" in note
    assert note.endswith(CONSTANT)


def test_of_what_the_first_call_alone_computes_it_is_said_that_something_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = Scaled(name="late")
    step = gradients_of(lambda: tf.reduce_sum(layer(batch) ** 2), weights := [])
    layer.build(batch.shape)
    layer.built, layer.scale = False, None
    weights += layer.trainable_variables
    monkeypatch.setattr(layer, "build", lambda shape: setattr(layer, "scale", tf.exp(layer.log_scale)))
    note = told(step).note
    assert CONSTANT in note
    assert note.endswith(f"the first call and the second differ: the first gave it a gradient, so that {KEPT}")


def test_so_is_what_a_distribution_computes_when_it_is_made() -> None:
    normal = Normal(weight, log_scale)
    note = told(gradients_of(lambda: -normal.log_prob(2.0), [log_scale, weight])).note
    assert "; self.scale, of shape (), which " in note
    assert note.endswith(CONSTANT)


def test_for_copies_and_other_variables_those_that_count_are_named() -> None:
    copy = tf.identity(weight)
    step = gradients_of(lambda: tf.reduce_sum(weight**2) + off**2, [copy, twin])
    assert told(step).note == "the target does not depend on it, but on weight and off"
    assert [source.unconnected for source in explain(step).sources] == [True, True]
    assert explain(step).verdict == "inconclusive"
    assert explain(step).orders[1].reasons == (gradcheck.Reason.UNCONNECTED,)
    assert explain(lambda: tf.reduce_sum(weight**2), variables=[twin]).unconnected == ("twin",)


def test_for_a_model_that_was_rebuilt_the_new_variables_are_named_the_most_alike_first() -> None:
    def made() -> Any:
        model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2), keras.layers.Dense(5)])
        model(batch)
        return model

    old, new = made(), made()
    notes = [one.note.split(";")[0] for one in explain(lambda: new(batch), variables=old.variables).sources]
    for note, variable in zip(notes, new.variables, strict=True):
        assert note.startswith(f"the target does not depend on it, but on {variable.path}, ")
        assert note.endswith(" and 3 more")


@pytest.mark.parametrize("filled", [False, True])
def test_what_is_kept_by_the_identity_of_a_tensor_is_not_called_right(filled: bool) -> None:
    cache: dict[int, Any] = {}

    def log(x: Any) -> Any:
        if id(x) not in cache:
            cache[id(x)] = x, tf.math.log(x)
        return cache[id(x)][1]

    x = tf.constant(0.5, tf.float64)
    if filled:
        log(x)

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = log(x) ** 2
        return tape.gradient(y, x)

    note = told(step).note
    assert "; a tensor, of shape (), which `y = log(x) ** 2` (" in note
    first, second = "the first call and the second differ", "two calls differ: with a copy of x in its place"
    assert (second if filled else first) in note
    assert note.endswith(KEPT)
    assert step.__closure__ is not None
    assert any(cell.cell_contents is x for cell in step.__closure__)


def test_what_the_values_alone_make_zero_is_on_the_path() -> None:
    table = tf.Variable(np.ones((4, 2)), name="table")

    def value() -> Any:
        return tf.nn.relu(off) + tf.reduce_sum(tf.gather(table, [1]) ** 2) + 0.0 * weight[0]

    for options in ({}, {"unconnected_gradients": "zero"}):
        result = explain(gradients_of(value, [off, table, weight, twin], **options))
        assert [one.unconnected for one in result.sources] == [False, False, False, True]
        assert [one.right for one in result.sources[:3]] == [True, True, True]
    assert check(value, variables=[off, table, weight]).unconnected == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_step(step_of(off, table, weight, value=value), variables=[off, table, weight])


both = [log_scale, weight]
WAYS: dict[str, Callable[..., Any]] = {
    "assert_close": lambda mode, listed: assert_close(loss, variables=listed, unconnected=mode),
    "assert_step": lambda mode, listed: assert_step(step_of(*listed), variables=listed, unconnected=mode),
    "without variables=": lambda mode, listed: assert_step(step_of(*both), unconnected=mode),
    "spot_check": lambda mode, listed: spot_check(loss, listed, unconnected=mode),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_ask_gives_one_answer(way: str) -> None:
    ask = WAYS[way]
    with pytest.warns(gradcheck.UnconnectedWarning) as caught:
        ask("warn", both)
    (one,) = caught
    assert "log_scale" in str(one.message)
    assert "not depend on it, but on weight; scale, of shape ()" in str(one.message)
    assert CONSTANT in str(one.message)
    assert one.filename == __file__
    with pytest.raises(gradcheck.GradientUnconnected, match=r"log_scale.* is unconnected") as raised:
        ask("raise", both)
    assert raised.value.result is not None
    assert len(raised.value.result.unconnected) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask("ignore", both)
        ask("ignore", [log_scale])
    with pytest.raises(ValueError, match="unconnected was 'no'; expected one of 'raise', 'warn', 'ignore'"):
        ask("no", both)


def test_where_nothing_is_left_to_compare_an_assertion_does_not_pass() -> None:
    for way in ("assert_close", "assert_step"):
        with pytest.raises(gradcheck.GradientUnconnected):
            WAYS[way]("warn", [log_scale])
    with pytest.warns(gradcheck.UnconnectedWarning):
        assert_close(loss, variables=[log_scale], inconclusive="warn")
    with pytest.warns(gradcheck.UnconnectedWarning):
        assert spot_check(loss, [log_scale]).verdict == "inconclusive"


def test_what_is_not_to_be_trained_is_not_warned_of() -> None:
    frozen, count = tf.Variable(1.0, trainable=False), tf.Variable(3)

    def step() -> Any:
        value, gradients = step_of(weight, frozen, count)()
        pairs = zip(gradients, [weight, frozen, count], strict=True)
        tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients(pairs)
        return value

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assert_step(step).unconnected == ()


def test_the_monitor_says_it_once() -> None:
    model = keras.Sequential([Scaled(), keras.layers.Dense(1)])
    model(batch)
    model.compile("sgd", "mse")
    data = untuned((batch, tf.zeros((2, 1)))).batch(2)
    with pytest.warns(gradcheck.UnconnectedWarning, match="log_scale is unconnected") as caught:
        model.fit(data, epochs=2, verbose=0, callbacks=[GradientMonitor(every=1)])
    assert sum(one.category is gradcheck.UnconnectedWarning for one in caught) == 1
    (message,) = (str(one.message) for one in caught if one.category is gradcheck.UnconnectedWarning)
    assert CONSTANT in message


def test_what_reaches_the_target_through_a_step_that_nothing_crosses_is_not_said_to_have_no_effect() -> None:
    """A bias of zero hardly moves; were it said that nothing depends on it, the argmax would be overlooked."""
    scores, bias, slope = tf.constant([[0.1, 0.9, 0.2]]), tf.Variable(tf.zeros(3), name="bias"), tf.Variable(2.0)

    def chosen() -> Any:
        return slope * tf.reduce_sum(tf.one_hot(tf.argmax(scores + bias, -1), 3) * [1.0, 2.0, 3.0])

    between = "no perturbation that was tried changed {}: ArgMax at test_unconnected.py:"
    checked = gradcheck.check(chosen, variables=[bias, slope])
    assert checked.unconnected == ("variables[0] (bias:0)",)
    assert any(
        f"is unconnected: its gradient is None, and {between.format('f')}" in one for one in checked.orders[1].notes
    )
    far = tf.constant([[0.0, 1e6, 0.0]])
    step = gradients_of(lambda: slope * tf.reduce_sum(tf.one_hot(tf.argmax(far + bias, -1), 3)), [bias, slope])
    assert told(step).note.startswith(between.format("the target"))


def test_zeros_that_tensorflow_keeps_for_gradient_functions_are_not_tensors_of_the_code() -> None:
    """The gradient of tf.split reads zeros for the part that is not used; TensorFlow makes them once for all runs."""
    kernel, bias, x = tf.Variable(tf.ones((2, 2))), tf.Variable(tf.zeros(2), name="bias"), tf.Variable([[0.5, 2.0]])

    def loss() -> Any:
        with tf.GradientTape() as tape:
            used, _ = tf.split(tf.nn.bias_add(tf.tanh(x @ kernel), bias), 2, axis=1)
        return tf.reduce_sum(tape.gradient(used, x) ** 2)

    *_, one = explain(gradients_of(loss, [bias])).sources
    assert one.note == "the target does not depend on it, but on kernel and x"
