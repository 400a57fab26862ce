"""Rerun a recorded operation, by its name and attributes, on other inputs, in its own precision or in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import custom_gradient as tf_custom_gradient

from gradcheck.autodiff.coordinates import WIDE
from gradcheck.autodiff.sources import variable_of
from gradcheck.tracing.record import RecordedOperation
from gradcheck.tracing.single_operation import attribute_kinds, executed

Tensors = list[Any]


class CannotRerunError(Exception):
    """The operation cannot run by itself; the message names it."""


def rerun(operation: RecordedOperation, inputs: Sequence[Any], *, wide: bool = False) -> Tensors:
    """Return the outputs for other inputs, `wide` ones in float64, recorded by the open tapes.

    Raises CannotRerunError, or what the operation raises.
    """
    if tf.inside_function():  # only eager kernels repeat what ran
        raise CannotRerunError(operation.name)
    if operation.custom_gradient is not None:
        return _called(operation, inputs)
    if operation.backward is not None:
        raise CannotRerunError(operation.name)
    attributes = _in_float64(operation) if wide else operation.attrs
    return executed(operation.name, len(operation.outputs), list(inputs), attributes)


def _called(operation: RecordedOperation, inputs: Sequence[Any]) -> Tensors:
    """Call the function under tf.custom_gradient with other tensors as its arguments, and in its variables."""
    call = operation.custom_gradient
    assert call is not None
    arguments = call.args, call.keywords
    # TensorFlow converts all arguments to tensors, which come first among the inputs; variables follow.
    flat = tf.nest.flatten(arguments)
    args, keywords = tf.nest.pack_sequence_as(
        arguments, [new if _is_value(old) else old for old, new in zip(flat, inputs, strict=False)]
    )
    run = partial(tf_custom_gradient._eager_mode_decorator, call.func, args, keywords)
    if not operation.variables:
        return list(tf.nest.flatten(run()))
    return _with_variables(operation, run, inputs[: len(flat)], inputs[len(flat) :])


def _with_variables(
    operation: RecordedOperation, run: Callable[[], Any], arguments: Sequence[Any], values: Sequence[Any]
) -> Tensors:
    """The same with variables: they are assigned the values, which tapes see as inputs."""
    for variable, value in zip(operation.variables, values, strict=True):
        variable.assign(value)
    inside = [one for one in arguments if _is_value(one)]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([*inside, *operation.variables])
        outputs = list(tf.nest.flatten(run()))

    def backward(*cotangents: Any) -> Any:
        return tape.gradient(outputs, [*inside, *operation.variables], output_gradients=list(cotangents))

    with record.stop_recording():
        outside = [tf.identity(output) for output in outputs]
    record.record_operation(operation.name, outside, [*inside, *values], backward)
    return outside


def movable(operation: RecordedOperation, order: int) -> frozenset[int]:
    """The positions of the inputs that `rerun` can replace by other tensors, for derivatives of this order."""
    call = operation.custom_gradient
    if call is None:
        return frozenset(range(len(operation.inputs)) if operation.backward is None else ())
    flat = tf.nest.flatten((call.args, call.keywords))
    values = {position for position, one in enumerate(flat) if _is_value(one)}
    # A second derivative goes through the variable, which is no tensor that could be watched.
    return frozenset(
        values.union(range(len(flat), len(operation.inputs)) if operation.variables and order == 1 else ())
    )


def _is_value(argument: Any) -> bool:
    """Whether it is a tensor or a variable."""
    return hasattr(argument, "_numpy") or variable_of(argument) is not None


def widened(tensor: Any) -> Any:
    """Cast a tensor of less precision to float64 (complex128); return others unchanged.

    >>> widened(tf.constant(1.0)).dtype.name, widened(tf.constant(1)).dtype.name, widened("text")
    ('float64', 'int32', 'text')
    """
    if not tf.is_tensor(tensor) or tensor.dtype.name not in WIDE:
        return tensor
    return tf.cast(tensor, WIDE[tensor.dtype.name])


def _in_float64(operation: RecordedOperation) -> tuple[Any, ...]:
    """The attributes with float64 (complex128) for every dtype of less precision."""
    names, values = operation.attrs[::2], operation.attrs[1::2]
    kinds = attribute_kinds(operation.name)
    wide = (_wide(value) if "type" in kinds.get(name, "") else value for name, value in zip(names, values, strict=True))
    return tuple(part for pair in zip(names, wide, strict=True) for part in pair)


def _wide(dtypes: Any) -> Any:
    if isinstance(dtypes, (list, tuple)):
        return [_wide(one) for one in dtypes]
    name = tf.as_dtype(dtypes).name
    return tf.as_dtype(WIDE.get(name, name)).as_datatype_enum


def argument_names(operation: RecordedOperation) -> list[str]:
    """Names for an operation's inputs: TensorFlow's own, those of a custom gradient's parameters, else numbers."""
    names: list[str] = []
    if operation.custom_gradient is not None:
        code = operation.custom_gradient.func.__code__
        names = list(code.co_varnames[: code.co_argcount])
        if operation.variables:
            own = [variable.name.split(":")[0] for variable in operation.variables]
            names = [*names[: len(operation.inputs) - len(own)], *own]
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
