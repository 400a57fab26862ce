"""Functions in real coordinates, their float64 forms, and points outside of their domains."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import open_function, widened


def test_values_and_pullbacks_in_coordinates() -> None:
    v = tf.Variable([2.0], dtype=tf.float64)
    function = open_function(lambda z, x: (z * tf.cast(x, tf.complex128), x * v), (1 + 2j, 3.0), [v])
    np.testing.assert_array_equal(function.point, [1, 2, 3, 2])
    np.testing.assert_array_equal(function.value(function.point), [3, 6, 6])
    np.testing.assert_array_equal(function.value(np.array([1.0, 1.0, 2.0, 5.0])), [2, 2, 10])
    assert [output.name for output in function.outputs] == ["output 0", "output 1"]
    dz, dx, dv = function.pullbacks(np.array([[0.0, 1.0, 1.0]]))[0]
    # At the values of the last point: variables are assigned.
    assert (complex(dz), dv.numpy().tolist()) == (3j, [3.0])
    assert float(dx) == 2.0 + 2.0


def test_outside_of_the_domain_is_nan() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        if float(x[0]) > 1.5:
            raise ValueError("too far")
        return x[: 1 if float(x[0]) < 0.5 else 2]

    function = open_function(f, (np.ones(2),), None)
    values = function.values(np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]]))
    np.testing.assert_array_equal(values, [[1.0, 2.0], [np.nan, np.nan], [np.nan, np.nan]])


def test_float64_forms() -> None:
    assert widened(open_function(tf.sin, (1.0,), None)) is None
    wide = widened(open_function(tf.sin, (np.float32(1.0),), None))
    assert wide is not None
    assert wide.roundoff == 2.0**-53
    assert wide.value(np.array([1.0]))[0] == np.sin(1.0)
    assert widened(open_function(lambda x: x * tf.constant(2.0), (np.float32(1.0),), None)) is None
    assert widened(open_function(lambda x: tf.cast(tf.sin(x), tf.float32), (np.float32(1.0),), None)) is None
    assert (
        widened(open_function(lambda x: x * 1.0 if x.dtype == tf.float32 else x * 2.0, (np.float32(1),), None)) is None
    )
    assert widened(open_function(lambda x: x, (np.float32(1.0),), tf.Variable(2.0))) is None


def test_names_come_from_the_signature() -> None:
    function = open_function(lambda first, *rest: first * rest[0], (1.0, 2.0), None)
    assert [source.name for source in function.sources] == ["first", "inputs[1]"]
