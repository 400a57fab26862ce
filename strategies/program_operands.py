"""What the operations of a drawn program may take: names by their values, and values that stay small and smooth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.defects.tape_program import Literal
from gradcheck.hunt.tapes.model import Model
from gradcheck.hunt.tapes.operations import FLOATING, INTEGER, OPERATIONS, ModelVariable
from gradcheck.hunt.tapes.recording import TapeRecord

from .values import Draw, index

Array = np.ndarray[Any, Any]

SHAPES: tuple[tuple[int, ...], ...] = ((2,), (), (2, 2))
NUMBERS = (1.7, 0.3, 2.2, -1.0, 0.7, -0.3, 1.4, 0.0, 3.1, -1.7)
LARGEST = 30.0
NEAREST = 10
"""How far back an operand may lie."""
EAGER_ONLY = ("numpy",)
NOT_IN_FUNCTIONS = ("numpy", "remainder", "to_integer")
STEPS = ("floor", "sign", "to_integer", "remainder", "round")
EDGE = 1e-6
"""Nearer than this to the edge of a step, rounding would decide on which side a value lies."""


def literal(draw: Draw, shape: tuple[int, ...]) -> Literal:
    """A tensor of plain numbers."""
    return Literal(shape, tuple(NUMBERS[index(draw, len(NUMBERS))] for _ in range(int(np.prod(shape)))))


def moved_threshold(threshold: float, value: float) -> float:
    """The threshold, moved where the value lies on it."""
    return threshold + 0.123 if abs(threshold - value) < EDGE else threshold


class Operands:
    """The names of a program, in the order in which they were bound."""

    def __init__(self, draw: Draw, model: Model) -> None:
        self.draw, self.model = draw, model
        self.names: list[str] = []
        self.counts: dict[str, int] = {}

    def fresh(self, letter: str) -> str:
        """A new name."""
        self.counts[letter] = self.counts.get(letter, -1) + 1
        return f"{letter}{self.counts[letter]}"

    def bound(self, name: str | None) -> None:
        """A name was bound (again), unless it came to nothing or to None."""
        if name is None or self.model.values.get(name) is None:
            return
        if name in self.names:
            self.names.remove(name)
        self.names.append(name)

    def value(self, name: str) -> Array:
        """The value of a name."""
        return self.model.value(name).value

    def newest(self) -> list[str]:
        """The names that have a value and whose derivative is predicted, the newest first."""
        return self._predicted()[:NEAREST]

    def floating(self) -> list[str]:
        """Those of floating tensors and variables."""
        return [n for n in self._predicted() if self.value(n).dtype.kind == "f"][:NEAREST]

    def _predicted(self) -> list[str]:
        return [n for n in reversed(self.names) if not self._opaque(n)]

    def made(self, record: TapeRecord | None) -> list[str]:
        """The names whose making a tape recorded, the newest first."""
        entries = {} if record is None else record.entries
        return [n for n in self._predicted() if entries.get(self._key(n)) is not None][:NEAREST]

    def behind(self, record: TapeRecord | None, targets: Sequence[str]) -> list[str]:
        """The names on which the recorded part of the targets depends, those that the tape only watches first."""
        if record is None:
            return []
        entries = record.entries_behind([self._key(name) for name in targets])
        inputs = {tensor for entry in entries for tensor in entry.inputs}
        found = [n for n in self._predicted() if self._key(n) in inputs and self._key(n) in record.entries]
        return sorted(found, key=lambda n: record.entries[self._key(n)] is not None)[:NEAREST]

    def recorded(self) -> list[str]:
        """What a tape that is active now would follow an operation on, the newest first."""
        records = self.model.active.records
        return [n for n in self._predicted() if any(self._follows(record, n) for record in records)][:NEAREST]

    def _follows(self, record: TapeRecord, name: str) -> bool:
        value = self.model.value(name)
        return self._key(name) in record.entries or (
            isinstance(value, ModelVariable) and value.trainable and record.accessed
        )

    def batches(self, names: Sequence[str]) -> list[str]:
        """Those among the names that have a batch dimension and another one; all, if there are none."""
        return [n for n in names if self.value(n).ndim == 2] or list(names)

    def _key(self, name: str) -> Any:
        value = self.model.value(name)
        return value.followed

    def _opaque(self, name: str) -> bool:
        value = self.model.values.get(name)
        return value is None or (not isinstance(value, ModelVariable) and value.opaque)


def applied(
    draw: Draw, names: Sequence[str], value: Callable[[str], Array], traced: bool, everything: bool = True
) -> tuple[str, str, tuple[str, ...], Array]:
    """An operation on some of the names, as its first name, the operation, all of its names and the value."""
    first = names[index(draw, len(names))]
    integer = value(first).dtype.kind == "i"
    left_out = (EAGER_ONLY if traced else ()) if everything else NOT_IN_FUNCTIONS
    table = [name for name in (INTEGER if integer else FLOATING) if name not in left_out]
    operation = table[index(draw, len(table))]
    arguments: tuple[str, ...] = (first,)
    if OPERATIONS[operation].arity == 2:
        fitting = [n for n in names if _fits(value(n), value(first), OPERATIONS[operation].matrix)]
        arguments = (first, fitting[index(draw, len(fitting))] if fitting else first)
    arrays = [value(name) for name in arguments]
    operation = _tamed(operation, arrays, integer)
    return first, operation, arguments[: OPERATIONS[operation].arity], _computed(operation, arrays)


def _fits(a: Array, b: Array, matrix: bool) -> bool:
    return a.dtype == b.dtype and (not matrix or a.shape == b.shape)


def _tamed(operation: str, arrays: list[Array], integer: bool) -> str:
    """The operation, or another one where its result would be large or its argument has no matrix's shape."""
    if OPERATIONS[operation].matrix and any(array.ndim != 2 for array in arrays):
        operation = "mul" if OPERATIONS[operation].arity == 2 else "sin"
    if operation in STEPS and np.any(np.abs(arrays[0] * 2 - np.round(arrays[0] * 2)) < EDGE):
        operation = "identity"
    with np.errstate(all="ignore"):
        large = not np.all(np.abs(_computed(operation, arrays)) < LARGEST)
    return ("to_float" if integer else "tanh") if large else operation


def _computed(operation: str, arrays: list[Array]) -> Array:
    used = arrays[: OPERATIONS[operation].arity]
    return np.asarray(OPERATIONS[operation].forward(*(array[None] for array in used))[0])
