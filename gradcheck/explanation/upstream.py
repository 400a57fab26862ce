"""A gradient that is no multiple of the upstream gradient: right for 1, which a loss gives, and wrong behind others."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import UPSTREAM, Function
from gradcheck.autodiff.reverse import DerivativeRaisedError, dense
from gradcheck.explanation.record import CodeRecord, RecordedOperation
from gradcheck.explanation.user_code import at, definition_of, place_of
from gradcheck.result import Cause, Diagnosis, Finding
from gradcheck.typing import Array

ALIKE = 1e-3
"""Results for two upstream gradients are no multiples of one another where they differ by more than this share."""


def not_linear(
    function: Function, record: CodeRecord, finding: Finding, row: Array, coordinate: int
) -> Diagnosis | None:
    """Why a first derivative at a coordinate, under a cotangent (m,), is wrong for one multiple of it and not for 1."""
    try:
        one, other = (function.gradients_of(factor * row[None]).values[0, coordinate] for factor in (1.0, UPSTREAM))
    except DerivativeRaisedError:  # for one of both alone
        return None
    if not abs(UPSTREAM * one - other) > abs(UPSTREAM) * (finding.allowed or 0.0):
        return None
    culprit = next((event for event in record.operations if _forgets(event)), None)
    given = (
        f"for an upstream gradient of 1 it is {one:.6g}, and {other:.6g} for one of {UPSTREAM:g}, which the check "
        f"takes and divides by {UPSTREAM:g}"
    )
    remedy = "multiply by the upstream gradient"
    if culprit is None or culprit.custom_gradient is None:
        return Diagnosis(
            Cause.CUSTOM_GRADIENT, f"{given}; it is no multiple of it", f"{remedy}, and use it in no other way"
        )
    name, defined = culprit.custom_gradient.func.__name__, definition_of(culprit.custom_gradient.func)
    evidence = (
        f"{given}: the gradient of the function {name} under tf.custom_gradient{at(culprit.line)} is no multiple of "
        "the upstream gradient that it is given"
    )
    return Diagnosis(
        Cause.CUSTOM_GRADIENT,
        evidence,
        f"{remedy} in the gradient that {name}{at(defined)} returns, and use it in no other way",
        place_of(defined, name),
    )


def _forgets(event: RecordedOperation) -> bool:
    """Whether the gradient that an operation brought along is no multiple of what arrives."""
    if event.custom_gradient is None or event.backward is None:
        return False
    ones = [tf.ones_like(one) for one in event.outputs]
    try:
        both = [tf.nest.flatten(event.backward(*[factor * one for one in ones])) for factor in (1.0, UPSTREAM)]
    except Exception:  # whatever somebody's gradient function raises
        return False
    given = ([np.asarray(dense(part).numpy()) for part in parts if part is not None] for parts in both)
    pairs = zip(*given, strict=True)
    return any(np.max(np.abs(UPSTREAM * a - b), initial=0) > ALIKE * np.max(np.abs(b), initial=0) for a, b in pairs)
