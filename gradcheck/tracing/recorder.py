"""Run the user's code once and record what it does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from gradcheck.progress import run_noted
from gradcheck.tracing import hooks
from gradcheck.tracing.graph_interpreter import GraphInterpreter, walkable
from gradcheck.tracing.hooks import (
    Wrapper,
    as_written,
    derivatives_observed,
    functions_run_eagerly,
    patched,
    py_function_as_it_is,
)
from gradcheck.tracing.library_functions import LibraryCall, LibraryForm, library_forms
from gradcheck.tracing.record import (
    CodeRecord,
    DerivativeCall,
    HostRead,
    RecordedEvent,
    RecordedOperation,
    RecordedPullback,
    TapeChange,
    WatchEvent,
    key,
)
from gradcheck.tracing.state import ChangedState, VariableSnapshot, generators, state_restored
from gradcheck.tracing.user_code import (
    call_user_code,
    entry_of,
    expression_of,
    frames_of,
    library_codes,
    line_of,
    running_frame,
    running_layer,
    source_expressions,
    user_stack,
)

FROM_NUMPY = "from NumPy"
"""The attribute of a constant that says whether it was a NumPy array."""


def recorded(f: Callable[..., Any], inputs: Sequence[Any] = ()) -> CodeRecord:
    """Run `f(*inputs)` eagerly, under a tape that covers everything, and record it; `f` may raise.

    Variables that it assigns, random generators and TensorFlow are put back.
    """
    recorder, before = CodeRecorder(), generators()
    result, error = None, None
    with state_restored() as snapshot:
        with recorder.covering:
            recorder.cover([leaf for leaf in tf.nest.flatten(inputs) if tf.is_tensor(leaf)])
            with recorder.observing(), run_noted():
                try:
                    result = call_user_code(f, inputs)
                except Exception as raised:  # the code's own
                    error = raised
        used = tuple(generator for generator in before if generator.used)
        accessed, changed = (ChangedState(found, used) for found in (snapshot.accessed(), snapshot.changed()))
    seen = recorder.covering, recorder.calls_functions, recorder.variables, recorder.replicas
    return CodeRecord(tuple(recorder.events), f, inputs, result, error, *seen, accessed, changed, recorder.expressions)


class CodeRecorder:
    """Records the operations, host reads, tapes and derivatives of one thread, by replacing functions of TensorFlow.

    `operations` and `derivatives` count them; `derivative` is the number of the one that is being taken. `replicas`
    gives the number of replicas, and their strategy, that ran unseen in other threads. `expressions` are those of a
    CodeRecord.
    """

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        self.expressions: dict[int, str] = {}
        self.operations, self.derivatives = 0, 0
        self.derivative: int | None = None
        self.variables: dict[int, Any] = {}
        self.covering = tf.GradientTape(persistent=True)
        self.calls_functions = False
        self.replicas = ""
        self._tapes: list[Any] = []
        self._known: dict[int, Any] = {}
        self._custom_gradients: list[tuple[partial[Any], int]] = []
        self._thread = threading.get_ident()
        self._paused, self._inside = False, ""
        self._calls: dict[FrameType, LibraryCall] = {}  # by their frames, which are kept: no other gets the same id

    @contextmanager
    def observing(self, *, operations: bool = True) -> Iterator[None]:
        """Run tf.functions eagerly and observe tapes in the block; with `operations`, these and host reads as well."""
        patches: list[tuple[Any, str, Wrapper]] = [
            (*hooks.TAPE_PUSH, self._changing("opened")),
            (*hooks.TAPE_POP, self._changing("closed")),
            (*hooks.TAPE_RESET, self._changing("reset")),
            (*hooks.TAPE_WATCH, self._watch),
            (VariableSnapshot, "note", self._unrecorded),
        ]
        if operations:
            patches += [
                (*hooks.FAST_EXECUTION, self._refuse_fast_path),
                (*hooks.EXECUTION, self._execute),
                (*hooks.CONSTANT, self._make_constant),
                (*hooks.GRADIENT_LOOKUP, self._look_up_gradient),
                (*hooks.GRADIENT_DEFINITION, self._define_gradient),
                (*hooks.CUSTOM_GRADIENT, self._call_custom_gradient),
                (*hooks.VARIABLE_ACCESS, self._access_variable),
                (*hooks.FUNCTION_CALL, self._call_function),
                (*hooks.GRAPH_CALL, self._call_graph),
                (*hooks.PYTHON_FUNCTION, py_function_as_it_is),
                *((*hook, self._reading(name)) for name, hook in hooks.HOST_READS.items()),
            ]
        with functions_run_eagerly(), derivatives_observed(self.take_derivative), patched(*patches):
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing of what gradcheck itself does in the block."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def ignores(self) -> bool:
        """Whether gradcheck itself is running, or another thread, such as a replica's."""
        other = threading.get_ident() != self._thread
        if other and tf.distribute.has_strategy():
            strategy = tf.distribute.get_strategy()
            self.replicas = f"{strategy.num_replicas_in_sync} of {type(strategy).__name__}"
        return self._paused or other

    def frame(self) -> FrameType | None:
        """The frame of the code that is running."""
        return running_frame()

    def call(self) -> LibraryCall | None:
        """The innermost running call of a public function that known defects are about."""
        with self.paused():  # variables are read
            forms, call = library_forms("keras" in sys.modules), None
            for frame in reversed(frames_of(forms)):
                if frame not in self._calls:
                    self._calls[frame] = _call(forms[id(frame.f_code)], frame.f_locals, call)
                call = self._calls[frame]
        return call

    def cover(self, tensors: Sequence[Any]) -> None:
        """Let the covering tape watch the tensors whose computation it did not record."""
        for tensor in tensors:
            if key(tensor) not in self._known:
                self._known[key(tensor)] = tensor
                self._watch_covering(tensor)

    def _name(self, tensors: Sequence[Any]) -> None:
        """Note the names that the running line gives to tensors from before the run."""
        new = (tensor for tensor in tensors if key(tensor) not in self._known and tensor.dtype.is_floating)
        self.expressions |= {key(tensor): expression_of(self.frame(), tensor) for tensor in new}

    def given(self, name: str, inputs: list[Any]) -> list[Any]:
        """Return the inputs that an operation of this name gets in place of those that the code gave it."""
        if not self.ignores():
            self._name(inputs)
            self.cover(inputs)
        return inputs

    def made(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        """Return the outputs that the code gets in place of those of an operation, or of a constant ("Const")."""
        if not self.ignores():
            self.cover(outputs if name == "Const" else ())
            self._note_operation(name, inputs, outputs, attrs=attrs or ())
        return outputs

    def read(self, tensor: Any, method: str) -> Any:
        """Return the tensor whose value Python gets when it reads this one."""
        if not self.ignores():
            self._name([tensor])
            self.events.append(HostRead(tensor, method, line_of(self.frame())))
        return tensor

    def take_derivative(self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """Take a tape's gradient, jacobian or batch_jacobian; the last two count as one operation."""
        if self.ignores() or self.derivative is not None:
            return compute()
        frame, position, operations = self.frame(), len(self.events), self.operations
        number = self.derivative = self.derivatives
        self.derivatives += 1
        targets = tuple(tf.nest.flatten(arguments["target"]))
        weights, unconnected = arguments.get("output_gradients"), arguments.get("unconnected_gradients", "none")
        result, results, error = None, None, None
        try:
            with nullcontext() if method == "gradient" else self._vectorized():
                result = compute()
            # None is a leaf for tf.nest, and so is IndexedSlices as long as composites are not expanded.
            results = tuple(tf.nest.flatten(result))
            if method != "gradient":
                self._note_operation(method, targets, [part for part in results if part is not None])
        except Exception as raised:  # noted, and re-raised
            error = raised
            raise
        finally:
            self.derivative = None
            self.events.append(
                DerivativeCall(
                    number=number,
                    position=position,
                    tape=self._number(tape),
                    method=method,
                    targets=targets,
                    sources=tuple(tf.nest.flatten(arguments["sources" if "sources" in arguments else "source"])),
                    weights=None if weights is None else tuple(tf.nest.flatten(weights)),
                    zeros=str(getattr(unconnected, "value", unconnected)) == "zero",
                    result=result,
                    results=results,
                    error=error,
                    line=line_of(frame),
                    operations=self.operations - operations,
                    expressions=tuple(source_expressions(frame, method)),
                )
            )
        return result

    @contextmanager
    def _vectorized(self) -> Iterator[None]:
        """Let TensorFlow trace a function for each Jacobian, without its warnings of that and of eager functions."""
        silent = patched((*hooks.RETRACING_WARNING, lambda original, *args, **kwargs: None))
        with self.paused(), functions_run_eagerly(False), silent:
            yield

    def _note_operation(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], **fields: Any) -> None:
        self._known.update((id(tensor), tensor) for tensor in outputs)
        frame = self.frame()
        if frame is not None:
            library, fields["layer"], fields["kind"] = running_layer()
            fields["library"] = None if library is frame else line_of(library)
            fields["entry"] = "" if library is frame else entry_of(library)
            fields["stack"], fields["codes"] = user_stack(frame), library_codes()
        now = {"tapes": self._recording(), "derivative": self.derivative, "inside": self._inside, "call": self.call()}
        fields = {"line": line_of(frame), **now, **fields}
        self.events.append(RecordedOperation(self.operations, name, tuple(inputs), tuple(outputs), **fields))
        self.operations += 1

    def _number(self, tape: Any) -> int:
        for number, known in enumerate(self._tapes):
            if known is tape:
                return number
        self._tapes.append(tape)
        return len(self._tapes) - 1

    def _recording(self) -> frozenset[int]:
        """The numbers of the tapes that are recording."""
        if pywrap_tfe.TFE_Py_TapeSetIsStopped():
            return frozenset()
        return frozenset(number for number, tape in enumerate(self._tapes) if tape._recording)

    def _watch_covering(self, tensor: Any) -> None:
        if self.covering._recording and (tensor.dtype.is_floating or tensor.dtype.is_complex):
            with self.paused():
                self.covering.watch(tensor)

    # A wrapper takes the function of TensorFlow that it replaces first, then the arguments of a call.

    def _unrecorded(self, original: Any, *args: Any) -> None:
        with self.paused():
            original(*args)

    def _changing(self, change: str) -> Wrapper:
        def wrapper(original: Any, tape: Any) -> None:
            original(tape)
            if not self.ignores():
                line, stack = line_of(self.frame()), user_stack(self.frame())
                self.events.append(TapeChange(self._number(tape), change, self.operations, line, stack))

        return wrapper

    def _watch(self, original: Any, tape: Any, tensor: Any) -> None:
        original(tape, tensor)
        if not self.ignores():
            number, line = self._number(tape), line_of(self.frame())
            self.events += [WatchEvent(number, one, line) for one in tf.nest.flatten(tensor)]

    def _refuse_fast_path(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        raise core._FallbackException

    def _execute(
        self, original: Any, op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        operation = op_name.decode() if isinstance(op_name, bytes) else op_name
        inputs = self.given(operation, list(inputs))
        outputs = original(op_name, num_outputs, inputs, attrs, ctx, name)
        return self.made(operation, inputs, outputs, attrs) if isinstance(outputs, list) else outputs

    def _make_constant(self, original: Any, value: Any, ctx: Any, dtype: Any = None) -> Any:
        tensor = original(value, ctx, dtype)
        attrs = (FROM_NUMPY, isinstance(value, (np.ndarray, np.generic)))
        return tensor if tensor is value else self.made("Const", (), [tensor], attrs)[0]

    def _define_gradient(
        self, original: Any, name: str, outputs: Any, inputs: Any, backward_function: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Note that tapes get an operation with a gradient of its own."""
        if not self.ignores():
            call, began = self._custom_gradients[-1] if self._custom_gradients else (None, 0)
            custom = call if call is not None and call.func.__name__ == name else None
            own = self._variables_of(custom, inputs)
            fields = {"backward": backward_function, "custom_gradient": custom, "variables": own, "began": began}
            self._note_operation(name, inputs, outputs, **fields)
            taken = partial(self._pull_back, name, inputs, outputs, backward_function)
            return original(name, outputs, inputs, taken, *args, **kwargs)
        return original(name, outputs, inputs, backward_function, *args, **kwargs)

    def _variables_of(self, custom: partial[Any] | None, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The variables of a function under tf.custom_gradient; their values follow its positional arguments."""
        values = () if custom is None else inputs[len(tf.nest.flatten(custom.args)) :]
        operations = (one for one in self.events if isinstance(one, RecordedOperation) and one.name == "ReadVariableOp")
        reads = {id(one.outputs[0]): one for one in operations} if len(values) else {}
        handles = [key(reads[id(value)].inputs[0]) if id(value) in reads else None for value in values]
        found = tuple(self.variables.get(handle) for handle in handles if handle is not None)
        return found if len(found) == len(values) and all(one is not None for one in found) else ()

    def _look_up_gradient(self, original: Any, registry: Any, name: str) -> Any:
        gradient = original(registry, name)
        if registry is not ops.gradient_registry or gradient is None or self.derivative is None or self.ignores():
            return gradient
        return lambda op, *cotangents: self._pull_back(name, op.inputs, op.outputs, partial(gradient, op), *cotangents)

    def _pull_back(self, name: str, inputs: Any, outputs: Any, gradient: Callable[..., Any], *cotangents: Any) -> Any:
        """Record the call of an operation's gradient function."""
        parts: Any = ()
        error = None
        try:
            parts = gradient(*cotangents)
        except Exception as raised:  # noted, and re-raised
            error = raised
            raise
        finally:
            if self.derivative is not None and tf.executing_eagerly() and not self.ignores():
                taken = tuple(parts) if isinstance(parts, (list, tuple)) else (parts,)
                tensors = tuple(inputs or ()), tuple(outputs or ()), cotangents, taken
                self.events.append(RecordedPullback(name, *tensors, self.derivative, error))
        return parts

    def _call_custom_gradient(self, original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        self._custom_gradients.append((partial(f, *args, **kwargs), len(self.events)))
        try:
            return original(f, args, kwargs)
        finally:
            self._custom_gradients.pop()

    def _access_variable(self, original: Any, variable: Any) -> Any:
        if not self.ignores():
            if id(variable.handle) not in self.variables:
                self.variables[id(variable.handle)] = variable
                self.expressions[id(variable.handle)] = expression_of(self.frame(), variable)
                self._watch_covering(variable)
            line = line_of(self.frame())
            for number in sorted(self._recording()):
                if variable.trainable and self._tapes[number]._watch_accessed_variables:
                    self.events.append(WatchEvent(number, variable, line))
        return original(variable)

    def _call_function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls_functions = True
        with as_written(function) if tf.config.functions_run_eagerly() else nullcontext():
            return original(function, *args, **kwargs)

    def _call_graph(self, original: Any, function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        """Run a function that exists only as a graph operation by operation, if all of these can run by themselves."""
        eager = tf.executing_eagerly() and self.derivative is None and not self.ignores()
        if not eager or not walkable(function.graph):
            return original(function, tensor_inputs, captured_inputs)
        self.calls_functions = True
        events, operations = len(self.events), self.operations
        for variable in function.graph.variables:
            resource_variable_ops.variable_accessed(variable)
        try:
            given = [getattr(one, "handle", one) for one in (*tensor_inputs, *captured_inputs)]  # those of variables
            return GraphInterpreter(self._inside_of).structured_outputs(function.graph, given)
        except Exception:  # TensorFlow's: the function itself may do what its nodes cannot, or say why
            del self.events[events:]
            self.operations, self._inside = operations, ""
            return original(function, tensor_inputs, captured_inputs)

    @contextmanager
    def _inside_of(self, node: str) -> Iterator[None]:
        before, self._inside = self._inside, node
        yield
        self._inside = before

    def _reading(self, method: str) -> Wrapper:
        return lambda original, tensor, *args, **kwargs: original(self.read(tensor, method), *args, **kwargs)


def _call(forms: tuple[LibraryForm, ...], variables: Mapping[str, Any], outer: LibraryCall | None) -> LibraryCall:
    names = {name for form in forms for name in (*form.parameters, *form.sources)}
    given = {name: variables.get(name) for name in names}
    keys = {name: frozenset(map(key, filter(_is_tensor, _parts(one)))) for name, one in given.items()}
    read = {name: _held(one) for name, one in given.items()}
    return LibraryCall(forms, read, keys, outer)


def _held(given: Any) -> Any:
    """Return the array that a variable holds now; other arguments unchanged."""
    return given.numpy() if hasattr(given, "handle") and hasattr(given, "numpy") else given


def _parts(given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given]


def _is_tensor(one: Any) -> bool:
    return bool(tf.is_tensor(one) or hasattr(one, "handle"))
