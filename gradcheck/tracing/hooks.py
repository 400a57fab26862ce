"""The functions of TensorFlow, most of them private, that are replaced temporarily to observe other code.

Each is a `Hook`: an object and the name of its attribute. tests/unit/tracing/test_hooks.py checks that the installed
TensorFlow still calls each of them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.client.session import BaseSession
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper
from tensorflow.python.eager import execute, record
from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.framework import constant_op, op_def_library, ops
from tensorflow.python.lib.io import file_io
from tensorflow.python.lib.io.tf_record import TFRecordWriter
from tensorflow.python.ops import (
    custom_gradient,
    gen_array_ops,
    gen_random_ops,
    resource_variable_ops,
    script_ops,
    summary_ops_v2,
)
from tensorflow.python.ops.data_flow_ops import QueueBase
from tensorflow.python.ops.parallel_for import control_flow_ops
from tensorflow.python.summary.writer.event_file_writer import EventFileWriter

Hook: TypeAlias = tuple[Any, str]

# Operations

FAST_EXECUTION: Hook = (pywrap_tfe, "TFE_Py_FastPathExecute")
"""Executes an eager operation like its Python function: context, name, label, inputs and attributes."""
EXECUTION: Hook = (execute, "execute")
"""Executes an eager operation where the fast path is refused, and calls the graph of a function."""
KERNEL: Hook = (pywrap_tfe, "TFE_Py_Execute")
"""Executes an eager operation for `execute`: handle, device, name, inputs, attributes, number of outputs."""
CONSTANT: Hook = (constant_op, "convert_to_eager_tensor")
"""Converts a Python or NumPy value to a tensor."""
GRAPH_OPERATION: Hook = (op_def_library, "_apply_op_helper")
"""Adds an operation to a graph."""
RANDOM_OPERATIONS = {
    name: (gen_random_ops, name)
    for name in (
        *("random_standard_normal", "random_uniform", "truncated_normal", "random_uniform_int"),
        *("multinomial", "random_shuffle"),
    )
}
"""Create random operations with a state of their own, seeded by two seeds."""
HOST_READS: dict[str, Hook] = {
    name: (ops._EagerTensorBase, name)
    for name in ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__", "__complex__")
}
"""The methods by which Python reads a tensor's value; NumPy uses none of them in np.exp(x) and np.array(x)."""

# Tapes and gradients

TAPE_PUSH: Hook = (tf.GradientTape, "_push_tape")
TAPE_POP: Hook = (tf.GradientTape, "_pop_tape")
TAPE_RESET: Hook = (tf.GradientTape, "reset")
TAPE_WATCH: Hook = (tf.GradientTape, "watch")
TAPE_ENTER: Hook = (tf.GradientTape, "__enter__")
DERIVATIVES: dict[str, Hook] = {name: (tf.GradientTape, name) for name in ("gradient", "jacobian", "batch_jacobian")}
"""The methods of a tape that take a derivative."""
GRADIENT_LOOKUP: Hook = (type(ops.gradient_registry), "lookup")
"""Looks up the gradient function of an operation; other registries of the class look up shape functions."""
GRADIENT_DEFINITION: Hook = (record, "record_operation")
"""Gives the outputs of Python code a gradient function, as tf.custom_gradient does."""
CUSTOM_GRADIENT: Hook = (custom_gradient, "_eager_mode_decorator")
"""Calls a function under tf.custom_gradient eagerly."""
CUSTOM_GRADIENT_IN_GRAPHS: Hook = (custom_gradient, "_graph_mode_decorator")
"""The same while a graph is built."""
STOP_GRADIENT: Hook = (gen_array_ops, "stop_gradient")
"""Runs the operation of tf.stop_gradient, eagerly and while a graph is built."""

# Functions, variables, sessions

FUNCTION_CALL: Hook = (polymorphic_function.Function, "__call__")
GRAPH_CALL: Hook = (concrete_function.ConcreteFunction, "_call_flat")
"""Calls the graph of a tf.function with its inputs and captured tensors."""
PYTHON_FUNCTION: Hook = (script_ops, "_internal_py_func")
VECTORISED: Hook = (control_flow_ops, "pfor")
"""Runs a loop as one graph, whether functions run eagerly or not, as jacobian, batch_jacobian and vectorized_map do."""
RETRACING_WARNING: Hook = (polymorphic_function._FrequentTracingDetectorManager, "called_with_tracing")
VARIABLE_ACCESS: Hook = (resource_variable_ops, "variable_accessed")
SESSION_RUN: Hook = (BaseSession, "run")

# Outside of TensorFlow's graphs: data, files, logs

