"""Find the origin of NaN in a gradient: the first operation of the backward pass that makes it from finite numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck.autodiff.reverse import pullbacks
from gradcheck.diagnosis.blame import back_to_this_one, described
from gradcheck.diagnosis.chain import Factor, factors
from gradcheck.diagnosis.custom_gradients import not_used
from gradcheck.diagnosis.known_defect import recognised
from gradcheck.diagnosis.not_finite_value import as_array, element_text, finite, maker_for, origin_of, remedy_for
from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.kernels import WHERE
from gradcheck.tracing.record import CodeRecord, DerivativeCall, RecordedOperation, key
from gradcheck.tracing.user_code import at


def not_finite_diagnosis(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None, *, inner: bool = False
) -> Diagnosis | None:
    """Find the origin of a gradient, or a target, that is not finite; None where no single operation makes it so.

    `inner`: it is a first derivative that another target is made of. Raises NoChainError.
    """
    if all(map(finite, call.targets)):
        for looked_at, factor in enumerate(factors(record, call, source, weights), start=1):
            for place, part in enumerate(_pulled_back(factor) if all(map(finite, factor.reached)) else ()):
                if not finite(part):
                    return _diagnosis(record, factor, place, part, looked_at, inner)
        return None
    origin = origin_of(record, call.targets)
    if origin is not None and origin.operation is not None and origin.operation.derivative is not None:
        # It is part of a gradient of TensorFlow, which nobody wrote: search the backward pass of that derivative.
        first = record.derivatives[origin.operation.derivative]
        for one, result in zip(first.sources, first.results or (), strict=False):
            if not finite(result) and (found := not_finite_diagnosis(record, first, one, inner=True)) is not None:
                return found
    return None if origin is None else origin.diagnosis(record)


def _pulled_back(factor: Factor) -> list[Any]:
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


def _diagnosis(record: CodeRecord, factor: Factor, place: int, part: Any, looked_at: int, inner: bool) -> Diagnosis:
    """Diagnose a factor that turns finite cotangents into `part`, that of the tensor at a place among those moved."""
    operation, tensor, values = factor.operation, factor.tensors[factor.moved[place]], as_array(part)
    element = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    value = as_array(tensor)[element].item()
    same = [one for one in factor.reached if one.shape == tensor.shape]
    cotangent = as_array(same[0])[element].item() if same else None
    if cotangent is None and len(factor.reached) == 1 and factor.reached[0].shape.rank == 0:
        cotangent = as_array(factor.reached[0]).item()
    unused, otherwise = _unused(record, operation) if cotangent == 0 else (None, False)
    given = "finite cotangents" if cotangent is None else f"the finite cotangent {cotangent:.6g}"
    second = "differentiated again, " if factor.order == 2 else ""
    second += "in the first derivative, " if inner else ""
    evidence = (
        f"{second}{described(operation)} turns {given} into {values[element].item():.6g} at "
        f"{factor.names[place]}{element_text(element)} = {value:.6g}; {back_to_this_one(looked_at)}"
    )
    if unused is not None:
        evidence += (
            f"; tf.where{at(unused.line)} does not select that value and sends back the cotangent 0, but 0 times "
            "infinity is NaN"
        )
    remedy = remedy_for(operation, maker_for(record, operation, tensor), unused, otherwise, value)
    diagnosis = Diagnosis(Cause.NOT_FINITE, evidence, remedy, operation.place)
    if (keyword := not_used(record, operation, diagnosis)) is not diagnosis:
        return keyword
    # An unselected value is fixed where it is computed, unless both operations belong to one public function.
    mended = unused is not None and not set(operation.calls) & set(unused.calls)
    return diagnosis if mended else recognised(diagnosis, operation, (factor.order,))
