"""Where does my NaN come from? The first operation of the backward pass that makes it of finite numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import pullbacks
from gradcheck.explanation.blamed_operation import described
from gradcheck.explanation.chain import Factor, factors
from gradcheck.explanation.known_defect import recognised
from gradcheck.explanation.not_finite_remedies import remedy_for
from gradcheck.explanation.record import CodeRecord, DerivativeCall, RecordedOperation, key
from gradcheck.explanation.rerun import argument_names
from gradcheck.explanation.user_code import at
from gradcheck.result import Cause, Diagnosis

Array = np.ndarray[Any, Any]
SELECTS = ("Select", "SelectV2")


@dataclass(frozen=True)
class NotFinite:
    """An operation that turned finite numbers into `result`: on the way there (`order` 0), or back (1, 2).

    It did so at `element` of `argument`, where that is `value`, with the `cotangent` there (None: on the way there, or
    there is none of that shape). `behind` is the operation that made the argument, `unused` a tf.where that selects
    something else there, `otherwise` whether its last argument is unused. `inner` says that it did so in a first
    derivative that the target is made of.
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
    """Where a gradient, or its target, that is not finite comes from; None where no single operation makes it so.

    Raises what the tape that covers everything raises.
    """
    found = _found(record, call, source, weights)
    return None if found is None else _diagnosis(found)


def _found(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None
) -> NotFinite | None:
    if all(finite(target) for target in call.targets):
        return _on_the_way_back(record, call, source, weights)
    found = _on_the_way_there(record, call)
    if found is None or found.operation.derivative is None:
        return found
    # It is one of those that TensorFlow's gradients are made of, which nobody wrote: that derivative has a way back.
    inner = record.derivatives[found.operation.derivative]
    for one, result in zip(inner.sources, inner.results or (), strict=False):
        if not finite(result) and (own := _found(record, inner, one)) is not None:
            return replace(own, inner=True)
    return found


def finite(tensor: Any) -> bool:
    """Whether a tensor, or None, holds finite numbers."""
    return tensor is None or bool(np.isfinite(_array(tensor)).all())


def _not_finite(values: Array) -> Array:
    return np.asarray(~np.isfinite(values))


def _array(tensor: Any) -> Array:
    array = np.asarray(tf.convert_to_tensor(tensor).numpy())
    return array if array.dtype.kind in "fc" else array.astype(np.float64)  # bfloat16 is a type of its own


def _on_the_way_there(record: CodeRecord, call: DerivativeCall) -> NotFinite | None:
    """From a target that is not finite, back to the operation whose arguments are still finite.

    Where infinity was there from the beginning, as in a mask, it is the one that makes NaN of it.
    """
    needed = {key(target) for target in call.targets if not finite(target)}
    looked_at, of_infinity = 0, None
    for operation in reversed(record.operations):
        if not any(key(output) in needed for output in operation.outputs):
            continue
        looked_at += 1
        inputs = [one for one in operation.inputs if _floating(one)]
        endless = [one for one in _selected(operation, inputs) if not finite(one)]
        if endless:
            needed |= {key(one) for one in endless}
            if any(map(_has_nan, operation.outputs)) and not any(map(_has_nan, inputs)):
                of_infinity = _made_at(record, operation, looked_at, np.isnan)
        elif inputs:
            return _made_at(record, operation, looked_at)
    return of_infinity


def _has_nan(tensor: Any) -> bool:
    return _floating(tensor) and bool(np.isnan(_array(tensor)).any())


def _selected(operation: RecordedOperation, inputs: Sequence[Any]) -> list[Any]:
    """The inputs, or of tf.where those of which what is not finite is selected."""
    if operation.name not in SELECTS:
        return list(inputs)
    chosen, branches = np.asarray(operation.inputs[0].numpy()), operation.inputs[1:]
    pairs = zip((chosen, ~chosen), branches, strict=True)
    return [one for used, one in pairs if np.any(used & ~np.isfinite(_array(one)))]


def _floating(tensor: Any) -> bool:
    return hasattr(tensor, "_numpy") and bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _made_at(
    record: CodeRecord, operation: RecordedOperation, looked_at: int, made: Callable[[Array], Array] = _not_finite
) -> NotFinite:
    """What an operation made of its arguments, at the first element that is not finite, or as `made` says."""
    output = next(one for one in operation.outputs if _floating(one) and made(_array(one)).any())
    place = next(iter(np.argwhere(made(_array(output)))))
    position, argument = _culpable_argument(operation)
    element = tuple(map(int, place)) if argument.shape == output.shape else _worst(operation, argument)
    return NotFinite(
        operation=operation,
        order=0,
        argument=argument_names(operation)[position],
        element=element,
        value=_array(argument)[element].item(),
        result=_array(output)[tuple(place)].item(),
        cotangent=None,
        looked_at=looked_at,
        behind=_maker(record, argument),
    )


