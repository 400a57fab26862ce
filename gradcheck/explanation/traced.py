"""The code as it runs by itself, its tf.functions traced: its answers take the place of the eager ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.state import state_restored
from gradcheck.explanation.interception import Observer, tapes_observed
from gradcheck.explanation.places import called
from gradcheck.explanation.record import CodeRecord, DerivativeCall, Event
from gradcheck.explanation.replay import Code
from gradcheck.result import Finding, Kind, SourceResult

NAME = "the code with its tf.function traced"


@dataclass
class _Answers(Observer):
    """Watches tapes, and keeps the answers to the derivatives that somebody's own code asks for."""

    found: list[tuple[Any, ...]] = field(default_factory=list)
    asking: bool = False

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        if self.asking:
            return compute()
        self.asking = True
        try:
            result = compute()
        finally:
            self.asking = False
        self.found.append(tuple(tf.nest.flatten(result)))
        return result


def as_traced(code: Code) -> tuple[Code, SourceResult | None]:
    """The code with the answers that it gets when its functions are traced, and a complaint where that differs.

    Derivatives that are taken inside of a traced function have no values of their own: there it is what the code
    returns that is compared.
    """
    if not code.record.functions or code.record.error is not None:
        return code, None
    answers = _Answers()
    with state_restored(), tapes_observed(answers):
        try:
            result = called(code.f, tf.nest.pack_sequence_as(code.inputs, list(code.record.inputs)))
        except Exception as error:
            message = str(error).strip().splitlines() or [""]
            return code, _complaint(Kind.RAISES, type(error).__name__, message[-1].strip())
    if _concrete(answers.found) and len(answers.found) == len(code.record.derivatives):
        return replace(code, record=_answered(code.record, dict(enumerate(answers.found)))), None
    found, complaint = _returned(code.record, result)
    return replace(code, record=_answered(code.record, found)), complaint


def _concrete(answers: Sequence[tuple[Any, ...]]) -> bool:
    """Whether all answers have values: a derivative taken inside of a traced function has none."""
    return all(part is None or _eager(part) for answer in answers for part in answer)


def _answered(record: CodeRecord, answers: Mapping[int, tuple[Any, ...]]) -> CodeRecord:
    """The record with other answers to some of its derivatives, by their numbers."""

    def answered(event: Event) -> Event:
        if not isinstance(event, DerivativeCall) or event.error is not None or event.number not in answers:
            return event
        return replace(event, results=answers[event.number])

    return replace(record, events=tuple(map(answered, record.events)))


def _eager(part: Any) -> bool:
    return hasattr(part.values if isinstance(part, tf.IndexedSlices) else part, "_numpy")


def _returned(record: CodeRecord, result: Any) -> tuple[dict[int, tuple[Any, ...]], SourceResult | None]:
    """Where the code returns what its tapes gave, what it returned when it was traced; and what else differs."""
    eager, traced = tf.nest.flatten(record.result), tf.nest.flatten(result)
    if len(eager) != len(traced):
        return {}, _complaint(Kind.MODES, f"{len(traced)} tensors", f"it returns {len(eager)} when it runs eagerly")
    answers, start = {}, 0
    for call in record.derivatives:
        given = call.results or ()
        for position in range(start, len(eager) - len(given) + 1):
            if all(one is two for one, two in zip(given, eager[position:], strict=False)):
                answers[call.number] = tuple(traced[position : position + len(given)])
                start = position + len(given)
                break
    for position, (first, second) in enumerate(zip(eager, traced, strict=True)):
        if not _same(first, second):
            text = f"result {position} is {_shown(first)} when the code runs eagerly"
            return answers, _complaint(Kind.MODES, _shown(second), text)
    return answers, None


def _same(first: Any, second: Any) -> bool:
    if first is None and tf.is_tensor(second):
        return not np.any(tf.convert_to_tensor(second).numpy())  # functions answer zeros where tapes answer None
    if not (tf.is_tensor(first) and tf.is_tensor(second)):
        return (first is None) == (second is None)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not (first.dtype.is_floating or first.dtype.is_complex):
        return True
    one, two = (np.asarray(tf.convert_to_tensor(tensor).numpy()) for tensor in (first, second))
    slack = 1e3 * ROUNDOFF[first.dtype.name] * max(1.0, float(np.max(np.abs(one), initial=0.0)))
    return bool(np.allclose(one, two, rtol=0.0, atol=slack, equal_nan=True))


def _shown(value: Any) -> str:
    return "None" if value is None else np.array2string(np.asarray(value), precision=6, threshold=12)


def _complaint(kind: Kind, given: str, text: str) -> SourceResult:
    finding = Finding(kind, 1, NAME, None, None, None, None, None, None, text)
    return SourceResult(None, NAME, given, False, finding=finding)
