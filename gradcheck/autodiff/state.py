"""Snapshots of the state that a function changes: variables of any kind, and the random generators.

A variable is read or assigned through its handle, or by a tf.function that captured the handle. Both are watched; its
value is kept at the first access, as the tensor that the variable shares its buffer with, so that nothing is copied.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
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
    """The variables that were accessed, by the identity of their handles, with their values from before."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, Any]] = {}

    def note(self, handle: Any) -> None:
        """Keep the value behind a handle, unless it is known, is no variable's, or has no value yet."""
        if not isinstance(handle, ops.EagerTensor) or handle._id in self._held or handle.is_packed:
            return
        data = getattr(handle, "_handle_data", None)
        if data is None or not data.is_set or len(data.shape_and_type) != 1:
            return
        with tf.init_scope():
            if tf.raw_ops.VarIsInitializedOp(resource=handle):
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=data.shape_and_type[0].dtype)
                self._held[handle._id] = handle, value

    def value(self, variable: Any) -> Any:
        """The value from before, a tensor; the present one where the variable was not accessed."""
        with tf.init_scope():
            handle = variable.handle
            return self._held[handle._id][1] if handle._id in self._held else variable.value()

    def restore(self) -> None:
        """Give every variable its value from before."""
        with context.eager_mode():
            for handle, value in self._held.values():
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)


@contextmanager
def snapshot_variables() -> Iterator[VariableSnapshot]:
    """Keep the values of the variables that the block accesses; restoring them is left to the caller."""
    snapshot = VariableSnapshot()
    handle, call = VARIABLE.handle, FUNCTION._call_flat

    def noting_handle(variable: Any) -> Any:
        asked = handle.fget(variable)
        snapshot.note(asked)
        return asked

    def noting_call(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        for tensor in (*tensor_inputs, *captured_inputs):
            if getattr(tensor, "dtype", None) == tf.resource:
                snapshot.note(tensor)
        return call(function, tensor_inputs, captured_inputs)

    VARIABLE.handle, FUNCTION._call_flat = property(noting_handle), noting_call
    try:
        yield snapshot
    finally:
        VARIABLE.handle, FUNCTION._call_flat = handle, call


@contextmanager
def variables_restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        # TensorFlow offers no public way to ask whether its generators exist, and asking for one would make it.
        generator = getattr(stateful_random_ops, "global_generator", None)
        stack.callback(setattr, stateful_random_ops, "global_generator", generator)
        if generator is not None:
            stack.callback(generator.state.assign, generator.state.numpy())
        seeds = getattr(context.context(), "_rng", None)
        if seeds is not None:
            stack.callback(_restore_seeds, seeds, seeds.getstate())
        for variable in variables:
            stack.callback(variable.assign, variable.numpy())
        yield


def _restore_seeds(seeds: random.Random, state: tuple[Any, ...]) -> None:
    """Put the generator of the operations' seeds back, if it was used."""
    if seeds.getstate() != state:
        seeds.setstate(state)
        # A kernel is cached under its seed and goes on where it stopped; tf.random.set_seed clears the cache, too.
        context.context().clear_kernel_cache()


@contextmanager
def state_restored() -> Iterator[VariableSnapshot]:
    """Leave every variable that is read or assigned inside, and the generators, as they were, whatever happens.

    For code that changes its own state: moving averages, counters, optimizer slots, seeds. A variable made inside keeps
    the value that it was first accessed with. What was computed inside stays connected for a tape around the block.

    >>> import tensorflow as tf
    >>> calls = tf.Variable(0)
    >>> with state_restored():
    ...     _ = calls.assign_add(1)
    >>> int(calls)
    0
    """
    with variables_restored(), snapshot_variables() as snapshot:
        try:
            yield snapshot
        finally:
            snapshot.restore()
