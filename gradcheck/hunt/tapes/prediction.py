"""What a tape is predicted to give for a source: a value known by finite differences, None, or zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.hunt.tapes.operations import ModelTensor
from gradcheck.hunt.tapes.recording import TapeRecord, evaluate
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.sampling import sample
from gradcheck.numerics.stencil import FIRST, Stencil

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class RecordedDerivative:
    """What `method` of a tape has to give for a source: the derivative of the recorded part of the targets."""

    record: TapeRecord
    targets: tuple[ModelTensor, ...]
    source: ModelTensor
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

    def estimate(self, stencil: Stencil = FIRST) -> Estimate:
        """The finite-difference estimate of the derivative; its arrays have the shape `shape`."""
        point = self.source.value.reshape(-1)
        found = first_difference(sample(self.function(), point, np.eye(point.size), stencil=stencil))
        return Estimate(*map(self._arranged, (found.value, found.bound, found.conclusive, found.radius)))

    def _arranged(self, lines: Array) -> Array:
        """From (n, m), a line a source element, to the derivative's shape."""
        if self.method != "batch_jacobian":
            return lines.T.reshape(self.shape)
        batch, *rest = self.source.shape
        rows = self.targets[0].shape[1:]
        table = lines.T.reshape(*rows, batch, *rest)
        return np.moveaxis(table, len(rows), 0)


VALUE, NONE, ZEROS = "value", "None", "zeros"


@dataclass(frozen=True, eq=False)
class Prediction:
    """The derivative with respect to one source: `kind` is VALUE (that of `recorded`), NONE or ZEROS.

    `tensor` is the derivative as the program goes on to use it; of a Jacobian it has the shape and dtype alone, and its
    own derivatives are not predicted.
    """

    kind: str
    tensor: ModelTensor | None
    recorded: RecordedDerivative

    @classmethod
    def of_gradient(
        cls, found: ModelTensor | None, zeros: ModelTensor | None, recorded: RecordedDerivative
    ) -> Prediction:
        """The prediction for what the reverse pass found, or for the zeros that were asked for."""
        if found is not None:
            return cls(VALUE, found, recorded)
        return cls(NONE, None, recorded) if zeros is None else cls(ZEROS, zeros, recorded)

    @classmethod
    def of_jacobian(cls, connected: bool, zeros: Any, recorded: RecordedDerivative) -> Prediction:
        """The same for a Jacobian; `zeros` is the dtype of those that were asked for."""
        if not connected and zeros is None:
            return cls(NONE, None, recorded)
        kind, dtype = (VALUE, np.float64) if connected else (ZEROS, zeros)
        return cls(kind, ModelTensor(np.zeros(recorded.shape, dtype), opaque=True), recorded)

    def opaque(self) -> Prediction:
        """The same prediction; the derivatives of this derivative are not predicted."""
        return replace(self, tensor=None if self.tensor is None else replace(self.tensor, opaque=True))
