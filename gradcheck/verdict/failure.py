"""One exception class for each kind of verdict, so that Hypothesis keeps and shrinks the kinds apart."""

from __future__ import annotations

from gradcheck.finding import Kind, Result


class GradientInconclusive(AssertionError):
    """Nobody could tell whether the gradient is right; `result` says why."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class InconclusiveWarning(UserWarning):
    """A part of the derivatives could not be compared."""


class GradientMismatch(AssertionError):
    """The gradient is wrong; `result` holds the findings."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class GradientRaises(GradientMismatch):
    """The function is computed, its derivative throws."""


class GradientWrongShape(GradientMismatch):
    """The derivative has another shape or dtype than its source."""


class GradientMissing(GradientMismatch):
    """The gradient is None while differences are not zero."""


class GradientPartial(GradientMismatch):
    """A part of the dependence is lost."""


class GradientNonFinite(GradientMismatch):
    """NaN or Inf at a smooth, finite point."""


class GradientWrongValue(GradientMismatch):
    """The value lies outside of the error bound of the differences."""


class GradientOutsideSubdifferential(GradientMismatch):
    """At a kink, the value does not lie between the one-sided slopes."""


class GradientWrongUpdate(GradientMismatch):
    """A training step moves a variable otherwise than its gradients say."""


class GradientModesDisagree(GradientMismatch):
    """Two ways of running the same derivative give different values."""


FAILURES: dict[Kind, type[GradientMismatch]] = {
    Kind.RAISES: GradientRaises,
    Kind.SHAPE: GradientWrongShape,
    Kind.MISSING: GradientMissing,
    Kind.PARTIAL: GradientPartial,
    Kind.NON_FINITE: GradientNonFinite,
    Kind.WRONG_VALUE: GradientWrongValue,
    Kind.SUBDIFFERENTIAL: GradientOutsideSubdifferential,
    Kind.UPDATE: GradientWrongUpdate,
    Kind.MODES: GradientModesDisagree,
}
