"""Why a derivative that `check` took, or was given, is wrong: the code runs once more, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.given import given_gradient
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.explanation.diagnosis import diagnose, diagnose_error, diagnosed
from gradcheck.explanation.record import CodeRecord, DerivativeCall, call_source, key
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.rules import changed_afterwards
from gradcheck.result import Diagnosis, Finding, Kind

Tensors = list[Any]


@dataclass(frozen=True)
class CheckDiagnosis:
    """Diagnoses the findings of a check of somebody's function at one order.

    `gradient` is what they gave for it: None (TensorFlow's own is checked), a callable, or values.
    """

    function: Function
    gradient: Any
    order: int

    def explained(self, finding: Finding, coordinate: int | None) -> Finding:
        """A finding about the derivative at a coordinate (None for a probe), with its diagnosis."""
        given = self.gradient is not None and self.order == 1
        if given:
            # What was given is the gradient of the sum of all outputs.
            reason = finding.reason.replace("autodiff gives", "the gradient given is", 1)
            finding = replace(finding, output=None, reason=reason)
        diagnosis = None
        with suppress(Exception):  # a verdict must not be lost because its cause cannot be found
            diagnosis = None if coordinate is None else self._diagnosis(finding, coordinate)
        if given and diagnosis is None and coordinate is not None:
            return replace(finding, reason=finding.reason + self._right_gradient(finding, coordinate))
        return diagnosed(finding, diagnosis)

    def error(self) -> Diagnosis | None:
        """Why the derivative raised an exception."""
        with suppress(Exception):
            record = self._record
            failed = [call for call in record.derivatives if call.error is not None]
            return diagnose_error(record, failed[-1]) if failed else None
        return None

    def _diagnosis(self, finding: Finding, coordinate: int) -> Diagnosis | None:
        if self.gradient is not None and not callable(self.gradient):
            return None
        position = int(np.searchsorted([part.stop for part in self.function.parts], coordinate, side="right"))
        source, record = self.function.sources[position], self._record
        result = record.result
        given = result[position] if isinstance(result, Sequence) and len(result) > position else None
        tensor = record.inputs[position] if source.variable is None else source.variable
        taken = _taken_by(record, given, tensor)
        if taken is None:
            return None if given is None else changed_afterwards(record, given, finding)
        coverable = self.order == 1 and not source.constrained
        place = (0, coordinate - self.function.parts[position].start) if coverable else None
        return diagnose(call_source(record, *taken, source.name), finding, place)

    @cached_property
    def _record(self) -> CodeRecord:
        """That of the derivative as code which takes the sources that are no variables."""
        sources = self.function.sources
        tensors = self.function.tensors(self.function.point)
        free = tuple(tensor for tensor, source in zip(tensors, sources, strict=True) if source.variable is None)
        held = [source.variable for source in sources if source.variable is not None]

        def first(tensors: Tensors) -> Tensors:
            if self.gradient is None:
                return _gradient(self.function.call, tensors)
            return given_gradient(self.function, self.gradient)(tensors)

        def f(*inputs: Any) -> Tensors:
            tensors = [*inputs, *held]
            return first(tensors) if self.order == 1 else _gradient(first, tensors)

        return recorded(f, free)

    def _right_gradient(self, finding: Finding, coordinate: int) -> str:
        """TensorFlow's own gradient of the function, if it is right where the given one is not."""
        if finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return ""
        try:
            gradients = self.function.gradients(np.ones((1, self.function.outputs))).values
        except (DerivativeRaisedError, WrongShapeError):
            return ""
        value = float(gradients[0, coordinate])
        agrees = abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0)
        return f"; TensorFlow's own gradient of f is {value:.10g}" if agrees else ""


def _gradient(f: Callable[[Tensors], Tensors], tensors: Tensors) -> Tensors:
    """The gradient of the sum of what `f` gives, under a tape of ours."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        outputs = [tf.convert_to_tensor(part) for part in f(tensors) if part is not None]
    return list(tape.gradient(outputs, tensors)) if outputs else [None] * len(tensors)


def _taken_by(record: CodeRecord, given: Any, tensor: Any) -> tuple[DerivativeCall, Any] | None:
    """The last call that gave this gradient, or None for this tensor or variable, and its source."""
    for call in reversed(record.derivatives):
        for source, result in zip(call.sources, call.results or (), strict=False):
            if result is given and (given is not None or key(source) == key(tensor)):
                return call, source
    return None
