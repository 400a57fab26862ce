"""The reverse pass over what a tape recorded, as tensorflow/c/eager/tape.h goes about it (ComputeGradient)."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck.programs.application import Compute
from gradcheck.programs.operations import ADD_N, ones_like, zeros_like
from gradcheck.programs.record import Record
from gradcheck.programs.tensor import Tensor


def gradient(
    record: Record, targets: Sequence[Tensor], sources: Sequence[Tensor], compute: Compute
) -> list[Tensor | None]:
    """The gradients of the sum of `targets`, one (or None) a source; `compute` applies an operation to tensors.

    A target starts with ones if the tape recorded how it was made, or if it is a source itself. Raises NoGradientError.
    """
    flows: dict[Tensor, list[Tensor]] = {}
    for target in targets:
        if record.entries.get(target) is not None or target in sources:
            flows.setdefault(target, []).append(ones_like(target))
    for application in reversed(record.applications(targets)):
        if not any(output in flows for output in application.outputs):
            continue
        ups = tuple(_collected(flows, output, compute) or zeros_like(output) for output in application.outputs)
        backward = application.operation.backward
        parts = [None] * len(application.inputs) if backward is None else backward(compute, application, ups)
        for tensor, part in zip(application.inputs, parts, strict=True):
            if part is not None and tensor in record.entries:
                flows.setdefault(tensor, []).append(part)
            elif tensor not in record.entries:
                # An operand that is not followed loses even the ones that it starts with as a target.
                flows.pop(tensor, None)
    return [_collected(flows, source, compute) for source in sources]


def _collected(flows: dict[Tensor, list[Tensor]], tensor: Tensor, compute: Compute) -> Tensor | None:
    parts = flows.get(tensor)
    if parts is None:
        return None
    if len(parts) > 1:
        flows[tensor] = parts = [compute(ADD_N, *parts)]
    return parts[0]
