"""Operations of the census's family `random (implicit reparam)`: samples, differentiated in their parameters.

With F the distribution function and z0 the sample at the unperturbed parameters a0 (row 0), the sample moves so that
F(z; a) stays: the reference is its linearisation z0 - (F(z0; a) - F(z0; a0)) / F'(z0; a0) (Figurnov, Mohamed and Mnih,
"Implicit reparameterization gradients", 2018, equation 6). It is right at first order only.
"""

from __future__ import annotations

import re

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Interval, OpSpec

FAMILY = "random (implicit reparam)"
FIELD = re.compile(r"\{(\d)\}")


def _gamma(name: str, sample: str, gradient: str) -> OpSpec:
    reference = (
        "(lambda a, a0, z: z + (tf.math.igamma(a0, z) - tf.math.igamma(a, z)) "
        "* tf.exp(tf.math.lgamma(a0) + z - (a0 - 1.0) * tf.math.log(z)))"
        f"({{0}}, {{0}}[:1], {sample.replace('{0}', '{0}[0]')}[tf.newaxis])"
    )
    return OpSpec(
        name,
        FAMILY,
        sample,
        (gradient,),
        looped=True,
        domains=(Interval(0.5, 8.0),),
        reference=reference,
        orders=(1,),  # the reference is linear, and RandomGammaGrad has no registered gradient
    )


TRUNCATED = "tf.random.stateless_parameterized_truncated_normal({0}.shape, [1, 2], {0}, {1}, {2}, {3})"
# F(z; mean, deviation, low, high) is a ratio of differences of the normal distribution function; F' is taken at row 0.
TRUNCATED_REFERENCE = (
    "(lambda z, p, q: (lambda F: z - (F(*p) - F(*q)) * (lambda n, m, s, a, b: s * (n((b - m) / s) - n((a - m) / s)) "
    "* tf.exp(0.5 * ((z - m) / s) ** 2) * np.sqrt(2 * np.pi))(lambda x: 0.5 * tf.math.erfc(-x / np.sqrt(2)), *q))("
    "(lambda n: lambda m, s, a, b: (n((z - m) / s) - n((a - m) / s)) / (n((b - m) / s) - n((a - m) / s)))("
    "lambda x: 0.5 * tf.math.erfc(-x / np.sqrt(2)))))("
    + TRUNCATED.replace("{0}", "{0}[0]").replace("{1}", "{1}[0]").replace("{2}", "{2}[0]").replace("{3}", "{3}[0]")
    + "[tf.newaxis], [{0}, {1}, {2}, {3}], [{0}[:1], {1}[:1], {2}[:1], {3}[:1]])"
)


def _of_bounds(text: str) -> str:
    """The text with a mean of 0.5 and a standard deviation of 1.5, as a function of the bounds alone."""
    constants = {"0": "(tf.zeros_like({0}) + 0.5)", "1": "(tf.zeros_like({0}) + 1.5)", "2": "{0}", "3": "{1}"}
    return FIELD.sub(lambda found: constants[found[1]], text)


def _four(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,) * 4] if len(shape) == 1 and shape[0] else []


OPERATIONS = (
    _gamma(
        "stateless_gamma",
        "tf.random.stateless_gamma({0}.shape, [1, 2], {0}, dtype=tf.float64)",
        "StatelessRandomGammaV3",
    ),
    _gamma(
        "stateless_gamma_v2",
        "tf.raw_ops.StatelessRandomGammaV2(shape={0}.shape, seed=[1, 2], alpha={0})",
        "StatelessRandomGammaV2",
    ),
    OpSpec(
        "stateless_truncated_normal",
        FAMILY,
        TRUNCATED,
        ("StatelessParameterizedTruncatedNormal",),
        arity=4,
        looped=True,
        shapes=_four,
        starts=((2,), (1,), (3,)),
        domains=(Interval(-1.0, 1.0), Interval(0.5, 2.0), Interval(-4.0, -1.0), Interval(1.0, 4.0)),
        reference=TRUNCATED_REFERENCE,
        orders=(1,),  # the reference is linear
    ),
    OpSpec(
        "stateless_truncated_normal_of_bounds",
        FAMILY,
        _of_bounds(TRUNCATED),
        ("StatelessParameterizedTruncatedNormal",),
        arity=2,
        looped=True,
        shapes=lambda shape: [(shape,) * 2] if len(shape) == 1 and shape[0] else [],
        starts=((2,), (1,), (3,)),
        domains=(Interval(-4.0, -1.0), Interval(1.0, 4.0)),
        reference=_of_bounds(TRUNCATED_REFERENCE),
        orders=(1,),  # the reference is linear
    ),
)
