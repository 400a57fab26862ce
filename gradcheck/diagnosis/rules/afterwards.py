"""Gradients that changed after they were taken: clipped, averaged, scaled."""

from __future__ import annotations

from typing import Any

from gradcheck.diagnosis.case import at, code_at, number, place
from gradcheck.diagnosis.record import Derivative, Operation, Record, key
from gradcheck.finding import Cause, Diagnosis, Finding


def changed_afterwards(record: Record, given: Any, finding: Finding) -> Diagnosis | None:
    """The first operation between what a tape gave and the gradient that was handed on; None if there is none."""
    taken = {key(answer): call for call in record.derivatives for answer in call.results or () if answer is not None}
    for operation in _ancestors(record, given):
        calls = [taken[key(tensor)] for tensor in operation.inputs if key(tensor) in taken]
        if calls and operation.call is None:
            return _said(calls[0], operation, finding)
    return None


def _ancestors(record: Record, tensor: Any) -> list[Operation]:
    """The operations that a tensor was computed by, in order."""
    needed, found = {key(tensor)}, []
    for operation in reversed(record.operations):
        if any(key(output) in needed for output in operation.outputs):
            needed |= {key(one) for one in operation.inputs}
            found.append(operation)
    return found[::-1]


def _said(call: Derivative, operation: Operation, finding: Finding) -> Diagnosis:
    lost = None if finding.difference is None else finding.difference - (finding.autodiff or 0.0)
    off = "" if lost is None else f"; what was handed on is off by {number(abs(lost))}"
    evidence = (
        f"the gradient was taken{at(call.line)}, and {operation.name}{at(operation.line)} changed it afterwards{off}"
    )
    remedy = f"compare the gradient from before {code_at(operation.line)}; if the change is meant, nothing is wrong"
    return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, remedy, place(operation), lost)
