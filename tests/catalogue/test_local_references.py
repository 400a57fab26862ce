"""The references that are local to a point move as the gradient is meant: straight through, or implicitly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from gradcheck.hunt.evaluation import over_points, single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec

Array = np.ndarray[Any, Any]


def nudged(low: float, high: float, steps: int = 2) -> tuple[float, float]:
    """The ends of equal steps of which one end is zero, nearest to the given ends."""
    step = (high - low) / steps
    below = min(range(steps + 1), key=lambda count: abs(low + count * step))
    return -below * step, (steps - below) * step


def clip_to_way(x: Array, _: Array, way: tuple[float, float, int, bool]) -> Array:
    """Narrow ranges leave out the lowest of all values."""
    low, high, bits, narrow = way
    return np.clip(x, *nudged(low, high, 2**bits - (2 if narrow else 1)))


def clip_to_nudged(
    x: Array, below: Array, high: Array, _: Array, at_below: Array, at_high: Array, bits: int, narrow: bool
) -> Array:
    ends = nudged(-float(at_below), float(at_high), 2**bits - 1 - narrow)
    return np.clip(x, ends[0] - (below - at_below), ends[1] + high - at_high)


def clip_by_channel(
    x: Array, below: Array, high: Array, _: Array, at_below: Array, at_high: Array, **way: Any
) -> Array:
    channels = zip(np.moveaxis(x, -1, 0), below, high, at_below, at_high, strict=True)
    clipped = [
        clip_to_nudged(plane, low, top, plane, at_low, at_top, **way) for plane, low, top, at_low, at_top in channels
    ]
    return np.stack(clipped, axis=-1)


def passed_through(x: Array, _: Array, **_ways: Any) -> Array:
    return x


def clip_to_range(x: Array, _: Array, signed: bool, **_ways: Any) -> Array:
    return np.clip(x, -1.0 * signed, 1.0)


def whole(weights: Array, axis: int) -> Array:
    """Weights as whole numbers up to 127 over a scale of each column or row."""
    step = (np.abs(weights).max(axis, keepdims=True) + 1e-7) / 127
    return np.round(weights / step) * step


def waves(*sizes: int) -> Array:
    return np.sin(1.0 + np.arange(np.prod(sizes))).reshape(sizes)


def by_table(x: Array, _: Array, tied: bool) -> Array:
    table = whole(waves(4, x.shape[-1]), 1).T if tied else whole(waves(x.shape[-1], 4), 0)
    return np.asarray(x @ table)


# What the gradient differentiates, given the arguments and those at the unperturbed point; and half a step.
MEANT: dict[str, tuple[Callable[..., Array], float]] = {
    "fake_quant_with_min_max_args": (clip_to_way, 0.375),
    "fake_quant_with_min_max_vars": (clip_to_nudged, 1.0),
    "fake_quant_per_channel": (clip_by_channel, 1.0),
    "quantize_and_dequantize_v1": (passed_through, 1 / 254),
    "quantize_and_dequantize_v2": (passed_through, 1 / 254),
    "quantize_and_dequantize_v3": (passed_through, 1 / 254),
    "quantize_and_dequantize_of_own_range": (passed_through, 1 / 254),
    "quantize_and_dequantize_v2_of_own_range": (passed_through, 1 / 254),
    "quantize_and_dequantize_v3_of_own_range": (passed_through, 1 / 254),
    "grad_pass_through": (lambda x, _: x, 0.5),
    "quantize_and_dequantize_v4": (clip_to_range, 1 / 127),
    "keras_int8_dense": (lambda x, _: x @ whole(waves(x.shape[-1], 2), 0) + waves(2), 0.02),
    "keras_int8_einsum_dense": (lambda x, _: x @ whole(waves(2, x.shape[-1]), 1).T, 0.02),
    "keras_int8_reversible_embedding": (by_table, 0.02),
    "keras_float8_dense": (lambda x, _: x @ waves(x.shape[-1], 2) + waves(2), 0.5),
}


def projected(x: Array) -> Array:
    """The nearest point of the simplex: less a threshold, which is found by bisection."""
    low, high = x.min(-1, keepdims=True) - 1.0, x.max(-1, keepdims=True)
    for _ in range(100):
        middle = (low + high) / 2
        more = np.maximum(x - middle, 0.0).sum(-1, keepdims=True) > 1.0
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.maximum(x - low, 0.0)


def tversky(x: Array, y: Array, alpha: float, beta: float, axis: Any) -> Array:
    both, too_much, too_little = (np.sum(part, axis) for part in (x * y, x * (1 - y), (1 - x) * y))
    return np.asarray(1 - both / (both + alpha * too_much + beta * too_little + 1e-7))


def probabilities(x: Array, how: str) -> Array:
    exponentials = np.exp(x)
    if how == "sigmoid":
        return np.asarray(exponentials / (1 + exponentials))
    return np.asarray(exponentials / exponentials.sum(-1 if how == "softmax" else 0, keepdims=True))


def binary_loss(x: Array, label: float, how: str) -> Array:
    share, labels = probabilities(x, how), label * waves(*x.shape) ** 2
    return np.asarray(-np.mean(labels * np.log(share) + (1 - labels) * np.log(1 - share), axis=-1))


def loss_of_classes(x: Array, label: float, how: str) -> Array:
    share, labels = probabilities(x, how), probabilities(label * waves(*x.shape), "softmax")
    share = share / share.sum(-1, keepdims=True)
    return np.asarray(-np.sum(labels * np.log(share), axis=-1))


DOCUMENTED: dict[str, Callable[..., Array]] = {
    "keras_add": lambda x, y: x + y,
    "keras_binary_crossentropy_of_activation": binary_loss,
    "keras_categorical_crossentropy_of_activation": loss_of_classes,
    "keras_sparsemax": projected,
    "keras_tversky": tversky,
}
"""Functions as Keras documents them, from which its values differ in places."""


def gamma(z: Any, shape: Any) -> Any:
    return mpmath.gammainc(shape, 0, z, regularized=True)


def truncated_normal(z: Any, mean: Any, deviation: Any, low: Any, high: Any) -> Any:
    at, bottom, top = (mpmath.ncdf((place - mean) / deviation) for place in (z, low, high))
    return (at - bottom) / (top - bottom)


DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    "stateless_gamma": gamma,
    "stateless_gamma_v2": gamma,
    "stateless_truncated_normal": truncated_normal,
    "stateless_truncated_normal_of_bounds": lambda z, low, high: truncated_normal(z, 0.5, 1.5, low, high),
}


@pytest.mark.parametrize(
    ("family", "names"), [("quantization", set(MEANT)), ("random (implicit reparam)", set(DISTRIBUTIONS))]
)
def test_every_local_reference_is_tested(family: str, names: set[str]) -> None:
    assert {spec.name for spec in CATALOGUE.values() if spec.family == family} == names
    assert all(CATALOGUE[name].reference for name in names)


def test_row_0_is_the_operation(sampler: Any, subtests: pytest.Subtests) -> None:
    for name in sorted({**MEANT, **DISTRIBUTIONS, **DOCUMENTED}):
        with subtests.test(name):
            assert_row_0(CATALOGUE[name], sampler)


def assert_row_0(spec: OpSpec, sampler: Any) -> None:
    for example in sampler.generic(spec, each=2):
        points = [tf.constant(np.stack([x, x * 0.875])) for x in example.arguments]
        rows = over_points(spec, reference=True)(*points, **example.attributes).numpy()
        value = single(spec)(*map(tf.constant, example.arguments), **example.attributes).numpy()
        np.testing.assert_allclose(rows[0], value, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", sorted(MEANT))
def test_quantised_values_move_straight_through(name: str, sampler: Any) -> None:
    spec, (meant, half_step) = CATALOGUE[name], MEANT[name]
    for example in sampler.generic(spec, each=2):
        centre = example.arguments
        rows = [np.stack([x, x + 0.01, x - 0.3]) for x in centre]
        values = over_points(spec, reference=True)(*map(tf.constant, rows), **example.attributes).numpy()
        right = np.stack([meant(*(row[i] for row in rows), *centre, **example.attributes) for i in range(3)])
        np.testing.assert_allclose(values - values[0], right - right[0], rtol=0, atol=1e-12)
        if np.all(np.abs(centre[0]) < 1) and (np.all(centre[0] > 0) or example.attributes.get("signed", True)):
            assert np.all(np.abs(values[0] - right[0]) <= half_step + 1e-6)


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_reference_moves_as_what_is_documented(name: str, sampler: Any) -> None:
    spec = CATALOGUE[name]
    for example in sampler.generic(spec, each=2):
        rows = [np.stack([x, 0.875 * x, 0.5 * x]) for x in example.arguments]
        values = over_points(spec, reference=True)(*map(tf.constant, rows), **example.attributes).numpy()
        points = [[row[i] for row in rows] for i in range(3)]
        right = np.stack([DOCUMENTED[name](*point, **example.attributes) for point in points])
        np.testing.assert_allclose(values - values[0], right - right[0], rtol=0, atol=1e-12)


OUTSIDE = np.array([1.01, 1.5, 7.0, 1e5, -1.01, -1.5, -7.0, -1e5])


@pytest.mark.parametrize(("name", "meant"), [(f"quantize_and_dequantize_v{n}", float(n != 4)) for n in (2, 3, 4)])
def test_outside_of_its_range_a_quantised_value_rests_and_the_gradient_is_the_documented_one(
    name: str, meant: float
) -> None:
    """The documentation of tf.quantization.quantize_and_dequantize_v2 calls passing through outside V1's behaviour.

    It is that of the raw operations V2 and V3, to be had of V4 by tf.grad_pass_through.
    """
    x, spec = tf.constant(OUTSIDE), CATALOGUE[name]
    ways = {"signed": True, "narrow": False} | ({} if "v3" in name else {"rounding": "HALF_TO_EVEN"})
    quantized = partial(single(spec), **ways)
    passed = tf.grad_pass_through(quantized)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value, through = quantized(x), passed(x)
    np.testing.assert_allclose(value.numpy(), np.where(OUTSIDE > 0, 1.0, -128 / 127), rtol=1e-14)
    np.testing.assert_array_equal(value.numpy(), through.numpy())
    np.testing.assert_array_equal(tape.gradient(value, x).numpy(), np.full(OUTSIDE.shape, meant))
    np.testing.assert_array_equal(tape.gradient(through, x).numpy(), np.ones(OUTSIDE.shape))
    pair = tf.constant(np.stack([OUTSIDE, OUTSIDE + 2.0**-8]))
    step = over_points(spec, reference=True)(pair, **ways).numpy()
    np.testing.assert_allclose((step[1] - step[0]) * 2**8, np.full(OUTSIDE.shape, meant), atol=1e-6)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_samples_move_by_implicit_reparametrisation(name: str, sampler: Any) -> None:
    spec, distribution = CATALOGUE[name], DISTRIBUTIONS[name]
    for example in sampler.generic(spec):
        if not np.size(example.arguments[0]):
            continue
        sample = single(spec)(*map(tf.constant, example.arguments), **example.attributes).numpy()
        for position in range(spec.arity):
            slopes = _slopes(over_points(spec, reference=True), example, position)
            right = np.empty(np.shape(sample))
            for place in np.ndindex(right.shape):
                parameters = [float(x[place]) for x in example.arguments]
                right[place] = _implicit(distribution, float(sample[place]), parameters, position)
            np.testing.assert_allclose(slopes, right, rtol=1e-8, atol=1e-10)


def _slopes(reference: Callable[..., Any], example: Any, position: int, step: float = 1e-3) -> Array:
    """The derivative of every element in its own parameter, by five points."""
    steps = np.array([0.0, 1.0, -1.0, 2.0, -2.0]) * step
    rows = [np.stack([x] * len(steps)) for x in example.arguments]
    rows[position] = np.stack([example.arguments[position] + h for h in steps])
    _, up, down, up2, down2 = reference(*map(tf.constant, rows), **example.attributes).numpy()
    return np.asarray((8 * (up - down) - (up2 - down2)) / (12 * step))


def _implicit(distribution: Callable[..., Any], z: float, parameters: list[float], position: int) -> float:
    """-(dF/da) / (dF/dz), in 30 digits."""

    def at(value: Any) -> Any:
        return distribution(z, *parameters[:position], value, *parameters[position + 1 :])

    with mpmath.workdps(30):
        density = mpmath.diff(lambda value: distribution(value, *parameters), z)
        return float(-mpmath.diff(at, parameters[position]) / density)
