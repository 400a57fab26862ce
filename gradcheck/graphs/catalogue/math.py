"""Operations of the census's family `math`."""

from __future__ import annotations

import numpy as np

from gradcheck.graphs.graph import Shape
from gradcheck.graphs.opspec import BOOL, POSITIVE, OpSpec


def _broadcasting(shape: Shape) -> list[tuple[Shape, Shape]]:
    smaller = [shape[1:], (1, *shape[1:]), (), (*shape[:-1], 1)] if shape else []
    return [(shape, other) for other in dict.fromkeys([shape, *smaller, (2, *shape)])]


def _vector(shape: Shape) -> list[tuple[Shape]]:
    return [(shape,)] if shape else []


OPERATIONS = (
    OpSpec("sin", "math", "tf.sin({0})", ("Sin",)),
    OpSpec("square", "math", "tf.square({0})", ("Square",)),
    OpSpec("exp", "math", "tf.exp({0})", ("Exp",)),
    OpSpec("log", "math", "tf.math.log({0})", ("Log",), domains=(POSITIVE,)),
    OpSpec("abs", "math", "tf.abs({0})", ("Abs",), kinks=lambda x: np.abs(x)),
    OpSpec("add", "math", "{0} + {1}", ("AddV2",), arity=2, broadcasts=True, shapes=_broadcasting),
    OpSpec("mul", "math", "{0} * {1}", ("Mul",), arity=2, broadcasts=True, shapes=_broadcasting),
    OpSpec(
        "maximum",
        "math",
        "tf.maximum({0}, {1})",
        ("Maximum",),
        arity=2,
        broadcasts=True,
        shapes=_broadcasting,
        kinks=lambda x, y: np.abs(x - y),
    ),
    OpSpec("reduce_sum", "math", "tf.reduce_sum({0}, axis=-1)", ("Sum",), shapes=_vector, starts=((2,), (1,), (2, 2))),
    OpSpec(
        "cumprod",
        "math",
        "tf.math.cumprod({0}, axis=-1, exclusive={exclusive}, reverse={reverse})",
        ("Cumprod",),
        shapes=_vector,
        starts=((2,), (1,), (3,), (2, 2)),
        attributes=lambda shape: {"exclusive": BOOL, "reverse": BOOL},
    ),
)
