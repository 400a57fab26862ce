"""One exception class for each kind of verdict, so that Hypothesis keeps and shrinks the kinds apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite, nan
from typing import TypeAlias

from gradcheck.result import Finding, Kind, OrderResult, Reason, Result, Verdict, told_apart

Completion: TypeAlias = Callable[[], "tuple[str, Result] | None"]
"""Returns the message and the result of a mismatch; None where they are no longer available."""


class GradientInconclusive(AssertionError):
    """The derivatives could not be compared; `result` says why."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class GradientUnconnected(GradientInconclusive):
    """A variable has no gradient, and changing it changes nothing, or makes jumps alone."""


class InconclusiveWarning(UserWarning):
    """Some of the derivatives could not be compared."""


class UnconnectedWarning(UserWarning):
    """A variable has no gradient, and changing it changes nothing, or makes jumps alone."""


class MismatchWarning(UserWarning):
    """A gradient is wrong; the code that computes it goes on."""


class GradientMismatch(AssertionError):
    """The gradient is wrong; `result` holds the findings."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self._result = result
        self._completion: tuple[Completion, str] | None = None

    def complete_when_read(self, completed: Completion, otherwise: str) -> None:
        """Defer expensive work until the message or the result is read: `completed` returns both.

        Where it returns None, because it is too late, the message ends with `otherwise`.
        """
        self._completion = completed, otherwise

    @property
    def result(self) -> Result | None:
        """The result of the check, completed first if need be."""
        self._complete()
        return self._result

    def __str__(self) -> str:
        self._complete()
        return super().__str__()

    def _complete(self) -> None:
        if self._completion is None:
            return
        (completed, otherwise), self._completion = self._completion, None
        found = completed()
        message, self._result = found or (f"{super().__str__()}\n\n{otherwise}", self._result)
        self.args = (message,)


class GradientRaises(GradientMismatch):
    """The function can be computed, but its derivative raises an exception."""


class GradientWrongShape(GradientMismatch):
    """The derivative has another shape or dtype than its source."""


class GradientMissing(GradientMismatch):
    """The gradient is None while the estimate is not zero."""


class GradientPartial(GradientMismatch):
    """A part of the dependence is lost."""


class GradientNonFinite(GradientMismatch):
    """NaN or infinity at a point where the function is smooth and finite."""


class GradientWrongValue(GradientMismatch):
    """The value lies outside of the error bound of the finite-difference estimate."""


class GradientOutsideSubdifferential(GradientMismatch):
    """At a kink, the value does not lie between the one-sided slopes."""


class GradientWrongUpdate(GradientMismatch):
    """A training step moves a variable differently from what its gradients imply."""


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
for _public in (
    *(GradientInconclusive, GradientUnconnected, GradientMismatch, *FAILURES.values()),
    *(InconclusiveWarning, UnconnectedWarning, MismatchWarning),
):
    _public.__module__ = "gradcheck"  # tracebacks and pytest's summary name them as they are imported

MARK = r'intended=("[^"]*"|\[[^]]*\])'
"""The argument that marks what is meant, as a note names it."""

REMEDIES = {
    Kind.RAISES: "TensorFlow cannot differentiate this; replace the operation that the message names, "
    "or give it a gradient with tf.custom_gradient.",
    Kind.SHAPE: "a gradient must have the shape and dtype of its source; in a tf.custom_gradient, reduce over the axes "
    "that were broadcast.",
    Kind.MISSING: "TensorFlow saw no path from this source to the result; look for a step outside the tape, a step "
    "through NumPy, Python numbers or integers, or a variable that was replaced by a tensor.",
    Kind.PARTIAL: "put the whole computation of the result inside the tape.",
    Kind.NON_FINITE: "the function is smooth here, so its gradient is finite; look for 0 * inf or 0 / 0 in the "
    "backward pass, such as a tf.where whose unused branch overflows.",
    Kind.WRONG_VALUE: "look at the gradient formula of the last operation that you wrote or changed "
    "(tf.custom_gradient, tf.stop_gradient, a hand-written backward pass).",
    Kind.SUBDIFFERENTIAL: "at a kink every value between the one-sided slopes is accepted, and nothing else.",
    Kind.UPDATE: "check the sign, the learning rate, repeated updates, and other assignments to the variable.",
    Kind.MODES: "run the derivative in the one mode that agrees with the estimate.",
}

ARGUMENT_REMEDIES = REMEDIES | {
    Kind.RAISES: "gradient= raised this; it is called with the arguments of f, and has to return the gradient of the "
    "sum of f's outputs.",
    Kind.MISSING: "gradient= is None for this input, which means that f does not depend on it; give its derivative.",
    Kind.NON_FINITE: "the function is smooth here, so its gradient is finite; gradient= contains NaN or infinity.",
    Kind.WRONG_VALUE: "correct gradient=, which has to be the gradient of the sum of f's outputs, in the "
    "dtype of the inputs.",
}
"""The remedies for a gradient that the caller gave as an argument; at order 2 TensorFlow differentiates it."""


def failure(name: str, result: Result, label: str = "autodiff", *, argument: bool = False) -> str:
    """Return the message of a mismatch, for the function `name`; several lines, the most severe kind first.

    `label` names the gradient that was compared with the estimate; `argument`: the caller gave it as `gradient=`.
    """
    noun = "update" if result.findings[0].kind is Kind.UPDATE else "gradient"
    lines = [f"the {noun} of {name} is wrong", ""]
    for finding in result.findings:
        # TensorFlow differentiates a given gradient, for second derivatives.
        lines += _paragraph(finding, label if finding.order == 1 else "autodiff")
    lines += ["", *(_order(order) for order in result.orders.values())]
    remedies = {1: ARGUMENT_REMEDIES if argument else REMEDIES, 2: REMEDIES}
    told = [(one.kind, remedies[one.order][one.kind]) for one in result.findings if one.diagnosis is None]
    lines += ["", *(f"What to do ({kind.value}): {remedy}" for kind, remedy in dict.fromkeys(told))] if told else []
    return "\n".join(lines)


def doubt(name: str, result: Result) -> str:
    """Return the message for a first order that is wholly or partly inconclusive."""
    lines = [f"the check of the gradient of {name} is inconclusive", ""]
    for order in result.orders.values():
        lines += [_order(order), *(f"    because: {reason.value}" for reason in order.reasons)]
        lines += [f"    {note}" for note in order.notes]
    return "\n".join([*lines, "", f"What to do: {_advice(result)}."])


def _advice(result: Result) -> str:
    """The remedies for an inconclusive result, by its reasons and by the surrogates that a note names."""
    reasons = {reason for order in result.orders.values() for reason in order.reasons}
    notes = [note for order in result.orders.values() for note in order.notes]
    marks = [found[0] for note in notes if (found := re.search(MARK, note))]
    order = "order=1 and " * (len(result.orders) > 1)  # only first derivatives can be held
    told = [f"pass {order}{marks[0]} if that is meant"] if marks else []
    helped = {Reason.STAIRCASE} if marks else set()
    if any(note.startswith("seconds=") for note in notes):
        told.append("give more seconds=, or leave it out")
        helped.add(Reason.TOO_EXPENSIVE)
    if Reason.TOLERANCE in reasons:
        told += ["give a larger rtol= or atol=", "check in float64" + " or at another point" * (len(reasons) > 1)]
    elif not helped or reasons - helped:
        told += ["check at another point or in float64", "give rtol= or atol="]
    return ", ".join([*told, 'or pass inconclusive="ignore"'])


def _paragraph(finding: Finding, label: str) -> list[str]:
    output = "" if finding.output is None else f" of output element {finding.output}"
    noun = "derivative" if finding.order == 1 else "second derivative"
    head = f"  order {finding.order}, {finding.kind.value}: the {noun}{output} with respect to {finding.element}"
    if finding.kind is Kind.UPDATE:
        head = f"  {finding.kind.value}: the move of {finding.element}"
    numbers, remarks = [], [finding.reason]
    if finding.difference is not None and finding.bound is not None:
        given, estimate = told_apart(nan if finding.autodiff is None else finding.autodiff, finding.difference, 12)
        numbers = [(label, "None" if finding.autodiff is None else given)]
        if finding.kind is Kind.SUBDIFFERENTIAL:
            low, high = finding.difference - finding.bound, finding.difference + finding.bound
            numbers += [("slopes", f"{low:.12g} to {high:.12g}")]
        else:
            numbers += [("estimate", f"{estimate}   (error at most {finding.bound:.1e})")]
            if finding.allowed is not None and finding.autodiff is not None:
                off = abs(finding.autodiff - finding.difference)
                terms = f": {finding.allowed_for}" if finding.allowed_for else ""
                numbers += [("off by", f"{off:.3g}   (allowed {finding.allowed:.1e}{terms})")]
        remarks = finding.reason.split("; ")[1:]  # the reason opens with the same numbers
    why = [] if finding.diagnosis is None else finding.diagnosis.lines
    first, last = ([f"    {name:<11}  {text}" for name, text in rows] for rows in (numbers, why))
    return [head, *first, *(f"    {remark}" for remark in remarks), *last]


def _order(order: OrderResult) -> str:
    if not order.compared:
        return f"order {order.order}: {order.verdict}"
    line = f"order {order.order}: {order.verdict}, {order.compared} compared, {order.inconclusive} inconclusive"
    if order.verdict == Verdict.MISMATCH or not isfinite(order.resolution):
        return line
    return f"{line}; an error of {order.resolution:.1e} would have been noticed"
