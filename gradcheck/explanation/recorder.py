"""Runs somebody's code once and writes down what it did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
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
from gradcheck.explanation.places import Line, called, running_line
from gradcheck.explanation.record import (
    CodeRecord,
    CustomCall,
    DerivativeCall,
    Event,
    Exit,
    RecordedOperation,
    RecordedTape,
    TapeChange,
    WatchEvent,
)


def recorded(f: Callable[..., Any], inputs: Sequence[Any] = ()) -> CodeRecord:
    """Run `f(*inputs)` eagerly, under a tape that covers everything, and record it; `f` may throw.

    Variables that it assigns, random generators and TensorFlow are put back.
    """
    recorder = CodeRecorder()
    result, error = None, None
    with state_restored(), recorder.running(tf.nest.flatten(inputs)):
        try:
            result = called(f, inputs)
        except Exception as raised:
            error = raised
    return recorder.record(tuple(tf.nest.flatten(inputs)), result, error)


class CodeRecorder(Observer):
    """Watches operations, exits and tapes of one thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tapes: list[RecordedTape] = []
        self.active: list[int] = []
        self.variables: dict[int, Any] = {}
        self.known: dict[int, Any] = {}
        self.covering = tf.GradientTape(persistent=True)
        self.functions = False
        self.calls = 0
        self.call: int | None = None
        self.thread = threading.get_ident()
        self.busy = False

    def record(self, inputs: tuple[Any, ...], result: Any, error: BaseException | None) -> CodeRecord:
        """What was seen."""
        return CodeRecord(
            events=tuple(self.events),
            tapes=tuple(self.tapes),
            inputs=inputs,
            result=result,
            error=error,
            covering=self.covering,
            functions=self.functions,
            variables=self.variables,
        )

    def note(self, event: Event) -> None:
        """Write down what happened."""
        self.events.append(event)

    @contextmanager
    def running(self, inputs: Sequence[Any]) -> Iterator[None]:
        """Watch the block."""
        with self.covering:
            self._cover(inputs)
            with operations_observed(self), host_reads_observed(self), tapes_observed(self), self.discreet():
                yield

    @contextmanager
    def discreet(self) -> Iterator[None]:
        """What is done to put variables back is not written down."""

        def note(original: Any, *args: Any) -> None:
            with self._apart():
                original(*args)

        with patched((VariableSnapshot, "note", note)):
            yield

    def before_operation(self, name: str, inputs: list[Any]) -> list[Any]:
        if not self._elsewhere():
            with self._apart():
                self._cover(inputs)
        return inputs

    def after_operation(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        if not self._elsewhere():
            with self._apart():
                self._cover(outputs if name == "Const" else ())
            self.known.update((id(tensor), tensor) for tensor in outputs)
            self._add(name, inputs, outputs, attrs)
        return outputs

    def gradient_defined(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], backward: Callable[..., Any], call: Any
    ) -> None:
        if not self._elsewhere():
            function = None if call is None or call[0].__name__ != name else CustomCall(*call)
            self._add(name, inputs, outputs, (), backward, function)

    def _add(
        self,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: Any,
        backward: Callable[..., Any] | None = None,
        function: CustomCall | None = None,
    ) -> None:
        line = self._line()
        tapes = self._recording()
        self.note(
            RecordedOperation(name, tuple(inputs), tuple(outputs), attrs, line, tapes, self.call, backward, function)
        )

    def variable_accessed(self, variable: Any) -> None:
        if self._elsewhere():
            return
        line = self._line()
        if id(variable.handle) not in self.variables:
            self.variables[id(variable.handle)] = variable
            with self._apart():
                self._watch(variable)
        for number in sorted(self._recording()):
            if variable.trainable and self.tapes[number].watches_accessed:
                self.note(WatchEvent(number, variable, line))

    def function_called(self) -> None:
        self.functions = True

    def host_read(self, tensor: Any, method: str) -> Any:
        if not self._elsewhere():
            self.note(Exit(tensor, method, self._line()))
        return tensor

    def tape_changed(self, tape: Any, change: str) -> None:
        if self._elsewhere():
            return
        number = self._number(tape)
        if change == "opened":
            self.active.append(number)
        elif change == "closed" and number in self.active:
            self.active.remove(number)
        self.note(TapeChange(number, change, self._line()))

    def tensors_watched(self, tape: Any, tensors: Any) -> None:
        if self._elsewhere():
            return
        line = self._line()
        for tensor in tf.nest.flatten(tensors):
            self.note(WatchEvent(self._number(tape), tensor, line))

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        if self._elsewhere() or self.call is not None:
            return compute()
        asked = DerivativeRequest(self.calls, len(self.events), self._number(tape), method, arguments, self._line())
        self.calls, self.call = self.calls + 1, self.calls
        result, error = None, None
        try:
            with nullcontext() if method == "gradient" else self._vectorized():
                result = compute()
        except Exception as raised:
            error = raised
            raise
        finally:
            self.call = None
            events = self.events[asked.position :]
            summary = method != "gradient" and error is None
            count = sum(isinstance(event, RecordedOperation) for event in events) + summary
            done = asked.answered(result, error, count)
            self.note(done)
            if summary:
                self._summarized(done)
        return result

    def _summarized(self, done: DerivativeCall) -> None:
        """A vectorized derivative counts as one operation."""
        outputs = tuple(part for part in done.results or () if part is not None)
        self.known.update((id(tensor), tensor) for tensor in outputs)
        operation = RecordedOperation(done.method, done.targets, outputs, (), done.line, self._recording(), done.number)
        self.note(operation)

    @contextmanager
    def _vectorized(self) -> Iterator[None]:
        """TensorFlow traces a function for each Jacobian, and would warn of that, and of functions that run eagerly."""
        detector = polymorphic_function._FrequentTracingDetectorManager
        silent = patched((detector, "called_with_tracing", lambda original, *args, **kwargs: None))
        with self._apart(), functions_run_eagerly(False), silent:
            yield

    def _number(self, tape: Any) -> int:
        for number, known in enumerate(self.tapes):
            if known.tape is tape:
                return number
        self.tapes.append(RecordedTape(tape, tape._watch_accessed_variables))
        return len(self.tapes) - 1

    def _recording(self) -> frozenset[int]:
        return frozenset(
            () if pywrap_tfe.TFE_Py_TapeSetIsStopped() else (n for n in self.active if self.tapes[n].tape._recording)
        )

    def _line(self) -> Line | None:
        return running_line()

    def _elsewhere(self) -> bool:
        return self.busy or threading.get_ident() != self.thread

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """What we do ourselves is not written down."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def _cover(self, tensors: Sequence[Any]) -> None:
        """Let the covering tape watch what it has not seen being computed."""
        for tensor in tensors:
            handle = getattr(tensor, "handle", tensor)
            if id(handle) not in self.known:
                self.known[id(handle)] = handle
                self._watch(tensor)

    def _watch(self, tensor: Any) -> None:
        if self.covering._recording and (tensor.dtype.is_floating or tensor.dtype.is_complex):
            self.covering.watch(tensor)


class DerivativeRequest:
    """A derivative that is being taken."""

    def __init__(
        self, number: int, position: int, tape: int, method: str, arguments: dict[str, Any], line: Line | None
    ) -> None:
        self.number, self.position, self.tape, self.method, self.line = number, position, tape, method, line
        self.arguments = arguments

    def answered(self, result: Any, error: Exception | None, operations: int) -> DerivativeCall:
        """The call with its answer."""
        weights = self.arguments.get("output_gradients")
        unconnected = self.arguments.get("unconnected_gradients", "none")
        sources = tf.nest.flatten(self.arguments["sources" if "sources" in self.arguments else "source"])
        # None is a leaf for tf.nest, and so is IndexedSlices as long as composites are not expanded.
        results = None if error is not None else tuple(tf.nest.flatten(result))
        return DerivativeCall(
            number=self.number,
            position=self.position,
            tape=self.tape,
            method=self.method,
            targets=tuple(tf.nest.flatten(self.arguments["target"])),
            sources=tuple(sources),
            weights=None if weights is None else tuple(tf.nest.flatten(weights)),
            zeros=str(getattr(unconnected, "value", unconnected)) == "zero",
            result=result,
            results=results,
            error=error,
            line=self.line,
            operations=operations,
        )
