"""Replacements for operations that turn finite numbers into NaN or infinity."""

from __future__ import annotations

import cmath

from gradcheck.tracing.record import RecordedOperation

LOGARITHMS = {
    "Softmax": "tf.nn.log_softmax(logits), or a cross entropy with from_logits=True",
    "Sigmoid": "tf.math.log_sigmoid(logits), or a cross entropy with from_logits=True",
}
"""Functions that compute the logarithm of an operation's result without that result."""

REMEDIES = {
    **dict.fromkeys(
        ("Sqrt", "Rsqrt"),
        "the slope of a square root is infinite at 0: keep its argument away from there, such as "
        "tf.sqrt(tf.maximum(x, 1e-12)), or a norm as tf.sqrt(tf.reduce_sum(x**2) + 1e-12)",
    ),
    **dict.fromkeys(
        ("Log", "Log1p"),
        "the slope of a logarithm is infinite at its pole: keep its argument away from there, such as "
        "tf.math.log(tf.maximum(x, 1e-12))",
    ),
    **dict.fromkeys(
        ("RealDiv", "Div", "Reciprocal", "Inv", "Xdivy"),
        "keep the divisor away from 0, such as tf.maximum(d, 1e-12), or use tf.math.divide_no_nan",
    ),
    "Pow": "the derivative of x**p is p * x**(p - 1), which is infinite at x = 0 where p < 1 (differentiated again: "
    "where p < 2), and 0 * infinity where p is 0: keep x away from 0, such as tf.pow(tf.maximum(x, 1e-12), p), and "
    "leave out elements with p = 0",
    **dict.fromkeys(
        ("Asin", "Acos", "Atanh", "Acosh"),
        "the slope is infinite at the ends of the domain: clip the argument, such as tf.clip_by_value(x, -0.999999, "
        "0.999999)",
    ),
    **dict.fromkeys(
        ("Atan2", "Angle", "ComplexAbs"),
        "it has no derivative at the origin: keep one of its arguments away from 0 by adding a small number",
    ),
    **dict.fromkeys(
        ("Exp", "Expm1", "Sinh", "Cosh", "Lgamma"),
        "the value is too large for its dtype: clip the argument, such as tf.minimum(x, 80.0) in float32, or compute "
        "with logarithms (tf.reduce_logsumexp, tf.nn.log_softmax, tf.nn.softplus)",
    ),
    **dict.fromkeys(
        ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"),
        "one of the logits is infinite, or all are -infinity: mask with a large finite number, such as -1e9",
    ),
}
"""The remedies in the backward pass, by the names of operations."""

VALUES = {
    **REMEDIES,
    "Log": "log(x) is -infinity at 0 and NaN below: keep x above 0, such as tf.math.log(tf.maximum(x, 1e-12))",
    "Log1p": "log1p(x) is -infinity at -1 and NaN below: keep x above that, such as "
    "tf.math.log1p(tf.maximum(x, -1 + 1e-6))",
    "Sqrt": "the square root of a negative number is NaN: keep its argument at 0 or above, such as "
    "tf.sqrt(tf.maximum(x, 1e-12)); rounding may take a nonnegative number below 0",
    "Rsqrt": "1 / sqrt(x) is infinite at 0 and NaN below: keep x above 0, such as tf.math.rsqrt(tf.maximum(x, 1e-12))",
    **dict.fromkeys(
        ("Asin", "Acos", "Atanh"),
        "it is NaN beyond -1 and 1: clip the argument, such as tf.clip_by_value(x, -0.999999, 0.999999)",
    ),
    "Acosh": "acosh(x) is NaN below 1: keep x above that, such as tf.maximum(x, 1.000001)",
    "Mean": "the mean of no elements is NaN: leave it out where there are none, or write "
    "tf.math.divide_no_nan(tf.reduce_sum(x), n)",
    "Pow": "x**p is NaN where x is negative and p not an integer, and infinite at x = 0 where p is negative: "
    "keep x above 0, such as tf.pow(tf.maximum(x, 1e-12), p)",
}
"""The remedies in the forward pass, by the names of operations."""
OVERFLOWING = ("Pow", "Mean")
"""The operations among these that also overflow inside their domain."""

TOO_LARGE = (
    "the value is too large for {dtype}: scale the arguments down or clip them, compute with logarithms "
    "(tf.reduce_logsumexp, tf.nn.log_softmax), or use a wider dtype"
)

CAME_IN = {
    "data": "leave such rows out of the data, or replace these numbers",
    "variable": "start again from finite values; it comes from an earlier update, or was loaded so",
    "constant": "write a finite number; a mask takes a large one, such as -1e9",
}
"""The remedies for NaN or infinity that no operation made, by origin."""


def remedy_for_value(
    operation: RecordedOperation,
    behind: RecordedOperation | None,
    value: complex | None,
    result: complex,
    dtype: str,
) -> str:
    """The remedy for an operation that gives `result`, of this dtype, at `value` of its argument, if it has one.

    `behind` made the argument.
    """
    line, value = operation.quoted, 0.0 if value is None else value
    known = _instead(operation, behind, value, line)
    overflow = cmath.isinf(result) and value != 0
    if known is None and not (overflow and operation.name in OVERFLOWING):
        known = _in_line(line, VALUES.get(operation.name))
    if known is None and overflow:
        known = _in_line(line, TOO_LARGE.format(dtype=dtype))
    return known or f"keep the arguments of {line} away from that value"


def _in_line(line: str, remedy: str | None) -> str | None:
    return None if remedy is None else f"in {line}, {remedy}"


def _instead(operation: RecordedOperation, behind: RecordedOperation | None, value: complex, line: str) -> str | None:
    """The remedy for a logarithm of the result of `behind`, and for the poles of the log-gamma function."""
    if operation.name in ("Log", "Log1p") and behind is not None and behind.name in LOGARITHMS:
        return f"{behind.name} returns {value:.6g}, of which a logarithm is taken: write {LOGARITHMS[behind.name]}"
    if operation.name == "Lgamma" and value.real <= 0:
        return f"keep the argument of {line} away from the poles at 0, -1, -2, …"
    return None


def remedy_for(
    operation: RecordedOperation,
    behind: RecordedOperation | None,
    unused: RecordedOperation | None,
    otherwise: bool,
    value: complex,
    line: str,
) -> str:
    """The remedy for an operation at `value` of its argument, which `behind` made; `line` is the code in quotes.

    `unused` is a tf.where that does not select its result; `otherwise`: the result is the last argument of that.
    """
    if unused is not None:
        x, f = ("1.0, x", "other, f(safe)") if otherwise else ("x, 1.0", "f(safe), other")
        return (
            f"give {line} an argument that is harmless where it is not used: safe = tf.where(condition, {x}), then "
            f"tf.where(condition, {f}) with the same condition"
        )
    known = _instead(operation, behind, value, line) or _in_line(line, REMEDIES.get(operation.name))
    return known or f"keep the arguments of {line} away from that value, or give it a gradient with tf.custom_gradient"
