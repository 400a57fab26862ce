"""Faults in the registered gradients of operations, and TensorFlow's own: blamed by name, on the line of the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, Result, check, explain
from gradcheck.diagnosis.blame import blame
from gradcheck.tracing import recorder
from gradcheck.tracing.recorder import recorded
from tests import slices

NUMBERS = np.random.default_rng(1)
WEIGHTS = {(rows, columns): NUMBERS.normal(size=(rows, columns)) for rows in (3, 4, 5) for columns in (1, 3, 4, 5)}
Plant = Callable[[str, Any], Any]


def larger(right: Any, node: Any, *cotangents: Any) -> Any:
    """The registered gradient, with its parts a tenth too large."""
    parts = right(node, *cotangents)
    many = isinstance(parts, (list, tuple))
    changed = [part if part is None else _scaled(part) for part in (parts if many else [parts])]
    return changed if many else changed[0]


def _scaled(part: Any) -> Any:
    if isinstance(part, tf.IndexedSlices):
        return tf.IndexedSlices(1.1 * part.values, part.indices, part.dense_shape)
    return tf.cast(1.1, part.dtype) * part if part.dtype.is_floating else part


def diagnosis_of(result: Result) -> Diagnosis:
    found = [finding.diagnosis for finding in result.findings] + [source.diagnosis for source in result.sources]
    return next(one for one in found if one is not None)


def dense(x: Any, columns: int) -> Any:
    return tf.matmul(x, WEIGHTS[int(x.shape[-1]), columns])


def squashed(x: Any) -> Any:
    h = tf.tanh(dense(x, 4))  # Tanh
    return tf.reduce_sum(dense(h, 1) ** 2)


def gate(x: Any) -> Any:
    h = dense(x, 4) * tf.sigmoid(dense(x, 4))  # Sigmoid
    return tf.reduce_sum(tf.sin(dense(h, 1)))


def attention(x: Any) -> Any:
    scores = tf.matmul(dense(x, 3), dense(x, 3), transpose_b=True)
    p = tf.nn.softmax(scores)  # Softmax
    return tf.reduce_sum(tf.tanh(tf.matmul(p, dense(x, 5))))


def normalised(x: Any) -> Any:
    h = dense(x, 5)
    scale = tf.math.rsqrt(tf.math.reduce_variance(h, -1, keepdims=True) + 0.1)  # Rsqrt
    return tf.reduce_sum(dense((h - tf.reduce_mean(h, -1, keepdims=True)) * scale, 3) ** 2)


def averaged(x: Any) -> Any:
    m = tf.reduce_mean(dense(x, 5), 0)  # Mean
    return tf.reduce_sum(tf.tanh(m))


def energy(x: Any) -> Any:
    h = tf.exp(-tf.square(dense(x, 4)))  # Exp
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def entropy(x: Any) -> Any:
    h = tf.math.log(1 + tf.square(dense(x, 4)))  # Log
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def squares(x: Any) -> Any:
    h = tf.square(dense(x, 4))  # Square
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def distances(x: Any) -> Any:
    h = tf.math.squared_difference(dense(x, 4), 0.5)  # SquaredDifference
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def plus(x: Any) -> Any:
    h = tf.nn.softplus(dense(x, 4))  # Softplus
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def exponential_unit(x: Any) -> Any:
    h = tf.nn.elu(dense(x, 4))  # Elu
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def rectified(x: Any) -> Any:
    h = tf.nn.relu(dense(x, 4))  # Relu
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def looked_up(x: Any) -> Any:
    h = tf.gather(dense(x, 4), [0, 2, 2, 1])  # GatherV2
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def joined(x: Any) -> Any:
    h = tf.concat([dense(x, 4), tf.sin(x)], -1)  # ConcatV2
    return tf.reduce_sum(tf.tanh(h) ** 2)


def turned(x: Any) -> Any:
    h = tf.transpose(dense(x, 4))  # Transpose
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def running(x: Any) -> Any:
    h = tf.cumsum(dense(x, 4))  # Cumsum
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def convolved(x: Any) -> Any:
    image = tf.reshape(dense(x, 4), [1, 4, 4, 1])
    h = tf.nn.conv2d(image, tf.reshape(WEIGHTS[3, 3], [3, 3, 1, 1]), 1, "SAME")  # Conv2D
    return tf.reduce_sum(tf.tanh(tf.nn.avg_pool2d(h, 2, 2, "VALID")))


def pooled(x: Any) -> Any:
    image = tf.reshape(dense(x, 4), [1, 4, 4, 1])
    h = tf.nn.max_pool2d(image, 2, 2, "VALID")  # MaxPool
    return tf.reduce_sum(tf.tanh(h))


def solved(x: Any) -> Any:
    h = tf.linalg.inv(tf.eye(4, dtype=tf.float64) * 9.0 + dense(x, 4))  # MatrixInverse
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def product(x: Any) -> Any:
    h = tf.reduce_prod(dense(x, 4), -1)  # Prod
    return tf.reduce_sum(tf.tanh(h))


MODELS = (
    *(squashed, gate, attention, normalised, averaged, energy, entropy, squares, distances, plus),
    *(exponential_unit, rectified, looked_up, joined, turned, running, convolved, pooled, solved, product),
)


def marked(function: Any) -> tuple[str, str]:
    """The line of a function that ends with a comment, and the name in the comment."""
    line = next(line for line in inspect.getsource(function).splitlines() if "  # " in line)
    return line.strip(), line.split("  # ")[1]


def assert_blamed(diagnosis: Diagnosis, operation: str, line: str) -> None:
    assert diagnosis.cause in (Cause.OPERATION, Cause.KNOWN_DEFECT), diagnosis
    assert diagnosis.place is not None
    assert (diagnosis.place.operation, diagnosis.place.code) == (operation, line)
    assert f"{operation} at test_blame_operations.py:{diagnosis.place.line}" in diagnosis.evidence
    assert "where the finite-difference estimate is" in diagnosis.evidence
    assert " looked at" in diagnosis.evidence


@slices.parametrized("model", MODELS, slices.every(4), ids=lambda model: model.__name__)
def test_a_registered_gradient_that_is_a_tenth_too_large(model: Any, plant: Plant) -> None:
    line, operation = marked(model)
    x = NUMBERS.normal(size=(4, 3))
    with plant(operation, larger):
        result = check(model, x)
    assert_blamed(diagnosis_of(result), operation, line)


@slices.parametrized(
    ("model", "gradient"),
    [
        (squashed, "TanhGrad"),
        (gate, "SigmoidGrad"),
        (rectified, "ReluGrad"),
        (normalised, "RsqrtGrad"),
        (exponential_unit, "EluGrad"),
    ],
    lambda cases: cases[1::2],  # operations whose first derivatives the test command leaves out
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_second_derivative_that_is_a_tenth_too_large(model: Any, gradient: str, plant: Plant) -> None:
    line, operation = marked(model)
    with plant(gradient, larger):
        result = check(model, NUMBERS.normal(size=(4, 3)), order=2)
    assert {finding.order for finding in result.findings} == {2}
    assert_blamed(diagnosis_of(result), operation, line)
    assert "the vector-Jacobian product of" in diagnosis_of(result).evidence


def test_in_a_layer_of_keras(plant: Plant) -> None:
    keras.utils.set_random_seed(1)
    first = keras.layers.Dense(1, "tanh", use_bias=False, name="first")
    model = keras.Sequential([first, keras.layers.Dense(1, "sigmoid", use_bias=False, name="second")])
    batch = tf.constant(NUMBERS.normal(size=(3, 2)).astype(np.float32)), tf.ones((3, 1))
    model(batch[0])
    model.compile("sgd", "mse")
    with plant("Sigmoid", larger):
        diagnosis = diagnosis_of(explain(model.train_step, batch))
    assert (diagnosis.cause, diagnosis.place and diagnosis.place.operation) == (Cause.OPERATION, "Sigmoid")
    assert "layer second, at dense.py:" in diagnosis.evidence


def cumulated(x: Any) -> Any:
    h = tf.math.cumprod(tf.sinh(x), -1)  # Cumprod
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def multiplied(x: Any) -> Any:
    h = tf.reduce_prod(tf.sinh(x), -1)  # Prod
    return tf.reduce_sum(tf.sin(h))


def information(x: Any) -> Any:
    h = tf.math.xlogy(tf.sinh(x), 1.5)  # Xlogy
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def bessel(x: Any) -> Any:
    h = tf.math.bessel_i1(tf.sinh(x))  # BesselI1
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


def powers(x: Any) -> Any:
    h = tf.pow(tf.sinh(x), tf.ones_like(x))  # Pow
    return tf.reduce_sum(tf.tanh(dense(h, 3)))


WITH_ZEROS = np.array([[0.5, -1.0, 2.0], [0.0, 1.5, 0.75], [0.0, 0.0, 1.25]])


@slices.parametrized(
    ("model", "order"),
    [(cumulated, 1), (cumulated, 2), (multiplied, 2), (bessel, 1), (information, 1), (powers, 2)],
    lambda cases: [cases[0], cases[-1]],  # each order once
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_defects_of_tensorflow_between_other_layers(model: Any, order: int) -> None:
    line, operation = marked(model)
    result = check(model, WITH_ZEROS, order=order)
    findings = [one for one in result.findings if one.order == order]
    assert findings, result
    diagnosis = next(one.diagnosis for one in findings if one.diagnosis is not None)
    assert diagnosis.place is not None
    assert (diagnosis.place.operation, diagnosis.place.code) == (operation, line), diagnosis
    assert diagnosis.cause in (Cause.KNOWN_DEFECT, Cause.OPERATION, Cause.NOT_FINITE)


RIGHT = (
    *MODELS,
    lambda x: tf.reduce_sum(tf.nn.relu(dense(tf.nn.relu(x) * 0.0, 4))),
    lambda x: tf.reduce_max(tf.abs(dense(x, 4)), -1),
    lambda x: tf.linalg.logdet(tf.eye(4, dtype=tf.float64) * 9 + tf.matmul(dense(x, 4), dense(x, 4), transpose_b=True)),
    lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.ones((4, 5), tf.float64) / 5, dense(x, 5)),
    lambda x: tf.reduce_sum(tf.sort(dense(x, 4))[:, ::2] * tf.nn.top_k(dense(x, 4), 2).values),
    lambda x: tf.signal.irfft(tf.signal.rfft(dense(x, 4))),
    lambda x: tf.einsum("ij,kj->ik", dense(x, 4), tf.nn.gelu(dense(x, 4))),
    lambda x: tf.vectorized_map(lambda row: tf.reduce_sum(row) * row, dense(x, 4)),
)


ORDERS_AND_DTYPES = [(1, "float64"), (2, "float32"), (1, "float32"), (2, "float64")]


@pytest.mark.sliced
def test_right_models_are_blamed_for_nothing(subtests: pytest.Subtests) -> None:
    cases = [(number, *one) for number in range(len(RIGHT)) for one in ORDERS_AND_DTYPES]
    for number, order, dtype in slices.sliced(
        cases,
        lambda cases: [case for case in cases if case[0] % 2 == 0 and case[1:] == ORDERS_AND_DTYPES[case[0] // 2 % 4]],
    ):
        with subtests.test(model=number, order=order, dtype=dtype):
            assert_nothing_blamed(number, order, dtype)


def assert_nothing_blamed(number: int, order: int, dtype: str) -> None:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cast(RIGHT[number](tf.cast(x, tf.float64)), dtype)
        return tape.gradient(y, x)

    def second(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(gradient(x))
        return tape.gradient(y, x)

    x = tf.constant(NUMBERS.normal(size=(4, 3)), dtype)
    record = recorded(gradient if order == 1 else second, [x])
    assert record.error is None
    found = blame(record, record.derivatives[-1], x)
    assert found.culprit is None
    assert found.looked_at > 0


def test_in_a_py_function() -> None:
    def f(x: Any) -> Any:
        y = tf.py_function(lambda a: tf.math.cumprod(tf.sinh(a), -1), [x], tf.float64)
        return tf.reduce_sum(tf.tanh(y))

    for one in (f, tf.function(f)):
        diagnosis = diagnosis_of(check(one, WITH_ZEROS))
        assert diagnosis.place is not None
        assert diagnosis.place.operation == "Cumprod"
        assert "tf.py_function(lambda a: tf.math.cumprod" in diagnosis.place.code


class Cumulated(tf.Module):  # type: ignore[misc]
    @tf.function(input_signature=[tf.TensorSpec([3, 3], tf.float64)])
    def __call__(self, x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.math.cumprod(y, -1)), [0, tf.sinh(x)])[1]


def diagnosis_of_saved(folder: Any) -> Diagnosis:
    """The diagnosis of a saved function, whose place is the line that calls it."""
    tf.saved_model.save(Cumulated(), str(folder))
    model = tf.saved_model.load(str(folder))
    diagnosis = diagnosis_of(check(lambda x: tf.reduce_sum(tf.tanh(model(x))), WITH_ZEROS))
    assert diagnosis.place is not None
    assert "model(x)" in diagnosis.place.code
    return diagnosis


def test_the_node_of_a_saved_function_is_blamed(tmp_path: Any) -> None:
    diagnosis = diagnosis_of_saved(tmp_path)
    assert diagnosis.cause is Cause.KNOWN_DEFECT
    assert "cumprod-zero-order1" in diagnosis.evidence


def test_what_cannot_run_node_by_node_is_blamed_as_a_whole(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "walkable", lambda graph: False)
    diagnosis = diagnosis_of_saved(tmp_path)
    assert diagnosis.cause is Cause.NOT_COMPARED
    assert "1 could not be compared (the traced function restored_function_body)" in diagnosis.evidence
