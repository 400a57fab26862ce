"""Functions are replaced for a while and put back, so that somebody sees what other code does with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

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


EAGERLY = "a tf.function draws other numbers than eager code does; compared is what it gives when it runs eagerly"
"""The note on what `functions_run_eagerly` changes of a function that draws random numbers."""


@contextmanager
def functions_run_eagerly(eagerly: bool = True) -> Iterator[None]:
    """Run every tf.function of the block as plain Python, so that its lines are its author's own, or traced."""
    before = tf.config.functions_run_eagerly()
    try:  # around the change as well: Ctrl-C may come right behind it
        tf.config.run_functions_eagerly(eagerly)
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def as_written(function: Any) -> Iterator[None]:
    """Let a tf.function that is a method run its author's code in the block.

    Once it was traced, TensorFlow has AutoGraph's conversion in place of that, which has no lines of its author's, and
    runs it eagerly, too (`class_method_to_instance_method` in TensorFlow's polymorphic_function.py).
    """
    method = function._python_function
    written, converted = (getattr(method, name, None) for name in ("__original_wrapped__", "__wrapped__"))
    if written is None or converted is written:
        yield
        return
    try:
        method.__wrapped__ = written
        yield
    finally:
        method.__wrapped__ = converted


@contextmanager
def gradients_looked_up(hook: Callable[[str, Any], Any]) -> Iterator[None]:
    """Let `hook(operation, function)` say what is found for a lookup in TensorFlow's gradient registry in the block."""

    def looked_up(original: Callable[..., Any], registry: Any, name: str | bytes) -> Any:
        found = original(registry, name)
        # A graph's attributes, which name custom gradients, are bytes.
        return hook(tf.compat.as_str(name), found) if registry is ops.gradient_registry else found

    with patched((type(ops.gradient_registry), "lookup", looked_up)):
        yield


DERIVATIVES = ("gradient", "jacobian", "batch_jacobian")
"""The methods of a tape that take a derivative."""
SIGNATURES = {name: inspect.signature(getattr(tf.GradientTape, name)) for name in DERIVATIVES}

DerivativeHook = Callable[[Any, str, dict[str, Any], Callable[[], Any]], Any]
"""Takes a tape, the method that was called, the arguments by name, and what computes the result; returns the result."""


@contextmanager
def derivatives_observed(hook: DerivativeHook) -> Iterator[None]:
    """Let the hook stand in for the methods by which tapes take derivatives inside the block."""

    def standing_in(name: str) -> Wrapper:
        def wrapper(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                arguments = dict(SIGNATURES[name].bind(tape, *args, **kwargs).arguments)
            except TypeError:  # a wrong call: TensorFlow's own message explains it
                return original(tape, *args, **kwargs)
            del arguments["self"]
            return hook(tape, name, arguments, lambda: original(tape, **arguments))

        return wrapper

    with patched(*((tf.GradientTape, name, standing_in(name)) for name in DERIVATIVES)):
        yield


def py_function_as_it_is(original: Any, **call: Any) -> Any:
    """Call the function of an eager tf.py_function itself, whose operations are then seen, and differentiated twice."""
    types = call["Tout"]
    if not (call.get("use_eager_py_func") and tf.executing_eagerly() and types) or call.get("is_grad_func"):
        return original(**call)
    result = call["func"](*map(tf.convert_to_tensor, call["inp"]))
    if not isinstance(types, (list, tuple)):
        return tf.convert_to_tensor(result, types)
    parts = result if isinstance(result, (list, tuple)) else [result]
    return [tf.convert_to_tensor(part, dtype) for part, dtype in zip(parts, types, strict=True)]
