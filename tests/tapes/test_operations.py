"""The table of operations: values as TensorFlow computes them, gradients compared with differences of the values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.operations import (
    ADD_N,
    FLOATING,
    INTEGER,
    OPERATIONS,
    SIGMOID_GRAD,
    TANH_GRAD,
    ModelTensor,
    NoGradientError,
    Operation,
    broadcast_to,
    first_row,
    matmul,
    sum_to,
)
from gradcheck.hunt.tapes.recording import VALUE, ActiveTapes, Prediction, TapeRecord
from gradcheck.hunt.tapes.tape import gradient

SHAPES = [(2,), (), (2, 2)]
ROUGH = np.array([0.7, -1.3, 0.4, 2.6])
DIFFERENTIABLE = [
    name for name, operation in FLOATING.items() if operation.gradient and name not in ("sign", "remainder")
]


def numbers(shape: tuple[int, ...], dtype: type = np.float64, offset: int = 0) -> np.ndarray:
    size = int(np.prod(shape))
    return np.roll(ROUGH, offset)[:size].reshape(shape).astype(dtype)


def pairs(operation: Operation) -> list[list[np.ndarray]]:
    """Arguments of all compatible shapes."""
    shapes = [(2, 2)] if operation.matrix else SHAPES
    dtype = np.int64 if operation.name in INTEGER else np.float64
    if operation.arity == 1:
        return [[numbers(shape, dtype)] for shape in shapes]
    return [[numbers(a, dtype), numbers(b, dtype, 1)] for a in shapes for b in shapes]


def test_the_value_is_that_of_tensorflow(subtests: pytest.Subtests) -> None:
    for name, operation in OPERATIONS.items():
        with subtests.test(operation=name):
            for arrays in pairs(operation):
                ours = operation.forward(*(array[None] for array in arrays))[0]
                theirs = np.asarray(interpreter.callable_of(name)(*(tf.constant(array) for array in arrays)))
                assert theirs.dtype == ours.dtype
                np.testing.assert_allclose(ours, theirs, rtol=1e-15)


def assert_gradient_is_right(operation: Operation, arrays: list[np.ndarray]) -> None:
    record, sources = TapeRecord(accessed=True), [ModelTensor(array) for array in arrays]
    for source in sources:
        record.watch(source)
    target = ActiveTapes(records=[record]).apply(operation, *sources)
    for source, part in zip(sources, gradient(record, [target], sources, ActiveTapes().apply), strict=True):
        estimate = Prediction(VALUE, part, record, (target,), source, "gradient").estimate()
        assert part is not None
        assert np.all(estimate.conclusive)
        assert np.all(np.abs(part.value - estimate.value) <= estimate.bound)


def test_the_gradient_is_that_of_the_value(subtests: pytest.Subtests) -> None:
    for name in DIFFERENTIABLE:
        with subtests.test(operation=name):
            for arrays in pairs(OPERATIONS[name]):
                assert_gradient_is_right(OPERATIONS[name], arrays)


def test_the_gradients_of_what_only_gradients_use() -> None:
    assert_gradient_is_right(sum_to(()), [numbers((2, 2))])
    assert_gradient_is_right(sum_to((2,)), [numbers((2, 2))])
    assert_gradient_is_right(broadcast_to((2, 2)), [numbers((2,))])
    assert_gradient_is_right(ADD_N, [numbers((2,)), numbers((2,), offset=1)])
    assert_gradient_is_right(first_row(2, batch=False), [numbers((2, 2))])
    assert_gradient_is_right(first_row(2, batch=True), [numbers((2, 2))])
    assert_gradient_is_right(TANH_GRAD, [numbers((2,)), numbers((2,), offset=1)])
    assert_gradient_is_right(SIGMOID_GRAD, [numbers((2,)), numbers((2,), offset=1)])
    for first, second in ((False, True), (True, False), (True, True)):
        assert_gradient_is_right(matmul(first, second), [numbers((2, 2)), numbers((2, 2), offset=1)])


def test_an_operation_without_a_gradient() -> None:
    with pytest.raises(NoGradientError, match="TruncateMod"):
        assert_gradient_is_right(OPERATIONS["remainder"], [numbers((2,))])


def test_a_value_that_differences_do_not_see_is_fixed() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.gradient is None} == {
        name for name, operation in OPERATIONS.items() if operation.fixed and name != "sign"
    }
