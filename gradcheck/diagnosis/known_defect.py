"""Recognise a wrong operation as a known defect of TensorFlow: its name, releases, and code with a correct gradient.

The same for an operation inside a public function whose derivative is known to be wrong at its actual arguments.

The records are loaded when the first finding needs them: a check that finds nothing does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.kernels import GRADIENT_ZERO
from gradcheck.tracing.library_functions import LibraryCall
from gradcheck.tracing.record import CodeRecord, RecordedOperation, key
from gradcheck.tracing.user_code import at

if TYPE_CHECKING:
    from gradcheck.defects.kernel_use import KernelUse
    from gradcheck.defects.library_use import LibraryUse
    from gradcheck.defects.records import Defect

INDENT = "\n" + 20 * " "


def kernel_use(operation: RecordedOperation, outputs: Collection[int] | None = None, where: str = "") -> KernelUse:
    """Return a recorded operation as the use of a kernel; its `outputs` are those that are used (None: all)."""
    from gradcheck.defects.kernel_use import KernelUse, attribute_values

    count = range(len(operation.outputs)) if outputs is None else outputs
    attributes = {} if operation.backward is not None else attribute_values(operation.name, operation.attrs)
    use = KernelUse(operation.name, operation.inputs, attributes, frozenset(count), operation.place, where)
    return replace(use, layer=operation.layer or "", kind=operation.kind)


def library_uses(
    operations: Iterable[RecordedOperation], used: Set[int], dependent: Set[int], where: str = ""
) -> list[LibraryUse]:
    """The calls of public functions, in order, that contain operations on the path of a derivative.

    Of nested calls the outermost: its own records describe what is wrong with it, and it may guard what it calls.
    `used` are the ids of the outputs that are used, `dependent` the keys of tensors and variables that depend on the
    sources.
    """
    from gradcheck.defects.library_use import LibraryUse

    runs: dict[LibraryCall, list[RecordedOperation]] = {}
    for one in operations:
        for call in list(one.calls)[-1:]:
            runs.setdefault(call, []).append(one)
    found = []
    for call, own in runs.items():
        kernels: dict[str, frozenset[int]] = {}
        for one in own:
            taken = {number for number, output in enumerate(one.outputs) if id(output) in used}
            kernels[one.name] = kernels.get(one.name, frozenset()) | taken
        layer, kind = own[0].layer or "", own[0].kind
        found.append(LibraryUse(call, own[0].place, kernels, dependent, where, layer, kind))
    return found


def dependent_on(sources: Iterable[object], operations: Iterable[RecordedOperation]) -> Set[int]:
    """The keys of tensors and variables that depend on the sources through operations that pass gradients."""
    found = {key(source) for source in sources}
    for one in operations:
        if one.name not in GRADIENT_ZERO and any(key(tensor) in found for tensor in one.inputs):
            found |= {key(output) for output in one.outputs if output.dtype.is_floating or output.dtype.is_complex}
    return found


def known_defects(operation: RecordedOperation, orders: Sequence[int]) -> list[Defect]:
    """The known defects of these orders whose regions contain an operation, or the calls around it, the worst first.

    Those of the operation itself come before those of the calls, of which the outermost is the one in the code.
    """
    from gradcheck.defects.library_use import LibraryUse

    found: list[Defect] = []
    uses: list[KernelUse | LibraryUse] = [replace(kernel_use(operation), wrong=True)]
    uses += [LibraryUse(call, operation.place, kind=operation.kind) for call in reversed(list(operation.calls))]
    for use in uses:
        own = [defect for defect, order, inside in use.defects() if inside and order in orders]
        found += sorted(own, key=lambda defect: defect.rank)
    return found


@cause_searched()
def known_composition(operations: Sequence[RecordedOperation], sources: Sequence[object]) -> Diagnosis | None:
    """Diagnose a wrong derivative whose operations are correct by themselves; None where no call is a known defect.

    `operations` are those between the sources and the targets.
    """
    if all(one.call is None for one in operations):
        return None
    used = {id(tensor) for one in operations for tensor in one.inputs} | {id(one) for one in operations[-1].outputs}
    uses, orders = library_uses(operations, used, dependent_on(sources, operations)), orders_of(operations)
    found = [(defect, one) for one in uses for defect, order, inside in one.defects() if inside and order in orders]
    if found:
        defect, use = min(found, key=lambda pair: pair[0].rank)
        evidence = f"{_about(defect)}; the call of {use.kernel} lies in its region"
        remedy = _remedy(defect, use.kind) or f"write {use.kernel} with other operations"
        return Diagnosis(Cause.KNOWN_DEFECT, evidence, remedy, use.place)
    return None


def orders_of(operations: Iterable[RecordedOperation]) -> Sequence[int]:
    """The orders of the derivatives through some operations: both if derivatives are among them."""
    return (1, 2) if any(one.derivative is not None for one in operations) else (1,)


def recognised(diagnosis: Diagnosis, operation: RecordedOperation, orders: Sequence[int]) -> Diagnosis:
    """Return the diagnosis of a wrong operation as that of a known defect, if it is one."""
    with cause_searched():
        for known in known_defects(operation, orders)[:1]:
            evidence = f"{_about(known)}; {diagnosis.evidence}"
            remedy = _remedy(known, operation.kind) or diagnosis.remedy
            return replace(diagnosis, cause=Cause.KNOWN_DEFECT, evidence=evidence, remedy=remedy)
    return diagnosis


@cause_searched()
def known_to_raise(record: CodeRecord) -> Diagnosis | None:
    """Diagnose a derivative that raised, or has a wrong shape, by an operation in the region of such a known defect.

    None if there is none.
    """
    from gradcheck.defects.records import Severity

    orders = orders_of(record.operations)
    for operation in reversed(record.operations):
        for known in known_defects(operation, orders):
            if known.severity is Severity.RAISES:
                evidence = f"{_about(known)}; {operation.name}{at(operation.line)} lies in its region"
                remedy = _remedy(known, operation.kind) or f"write {operation.quoted} with other operations"
                return Diagnosis(Cause.KNOWN_DEFECT, evidence, remedy, operation.place)
    return None


def _remedy(known: Defect, layer: str = "") -> str:
    from gradcheck.defects.audited import remedy_lines

    return INDENT.join(remedy_lines(known, layer))


def _about(known: Defect) -> str:
    link = f", {known.upstream}" if known.upstream else ""
    return f"{known.name}, in TensorFlow since {known.releases.since}{link}: {known.title}"
