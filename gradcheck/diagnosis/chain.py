"""The chain rule, factor by factor: each operation between a source and the targets, with its cotangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import dense, pullbacks
from gradcheck.diagnosis.paths import dependency_path, differentiable
from gradcheck.tracing.operation import widened
from gradcheck.tracing.record import CodeRecord, DerivativeCall, RecordedOperation, RecordedPullback, key

Tensors = list[Any]


class NoChainError(Exception):
    """TensorFlow gives no cotangents: a gradient function raised, or there is none; the cause is chained."""


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of the chain rule: an operation (order 1), or its vector-Jacobian product (order 2).

    It is a function of the `tensors` at the positions `moved`; tensors are the operation's inputs, followed at order 2
    by the cotangents of its outputs. Nothing is moved of an operation that cannot run by itself. `cotangents` are those
    that reached the values of the function; None where none did.
    """

    operation: RecordedOperation
    order: int
    tensors: tuple[Any, ...]
    moved: tuple[int, ...]
    cotangents: tuple[Any, ...]

    @property
    def names(self) -> list[str]:
        """Names of the tensors at the positions moved."""
        names = self.operation.argument_names
        outputs = len(self.operation.outputs)
        names += ["its cotangent" if outputs == 1 else f"the cotangent of output {i}" for i in range(outputs)]
        return [names[position] for position in self.moved]

    @property
    def function_of(self) -> tuple[int, int]:
        """The number of the operation, and the order: these identify the function, whichever inputs are moved."""
        return self.operation.number, self.order

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the factor within a record."""
        return (*self.function_of, self.moved, *(one if one is None else key(one) for one in self.cotangents))

    @property
    def underlying(self) -> Factor | None:
        """The operation itself with the cotangents of its outputs, if this is its vector-Jacobian product."""
        count = len(self.operation.inputs)
        moved = tuple(position for position in self.moved if position < count)
        return (
            Factor(self.operation, 1, self.tensors[:count], moved, self.tensors[count:])
            if self.order == 2 and moved
            else None
        )

    def function(self, moved: Sequence[Any], *, wide: bool = False) -> Tensors:
        """The values that a cotangent reached, for tensors in the places `moved`; in float64 if `wide`."""
        tensors = [widened(tensor) for tensor in self.tensors] if wide else list(self.tensors)
        for position, tensor in zip(self.moved, moved, strict=True):
            tensors[position] = tensor
        count = len(self.operation.inputs)
        run = partial(self.operation.rerun, wide=wide)
        parts = run(tensors) if self.order == 1 else _product(run, tensors[:count], tensors[count:], self._sources)
        return [part for part, cotangent in zip(parts, self.cotangents, strict=True) if cotangent is not None]

    @property
    def _sources(self) -> list[int]:
        """The positions of the inputs with respect to which a vector-Jacobian product is taken."""
        return [position for position, cotangent in enumerate(self.cotangents) if cotangent is not None]

    def value_at(self, name: str, element: tuple[int, ...]) -> complex:
        """The value of the tensor with this name, or of one of its parts, at an element."""
        place = next(place for place, own in enumerate(self.names) if name.startswith(own))
        tensor = tf.convert_to_tensor(self.tensors[self.moved[place]])
        value: complex = np.asarray(tensor.numpy())[element].item()
        return value

    @property
    def reached(self) -> Tensors:
        """The cotangents that reached the values of the function."""
        return [cotangent for cotangent in self.cotangents if cotangent is not None]


def _product(
    run: Callable[[Tensors], Tensors], inputs: Tensors, cotangents: Tensors, sources: Sequence[int]
) -> Tensors:
    """The vector-Jacobian product with respect to some of the inputs, None for the others."""

    def forward(some: Tensors) -> Tensors:
        tensors = list(inputs)
        for position, tensor in zip(sources, some, strict=True):
            tensors[position] = tensor
        return [output for output, cotangent in zip(run(tensors), cotangents, strict=True) if cotangent is not None]

    given = [cotangent for cotangent in cotangents if cotangent is not None]
    (row,) = pullbacks(forward, [inputs[position] for position in sources], [given])
    products: Tensors = [None] * len(inputs)
    for position, part in zip(sources, row, strict=True):
        products[position] = tf.zeros_like(inputs[position]) if part is None else dense(part, inputs[position])
    return products


def factors(
    record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None
) -> Iterator[Factor]:
    """Yield the factors between a source (tensor or variable) and the targets of a call, in backward order.

    `weights` are the cotangents of the targets. Derivatives come from the tape that covers everything. Raises
    NoChainError where that raises.
    """
    events = record.before(call)
    path = dependency_path(events, call.targets, source, lambda number, output: None)
    on_path, reached = set(path.operations), _cotangents(record, call, weights)
    used: set[int] = set()
    for event in reversed(events):
        if isinstance(event, RecordedOperation) and event.number in on_path and event.derivative is None:
            operation, order, tensors, values = event, 1, event.inputs, event.outputs
        elif isinstance(event, RecordedPullback) and (taken := operation_of(event, record, used)) is not None:
            parts = (*event.parts, *[None] * len(taken.inputs))[: len(taken.inputs)]
            operation, order, tensors, values = taken, 2, (*taken.inputs, *event.cotangents), parts
        else:
            continue
        dependent = [place for place, one in enumerate(tensors) if _eager(one) and key(one) in path.dependent]
        free, count = operation.movable(order), len(operation.inputs)  # cotangents follow the inputs
        moved = tuple(position for position in dependent if position in free or position >= count)
        cotangents = tuple(None if one is None else reached.get(key(one)) for one in values)
        if (moved or (order == 1 and dependent)) and any(one is not None for one in cotangents):
            yield Factor(operation, order, tensors, moved, cotangents)


def _cotangents(record: CodeRecord, call: DerivativeCall, weights: Sequence[Any] | None) -> dict[int, Any]:
    """The cotangents, by the keys of the tensors that they reached; taken once for a call and its weights."""
    given = call.weights if weights is None else weights
    name = (
        call.number,
        given and tuple(None if one is None else tf.convert_to_tensor(one).numpy().tobytes() for one in given),
    )
    if name not in record.cotangents:
        tensors: dict[int, Any] = {}
        for event in record.before(call):
            made = event.outputs if isinstance(event, RecordedOperation) else ()
            made = event.parts if isinstance(event, RecordedPullback) else made
            tensors |= {key(one): one for one in made if _eager(one)}
        weighted = None if given is None else list(given)
        try:
            found = record.covering.gradient(list(call.targets), list(tensors.values()), output_gradients=weighted)
        except Exception as error:  # whatever a gradient function raises, or TensorFlow where there is none
            raise NoChainError from error
        pairs = zip(tensors, found, strict=True)
        record.cotangents[name] = {one: dense(value, tensors[one]) for one, value in pairs if value is not None}
    return record.cotangents[name]


def _eager(tensor: Any) -> bool:
    return tf.is_tensor(tensor) and hasattr(tensor, "_numpy") and (tensor.dtype.is_floating or tensor.dtype.is_complex)


def operation_of(taken: RecordedPullback, record: CodeRecord, used: set[int]) -> RecordedOperation | None:
    """The operation whose gradient was taken: the last unused one with these tensors."""
    tape = None if taken.derivative is None else record.derivatives[taken.derivative].tape
    for operation in reversed(record.operations):
        before = operation.number not in used and operation.derivative != taken.derivative and tape in operation.tapes
        if operation.name == taken.name and before and _fits(taken, operation):
            used.add(operation.number)
            return operation
    return None


def _fits(taken: RecordedPullback, operation: RecordedOperation) -> bool:
    """Whether an operation has the tensors of a gradient that was taken; unread ones are compared by shape."""
    read, made = zip(taken.inputs, operation.inputs, strict=False), zip(taken.outputs, operation.outputs, strict=False)
    parts = zip(taken.parts, operation.inputs, strict=False)
    given = zip(taken.cotangents, operation.outputs, strict=False)
    same = all(own is None or own is other for own, other in (*read, *made))
    alike = (not _eager(own) or not _eager(other) or own.shape == other.shape for own, other in (*given, *parts))
    return same and differentiable(operation.outputs[0]) and all(alike)
