"""What a tape holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcheck.hunt.tapes.operations import READ, Application, ModelTensor, ModelVariable, Operation
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.sampling import sample
from gradcheck.numerics.stencil import FIRST, Stencil


@dataclass(eq=False)
class TapeRecord:
    """What one tape holds: the tensors that it follows, each with the application that made it (None: watched).

    Rules of tensorflow/c/eager/tape.h (Watch, ShouldRecord, RecordOperation).
    """

    accessed: bool
    entries: dict[ModelTensor, Application | None] = field(default_factory=dict)

    def watch(self, tensor: ModelTensor) -> None:
        """Follow a tensor; one that is followed already keeps its application."""
        self.entries.setdefault(tensor, None)

    def note(self, application: Application) -> None:
        """Record an application if a floating input is followed."""
        if any(tensor in self.entries and tensor.floating for tensor in application.inputs):
            self.entries.update(dict.fromkeys(application.outputs, application))

    def applications(self, targets: Sequence[ModelTensor]) -> list[Application]:
        """All recorded applications behind `targets`, each after those that it depends on."""
        found: dict[Application, None] = {}
        visited: set[ModelTensor] = set()

        def visit(tensor: ModelTensor) -> None:
            if tensor in visited:
                return
            visited.add(tensor)
            application = self.entries.get(tensor)
            if application is not None and application not in found:
                for parent in application.inputs:
                    visit(parent)
                found[application] = None

        for target in targets:
            visit(target)
        return list(found)


Array = np.ndarray[Any, Any]


def evaluate(record: TapeRecord, tensors: tuple[ModelTensor, ...], moved: Mapping[ModelTensor, Array]) -> list[Array]:
    """The values of `tensors` where others are moved by so much: arrays with a leading axis of points.

    What the tape recorded is computed anew; everything else, and what is not differentiable, keeps its value.
    """
    known: dict[ModelTensor, Array] = {}

    def value(tensor: ModelTensor) -> Array:
        if tensor not in known:
            # A function's other outputs come along; one that is moved itself keeps its value.
            known.update({made: array for made, array in fresh(tensor).items() if made is tensor or made not in moved})
        return known[tensor]

    def fresh(tensor: ModelTensor) -> dict[ModelTensor, Array]:
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


VALUE, NONE, ZEROS = "value", "None", "zeros"


@dataclass(frozen=True, eq=False)
class Part:
    """The derivative with respect to one source: `kind` is VALUE (that of `seen`), NONE or ZEROS (shape and dtype).

    `tensor` is the derivative as the program goes on to use it (a Jacobian is opaque, and a placeholder of zeros);
    `seen` is what the tape saw, for every kind.
    """

    kind: str
    tensor: ModelTensor | None
    seen: Seen

    @classmethod
    def of_gradient(cls, found: ModelTensor | None, zeros: ModelTensor | None, seen: Seen) -> Part:
        """The part for what the reverse pass found, or for the zeros that were asked for."""
        if found is not None:
            return cls(VALUE, found, seen)
        return cls(NONE, None, seen) if zeros is None else cls(ZEROS, zeros, seen)

    @classmethod
    def of_jacobian(cls, found: ModelTensor | None, zeros: Any, seen: Seen) -> Part:
        """The same for a Jacobian; `zeros` is the dtype of those that were asked for."""
        if found is None and zeros is None:
            return cls(NONE, None, seen)
        kind, dtype = (ZEROS, zeros) if found is None else (VALUE, np.float64)
        return cls(kind, ModelTensor(np.zeros(seen.shape, dtype), opaque=True), seen)

    def veiled(self) -> Part:
        """The same part, whose derivative is not predicted."""
        return replace(self, tensor=None if self.tensor is None else replace(self.tensor, opaque=True))


@dataclass(frozen=True)
class PredictedDerivative:
    """One call of gradient, jacobian or batch_jacobian: its name, and its parts by the paths of the result."""

    name: str
    parts: dict[str, Part]


@dataclass(eq=False)
class Stage:
    """The records of the tapes that are active, and whether all of this stands in a tf.function.

    `blocked` counts the gradients of functions and conditionals that were taken before the eyes of an active tape:
    what comes of them is opaque.
    """

    traced: bool = False
    active: list[TapeRecord] = field(default_factory=list)
    blocked: int = 0

    def apply(self, operation: Operation, *inputs: ModelTensor) -> ModelTensor:
        """One operation with one result."""
        return self.apply_all(operation, inputs)[0]

    def apply_all(self, operation: Operation, inputs: Sequence[ModelTensor]) -> tuple[ModelTensor, ...]:
        """One operation with all of its results."""
        with np.errstate(all="ignore"):
            results = operation.forward(*(tensor.value[None] for tensor in inputs))
        arrays = results if isinstance(results, tuple) else (results,)
        outputs = tuple(ModelTensor(np.asarray(array[0])) for array in arrays)
        if operation.recorded:
            application = Application(operation, tuple(inputs), outputs)
            for record in self.active:
                record.note(application)
        return outputs

    def tensor(self, value: ModelTensor | ModelVariable) -> ModelTensor:
        """A tensor as it is; a variable is read, and watched by the tapes that watch what is accessed."""
        if isinstance(value, ModelTensor):
            return value
        self.access(value)
        result = ModelTensor(value.value)
        application = Application(READ, (value.handle,), (result,))
        for record in self.active:
            record.note(application)
        return result

    def access(self, variable: ModelVariable) -> None:
        """Reading or assigning a trainable variable makes tapes watch it."""
        for record in self.active:
            if record.accessed and variable.trainable:
                record.watch(variable.handle)


def unseen(value: ModelTensor | ModelVariable) -> ModelTensor:
    """The same without any tape looking on."""
    return value if isinstance(value, ModelTensor) else ModelTensor(value.value)
