"""Which operations a source really influences: the same code with the source moved, value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.precision import ROUNDOFF
from gradcheck.diagnosis.call_problem import flat_target
from gradcheck.diagnosis.origins import Origin
from gradcheck.diagnosis.record import Derivative, Operation
from gradcheck.diagnosis.replay import Code, Move, replayed

NEAR = (2.0**-7, -(2.0**-6))
"""How far, relatively, a source is moved to see what depends on it smoothly."""
FAR = (0.3, -0.3, 1.2, -1.2, 4.0, -4.0)
"""How far it is moved to see what depends on it in steps."""


@dataclass(frozen=True)
class Influence:
    """What changed when the source moved: `near` says whether the targets follow small moves, `far` larger ones."""

    near: bool
    far: bool
    base: Sequence[Operation]
    moved: Sequence[Sequence[Operation]]

    def changed(self, number: int, output: int) -> bool | None:
        """Whether an output of an operation changed; None where nobody can tell, such as beyond another branch."""
        answers = [_changed(self.base[number], run[number], output) for run in self.moved if number < len(run)]
        if not answers or None in answers:
            return None
        return any(answers)


def influence(code: Code, call: Derivative, origin: Origin) -> Influence:
    """Move the source, a little and then more, until the targets of the call change."""
    base = code.record.operations
    runs: list[Sequence[Operation]] = []
    for far, sizes in ((False, NEAR), (True, FAR)):
        for size in sizes:
            replay = replayed(code, call, [Move(origin, _delta(origin.value, size))], events=True)
            run = aligned(base, [event for event in replay.events if isinstance(event, Operation)])
            if replay.target is None:
                continue
            runs.append(run)
            if not np.array_equal(flat_target(replay.target, call), flat_target(call.targets, call), equal_nan=True):
                return Influence(not far, True, base, [run] if far else runs)
    return Influence(False, False, base, runs[:1])


def unlike(code: Code, call: Derivative) -> str | None:
    """What differs between two runs of the same code, in words; None where they agree."""
    replay = replayed(code, call, [])
    if replay.target is None:
        why = "it came to no such call" if replay.error is None else f"{type(replay.error).__name__}: {replay.error}"
        return f"a second run did not get here: {why}"
    first, second = flat_target(call.targets, call), flat_target(replay.target, call)
    slack = 1e3 * ROUNDOFF.get(call.targets[0].dtype.name, 0.0) * max(1.0, float(np.max(np.abs(first), initial=0.0)))
    if first.shape == second.shape and np.allclose(first, second, rtol=0.0, atol=slack, equal_nan=True):
        return None
    return "two runs differ; fix the seed inside f, and give it data that does not change from run to run"


def aligned(base: Sequence[Operation], moved: Sequence[Operation]) -> Sequence[Operation]:
    """The operations of the second run as far as both did the same."""
    for number, (one, two) in enumerate(zip(base, moved, strict=False)):
        if (one.name, len(one.outputs)) != (two.name, len(two.outputs)):
            return moved[:number]
    return moved[: len(base)]


def _delta(value: Any, size: float) -> Any:
    array = np.asarray(value)
    # Not the same for all elements, or a difference of two of them would not move.
    pattern = 1.0 + np.cos(1.0 + np.arange(array.size)).reshape(array.shape) / 4
    delta = size * pattern * np.maximum(np.abs(array), 0.5)
    return tf.constant(delta.astype(array.dtype))


def _changed(one: Operation, two: Operation, output: int) -> bool | None:
    before, after = one.outputs[output], two.outputs[output]
    if before.dtype in (tf.resource, tf.variant) or not hasattr(before, "_numpy"):
        return None
    first, second = np.asarray(before._numpy()), np.asarray(after._numpy())
    return not np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
