"""The records that tapes keep of applied operations, and the evaluation of values from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from gradcheck.hunt.tapes.operations import READ, ZEROS_LIKE, ModelTensor, ModelVariable, Operation, TapeEntry, Value
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.sampling import FIRST, Stencil, sample
from gradcheck.typing import Array


@dataclass(eq=False)
class TapeRecord:
    """The record of one tape: the tensors that it follows, each with the entry that produced it (None: watched).

    Rules of tensorflow/c/eager/tape.h (Watch, ShouldRecord, RecordOperation). `accessed`: it watches the trainable
    variables that are accessed.
    """

    accessed: bool
    entries: dict[ModelTensor, TapeEntry | None] = field(default_factory=dict)

    def watch(self, tensor: ModelTensor) -> None:
        """Follow a tensor; one that is followed already keeps its entry."""
        self.entries.setdefault(tensor, None)

    def record_operation(self, entry: TapeEntry) -> None:
        """Keep an operation if a floating input is followed."""
        if any(tensor in self.entries and tensor.floating for tensor in entry.inputs):
            self.entries.update(dict.fromkeys(entry.outputs, entry))

    def entries_behind(self, targets: Sequence[ModelTensor]) -> list[TapeEntry]:
        """All entries on which `targets` depend, each after its own dependencies."""
        found: dict[TapeEntry, None] = {}

        def visit(tensor: ModelTensor) -> None:
            entry = self.entries.get(tensor)
            if entry is not None and entry not in found:
                for parent in entry.inputs:
                    visit(parent)
                found[entry] = None

        for target in targets:
            visit(target)
        return list(found)


def evaluate(record: TapeRecord, tensors: tuple[ModelTensor, ...], moved: Mapping[ModelTensor, Array]) -> list[Array]:
    """The values of `tensors` where others are shifted by `moved`: arrays with a leading axis of points.

    Recorded operations are computed again; everything else, and fixed operations, keep their values.
    """
    known = {tensor: tensor.value + shift for tensor, shift in moved.items()}

    def value(tensor: ModelTensor) -> Array:
        if tensor not in known:
            entry = record.entries.get(tensor)
            if entry is None or entry.operation.fixed:
                known[tensor] = tensor.value[None]
            elif entry.operation is READ:
                known[tensor] = tensor.value[None] + moved.get(entry.inputs[0], 0.0)
            else:
                # A function's other outputs are set as well; one that is moved itself keeps its value.
                results = entry.operation.results(*map(value, entry.inputs))
                known.update(dict(zip(entry.outputs, results, strict=True)) | known)
        return known[tensor]

    return [value(tensor) for tensor in tensors]


@dataclass(eq=False)
class ActiveTapes:
    """The records of the tapes that are recording; operations are applied here, so that these tapes see them.

    `traced`: all of this is inside a tf.function. `hidden` counts the gradients of functions and conditionals that were
    taken while a tape recorded; the derivatives of those are not predicted.
    """

    traced: bool = False
    records: list[TapeRecord] = field(default_factory=list)
    hidden: int = 0

    def apply(self, operation: Operation, *inputs: ModelTensor) -> ModelTensor:
        """Applies an operation with one result."""
        return self.apply_all(operation, inputs)[0]

    def apply_all(self, operation: Operation, inputs: Sequence[ModelTensor]) -> tuple[ModelTensor, ...]:
        """Applies an operation, and returns all of its results."""
        with np.errstate(all="ignore"):
            arrays = operation.results(*(tensor.value[None] for tensor in inputs))
        outputs = tuple(ModelTensor(np.asarray(array[0])) for array in arrays)
        # Zeros are an operation on a tensor, whose shape a graph knows: there they are a constant.
        if operation.recorded and not (self.traced and operation is ZEROS_LIKE):
            self._record(TapeEntry(operation, tuple(inputs), outputs))
        return outputs

    def read(self, value: Value, recorded: bool = True) -> ModelTensor:
        """Returns a tensor as it is; reads a variable, which tapes that watch accessed variables then watch."""
        if isinstance(value, ModelTensor):
            return value
        result = ModelTensor(value.value)
        if recorded:
            self.access(value)
            self._record(TapeEntry(READ, (value.followed,), (result,)))
        return result

    def access(self, variable: ModelVariable) -> None:
        """Makes tapes watch a trainable variable that is read or assigned."""
        for record in self.records:
            if record.accessed and variable.trainable:
                record.watch(variable.followed)

    def _record(self, entry: TapeEntry) -> None:
        for record in self.records:
            record.record_operation(entry)


VALUE, NONE, ZEROS = "value", "None", "zeros"


@dataclass(frozen=True, eq=False)
class Prediction:
    """The derivative that `method` of a tape gives with respect to one source: `kind` is VALUE, NONE or ZEROS.

    A value is the derivative of the part of the targets that was recorded. `tensor` is the derivative as the program
    uses it further; that of a Jacobian has only the shape and dtype, and its own derivatives are not predicted.
    """

    kind: str
    tensor: ModelTensor | None
    record: TapeRecord
    targets: tuple[ModelTensor, ...]
    source: ModelTensor
    method: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the derivative, where there is one."""
        if self.method == "gradient":
            return self.source.shape
        source = self.source.shape[1:] if self.method == "batch_jacobian" else self.source.shape
        return self.targets[0].shape + source

    def estimate(self, stencil: Stencil = FIRST) -> Estimate:
        """The finite-difference estimate of the derivative; its arrays have the shape `shape`."""
        point = self.source.value.reshape(-1)
        found = first_difference(sample(self._outputs, point, np.eye(point.size), stencil=stencil))
        return Estimate(*(self._arranged(getattr(found, one.name)) for one in fields(found)))

    def _outputs(self, points: Array) -> Array:
        """From points (p, n) to outputs (p, m): the sum of the targets, their elements, or sums over their batch."""
        moved = (points - self.source.value.reshape(-1)).reshape(-1, *self.source.shape)
        values = evaluate(self.record, self.targets, {self.source: moved})
        if self.method == "gradient":
            total = sum((value.reshape(len(value), -1).sum(axis=1) for value in values), np.zeros(1))
            return np.broadcast_to(total[:, None], (len(points), 1))
        value = values[0].sum(axis=1) if self.method == "batch_jacobian" else values[0]
        return np.broadcast_to(value.reshape(len(value), -1), (len(points), value[0].size))

    def _arranged(self, lines: Array) -> Array:
        """From (n, m), one line per source element, to the derivative's shape."""
        if self.method != "batch_jacobian":
            return lines.T.reshape(self.shape)
        batch, *rest = self.source.shape
        rows = self.targets[0].shape[1:]
        return np.moveaxis(lines.T.reshape(*rows, batch, *rest), len(rows), 0)
