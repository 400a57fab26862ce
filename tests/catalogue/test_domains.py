"""Domains go as far as operations are defined: far out, where digits are lost, values and slopes are still right.

The oracles are functions of mpmath. A value or a slope may be off by the rounding of what the operation adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import REALS, OpSpec
from tests import slices

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
ROUNDING = 16 * 2.0**-53
SELU = (1.0507009873554804934193349852946, 1.6732632423543772848170429916717)


def exponential_below(scale: float, alpha: float, stretch: float = 1.0) -> Function:
    return lambda x: scale * (x if x > 0 else alpha * mpmath.expm1(x / stretch))


def log_of_sum(*terms: Any) -> Any:
    return mpmath.log(mpmath.fsum(map(mpmath.exp, terms)))


def cross_entropy(*rows: Any) -> Any:
    """The labels are the softmax of the first half of the numbers, the logits the second half."""
    labels, logits = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    shares = [mpmath.exp(label - log_of_sum(*labels)) for label in labels]
    return mpmath.fsum(share * (log_of_sum(*logits) - logit) for share, logit in zip(shares, logits, strict=True))


def log_cosh(x: Any, y: Any) -> Any:
    """Keras subtracts log 2 in float32, which moves the value and no slope."""
    return mpmath.log(2 * mpmath.cosh(x - y)) - float(np.log(np.float32(2)))


def normal_quantile(p: Any) -> Any:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


ONE = ("dawsn",)
"""Their slope is what is left of one."""

BELOW = ((-16.5,), (-30.0,), (-40.0,), (-745.0,), (-1e6,))
BOTH = ((-700.0,), (-50.0,), (-21.0,), (-1.0,), (21.0,), (50.0,), (700.0,))
ABOVE = ((0.01,), (1.0,), (300.0,), (21.0,), (50.0,))
OF_K = slices.sliced(ABOVE, lambda points: points[:3])
"""Between the others, mpmath takes seconds for a derivative of a modified Bessel function of the second kind."""
APART = ((0.0, 9.0), (-20.0, 20.0), (0.0, 50.0), (745.0, 0.0), (1e5, -1e5))
FOUR = ((0.0, 1.0, 0.0, 9.0), (2.0, 0.0, -20.0, 20.0), (30.0, 0.0, 30.0, 0.0), (0.0, 1.0, 745.0, 0.0))

FAR: dict[str, tuple[Function, Sequence[tuple[float, ...]], dict[str, Any]]] = {
    "elu": (exponential_below(1.0, 1.0), BELOW, {}),
    "selu": (exponential_below(*SELU), BELOW, {}),
    "keras_elu": (exponential_below(1.0, 0.5), BELOW, {"alpha": 0.5}),
    "keras_celu": (exponential_below(1.0, 2.0, 2.0), BELOW, {"alpha": 2.0}),
    "bessel_i0": (lambda x: mpmath.besseli(0, x), BOTH, {}),
    "bessel_i1": (lambda x: mpmath.besseli(1, x), BOTH, {}),
    "bessel_i0e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), BOTH, {}),
    "bessel_i1e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), BOTH, {}),
    "bessel_j0": (lambda x: mpmath.besselj(0, x), BOTH, {}),
    "bessel_j1": (lambda x: mpmath.besselj(1, x), BOTH, {}),
    "bessel_k0": (lambda x: mpmath.besselk(0, x), OF_K, {}),
    "bessel_k1": (lambda x: mpmath.besselk(1, x), OF_K, {}),
    "bessel_k0e": (lambda x: mpmath.exp(x) * mpmath.besselk(0, x), OF_K, {}),
    "bessel_k1e": (lambda x: mpmath.exp(x) * mpmath.besselk(1, x), OF_K, {}),
    "bessel_y0": (lambda x: mpmath.bessely(0, x), ABOVE, {}),
    "bessel_y1": (lambda x: mpmath.bessely(1, x), ABOVE, {}),
    "dawsn": (lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x), BOTH, {}),
    "fresnel_cos": (mpmath.fresnelc, BOTH, {}),
    "fresnel_sin": (mpmath.fresnels, BOTH, {}),
    "expint": (mpmath.ei, (*ABOVE, (700.0,)), {}),
    "erfinv": (mpmath.erfinv, ((-0.9995,), (1e-9,), (0.9999,), (1 - 1e-9,)), {}),
    "ndtri": (normal_quantile, ((1e-12,), (1e-5,), (0.5,), (0.9999,), (1 - 1e-9,)), {}),
    "zeta": (lambda q: mpmath.zeta(3, q), (*ABOVE, (1e6,)), {"exponent": 3.0}),
    "polygamma": (lambda x: mpmath.polygamma(2, x), (*ABOVE, (1e6,)), {"order": 2.0}),
    "igamma_of_x": (lambda x: mpmath.gammainc(2, 0, x, regularized=True), ABOVE, {"a": 2.0}),
    "igammac_of_x": (lambda x: mpmath.gammainc(2, x, regularized=True), ABOVE, {"a": 2.0}),
    "log_softmax": (lambda x, y: x - log_of_sum(x, y), APART, {}),
    "softmax_cross_entropy_of_logits": (lambda x, y: log_of_sum(x, y) - x, APART, {"label": 0}),
    "sparse_softmax_cross_entropy": (lambda x, y: log_of_sum(x, y) - x, APART, {"labels": (0,)}),
    "softmax_cross_entropy": (cross_entropy, FOUR, {}),
    "softmax_cross_entropy_over_axis": (cross_entropy, FOUR, {"axis": -1}),
    "keras_logaddexp": (log_of_sum, APART, {}),
    "numpy_logaddexp": (log_of_sum, APART, {}),
    "keras_log_cosh": (log_cosh, APART, {}),
}


def arguments(name: str, point: tuple[float, ...]) -> list[tf.Variable]:
    """The numbers of a point as the arguments of the operation: alone, or in one row for each argument."""
    spec = CATALOGUE[name]
    rows = np.array(point).reshape(spec.arity, -1)
    row = len(rows[0]) > 1 or (len(spec.starts[0]) > 1 and spec.arity > 1)
    return [tf.Variable(one[np.newaxis] if row else one) for one in rows]


def roundings(name: str, point: list[Any], value: Any, slopes: list[Any]) -> tuple[float, float]:
    """By how much the value and the slopes may be off: the rounding of the largest of what makes them.

    That are, of a row of numbers, logarithms as large as these; of a single one, the value and the slope themselves,
    and what rounding the argument makes of either, or rounding the value of a slope that is made of it.
    """
    if len(point) > 1:
        return (ROUNDING * float(max(1, *map(abs, point))),) * 2
    (x,), (slope,) = point, slopes
    curvature = mpmath.diff(FAR[name][0], x, 2)
    of_slope = [value, slope, x * curvature, value * curvature / slope if slope else 0, int(name in ONE)]
    largest = (max(map(abs, terms)) for terms in ([value, slope, x * slope], of_slope))
    of_value, of_slopes = (ROUNDING * float(size) for size in largest)
    return of_value, of_slopes


@pytest.mark.sliced
def test_value_and_slope_are_right_far_out(subtests: pytest.Subtests) -> None:
    for name in FAR:
        with subtests.test(name):
            assert_right_far_out(name)


def assert_right_far_out(name: str) -> None:
    function, points, attributes = FAR[name]
    for point in points:
        inputs = arguments(name, point)
        with tf.GradientTape() as tape:
            # Of a row of logarithms, the first is looked at.
            value = tf.reshape(single(CATALOGUE[name])(*inputs, **attributes), [-1])[0]
        slopes = np.concatenate([np.ravel(slope) for slope in tape.gradient(value, inputs)])
        with mpmath.workdps(40):
            exact = [mpmath.mpf(number) for number in point]
            right, orders = function(*exact), np.eye(len(point), dtype=int).tolist()
            right_slopes = [mpmath.diff(function, exact, tuple(each)) for each in orders]
            of_value, of_slopes = roundings(name, exact, right, right_slopes)
        assert abs(float(value) - float(right)) <= of_value, point
        np.testing.assert_allclose(slopes, np.array(right_slopes, float), rtol=0, atol=of_slopes, err_msg=str(point))


@pytest.mark.parametrize("scale", [0.25, 4.0, 32.0])
def test_exponentials_of_large_matrices_are_right(scale: float) -> None:
    """The slope along E stands in expm([[A, E], [0, A]]), top right (Mathias, "A chain rule", 1996, theorem 2.1)."""
    a, along, weights = np.random.default_rng(3).uniform(-1, 1, (3, 3, 3)) * [[[scale]], [[1.0]], [[1.0]]]
    x = tf.Variable(a)
    with tf.GradientTape() as tape:
        value = single(CATALOGUE["matrix_exponential"])(x)
        total = tf.reduce_sum(weights * value)
    slope = float(np.sum(along * tape.gradient(total, x).numpy()))
    with mpmath.workdps(40):
        both = mpmath.expm(mpmath.matrix(np.block([[a, along], [0 * a, a]]).tolist()))
        right = np.array(both[:3, :].tolist(), dtype=float)
    # Squaring, and the condition of the function, let the rounding grow with the norm.
    allowed = ROUNDING * np.max(np.abs(right)) * max(1.0, np.linalg.norm(a)) * 4
    np.testing.assert_allclose(value.numpy(), right[:, :3], rtol=0, atol=allowed)
    assert abs(slope - np.sum(weights * right[:, 3:])) <= allowed


GAPS = (0.375, 2.625)
"""How far beyond a domain's end it is looked."""
DEFINED_BEYOND = {
    "the kernel, or that of the gradient, sums a term for each unit below 0": ("lgamma", "digamma", "polygamma"),
    "NaN unless the exponent is whole, and then a polygamma function": ("zeta",),
    "kernels in float32, whose gates saturate": (
        *("block_lstm", "block_lstm_v2", "block_lstm_state", "block_lstm_gate"),
        *("block_lstm_peepholes", "block_lstm_v2_peepholes", "block_lstm_clipped"),
    ),
    "what is meant by a pixel is from 0 to 1, or not negative": (
        *("rgb_to_hsv", "ssim", "ssim_multiscale", "keras_ssim", "keras_auto_contrast", "adjust_gamma"),
    ),
    "a root that is not chosen, whose gradient below 0 is NaN all the same": ("sqrt_unchosen", "rsqrt_unchosen"),
    "corners of boxes inside of the image; crops_of_given_boxes goes beyond": (
        "crop_and_resize",
        "crop_and_resize_of_integers",
    ),
    "two ends that have to be apart": ("fake_quant_with_min_max_vars", "fake_quant_per_channel"),
    "parameters of a distribution, whose samples are rejected and drawn again far out": (
        *("stateless_gamma", "stateless_gamma_v2"),
        *("stateless_truncated_normal", "stateless_truncated_normal_of_bounds"),
    ),
    "weights and counts, whose sum must not vanish": (
        *("weighted_moments", "normalize_moments", "keras_weighted_loss", "keras_average", "numpy_average"),
        *("embedding_lookup_sparse_weighted", "embedding_lookup_sparse_of_norm", "safe_embedding_lookup_sparse"),
    ),
    "bisection to a tolerance that large elements make coarse": ("eigh_tridiagonal",),
    "an even function": ("kaiser_window",),
    "the kernel raises at a zero, so that one side is drawn": ("sparse_dense_div",),
    "operators with inverses, which exponentials of more make ill-conditioned": (
        *("circulant_operator", "circulant_operator_measure", "circulant_2d_operator"),
        *("circulant_2d_operator_measure", "circulant_3d_operator", "circulant_3d_operator_measure"),
    ),
    "bands as they are, of which others make ill-conditioned matrices": ("banded_triangular_solve_of_rows",),
    "what is meant by concentrations is positive": ("lbeta",),
    "shares and probabilities, beyond which the loss is cut off or means nothing": (
        *("keras_kl_divergence", "keras_binary_crossentropy", "keras_binary_focal_crossentropy"),
        *("keras_categorical_crossentropy", "keras_categorical_focal_crossentropy"),
        *("keras_sparse_categorical_crossentropy", "keras_generalized_cross_entropy", "keras_dice", "keras_tversky"),
        *("keras_binary_focal_crossentropy_of_soft_labels", "keras_binary_focal_crossentropy_of_logits"),
        "keras_categorical_focal_crossentropy_of_logits",
    ),
    "below the least, a reference counts as the least, as a prediction does": ("keras_squared_logarithmic_error",),
    "products beyond 1 are distances below 0, which are cut off": ("keras_circle", "keras_circle_of_references"),
    "of equal elements the median is odd": ("keras_quantile_of_level",),
    "powers of ten, of which one hides the digits of all others": ("keras_logspace", "numpy_logspace"),
    "bounds have one sign, an attribute": ("keras_geomspace",),
}
"""Where nothing is drawn although the operation is defined there, and why."""
NARROWER = frozenset(chain.from_iterable(DEFINED_BEYOND.values()))


