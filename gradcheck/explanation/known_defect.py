"""A wrong operation is a known defect of TensorFlow: its name, its releases, and code that has the right gradient.

The records are loaded when the first finding asks for them: a check that finds nothing does not need them.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck.explanation.record import CodeRecord, RecordedOperation
from gradcheck.result import Cause, Diagnosis

if TYPE_CHECKING:
    from gradcheck.defects.kernel_use import KernelUse
    from gradcheck.defects.records import Defect

INDENT = "\n" + 20 * " "


def kernel_use(operation: RecordedOperation, outputs: Collection[int] | None = None, where: str = "") -> KernelUse:
    """A recorded operation as the use of a kernel; its `outputs` are those that something takes (None: all)."""
    from gradcheck.defects.kernel_use import KernelUse, attribute_values

    count = range(len(operation.outputs)) if outputs is None else outputs
    attributes = {} if operation.backward is not None else attribute_values(operation.name, operation.attrs)
    return KernelUse(operation.name, operation.inputs, attributes, frozenset(count), operation.place, where)


def known_defect(operation: RecordedOperation, order: int) -> Defect | None:
    """The known defect of this order in whose region an operation lies, the worst first; None if there is none."""
    with suppress(Exception):  # a diagnosis must not be lost because the records cannot be read
        found = [defect for defect, at, inside in kernel_use(operation).defects() if inside and at == order]
        return min(found, key=lambda defect: defect.rank, default=None)
    return None


def recognised(diagnosis: Diagnosis, operation: RecordedOperation, order: int) -> Diagnosis:
    """The diagnosis of a wrong operation as that of a known defect, where it is one."""
    known = known_defect(operation, order)
    if known is None:
        return diagnosis
    remedy = _remedy(known) or diagnosis.remedy
    evidence = f"{_about(known)}; {diagnosis.evidence}"
    return replace(diagnosis, cause=Cause.KNOWN_DEFECT, evidence=evidence, remedy=remedy)


def known_to_raise(record: CodeRecord) -> Diagnosis | None:
    """Why a derivative raised, where an operation lies in the region of a known defect that does; None elsewhere."""
    from gradcheck.defects.records import Severity

    for operation in reversed(record.operations):
        for order in (1, 2):
            known = known_defect(operation, order)
            if known is not None and known.severity is Severity.RAISES:
                evidence = f"{_about(known)}; {operation.name} lies in its region"
                remedy = _remedy(known) or f"write {operation.name} with other operations"
                return Diagnosis(Cause.KNOWN_DEFECT, evidence, remedy, operation.place)
    return None


def _remedy(known: Defect) -> str:
    from gradcheck.defects.audited import remedy_lines

    return INDENT.join(remedy_lines(known))


def _about(known: Defect) -> str:
    link = f", {known.upstream}" if known.upstream else ""
    return f"{known.name}, in TensorFlow since {known.releases.since}{link}: {known.title}"
