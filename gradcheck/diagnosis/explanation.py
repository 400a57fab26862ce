"""What a finding of `check` means: the cause where the code tells it, or what TensorFlow's own gradient is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.gradients import WrongShapeError, gradient_matrix
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.diagnosis.checked import Checked
from gradcheck.diagnosis.rules.coverage import CAUSES
from gradcheck.finding import Diagnosis, Finding, Kind
from gradcheck.verdict.explanation import SecondExplanation


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
