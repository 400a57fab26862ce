"""The census's family `math`: into, within and out of the complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.distances import at_zero
from gradcheck.hunt.opspec import BOOL, POSITIVE, Array, OpSpec
from gradcheck.hunt.shape_rules import broadcasting, matmul, ranked

_complex: Callable[..., OpSpec] = partial(OpSpec, family="math", dtypes=("complex128",), result="complex128")
_real: Callable[..., OpSpec] = partial(OpSpec, family="math", dtypes=("complex128",))


def _from_negative_reals(x: Array, *_: Array, **_attributes: Any) -> Array:
    return np.where(x.real > 0, np.abs(x), np.abs(x.imag))


OPERATIONS = (
    OpSpec(
        "complex",
        "math",
        "tf.complex({0}, {1})",
        ("Complex",),
        arity=2,
        broadcasts=True,
        shapes=broadcasting,
        result="complex128",
    ),
    _real("real", source="tf.math.real({0})", gradients=("Real",)),
    _real("imag", source="tf.math.imag({0})", gradients=("Imag",)),
    _complex("conj", source="tf.math.conj({0})", gradients=("Conj",)),
    _real("complex_abs", source="tf.abs({0})", gradients=("ComplexAbs",), kinks=at_zero),
    _real("angle", source="tf.math.angle({0})", gradients=("Angle",), singular=_from_negative_reals),
    _complex("complex_exp", source="tf.exp({0})", gradients=("Exp",)),
    _complex("complex_square", source="tf.square({0})", gradients=("Square",)),
    _complex("complex_tanh", source="tf.tanh({0})", gradients=("Tanh",), domains=(POSITIVE,)),
    _complex("complex_log", source="tf.math.log({0})", gradients=("Log",), domains=(POSITIVE,)),
    _complex("complex_sqrt", source="tf.sqrt({0})", gradients=("Sqrt",), domains=(POSITIVE,)),
    _complex("complex_sign", source="tf.sign({0})", gradients=("ComplexAbs",), singular=at_zero),
    _complex(
        "complex_multiply",
        source="{0} * {1}",
        gradients=("Mul",),
        arity=2,
        broadcasts=True,
        shapes=broadcasting,
    ),
    _complex(
        "complex_divide",
        source="{0} / {1}",
        gradients=("RealDiv",),
        arity=2,
        broadcasts=True,
        shapes=broadcasting,
        domains=(POSITIVE,),
    ),
    _complex(
        "complex_pow",
        source="tf.pow({0}, {1})",
        gradients=("Pow",),
        arity=2,
        broadcasts=True,
        shapes=broadcasting,
        domains=(POSITIVE,),
    ),
    _complex(
        "complex_matmul",
        source="tf.matmul(tf.math.conj({0}), {1})",
        gradients=("BatchMatMulV2", "MatMul", "Conj"),
        arity=2,
        broadcasts=True,
        shapes=matmul,
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 1)),
    ),
    _complex(
        "complex_cumprod",
        source="tf.math.cumprod({0}, axis=-1, reverse={reverse})",
        gradients=("Cumprod",),
        shapes=ranked,
        starts=((2,), (1,), (2, 2)),
        attributes=lambda shape: {"reverse": BOOL},
    ),
    _complex(
        "complex_reduce_prod",
        source="tf.reduce_prod({0}, axis=-1)",
        gradients=("Prod",),
        shapes=ranked,
        starts=((2,), (1,), (2, 2)),
    ),
)
