"""Every eager operation of a block, seen before and after it runs.

TensorFlow's operation callbacks see operations, but neither Python values that become tensors nor gradients that come
without an operation, and they cannot put another value in an output's place. Here the fast path declines, upon which
the generated code goes through `execute`, which is wrapped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core, execute, record
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import constant_op
from tensorflow.python.ops import custom_gradient, resource_variable_ops

from gradcheck.diagnosis.patches import patched

BRING = inspect.signature(record.record_operation)


class Watcher(Protocol):
    """What is told of operations; it may put other tensors in place of inputs and outputs."""

    def starts(self, name: str, inputs: list[Any]) -> list[Any]:
        """An operation is about to run; returns its inputs."""
        ...

    def ran(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        """An operation ran, or a constant was made ("Const"); returns its outputs."""
        ...

    def brought(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], backward: Callable[..., Any], call: Any
    ) -> None:
        """A gradient was recorded by hand; `call` is (function, args, kwargs) for a tf.custom_gradient."""
        ...

    def accessed(self, variable: Any) -> None:
        """A variable was read or assigned."""
        ...

    def function_called(self) -> None:
        """A tf.function was called."""
        ...


@contextmanager
def intercepted(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of every eager operation in the block; functions run eagerly meanwhile."""
    calls: list[Any] = []

    def fast(original: Any, *args: Any, **kwargs: Any) -> Any:
        raise core._FallbackException

    def run(original: Any, op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None) -> Any:
        text = op_name.decode() if isinstance(op_name, bytes) else op_name
        inputs = watcher.starts(text, list(inputs))
        outputs = original(op_name, num_outputs, inputs, attrs, ctx, name)
        return watcher.ran(text, inputs, outputs, attrs) if isinstance(outputs, list) else outputs

    def constant(original: Any, value: Any, ctx: Any, dtype: Any = None) -> Any:
        tensor = original(value, ctx, dtype)
        return tensor if tensor is value else watcher.ran("Const", (), [tensor], ())[0]

    def brought(original: Any, *args: Any, **kwargs: Any) -> Any:
        given = BRING.bind(*args, **kwargs).arguments
        name, outputs, inputs, backward = (given[part] for part in list(BRING.parameters)[:4])
        watcher.brought(name, tuple(inputs), tuple(outputs), backward, calls[-1] if calls else None)
        return original(*args, **kwargs)

    def custom(original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        calls.append((f, args, kwargs))
        try:
            return original(f, args, kwargs)
        finally:
            calls.pop()

    def access(original: Any, variable: Any) -> Any:
        watcher.accessed(variable)
        return original(variable)

    def call(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        watcher.function_called()
        return original(function, *args, **kwargs)

    with (
        run_eagerly(),
        patched(
            (pywrap_tfe, "TFE_Py_FastPathExecute", fast),
            (execute, "execute", run),
            (constant_op, "convert_to_eager_tensor", constant),
            (record, "record_operation", brought),
            (custom_gradient, "_eager_mode_decorator", custom),
            (resource_variable_ops, "variable_accessed", access),
            (polymorphic_function.Function, "__call__", call),
        ),
    ):
        yield


@contextmanager
def run_eagerly(eagerly: bool = True) -> Iterator[None]:
    """Run every tf.function of the block as plain Python, so that its lines are its author's own, or traced."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(eagerly)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
