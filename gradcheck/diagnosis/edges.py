"""Whether TensorFlow has a gradient for one operation of a record, seen by itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.eager import execute, record
from tensorflow.python.framework import ops

from gradcheck.diagnosis.record import Operation
from gradcheck.diagnosis.tapes import METHODS

FLAT = {"ArgMax", "ArgMin", "Ceil", "Floor", "Rint", "Round", "TruncateDiv", "FloorDiv"}
"""Operations whose registered gradient is None."""


def registered(name: str) -> bool | None:
    """Whether an operation's type has a gradient; None where nobody registered anything for it."""
    try:
        return ops.gradient_registry.lookup(name) is not None
    except LookupError:
        return None


def passes(operation: Operation, tensor: Any, numbers: set[int]) -> bool:
    """Whether a gradient comes from outputs of the operation (by their `numbers`) back to one of its inputs."""
    outputs = [operation.outputs[n] for n in numbers if differentiable(operation.outputs[n])]
    if not outputs or not (differentiable(tensor) or tensor.dtype == tf.resource):
        return False
    if operation.name in METHODS:
        return True
    if operation.backward is None and not registered(operation.name):
        return False
    if not all(hasattr(part, "_numpy") for part in (*operation.inputs, *operation.outputs)):
        return operation.name not in FLAT
    return _answers(operation, tensor, outputs)


def differentiable(tensor: Any) -> bool:
    """Whether a tensor of this dtype can carry a gradient."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype == tf.variant)


def _answers(operation: Operation, tensor: Any, outputs: list[Any]) -> bool:
    """The operation recorded once more, alone, and its gradient taken."""
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(tensor)
        if operation.backward is not None:
            record.record_operation(operation.name, list(operation.outputs), list(operation.inputs), operation.backward)
        else:
            execute.record_gradient(operation.name, operation.inputs, operation.attrs, list(operation.outputs))
    try:
        return any(tape.gradient(output, tensor) is not None for output in outputs)
    except Exception:  # whatever a gradient raises when it stands alone says nothing about the path
        return True
