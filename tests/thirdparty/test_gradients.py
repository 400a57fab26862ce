"""Gradients of a project's own functions, as its author would test them."""

import numpy as np
import pytest
import tensorflow as tf

import gradcheck

x = np.array([-1.5, 0.25, 0.75, 2.0])


def attention(query, key, value):
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / np.sqrt(2.0))
    return tf.matmul(weights, value)


@tf.custom_gradient
def softplus(x):
    exponential = tf.exp(x)
    return tf.math.log(1 + exponential), lambda upstream: upstream * (1 - 1 / (1 + exponential))


@tf.custom_gradient
def softplus_without_upstream(x):
    exponential = tf.exp(x)
    return tf.math.log(1 + exponential), lambda upstream: 1 - 1 / (1 + exponential)


def loss(x):
    return tf.reduce_sum(3 * softplus_without_upstream(x))


def test_function():
    random = np.random.default_rng(7)
    gradcheck.assert_close(attention, *random.normal(size=(3, 2, 2)), order=2)


def test_custom_gradient():
    gradcheck.assert_close(softplus, x, order=2)


def test_training_step():
    weights = tf.Variable([[0.5], [-1.0]], dtype=tf.float64)
    features = tf.constant([[1.0, 2.0], [3.0, -1.0]], dtype=tf.float64)
    gradcheck.assert_close(lambda: tf.reduce_mean(tf.square(features @ weights)), variables=[weights])


def test_gradient_by_hand():
    gradcheck.assert_close(lambda x: tf.reduce_sum(tf.sin(x)), x, gradient=np.cos(x))


def test_wrong_gradient_is_noticed():
    with pytest.raises(gradcheck.GradientWrongValue):
        gradcheck.assert_close(loss, x)


def test_wrong_gradient_fails():
    gradcheck.assert_close(loss, x)
