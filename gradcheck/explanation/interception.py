"""Functions of TensorFlow are replaced for a while and put back, so that an observer sees what somebody's code does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

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
    """Let each `wrapper(original, *args, **kwargs)` stand in for `owner.name` inside the block.

    Functions, methods and inherited methods are put back whatever happens inside.

    >>> import math
    >>> with patched((math, "sqrt", lambda original, x: original(abs(x)))):
    ...     math.sqrt(-4.0)
    2.0
    """
    with ExitStack() as stack:
        for owner, name, wrapper in patches:
            original = getattr(owner, name)
            if isinstance(owner, type) and name not in vars(owner):
                stack.callback(delattr, owner, name)
            else:
                stack.callback(setattr, owner, name, original)
            setattr(owner, name, _wrapped(original, wrapper))
        yield


def _wrapped(original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return call


@contextmanager
def functions_run_eagerly(eagerly: bool = True) -> Iterator[None]:
    """Run every tf.function of the block as plain Python, so that its lines are its author's own, or traced."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(eagerly)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


class Observer:
    """Is notified of what observed code does; each method may be overridden and by default changes nothing."""

    def before_operation(self, name: str, inputs: list[Any]) -> list[Any]:
        """An eager operation is about to run; returns the inputs that it gets."""
        return inputs

    def after_operation(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        """An eager operation ran, or a constant was made ("Const"); returns the outputs that the code gets."""
        return outputs

    def gradient_defined(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], backward: Callable[..., Any], call: Any
    ) -> None:
        """Tapes were given an operation with a `backward` of its own.

        For a tf.custom_gradient, `call` is (function, args, kwargs).
        """

    def variable_accessed(self, variable: Any) -> None:
        """A variable was read or assigned."""

    def function_called(self) -> None:
        """A tf.function was called."""

    def host_read(self, tensor: Any, method: str) -> Any:
        """Python reads a tensor's value by `method`, such as numpy or __float__; returns the tensor that it reads."""
        return tensor

    def tape_changed(self, tape: Any, change: str) -> None:
        """A tape was "opened", "closed" or "reset"."""

    def tensors_watched(self, tape: Any, tensors: Any) -> None:
        """A tape's `watch` was called with tensors, nested as they were given."""

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        """A tape's gradient, jacobian or batch_jacobian was called; returns what the code gets.

        `arguments` are those of the call by name; `compute(**changes)` takes the derivative.
        """
        return compute()


@contextmanager
def operations_observed(observer: Observer) -> Iterator[None]:
    """Notify the observer of every eager operation in the block; tf.functions run eagerly meanwhile."""
    hooks = _OperationHooks(observer)
    with (
        functions_run_eagerly(),
        patched(
            (pywrap_tfe, "TFE_Py_FastPathExecute", hooks.refuse_fast_path),
            (execute, "execute", hooks.execute),
            (constant_op, "convert_to_eager_tensor", hooks.make_constant),
            (record, "record_operation", hooks.record_operation),
            (custom_gradient, "_eager_mode_decorator", hooks.call_custom_gradient),
            (resource_variable_ops, "variable_accessed", hooks.access_variable),
            (polymorphic_function.Function, "__call__", hooks.call_function),
        ),
    ):
        yield


RECORD_OPERATION = inspect.signature(record.record_operation)


class _OperationHooks:
    """What stands in for TensorFlow's functions; `custom_calls` are the calls under tf.custom_gradient, nested."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.custom_calls: list[Any] = []

    def refuse_fast_path(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        raise core._FallbackException

    def execute(
        self, original: Any, op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        text = op_name.decode() if isinstance(op_name, bytes) else op_name
        inputs = self.observer.before_operation(text, list(inputs))
        outputs = original(op_name, num_outputs, inputs, attrs, ctx, name)
        return self.observer.after_operation(text, inputs, outputs, attrs) if isinstance(outputs, list) else outputs

    def make_constant(self, original: Any, value: Any, ctx: Any, dtype: Any = None) -> Any:
        tensor = original(value, ctx, dtype)
        return tensor if tensor is value else self.observer.after_operation("Const", (), [tensor], ())[0]

    def record_operation(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        given = RECORD_OPERATION.bind(*args, **kwargs).arguments
        name, outputs, inputs, backward = (given[part] for part in list(RECORD_OPERATION.parameters)[:4])
        call = self.custom_calls[-1] if self.custom_calls else None
        self.observer.gradient_defined(name, tuple(inputs), tuple(outputs), backward, call)
        return original(*args, **kwargs)

    def call_custom_gradient(self, original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        self.custom_calls.append((f, args, kwargs))
        try:
            return original(f, args, kwargs)
        finally:
            self.custom_calls.pop()

    def access_variable(self, original: Any, variable: Any) -> Any:
        self.observer.variable_accessed(variable)
        return original(variable)

    def call_function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.observer.function_called()
        return original(function, *args, **kwargs)


HOST_METHODS = ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__", "__complex__")
"""The methods by which Python reads a tensor's value."""


@contextmanager
def host_reads_observed(observer: Observer) -> Iterator[None]:
    """Notify the observer where Python reads a tensor's value."""

    def wrapper(name: str) -> Wrapper:
        return lambda original, tensor, *args, **kwargs: original(observer.host_read(tensor, name), *args, **kwargs)

    with patched(*((ops._EagerTensorBase, name, wrapper(name)) for name in HOST_METHODS)):
        yield


DERIVATIVES = ("gradient", "jacobian", "batch_jacobian")
"""The methods of a tape that take a derivative."""
SIGNATURES = {name: inspect.signature(getattr(tf.GradientTape, name)) for name in DERIVATIVES}


@contextmanager
def tapes_observed(observer: Observer) -> Iterator[None]:
    """Notify the observer of what is done with GradientTapes in the block."""

    def changing(change: str) -> Wrapper:
        def wrapper(original: Any, tape: Any) -> None:
            original(tape)
            observer.tape_changed(tape, change)

        return wrapper

    def watch(original: Any, tape: Any, tensor: Any) -> None:
        original(tape, tensor)
        observer.tensors_watched(tape, tensor)

    def taking(name: str) -> Wrapper:
        def wrapper(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                arguments = dict(SIGNATURES[name].bind(tape, *args, **kwargs).arguments)
            except TypeError:  # a wrong call: TensorFlow's own message explains it
                return original(tape, *args, **kwargs)
            del arguments["self"]
            return observer.derivative_requested(
                tape, name, arguments, lambda **changes: original(tape, **{**arguments, **changes})
            )

        return wrapper

    with patched(
        (tf.GradientTape, "_push_tape", changing("opened")),
        (tf.GradientTape, "_pop_tape", changing("closed")),
        (tf.GradientTape, "reset", changing("reset")),
        (tf.GradientTape, "watch", watch),
        *((tf.GradientTape, name, taking(name)) for name in DERIVATIVES),
    ):
        yield
