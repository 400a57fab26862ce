"""Custom gradients that TensorFlow does not use: their function was given a tensor by keyword."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from typing import Any

from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.hooks import CUSTOM_GRADIENT, patched
from gradcheck.tracing.record import CodeRecord, RecordedOperation
from gradcheck.tracing.user_code import (
    at,
    file_owner,
    header,
    line_of,
    listed,
    place_of,
    running_frame,
    statements_on,
)

IN_GRAPHS = "custom_gradient decorator currently supports keywords"
"""TensorFlow's words where a graph refuses what eager code passes over."""
UNUSED = "the custom gradient of "
"""The words with which a note on one that is not used begins."""


def not_used(record: CodeRecord, operation: RecordedOperation, diagnosis: Diagnosis) -> Diagnosis:
    """Diagnose an operation inside of a custom gradient that is not used by the keyword; any other one as it is."""
    for end, call in enumerate(record.events):
        if isinstance(call, RecordedOperation) and call.by_keyword:
            around = call is operation or any(one is operation for one in record.events[call.began : end])
            if around:
                return _diagnosis(call, diagnosis)
    return diagnosis


def refused_in_a_graph(record: CodeRecord, error: BaseException) -> Diagnosis | None:
    """Diagnose the exception that a custom gradient raises for keywords in a tf.function."""
    calls = [one for one in record.operations if one.custom_gradient is not None and one.custom_gradient.keywords]
    if IN_GRAPHS not in str(error) or not calls:
        return None
    return _diagnosis(calls[0], Diagnosis(Cause.CUSTOM_GRADIENT, "a tf.function refuses keywords there", ""))


@contextmanager
def custom_gradients_called() -> Iterator[list[RecordedOperation]]:
    """Collect the eager calls of custom gradients in the block, each as an operation without its tensors."""
    found: list[RecordedOperation] = []

    def call(original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        custom = partial(f, *args, **kwargs)
        line = line_of(running_frame()) if kwargs else None
        found.append(RecordedOperation(len(found), f.__name__, (), (), line=line, custom_gradient=custom))
        return original(f, args, kwargs)

    with patched((*CUSTOM_GRADIENT, call)):
        yield found


def notes_on_keywords(operations: Iterable[RecordedOperation], told: Iterable[Diagnosis]) -> list[str]:
    """A note on each line that calls a custom gradient of the user's with tensors by keyword, if it is not `told`."""
    calls = {one.line: one for one in operations if one.by_keyword and file_owner(_code_file(one)) == "user"}
    known = [one.evidence for one in told]
    return [
        f"{evidence}: {_remedy(one)}"
        for one, evidence in ((one, _evidence(one)) for one in calls.values())
        if not any(evidence in other for other in known)
    ]


def _code_file(call: RecordedOperation) -> str:
    assert call.custom_gradient is not None
    return str(inspect.unwrap(call.custom_gradient.func).__code__.co_filename)


def _diagnosis(call: RecordedOperation, found: Diagnosis) -> Diagnosis:
    place = place_of(call.line, _name(call))
    return Diagnosis(Cause.CUSTOM_GRADIENT, f"{_evidence(call)}; {found.evidence}", _remedy(call), place, found.lost)


def _name(call: RecordedOperation) -> str:
    assert call.custom_gradient is not None
    return "tf.recompute_grad" if call.recomputed is not None else call.custom_gradient.func.__name__


def _evidence(call: RecordedOperation) -> str:
    assert call.custom_gradient is not None
    names = list(call.by_keyword or call.custom_gradient.keywords)
    arguments = f"arguments {listed(names)} are" if len(names) > 1 else f"argument {names[0]} is"
    return f"{UNUSED}{_name(call)} is not used{at(call.line)}, since its {arguments} given by keyword"


def _remedy(call: RecordedOperation) -> str:
    """Write the call with its arguments by position, as far as it can be read."""
    assert call.custom_gradient is not None
    function, keywords = call.recomputed or call.custom_gradient.func, call.custom_gradient.keywords
    parameters = list(inspect.signature(function).parameters.values())
    for written in _calls(call, keywords.keys()):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in written.keywords}
        texts = [ast.unparse(one) for one in written.args]
        for parameter in parameters[len(texts) :]:
            if not given:
                break
            texts.append(given.pop(parameter.name, repr(parameter.default)))
        if not given:
            return f"call it as {ast.unparse(written.func)}({', '.join(texts)})"
    names = ", ".join(one.name for one in parameters)
    return f"call it with its arguments by position: {getattr(function, '__name__', 'f')}({names})"


def _calls(call: RecordedOperation, keywords: Set[str]) -> Iterator[ast.Call]:
    """The calls with these keywords in the statement, those on the line itself first, then those by the own name."""
    nodes = (node for one in statements_on(call.line) for part in header(one) for node in ast.walk(part))
    found = [one for one in nodes if isinstance(one, ast.Call) and {word.arg for word in one.keywords} >= keywords]

    def another(one: ast.Call) -> tuple[bool, bool]:
        number = 0 if call.line is None else call.line[1]
        elsewhere = not one.lineno <= number <= (one.end_lineno or number)
        return elsewhere, _name(call) not in (getattr(one.func, "id", None), getattr(one.func, "attr", None))

    yield from sorted(found, key=another)
