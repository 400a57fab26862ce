"""Find the origin of NaN in a gradient: the first operation of the backward pass that makes it from finite numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.reverse import pullbacks
from gradcheck.diagnosis.blamed_operation import described
from gradcheck.diagnosis.chain import Factor, factors
from gradcheck.diagnosis.known_defect import recognised
from gradcheck.diagnosis.not_finite_remedies import remedy_for
from gradcheck.diagnosis.not_finite_value import (
    ValueOrigin,
    as_array,
    element_text,
    finite,
    maker,
    origin_of,
)
from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.kernels import WHERE
from gradcheck.tracing.record import CodeRecord, DerivativeCall, RecordedOperation, key
from gradcheck.tracing.user_code import at


@dataclass(frozen=True)
class NotFinite:
    """An operation of this `order` that turned finite numbers into `result` in the backward pass.

    It did so at `element` of `argument`, where that is `value`, with the `cotangent` there (None: there is none of that
    shape). `behind` is the operation that made the argument, `unused` a tf.where that does not select the value,
    `otherwise`: the value is the last argument of that. `inner`: it happened in a first derivative that the target is
    made of.
    """

    operation: RecordedOperation
    order: int
    argument: str
    element: tuple[int, ...]
    value: complex
    result: complex
    cotangent: complex | None
    looked_at: int
    behind: RecordedOperation | None = None
    unused: RecordedOperation | None = None
    otherwise: bool = False
    inner: bool = False


def not_finite_diagnosis(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None
) -> Diagnosis | None:
    """Find the origin of a gradient, or a target, that is not finite; None where no single operation makes it so.

    Raises NoChainError.
    """
    found = _found(record, call, source, weights)
    return found.diagnosis(record) if isinstance(found, ValueOrigin) else None if found is None else _diagnosis(found)


def _found(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None
) -> NotFinite | ValueOrigin | None:
    if all(finite(target) for target in call.targets):
        return _on_the_way_back(record, call, source, weights)
    found = origin_of(record, call.targets)
    if found is None or found.operation is None or found.operation.derivative is None:
        return found
    # It is part of a gradient of TensorFlow, which nobody wrote: search the backward pass of that derivative.
    inner = record.derivatives[found.operation.derivative]
    for one, result in zip(inner.sources, inner.results or (), strict=False):
        if not finite(result) and (own := _found(record, inner, one)) is not None:
            return replace(own, inner=True) if isinstance(own, NotFinite) else own
    return found


def _on_the_way_back(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None
) -> NotFinite | None:
    """The first factor of the chain rule that turns finite cotangents into NaN or infinity."""
    looked_at = 0
    for factor in factors(record, call, source, weights):
        looked_at += 1
        if not all(finite(one) for one in factor.reached):
            continue
        for place, part in enumerate(_taken(factor)):
            if part is not None and not finite(part):
                return _lost_at(record, factor, place, part, looked_at)
    return None


def _taken(factor: Factor) -> list[Any]:
    """The cotangents that come back to the moved tensors."""
    operation, moved = factor.operation, [factor.tensors[position] for position in factor.moved]
    if factor.order == 1:
        pairs = zip(operation.outputs, factor.cotangents, strict=True)
        outputs, cotangents = zip(*(pair for pair in pairs if pair[1] is not None), strict=True)
        tape = operation.alone(*moved)
        return list(tape.gradient(list(outputs), moved, output_gradients=list(cotangents)))
    try:
        return list(pullbacks(factor.function, moved, [factor.reached])[0])
    except Exception:  # from TensorFlow, or a gradient function: operations that cannot run by themselves are skipped
        return []


def _lost_at(record: CodeRecord, factor: Factor, place: int, part: Any, looked_at: int) -> NotFinite:
    values, tensor = as_array(part), factor.tensors[factor.moved[place]]
    element = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    same = [one for one in factor.reached if one.shape == tensor.shape]
    cotangent = as_array(same[0])[element].item() if same else None
    if cotangent is None and len(factor.reached) == 1 and factor.reached[0].shape.rank == 0:
        cotangent = as_array(factor.reached[0]).item()
    unused, otherwise = _unused(record, factor.operation) if cotangent == 0 else (None, False)
    return NotFinite(
        operation=factor.operation,
        order=factor.order,
        argument=factor.names[place],
        element=element,
        value=as_array(tensor)[element].item(),
        result=values[element].item(),
        cotangent=cotangent,
        looked_at=looked_at,
        behind=maker(record, tensor),
        unused=unused,
        otherwise=otherwise,
    )


def _unused(record: CodeRecord, operation: RecordedOperation) -> tuple[RecordedOperation | None, bool]:
    """The first tf.where that a value goes into, through any operations outside of the backward pass.

    Also returns whether it is the last argument, which is selected where the condition is false.
    """
    reached = {key(output) for output in operation.outputs}
    for later in record.operations[operation.number + 1 :]:
        if later.derivative == operation.derivative and any(key(one) in reached for one in later.inputs):
            if later.name in WHERE:
                return later, key(later.inputs[2]) in reached
            reached |= {key(output) for output in later.outputs}
    return None, False


def _diagnosis(found: NotFinite) -> Diagnosis:
    operation = found.operation
    where = f"{found.argument}{element_text(found.element)} = {found.value:.6g}"
    count = f"{found.looked_at} operation{'s' * (found.looked_at != 1)} looked at, from the target back to this one"
    given = "finite cotangents" if found.cotangent is None else f"the finite cotangent {found.cotangent:.6g}"
    second = "differentiated again, " if found.order == 2 else ""
    second += "in the first derivative, " if found.inner else ""
    evidence = f"{second}{described(operation)} turns {given} into {found.result:.6g} at {where}; {count}"
    if found.unused is not None:
        evidence += (
            f"; tf.where{at(found.unused.line)} does not select that value and sends back the cotangent 0, but 0 times "
            "infinity is NaN"
        )
    remedy = remedy_for(operation, found.behind, found.unused, found.otherwise, found.value, operation.quoted)
    diagnosis = Diagnosis(Cause.NOT_FINITE, evidence, remedy, operation.place)
    # An unselected value is fixed where it is computed, unless both operations belong to one public function.
    mended = found.unused is not None and not set(operation.calls) & set(found.unused.calls)
    return diagnosis if mended else recognised(diagnosis, operation, (found.order,))
