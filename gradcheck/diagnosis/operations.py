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
    between = _Interception(watcher)
    with (
        run_eagerly(),
        patched(
            (pywrap_tfe, "TFE_Py_FastPathExecute", between.fast),
            (execute, "execute", between.run),
            (constant_op, "convert_to_eager_tensor", between.constant),
            (record, "record_operation", between.brought),
            (custom_gradient, "_eager_mode_decorator", between.custom),
            (resource_variable_ops, "variable_accessed", between.access),
            (polymorphic_function.Function, "__call__", between.function),
        ),
    ):
        yield


class _Interception:
    """What stands in for TensorFlow's functions; `calls` are those of functions under tf.custom_gradient, nested."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.calls: list[Any] = []

    def fast(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        raise core._FallbackException

    def run(
        self, original: Any, op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        text = op_name.decode() if isinstance(op_name, bytes) else op_name
        inputs = self.watcher.starts(text, list(inputs))
        outputs = original(op_name, num_outputs, inputs, attrs, ctx, name)
        return self.watcher.ran(text, inputs, outputs, attrs) if isinstance(outputs, list) else outputs

    def constant(self, original: Any, value: Any, ctx: Any, dtype: Any = None) -> Any:
        tensor = original(value, ctx, dtype)
        return tensor if tensor is value else self.watcher.ran("Const", (), [tensor], ())[0]

    def brought(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        given = BRING.bind(*args, **kwargs).arguments
        name, outputs, inputs, backward = (given[part] for part in list(BRING.parameters)[:4])
        self.watcher.brought(name, tuple(inputs), tuple(outputs), backward, self.calls[-1] if self.calls else None)
        return original(*args, **kwargs)

    def custom(self, original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append((f, args, kwargs))
        try:
            return original(f, args, kwargs)
        finally:
            self.calls.pop()

    def access(self, original: Any, variable: Any) -> Any:
        self.watcher.accessed(variable)
        return original(variable)

    def function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.watcher.function_called()
        return original(function, *args, **kwargs)


@contextmanager
def run_eagerly(eagerly: bool = True) -> Iterator[None]:
    """Run every tf.function of the block as plain Python, so that its lines are its author's own, or traced."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(eagerly)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
