"""The census's family `math`: special functions."""

from __future__ import annotations

from gradcheck.hunt.distances import at_zero
from gradcheck.hunt.opspec import POSITIVE, Choice, Interval, OpSpec
from gradcheck.hunt.shape_rules import alike

NEAR = (Interval(-20.0, 20.0),)
# At 0 the curvature of exp(-|x|) I1(x) jumps.
UP_TO_20 = (Interval(0.0, 20.0),)
MODERATE = (Interval(0.1, 20.0),)
PARAMETERS = Choice((0.5, 2.0, 1.0))

OPERATIONS = (
    OpSpec("erf", "math", "tf.math.erf({0})", ("Erf",)),
    OpSpec("erfc", "math", "tf.math.erfc({0})", ("Erfc",)),
    OpSpec("lgamma", "math", "tf.math.lgamma({0})", ("Lgamma",), domains=(POSITIVE,)),
    OpSpec("digamma", "math", "tf.math.digamma({0})", ("Digamma",), domains=(POSITIVE,)),
    OpSpec("erfinv", "math", "tf.math.erfinv({0})", ("Erfinv",), domains=(Interval(-0.999, 0.999),)),
    OpSpec("ndtri", "math", "tf.math.ndtri({0})", ("Ndtri",), domains=(Interval(0.001, 0.999),)),
    OpSpec("dawsn", "math", "tf.math.special.dawsn({0})", ("Dawsn",), domains=NEAR),
    OpSpec("expint", "math", "tf.math.special.expint({0})", ("Expint",), domains=(Interval(0.0, 100.0),)),
    OpSpec("spence", "math", "tf.math.special.spence({0})", ("Spence",), domains=(POSITIVE,)),
    OpSpec("fresnel_cos", "math", "tf.math.special.fresnel_cos({0})", ("FresnelCos",), domains=NEAR),
    OpSpec("fresnel_sin", "math", "tf.math.special.fresnel_sin({0})", ("FresnelSin",), domains=NEAR),
    OpSpec("bessel_i0", "math", "tf.math.special.bessel_i0({0})", ("BesselI0",), domains=NEAR),
    OpSpec("bessel_i0e", "math", "tf.math.special.bessel_i0e({0})", ("BesselI0e",), domains=NEAR, kinks=at_zero),
    OpSpec("bessel_i1", "math", "tf.math.special.bessel_i1({0})", ("BesselI1",), domains=NEAR),
    OpSpec("bessel_i1e", "math", "tf.math.special.bessel_i1e({0})", ("BesselI1e",), domains=UP_TO_20),
    OpSpec("bessel_j0", "math", "tf.math.special.bessel_j0({0})", ("BesselJ0",), domains=NEAR),
    OpSpec("bessel_j1", "math", "tf.math.special.bessel_j1({0})", ("BesselJ1",), domains=NEAR),
    OpSpec("bessel_k0", "math", "tf.math.special.bessel_k0({0})", ("BesselK0",), domains=MODERATE),
    OpSpec("bessel_k0e", "math", "tf.math.special.bessel_k0e({0})", ("BesselK0e",), domains=MODERATE),
    OpSpec("bessel_k1", "math", "tf.math.special.bessel_k1({0})", ("BesselK1",), domains=MODERATE),
    OpSpec("bessel_k1e", "math", "tf.math.special.bessel_k1e({0})", ("BesselK1e",), domains=MODERATE),
    OpSpec("bessel_y0", "math", "tf.math.special.bessel_y0({0})", ("BesselY0",), domains=MODERATE),
    OpSpec("bessel_y1", "math", "tf.math.special.bessel_y1({0})", ("BesselY1",), domains=MODERATE),
    OpSpec(
        "igamma",
        "math",
        "tf.math.igamma({0}, {1})",
        ("Igamma",),
        arity=2,
        shapes=alike(2),
        domains=MODERATE,
        orders=(1,),
    ),
    OpSpec(
        "igammac",
        "math",
        "tf.math.igammac({0}, {1})",
        ("Igammac",),
        arity=2,
        shapes=alike(2),
        domains=MODERATE,
        orders=(1,),
    ),
    OpSpec(
        "betainc",
        "math",
        "tf.math.betainc(np.float64({a}), np.float64({b}), {0})",
        ("Betainc",),
        domains=(Interval(0.0, 1.0),),
        attributes=lambda shape: {"a": PARAMETERS, "b": PARAMETERS},
    ),
    OpSpec(
        "betainc_of_a",
        "math",
        "tf.math.betainc({0}, np.float64({b}), np.float64(0.25))",
        ("Betainc",),
        domains=MODERATE,
        attributes=lambda shape: {"b": PARAMETERS},
    ),
    OpSpec(
        "zeta",
        "math",
        "tf.math.zeta(np.float64({exponent}), {0})",
        ("Zeta",),
        domains=MODERATE,
        attributes=lambda shape: {"exponent": Choice((2.0, 1.5, 3.0))},
    ),
    OpSpec(
        "zeta_of_exponent",
        "math",
        "tf.math.zeta({0}, np.float64({q}))",
        ("Zeta",),
        domains=(Interval(1.1, 20.0),),
        attributes=lambda shape: {"q": Choice((1.0, 0.5))},
    ),
    OpSpec(
        "polygamma",
        "math",
        "tf.math.polygamma(np.float64({order}), {0})",
        ("Polygamma",),
        domains=MODERATE,
        attributes=lambda shape: {"order": Choice((1.0, 2.0, 0.0))},
    ),
)
