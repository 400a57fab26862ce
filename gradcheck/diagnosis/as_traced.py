"""The code as it runs by itself, its tf.functions traced: its answers take the place of the eager ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.bystanders import undone
from gradcheck.autodiff.precision import ROUNDOFF
from gradcheck.diagnosis.lines import called
from gradcheck.diagnosis.record import Derivative, Event, Record
from gradcheck.diagnosis.replay import Code
from gradcheck.diagnosis.tapes import watched_tapes
from gradcheck.finding import Finding, Kind, SourceResult

NAME = "the code with its tf.function traced"


@dataclass
class _Answers:
    """Watches tapes, and keeps the answers to the derivatives that somebody's own code asks for."""

    found: list[tuple[Any, ...]] = field(default_factory=list)
    asking: bool = False

    def turned(self, tape: Any, change: str) -> None:
        pass

    def watched(self, tape: Any, tensors: Any) -> None:
        pass

    def asked(self, tape: Any, method: str, arguments: dict[str, Any], answer: Callable[..., Any]) -> Any:
        if self.asking:
            return answer()
        self.asking = True
        try:
            result = answer()
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
    with undone(), watched_tapes(answers):
        try:
            result = called(code.f, tf.nest.pack_sequence_as(code.inputs, list(code.record.inputs)))
        except Exception as error:
            return code, _complaint(Kind.RAISES, f"{type(error).__name__}: {error}")
    if _concrete(answers.found) and len(answers.found) == len(code.record.derivatives):
        return replace(code, record=_answered(code.record, answers.found)), None
    return code, _compared(code.record.result, result)


def _concrete(answers: Sequence[tuple[Any, ...]]) -> bool:
    """Whether all answers have values: a derivative taken inside of a traced function has none."""
    return all(part is None or _eager(part) for answer in answers for part in answer)


def _answered(record: Record, answers: Sequence[tuple[Any, ...]]) -> Record:
    """The record with other answers to its derivatives."""

    def answered(event: Event) -> Event:
        if not isinstance(event, Derivative) or event.error is not None:
            return event
        return replace(event, results=answers[event.number])

    return replace(record, events=tuple(map(answered, record.events)))


def _eager(part: Any) -> bool:
    return hasattr(part.values if isinstance(part, tf.IndexedSlices) else part, "_numpy")


def _compared(eager: Any, traced: Any) -> SourceResult | None:
    """A complaint if the code returns something else when it is traced."""
    one, two = tf.nest.flatten(eager), tf.nest.flatten(traced)
    if len(one) != len(two):
        return _complaint(Kind.MODES, f"it returns {len(two)} tensors, and {len(one)} when it runs eagerly")
    for position, (first, second) in enumerate(zip(one, two, strict=True)):
        if not _same(first, second):
            text = f"result {position} is {_shown(second)}, and {_shown(first)} when the code runs eagerly"
            return _complaint(Kind.MODES, text)
    return None


def _same(first: Any, second: Any) -> bool:
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


def _complaint(kind: Kind, text: str) -> SourceResult:
    finding = Finding(kind, 1, NAME, None, None, None, None, None, None, text)
    return SourceResult(None, NAME, kind.value, False, finding=finding)
