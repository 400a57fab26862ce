"""The census's family `math`: functions of two or three arguments that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gradcheck.hunt.distances import between, second_at_zero
from gradcheck.hunt.opspec import POSITIVE, REALS, Array, Interval, OpSpec
from gradcheck.hunt.shape_rules import alike, broadcasting

_binary: Callable[..., OpSpec] = partial(OpSpec, family="math", arity=2, broadcasts=True, shapes=broadcasting)
OVER_POSITIVE = (REALS, POSITIVE)


def _from_multiples(x: Array, y: Array) -> Array:
    return np.asarray(np.abs(x - np.round(x / y) * y))


OPERATIONS = (
    _binary("add", source="{0} + {1}", gradients=("AddV2",)),
    _binary("mul", source="{0} * {1}", gradients=("Mul",)),
    _binary("subtract", source="{0} - {1}", gradients=("Sub",)),
    _binary("divide", source="{0} / {1}", gradients=("RealDiv",), domains=OVER_POSITIVE),
    _binary("maximum", source="tf.maximum({0}, {1})", gradients=("Maximum",), kinks=between),
    _binary("minimum", source="tf.minimum({0}, {1})", gradients=("Minimum",), kinks=between),
    _binary("squared_difference", source="tf.math.squared_difference({0}, {1})", gradients=("SquaredDifference",)),
    _binary("pow", source="tf.pow({0}, {1})", gradients=("Pow",), domains=(POSITIVE, REALS)),
    _binary("atan2", source="tf.atan2({0}, {1})", gradients=("Atan2",), domains=OVER_POSITIVE),
    _binary("xlogy", source="tf.math.xlogy({0}, {1})", gradients=("Xlogy",), domains=OVER_POSITIVE),
    _binary("xlog1py", source="tf.math.xlog1py({0}, {1})", gradients=("Xlog1py",), domains=(REALS, Interval(-1.0))),
    _binary("xdivy", source="tf.math.xdivy({0}, {1})", gradients=("Xdivy",), domains=OVER_POSITIVE),
    _binary(
        "divide_no_nan", source="tf.math.divide_no_nan({0}, {1})", gradients=("DivNoNan",), singular=second_at_zero
    ),
    _binary("multiply_no_nan", source="tf.math.multiply_no_nan({0}, {1})", gradients=("MulNoNan",)),
    _binary(
        "floormod",
        source="tf.math.floormod({0}, {1})",
        gradients=("FloorMod",),
        domains=(REALS, Interval(0.25)),
        singular=_from_multiples,
    ),
    _binary(
        "floordiv",
        source="tf.math.floordiv({0}, {1}) * {0}",
        gradients=("FloorDiv",),
        domains=(REALS, Interval(0.25)),
        singular=_from_multiples,
    ),
    _binary("legacy_add", source="tf.raw_ops.Add(x={0}, y={1})", gradients=("Add",)),
    _binary("legacy_divide", source="tf.raw_ops.Div(x={0}, y={1})", gradients=("Div",), domains=OVER_POSITIVE),
    _binary("where", source="tf.where({0} > {1}, {0}, {1} * {1})", gradients=("SelectV2",), singular=between),
    OpSpec(
        "select",
        "math",
        "tf.raw_ops.Select(condition={0} > 0.5, x=tf.square({0}), y={1})",
        ("Select",),
        arity=2,
        shapes=alike(2),
        singular=lambda x, y: np.abs(x - 0.5),
    ),
    OpSpec("tanh_grad", "math", "tf.raw_ops.TanhGrad(y={0}, dy={1})", ("TanhGrad",), arity=2, shapes=alike(2)),
    OpSpec("sigmoid_grad", "math", "tf.raw_ops.SigmoidGrad(y={0}, dy={1})", ("SigmoidGrad",), arity=2, shapes=alike(2)),
    OpSpec(
        "reciprocal_grad",
        "math",
        "tf.raw_ops.ReciprocalGrad(y={0}, dy={1})",
        ("ReciprocalGrad",),
        arity=2,
        shapes=alike(2),
    ),
    OpSpec("rsqrt_grad", "math", "tf.raw_ops.RsqrtGrad(y={0}, dy={1})", ("RsqrtGrad",), arity=2, shapes=alike(2)),
    OpSpec(
        "sqrt_grad",
        "math",
        "tf.raw_ops.SqrtGrad(y={0}, dy={1})",
        ("SqrtGrad",),
        arity=2,
        shapes=alike(2),
        domains=(POSITIVE, REALS),
    ),
    OpSpec("inv_grad", "math", "tf.raw_ops.InvGrad(y={0}, dy={1})", ("InvGrad",), arity=2, shapes=alike(2)),
)
