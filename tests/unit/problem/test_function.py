"""Functions in real coordinates, their float64 forms, and points outside of their domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.numerics.sampling import LinePoints
from gradcheck.problem import function as functions
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.function import Function
from gradcheck.problem.mapped import Mapped
from gradcheck.problem.opening import open_function
from gradcheck.tracing.perturbation import perturbed_gradients
from tests.verdicts import check


def test_values_and_pullbacks_in_coordinates() -> None:
    v = tf.Variable([2.0], dtype=tf.float64)
    function = open_function(lambda z, x: (z * tf.cast(x, tf.complex128), x * v), (1 + 2j, 3.0), [v])
    np.testing.assert_array_equal(function.point, [1, 2, 3, 2])
    np.testing.assert_array_equal(function.value(function.point), [3, 6, 6])
    np.testing.assert_array_equal(function.value(np.array([1.0, 1.0, 2.0, 5.0])), [2, 2, 10])
    assert [output.name for output in function.results] == ["output 0", "output 1"]
    # At the given inputs, whatever was assigned to the variable for the last point.
    gradients = function.gradients(np.array([[0.0, 1.0, 1.0]]))
    np.testing.assert_array_equal(gradients.values, [[0, 3, 2 + 2, 3]])


def test_outside_of_the_domain_is_nan() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        if float(x[0]) > 1.5:
            raise ValueError("too far")
        return x[: 1 if float(x[0]) < 0.5 else 2]

    function = open_function(f, (np.ones(2),), None)
    values = function.values(np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]]))
    np.testing.assert_array_equal(values, [[1.0, 2.0], [np.nan, np.nan], [np.nan, np.nan]])


def test_float64_forms() -> None:
    def wide(f: Any, *inputs: Any, variables: Any = None) -> Function | None:
        return with_float64_form(open_function(f, inputs, variables)).wide

    x = np.float32(1.0)
    assert wide(tf.sin, 1.0) is None
    form = wide(tf.sin, x)
    assert form is not None
    assert form.roundoff == 2.0**-53
    assert form.value(np.array([1.0]))[0] == np.sin(1.0)


def test_values_and_derivatives_at_other_points_are_those_of_the_float64_form() -> None:
    function = with_float64_form(open_function(tf.sin, (np.float32(1.0),), None))
    assert (function.precision, function.roundoff) == (2.0**-24, 2.0**-53)
    points = np.array([[0.1], [0.2]])
    np.testing.assert_array_equal(function.values(points), np.sin(points))
    np.testing.assert_array_equal(function.gradients_at(np.ones(1), points), np.cos(points))
    np.testing.assert_array_equal(function.gradients(np.ones((1, 1))).values, [[np.cos(np.float32(1.0))]])


@pytest.mark.parametrize(
    "x", [np.array([0.5]), np.linspace(0.5, 1.5, 30), np.array([0.5], np.float32)], ids=("one", "many", "float32")
)
def test_every_call_gets_tensors_of_its_own(x: Any) -> None:
    """Bijectors cache what they computed for a tensor, on the tape of that call, and reuse it for the same tensor."""
    kept: dict[Any, Any] = {}

    def f(x: tf.Tensor) -> tf.Tensor:
        return kept.setdefault(x.ref(), tf.math.log(x)) ** 2

    assert check(f, x, order=2).verdict == "agree"


def test_names_come_from_the_signature() -> None:
    function = open_function(lambda first, *rest: first * rest[0], (1.0, 2.0), None)
    assert [source.name for source in function.sources] == ["first", "inputs[1]"]


def test_the_same_points_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "CACHED_BYTES", 70)  # a table and its points have 32
    calls = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(float(x))
        return x**2

    problem = open_function(f, (3.0,), None)
    tables = [np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]]), np.array([[4.0], [5.0]])]
    calls.clear()
    for points in tables[:2] * 2:
        np.testing.assert_array_equal(problem.values(points), points**2)
    assert len(calls) == 4
    for points in tables:
        np.testing.assert_array_equal(problem.values(points), points**2)
    assert len(problem._remembered.latest) == 2


def test_gradients_at_the_same_points_are_taken_once_for_a_cotangent() -> None:
    calls = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return tf.stack([x**2, x**3])

    problem = open_function(f, (3.0,), None)
    points, first, second = np.array([[1.0], [2.0]]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    taken = [problem.gradients_at(one, points) for one in (first, second)]
    calls.clear()
    for one, before in zip((first, second), taken, strict=True):
        np.testing.assert_array_equal(problem.gradients_at(one, points), before)
    assert (len(calls), taken[0][1, 0], taken[1][1, 0]) == (0, 4.0, 12.0)


def test_gradients_beside_the_domain_are_nan() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        if float(x) > 3.5:
            raise ValueError("too far")
        return x**2

    problem = open_function(f, (3.0,), None)
    np.testing.assert_array_equal(problem.gradients_at(np.ones(1), np.array([[1.0], [4.0]])), [[2.0], [np.nan]])
    np.testing.assert_array_equal(problem.products(np.ones(1), np.ones((1, 1)), np.array([4.0])).values, [[np.nan]])


@pytest.mark.parametrize("traced", [False, True])
def test_many_coordinates_are_moved_inside_as_arrays_are(traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, variable = rng.normal(size=(3, 5)), tf.Variable(rng.normal(size=(5, 2)))
    rows = LinePoints.on(
        np.concatenate([x.ravel(), variable.numpy().ravel()]), rng.normal(size=(2, 25)), rng.normal(size=(2, 20))
    )
    calls = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(tf.executing_eagerly())
        return tf.tanh(tf.matmul(x, variable))

    plain = open_function(f, (x,), [variable])
    wanted = plain.values(rows[:]), plain.gradients_at(np.ones(6), rows[:])
    monkeypatch.setattr(functions, "MOVED_BYTES", 0)
    inside = open_function(f, (x,), [variable])
    monkeypatch.setattr(Mapped, "_pays", lambda self, count: traced)
    calls.clear()
    found = inside.values(rows), inside.gradients_at(np.ones(6), rows)
    assert (len(calls) < len(rows)) == traced
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15, atol=0.0)


def test_perturbed_values_are_no_kept_ones() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.sin(x)
        return tape.gradient(value, x)

    problem, points = open_function(f, (3.0,), None), np.linspace(1.0, 2.0, 8)[:, None]
    plain = problem.values(points)
    with perturbed_gradients(0):
        assert np.any(problem.values(points) != plain)
    np.testing.assert_array_equal(problem.values(points), plain)
