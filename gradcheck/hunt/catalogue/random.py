"""Samples, differentiated in their parameters (family `random (implicit reparam)`).

With F the distribution function and z0 the sample at the unperturbed parameters a0 (row 0), the sample moves so that
F(z; a) stays: the reference is its linearisation z0 - (F(z0; a) - F(z0; a0)) / F'(z0; a0) (Figurnov, Mohamed and Mnih,
"Implicit reparameterization gradients", 2018, equation 6). It is right at first order only.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.opspec import Interval

# The references are linear, and RandomGammaGrad has no registered gradient.
_random = partial(operation, "random (implicit reparam)", looped=True, orders=(1,))
_vector = partial(_random, shapes=at_least(1), starts=((2,), (1,), (3,)))


def moved_gamma_sample(z: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
    a0 = a[:1]
    slope = tf.exp(tf.math.lgamma(a0) + z - (a0 - 1.0) * tf.math.log(z))
    return z + (tf.math.igamma(a0, z) - tf.math.igamma(a, z)) * slope


def truncated_normal(mean: tf.Tensor, deviation: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_parameterized_truncated_normal(mean.shape, [1, 2], mean, deviation, low, high)


def normal_distribution(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * tf.math.erfc(-x / np.sqrt(2))


def truncated_distribution(
    z: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> tf.Tensor:
    at, bottom, top = (normal_distribution((place - mean) / deviation) for place in (z, low, high))
    return (at - bottom) / (top - bottom)


def moved_normal_sample(mean: tf.Tensor, deviation: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    m, s, a, b = mean[:1], deviation[:1], low[:1], high[:1]
    z = truncated_normal(mean[0], deviation[0], low[0], high[0])[tf.newaxis]
    change = truncated_distribution(z, mean, deviation, low, high) - truncated_distribution(z, m, s, a, b)
    inside = s * (normal_distribution((b - m) / s) - normal_distribution((a - m) / s))
    return z - change * (inside * tf.exp(0.5 * ((z - m) / s) ** 2) * np.sqrt(2 * np.pi))


BETWEEN_BOUNDS = "(tf.zeros_like({0}) + 0.5, tf.zeros_like({0}) + 1.5, {0}, {1})"

RANDOM = (
    _random(
        "stateless_gamma",
        "tf.random.stateless_gamma({0}.shape, [1, 2], {0}, dtype=tf.float64)",
        "StatelessRandomGammaV3",
        Interval(0.5, 8.0),
        reference="moved_gamma_sample("
        "tf.random.stateless_gamma({0}[0].shape, [1, 2], {0}[0], dtype=tf.float64)[tf.newaxis], {0})",
    ),
    _random(
        "stateless_gamma_v2",
        "tf.raw_ops.StatelessRandomGammaV2(shape={0}.shape, seed=[1, 2], alpha={0})",
        "StatelessRandomGammaV2",
        Interval(0.5, 8.0),
        reference="moved_gamma_sample("
        "tf.raw_ops.StatelessRandomGammaV2(shape={0}[0].shape, seed=[1, 2], alpha={0}[0])[tf.newaxis], {0})",
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
        f"truncated_normal{BETWEEN_BOUNDS}",
        "StatelessParameterizedTruncatedNormal",
        Interval(-4.0, -1.0),
        Interval(1.0, 4.0),
        others=alike,
        reference=f"moved_normal_sample{BETWEEN_BOUNDS}",
    ),
)