def undefined(spec: OpSpec, example: Any) -> bool:
    """Whether the value or a derivative of an example does not exist."""
    inputs = [tf.Variable(argument) for argument in example.arguments]
    try:
        with tf.GradientTape() as tape:
            value = single(spec)(*inputs, **example.attributes)
        parts = [value, *(part for part in tape.gradient(value, inputs) if part is not None)]
    except (tf.errors.OpError, ValueError, TypeError):
        return True
    return not all(np.all(np.isfinite(tf.convert_to_tensor(part).numpy())) for part in parts)


def beyond(spec: OpSpec, sampler: Any) -> Iterator[tuple[int, list[bool]]]:
    """For each end of the domain of each argument, whether some examples with an element beyond it are undefined."""
    for place in range(spec.arity):
        domain = spec.domain(place)
        for end, sign in ((domain.low, -1), (domain.high, 1)):
            examples = [each for each in sampler.generic(spec) if each.arguments[place].size]
            found = []
            for example, gap in product(examples if np.isfinite(end) else [], GAPS):
                moved = [argument.copy() for argument in example.arguments]
                moved[place].flat[0] = end + sign * gap
                found.append(undefined(spec, replace(example, arguments=tuple(moved))))
            if found:
                yield place, found


def of_every_kind(names: Sequence[str]) -> list[str]:
    """One operation for each reason, and one for each domain that nothing is defined beyond."""
    reasons = {name: why for why, listed in DEFINED_BEYOND.items() for name in listed}
    kinds = {reasons.get(name, frozenset(CATALOGUE[name].domains)): name for name in reversed(names)}
    return list(kinds.values())


@pytest.mark.sliced
def test_nothing_is_defined_beyond_a_domain_but_what_is_listed_with_its_reason(
    sampler: Any, subtests: pytest.Subtests
) -> None:
    for name in slices.sliced(
        (name for name, spec in CATALOGUE.items() if set(spec.domains) != {REALS}), of_every_kind
    ):
        with subtests.test(name):
            defined = {place for place, found in beyond(CATALOGUE[name], sampler) if 2 * sum(found) < len(found)}
            assert bool(defined) is (name in NARROWER), defined
