"""A recorded operation runs again, by its name and attributes, on other inputs; in its own precision or in float64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import custom_gradient as tf_custom_gradient

from gradcheck.autodiff.coordinates import WIDE
from gradcheck.autodiff.sources import variable_of
from gradcheck.explanation.record import RecordedOperation

Tensors = list[Any]


class CannotRerunError(Exception):
    """The operation cannot run by itself; the message names it."""


def rerun(operation: RecordedOperation, inputs: Sequence[Any], *, wide: bool = False) -> Tensors:
    """The outputs for other inputs, `wide` ones in float64, recorded by the tapes that are open.

    Raises CannotRerunError, or what the operation raises.
    """
    if tf.inside_function():  # eager kernels, which are what ran
        raise CannotRerunError(operation.name)
    if operation.custom_gradient is not None:
        return _called(operation, inputs)
    if operation.backward is not None:
        raise CannotRerunError(operation.name)
    attributes = _in_float64(operation) if wide else operation.attrs
    inputs, count = list(inputs), len(operation.outputs)
    outputs = execute.execute(operation.name, count, inputs, attributes, context.context())
    execute.record_gradient(operation.name, inputs, attributes, outputs)
    return list(outputs)


def _called(operation: RecordedOperation, inputs: Sequence[Any]) -> Tensors:
    """The function under tf.custom_gradient with other tensors among its arguments."""
    call = operation.custom_gradient
    assert call is not None
    arguments = call.args, call.keywords
    # TensorFlow makes tensors of all arguments, which come first among the inputs; variables follow.
    pairs = zip(tf.nest.flatten(arguments), inputs, strict=False)
    args, keywords = tf.nest.pack_sequence_as(arguments, [new if _is_value(old) else old for old, new in pairs])
    return list(tf.nest.flatten(tf_custom_gradient._eager_mode_decorator(call.func, args, keywords)))


def movable(operation: RecordedOperation) -> frozenset[int]:
    """The positions of the inputs in whose place `rerun` takes other tensors."""
    call = operation.custom_gradient
    if call is None:
        return frozenset(range(len(operation.inputs)) if operation.backward is None else ())
    return frozenset(i for i, one in enumerate(tf.nest.flatten((call.args, call.keywords))) if _is_value(one))


def _is_value(argument: Any) -> bool:
    """Whether it is a tensor or a variable."""
    return hasattr(argument, "_numpy") or variable_of(argument) is not None


def widened(tensor: Any) -> Any:
    """A tensor in float64 (complex128) if it is in less, else as it is."""
    if not tf.is_tensor(tensor) or tensor.dtype.name not in WIDE:
        return tensor
    return tf.cast(tensor, WIDE[tensor.dtype.name])


def _in_float64(operation: RecordedOperation) -> tuple[Any, ...]:
    """The attributes with float64 (complex128) for every dtype that is less."""
    names, values = operation.attrs[::2], operation.attrs[1::2]
    kinds = attribute_kinds(operation.name)
    wide = (_wide(value) if "type" in kinds.get(name, "") else value for name, value in zip(names, values, strict=True))
    return tuple(part for pair in zip(names, wide, strict=True) for part in pair)


def _wide(dtypes: Any) -> Any:
    if isinstance(dtypes, (list, tuple)):
        return [_wide(one) for one in dtypes]
    name = tf.as_dtype(dtypes).name
    return tf.as_dtype(WIDE.get(name, name)).as_datatype_enum


@lru_cache(maxsize=512)
def attribute_kinds(name: str) -> dict[str, str]:
    """The types of an operation's attributes, by their names."""
    definition = op_def_registry.get(name)
    return {} if definition is None else {one.name: one.type for one in definition.attr}


def argument_names(operation: RecordedOperation) -> list[str]:
    """Names for an operation's inputs: TensorFlow's own, those of a custom gradient's parameters, else numbers."""
    names: list[str] = []
    if operation.custom_gradient is not None:
        code = operation.custom_gradient.func.__code__
        names = list(code.co_varnames[: code.co_argcount])
    elif (definition := op_def_registry.get(operation.name)) is not None:
        attributes = dict(zip(operation.attrs[::2], operation.attrs[1::2], strict=True))
        for argument in definition.input_arg:
            count = attributes.get(argument.number_attr, 1)
            count = len(attributes[argument.type_list_attr]) if argument.type_list_attr else count
            names += (
                [argument.name]
                if not (argument.number_attr or argument.type_list_attr)
                else [f"{argument.name}[{i}]" for i in range(count)]
            )
    return [*names, *(f"inputs[{i}]" for i in range(len(names), len(operation.inputs)))][: len(operation.inputs)]
