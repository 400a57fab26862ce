"""Why a right derivative is zero: units that a relu turns off, and values that a clip holds at its bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from gradcheck.diagnosis.paths import dependency_path
from gradcheck.tracing.kernels import CLIPPING, RECTIFYING
from gradcheck.tracing.record import CallSource, RecordedOperation, key
from gradcheck.tracing.user_code import at, listed
from gradcheck.typing import Array

NAMED = 4
"""The number of units that are named."""


def zero_note(source: CallSource) -> str:
    """Say which operation passes nothing of a gradient that is zero, or of some units of it; empty if none is known.

    The units are those of the last axis, which the gradient of a kernel or a bias shares with the values of its layer.
    """
    if source.call.method != "gradient" or source.given is None:
        return ""
    given = np.asarray(tf.convert_to_tensor(source.given).numpy())
    if not given.size or np.count_nonzero(given) == given.size:
        return ""
    record, call = source.record, source.call
    path = dependency_path(record.before(call), call.targets, source.tensor, lambda number, output: None)
    for number in reversed(path.operations):
        operation = record.operations[number]
        held = _held(operation, path.dependent)
        if held is None:
            continue
        if held.all() and not given.any():
            verb = "values are" if held.size > 1 else "value is"
            return _note(operation, f"{held.size} of {held.size} {verb}")
        if given.ndim and held.ndim and given.shape[-1] == held.shape[-1] > 1:
            units = np.flatnonzero(held.reshape(-1, held.shape[-1]).all(axis=0))
            zero = np.flatnonzero(~given.reshape(-1, given.shape[-1]).any(axis=0))
            if units.size and set(units) <= set(zero):
                rows = held.size // held.shape[-1]
                return _note(operation, f"{rows} of {rows} values of {_units(units.tolist())} are")
    return ""


def _held(operation: RecordedOperation, dependent: frozenset[int]) -> Array | None:
    """Where an operation holds its output constant although its input depends on the source; None for any other one."""
    if operation.backward is not None or operation.name not in RECTIFYING | CLIPPING:
        return None
    given = next((one for one in operation.inputs if key(one) in dependent and hasattr(one, "_numpy")), None)
    output = operation.outputs[0]
    if given is None or not hasattr(output, "_numpy") or given.shape != output.shape:
        return None
    before, after = np.asarray(given._numpy()), np.asarray(output._numpy())
    return np.asarray(before < 0 if operation.name in RECTIFYING else before != after)


def _units(units: Sequence[int]) -> str:
    names = [str(one) for one in units[:NAMED]] + ([f"{len(units) - NAMED} more"] if len(units) > NAMED else [])
    return f"unit{'s' * (len(units) > 1)} {listed(names)}"


def _note(operation: RecordedOperation, which: str) -> str:
    where = at(operation.line) + (f" ({operation.within})" if operation.within else "")
    if operation.name in RECTIFYING:
        return f"{which} negative, so that {operation.name}{where} passes nothing"
    return f"{which} beyond the bound of {operation.name}{where}, which passes nothing there"