DATASET_FUNCTION: Hook = (StructuredFunctionWrapper, "__init__")
"""Traces a function that a dataset calls, as in `map`, whether functions run eagerly or not."""
ITERATOR_MADE: Hook = (OwnedIterator, "__init__")
ITERATOR_READS: tuple[Hook, ...] = ((OwnedIterator, "_next_internal"), (OwnedIterator, "get_next_as_optional"))
QUEUE_CALLS: tuple[Hook, ...] = tuple(
    (QueueBase, name) for name in ("dequeue", "dequeue_many", "dequeue_up_to", "enqueue", "enqueue_many")
)
FILE_WRITE: Hook = (file_io.FileIO, "_prewrite_check")
RECORD_WRITE: Hook = (TFRecordWriter, "__init__")
SUMMARY_DECISION: Hook = (summary_ops_v2, "_should_record_summaries_internal")
"""Decides whether summaries are recorded, eagerly and when a function is traced."""
SUMMARY_EVENT: Hook = (EventFileWriter, "add_event")

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


EAGERLY = "a tf.function draws different random numbers than eager code; the eager result was compared"
"""The note on how `functions_run_eagerly` changes a function that draws random numbers."""


@contextmanager
def functions_run_eagerly(eagerly: bool = True) -> Iterator[None]:
    """Run every tf.function of the block as plain Python, so that its lines are its author's own, or traced.

    Functions of datasets and vectorised loops are traced as outside of it: TensorFlow warns that it is not for them.
    """
    before = tf.config.functions_run_eagerly()

    def as_before(original: Any, *args: Any, **kwargs: Any) -> Any:
        now = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(before)
        try:
            return original(*args, **kwargs)
        finally:
            tf.config.run_functions_eagerly(now)

    try:  # includes the change: Ctrl-C may come right after it
        tf.config.run_functions_eagerly(eagerly)
        with patched((*DATASET_FUNCTION, as_before), (*VECTORISED, as_before)):
            yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def as_written(function: Any) -> Iterator[None]:
    """Let a tf.function that is a method run its author's code in the block.

    After tracing, TensorFlow replaces that code by AutoGraph's conversion, which has none of its author's lines, even
    when it runs eagerly (`class_method_to_instance_method` in TensorFlow's polymorphic_function.py).
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
    """Let `hook(operation, function)` replace the results of lookups in TensorFlow's gradient registry in the block."""

    def looked_up(original: Callable[..., Any], registry: Any, name: str | bytes) -> Any:
        found = original(registry, name)
        # A graph's attributes, which name custom gradients, are bytes.
        return hook(tf.compat.as_str(name), found) if registry is ops.gradient_registry else found

    with patched((*GRADIENT_LOOKUP, looked_up)):
        yield


SIGNATURES = {name: inspect.signature(getattr(*hook)) for name, hook in DERIVATIVES.items()}

DerivativeHook = Callable[[Any, str, dict[str, Any], Callable[[], Any]], Any]
"""Takes a tape, the called method, the arguments by name, and a callable for the result; returns the result."""


@contextmanager
def derivatives_observed(hook: DerivativeHook) -> Iterator[None]:
    """Let the hook replace the methods by which tapes take derivatives inside the block."""

    def standing_in(name: str) -> Wrapper:
        def wrapper(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                arguments = dict(SIGNATURES[name].bind(tape, *args, **kwargs).arguments)
            except TypeError:  # a wrong call: TensorFlow's own message explains it
                return original(tape, *args, **kwargs)
            del arguments["self"]
            return hook(tape, name, arguments, lambda: original(tape, **arguments))

        return wrapper

    with patched(*((*place, standing_in(name)) for name, place in DERIVATIVES.items())):
        yield


@contextmanager
def layers_observed() -> Iterator[dict[int, Any]]:
    """Collect the layers of Keras that are called inside the block."""
    called: dict[int, Any] = {}

    def call(original: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        called[id(layer)] = layer
        return original(layer, *args, **kwargs)

    homes = [sys.modules[name].layers for name in ("keras", "tf_keras") if name in sys.modules]
    with patched(*((home.Layer, "__call__", call) for home in homes)):
        yield called


def py_function_as_it_is(original: Any, **call: Any) -> Any:
    """Call the function of an eager tf.py_function directly: its operations are seen, and differentiated twice."""
    types = call["Tout"]
    if not (call.get("use_eager_py_func") and tf.executing_eagerly() and types) or call.get("is_grad_func"):
        return original(**call)
    result = call["func"](*map(tf.convert_to_tensor, call["inp"]))
    if not isinstance(types, (list, tuple)):
        return tf.convert_to_tensor(result, types)
    parts = result if isinstance(result, (list, tuple)) else [result]
    return [tf.convert_to_tensor(part, dtype) for part, dtype in zip(parts, types, strict=True)]
