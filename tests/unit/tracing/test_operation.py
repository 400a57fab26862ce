"""An operation by itself: eagerly and in a graph, as it was and in float64, and the tensors that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.tracing.operation import CannotRunError, Operation, widened
from gradcheck.tracing.record import RecordedOperation
from gradcheck.tracing.recorder import recorded

X = tf.constant([[0.5, -1.0], [2.0, 0.25]])

COMPUTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "one dtype": ("Tanh", tf.tanh),
    "a setting": ("MatMul", lambda x: tf.matmul(x, x, transpose_a=True)),
    "a list of tensors": ("ConcatV2", lambda x: tf.concat([x, x], 1)),
    "a list of dtypes": ("IdentityN", lambda x: tf.raw_ops.IdentityN(input=[x, tf.constant([1, 2])])),
    "several outputs": ("Split", lambda x: tf.split(x, 2)),
    "an empty list": ("Squeeze", tf.squeeze),
    "complex numbers": ("FFT", lambda x: tf.signal.fft(tf.cast(x, tf.complex64))),
}


def forms(name: str) -> tuple[RecordedOperation, Operation]:
    """An operation as a run recorded it, and as the graph of the same code defines it."""
    kernel, compute = COMPUTED[name]
    (one,) = [one for one in recorded(compute, [X]).operations if one.name == kernel]
    graph = tf.function(compute, autograph=False).get_concrete_function(tf.TensorSpec([2, 2])).graph
    (op,) = [op for op in graph.get_operations() if op.type == kernel]
    return one, Operation.of(op.node_def)


@pytest.mark.parametrize("name", COMPUTED)
def test_a_recorded_operation_and_a_node_of_a_graph_are_the_same(name: str) -> None:
    one, other = forms(name)
    for operation in (one.operation, other):
        assert (operation.name, operation.count) == (one.name, len(one.outputs))
        assert [argument.dtype for argument in operation.arguments] == [each.dtype for each in one.inputs]
        for given, expected in zip(operation.run(list(one.inputs)), one.outputs, strict=True):
            np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("name", COMPUTED)
def test_in_float64_every_dtype_of_less_is_another(name: str) -> None:
    one, other = forms(name)
    inputs = [widened(each) for each in one.inputs]
    for operation in (one.operation, other):
        for given, expected in zip(operation.in_float64.run(inputs), one.outputs, strict=True):
            assert given.dtype == widened(expected).dtype
            np.testing.assert_allclose(given, expected, rtol=1e-6)


@pytest.mark.parametrize("name", COMPUTED)
def test_it_becomes_part_of_the_graph_that_is_being_traced(name: str) -> None:
    one, other = forms(name)
    inputs = [widened(each) for each in one.inputs]
    traced = tf.function(lambda *tensors: other.in_float64(tensors), autograph=False)
    for given, expected in zip(traced(*inputs), other.in_float64.run(inputs), strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-15)


def test_a_tape_records_it() -> None:
    one, _ = forms("a setting")
    with tf.GradientTape() as tape:
        tape.watch(X)
        (y,) = one.operation.run([X, X])
    with tf.GradientTape() as other:
        other.watch(X)
        z = tf.matmul(X, X, transpose_a=True)
    np.testing.assert_array_equal(tape.gradient(y, X), other.gradient(z, X))


def test_none_is_a_shape_of_unknown_rank_or_the_default() -> None:
    placed = Operation("PlaceholderWithDefault", 1, ("dtype", tf.float32.as_datatype_enum, "shape", None))
    np.testing.assert_array_equal(placed.run([X])[0], X)
    squeezed = Operation("Squeeze", 1, ("T", tf.float32.as_datatype_enum, "squeeze_dims", None))
    assert squeezed.run([X[None]])[0].shape == [2, 2]


def test_what_calls_functions_does_not_run_by_itself() -> None:
    graph = tf.function(tf.function(tf.sin)).get_concrete_function(X).graph
    (call,) = [op for op in graph.get_operations() if "Call" in op.type]
    with pytest.raises(CannotRunError, match=call.type):
        Operation.of(call.node_def)([X])


def test_arguments_have_names() -> None:
    (one, _), (other, _) = forms("a list of tensors"), forms("a setting")
    assert one.argument_names == ["values[0]", "values[1]", "axis"]
    assert other.argument_names == ["a", "b"]


def test_recorded_operations_run_again() -> None:
    record = recorded(lambda x: tf.concat([tf.cast(x, tf.float32), tf.ones(1)], 0), [tf.constant([0.5, 1.0])])
    joined = next(one for one in record.operations if one.name == "ConcatV2")
    (same,) = joined.rerun(joined.inputs)
    assert same.dtype == tf.float32
    assert same.numpy().tolist() == [0.5, 1.0, 1.0]
    wide = [widened(one) for one in joined.inputs]
    assert joined.rerun(wide, wide=True)[0].dtype == tf.float64
