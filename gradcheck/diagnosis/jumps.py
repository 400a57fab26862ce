"""Variables that are never trained: a value changes with them in jumps alone, and their gradient is None or zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.paths import dependency_path, differentiable, gradient_passes
from gradcheck.tracing.kernels import OF_SHAPES, STEPS
from gradcheck.tracing.record import CodeRecord, key
from gradcheck.tracing.replay import MOVES, displacement
from gradcheck.tracing.user_code import at, listed
from gradcheck.typing import Array

NEVER_TRAINED = "never trained: "
"""Begins a note on such variables."""
SMOOTH = (
    "What to do: if they are to be trained, replace that by something smooth, or give it a gradient with "
    'tf.custom_gradient; otherwise leave them out with skip=, or pass unconnected="ignore".'
)
NAMED = 3
"""The number of variables that are named; the others are not examined."""
HALVINGS = 20
"""How often the way to where a value differs is halved, in search of a derivative."""
SLACK = 1e3
"""Values are equal that differ by less than this many units of roundoff."""


def changes_in_jumps(
    point: Array, value: Callable[[Array], Any], flat: Callable[[Array], bool], precision: float
) -> bool:
    """Whether a value changes with a point in jumps alone: nowhere on the way to where it differs has it a derivative.

    `flat` says whether the derivative is None or zero at a point, as it is at the given one. It is zero, too, for a
    relu that is off, but not everywhere on the way to where this is on.
    """
    before = value(point)

    def same(moved: Array) -> bool:
        after = value(moved)
        slack = SLACK * precision * np.maximum(np.abs(before), np.abs(after))
        return not np.isfinite(after).all() or bool(np.all(np.abs(after - before) <= slack))

    for move in MOVES:
        near, far = point, point + displacement(point, move)
        if same(far):
            continue
        for _ in range(HALVINGS):
            if not flat(far):
                return False
            middle = (near + far) / 2
            near, far = (middle, far) if same(middle) else (near, middle)
        return True
    return False


def notes_on_jumps(
    recorded: Callable[[], CodeRecord] | None, flat: Sequence[tuple[str, Any, Callable[[], bool]]], subject: str
) -> list[str]:
    """A note on those variables, whose gradient is None or zero, with which the subject changes in jumps alone.

    Each comes with its name and a function that says so; `recorded` returns a record of the code, if possible.
    """
    names, found, rest = list[str](), list[Any](), len(flat)
    for name, variable, jumps in flat:
        if len(names) == NAMED:
            break
        rest -= 1
        if jumps():
            names.append(name)
            found.append(variable)
    if not names:
        return []
    where = ""
    if recorded is not None:
        with cause_searched():
            where = _where(recorded(), found[0])
    named = listed([*names, f"up to {rest} more"] if rest else names)
    them = "them" if len(names) + rest > 1 else "it"
    return [f"{NEVER_TRAINED}{named}; {subject} changes with {them} in jumps alone, and no gradient comes back{where}"]


def _where(record: CodeRecord, variable: Any) -> str:
    """Name the operation, the last one before the target, that makes jumps of the variable's changes; else empty."""

    def changed(number: int, output: int) -> bool | None:
        return False if record.operations[number].name in OF_SHAPES else None

    for call in reversed(record.derivatives):
        if not call.targets or all(key(source) != key(variable) for source in call.sources):
            continue
        path = dependency_path(record.before(call), call.targets, variable, changed)
        for number in reversed(path.operations):
            operation = record.operations[number]
            through = [one for one in operation.inputs if key(one) in path.dependent and differentiable(one)]
            passes = [one for one in through if gradient_passes(operation, one, path.dependent)]
            if operation.name in STEPS or (through and not passes):
                return f" through {operation.name}{at(operation.line)}"
    return ""
