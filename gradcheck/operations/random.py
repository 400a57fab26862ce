"""Samples, differentiated in their parameters (family `random (implicit reparam)`).

With F the distribution function and z0 the sample at the unperturbed parameters a0 (row 0), the sample moves so that
F(z; a) stays (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018): the reference is the quantile
of z0's share, or Newton's way to it from z0.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import alike, at_least
from gradcheck.operations.spec import Interval

_random = partial(operation, "random (implicit reparam)", looped=True)
_vector = partial(_random, shapes=at_least(1), starts=((2,), (1,), (3,)))


def moved_gamma_sample(z: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
    share = tf.math.igamma(a[:1], z)
    for _ in range(4):  # steps of Newton for the logarithm: an error as large as the change of a, to its 16th power
        slope = tf.exp(tf.math.lgamma(a) + z - a * tf.math.log(z))
        z *= tf.exp((share - tf.math.igamma(a, z)) * slope)
    return z


def truncated_normal(mean: tf.Tensor, deviation: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_parameterized_truncated_normal(mean.shape, [1, 2], mean, deviation, low, high)


def normal_distribution(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * tf.math.erfc(-x / np.sqrt(2))


def moved_normal_sample(mean: tf.Tensor, deviation: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    z = truncated_normal(mean[0], deviation[0], low[0], high[0])
    bottom, top = (normal_distribution((bound - mean) / deviation) for bound in (low, high))
    share = (normal_distribution((z - mean[0]) / deviation[0]) - bottom[0]) / (top[0] - bottom[0])
    quantile = mean + deviation * tf.math.ndtri(bottom + share * (top - bottom))
    return z + (quantile - quantile[:1])


RANDOM = (
    _random(
        "stateless_gamma",
        lambda a: tf.random.stateless_gamma(a.shape, [1, 2], a, dtype=tf.float64),
        "StatelessRandomGammaV3",
        Interval(0.5, 8.0),
        reference=lambda a: moved_gamma_sample(
            tf.random.stateless_gamma(a[0].shape, [1, 2], a[0], dtype=tf.float64)[tf.newaxis], a
        ),
    ),
    _random(
        "stateless_gamma_v2",
        lambda a: tf.raw_ops.StatelessRandomGammaV2(shape=a.shape, seed=[1, 2], alpha=a),
        "StatelessRandomGammaV2",
        Interval(0.5, 8.0),
        reference=lambda a: moved_gamma_sample(
            tf.raw_ops.StatelessRandomGammaV2(shape=a[0].shape, seed=[1, 2], alpha=a[0])[tf.newaxis], a
        ),
    ),
    _vector(
        "stateless_truncated_normal",
        truncated_normal,
        "StatelessParameterizedTruncatedNormal",
        Interval(-1.0, 1.0),
        Interval(0.5, 2.0),
        Interval(-4.0, -1.0),
        Interval(1.0, 4.0),
        others=lambda shape: [(shape,) * 3],
        reference=moved_normal_sample,
    ),
    _vector(
        "stateless_truncated_normal_of_bounds",
        lambda low, high: truncated_normal(tf.zeros_like(low) + 0.5, tf.zeros_like(low) + 1.5, low, high),
        "StatelessParameterizedTruncatedNormal",
        Interval(-4.0, -1.0),
        Interval(1.0, 4.0),
        others=alike,
        reference=lambda low, high: moved_normal_sample(tf.zeros_like(low) + 0.5, tf.zeros_like(low) + 1.5, low, high),
    ),
)
