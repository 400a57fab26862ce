"""Compares what TensorFlow gave for a program with what the model predicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck.defects.tape_program import Program
from gradcheck.hunt.tapes import interpreter, model
from gradcheck.hunt.tapes.prediction import VALUE, Prediction
from gradcheck.hunt.tapes.source_text import to_python
from gradcheck.hunt.tapes.tape import RaisedError
from gradcheck.numerics.stencil import CONFIRM

Array = np.ndarray[Any, Any]

MARGIN = 10.0
"""A wrong value lies outside of both intervals by this factor, as everywhere in this project."""

NOT_VECTORIZED = "Encountered an exception while vectorizing the"
"""Jacobians document a ValueError where pfor cannot vectorize them, which the model does not predict; one case is a
tf.cond in a graph that a persistent tape records as well."""

INCONCLUSIVE = "inconclusive"


@dataclass
class PredictionComparison:
    """The differences from the model's predictions, in words, and how many derivatives ended how."""

    differences: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


class UnexplainedDifference(AssertionError):
    """TensorFlow does something that the model does not predict; the message ends with the program."""


def examine(program: Program) -> None:
    """Raise UnexplainedDifference where TensorFlow does not do what the model predicts."""
    differences = compare(program).differences
    if differences:
        raise UnexplainedDifference("\n".join([*differences, "", to_python(program)])) from None


def compare(program: Program) -> PredictionComparison:
    """Run a program with the model and with TensorFlow, and compare every derivative and the exception."""
    return compare_runs(model.run(program), interpreter.run(program))


def compare_runs(predicted: model.Model, observed: interpreter.Observed) -> PredictionComparison:
    """The same for runs that were made before."""
    found = PredictionComparison()
    if predicted.active.traced and predicted.raised is None and NOT_VECTORIZED in str(observed.raised):
        found.outcomes["raises ValueError, not vectorized"] += 1
        return found
    _compare_raised(predicted.raised, observed.raised, found)
    if len(predicted.derivatives) != len(observed.derivatives):
        found.differences.append(f"{len(observed.derivatives)} derivatives, {len(predicted.derivatives)} predicted")
    for predictions, values in zip(predicted.derivatives, observed.derivatives, strict=False):
        for path, prediction in predictions.items():
            outcome, difference = _compare(prediction, values[path])
            found.outcomes[f"{prediction.recorded.method}: {outcome}"] += 1
            found.differences += [f"{path}: {difference}"] if difference else []
    return found


def _compare_raised(predicted: RaisedError | None, observed: BaseException | None, found: PredictionComparison) -> None:
    if predicted is None and observed is None:
        return
    if predicted is None or observed is None:
        text = "" if observed is None else f"{type(observed).__name__}: {observed}"
        found.differences.append(f"raised {text or 'nothing'}; predicted {predicted or 'nothing'}")
        return
    found.outcomes[f"raises {predicted.kind}"] += 1
    if type(observed).__name__ != predicted.kind or predicted.message not in str(observed):
        found.differences.append(f"raised {type(observed).__name__}: {observed}; predicted {predicted}")


def _compare(prediction: Prediction, given: Array | None) -> tuple[str, str | None]:
    """How one derivative ended, and what is wrong with it, if anything."""
    kind, tensor = prediction.kind, prediction.tensor
    if (given is None) != (tensor is None):
        return kind, f"is {'None' if given is None else given.tolist()}; {kind} was predicted"
    if given is None or tensor is None:
        return kind, None
    expected = tensor.shape, tensor.value.dtype
    if kind == VALUE:
        expected = prediction.recorded.shape, prediction.recorded.source.value.dtype
    if (given.shape, given.dtype) != expected:
        return kind, f"has shape {given.shape} and dtype {given.dtype}; {expected} was predicted"
    if kind == VALUE:
        return _compare_value(prediction, given)
    return kind, f"is {given.tolist()}; zeros were predicted" if np.any(given) else None


def _compare_value(prediction: Prediction, given: Array) -> tuple[str, str | None]:
    first = prediction.recorded.estimate()
    outcome = VALUE if np.all(first.conclusive) else INCONCLUSIVE
    if np.all(np.abs(given - first.value) <= first.bound):
        return outcome, None
    second = prediction.recorded.estimate(CONFIRM)
    apart = [~(np.abs(given - one.value) <= MARGIN * one.bound) & one.conclusive for one in (first, second)]
    if np.any(apart[0] & apart[1]) or not np.all(np.isfinite(given)):
        bound = f"error at most {first.bound.max():.1e}"
        return VALUE, f"is {given.tolist()}; the finite-difference estimate is {first.value.tolist()} ({bound})"
    return outcome, None
