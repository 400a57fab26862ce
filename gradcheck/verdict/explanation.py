"""What a finding about somebody's own gradient means: a covering tape tells a lost part from a wrong formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.given import given_gradient, tape_uses
from gradcheck.autodiff.gradients import WrongShapeError, gradient_matrix
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.finding import Finding, Kind

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Explanation:
    """Called with a finding and the number of wrong elements of its input, gives the finding to report."""

    function: Function
    gradient: Any

    def __call__(self, finding: Finding, wrong: int) -> Finding:
        if wrong > 1:
            finding = replace(finding, reason=f"{finding.reason}; {wrong} elements are wrong, this is the worst")
        if not callable(self.gradient) or finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return finding
        covered = self._covered(finding)
        if covered is None or not self._tapes:
            return finding
        remedy = f"a tape around the whole computation gives {covered:.10g}"
        if finding.kind is Kind.MISSING:
            return replace(finding, reason=f"{finding.reason}; its computation was never recorded, {remedy}")
        lost = (finding.difference or 0.0) - (finding.autodiff or 0.0)
        return replace(
            finding,
            kind=Kind.PARTIAL,
            reason=f"{finding.reason}; a part of size {lost:.10g} was computed outside the tape, {remedy}",
        )

    @cached_property
    def _tapes(self) -> bool:
        """Whether the given gradient asks a tape at all."""
        with tape_uses() as uses:
            given_gradient(self.function, self.gradient)(self.function.tensors(self.function.point))
        return bool(uses)

    def _covered(self, finding: Finding) -> float | None:
        """The element of the gradient under a tape around all of `f`, if differences agree with it."""
        try:
            ones = np.ones((1, self.function.output_parts[-1].stop))
            whole = gradient_matrix(self.function.pullbacks(ones), self.function.sources).values[0]
        except (DerivativeRaisedError, WrongShapeError):
            return None
        for source, part in zip(self.function.sources, self.function.parts, strict=True):
            if source.name == finding.input and finding.index is not None:
                value = float(np.reshape(whole[part], source.shape)[finding.index])
                return value if abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0) else None
        return None
