"""Two runs of a step from the same state that differ: in which number first, and from which operation on."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import element_of, to_coordinates
from gradcheck.result import told_apart
from gradcheck.tracing.record import CodeRecord
from gradcheck.tracing.user_code import at
from gradcheck.training.gradient_changes import alike, dense
from gradcheck.training.step_run import StepRun

ENTERS = "Const"
"""Stands for a value that enters TensorFlow."""


def runs_apart(first: StepRun, second: StepRun) -> str:
    """Describe the first numbers in which two runs differ, such as "losses 1.5 and 2"; empty if they are alike."""
    losses, others = first.losses, second.losses
    if len(losses) != len(others):
        return f"one differentiates {len(losses)} losses, the other {len(others)}"
    for one, other in zip(losses, others, strict=True):
        if not alike([one], [other]):
            return "losses {} and {}".format(*told_apart(float(one), float(other), 10))
    of_both = ("gradients", first.gradients, second.gradients), ("new values", first.after, second.after)
    for kind, ones, more in of_both:
        for variable, one, other in zip(first.variables, ones, more, strict=True):
            if not alike([one], [other]):
                return f"{kind} of {variable.name}{_values(one, other)}"
    return ""


def _values(one: Any, other: Any) -> str:
    """The element in which two arrays differ most, with its values."""
    before, after = dense(one), dense(other)
    if before is None or after is None or before.shape != after.shape:
        return ", of different shapes" if before is not None and after is not None else ", which only one has"
    numbers, others = to_coordinates(before), to_coordinates(after)
    worst = int(np.argmax(np.nan_to_num(np.abs(numbers - others), nan=np.inf)))
    index, part = element_of(worst, before.shape, before.dtype)
    place = f"{part}[{', '.join(map(str, index))}]" if index else part
    return place + ": {} and {}".format(*told_apart(float(numbers[worst]), float(others[worst]), 10))


def operation_apart(first: CodeRecord, second: CodeRecord) -> str:
    """Describe the first operation that two records do not share, or whose values differ; empty if there is none."""
    for one, other in zip_longest(first.operations, second.operations):
        if one is not None and other is not None and one.name != other.name and one.line == other.line:
            return ""  # a library's other path, such as that of a first call
        if one is None or other is None or one.name != other.name:
            names = [f"{found.name}{at(found.line)}" if found else "nothing more" for found in (one, other)]
            return f"one runs {names[0]} where the other runs {names[1]}"
        for before, after in zip(one.outputs, other.outputs, strict=False):
            if (values := _apart(before, after)) is not None:
                gives = "a value that enters TensorFlow is" if one.name == ENTERS else f"{one.name}{at(one.line)} gives"
                return f"{gives} {values}{at(one.line) if one.name == ENTERS else ''}"
    return ""


def _apart(before: Any, after: Any) -> str | None:
    """The first element in which two tensors differ, in words; None where they are equal, or no numbers."""
    kinds = [tf.is_tensor(one) and (one.dtype.is_floating or one.dtype.is_integer) for one in (before, after)]
    if not all(kinds):
        return None
    if before.shape != after.shape:
        return f"of the shapes {tuple(before.shape)} and {tuple(after.shape)}"
    one, other = (np.ravel(np.asarray(value, np.float64)) for value in (before, after))
    apart = np.flatnonzero((one != other) & ~(np.isnan(one) & np.isnan(other)))
    return " and ".join(told_apart(one[apart[0]], other[apart[0]])) if apart.size else None