def _culpable_argument(operation: RecordedOperation) -> tuple[int, Any]:
    """The argument to name: the divisor of a division, else the first floating one."""
    floating = [(i, one) for i, one in enumerate(operation.inputs) if _floating(one)]
    return floating[-1] if "Div" in operation.name else floating[0]


def _worst(operation: RecordedOperation, argument: Any) -> tuple[int, ...]:
    """The element with the smallest magnitude of a divisor, else with the largest."""
    sizes = np.abs(_array(argument))
    flat = np.argmin(sizes) if "Div" in operation.name else np.argmax(sizes)
    return tuple(int(i) for i in np.unravel_index(int(flat), sizes.shape))


def _on_the_way_back(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None
) -> NotFinite | None:
    """The first factor of the chain rule that finite cotangents leave as NaN or infinity."""
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
    """What comes back to the tensors that are moved."""
    operation, moved = factor.operation, [factor.tensors[position] for position in factor.moved]
    if factor.order == 1:
        pairs = zip(operation.outputs, factor.cotangents, strict=True)
        outputs, cotangents = zip(*(pair for pair in pairs if pair[1] is not None), strict=True)
        tape = operation.alone(*moved)
        return list(tape.gradient(list(outputs), moved, output_gradients=list(cotangents)))
    try:
        return list(pullbacks(factor.function, moved, [factor.reached])[0])
    except Exception:  # what cannot run by itself is passed over
        return []


def _lost_at(record: CodeRecord, factor: Factor, place: int, part: Any, looked_at: int) -> NotFinite:
    values, tensor = _array(part), factor.tensors[factor.moved[place]]
    element = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    same = [one for one in factor.reached if one.shape == tensor.shape]
    cotangent = _array(same[0])[element].item() if same else None
    if cotangent is None and len(factor.reached) == 1 and factor.reached[0].shape.rank == 0:
        cotangent = _array(factor.reached[0]).item()
    unused, otherwise = _unused(record, factor.operation) if cotangent == 0 else (None, False)
    return NotFinite(
        operation=factor.operation,
        order=factor.order,
        argument=factor.names[place],
        element=element,
        value=_array(tensor)[element].item(),
        result=values[element].item(),
        cotangent=cotangent,
        looked_at=looked_at,
        behind=_maker(record, tensor),
        unused=unused,
        otherwise=otherwise,
    )


MOVING = ("StridedSlice", "Slice", "GatherV2", "GatherNd", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Identity")
"""Operations that choose and move elements."""


def _maker(record: CodeRecord, tensor: Any) -> RecordedOperation | None:
    """The operation that made a tensor, or that of which its elements were taken."""
    for operation in reversed(record.operations):
        if any(output is tensor for output in operation.outputs):
            if operation.name not in MOVING:
                return operation
            tensor = operation.inputs[0]
    return None


def _unused(record: CodeRecord, operation: RecordedOperation) -> tuple[RecordedOperation | None, bool]:
    """The first tf.where that a value goes into, through whatever follows that is not the backward pass.

    And whether it goes into the last argument, which is selected where the condition is false.
    """
    reached = {key(output) for output in operation.outputs}
    for later in record.operations[operation.number + 1 :]:
        if later.derivative == operation.derivative and any(key(one) in reached for one in later.inputs):
            if later.name in SELECTS:
                return later, key(later.inputs[2]) in reached
            reached |= {key(output) for output in later.outputs}
    return None, False


def _diagnosis(found: NotFinite) -> Diagnosis:
    operation = found.operation
    element = f"[{', '.join(map(str, found.element))}]" if found.element else ""
    where = f"{found.argument}{element} = {found.value:.6g}"
    count = f"{found.looked_at} operation{'s' * (found.looked_at != 1)} looked at, from the target back to this one"
    if found.order == 0:
        evidence = f"on the way there, {described(operation)} gives {found.result:.6g} at {where}; {count}"
    else:
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
    # On the way there nothing is differentiated, and what tf.where does not select is mended where it is computed,
    # unless both belong to a public function.
    mended = found.unused is not None and not set(operation.calls) & set(found.unused.calls)
    return recognised(diagnosis, operation, (found.order,)) if found.order and not mended else diagnosis
