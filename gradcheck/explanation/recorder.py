"""Runs somebody's code once and writes down what it did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from gradcheck.autodiff.state import VariableSnapshot, state_restored
from gradcheck.explanation.interception import (
    Observer,
    functions_run_eagerly,
    host_reads_observed,
    operations_observed,
    patched,
    tapes_observed,
)
from gradcheck.explanation.record import (
    CodeRecord,
    CustomGradientCall,
    DerivativeCall,
    Event,
    HostRead,
    RecordedOperation,
    TapeChange,
    WatchEvent,
)
from gradcheck.explanation.user_code import Line, call_user_code, line_of, running_frame, source_expressions


def recorded(f: Callable[..., Any], inputs: Sequence[Any] = ()) -> CodeRecord:
    """Run `f(*inputs)` eagerly, under a tape that covers everything, and record it; `f` may throw.

    Variables that it assigns, random generators and TensorFlow are put back.
    """
    recorder = CodeRecorder()
    leaves = tuple(tf.nest.flatten(inputs))
    result, error = None, None
    with state_restored(), recorder.covering:
        recorder.cover(leaves)
        with recorder.observing():
            try:
                result = call_user_code(f, inputs)
            except Exception as raised:
                error = raised
    return CodeRecord(
        events=tuple(recorder.events),
        inputs=leaves,
        result=result,
        error=error,
        covering=recorder.covering,
        calls_functions=recorder.calls_functions,
        variables=recorder.variables,
    )


class CodeRecorder(Observer):
    """Records the operations, host reads, tapes and derivatives of one thread.

    `operations` and `derivatives` count them; `derivative` is the number of the one that is being taken.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.operations, self.derivatives = 0, 0
        self.derivative: int | None = None
        self.variables: dict[int, Any] = {}
        self.covering = tf.GradientTape(persistent=True)
        self.calls_functions = False
        self._tapes: list[Any] = []
        self._open: list[int] = []
        self._known: dict[int, Any] = {}
        self._thread = threading.get_ident()
        self._paused = False

    @contextmanager
    def observing(self, *, operations: bool = True) -> Iterator[None]:
        """Observe the block: its tapes, and with `operations` also these and host reads."""

        def unrecorded(original: Any, *args: Any) -> None:
            with self.paused():
                original(*args)

        with (
            operations_observed(self) if operations else functions_run_eagerly(),
            host_reads_observed(self) if operations else nullcontext(),
            tapes_observed(self),
            patched((VariableSnapshot, "note", unrecorded)),
        ):
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What gradcheck itself does is not recorded."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def ignores(self) -> bool:
        """Whether what happens is gradcheck's own doing, or another thread's."""
        return self._paused or threading.get_ident() != self._thread

    def note(self, event: Event) -> None:
        """Append an event."""
        self.events.append(event)
        self.operations += isinstance(event, RecordedOperation)

    def frame(self) -> FrameType | None:
        """The frame of the code that is running."""
        return running_frame()

    def line(self) -> Line | None:
        """The line that the code is running."""
        return line_of(self.frame())

    def before_operation(self, name: str, inputs: list[Any]) -> list[Any]:
        if not self.ignores():
            self.cover(inputs)
        return inputs

    def after_operation(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        if not self.ignores():
            self.cover(outputs if name == "Const" else ())
            self._known.update((id(tensor), tensor) for tensor in outputs)
            self._note_operation(name, inputs, outputs, attrs=attrs)
        return outputs

    def gradient_defined(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], backward: Callable[..., Any], call: Any
    ) -> None:
        if not self.ignores():
            custom = None if call is None or call[0].__name__ != name else CustomGradientCall(*call)
            self._note_operation(name, inputs, outputs, backward=backward, custom_gradient=custom)

    def _note_operation(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], **fields: Any) -> None:
        fields = {"line": self.line(), "tapes": self._recording(), "derivative": self.derivative, **fields}
        self.note(RecordedOperation(self.operations, name, tuple(inputs), tuple(outputs), **fields))

    def variable_accessed(self, variable: Any) -> None:
        if self.ignores():
            return
        line = self.line()
        if id(variable.handle) not in self.variables:
            self.variables[id(variable.handle)] = variable
            self._watch(variable)
        for number in sorted(self._recording()):
            if variable.trainable and self._tapes[number]._watch_accessed_variables:
                self.note(WatchEvent(number, variable, line))

    def function_called(self) -> None:
        self.calls_functions = True

    def host_read(self, tensor: Any, method: str) -> Any:
        if not self.ignores():
            self.note(HostRead(tensor, method, self.line()))
        return tensor

    def tape_changed(self, tape: Any, change: str) -> None:
        if self.ignores():
            return
        number = self._number(tape)
        if change == "opened":
            self._open.append(number)
        elif change == "closed" and number in self._open:
            self._open.remove(number)
        self.note(TapeChange(number, change, self.operations, self.line()))

    def tensors_watched(self, tape: Any, tensors: Any) -> None:
        if self.ignores():
            return
        line = self.line()
        for tensor in tf.nest.flatten(tensors):
            self.note(WatchEvent(self._number(tape), tensor, line))

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        if self.ignores() or self.derivative is not None:
            return compute()
        frame, position, operations = self.frame(), len(self.events), self.operations
        number = self.derivative = self.derivatives
        self.derivatives += 1
        vectorized = method != "gradient"
        result, error = None, None
        try:
            with self._vectorized() if vectorized else nullcontext():
                result = compute()
        except Exception as raised:
            error = raised
            raise
        finally:
            self.derivative = None
            summarized = vectorized and error is None
            call = DerivativeCall(
                number=number,
                position=position,
                tape=self._number(tape),
                method=method,
                line=line_of(frame),
                expressions=tuple(source_expressions(frame, method)),
                operations=self.operations - operations + summarized,
                **_flattened(arguments, result, error),
            )
            self.note(call)
            if summarized:
                self._note_summary(call)
        return result

    def _note_summary(self, call: DerivativeCall) -> None:
        """A vectorized derivative counts as one operation."""
        outputs = tuple(part for part in call.results or () if part is not None)
        self._known.update((id(tensor), tensor) for tensor in outputs)
        self._note_operation(call.method, call.targets, outputs, derivative=call.number)

    @contextmanager
    def _vectorized(self) -> Iterator[None]:
        """TensorFlow traces a function for each Jacobian, and would warn of that, and of functions that run eagerly."""
        detector = polymorphic_function._FrequentTracingDetectorManager
        silent = patched((detector, "called_with_tracing", lambda original, *args, **kwargs: None))
        with self.paused(), functions_run_eagerly(False), silent:
            yield

    def _number(self, tape: Any) -> int:
        for number, known in enumerate(self._tapes):
            if known is tape:
                return number
        self._tapes.append(tape)
        return len(self._tapes) - 1

    def _recording(self) -> frozenset[int]:
        """The numbers of the tapes that record now."""
        if pywrap_tfe.TFE_Py_TapeSetIsStopped():
            return frozenset()
        return frozenset(number for number in self._open if self._tapes[number]._recording)

    def cover(self, tensors: Sequence[Any]) -> None:
        """Let the covering tape watch the tensors whose computation it did not record."""
        for tensor in tensors:
            handle = getattr(tensor, "handle", tensor)
            if id(handle) not in self._known:
                self._known[id(handle)] = handle
                self._watch(tensor)

    def _watch(self, tensor: Any) -> None:
        if self.covering._recording and (tensor.dtype.is_floating or tensor.dtype.is_complex):
            with self.paused():
                self.covering.watch(tensor)


def _flattened(arguments: dict[str, Any], result: Any, error: Exception | None) -> dict[str, Any]:
    """The arguments and the result of a derivative as the fields of a DerivativeCall."""
    weights, unconnected = arguments.get("output_gradients"), arguments.get("unconnected_gradients", "none")
    return {
        "targets": tuple(tf.nest.flatten(arguments["target"])),
        "sources": tuple(tf.nest.flatten(arguments["sources" if "sources" in arguments else "source"])),
        "weights": None if weights is None else tuple(tf.nest.flatten(weights)),
        "zeros": str(getattr(unconnected, "value", unconnected)) == "zero",
        "result": result,
        # None is a leaf for tf.nest, and so is IndexedSlices as long as composites are not expanded.
        "results": None if error is not None else tuple(tf.nest.flatten(result)),
        "error": error,
    }
