"""How scripts print the functions of the catalogue."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck.operations.printed_calls import definitions_of, node_of, printed_call, source_of, texts_of
from gradcheck.operations.spec import Formula
from tests.loading import loaded

LENGTH = 4
halved: Formula = lambda x: x / 2  # noqa: E731
halved_twice: Formula = lambda x: halved(halved(x + 1))  # noqa: E731
ON_ONE_LINE = (lambda x: x + 1, lambda x: x + 2, lambda y: y + 1, lambda x: x.real)


def doubled(x: Any, *, count: int = 1) -> Any:
    return 2**count * x


def doubled_and_halved(x: Any) -> Any:
    return doubled(x)


def applied(form: Formula) -> Formula:
    return lambda x, **ways: form(x[:1], **ways) - form(x, **ways)


@pytest.mark.parametrize(
    ("form", "arguments", "attributes", "text"),
    [
        (lambda x: np.sin(x), ["x"], {}, "np.sin(x)"),
        (lambda x, y: y - x, ["y1", "x2"], {}, "x2 - y1"),
        (lambda x, *, axis, mode: np.take(x, axis, mode=mode), ["y"], {"axis": (0, 1), "mode": "wrap"}, None),
        (lambda x: halved_twice(x), ["x"], {}, "(x + 1) / 2 / 2"),
        (lambda x, *, by: by**2 * x, ["x"], {"by": -2.0}, "(-2.0) ** 2 * x"),
        (lambda x: x[:LENGTH], ["x"], {}, "x[:4]"),
        (lambda x: doubled(x, count=LENGTH), ["x"], {}, "doubled(x, count=4)"),
        (doubled, ["y2"], {"count": 3}, "doubled(y2, count=3)"),
        (applied(doubled), ["x"], {"count": 3}, "doubled(x[:1], count=3) - doubled(x, count=3)"),
        (applied(halved), ["x"], {}, "x[:1] / 2 - x / 2"),
        (lambda x, *, n: max(x, key=lambda x: x * n), ["y"], {"n": 3}, "max(y, key=lambda x: x * 3)"),
        (lambda x: max(x, key=lambda halved: halved(1)), ["y"], {}, "max(y, key=lambda halved: halved(1))"),
    ],
)
def test_a_call_is_written_with_expressions_and_literals(
    form: Formula, arguments: list[str], attributes: dict[str, Any], text: str | None
) -> None:
    assert printed_call(form, arguments, attributes) == (text or "np.take(y, (0, 1), mode='wrap')")


def test_lambdas_of_one_line_are_told_apart() -> None:
    assert [ast.unparse(node_of(form).body) for form in ON_ONE_LINE] == ["x + 1", "x + 2", "y + 1", "x.real"]


def test_lambdas_that_look_alike_are_refused() -> None:
    one, _ = (lambda x: x < 1), (lambda x: x > 1)
    with pytest.raises(LookupError, match=r"test_printed_calls.py:\d+ has 2 lambdas"):
        printed_call(one, ["x"], {})


def test_definitions_are_those_of_functions_that_are_called_directly_or_not() -> None:
    names = ["doubled", "doubled_and_halved"]
    found = [ast.parse(text).body[0] for text in definitions_of([lambda x: doubled_and_halved(x)])]
    assert [one.name for one in found if isinstance(one, ast.FunctionDef)] == names
    assert [*definitions_of([halved_twice, None])] == []
    assert len([*definitions_of([applied(doubled)])]) == 1


def test_texts_are_those_of_lambdas_too() -> None:
    assert {*texts_of(halved_twice)} == {"lambda x: halved(halved(x + 1))", "lambda x: x / 2"}


def test_functions_are_printed_as_they_were_when_their_file_was_read(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    module = loaded(file, "def tripled(x):\n    return 3 * x\n\n\nsquared = lambda x: tripled(x) ** 2\n", "edited")
    source_of(str(file))
    file.write_text("# a comment\n" + file.read_text().replace("3", "4"))
    os.utime(file, (1e9, 1e9))
    assert printed_call(module.squared, ["x1"], {}) == "tripled(x1) ** 2"
    assert list(definitions_of([module.squared])) == ["def tripled(x):\n    return 3 * x\n"]
