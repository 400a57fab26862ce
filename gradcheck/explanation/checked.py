"""Why a derivative that `check` took, or was given, is wrong: the code runs once more, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.problem import given_gradient
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError, gradient_matrix
from gradcheck.comparison.second_order import SecondExplanation
from gradcheck.explanation.call_problem import influence
from gradcheck.explanation.case import Loss
from gradcheck.explanation.diagnosis import covered, diagnose
from gradcheck.explanation.record import DerivativeCall, key, origin_of
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.replay import Code
from gradcheck.explanation.rules.formula import changed_afterwards, raised
from gradcheck.explanation.rules.tape_coverage import CAUSES
from gradcheck.result import Diagnosis, Finding, Kind

Tensors = list[Any]


@dataclass(frozen=True)
class Checked:
    """Somebody's function, and the gradient that they gave for it (None: TensorFlow's own, a callable, or values)."""

    function: Function
    gradient: Any

    def first(self, finding: Finding, coordinate: int | None) -> Diagnosis | None:
        """Why the first derivative at a coordinate is wrong."""
        return _attempted(lambda: self._why(self._first, finding, coordinate))

    def second(self, finding: Finding, coordinate: int | None) -> Diagnosis | None:
        """Why the second derivative at a coordinate is wrong."""
        return _attempted(lambda: self._why(self._second, finding, coordinate))

    def error(self, order: int) -> Diagnosis | None:
        """Why the derivative raised an exception."""
        return _attempted(lambda: self._raised(self._first if order == 1 else self._second))

    def _raised(self, code: Code | None) -> Diagnosis | None:
        failed = [call for call in code.record.derivatives if call.error is not None] if code else []
        return raised(code.record, failed[-1]) if code is not None and failed else None

    def _why(self, code: Code | None, finding: Finding, coordinate: int | None) -> Diagnosis | None:
        if coordinate is None or code is None:
            return None
        position = int(np.searchsorted([part.stop for part in self.function.parts], coordinate, side="right"))
        source = self.function.sources[position]
        given = _result(code, position)
        found = _asked(code, given, _tensor(code, self.function, position))
        if found is None:
            return None if given is None else changed_afterwards(code.record, given, finding)
        call, place = found
        origin = origin_of(code.record, call, call.sources[place])
        inside = coordinate - self.function.parts[position].start
        whole = None if source.constrained else covered(code, call, origin, 0, inside)
        element = finding.element if finding.index else ""
        loss = Loss(finding.autodiff, finding.difference, whole if finding.order == 1 else None, element=element)
        return diagnose(code, call, source.name, origin, influence(code, call, origin), loss)

    @cached_property
    def _first(self) -> Code | None:
        if self.gradient is None:
            return self._code(lambda tensors: _gradient(self._called, tensors))
        return self._code(given_gradient(self.function, self.gradient)) if callable(self.gradient) else None

    @cached_property
    def _second(self) -> Code | None:
        if self.gradient is None:
            return self._code(lambda tensors: _gradient(lambda inner: _gradient(self._called, inner), tensors))
        given = given_gradient(self.function, self.gradient)
        return self._code(lambda tensors: _gradient(given, tensors))

    def _code(self, derivative: Callable[[Tensors], Tensors]) -> Code:
        """The derivative as code that takes the sources which are no variables."""
        sources = self.function.sources
        tensors = self.function.tensors(self.function.point)
        free = tuple(tensor for tensor, source in zip(tensors, sources, strict=True) if source.variable is None)
        held = [source.variable for source in sources if source.variable is not None]

        def f(*inputs: Any) -> Tensors:
            return derivative([*inputs, *held])

        return Code(f, free, recorded(f, free))

    def _called(self, tensors: Tensors) -> Tensors:
        return self.function.call(tensors)


def _attempted(diagnosis: Callable[[], Diagnosis | None]) -> Diagnosis | None:
    try:
        return diagnosis()
    except Exception:  # a verdict must not be lost because nobody can say why
        return None


def _gradient(f: Callable[[Tensors], Tensors], tensors: Tensors) -> Tensors:
    """The gradient of the sum of what `f` gives, under a tape of ours."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        outputs = [tf.convert_to_tensor(part) for part in f(tensors) if part is not None]
    return list(tape.gradient(outputs, tensors)) if outputs else [None] * len(tensors)


def _result(code: Code, position: int) -> Any:
    result = code.record.result
    return result[position] if isinstance(result, Sequence) and len(result) > position else None


def _tensor(code: Code, function: Function, position: int) -> Any:
    """The tensor or variable that stood for a source."""
    variable = function.sources[position].variable
    return code.record.inputs[position] if variable is None else variable


def _asked(code: Code, given: Any, tensor: Any) -> tuple[DerivativeCall, int] | None:
    """The call, and the place among its sources, from which a gradient came; the last such call."""
    for call in reversed(code.record.derivatives):
        for place, answer in enumerate(call.results or ()):
            same = answer is given if given is not None else key(call.sources[place]) == key(tensor)
            if same and (answer is None) == (given is None):
                return call, place
    return None


@dataclass(frozen=True)
class Explanation:
    """Gives the finding to report for a first-order finding at a coordinate; `gradient` is what check was given."""

    function: Function
    gradient: Any

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        if self.gradient is not None:
            finding = _given(finding)
        answer = Checked(self.function, self.gradient).first(finding, coordinate)
        if answer is not None or self.gradient is None:
            return diagnosed(finding, answer)
        own = self._own(finding, coordinate)
        return finding if own is None else replace(finding, reason=f"{finding.reason}; {own}")

    def _own(self, finding: Finding, coordinate: int | None) -> str | None:
        """TensorFlow's own gradient of `f`, if differences agree with it."""
        if coordinate is None or finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return None
        try:
            ones = np.ones((1, self.function.output_parts[-1].stop))
            whole = gradient_matrix(self.function.pullbacks(ones), self.function.sources).values[0]
        except (DerivativeRaisedError, WrongShapeError):
            return None
        value = float(whole[coordinate])
        agrees = abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0)
        return f"TensorFlow's own gradient of f is {value:.10g}" if agrees else None


@dataclass(frozen=True)
class SecondDiagnosis:
    """The same at second order; `explanation` says which estimate stands alone."""

    function: Function
    gradient: Any
    explanation: SecondExplanation

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        explained = self.explanation(finding, coordinate)
        return diagnosed(explained, Checked(self.function, self.gradient).second(explained, coordinate))


def diagnosed(finding: Finding, answer: Diagnosis | None) -> Finding:
    """The finding with its cause; a value that lacks what the tape did not cover is partial, not wrong."""
    partial = finding.kind is Kind.WRONG_VALUE and answer is not None and answer.cause in CAUSES
    return replace(finding, diagnosis=answer, kind=Kind.PARTIAL if partial else finding.kind)


def _given(finding: Finding) -> Finding:
    """A given gradient is that of the sum of all outputs."""
    reason = finding.reason.replace("autodiff gives", "the gradient given is", 1)
    return replace(finding, output=None, reason=reason)
