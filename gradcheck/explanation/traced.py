"""Code with its tf.functions traced: the gradients that it gets then take the place of the eager ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.state import state_restored
from gradcheck.comparison.summary import broken
from gradcheck.explanation.calls import CallExplanation
from gradcheck.explanation.interception import Observer, tapes_observed
from gradcheck.explanation.record import CodeRecord, DerivativeCall
from gradcheck.explanation.replay import Code
from gradcheck.explanation.user_code import call_user_code
from gradcheck.result import Kind, SourceResult

NAME = "the code with its tf.function traced"
Results = tuple[Any, ...]


class _DerivativeResults(Observer):
    """Keeps the results of the derivatives that somebody's own code takes."""

    def __init__(self) -> None:
        self.found: list[Results] = []
        self._taking = False

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        if self._taking:
            return compute()
        self._taking = True
        try:
            result = compute()
        finally:
            self._taking = False
        self.found.append(tuple(tf.nest.flatten(result)))
        return result


def as_traced(code: Code) -> tuple[Code, CallExplanation | None]:
    """The code with the gradients that it gets when its functions are traced, and a disagreement where that differs.

    Derivatives that are taken inside of a traced function have no values of their own: there it is what the code
    returns that is compared.
    """
    if not code.record.calls_functions or code.record.error is not None:
        return code, None
    results = _DerivativeResults()
    with state_restored(), tapes_observed(results):
        try:
            returned = call_user_code(code.f, tf.nest.pack_sequence_as(code.inputs, list(code.record.inputs)))
        except Exception as error:
            message = str(error).strip().splitlines() or [""]
            return code, _disagreement(Kind.RAISES, type(error).__name__, message[-1].strip())
    have_values = all(part is None or _is_eager(part) for gradients in results.found for part in gradients)
    if have_values and len(results.found) == len(code.record.derivatives):
        return _with_results(code, dict(enumerate(results.found))), None
    found, disagreement = _compared(code.record, returned)
    return _with_results(code, found), disagreement


def _is_eager(part: Any) -> bool:
    return hasattr(part.values if isinstance(part, tf.IndexedSlices) else part, "_numpy")


def _with_results(code: Code, results: Mapping[int, Results]) -> Code:
    """The code with other results of some of its derivatives, by their numbers."""
    events = [
        replace(event, results=results[event.number])
        if isinstance(event, DerivativeCall) and event.error is None and event.number in results
        else event
        for event in code.record.events
    ]
    return replace(code, record=replace(code.record, events=tuple(events)))


def _compared(record: CodeRecord, returned: Any) -> tuple[dict[int, Results], CallExplanation | None]:
    """Where the code returns what its tapes gave, what it returned when it was traced; and what else differs."""
    eager, traced = tf.nest.flatten(record.result), tf.nest.flatten(returned)
    if len(eager) != len(traced):
        return {}, _disagreement(Kind.MODES, f"{len(traced)} tensors", f"it returns {len(eager)} when it runs eagerly")
    results, start = {}, 0
    for call in record.derivatives:
        given = call.results or ()
        for position in range(start, len(eager) - len(given) + 1):
            if all(one is two for one, two in zip(given, eager[position:], strict=False)):
                start = position + len(given)
                results[call.number] = tuple(traced[position:start])
                break
    for position, (first, second) in enumerate(zip(eager, traced, strict=True)):
        if not _same(first, second):
            text = f"result {position} is {_shown(first)} when the code runs eagerly"
            return results, _disagreement(Kind.MODES, _shown(second), text)
    return results, None


def _same(first: Any, second: Any) -> bool:
    if first is None and tf.is_tensor(second):
        return not np.any(tf.convert_to_tensor(second).numpy())  # functions give zeros where tapes give None
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


def _disagreement(kind: Kind, given: str, text: str) -> CallExplanation:
    order = broken(1, kind, NAME, text)
    return CallExplanation(order, (SourceResult(None, NAME, given, False, finding=order.findings[0]),))
