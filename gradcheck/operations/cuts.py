"""Complex functions on their branch cuts, beside either side of them, as functions of a real number."""

from __future__ import annotations

from functools import partial
from typing import Any

from gradcheck.operations.language import operation, tf
from gradcheck.operations.spec import BOOL, POSITIVE


def on_real_axis(x: Any, end: float, below: bool) -> Any:
    """The point at the distance x behind the end of a cut, with the zero of a side as its imaginary part (C99, G.6)."""
    return tf.complex(end + x if end > 0 else end - x, (-1.0 if below else 1.0) * tf.zeros_like(x))


def on_imaginary_axis(x: Any, end: float, left: bool) -> Any:
    """The same for a cut of the imaginary axis."""
    return tf.complex((-1.0 if left else 1.0) * tf.zeros_like(x), end + x if end > 0 else end - x)


def parts(z: Any) -> Any:
    """The real and the imaginary part, as one dimension more."""
    return tf.stack([tf.math.real(z), tf.math.imag(z)], axis=-1)


_cut = partial(operation, "math")
_BOTH = (-1.0, 1.0)

ON_CUTS = (
    _cut("sqrt_on_cut", lambda x, *, below: parts(tf.sqrt(on_real_axis(x, -0.0, below))), "Sqrt", POSITIVE, below=BOOL),
    _cut(
        "rsqrt_on_cut",
        lambda x, *, below: parts(tf.math.rsqrt(on_real_axis(x, -0.0, below))),
        "Rsqrt",
        POSITIVE,
        below=BOOL,
    ),
    _cut(
        "log_on_cut", lambda x, *, below: parts(tf.math.log(on_real_axis(x, -0.0, below))), "Log", POSITIVE, below=BOOL
    ),
    _cut(
        "pow_on_cut",
        lambda x, *, below, exponent: parts(tf.pow(on_real_axis(x, -0.0, below), tf.cast(exponent, tf.complex128))),
        "Pow",
        POSITIVE,
        below=BOOL,
        exponent=(0.25, -0.75),
    ),
    _cut(
        "log1p_on_cut",
        lambda x, *, below: parts(tf.math.log1p(on_real_axis(x, -1.0, below))),
        "Log1p",
        POSITIVE,
        below=BOOL,
    ),
    _cut(
        "acosh_on_cut", lambda x, *, below: parts(tf.acosh(on_real_axis(x, -1.0, below))), "Acosh", POSITIVE, below=BOOL
    ),
    _cut(
        "acos_on_cut",
        lambda x, *, end, below: parts(tf.acos(on_real_axis(x, end, below))),
        "Acos",
        POSITIVE,
        end=_BOTH,
        below=BOOL,
    ),
    _cut(
        "asin_on_cut",
        lambda x, *, end, below: parts(tf.asin(on_real_axis(x, end, below))),
        "Asin",
        POSITIVE,
        end=_BOTH,
        below=BOOL,
    ),
    _cut(
        "atanh_on_cut",
        lambda x, *, end, below: parts(tf.atanh(on_real_axis(x, end, below))),
        "Atanh",
        POSITIVE,
        end=_BOTH,
        below=BOOL,
    ),
    _cut(
        "atan_on_cut",
        lambda x, *, end, left: parts(tf.atan(on_imaginary_axis(x, end, left))),
        "Atan",
        POSITIVE,
        end=_BOTH,
        left=BOOL,
    ),
    _cut(
        "asinh_on_cut",
        lambda x, *, end, left: parts(tf.asinh(on_imaginary_axis(x, end, left))),
        "Asinh",
        POSITIVE,
        end=_BOTH,
        left=BOOL,
    ),
)
