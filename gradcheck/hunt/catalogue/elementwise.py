"""Functions of each element: elementary, special, of two arguments that broadcast (`math`), activations (`nn`)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at, at_integers, at_zero, between, from_multiples, second_at_zero
from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.shapes import alike, axes, broadcasting, ranked
from gradcheck.hunt.opspec import BOOL, NONNEGATIVE, POSITIVE, REALS, Array, Interval

_math = partial(operation, "math")
_pair = partial(_math, others=alike)
_binary = partial(_math, broadcasts=True, shapes=broadcasting)
_nn = partial(operation, "nn")
_over_rows = partial(_nn, when=lambda shape: len(shape) > 1, starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)))
UNIT = Interval(-1.0, 1.0)


def _at_other_integers(x: Array) -> Array:
    """Of whole numbers times x, which leap at integers, that at zero does not."""
    return np.where(np.round(x) == 0, np.inf, at_integers(x))


def _at_other_multiples(x: Array, y: Array) -> Array:
    """Of whole numbers of times that y goes into x, times x, which leap where x is a multiple of y but zero."""
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


def _near_its_domain(source: str) -> str:
    """The text for arguments of at least -1e4.

    The kernels of zeta and polygamma, the latter a gradient of lgamma and digamma, sum a term for each unit by which an
    argument lies below 9. One of -4e9, where the steps of a sample can lead, takes minutes.
    """
    return source.replace("{0}", "tf.maximum({0}, -1e4)")


BELOW_ZERO = Interval(-64.0)
"""Where those kernels are quick."""

_of_gamma = partial(_math, batching=_near_its_domain)


def _from_poles_of_gamma(x: Array, **_attributes: object) -> Array:
    return np.where(x > 0, x, at_integers(x))


def _from_poles_of_tan(x: Array) -> Array:
    return np.asarray(math.pi * at_integers(x / math.pi + 0.5))


ELEMENTARY = (
    _math("sin", "tf.sin({0})", "Sin"),
    _math("square", "tf.square({0})", "Square"),
    _math("negative", "-{0}", "Neg"),
    _math("exp", "tf.exp({0})", "Exp"),
    _math("cos", "tf.cos({0})", "Cos"),
    _math("tanh", "tf.tanh({0})", "Tanh"),
    _math("sigmoid", "tf.sigmoid({0})", "Sigmoid"),
    _math("log", "tf.math.log({0})", "Log", POSITIVE),
    _math("sqrt", "tf.sqrt({0})", "Sqrt", NONNEGATIVE, singular=at_zero),
    _math("abs", "tf.abs({0})", "Abs", kinks=at_zero),
    _math("reciprocal", "tf.math.reciprocal({0})", "Reciprocal", singular=at_zero),
    _math("inv", "tf.raw_ops.Inv(x={0})", "Inv", singular=at_zero),
    _math("rsqrt", "tf.math.rsqrt({0})", "Rsqrt", POSITIVE),
    _math("expm1", "tf.math.expm1({0})", "Expm1"),
    _math("log1p", "tf.math.log1p({0})", "Log1p", Interval(-1.0)),
    _math("tan", "tf.tan({0})", "Tan", singular=_from_poles_of_tan),
    _math("sinh", "tf.sinh({0})", "Sinh"),
    _math("cosh", "tf.cosh({0})", "Cosh"),
    _math("asin", "tf.asin({0})", "Asin", UNIT),
    _math("acos", "tf.acos({0})", "Acos", UNIT),
    _math("atan", "tf.atan({0})", "Atan"),
    _math("asinh", "tf.asinh({0})", "Asinh"),
    _math("acosh", "tf.acosh({0})", "Acosh", Interval(1.0)),
    _math("atanh", "tf.atanh({0})", "Atanh", UNIT),
    _math("power", "{0} ** {exponent}", "Pow", exponent=(2.0, 3.0, 1.0, 0.0)),
    _math("cast", "tf.cast(tf.cast({0}, tf.complex128), tf.float64)", "Cast"),
    _math("add_n", "tf.add_n([{0}, {0} * {0}, {0}])", "AddN"),
    _math("clip", "tf.clip_by_value({0}, -1.0, 1.0)", "Maximum Minimum", kinks=at(-1.0, 1.0)),
    _math(
        "clip_by_value",
        "tf.raw_ops.ClipByValue(t={0}, clip_value_min=np.float64(-1.0), clip_value_max=np.float64(1.0))",
        kinks=at(-1.0, 1.0),
    ),
    _math(
        "clip_between",
        "tf.raw_ops.ClipByValue(t={0}, clip_value_min={1}, clip_value_max={1} + 2.0 + tf.tanh({2}))",
        "ClipByValue",
        batched="tf.clip_by_value({0}, {1}, {1} + 2.0 + tf.tanh({2}))",
        broadcasts=True,
        others=lambda shape: [(shape, shape), ((), ())],
        kinks=lambda x, low, width: np.abs(np.stack(np.broadcast_arrays(x - low, x - low - 2.0 - np.tanh(width)))),
    ),
    _math("sign", "tf.sign({0}) * {0}", "Sign", kinks=at_zero),
    _math("floor", "tf.floor({0}) * {0}", "Floor", kinks=at_zero, singular=_at_other_integers),
    _math("ceil", "tf.math.ceil({0}) * {0}", "Ceil", kinks=at_zero, singular=_at_other_integers),
    _math("round", "tf.round({0}) * {0}", "Round", singular=_from_half_integers),
    _math("rint", "tf.math.rint({0}) * {0}", "Rint", singular=_from_half_integers),
)


def _from_negative_axis(y: Array, x: Array) -> Array:
    """Where angles jump, and the origin."""
    return np.where(x > 0, np.hypot(x, y), np.abs(y))


BINARY = (
    _binary("add", "{0} + {1}", "AddV2"),
    _binary("mul", "{0} * {1}", "Mul"),
    _binary("subtract", "{0} - {1}", "Sub"),
    _binary("divide", "{0} / {1}", "RealDiv", singular=second_at_zero),
    _binary("maximum", "tf.maximum({0}, {1})", "Maximum", kinks=between),
    _binary("minimum", "tf.minimum({0}, {1})", "Minimum", kinks=between),
    _binary("squared_difference", "tf.math.squared_difference({0}, {1})", "SquaredDifference"),
    _binary("pow", "tf.pow({0}, {1})", "Pow", POSITIVE, REALS),
    _binary("atan2", "tf.atan2({0}, {1})", "Atan2", singular=_from_negative_axis),
    _binary("xlogy", "tf.math.xlogy({0}, {1})", "Xlogy", REALS, POSITIVE),
    _binary("xlog1py", "tf.math.xlog1py({0}, {1})", "Xlog1py", REALS, Interval(-1.0)),
    _binary("xdivy", "tf.math.xdivy({0}, {1})", "Xdivy", singular=second_at_zero),
    _binary("divide_no_nan", "tf.math.divide_no_nan({0}, {1})", "DivNoNan", singular=second_at_zero),
    _binary("multiply_no_nan", "tf.math.multiply_no_nan({0}, {1})", "MulNoNan"),
    _binary("floormod", "tf.math.floormod({0}, {1})", "FloorMod", singular=from_multiples),
    _binary(
        "floordiv",
        "tf.math.floordiv({0}, {1}) * {0}",
        "FloorDiv",
        kinks=_at_zero_of_each_quotient,
        singular=_at_other_multiples,
    ),
    _binary("legacy_add", "tf.raw_ops.Add(x={0}, y={1})"),
    _binary("legacy_divide", "tf.raw_ops.Div(x={0}, y={1})", "Div", singular=second_at_zero),
    _binary("where", "tf.where({0} > {1}, {0}, {1} * {1})", "SelectV2", singular=between),
    _pair("select", "tf.raw_ops.Select(condition={0} > 0.5, x=tf.square({0}), y={1})", singular=at(0.5)),
    _pair("tanh_grad", "tf.raw_ops.TanhGrad(y={0}, dy={1})"),
    _pair("sigmoid_grad", "tf.raw_ops.SigmoidGrad(y={0}, dy={1})"),
    _pair("reciprocal_grad", "tf.raw_ops.ReciprocalGrad(y={0}, dy={1})"),
    _pair("rsqrt_grad", "tf.raw_ops.RsqrtGrad(y={0}, dy={1})"),
    _pair("sqrt_grad", "tf.raw_ops.SqrtGrad(y={0}, dy={1})", singular=at_zero),
    _pair("inv_grad", "tf.raw_ops.InvGrad(y={0}, dy={1})"),
)


ACTIVATIONS = (
    _nn("relu", "tf.nn.relu({0})", "Relu", kinks=at_zero),
    _nn("relu6", "tf.nn.relu6({0})", "Relu6", kinks=lambda x: np.minimum(np.abs(x), np.abs(x - 6))),
    _nn("elu", "tf.nn.elu({0})", "Elu", curvature_jumps=at_zero),
    _nn("selu", "tf.nn.selu({0})", "Selu", kinks=at_zero),
    _nn(
        "leaky_relu",
        "tf.nn.leaky_relu({0}, alpha={alpha})",
        "LeakyRelu",
        alpha=(0.5, 0.2, 0.0, 2.0, -1.0),
        kinks=at_zero,
    ),
    _nn("softplus", "tf.nn.softplus({0})", "Softplus"),
    _nn("softsign", "tf.nn.softsign({0})", "Softsign", curvature_jumps=at_zero),
    # The gradient of silu is a custom one, of its own.
    _nn(
        "silu",
        "tf.nn.silu({0}, beta={1})",
        batched="{0} * tf.sigmoid({1} * {0})",
        broadcasts=True,
        others=lambda shape: [((),), (shape,)] if math.prod(shape) > 1 else [((),)],
    ),
    _nn("gelu", "tf.nn.gelu({0}, approximate={approximate})", "Erfc Tanh", approximate=BOOL),
    _nn("crelu", "tf.nn.crelu({0}, axis={axis})", "Relu ConcatV2", shapes=ranked, axis=axes, kinks=_at_zero_twice),
    _nn("softmax", "tf.nn.softmax({0})", "Softmax", shapes=ranked),
    _nn("log_softmax", "tf.nn.log_softmax({0})", "LogSoftmax", shapes=ranked, terms=1.0),
    _over_rows("softmax_axis", "tf.nn.softmax({0}, axis=-2)", "Softmax Transpose"),
    _over_rows("log_softmax_axis", "tf.nn.log_softmax({0}, axis=-2)", "LogSoftmax Transpose", terms=1.0),
    _nn(
        "softplus_grad",
        "tf.raw_ops.SoftplusGrad(gradients={0}, features={1})",
        others=lambda shape: [(shape,)],
    ),
)


PARAMETERS = (0.5, 2.0, 1.0)

SPECIAL = (
    _math("erf", "tf.math.erf({0})", "Erf"),
    _math("erfc", "tf.math.erfc({0})", "Erfc"),
    _of_gamma("lgamma", "tf.math.lgamma({0})", "Lgamma", BELOW_ZERO, singular=_from_poles_of_gamma),
    _of_gamma("digamma", "tf.math.digamma({0})", "Digamma", BELOW_ZERO, singular=_from_poles_of_gamma),
    _math("erfinv", "tf.math.erfinv({0})", "Erfinv", UNIT),
    _math("ndtri", "tf.math.ndtri({0})", "Ndtri", Interval(0.0, 1.0)),
    _math("dawsn", "tf.math.special.dawsn({0})", "Dawsn"),
    _math("expint", "tf.math.special.expint({0})", "Expint", POSITIVE),
    _math("spence", "tf.math.special.spence({0})", "Spence", POSITIVE),
    _math("fresnel_cos", "tf.math.special.fresnel_cos({0})", "FresnelCos"),
    _math("fresnel_sin", "tf.math.special.fresnel_sin({0})", "FresnelSin"),
    _math("bessel_i0", "tf.math.special.bessel_i0({0})", "BesselI0"),
    _math("bessel_i0e", "tf.math.special.bessel_i0e({0})", "BesselI0e", kinks=at_zero),
    _math("bessel_i1", "tf.math.special.bessel_i1({0})", "BesselI1"),
    _math("bessel_i1e", "tf.math.special.bessel_i1e({0})", "BesselI1e", curvature_jumps=at_zero),
    _math("bessel_j0", "tf.math.special.bessel_j0({0})", "BesselJ0"),
    _math("bessel_j1", "tf.math.special.bessel_j1({0})", "BesselJ1"),
    _math("bessel_k0", "tf.math.special.bessel_k0({0})", "BesselK0", POSITIVE),
    _math("bessel_k0e", "tf.math.special.bessel_k0e({0})", "BesselK0e", POSITIVE),
    _math("bessel_k1", "tf.math.special.bessel_k1({0})", "BesselK1", POSITIVE),
    _math("bessel_k1e", "tf.math.special.bessel_k1e({0})", "BesselK1e", POSITIVE),
    _math("bessel_y0", "tf.math.special.bessel_y0({0})", "BesselY0", POSITIVE),
    _math("bessel_y1", "tf.math.special.bessel_y1({0})", "BesselY1", POSITIVE),
    _pair("igamma", "tf.math.igamma({0}, {1})", "Igamma", POSITIVE),
    _pair("igammac", "tf.math.igammac({0}, {1})", "Igammac", POSITIVE),
    _math("igamma_of_x", "tf.math.igamma(np.float64({a}), {0})", "Igamma", POSITIVE, a=PARAMETERS),
    _math("igammac_of_x", "tf.math.igammac(np.float64({a}), {0})", "Igammac", POSITIVE, a=PARAMETERS),
    _math(
        "betainc",
        "tf.math.betainc(np.float64({a}), np.float64({b}), {0})",
        "Betainc",
        Interval(0.0, 1.0),
        a=PARAMETERS,
        b=PARAMETERS,
    ),
    _math("betainc_of_a", "tf.math.betainc({0}, np.float64({b}), np.float64(0.25))", "Betainc", POSITIVE, b=PARAMETERS),
    # Below 0, zeta is NaN where the exponent is not whole; where it is, it is a polygamma function.
    _of_gamma("zeta", "tf.math.zeta(np.float64({exponent}), {0})", "Zeta", POSITIVE, exponent=(2.0, 1.5, 3.0)),
    _math("zeta_of_exponent", "tf.math.zeta({0}, np.float64({q}))", "Zeta", Interval(1.0), q=(1.0, 0.5)),
    _of_gamma(
        "polygamma",
        "tf.math.polygamma(np.float64({order}), {0})",
        "Polygamma",
        BELOW_ZERO,
        order=(1.0, 2.0, 0.0),
        singular=_from_poles_of_gamma,
    ),
)
