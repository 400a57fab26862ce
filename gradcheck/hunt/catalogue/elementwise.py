"""The census's family `math`: elementary functions of one argument, element by element."""

from __future__ import annotations

from gradcheck.hunt.distances import at, at_integers, at_zero
from gradcheck.hunt.opspec import NONNEGATIVE, POSITIVE, Choice, Interval, OpSpec

UNIT = (Interval(-1.0, 1.0),)
EXPONENTS = Choice((2.0, 3.0, 1.0, 0.0))

OPERATIONS = (
    OpSpec("sin", "math", "tf.sin({0})", ("Sin",)),
    OpSpec("square", "math", "tf.square({0})", ("Square",)),
    OpSpec("negative", "math", "-{0}", ("Neg",)),
    OpSpec("exp", "math", "tf.exp({0})", ("Exp",)),
    OpSpec("cos", "math", "tf.cos({0})", ("Cos",)),
    OpSpec("tanh", "math", "tf.tanh({0})", ("Tanh",)),
    OpSpec("sigmoid", "math", "tf.sigmoid({0})", ("Sigmoid",)),
    OpSpec("log", "math", "tf.math.log({0})", ("Log",), domains=(POSITIVE,)),
    OpSpec("sqrt", "math", "tf.sqrt({0})", ("Sqrt",), domains=(NONNEGATIVE,), singular=at_zero),
    OpSpec("abs", "math", "tf.abs({0})", ("Abs",), kinks=at_zero),
    OpSpec("reciprocal", "math", "tf.math.reciprocal({0})", ("Reciprocal",), domains=(POSITIVE,)),
    OpSpec("inv", "math", "tf.raw_ops.Inv(x={0})", ("Inv",), domains=(POSITIVE,)),
    OpSpec("rsqrt", "math", "tf.math.rsqrt({0})", ("Rsqrt",), domains=(POSITIVE,)),
    OpSpec("expm1", "math", "tf.math.expm1({0})", ("Expm1",)),
    OpSpec("log1p", "math", "tf.math.log1p({0})", ("Log1p",), domains=(Interval(-1.0),)),
    OpSpec("tan", "math", "tf.tan({0})", ("Tan",), domains=(Interval(-1.5, 1.5),)),
    OpSpec("sinh", "math", "tf.sinh({0})", ("Sinh",)),
    OpSpec("cosh", "math", "tf.cosh({0})", ("Cosh",)),
    OpSpec("asin", "math", "tf.asin({0})", ("Asin",), domains=UNIT),
    OpSpec("acos", "math", "tf.acos({0})", ("Acos",), domains=UNIT),
    OpSpec("atan", "math", "tf.atan({0})", ("Atan",)),
    OpSpec("asinh", "math", "tf.asinh({0})", ("Asinh",)),
    OpSpec("acosh", "math", "tf.acosh({0})", ("Acosh",), domains=(Interval(1.0),)),
    OpSpec("atanh", "math", "tf.atanh({0})", ("Atanh",), domains=UNIT),
    OpSpec("power", "math", "{0} ** {exponent}", ("Pow",), attributes=lambda shape: {"exponent": EXPONENTS}),
    OpSpec("cast", "math", "tf.cast(tf.cast({0}, tf.complex128), tf.float64)", ("Cast",)),
    OpSpec("add_n", "math", "tf.add_n([{0}, {0} * {0}, {0}])", ("AddN",)),
    OpSpec("clip", "math", "tf.clip_by_value({0}, -1.0, 1.0)", ("Maximum", "Minimum"), kinks=at(-1.0, 1.0)),
    OpSpec(
        "clip_by_value",
        "math",
        "tf.raw_ops.ClipByValue(t={0}, clip_value_min=np.float64(-1.0), clip_value_max=np.float64(1.0))",
        ("ClipByValue",),
        kinks=at(-1.0, 1.0),
    ),
    OpSpec("sign", "math", "tf.sign({0}) * {0}", ("Sign",), kinks=at_zero),
    OpSpec("floor", "math", "tf.floor({0}) * {0}", ("Floor",), singular=at_integers),
    OpSpec("ceil", "math", "tf.math.ceil({0}) * {0}", ("Ceil",), singular=at_integers),
    OpSpec("round", "math", "tf.round({0}) * {0}", ("Round",), singular=lambda x: at_integers(x + 0.5)),
    OpSpec("rint", "math", "tf.math.rint({0}) * {0}", ("Rint",), singular=lambda x: at_integers(x + 0.5)),
)
