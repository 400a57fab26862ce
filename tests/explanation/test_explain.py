"""Arguments that explain accepts and refuses; it leaves everything unchanged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import execute, record
from tensorflow.python.framework import constant_op, ops
from tensorflow.python.ops import custom_gradient, resource_variable_ops

import gradcheck
from gradcheck import Cause, Kind, Reason, explain
from gradcheck.tracing.recorder import recorded
from tests import slices


def f64(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name)


def test_functions_without_tapes_are_differentiated() -> None:
    def f(a: Any, b: Any, count: Any) -> Any:
        return a["left"] * b**2 + tf.cast(count, tf.float64) * tf.floor(a["right"])

    result = explain(f, {"left": 2.0, "right": 1.5}, [3.0, 4.0], 7)
    assert [(one.name, one.gradient, one.right) for one in result.sources] == [
        ("a['left']", "25", True),
        ("a['right']", "None", False),
        ("b", "[12, 16]", True),
    ]
    assert result.sources[1].diagnosis is not None
    assert result.sources[1].diagnosis.cause is Cause.NOT_DIFFERENTIABLE


def test_variables_are_sources_listed_or_found() -> None:
    v, frozen = f64(2.0, "v"), tf.Variable(3.0, dtype=tf.float64, trainable=False, name="frozen")
    named = [(one.name, one.gradient) for one in explain(lambda: v**2 * frozen).sources]
    assert named == [("v", "12")]
    named = [(one.name, one.gradient) for one in explain(lambda a: a * v * frozen, 5.0, variables=[v, frozen]).sources]
    assert named == [("a", "6"), ("v", "15"), ("frozen", "10")]


def test_inputs_that_the_code_watches_and_perturbs() -> None:
    def gradient(a: Any, names: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            loss = tf.reduce_sum(a.numpy() * a)
        return tape.gradient(loss, a)

    (one,) = explain(gradient, np.array([1.0, 3.0]), ["some", "words"]).sources
    assert (one.name, one.gradient, one.right) == ("a", "[1, 3]", False)
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.NUMPY


def test_an_input_may_be_none() -> None:
    (one,) = explain(lambda a, b: a**2 if b is None else a, 3.0, None).sources
    assert (one.name, one.gradient, one.right) == ("a", "6", True)


def test_a_keras_train_step() -> None:
    class Rounded(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return tf.round(10.0 * inputs)

    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(2, name="first"),
        Rounded(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(1, name="last"),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    data = np.array([[0.1, 0.7], [0.9, 0.3]], np.float32), np.array([[1.0], [2.0]], np.float32)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        model.train_on_batch(*data)
    before = [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]
    result = explain(model.train_step, data)
    after = [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]
    assert all(np.array_equal(one, two) for one, two in zip(before, after, strict=True))
    told = {one.name.split("/", 1)[1]: one.diagnosis and one.diagnosis.cause for one in result.sources}
    lost = Cause.NOT_DIFFERENTIABLE
    assert told == {"first/kernel": lost, "first/bias": lost, "last/kernel": None, "last/bias": None}
    places = {one.diagnosis.place.code for one in result.sources if one.diagnosis and one.diagnosis.place}
    assert places == {"return tf.round(10.0 * inputs)"}
    assert "not differentiable, as for sequential" in str(result)


def test_several_derivatives_are_told_apart() -> None:
    v = f64(2.0, "v")

    def code() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            a = v**2
            b = tf.stop_gradient(a) * v
        return tape.gradient(a, v), tape.gradient(b, v)

    result = explain(code)
    assert [one.right for one in result.sources] == [True, False]
    assert (result.verdict, len(result.findings)) == ("mismatch", 1)
    assert result.orders[1].findings[0].kind is Kind.WRONG_VALUE


def test_a_batch_jacobian_of_rows_that_depend_on_one_another() -> None:
    v = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64)

    def code() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            c = v**3 / tf.reduce_sum(v)
        return tape.batch_jacobian(c, v)

    (finding,) = explain(code).findings
    assert finding.reason.endswith("otherwise use jacobian")


@slices.parametrized("method", ["jacobian", "batch_jacobian"], slices.every(2))
def test_of_a_complex_target_the_real_part_is_differentiated(method: str) -> None:
    z = np.array([[1.0 + 2.0j], [3.0 - 1.0j]])

    def whole(z: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(z)
            y = z**2
        return getattr(tape, method)(y, z)

    def part(z: Any) -> Any:
        square = z**2 * [[0.0], [1.0]]
        with tf.GradientTape() as tape:
            tape.watch(z)
            y = square + z
        return getattr(tape, method)(y, z)

    (one,) = explain(whole, z).sources
    assert one.right
    (one,) = explain(part, z).sources
    assert one.diagnosis is not None
    assert (one.right, one.diagnosis.cause) == (False, Cause.OUTSIDE_TAPE)
    assert "6 of 7 is lost" in one.diagnosis.evidence
    assert "a tape around the whole computation gives 7" in one.diagnosis.evidence


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [2.0]], ids=len)
def test_a_gradient_of_another_shape_is_a_finding_about_its_source_alone(values: list[float]) -> None:
    @tf.custom_gradient
    def stretched(a: tf.Tensor) -> Any:
        return tf.reduce_sum(a**2), lambda upstream: tf.reshape(upstream * 2.0 * a, [1, -1])

    v, s = f64(values, "v"), f64([1.0, 5.0], "s")

    def code() -> Any:
        with tf.GradientTape() as tape:
            c = stretched(v.read_value()) * tf.reduce_sum(s)
        return tape.gradient(c, [v, s])

    result = explain(code)
    assert result.verdict == "mismatch"
    assert [(one.name, one.right) for one in result.sources] == [("v", False), ("s", True)]
    assert [finding.kind for finding in result.findings] == [Kind.SHAPE]


def test_code_that_differs_from_run_to_run_is_not_judged() -> None:
    v, calls = f64(2.0, "v"), []

    def code() -> Any:
        calls.append(1)
        with tf.GradientTape() as tape:
            c = v * float(len(calls))
        return tape.gradient(c, v)

    result = explain(code)
    assert result.verdict == "inconclusive"
    assert result.orders[1].reasons == (Reason.NOT_DETERMINISTIC,)
    assert "two runs differ" in str(result)


def test_what_cannot_be_compared_says_why() -> None:
    x, y = f64(0.0, "x"), f64(1.0, "y")
    result = explain(lambda: x**1.5 + y**2)
    assert [(one.name, one.right, one.note) for one in result.sources] == [
        ("x", None, Reason.JUMP.value),
        ("y", True, ""),
    ]
    assert f"x: 0, inconclusive ({Reason.JUMP.value})" in str(result)


def test_a_function_that_returns_something_else_when_it_is_traced() -> None:
    v = f64(2.0, "v")

    @tf.function
    def code() -> Any:
        with tf.GradientTape() as tape:
            c = v**2 if tf.executing_eagerly() else v**3
        return 2.0 * tape.gradient(c, v)

    result = explain(code)
    assert (result.verdict, result.findings[-1].kind) == ("mismatch", Kind.MODES)
    assert "result 0 is 8. when the code runs eagerly" in str(result)


def patched_names() -> list[Any]:
    eager = ops._EagerTensorBase
    return [
        *(
            getattr(tf.GradientTape, name)
            for name in ("watch", "reset", "gradient", "jacobian", "_push_tape", "_pop_tape")
        ),
        *(getattr(eager, name) for name in ("numpy", "__array__", "__float__", "__bool__", "__int__")),
        *(pywrap_tfe.TFE_Py_FastPathExecute, execute.execute, constant_op.convert_to_eager_tensor),
        *(record.record_operation, custom_gradient._eager_mode_decorator, resource_variable_ops.variable_accessed),
        tf.config.functions_run_eagerly(),
    ]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_everything_is_put_back_whatever_happens(error: type[BaseException]) -> None:
    v, before = f64(2.0, "v"), patched_names()
    random.seed(1)
    state, numpy_state = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()

    def code() -> Any:
        random.random()
        np.random.random()
        v.assign(5.0)
        with tf.GradientTape() as tape:
            c = v**2
        tape.gradient(c, v)
        raise error

    if error is ValueError:
        assert "after its last derivative, f raised ValueError" in explain(code).orders[1].notes
    else:
        with pytest.raises(error):
            explain(code)
    assert patched_names() == before
    assert float(v) == 2.0
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()) == (state, numpy_state)


def test_the_line_is_that_of_the_one_who_wrote_it() -> None:
    def code() -> Any:
        return tf.reduce_logsumexp(tf.constant([1.0, 2.0]))

    lines = {event.line for event in recorded(code).operations if event.name != "Const"}
    assert {Path(line[0]).name for line in lines if line} == {"test_explain.py"}
    assert {line[1] for line in lines if line} == {code.__code__.co_firstlineno + 1}


BAD_ARGUMENTS: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    (([1.0],), TypeError, "f is of type list, a callable was expected"),
    ((lambda: tf.constant(1.0),), ValueError, "reads no trainable variable .* nothing to explain"),
    ((lambda a: a * 2, 3), ValueError, r"a float input \(2.0, not 2\)"),
    (
        (lambda a: a.numpy(), 3.0),
        TypeError,
        "returned float64, not a floating tensor",
    ),
    ((lambda a: None, 3.0), TypeError, "returned NoneType, not a floating tensor"),
    ((lambda a: a.nothing, 3.0), RuntimeError, "f raised AttributeError: .* it has to run before"),
    ((lambda a: a, object()), TypeError, "a is of type object, which is not a tensor"),
    (
        (lambda a: a["k"][0], {"k": [gradcheck.positive_definite(np.eye(2))]}),
        TypeError,
        r"a\['k'\]\[0\] has a constraint \(PositiveDefinite\), which explain does not support; .* use gradcheck.check",
    ),
    ((lambda a: a, gradcheck.simplex(f64([0.5, 0.5], "p"))), TypeError, r"a has a constraint \(Simplex\)"),
]


def test_bad_arguments(subtests: pytest.Subtests) -> None:
    for arguments, kind, message in BAD_ARGUMENTS:
        with subtests.test(message), pytest.raises(kind, match=message):
            explain(*arguments)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"variables": [3.0]}, TypeError, r"variables\[0\] is of type float; a tf.Variable was expected"),
        ({"variables": gradcheck.simplex(f64([0.5, 0.5], "p"))}, TypeError, r"variables\[0\] has a constraint"),
        ({"rtol": -1.0}, ValueError, "rtol was -1.0"),
        ({"probes": 2}, ValueError, "probes was 2"),
    ],
)
def test_bad_options(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        explain(lambda a: a, 1.0, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("traced", [True, False])
def test_what_low_precision_hides_is_compared_in_float64_or_told(dtype: str, traced: bool) -> None:
    def f(x: Any) -> Any:
        assert traced or float(x[0]) < 1e9  # Python's reading keeps it from being traced, and rebuilt in float64
        return 1000 + 1e-6 * tf.reduce_sum(x**2)

    result = explain(f, tf.constant([1.0, 2.0, 3.0, 4.0], dtype))
    hidden = dtype == "float32" and not traced
    assert result.verdict == ("inconclusive" if hidden else "agree")
    # With float64 inputs, as the note says, it agrees.
    assert any("give it float64 inputs and variables" in note for note in result.orders[1].notes) == hidden


def test_of_a_model_that_is_wholly_frozen_there_is_nothing_to_explain() -> None:
    """Its step takes no derivative, and TensorFlow's own variables stay trainable."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    batch = tf.ones((4, 2)), tf.ones((4, 1))
    assert {source.right for source in explain(model.train_step, batch).sources} == {True}
    model.trainable = False
    with pytest.raises(ValueError, match="f takes no derivative: nothing to explain; frozen: "):
        explain(model.train_step, batch)
    with pytest.raises(ValueError, match=r"is model.trainable False\?"):
        explain(lambda: model.train_step(batch))
