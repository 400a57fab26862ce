"""The operands of a drawn program's operations: names by their values, and values that stay small and smooth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from gradcheck.defects.tape_program import Literal
from gradcheck.hunt.tapes.model import Model
from gradcheck.hunt.tapes.operations import FLOATING, INTEGER, OPERATIONS, ModelVariable, Value
from gradcheck.hunt.tapes.recording import TapeRecord

from .values import Draw, choice

Array = np.ndarray[Any, Any]

SHAPES: tuple[tuple[int, ...], ...] = ((2,), (), (2, 2))
NUMBERS = (1.7, 0.3, 2.2, -1.0, 0.7, -0.3, 1.4, 0.0, 3.1, -1.7)
LARGEST = 30.0
NEAREST = 10
"""The number of newest names from which an operand is drawn."""
EAGER_ONLY = ("numpy",)
NOT_IN_FUNCTIONS = ("numpy", "remainder", "to_integer")
STEPS = ("floor", "sign", "to_integer", "remainder", "round")
EDGE = 1e-6
"""Least distance from the edge of a step; nearer, rounding would decide on which side a value lies."""


def literal(draw: Draw) -> Literal:
    """A tensor of plain numbers."""
    shape = choice(draw, SHAPES)
    return Literal(shape, tuple(choice(draw, NUMBERS) for _ in range(prod(shape))))


class Operands:
    """The names of a program, in the order in which they were bound; queries list the newest first."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names: list[str] = []
        self.counts: dict[str, int] = {}

    def fresh(self, letter: str) -> str:
        """A new name."""
        self.counts[letter] = self.counts.get(letter, -1) + 1
        return f"{letter}{self.counts[letter]}"

    def bound(self, name: str) -> None:
        """Records that a name was bound (again), unless it has no value or None."""
        if self.model.values.get(name) is not None:
            if name in self.names:
                self.names.remove(name)
            self.names.append(name)

    def value(self, name: str) -> Array:
        """The value of a name."""
        return self.model.value(name).value

    def newest(self, fits: Callable[[Value], bool] = lambda value: True) -> list[str]:
        """The names whose value fits, and whose derivative is predicted."""
        return [name for name, value in self._predicted() if fits(value)][:NEAREST]

    def _predicted(self) -> list[tuple[str, Value]]:
        values = [(name, self.model.values[name]) for name in reversed(self.names)]
        return [(name, value) for name, value in values if value is not None and not value.opaque]

    def floating(self) -> list[str]:
        """The newest names of floating tensors and variables."""
        return self.newest(lambda value: value.value.dtype.kind == "f")

    def made(self, record: TapeRecord) -> list[str]:
        """The names whose operation a tape recorded."""
        return self.newest(lambda value: record.entries.get(value.followed) is not None)

    def behind(self, record: TapeRecord, targets: Sequence[str]) -> list[str]:
        """The names on which the recorded part of the targets depends, those that the tape only watches first."""
        entries = record.entries_behind([self.model.value(name).followed for name in targets])
        inputs = {tensor for entry in entries for tensor in entry.inputs if tensor in record.entries}
        found = [(name, value) for name, value in self._predicted() if value.followed in inputs]
        found.sort(key=lambda one: record.entries[one[1].followed] is not None)
        return [name for name, _ in found][:NEAREST]

    def recorded(self) -> list[str]:
        """The names that a tape that is active now would follow an operation on."""

        def followed(value: Value, record: TapeRecord) -> bool:
            accessed = record.accessed and isinstance(value, ModelVariable) and value.trainable
            return accessed or value.followed in record.entries

        return self.newest(lambda value: any(followed(value, record) for record in self.model.active.records))

    def batches(self, names: Sequence[str]) -> list[str]:
        """The names that have a batch dimension and another one; all, if there are none."""
        return [name for name in names if self.value(name).ndim == 2] or list(names)


def applied(
    draw: Draw, names: Sequence[str], value: Callable[[str], Array], left_out: Sequence[str]
) -> tuple[str, tuple[str, ...], Array]:
    """Draws an operation and its arguments from the names; returns both and the value, which another one keeps
    small."""
    first = choice(draw, names)
    integer = value(first).dtype.kind == "i"
    operation = choice(draw, [name for name in (INTEGER if integer else FLOATING) if name not in left_out])
    arguments = [first]
    if OPERATIONS[operation].arity == 2:
        matrix, taken = OPERATIONS[operation].matrix, value(first)
        arguments.append(choice(draw, [name for name in names if _fits(value(name), taken, matrix)]))
    arrays = [value(name) for name in arguments]
    if OPERATIONS[operation].matrix and any(array.ndim != 2 for array in arrays):
        operation = "mul" if OPERATIONS[operation].arity == 2 else "sin"
    if operation in STEPS and np.any(np.abs(arrays[0] * 2 - np.round(arrays[0] * 2)) < EDGE):
        operation = "identity"
    with np.errstate(all="ignore"):
        result = _computed(operation, arrays)
    if not np.all(np.abs(result) < LARGEST):
        operation = "to_float" if integer else "tanh"
        result = _computed(operation, arrays)
    return operation, tuple(arguments[: OPERATIONS[operation].arity]), result


def _fits(a: Array, b: Array, matrix: bool) -> bool:
    return a.dtype == b.dtype and (not matrix or a.shape == b.shape)


def _computed(operation: str, arrays: list[Array]) -> Array:
    used = arrays[: OPERATIONS[operation].arity]
    return np.asarray(OPERATIONS[operation].forward(*(array[None] for array in used))[0])
