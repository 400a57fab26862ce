"""Why a derivative that `check` took, or was given, is wrong: the code runs once more, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.given import given_gradient
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.explanation.diagnosis import diagnose_error, diagnose_finding, diagnosed
from gradcheck.explanation.record import DerivativeCall, key, origin_of
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.replay import Code
from gradcheck.explanation.rules import changed_afterwards
from gradcheck.result import Diagnosis, Finding, Kind

Tensors = list[Any]
Derivative = Callable[[Tensors], Tensors]


@dataclass(frozen=True)
class CheckDiagnosis:
    """Diagnoses the findings of a check of somebody's function.

    `gradient` is what they gave for it: None (TensorFlow's own is checked), a callable, or values.
    """

    function: Function
    gradient: Any

    def first(self, finding: Finding, coordinate: int | None) -> Finding:
        """A finding about the first derivative at a coordinate (None for a probe), with its diagnosis."""
        if self.gradient is not None:
            # What was given is the gradient of the sum of all outputs.
            reason = finding.reason.replace("autodiff gives", "the gradient given is", 1)
            finding = replace(finding, output=None, reason=reason)
        diagnosis = _attempted(lambda: self._diagnosis(self._first, finding, coordinate))
        if diagnosis is None and self.gradient is not None and coordinate is not None:
            own = self._right_gradient(finding, coordinate)
            return finding if own is None else replace(finding, reason=f"{finding.reason}; {own}")
        return diagnosed(finding, diagnosis)

    def second(self, finding: Finding, coordinate: int | None) -> Finding:
        """A finding about the second derivative at a coordinate, with its diagnosis."""
        return diagnosed(finding, _attempted(lambda: self._diagnosis(self._second, finding, coordinate)))

    def error(self, order: int) -> Diagnosis | None:
        """Why the derivative of an order raised an exception."""

        def diagnosis() -> Diagnosis | None:
            code = self._first if order == 1 else self._second
            failed = [call for call in code.record.derivatives if call.error is not None] if code else []
            return diagnose_error(code.record, failed[-1]) if code is not None and failed else None

        return _attempted(diagnosis)

    def _diagnosis(self, code: Code | None, finding: Finding, coordinate: int | None) -> Diagnosis | None:
        if coordinate is None or code is None:
            return None
        position = int(np.searchsorted([part.stop for part in self.function.parts], coordinate, side="right"))
        source = self.function.sources[position]
        result = code.record.result
        given = result[position] if isinstance(result, Sequence) and len(result) > position else None
        tensor = code.record.inputs[position] if source.variable is None else source.variable
        taken = _taken_by(code, given, tensor)
        if taken is None:
            return None if given is None else changed_afterwards(code.record, given, finding)
        call, origin = taken[0], origin_of(code.record, *taken)
        coverable = finding.order == 1 and not source.constrained
        place = (0, coordinate - self.function.parts[position].start) if coverable else None
        return diagnose_finding(code, call, source.name, origin, finding, place)

    @cached_property
    def _first(self) -> Code | None:
        values = self.gradient is not None and not callable(self.gradient)
        return None if values else self._code(self._derivative)

    @cached_property
    def _second(self) -> Code | None:
        return self._code(lambda tensors: _gradient(self._derivative, tensors))

    def _derivative(self, tensors: Tensors) -> Tensors:
        """The gradient that is checked, of the sum of all outputs."""
        if self.gradient is None:
            return _gradient(self.function.call, tensors)
        return given_gradient(self.function, self.gradient)(tensors)

    def _code(self, derivative: Derivative) -> Code:
        """The derivative as code that takes the sources which are no variables."""
        sources = self.function.sources
        tensors = self.function.tensors(self.function.point)
        free = tuple(tensor for tensor, source in zip(tensors, sources, strict=True) if source.variable is None)
        held = [source.variable for source in sources if source.variable is not None]

        def f(*inputs: Any) -> Tensors:
            return derivative([*inputs, *held])

        return Code(f, free, recorded(f, free))

    def _right_gradient(self, finding: Finding, coordinate: int) -> str | None:
        """TensorFlow's own gradient of the function, if it is right where the given one is not."""
        if finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return None
        try:
            gradients = self.function.gradients(np.ones((1, self.function.outputs))).values
        except (DerivativeRaisedError, WrongShapeError):
            return None
        value = float(gradients[0, coordinate])
        agrees = abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0)
        return f"TensorFlow's own gradient of f is {value:.10g}" if agrees else None


def _attempted(diagnosis: Callable[[], Diagnosis | None]) -> Diagnosis | None:
    try:
        return diagnosis()
    except Exception:  # a verdict must not be lost because its cause cannot be found
        return None


def _gradient(f: Derivative, tensors: Tensors) -> Tensors:
    """The gradient of the sum of what `f` gives, under a tape of ours."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        outputs = [tf.convert_to_tensor(part) for part in f(tensors) if part is not None]
    return list(tape.gradient(outputs, tensors)) if outputs else [None] * len(tensors)


def _taken_by(code: Code, given: Any, tensor: Any) -> tuple[DerivativeCall, Any] | None:
    """The last call that gave this gradient, or None for this tensor or variable, and its source."""
    for call in reversed(code.record.derivatives):
        for source, result in zip(call.sources, call.results or (), strict=False):
            if result is given and (given is not None or key(source) == key(tensor)):
                return call, source
    return None
