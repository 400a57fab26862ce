"""Run one operation of a graph eagerly, by its name and attributes, so that tapes see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry, tensor_util

AS_THEY_ARE: Mapping[int, int] = MappingProxyType({})


def executed(name: str, count: int, inputs: list[Any], attributes: tuple[Any, ...]) -> list[Any]:
    """Run an operation with `count` outputs; `attributes` alternates names and values. Raises what it raises."""
    outputs = execute.execute(name, count, inputs, attributes, context.context())
    if not count:
        return []
    execute.record_gradient(name, inputs, attributes, outputs)
    return list(outputs)


def run_alone(op: Any, inputs: Sequence[Any], types: Mapping[int, int] = AS_THEY_ARE) -> list[Any]:
    """Run an operation of a graph on other inputs; `types` maps dtype enums in its attributes to others.

    Raises ValueError where it calls functions, or what it raises itself.
    """
    if op.type == "NoOp":
        return []
    if op.type == "Const":
        return [tf.constant(tensor_util.MakeNdarray(op.get_attr("value")), op.outputs[0].dtype)]
    pairs = ((name, _eager(op.get_attr(name), kind, types)) for name, kind in attribute_kinds(op.type).items())
    return executed(op.type, len(op.outputs), list(inputs), tuple(part for pair in pairs for part in pair))


@lru_cache(maxsize=512)
def attribute_kinds(name: str) -> dict[str, str]:
    """The types of an operation's attributes, by their names."""
    definition = op_def_registry.get(name)
    return {} if definition is None else {one.name: one.type for one in definition.attr}


def _eager(value: Any, kind: str, types: Mapping[int, int]) -> Any:
    """Convert the value of an attribute to what eager operations take."""
    if kind.startswith("list("):
        return [_eager(one, kind[5:-1], types) for one in value]
    if kind == "func":
        raise ValueError("a function is no attribute of an operation that runs by itself")
    if kind == "type":
        given = tf.as_dtype(value).as_datatype_enum
        return types.get(given, given)
    return execute.make_shape(value, "shape") if kind == "shape" else value
