"""Operations of the census's family `control flow`.

Run eagerly, `tf.cond` and `tf.while_loop` are Python; their gradients act in graphs. So the text calls a `tf.function`,
which is built on the first call and kept under its name: tracing it on every call would be our defect.
"""

from __future__ import annotations

import numpy as np

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Choice, OpSpec
from gradcheck.hunt.shape_rules import nonempty

FAMILY = "control flow"


def _once(name: str, function: str) -> str:
    """The text of a traced function that is built once and found again under its name."""
    built = f"tf.function({function}, autograph=False, reduce_retracing=True)"
    return f"(globals().get('{name}') or globals().setdefault('{name}', {built}))"


COND = _once("cond", "lambda x, flag: tf.cond(flag, lambda: tf.sin(x), lambda: x * x)")
COND_ON_VALUE = _once(
    "cond_on_value",
    "lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x + tf.reduce_sum(x), lambda: x - tf.reduce_sum(x))",
)
SWITCH_CASE = _once(
    "switch_case", "lambda x, branch: tf.switch_case(branch, [lambda: tf.sin(x), lambda: x * x, lambda: tf.exp(x)])"
)
WHILE_LOOP = _once(
    "while_loop",
    "lambda x, count: tf.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * tf.sin(x)), (0, x))[1]",
)
SCAN = _once("scan", "lambda x: tf.scan(lambda state, element: tf.sin(state) + element, x)")


def _sequence(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape and all(shape) else []


OPERATIONS = (
    OpSpec(
        "placeholder_with_default",
        FAMILY,
        "tf.raw_ops.PlaceholderWithDefault(input={0}, shape={0}.shape)",
        ("PlaceholderWithDefault",),
    ),
    OpSpec(
        "cond",
        FAMILY,
        COND + "({0}, tf.constant({flag}))",
        ("StatelessIf",),
        attributes=lambda shape: {"flag": BOOL},
    ),
    OpSpec(
        "cond_on_value",
        FAMILY,
        COND_ON_VALUE + "({0})",
        ("StatelessIf",),
        looped=True,
        shapes=nonempty,
        kinks=lambda x: np.abs(np.sum(x)),
    ),
    OpSpec(
        "switch_case",
        FAMILY,
        SWITCH_CASE + "({0}, tf.constant({branch}))",
        ("StatelessCase",),
        attributes=lambda shape: {"branch": Choice((0, 1, 2))},
    ),
    OpSpec(
        "while_loop",
        FAMILY,
        WHILE_LOOP + "({0}, tf.constant({count}))",
        ("StatelessWhile",),
        attributes=lambda shape: {"count": Choice((1, 2, 3, 0))},
    ),
    OpSpec(
        "scan",
        FAMILY,
        SCAN + "({0})",
        ("StatelessWhile", "TensorListFromTensor", "TensorListGetItem", "TensorListSetItem", "TensorListStack"),
        batched="tf.experimental.numpy.swapaxes(" + SCAN + "(tf.experimental.numpy.swapaxes({0}, 0, 1)), 0, 1)",
        shapes=_sequence,
        starts=((2,), (3,), (2, 2)),
    ),
)
