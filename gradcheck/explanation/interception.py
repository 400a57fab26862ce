"""Functions of TensorFlow that are wrapped for a while and put back, whatever happens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core, execute, record
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import constant_op, ops
from tensorflow.python.ops import custom_gradient, resource_variable_ops

Wrapper = Callable[..., Any]
"""Takes the original function, then the arguments of a call."""


@contextmanager
def patched(*patches: tuple[Any, str, Wrapper]) -> Iterator[None]:
    """Let each `wrapper(original, *args, **kwargs)` answer the calls of `owner.name` inside the block."""
    with ExitStack() as stack:
        for owner, name, wrapper in patches:
            original = getattr(owner, name)
            inherited = isinstance(owner, type) and name not in vars(owner)
            stack.callback(delattr if inherited else _putter(original), owner, name)
            setattr(owner, name, _wrapped(original, wrapper))
        yield


def _putter(original: Any) -> Callable[[Any, str], None]:
    return lambda owner, name: setattr(owner, name, original)


def _wrapped(original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return call


HOST_METHODS = ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__", "__complex__")


@contextmanager
def watched_exits(left: Callable[[Any, str], Any]) -> Iterator[None]:
    """Call `left(tensor, method)` where a value leaves; the tensor that it returns is read in its place."""

    def wrapper(name: str) -> Wrapper:
        return lambda original, tensor, *args, **kwargs: original(left(tensor, name), *args, **kwargs)

    with patched(*((ops._EagerTensorBase, name, wrapper(name)) for name in HOST_METHODS)):
        yield


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


METHODS = ("gradient", "jacobian", "batch_jacobian")
SIGNATURES = {name: inspect.signature(getattr(tf.GradientTape, name)) for name in METHODS}


class TapeWatcher(Protocol):
    """What is told of tapes."""

    def turned(self, tape: Any, change: str) -> None:
        """A tape was "opened", "closed" or "reset"."""
        ...

    def watched(self, tape: Any, tensors: Any) -> None:
        """A tape was told to watch tensors, nested as they were given."""
        ...

    def asked(self, tape: Any, method: str, arguments: dict[str, Any], answer: Callable[..., Any]) -> Any:
        """A tape was asked for a derivative, by the arguments' names; `answer` computes it, with others if given."""
        ...


@contextmanager
def watched_tapes(watcher: TapeWatcher) -> Iterator[None]:
    """Tell the watcher what the tapes of the block do."""

    def push(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "opened")

    def pop(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "closed")

    def reset(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "reset")

    def watch(original: Any, tape: Any, tensor: Any) -> None:
        original(tape, tensor)
        watcher.watched(tape, tensor)

    def ask(name: str) -> Wrapper:
        signature = SIGNATURES[name]

        def call(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                arguments = dict(signature.bind(tape, *args, **kwargs).arguments)
            except TypeError:  # a wrong call, which TensorFlow answers in its own words
                return original(tape, *args, **kwargs)
            del arguments["self"]
            return watcher.asked(tape, name, arguments, lambda **other: original(tape, **{**arguments, **other}))

        return call

    with patched(
        (tf.GradientTape, "_push_tape", push),
        (tf.GradientTape, "_pop_tape", pop),
        (tf.GradientTape, "reset", reset),
        (tf.GradientTape, "watch", watch),
        *((tf.GradientTape, name, ask(name)) for name in METHODS),
    ):
        yield
