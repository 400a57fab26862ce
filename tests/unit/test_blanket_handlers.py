"""Handlers of every exception hide our own bugs: each says whose exceptions it catches, and none is added unseen."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLANKET = {"Exception", "BaseException"}

EXPECTED = {
    "__main__.py": 1,
    "audit.py": 1,
    "autodiff/execution.py": 3,
    "operations/acceptance.py": 3,
    "problem/float64_form.py": 6,
    "problem/function.py": 1,
    "problem/mapped.py": 4,
    "problem/observed_call.py": 1,
    "problem/opening.py": 1,
    "tracing/retraced.py": 1,
    "autodiff/reverse.py": 2,
    "check.py": 2,
    "defects/kernel_use.py": 2,
    "diagnosis/calls.py": 2,
    "diagnosis/chain.py": 1,
    "diagnosis/check_diagnosis.py": 1,
    "diagnosis/diagnosis.py": 1,
    "diagnosis/internal_errors.py": 1,  # the boundary around the search for a cause
    "diagnosis/not_finite.py": 1,
    "diagnosis/traced.py": 1,
    "tracing/record.py": 2,
    "tracing/recorder.py": 4,
    "tracing/replay.py": 1,
    "tracing/tracebacks.py": 1,  # raised again
    "files.py": 1,
    "keras.py": 1,
    "progress.py": 1,
    "pytest_plugin.py": 1,
    "runtime.py": 1,
    "training/runner.py": 3,
    "training/step_check.py": 1,
    "training/watched_step.py": 2,
}
"""The number of such handlers in each file of the library; they catch exceptions of user code, TensorFlow or others.

A bug in our own analysis is no answer: let it through to `cause_searched` instead of raising these numbers.
"""


def handlers(text: str) -> Iterator[int]:
    """The lines that catch every exception: bare handlers, `except Exception` and `suppress(Exception)`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler):
            taken = [] if node.type is None else [one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)]
            if node.type is None or BLANKET.intersection(taken):
                yield node.lineno
        elif isinstance(node, ast.Call):
            suppressed = node.args if ast.unparse(node.func).endswith("suppress") else []
            if BLANKET.intersection(map(ast.unparse, suppressed)):
                yield node.lineno


def library() -> dict[str, str]:
    """The texts of the library's files, without those of the hunt, whose workers outlive what they run."""
    folder = ROOT / "gradcheck"
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*.py")))
    return {path.as_posix(): (folder / path).read_text(encoding="utf-8") for path in paths if path.parts[0] != "hunt"}


def test_none_is_added_unseen() -> None:
    found = {name: len(list(handlers(text))) for name, text in library().items()}
    assert {name: count for name, count in found.items() if count} == EXPECTED


def test_each_says_whose_exceptions_it_takes() -> None:
    lines = ((name, text.splitlines(), number) for name, text in library().items() for number in handlers(text))
    assert [f"{name}:{number}" for name, text, number in lines if not re.search(r"  # \S", text[number - 1])] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("try:\n    f()\nexcept Exception as error:\n    pass", [3]),
        ("try:\n    f()\nexcept (ValueError, Exception):\n    pass", [3]),
        ("try:\n    f()\nexcept:\n    pass", [3]),
        ("with g(), contextlib.suppress(Exception):\n    f()", [1]),
        ("try:\n    f()\nexcept ValueError:\n    pass", []),
        ("with suppress(ValueError):\n    f()", []),
    ],
)
def test_it_is_seen_however_it_is_written(text: str, found: list[int]) -> None:
    assert list(handlers(text)) == found
