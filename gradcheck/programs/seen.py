"""The part of a computation that a tape saw, as a function of one source; its derivative by differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.sampling import sample
from gradcheck.numerics.stencil import FIRST, Stencil
from gradcheck.programs.record import Record
from gradcheck.programs.tensor import Tensor

Array = np.ndarray[Any, Any]


def evaluate(record: Record, tensors: tuple[Tensor, ...], moved: Mapping[Tensor, Array]) -> list[Array]:
    """The values of `tensors` where others are moved by so much: arrays with a leading axis of points.

    What the tape recorded is computed anew; everything else, and what is not differentiable, keeps its value.
    """
    known: dict[Tensor, Array] = {}

    def value(tensor: Tensor) -> Array:
        if tensor not in known:
            # A function's other outputs come along; one that is moved itself keeps its value.
            known.update({made: array for made, array in fresh(tensor).items() if made is tensor or made not in moved})
        return known[tensor]

    def fresh(tensor: Tensor) -> dict[Tensor, Array]:
        if tensor in moved:
            return {tensor: tensor.value + moved[tensor]}
        application = record.entries.get(tensor)
        if application is None or application.operation.fixed:
            return {tensor: tensor.value[None]}
        inputs = application.inputs
        if inputs[0].handle and application.operation.name == "read":
            shift = moved.get(inputs[0])
            return {tensor: tensor.value[None] if shift is None else tensor.value + shift}
        results = application.operation.forward(*map(value, inputs))
        outputs = application.outputs
        return dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))

    return [value(tensor) for tensor in tensors]


@dataclass(frozen=True, eq=False)
class Seen:
    """What `method` of a tape has to give for a source: the derivative of the recorded part of the targets."""

    record: Record
    targets: tuple[Tensor, ...]
    source: Tensor
    method: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the derivative."""
        if self.method == "gradient":
            return self.source.shape
        target = self.targets[0].shape
        return target + (self.source.shape[1:] if self.method == "batch_jacobian" else self.source.shape)

    def function(self) -> Callable[[Array], Array]:
        """From points (p, n) to outputs (p, m): the sum of the targets, their elements, or sums over their batch."""

        def outputs(points: Array) -> Array:
            moved = (points - self.source.value.reshape(-1)).reshape(-1, *self.source.shape)
            values = evaluate(self.record, self.targets, {self.source: moved})
            if self.method == "batch_jacobian":
                values = [values[0].sum(axis=1)]
            flat = [value.reshape(len(value), -1) for value in values]
            if self.method == "gradient":
                flat = [sum((value.sum(axis=1, keepdims=True) for value in flat), np.zeros((1, 1)))]
            return np.broadcast_to(flat[0], (len(points), flat[0].shape[1]))

        return outputs

    def difference(self, stencil: Stencil = FIRST) -> Estimate:
        """The derivative in the shape `shape`, with its bound; all arrays of the estimate are reshaped."""
        point = self.source.value.reshape(-1)
        found = first_difference(sample(self.function(), point, np.eye(point.size), stencil=stencil))
        arrays = (self._arranged(array) for array in (found.value, found.bound, found.conclusive, found.radius))
        return Estimate(*arrays)

    def _arranged(self, lines: Array) -> Array:
        """From (n, m), a line a source element, to the derivative's shape."""
        if self.method != "batch_jacobian":
            return lines.T.reshape(self.shape)
        batch, *rest = self.source.shape
        rows = self.targets[0].shape[1:]
        table = lines.T.reshape(*rows, batch, *rest)
        return np.moveaxis(table, len(rows), 0)
