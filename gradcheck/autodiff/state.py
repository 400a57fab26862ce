"""Snapshots of the state that a function changes: variables of any kind, and the random generators.

A variable is read or assigned through its handle, or by a tf.function that captured the handle. Both are watched; its
value is kept at the first access, as the tensor that the variable shares its buffer with, so that nothing is copied.
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
    """The variables that were accessed, by the identity of their handles, with their values from before."""

    def __init__(self) -> None:
        self._handles: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def note(self, handle: Any) -> None:
        """Keep the value behind a handle, unless it is known, is no variable's, or has no value yet."""
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
        """The value from before, a tensor; the present one where the variable was not accessed."""
        with tf.init_scope():
            return self._values.get(variable.handle._id, variable.value())

    def restore(self) -> None:
        """Give every variable its value from before."""
        with context.eager_mode():
            for number, handle in self._handles.items():
                tf.raw_ops.AssignVariableOp(resource=handle, value=self._values[number])


@contextmanager
def snapshot_variables() -> Iterator[VariableSnapshot]:
    """Keep the values of the variables that the block accesses; restoring them is left to the caller."""
    snapshot = VariableSnapshot()
    handle, call = VARIABLE.handle, FUNCTION._call_flat
    VARIABLE.handle = property(_handle_noting(snapshot, handle.fget))
    FUNCTION._call_flat = _call_noting(snapshot, call)
    try:
        yield snapshot
    finally:
        VARIABLE.handle, FUNCTION._call_flat = handle, call


def _handle_noting(snapshot: VariableSnapshot, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def handle(variable: Any) -> Any:
        asked = original(variable)
        snapshot.note(asked)
        return asked

    return handle


def _call_noting(snapshot: VariableSnapshot, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        for tensor in (*tensor_inputs, *captured_inputs):
            if getattr(tensor, "dtype", None) == tf.resource:
                snapshot.note(tensor)
        return original(function, tensor_inputs, captured_inputs)

    return call


def _read(handle: Any) -> Any:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=handle._handle_data.shape_and_type[0].dtype)


@contextmanager
def variables_restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        for restore in _generator_restorers():
            stack.callback(restore)
        for variable in variables:
            stack.callback(variable.assign, variable.numpy())
        yield


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


def _generator_restorers() -> list[Callable[[], Any]]:
    python, numpy = random.getstate(), np.random.get_state()
    restorers: list[Callable[[], Any]] = [lambda: random.setstate(python), lambda: np.random.set_state(numpy)]
    # TensorFlow offers no public way to ask whether its generators exist, and asking for one would make it.
    generator = getattr(stateful_random_ops, "global_generator", None)
    restorers.append(lambda: setattr(stateful_random_ops, "global_generator", generator))
    if generator is not None:
        state = generator.state.numpy()
        restorers.append(lambda: generator.state.assign(state))
    operation_seeds = getattr(context.context(), "_rng", None)
    if operation_seeds is not None:
        restorers.append(_seeds_restorer(operation_seeds))
    return restorers


def _seeds_restorer(operation_seeds: random.Random) -> Callable[[], None]:
    seeds = operation_seeds.getstate()

    def restore() -> None:
        if operation_seeds.getstate() != seeds:
            operation_seeds.setstate(seeds)
            # A kernel is cached under its seed and goes on where it stopped; tf.random.set_seed clears the cache, too.
            context.context().clear_kernel_cache()

    return restore
