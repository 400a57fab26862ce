"""Holding what TensorFlow gave for a program against what the model predicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck.defects.tape_program import Program
from gradcheck.hunt.tapes import interpreter, model
from gradcheck.hunt.tapes.errors import RaisedError
from gradcheck.hunt.tapes.recording import NONE, VALUE, Part
from gradcheck.hunt.tapes.source_text import to_python
from gradcheck.numerics.stencil import CONFIRM

Array = np.ndarray[Any, Any]

MARGIN = 10.0
"""A difference lies outside of both intervals by this factor, as everywhere in this project."""

NOT_VECTORIZED = "Encountered an exception while vectorizing the"
"""Jacobians document a ValueError if their vectorization fails, as it does for a tf.cond in a graph that a persistent
tape records, too; the model does not know what pfor can."""

INCONCLUSIVE = "inconclusive"


@dataclass
class PredictionComparison:
    """What differs, in words (nothing: TensorFlow does what the model says); how many parts ended how."""

    complaints: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


class UnexplainedDifference(AssertionError):
    """TensorFlow does something that the model does not predict; the message ends with the program."""


def examine(program: Program) -> None:
    """Raises UnexplainedDifference where TensorFlow does not do what the model says."""
    complaints = compare(program).complaints
    if complaints:
        raise UnexplainedDifference("\n".join([*complaints, "", to_python(program)])) from None


def compare(program: Program) -> PredictionComparison:
    """Run a program with the model and with TensorFlow, and compare every derivative and the exception."""
    return held(model.run(program), interpreter.run(program))


def held(predicted: model.Model, observed: interpreter.Observed) -> PredictionComparison:
    """The same for runs that were made before."""
    found = PredictionComparison()
    if predicted.stage.traced and predicted.raised is None and NOT_VECTORIZED in str(observed.raised):
        found.outcomes["raises ValueError, not vectorized"] += 1
        return found
    _compare_raised(predicted.raised, observed.raised, found)
    if len(predicted.derivatives) != len(observed.derivatives):
        found.complaints.append(f"{len(observed.derivatives)} derivatives, {len(predicted.derivatives)} predicted")
    for derivative, parts in zip(predicted.derivatives, observed.derivatives, strict=False):
        for path, part in derivative.parts.items():
            outcome, complaint = _judged(part, parts[path])
            found.outcomes[f"{part.seen.method}: {outcome}"] += 1
            found.complaints += [f"{path}: {complaint}"] if complaint else []
    return found


def _compare_raised(predicted: RaisedError | None, observed: BaseException | None, found: PredictionComparison) -> None:
    if predicted is None and observed is None:
        return
    if predicted is None or observed is None:
        text = "" if observed is None else f"{type(observed).__name__}: {observed}"
        found.complaints.append(f"raised {text or 'nothing'}; predicted {predicted or 'nothing'}")
        return
    found.outcomes[f"raises {predicted.kind}"] += 1
    if type(observed).__name__ != predicted.kind or predicted.message not in str(observed):
        found.complaints.append(f"raised {type(observed).__name__}: {observed}; predicted {predicted}")


def _judged(part: Part, given: Array | None) -> tuple[str, str | None]:
    """How one part ended, and what is wrong with it, if anything."""
    if (given is None) != (part.kind == NONE):
        return part.kind, f"is {'None' if given is None else given.tolist()}; {part.kind} was predicted"
    if given is None:
        return part.kind, None
    if part.kind == VALUE:
        expected = part.seen.shape, part.seen.source.value.dtype
    else:
        assert part.tensor is not None
        expected = part.tensor.shape, part.tensor.value.dtype
    if (given.shape, given.dtype) != expected:
        return part.kind, f"has shape {given.shape} and dtype {given.dtype}; {expected} was predicted"
    if part.kind == VALUE:
        return _against_differences(part, given)
    return part.kind, f"is {given.tolist()}; zeros were predicted" if np.any(given) else None


def _against_differences(part: Part, given: Array) -> tuple[str, str | None]:
    first = part.seen.difference()
    outside = ~(np.abs(given - first.value) <= first.bound)
    if not np.any(outside):
        return (VALUE, None) if np.all(first.conclusive) else (INCONCLUSIVE, None)
    second = part.seen.difference(CONFIRM)
    apart = [~(np.abs(given - one.value) <= MARGIN * one.bound) & one.conclusive for one in (first, second)]
    if np.any(apart[0] & apart[1]) or not np.all(np.isfinite(given)):
        return (
            VALUE,
            f"is {given.tolist()}; differences give {first.value.tolist()} (at most {first.bound.max():.1e} off)",
        )
    return (VALUE if np.all(first.conclusive) else INCONCLUSIVE), None
