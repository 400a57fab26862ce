"""A gradient in the middle of a training, compared with a few differences of its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import spot_check
from gradcheck.training.spot_walk import SpotWalk


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * tf.cast(1.02, x.dtype)


def test_a_gradient_of_ones_own() -> None:
    weights = tf.Variable([0.5, -1.0, 2.0], dtype=tf.float64)

    def loss() -> tf.Tensor:
        return tf.reduce_sum(tf.sin(weights))

    def times(factor: float) -> Any:
        return lambda: [tf.cos(weights) * factor]

    assert spot_check(loss, weights, lambda: tf.cos(weights)).verdict == "agree"
    assert spot_check(loss, [weights], lambda: [None]).verdict == "mismatch"
    for factor in (1.01, 0.0, -1.0, float("nan")):
        assert spot_check(loss, [weights], times(factor)).verdict == "mismatch", factor


@pytest.mark.parametrize("times", [1.0, 3.0, 1e3])
def test_an_error_as_large_as_the_stated_resolution_does_not_agree(times: float) -> None:
    """Errors of a thousand entries, most of which cancel in the random combinations of the detailed check."""
    weights = tf.Variable(np.linspace(0.5, 1.2, 1000))

    def loss() -> tf.Tensor:
        return tf.reduce_sum(tf.sin(weights))

    right = spot_check(loss, [weights], lambda: [tf.cos(weights)])
    assert right.verdict == "agree"
    found = spot_check(loss, [weights], lambda: [tf.cos(weights) * (1 + times * right.resolution)])
    assert found.verdict != "agree"
    if times == 1.0:
        assert "along one direction the gradient disagrees with the differences" in found.result.orders[1].notes[-1]


@pytest.mark.parametrize("own", [False, True])
def test_a_variable_that_the_loss_does_not_use_hides_no_mismatch(own: bool) -> None:
    weights, idle = tf.Variable([0.5, -1.0], dtype=tf.float64), tf.Variable(2.0)

    def loss() -> tf.Tensor:
        return tf.reduce_sum(scaled_slope(weights))

    gradient = (lambda: [2 - 2 * tf.tanh(weights) ** 2, None]) if own else None
    found = spot_check(loss, [weights, idle], gradient)
    assert [finding.input for finding in found.result.findings] == [f"variables[0] ({weights.name})"]
    assert found.result.orders[1].notes == ()


def test_variables_may_come_one_by_one() -> None:
    held = [tf.Variable([0.5, -1.0], dtype=tf.float64), tf.Variable(2.0, dtype=tf.float64)]
    found = spot_check(lambda: tf.reduce_sum(tf.sin(held[0])) * held[1], (variable for variable in held))
    assert (found.verdict, found.result.orders[1].compared) == ("agree", 3)


def test_a_variable_that_holds_nan_is_not_finite_whatever_its_gradient() -> None:
    weights = tf.Variable([0.5, np.nan])
    found = SpotWalk.of(lambda: tf.reduce_sum(weights), [tf.Variable(1.0)], lambda: [tf.zeros([])]).along()
    assert found.finite
    walk = SpotWalk(lambda: tf.reduce_sum(weights), (weights,), ("weights",), lambda: [tf.zeros(2)])
    assert not walk.along().finite


def test_dropout_without_a_seed_is_held_fixed() -> None:
    tf.random.set_seed(0)
    weights = tf.Variable(tf.ones([20]))
    found = spot_check(lambda: tf.reduce_sum(tf.nn.dropout(weights, 0.5) ** 2), [weights])
    assert found.verdict == "agree", found


def test_what_differs_from_call_to_call_is_said_to() -> None:
    weights, calls = tf.Variable([1.0, 2.0]), [0]

    def loss() -> tf.Tensor:
        calls[0] += 1
        return tf.reduce_sum(weights) * float(calls[0])

    found = spot_check(loss, [weights])
    assert found.verdict == "inconclusive"
    assert found.result.orders[1].reasons == (gradcheck.Reason.NOT_DETERMINISTIC,)
    assert "no direction could be compared" in str(found)


def test_rows_of_steps_on_a_line_share_their_points() -> None:
    weights, points = tf.Variable(np.linspace(-1.0, 1.0, 40)), []

    def loss() -> tf.Tensor:
        points.append(weights.numpy())
        return tf.reduce_sum(tf.sin(weights))

    found = SpotWalk.of(loss, [weights], lambda: 2 * tf.cos(weights)).along(2)
    assert found.verdict == "mismatch"
    # The loss, four values at the start and an ulp from it; on each line 16 points, and four more for the finer
    # stencil.
    assert len(points) == 5 + 2 * (16 + 4)
    assert len({point.tobytes() for point in points[5:]}) == 2 * (16 + 4)


def test_variables_in_a_structure_and_a_variable_twice() -> None:
    v, w, u = tf.Variable([0.5, -1.0]), tf.Variable(2.0), tf.Variable(3.0)

    def loss() -> tf.Tensor:
        return tf.reduce_sum(v**2) + w**2 * u

    def gradient() -> Any:
        return [[2 * v, 2 * w * u], w**2]

    for own in (None, gradient):
        found = spot_check(loss, [[v, w], u], own)
        assert (found.verdict, found.result.orders[1].compared) == ("agree", 4)
    found = spot_check(loss, [[v, w], u], lambda: [[2 * v, w * u], w**2])
    assert [finding.input for finding in found.result.findings] == ["variables[1] (Variable:0)"]
    for own in (None, lambda: [2 * v, 2 * v, 2 * w * u]):
        found = spot_check(loss, [v, v, w], own)
        assert (found.verdict, found.result.orders[1].compared) == ("agree", 3)


def test_what_counts_as_compared_are_entries() -> None:
    weights = tf.Variable(np.arange(1.0, 7.0))
    start = weights.numpy()

    def loss() -> tf.Tensor:
        moved = weights - start  # in the first direction all go the same way
        return tf.reduce_sum(weights) + tf.where(moved[0] * moved[5] < -1e-25, np.nan, tf.constant(0.0, tf.float64))

    order = spot_check(loss, [weights]).result.orders[1]
    assert (order.verdict, order.compared, order.inconclusive) == ("agree", 6, 0)
    assert "along 1 of 2 directions" in order.notes[0]
    order = spot_check(lambda: tf.floor(weights[0]) + 0 * tf.reduce_sum(weights), [weights]).result.orders[1]
    assert (order.verdict, order.compared, order.inconclusive) == ("inconclusive", 0, 6)


@pytest.mark.parametrize("factor", [np.nan, np.inf])
@pytest.mark.parametrize("own", [False, True])
def test_a_loss_that_is_not_finite_is_inconclusive(factor: float, own: bool) -> None:
    weights, calls = tf.Variable([0.5, 2.0]), tf.Variable(0)

    def loss() -> tf.Tensor:
        calls.assign_add(1)
        return tf.reduce_sum(weights**2) * factor

    found = spot_check(loss, [weights], (lambda: 2 * weights) if own else None)
    assert found.verdict == "inconclusive"
    assert (found.result.orders[1].reasons, found.finite) == ((gradcheck.Reason.NOT_FINITE,), own)
    assert (found.result.orders[1].compared, found.result.orders[1].inconclusive) == (0, 2)
    assert f"the loss is {factor}, and {'none' if own else 2} of the 2 entries of its gradient are NaN" in str(found)
    assert "look for NaN in the batch" in str(found)
    assert (weights.numpy().tolist(), int(calls)) == ([0.5, 2.0], 0)


def test_so_are_variables_that_are_not_finite() -> None:
    names = [tf.Variable([1.0, np.nan], name=name) for name in "abcde"]
    found = spot_check(lambda: tf.reduce_sum(names[0]), [tf.Variable(1.0), [*names, names[0]]])
    assert (found.verdict, found.finite) == ("inconclusive", False)
    assert found.result.orders[1].reasons == (gradcheck.Reason.NOT_FINITE,)
    assert "a:0, b:0, c:0 and 2 more hold NaN or infinity, so that there is nothing to compare" in str(found)


WEIGHTS, COMPLEX = tf.Variable([1.0, 2.0]), tf.Variable([1.0 + 2.0j], name="z", dtype=tf.complex64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((WEIGHTS, [WEIGHTS]), "loss is of type ResourceVariable; a function without arguments was expected"),
        ((lambda: WEIGHTS[0], [WEIGHTS], [1.0]), "gradient is of type list; a function without arguments"),
        ((lambda: WEIGHTS, [WEIGHTS]), r"loss returned float32\(2,\); a scalar of a floating type was expected"),
        ((lambda: WEIGHTS[0], [WEIGHTS], list), "gradient returned 0 values for 1 variables; expected one for each"),
        (
            (lambda: WEIGHTS[0], [WEIGHTS], lambda: [1.0]),
            r"has the shape \(\); that of the variable was expected, \(2,\)",
        ),
        ((lambda: WEIGHTS[0], [1.0]), "is of type float; a tf.Variable was expected"),
        (
            (lambda: WEIGHTS[0], [WEIGHTS, COMPLEX]),
            r"variables\[1\] \(z:0\) has the dtype complex64; real variables .* use gradcheck.check\(loss, variables=",
        ),
    ],
)
def test_bad_input_is_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        spot_check(*arguments)


@pytest.mark.parametrize("directions", [0, 1.5, True])
def test_so_is_a_number_of_directions(directions: Any) -> None:
    with pytest.raises(ValueError, match=f"directions was {directions!r}; an integer of at least 1 was expected"):
        spot_check(lambda: WEIGHTS[0], [WEIGHTS], directions=directions)


def test_of_a_direction_that_is_wrong_both_numbers_are_told() -> None:
    """In the second direction, which does not move all elements alike, waves would hide errors of 5 %."""
    weights = tf.Variable(np.arange(1.0, 7.0))
    start = weights.numpy()

    def loss() -> tf.Tensor:
        moved = weights - start
        waves = tf.where(moved[0] * moved[5] < 0, 1e-4 * tf.sin(1e6 * moved[0]) ** 2, 0.0)
        return tf.reduce_sum(weights**2) + waves

    found = spot_check(loss, [weights], lambda: 2.002 * weights)
    assert found.verdict == "mismatch"
    assert found.error == pytest.approx(1e-3, rel=0.01)
    assert found.resolution < 1e-9
