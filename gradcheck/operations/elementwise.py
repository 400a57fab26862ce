"""Functions of each element: elementary, special, of two arguments that broadcast (`math`), activations (`nn`)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gradcheck.operations.distances import at, at_integers, at_zero, between, from_multiples, second_at_zero
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import alike, axes, broadcasting, ranked
from gradcheck.operations.spec import BOOL, NONNEGATIVE, POSITIVE, REALS, Formula, Interval
from gradcheck.operations.special_sets import (
    LARGE,
    OVER_5000,
    ROW_FOR_MANY,
    SECOND_FLOAT32_OVERFLOW,
    SECOND_OVERFLOW,
    UNEQUAL_PAIR,
)
from gradcheck.typing import Array

_math = partial(operation, "math")
_pair = partial(_math, others=alike)
_binary = partial(_math, broadcasts=True, shapes=broadcasting)
_nn = partial(operation, "nn")
_over_rows = partial(_nn, when=lambda shape: len(shape) > 1, starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)))
UNIT = Interval(-1.0, 1.0)


def _at_other_integers(x: Array) -> Array:
    """Distances of round(x) * x and its like from jump discontinuities: at all integers but zero."""
    return np.where(np.round(x) == 0, np.inf, at_integers(x))


def _at_other_multiples(x: Array, y: Array) -> Array:
    """Distances of floor(x / y) * x from jump discontinuities: where x is a multiple of y other than zero."""
    distances = from_multiples(x, y)
    with np.errstate(all="ignore"):
        return np.where((y != 0) & (np.round(x / y) == 0), np.inf, distances)


def _at_zero_of_each_quotient(x: Array, y: Array) -> Array:
    return np.asarray(np.abs(np.broadcast_arrays(x, y)[0]))


def _at_zero_twice(x: Array, **_attributes: object) -> Array:
    """Of x and of -x, each cut off below zero: at zero both kink, and the derivative is 0 on either side of neither."""
    return np.asarray(np.abs(np.stack([x, -x])))


def _from_half_integers(x: Array) -> Array:
    return at_integers(x + 0.5)


def _near_its_domain(form: Formula) -> Formula:
    """The operation for points of at least -1e4.

    The kernels of zeta and polygamma, the latter a gradient of lgamma and digamma, sum a term for each unit by which an
    argument lies below 9. One of -4e9, where the steps of a sample can lead, takes minutes.
    """
    return lambda x, *others, **ways: form(tf.maximum(x, -1e4), *others, **ways)


BELOW_ZERO = Interval(-64.0)
"""Where those kernels are quick."""

_of_gamma = partial(_math, batching=_near_its_domain)


def _from_poles_of_gamma(x: Array, **_attributes: object) -> Array:
    return np.where(x > 0, x, at_integers(x))


def _from_poles_of_tan(x: Array) -> Array:
    return np.asarray(math.pi * at_integers(x / math.pi + 0.5))


ELEMENTARY = (
    _math("sin", lambda x: tf.sin(x), "Sin"),
    _math("square", lambda x: tf.square(x), "Square"),
    _math("negative", lambda x: -x, "Neg"),
    _math("exp", lambda x: tf.exp(x), "Exp"),
    _math("cos", lambda x: tf.cos(x), "Cos"),
    _math("tanh", lambda x: tf.tanh(x), "Tanh"),
    _math("sigmoid", lambda x: tf.sigmoid(x), "Sigmoid"),
    _math("log", lambda x: tf.math.log(x), "Log", POSITIVE),
    _math("sqrt", lambda x: tf.sqrt(x), "Sqrt", NONNEGATIVE, singular=at_zero),
    _math("abs", lambda x: tf.abs(x), "Abs", kinks=at_zero),
    _math("reciprocal", lambda x: tf.math.reciprocal(x), "Reciprocal", singular=at_zero),
    _math("inv", lambda x: tf.raw_ops.Inv(x=x), "Inv", singular=at_zero),
    _math("rsqrt", lambda x: tf.math.rsqrt(x), "Rsqrt", POSITIVE),
    _math("expm1", lambda x: tf.math.expm1(x), "Expm1"),
    _math("log1p", lambda x: tf.math.log1p(x), "Log1p", Interval(-1.0)),
    _math("tan", lambda x: tf.tan(x), "Tan", singular=_from_poles_of_tan),
    _math("sinh", lambda x: tf.sinh(x), "Sinh"),
    _math("cosh", lambda x: tf.cosh(x), "Cosh"),
    _math("asin", lambda x: tf.asin(x), "Asin", UNIT),
    _math("acos", lambda x: tf.acos(x), "Acos", UNIT),
    _math("atan", lambda x: tf.atan(x), "Atan"),
    _math("asinh", lambda x: tf.asinh(x), "Asinh"),
    _math("acosh", lambda x: tf.acosh(x), "Acosh", Interval(1.0)),
    _math("atanh", lambda x: tf.atanh(x), "Atanh", UNIT),
    _math("power", lambda x, *, exponent: x**exponent, "Pow", exponent=(2.0, 3.0, 1.0, 0.0)),
    _math("cast", lambda x: tf.cast(tf.cast(x, tf.complex128), tf.float64), "Cast"),
    _math("add_n", lambda x: tf.add_n([x, x * x, x]), "AddN"),
    _math("clip", lambda x: tf.clip_by_value(x, -1.0, 1.0), "Maximum Minimum", kinks=at(-1.0, 1.0)),
    _math(
        "clip_by_value",
        lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=np.float64(-1.0), clip_value_max=np.float64(1.0)),
        kinks=at(-1.0, 1.0),
    ),
    _math(
        "clip_between",
        lambda x, y, z: tf.raw_ops.ClipByValue(t=x, clip_value_min=y, clip_value_max=y + 2.0 + tf.tanh(z)),
        "ClipByValue",
        batched=lambda x, y, z: tf.clip_by_value(x, y, y + 2.0 + tf.tanh(z)),
        broadcasts=True,
        others=lambda shape: [(shape, shape), ((), ())],
        kinks=lambda x, low, width: np.abs(np.stack(np.broadcast_arrays(x - low, x - low - 2.0 - np.tanh(width)))),
    ),
    _math("sign", lambda x: tf.sign(x) * x, "Sign", kinks=at_zero),
    _math("floor", lambda x: tf.floor(x) * x, "Floor", kinks=at_zero, singular=_at_other_integers),
    _math("ceil", lambda x: tf.math.ceil(x) * x, "Ceil", kinks=at_zero, singular=_at_other_integers),
    _math("round", lambda x: tf.round(x) * x, "Round", singular=_from_half_integers),
    _math("rint", lambda x: tf.math.rint(x) * x, "Rint", singular=_from_half_integers),
)


def _from_negative_axis(y: Array, x: Array) -> Array:
    """Where angles jump, and the origin."""
    return np.where(x > 0, np.hypot(x, y), np.abs(y))


BINARY = (
    _binary("add", lambda x, y: x + y, "AddV2", special=(ROW_FOR_MANY,)),
    _binary("mul", lambda x, y: x * y, "Mul", special=(ROW_FOR_MANY,)),
    _binary("subtract", lambda x, y: x - y, "Sub", special=(ROW_FOR_MANY,)),
    _binary("divide", lambda x, y: x / y, "RealDiv", singular=second_at_zero),
    _binary("maximum", lambda x, y: tf.maximum(x, y), "Maximum", kinks=between),
    _binary("minimum", lambda x, y: tf.minimum(x, y), "Minimum", kinks=between),
    _binary(
        "squared_difference",
        lambda x, y: tf.math.squared_difference(x, y),
        "SquaredDifference",
        special=(UNEQUAL_PAIR,),
    ),
    _binary("pow", lambda x, y: tf.pow(x, y), "Pow", POSITIVE, REALS),
    _binary("atan2", lambda x, y: tf.atan2(x, y), "Atan2", singular=_from_negative_axis),
    _binary("xlogy", lambda x, y: tf.math.xlogy(x, y), "Xlogy", REALS, POSITIVE),
    _binary("xlog1py", lambda x, y: tf.math.xlog1py(x, y), "Xlog1py", REALS, Interval(-1.0)),
    _binary("xdivy", lambda x, y: tf.math.xdivy(x, y), "Xdivy", singular=second_at_zero),
    _binary("divide_no_nan", lambda x, y: tf.math.divide_no_nan(x, y), "DivNoNan", singular=second_at_zero),
    _binary("multiply_no_nan", lambda x, y: tf.math.multiply_no_nan(x, y), "MulNoNan"),
    _binary("floormod", lambda x, y: tf.math.floormod(x, y), "FloorMod", singular=from_multiples),
    _binary(
        "floordiv",
        lambda x, y: tf.math.floordiv(x, y) * x,
        "FloorDiv",
        kinks=_at_zero_of_each_quotient,
        singular=_at_other_multiples,
    ),
    _binary("legacy_add", lambda x, y: tf.raw_ops.Add(x=x, y=y)),
    _binary("legacy_divide", lambda x, y: tf.raw_ops.Div(x=x, y=y), "Div", singular=second_at_zero),
    _binary("where", lambda x, y: tf.where(x > y, x, y * y), "SelectV2", singular=between),
    _pair("select", lambda x, y: tf.raw_ops.Select(condition=x > 0.5, x=tf.square(x), y=y), singular=at(0.5)),
    _pair("tanh_grad", lambda x, y: tf.raw_ops.TanhGrad(y=x, dy=y)),
    _pair("sigmoid_grad", lambda x, y: tf.raw_ops.SigmoidGrad(y=x, dy=y)),
    _pair("reciprocal_grad", lambda x, y: tf.raw_ops.ReciprocalGrad(y=x, dy=y)),
    _pair("rsqrt_grad", lambda x, y: tf.raw_ops.RsqrtGrad(y=x, dy=y)),
    _pair("sqrt_grad", lambda x, y: tf.raw_ops.SqrtGrad(y=x, dy=y), singular=at_zero),
    _pair("inv_grad", lambda x, y: tf.raw_ops.InvGrad(y=x, dy=y)),
)


UNCHOSEN = (
    _pair("sqrt_unchosen", lambda x, y: tf.where(y > 0, x, tf.sqrt(x)), "SelectV2 Sqrt", NONNEGATIVE, POSITIVE),
    _pair("rsqrt_unchosen", lambda x, y: tf.where(y > 0, x, tf.math.rsqrt(x)), "SelectV2 Rsqrt", NONNEGATIVE, POSITIVE),
    _pair(
        "reciprocal_unchosen",
        lambda x, y: tf.where(y > 0, x, tf.math.reciprocal(x)),
        "SelectV2 Reciprocal",
        REALS,
        POSITIVE,
    ),
)

ACTIVATIONS = (
    _nn("relu", lambda x: tf.nn.relu(x), "Relu", kinks=at_zero),
    _nn("relu6", lambda x: tf.nn.relu6(x), "Relu6", kinks=lambda x: np.minimum(np.abs(x), np.abs(x - 6))),
    _nn("elu", lambda x: tf.nn.elu(x), "Elu", curvature_jumps=at_zero),
    _nn("selu", lambda x: tf.nn.selu(x), "Selu", kinks=at_zero),
    _nn(
        "leaky_relu",
        lambda x, *, alpha: tf.nn.leaky_relu(x, alpha=alpha),
        "LeakyRelu",
        alpha=(0.5, 0.2, 0.0, 2.0, -1.0),
        kinks=at_zero,
    ),
    _nn("softplus", lambda x: tf.nn.softplus(x), "Softplus"),
    _nn("softsign", lambda x: tf.nn.softsign(x), "Softsign", curvature_jumps=at_zero),
    # The gradient of silu is a custom one, of its own.
    _nn(
        "silu",
        lambda x, y: tf.nn.silu(x, beta=y),
        batched=lambda x, y: x * tf.sigmoid(y * x),
        broadcasts=True,
        others=lambda shape: [((),), (shape,)] if math.prod(shape) > 1 else [((),)],
    ),
    _nn("gelu", lambda x, *, approximate: tf.nn.gelu(x, approximate=approximate), "Erfc Tanh", approximate=BOOL),
    _nn(
        "crelu",
        lambda x, *, axis: tf.nn.crelu(x, axis=axis),
        "Relu ConcatV2",
        shapes=ranked,
        axis=axes,
        kinks=_at_zero_twice,
    ),
    _nn("softmax", lambda x: tf.nn.softmax(x), "Softmax", shapes=ranked),
    _nn("log_softmax", lambda x: tf.nn.log_softmax(x), "LogSoftmax", shapes=ranked, terms=1.0),
    _over_rows("softmax_axis", lambda x: tf.nn.softmax(x, axis=-2), "Softmax Transpose"),
    _over_rows("log_softmax_axis", lambda x: tf.nn.log_softmax(x, axis=-2), "LogSoftmax Transpose", terms=1.0),
    _nn(
        "softplus_grad",
        lambda x, y: tf.raw_ops.SoftplusGrad(gradients=x, features=y),
        others=lambda shape: [(shape,)],
        special=(SECOND_FLOAT32_OVERFLOW, SECOND_OVERFLOW),
    ),
)


PARAMETERS = (0.5, 2.0, 1.0)

SPECIAL = (
    _math("erf", lambda x: tf.math.erf(x), "Erf"),
    _math("erfc", lambda x: tf.math.erfc(x), "Erfc"),
    _of_gamma("lgamma", lambda x: tf.math.lgamma(x), "Lgamma", BELOW_ZERO, singular=_from_poles_of_gamma),
    _of_gamma("digamma", lambda x: tf.math.digamma(x), "Digamma", BELOW_ZERO, singular=_from_poles_of_gamma),
    _math("erfinv", lambda x: tf.math.erfinv(x), "Erfinv", UNIT),
    _math("ndtri", lambda x: tf.math.ndtri(x), "Ndtri", Interval(0.0, 1.0)),
    _math("dawsn", lambda x: tf.math.special.dawsn(x), "Dawsn", special=(LARGE,)),
    _math("expint", lambda x: tf.math.special.expint(x), "Expint", POSITIVE),
    _math("spence", lambda x: tf.math.special.spence(x), "Spence", POSITIVE),
    _math("fresnel_cos", lambda x: tf.math.special.fresnel_cos(x), "FresnelCos"),
    _math("fresnel_sin", lambda x: tf.math.special.fresnel_sin(x), "FresnelSin"),
    _math("bessel_i0", lambda x: tf.math.special.bessel_i0(x), "BesselI0"),
    _math("bessel_i0e", lambda x: tf.math.special.bessel_i0e(x), "BesselI0e", kinks=at_zero, special=(LARGE,)),
    _math("bessel_i1", lambda x: tf.math.special.bessel_i1(x), "BesselI1"),
    _math(
        "bessel_i1e", lambda x: tf.math.special.bessel_i1e(x), "BesselI1e", curvature_jumps=at_zero, special=(LARGE,)
    ),
    _math("bessel_j0", lambda x: tf.math.special.bessel_j0(x), "BesselJ0"),
    _math("bessel_j1", lambda x: tf.math.special.bessel_j1(x), "BesselJ1"),
    _math("bessel_k0", lambda x: tf.math.special.bessel_k0(x), "BesselK0", POSITIVE),
    _math("bessel_k0e", lambda x: tf.math.special.bessel_k0e(x), "BesselK0e", POSITIVE, special=(LARGE,)),
    _math("bessel_k1", lambda x: tf.math.special.bessel_k1(x), "BesselK1", POSITIVE),
    _math("bessel_k1e", lambda x: tf.math.special.bessel_k1e(x), "BesselK1e", POSITIVE, special=(LARGE,)),
    _math("bessel_y0", lambda x: tf.math.special.bessel_y0(x), "BesselY0", POSITIVE),
    _math("bessel_y1", lambda x: tf.math.special.bessel_y1(x), "BesselY1", POSITIVE),
    _pair("igamma", lambda x, y: tf.math.igamma(x, y), "Igamma", POSITIVE, special=(OVER_5000,)),
    _pair("igammac", lambda x, y: tf.math.igammac(x, y), "Igammac", POSITIVE, special=(OVER_5000,)),
    _math("igamma_of_x", lambda x, *, a: tf.math.igamma(np.float64(a), x), "Igamma", POSITIVE, a=PARAMETERS),
    _math("igammac_of_x", lambda x, *, a: tf.math.igammac(np.float64(a), x), "Igammac", POSITIVE, a=PARAMETERS),
    _math(
        "betainc",
        lambda x, *, a, b: tf.math.betainc(np.float64(a), np.float64(b), x),
        "Betainc",
        Interval(0.0, 1.0),
        a=PARAMETERS,
        b=PARAMETERS,
    ),
    _math(
        "betainc_of_a",
        lambda x, *, b: tf.math.betainc(x, np.float64(b), np.float64(0.25)),
        "Betainc",
        POSITIVE,
        b=PARAMETERS,
    ),
    # Below 0, zeta is NaN where the exponent is not whole; where it is, it is a polygamma function.
    _of_gamma(
        "zeta", lambda x, *, exponent: tf.math.zeta(np.float64(exponent), x), "Zeta", POSITIVE, exponent=(2.0, 1.5, 3.0)
    ),
    _math("zeta_of_exponent", lambda x, *, q: tf.math.zeta(x, np.float64(q)), "Zeta", Interval(1.0), q=(1.0, 0.5)),
    _of_gamma(
        "polygamma",
        lambda x, *, order: tf.math.polygamma(np.float64(order), x),
        "Polygamma",
        BELOW_ZERO,
        order=(1.0, 2.0, 0.0),
        singular=_from_poles_of_gamma,
    ),
)
