"""Which variables somebody's code touches, and their values from before: weights, optimizer slots, counters, averages.

Whoever reads or assigns a variable asks for its handle, or runs a tf.function that captured the handle. Both are
watched; a value is kept at the first touch, as the tensor that the variable shares its buffer with: nothing is copied.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops, stateful_random_ops

VARIABLE = resource_variable_ops.BaseResourceVariable
FUNCTION = concrete_function.ConcreteFunction


class VariableSnapshot:
    """The variables that were touched, by the identity of their handles, each with the value that it had before."""

    def __init__(self) -> None:
        self._handles: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def note(self, handle: Any) -> None:
        """Keeps the value behind a handle, unless it is known, is no variable, or has no value yet."""
        if not isinstance(handle, ops.EagerTensor) or handle._id in self._values or handle.is_packed:
            return
        held = getattr(handle, "_handle_data", None)
        if held is None or not held.is_set or len(held.shape_and_type) != 1:
            return
        with tf.init_scope():
            if tf.raw_ops.VarIsInitializedOp(resource=handle):
                self._handles[handle._id] = handle
                self._values[handle._id] = _read(handle)

    def value(self, variable: Any) -> Any:
        """The value from before, a tensor; today's where nobody touched the variable."""
        with tf.init_scope():
            return self._values.get(variable.handle._id, variable.value())

    def put_back(self) -> None:
        """Gives every variable its value from before."""
        with context.eager_mode():
            for number, handle in self._handles.items():
                tf.raw_ops.AssignVariableOp(resource=handle, value=self._values[number])


@contextmanager
def snapshot_variables() -> Iterator[VariableSnapshot]:
    """Note the variables that are touched inside the block; putting them back is left to the caller."""
    seen = VariableSnapshot()
    handle, call = VARIABLE.handle, FUNCTION._call_flat
    VARIABLE.handle = property(_handle_noting(seen, handle.fget))
    FUNCTION._call_flat = _call_noting(seen, call)
    try:
        yield seen
    finally:
        VARIABLE.handle, FUNCTION._call_flat = handle, call


def _handle_noting(seen: VariableSnapshot, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def handle(variable: Any) -> Any:
        asked = original(variable)
        seen.note(asked)
        return asked

    return handle


def _call_noting(seen: VariableSnapshot, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        for tensor in (*tensor_inputs, *captured_inputs):
            if getattr(tensor, "dtype", None) == tf.resource:
                seen.note(tensor)
        return original(function, tensor_inputs, captured_inputs)

    return call


def _read(handle: Any) -> Any:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=handle._handle_data.shape_and_type[0].dtype)


@contextmanager
def variables_restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        for put_back in _snapshots():
            stack.callback(put_back)
        for variable in variables:
            stack.callback(variable.assign, variable.numpy())
        yield


@contextmanager
def state_restored() -> Iterator[VariableSnapshot]:
    """Leave every variable that is read or assigned inside, and the generators, as they were, whatever happens.

    For one call of somebody's code that changes its own state: moving averages, counters, optimizer slots, the states
    of a SeedGenerator. A variable made inside keeps the value that it was first touched with. What was computed inside
    stays connected for a tape around the block.

    >>> import tensorflow as tf
    >>> calls = tf.Variable(0)
    >>> with undone():
    ...     _ = calls.assign_add(1)
    >>> int(calls)
    0
    """
    with variables_restored(), snapshot_variables() as seen:
        try:
            yield seen
        finally:
            seen.put_back()


def _snapshots() -> list[Callable[[], Any]]:
    python, numpy = random.getstate(), np.random.get_state()
    undo: list[Callable[[], Any]] = [lambda: random.setstate(python), lambda: np.random.set_state(numpy)]
    # TensorFlow offers no public way to ask whether its generators exist, and asking for one would make it.
    generator = getattr(stateful_random_ops, "global_generator", None)
    undo.append(lambda: setattr(stateful_random_ops, "global_generator", generator))
    if generator is not None:
        state = generator.state.numpy()
        undo.append(lambda: generator.state.assign(state))
    operation_seeds = getattr(context.context(), "_rng", None)
    if operation_seeds is not None:
        undo.append(_seeds_restorer(operation_seeds))
    return undo


def _seeds_restorer(operation_seeds: random.Random) -> Callable[[], None]:
    seeds = operation_seeds.getstate()

    def put_back() -> None:
        if operation_seeds.getstate() != seeds:
            operation_seeds.setstate(seeds)
            # A kernel is cached under its seed and goes on where it stopped; tf.random.set_seed clears the cache, too.
            context.context().clear_kernel_cache()

    return put_back
