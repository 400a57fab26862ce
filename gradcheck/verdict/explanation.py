"""What a finding about somebody's own gradient means: a covering tape tells a lost part from a wrong formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.given import given_gradient
from gradcheck.autodiff.gradients import WrongShapeError, gradient_matrix
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.autodiff.tape_uses import TapeUses, tape_uses
from gradcheck.finding import Finding, Kind

Array = np.ndarray[Any, Any]

OUTSIDE = "the first derivative was taken outside the tape that had to record it"


@dataclass(frozen=True)
class Explanation:
    """Gives the finding to report for a first-order finding at a coordinate; `gradient` is what check was given."""

    function: Function
    gradient: Any

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        if self.gradient is None:
            return finding
        finding = _given(finding)
        if finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return finding
        if finding.kind is Kind.MISSING and self._uses.second_lost:
            return replace(finding, reason=f"{finding.reason}; {OUTSIDE}")
        covered = self._covered(finding, coordinate)
        if covered is None:
            return finding
        if not self._uses.names:
            return replace(finding, reason=f"{finding.reason}; TensorFlow's own gradient of f is {covered:.10g}")
        remedy = f"a tape around the whole computation gives {covered:.10g}"
        if finding.kind is Kind.MISSING:
            return replace(finding, reason=f"{finding.reason}; its computation was never recorded, {remedy}")
        lost = covered - (finding.autodiff or 0.0)
        return replace(
            finding,
            kind=Kind.PARTIAL,
            reason=f"{finding.reason}; a part of size {lost:.10g} was computed outside the tape, {remedy}",
        )

    @cached_property
    def _uses(self) -> TapeUses:
        """What the given gradient asks its tapes, if it asks any."""
        with tape_uses() as uses:
            given_gradient(self.function, self.gradient)(self.function.tensors(self.function.point))
        return uses

    def _covered(self, finding: Finding, coordinate: int | None) -> float | None:
        """The element of the gradient under a tape around all of `f`, if differences agree with it."""
        if coordinate is None:
            return None
        try:
            ones = np.ones((1, self.function.output_parts[-1].stop))
            whole = gradient_matrix(self.function.pullbacks(ones), self.function.sources).values[0]
        except (DerivativeRaisedError, WrongShapeError):
            return None
        value = float(whole[coordinate])
        return value if abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0) else None


@dataclass(frozen=True)
class SecondExplanation:
    """The same at second order: which estimate stands `alone`, and whether check's tape recorded a `given` gradient."""

    alone: str | None
    given: bool

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        if self.alone is not None:
            finding = replace(finding, reason=f"{finding.reason}; of the three estimates {self.alone} stands alone")
        if self.given and finding.kind is Kind.MISSING:
            finding = replace(finding, reason=f"{finding.reason}; {OUTSIDE}")
        return finding


def _given(finding: Finding) -> Finding:
    """A given gradient is that of the sum of all outputs."""
    reason = finding.reason.replace("autodiff gives", "the gradient given is", 1)
    return replace(finding, output=None, reason=reason)
