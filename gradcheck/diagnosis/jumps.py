"""Variables that are never trained: a value changes with them in jumps alone, and their gradient is None or zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.paths import differentiable, gradient_passes, path_of_values
from gradcheck.progress import TimeUpError, time_limit
from gradcheck.tracing.kernels import STEPS
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
NAMED, EXAMINED = 3, 10
"""The numbers of variables that are named, and examined one by one, at most."""
HALVINGS = 20
"""How often the way to where a value differs is halved, in search of a derivative."""
SLACK, COARSEST = 1e3, 2.0**-4
"""Values are equal that differ by less than this many units of roundoff, or this part in 16 bits."""
NOISE, COARSEST_NOISE = 16.0, 2.0**-7
"""The same for the two sides of a jump, which lie close together."""
UNDECIDED = "whether all variables are ever trained was not seen: {:g} s were over"

Look = Callable[[Array], tuple[Array, bool]]
"""The value at a point, NaN where there is none, and whether the derivative is other than None or zero there."""
LookAtAll = Callable[[Mapping[int, Array]], tuple[Array, Set[int]]]
"""The same where variables, by number, have other values; the numbers of those that have a derivative there."""


def changes_in_jumps(point: Array, before: Array, look: Look, precision: float) -> bool:
    """Whether a value changes with a point in jumps alone, at which it is `before`, and its derivative None or zero.

    Nowhere around has it a derivative, as it has where a relu that is off at the point is on. On the way to where it
    differs it jumps, as it does not where a derivative is missing.
    """
    near, far, values = point, None, (before, before)
    for move in MOVES:
        there = point + displacement(point, move)
        after, sloped = look(there)
        if sloped:
            return False
        if far is None and _differ(before, after, precision):
            far, values = there, (before, after)
    if far is None:
        return False
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        after, sloped = look(middle)
        if sloped:
            return False
        if _differ(before, after, precision):
            far, values = middle, (values[0], after)
        else:
            near, values = middle, (after, values[1])
    beyond, sloped = look(far + (far - near))
    change = np.abs(values[1] - values[0])
    large = change > min(NOISE * precision, COARSEST_NOISE) * np.maximum(*map(np.abs, values))
    return not sloped and bool(np.any(large) and np.max(np.abs(beyond - values[1])) <= np.max(change) / 2)


def _differ(before: Array, after: Array, precision: float) -> bool:
    slack = min(SLACK * precision, COARSEST) * np.maximum(np.abs(before), np.abs(after))
    return bool(np.isfinite(after).all() and np.any(np.abs(after - before) > slack))


def _flat_around(points: Sequence[Array], before: Array, look: LookAtAll, precision: float) -> list[int]:
    """The numbers of the variables that have no derivative wherever all are moved together; none if nothing differs."""
    flat, differs = list(range(len(points))), False
    if len(points) == 1:
        return flat
    for move in MOVES:
        after, sloped = look({number: point + displacement(point, move) for number, point in enumerate(points)})
        differs = differs or _differ(before, after, precision)
        flat = [number for number in flat if number not in sloped]
        if not flat:
            break
    return flat if differs else []


def notes_on_jumps(
    recorded: Callable[[], CodeRecord] | None,
    variables: Sequence[tuple[str, Any, Array]],
    look: LookAtAll,
    precision: float,
    subject: str,
) -> list[str]:
    """A note on those variables, whose gradient is None or zero, with which the subject changes in jumps alone.

    Each comes with its name and its value; `recorded` returns a record of the code, if possible.
    """
    names, found, rest = list[str](), list[Any](), 0
    try:
        before, _ = look({})
        flat = _flat_around([point for *_, point in variables], before, look, precision)
        for position, number in enumerate(flat[:EXAMINED]):
            name, variable, point = variables[number]

            def alone(moved: Array, number: int = number) -> tuple[Array, bool]:
                value, sloped = look({number: moved})
                return value, number in sloped

            if changes_in_jumps(point, before, alone, precision):
                names.append(name)
                found.append(variable)
            rest = len(flat) - position - 1
            if len(names) == NAMED:
                break
    except TimeUpError:  # what the check has found stands
        if (limit := time_limit()) is None:
            raise
        return [UNDECIDED.format(limit)]
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
    for call in reversed(record.derivatives):
        if not call.targets or all(key(source) != key(variable) for source in call.sources):
            continue
        path = path_of_values(record, call, variable)
        used = {key(target) for target in call.targets} & path.dependent
        for number in reversed(path.operations):
            operation = record.operations[number]
            through = [one for one in operation.inputs if key(one) in path.dependent and differentiable(one)]
            passes = [one for one in through if gradient_passes(operation, one, used)]
            used |= path.dependent.intersection(map(key, operation.inputs))
            if operation.name in STEPS or (through and not passes):
                return f" through {operation.name}{at(operation.line)}"
    return ""
