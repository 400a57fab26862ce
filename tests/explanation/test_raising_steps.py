"""Code that raises because a gradient is None is explained; code that cannot be explained is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, audit, check, explain

X, Y = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]]), np.array([[1.0], [0.0], [2.0]])
Code = Callable[[], Any]


def f64(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name)


x = f64(1.5, "x")


def applied() -> Any:
    optimizer = keras.optimizers.SGD(0.1)
    s = x**2
    with tf.GradientTape() as tape:
        loss = s + 0.0
    optimizer.apply_gradients(zip(tape.gradient(loss, [x]), [x], strict=True))


def clipped() -> Any:
    s = x**2
    with tf.GradientTape() as tape:
        loss = s + 0.0
    return [tf.clip_by_norm(gradient, 1.0) for gradient in tape.gradient(loss, [x])]


def through_numpy() -> Any:
    optimizer = keras.optimizers.SGD(0.1)
    with tf.GradientTape() as tape:
        p = x * X
        loss = tf.constant(np.mean((p.numpy() - 1) ** 2))
    optimizer.apply_gradients(zip(tape.gradient(loss, [x]), [x], strict=True))


def penalized() -> Any:
    t = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as tape:
        with tf.GradientTape() as penalty:
            score = tf.sin(t * x)
        slope = penalty.gradient(score, t)
        loss = (tf.norm(slope) - 1.0) ** 2
    return tape.gradient(loss, x)


def equation() -> Any:
    t = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(t)
            u = tf.sin(t * x)
        slope = inner.gradient(u, t)
    return tf.reduce_sum(outer.gradient(slope, t) + u)


RAISING = {
    "an optimizer": (applied, Cause.OUTSIDE_TAPE, "s = x**2", "No gradients provided for any variable"),
    "a clipping": (clipped, Cause.OUTSIDE_TAPE, "s = x**2", "convert a value (None)"),
    "a loss by NumPy": (
        *(through_numpy, Cause.NUMPY, "loss = tf.constant(np.mean((p.numpy() - 1) ** 2))"),
        "No gradients provided for any variable",
    ),
    "a gradient penalty": (penalized, Cause.NOT_WATCHED, "score = tf.sin(t * x)", "convert a value (None)"),
    "a differential equation": (equation, Cause.NOT_WATCHED, "u = tf.sin(t * x)", "NoneType"),
}


@pytest.mark.parametrize("name", RAISING)
def test_what_raises_at_none_is_explained(name: str) -> None:
    code, cause, line, message = RAISING[name]
    result = explain(code)
    assert result.verdict == "mismatch"
    lost = result.sources[-1]
    assert lost.diagnosis is not None
    assert lost.diagnosis.place is not None
    assert (lost.right, lost.diagnosis.cause, lost.diagnosis.place.code) == (False, cause, line)
    (note,) = (note for note in result.orders[1].notes if "raised" in note)
    assert note.startswith("after its last derivative, f raised ")
    assert message in note


def test_a_train_step_of_keras_that_raises_at_none_is_explained() -> None:
    class Early(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, dtype="float64")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def train_step(self, data: Any) -> Any:
            inputs, labels = data
            predicted = self(inputs, training=True)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((labels - predicted) ** 2)
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    model = Early()
    model.compile("sgd")
    model(X)
    result = explain(model.train_step, (X, Y))
    assert [source.right for source in result.sources] == [False, False]
    assert {source.diagnosis and source.diagnosis.cause for source in result.sources} == {Cause.OUTSIDE_TAPE}
    assert any("No gradients provided" in note for note in result.orders[1].notes)


@tf.function
def symbolic(p: Any) -> Any:
    return tf.gradients(p**2, p)


@tf.function
def named(p: Any) -> Any:
    return p**2 if p.name else p


@pytest.mark.parametrize("function", [symbolic, named], ids=["tf.gradients", "name"])
def test_what_works_in_a_graph_alone_is_refused_with_the_reason(function: Any) -> None:
    function(tf.constant(2.0))
    with pytest.raises(RuntimeError, match=r"explain runs every tf.function eagerly, .* use a tf\.GradientTape"):
        explain(lambda: function(tf.constant(2.0)))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_tape_from_before_is_refused_by_name(persistent: bool) -> None:
    with tf.GradientTape(persistent=persistent) as tape:
        loss = x**2
    with pytest.raises(ValueError, match=r"tape\.gradient\(loss, \[x\]\).* opened before f ran.* the loss inside f"):
        explain(lambda: tape.gradient(loss, [x]))


def test_a_tape_from_before_that_is_opened_again_is_none() -> None:
    tape = tf.GradientTape(persistent=True)

    def code() -> Any:
        with tape:
            loss = x**2
        return tape.gradient(loss, x)

    (one,) = explain(code).sources
    assert one.right


def test_a_derivative_with_respect_to_nothing_is_a_finding() -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    before = model.trainable_variables

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(X) ** 2)
        return tape.gradient(loss, before)

    result = explain(code)
    assert result.verdict == "mismatch"
    assert "no sources: a model has no variables before it is built" in str(result)


def as_float() -> Any:
    with tf.GradientTape() as tape:
        loss = float(x**2)
    return tape.gradient(loss, x)


def as_array() -> Any:
    with tf.GradientTape() as tape:
        loss = (x**2).numpy()
    return tape.gradient([loss], x)


def as_mean() -> Any:
    with tf.GradientTape() as tape:
        loss = np.mean((x * X).numpy())
    return tape.gradient(loss, x)


def by_a_number() -> Any:
    with tf.GradientTape() as tape:
        loss = x**2
    return tape.gradient(loss, [x, 3.0])


def by_an_array() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x * X)
    return tape.gradient(loss, X)


NUMBERS = [
    (as_float, "loss = float(x**2)", "the target is of type float, which float at", "leave float() and .numpy()"),
    (as_array, "loss = (x**2).numpy()", "the target is of type float64, which numpy at", "leave float() and .numpy()"),
    (as_mean, "return tape.gradient(loss, x)", "the target is of type float64; only", "leave float() and .numpy()"),
    (by_a_number, "return tape.gradient(loss, [x, 3.0])", "the source is of type float; only", "make it a tf.Variable"),
    (by_an_array, "return tape.gradient(loss, X)", "the source is of type ndarray; only", "make it a tf.Variable"),
]


@pytest.mark.parametrize(("code", "line", "evidence", "remedy"), NUMBERS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_number_for_a_tensor_is_told(code: Code, line: str, evidence: str, remedy: str) -> None:
    (source,) = explain(code).sources
    assert source.diagnosis is not None
    assert source.diagnosis.place is not None
    assert (source.diagnosis.cause, source.diagnosis.place.code) == (Cause.NUMPY, line)
    assert source.diagnosis.evidence.startswith(evidence)
    assert source.diagnosis.remedy.startswith(remedy)


def test_a_bare_except_does_not_hide_where_a_replay_ends() -> None:
    def code() -> Any:
        found = []
        for factor in (1.0, 2.0):
            with tf.GradientTape() as tape:
                loss = factor * x**2
            try:
                found.append(tape.gradient(loss, x))
            except:  # noqa: E722
                found.append(None)
        return found

    result = explain(code)
    assert [(one.gradient, one.right) for one in result.sources] == [("3", True), ("6", True)]


def ragged_target() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.sin(tf.RaggedTensor.from_row_lengths(x * tf.constant([1.0, 2.0, 3.0], tf.float64), [1, 2]))
    return tape.gradient(loss, x)


def ragged_source() -> Any:
    rows = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows.flat_values)
        loss = tf.reduce_sum(tf.sin(rows))
    return tape.gradient(loss, rows)


@pytest.mark.parametrize(("code", "what"), [(ragged_target, "target"), (ragged_source, "source")])
def test_ragged_tensors_are_refused_by_name(code: Code, what: str) -> None:
    with pytest.raises(TypeError, match=rf"the {what} of `return tape.gradient.* is a RaggedTensor; .* flat_values"):
        explain(code)


def test_the_flat_values_of_a_ragged_tensor_are_compared() -> None:
    def code() -> Any:
        rows = tf.ragged.constant([[1.0], [2.0, 3.0]], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(rows.flat_values)
            loss = tf.sin(rows)
        return tape.gradient(loss.flat_values, rows.flat_values)

    (one,) = explain(code).sources
    assert one.right


class Mismatched(keras.Model):  # type: ignore[misc]
    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(5, 2))

    def call(self, inputs: Any) -> Any:
        return inputs @ self.kernel


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("asked", [explain, check, audit], ids=lambda one: one.__name__)
def test_what_a_keras_model_raises_is_shown_whole_and_without_escape_codes(asked: Any, traced: bool) -> None:
    model = Mismatched()
    model.build((4, 3))
    f = tf.function(model) if traced else model
    with pytest.raises(RuntimeError) as caught:
        asked(f, tf.ones((4, 3)))
    said = str(caught.value)
    assert "Exception encountered when calling Mismatched.call()." in said
    assert "[4,3]" in said  # the reason
    assert "[5,2]" in said
    assert "inputs=tf.Tensor(shape=(4, 3), dtype=float32)" in said
    assert not set("\x1b\n") & set(said)
    assert not any(word in said for word in ("function_node", "[Op:", "File ", "hooks.py"))


def test_a_long_message_is_cut_after_a_dozen_lines() -> None:
    def f(a: Any) -> Any:
        raise ValueError("\n".join(f"line {number}" for number in range(40)))

    for asked in (explain, check):
        with pytest.raises(RuntimeError, match=r"line 0 line 1 .*line 11 …; ") as caught:
            asked(f, 1.0)
        assert "line 12" not in str(caught.value)
