"""Uses of TensorFlow's tapes by users: the results, and what gradcheck says about them.

Scenarios A1 to A5 are about what a tape covers, B1 to B5 about several tapes.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Kind, assert_close, check
from gradcheck.result import Cause


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable(1.0, name="x")


@pytest.fixture
def y() -> tf.Variable:
    return tf.Variable(1.0, name="y")


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_a1_the_whole_step_inside_the_tape(x: tf.Variable, traced: bool) -> None:
    optimizer = keras.optimizers.SGD(learning_rate=0.1)
    optimizer.build([x])

    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = x**2
        return tape.gradient(loss, x)

    def step() -> tf.Tensor:
        slope = gradient()
        optimizer.apply_gradients([(slope, x)])
        return slope

    run = tf.function(step) if traced else step
    assert float(run()) == 2.0
    assert float(x) == pytest.approx(0.8)
    for _ in range(100):
        run()
    assert float(x) == pytest.approx(0.0, abs=1e-6)

    x.assign(1.0)
    assert_close(lambda: x**2, variables=[x], order=2)
    assert_close(lambda: x**2, variables=[x], gradient=tf.function(gradient) if traced else gradient, order=2)
    assert float(x) == 1.0


def test_a2_computed_before_the_tape(x: tf.Variable) -> None:
    def gradient() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            loss = s
        return [tape.gradient(loss, x)]

    assert gradient() == [None]
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        keras.optimizers.SGD(0.1).apply_gradients([(gradient()[0], x)])

    (finding,) = check(lambda: x**2, variables=[x], gradient=gradient).findings
    assert (finding.kind, finding.input, finding.autodiff) == (Kind.MISSING, "variables[0] (x:0)", None)
    assert finding.difference == pytest.approx(2.0, rel=1e-3)
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.OUTSIDE_TAPE
    assert finding.diagnosis.lost == pytest.approx(2.0, rel=1e-3)
    assert "a tape around the whole computation gives 2" in finding.diagnosis.evidence
    with pytest.raises(gradcheck.GradientMissing, match="remedy       move `s = x"):
        assert_close(lambda: x**2, variables=[x], gradient=gradient)


def a3(x: Any, y: Any) -> Any:
    s = x**2
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        s = s + 0 * x
        q = y**2
        loss = s + q
    return tape.gradient(loss, [x, y])


def test_a3_a_part_computed_before_the_tape(x: tf.Variable, y: tf.Variable) -> None:
    assert [float(part) for part in a3(x, y)] == [0.0, 2.0]
    optimizer = keras.optimizers.SGD(0.1)
    for _ in range(3):
        optimizer.apply_gradients(zip(a3(x, y), [x, y], strict=True))
    assert float(x) == 1.0
    assert float(y) == pytest.approx(0.8**3)

    y.assign(1.0)
    result = check(lambda: x**2 + y**2, variables=[x, y], gradient=lambda: a3(x, y))
    (finding,) = result.findings
    assert (finding.kind, finding.input, finding.autodiff) == (Kind.PARTIAL, "variables[0] (x:0)", 0.0)
    assert finding.difference == pytest.approx(2.0, rel=1e-3)
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.OUTSIDE_TAPE
    assert finding.diagnosis.lost == pytest.approx(2.0, rel=1e-3)
    assert "a tape around the whole computation gives 2" in finding.diagnosis.evidence
    with pytest.raises(gradcheck.GradientPartial) as caught:
        assert_close(lambda: x**2 + y**2, variables=[x, y], gradient=lambda: a3(x, y))
    assert "remedy       move `s = x**2`" in str(caught.value)


def test_a3_with_tensors_in_float64() -> None:
    (finding,) = check(lambda x, y: x**2 + y**2, 1.0, 1.0, gradient=a3).findings
    assert (finding.kind, finding.input) == (Kind.PARTIAL, "x")
    assert finding.difference == pytest.approx(2.0, rel=1e-10)


def test_a4_none_for_one_of_two(x: tf.Variable, y: tf.Variable) -> None:
    def gradient() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            loss = s + y**2
        return tape.gradient(loss, [x, y])

    lost, kept = gradient()
    assert lost is None
    assert float(kept) == 2.0
    with pytest.warns(UserWarning, match="Gradients do not exist for variables"):
        keras.optimizers.SGD(0.1).apply_gradients([(lost, x), (kept, y)])

    y.assign(1.0)
    (finding,) = check(lambda: x**2 + y**2, variables=[x, y], gradient=gradient).findings
    assert (finding.kind, finding.input) == (Kind.MISSING, "variables[0] (x:0)")
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.OUTSIDE_TAPE


def test_a5_the_tape_widened_to_the_whole(x: tf.Variable, y: tf.Variable) -> None:
    def gradient() -> Any:
        with tf.GradientTape() as tape:
            s = x**2
            s = s + 0 * x
            loss = s + y**2
        return tape.gradient(loss, [x, y])

    assert [float(part) for part in gradient()] == [2.0, 2.0]
    assert_close(lambda: x**2 + y**2, variables=[x, y], gradient=gradient, order=2, inconclusive="raise")


def square_and_log(x: Any) -> Any:
    squares = x**2
    return squares, tf.math.log(squares)


@pytest.mark.parametrize("nested", [False, True], ids=["B1 siblings", "B2 nested"])
@pytest.mark.parametrize(
    ("i", "first", "second"), [(1.0, 2.0, 2.0), (2.0, 4.0, 1.0), (3.0, 6.0, 2 / 3)], ids=["1", "2", "3"]
)
def test_b1_and_b2_two_tapes(nested: bool, i: float, first: float, second: float) -> None:
    def siblings(x: Any) -> Any:
        with tf.GradientTape() as tape1, tf.GradientTape() as tape2:
            tape1.watch(x)
            tape2.watch(x)
            y1, y2 = square_and_log(x)
        return tape1.gradient(y1, x), tape2.gradient(y2, x)

    def within(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y1 = x**2
            y2 = tf.math.log(y1)
        return inner.gradient(y1, x), outer.gradient(y2, x)

    gradients = within if nested else siblings
    x = tf.constant([i, i], tf.float64)
    dy1, dy2 = gradients(x)
    np.testing.assert_allclose(dy1, [first, first], rtol=1e-15)
    np.testing.assert_allclose(dy2, [second, second], rtol=1e-15)
    assert_close(lambda x: square_and_log(x)[0], x, gradient=lambda x: gradients(x)[0], order=2)
    assert_close(lambda x: square_and_log(x)[1], x, gradient=lambda x: gradients(x)[1], order=2)
    assert_close(square_and_log, x, order=2)


def test_b3_asked_twice() -> None:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        tape.gradient(y, x)
        return tape.gradient(y, x)

    with pytest.raises(RuntimeError, match="non-persistent GradientTape"):
        gradient(tf.constant(1.0))
    with pytest.raises(gradcheck.GradientRaises) as caught:
        assert_close(lambda x: x**2, 1.0, gradient=gradient)
    text = str(caught.value)
    assert "RuntimeError: A non-persistent GradientTape can only be used to compute one set of gradients" in text
    assert "open a second tape, or make this one persistent: tf.GradientTape(persistent=True)" in text


def log_square(x: Any) -> Any:
    return tf.math.log(x**2)


@pytest.mark.parametrize("i", [1.0, 2.0, 3.0])
def test_b4_the_second_derivative(i: float) -> None:
    def derivatives(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = log_square(x)
            dy = inner.gradient(y, x)
        return dy, outer.gradient(dy, x)

    x = tf.constant([i, i], tf.float64)
    dy, d2y = derivatives(x)
    np.testing.assert_allclose(dy, [2 / i] * 2, rtol=1e-15)
    np.testing.assert_allclose(d2y, [-2 / i**2] * 2, rtol=1e-14)
    assert_close(log_square, x, order=2)
    assert_close(log_square, x, gradient=lambda x: derivatives(x)[0], order=2)
    assert_close(lambda x: derivatives(x)[0], x, gradient=lambda x: derivatives(x)[1])


def test_b5_the_tapes_swapped() -> None:
    def second(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = log_square(x)
            dy = outer.gradient(y, x)
        return [inner.gradient(dy, x)]

    def first(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = log_square(x)
        return tape.gradient(y, x)

    x = tf.constant([2.0, 2.0], tf.float64)
    assert second(x) == [None]
    (finding,) = check(first, x, gradient=second).findings
    assert (finding.kind, finding.autodiff) == (Kind.MISSING, None)
    assert finding.difference == pytest.approx(-0.5, rel=1e-9)
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.TAKEN_OUTSIDE
    with pytest.raises(gradcheck.GradientMissing, match="the first derivative was taken at test_tape"):
        assert_close(first, x, gradient=second)


def test_b5_a_first_derivative_that_went_through_numpy() -> None:
    def first(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = log_square(x)
        return tf.constant(tape.gradient(y, x).numpy())

    x = tf.constant([2.0, 3.0], tf.float64)
    result = check(log_square, x, gradient=first, order=2)
    assert (result.orders[1].verdict, result.orders[2].verdict) == ("agree", "mismatch")
    assert {(finding.kind, finding.order) for finding in result.findings} == {(Kind.MISSING, 2)}
    causes = {finding.diagnosis.cause for finding in result.findings if finding.diagnosis is not None}
    assert causes == {Cause.NUMPY}
    with pytest.raises(gradcheck.GradientMissing, match=r"where +\S+: return tf.constant\(tape.gradient"):
        assert_close(log_square, x, gradient=first, order=2)
