"""Facts read from a user's source text: the sources of a derivative, a function's definition and its start."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import explain
from gradcheck.tracing.user_code import (
    at,
    definition_of,
    file_owner,
    function_around,
    names_on,
    only_shown,
    place_of,
    quoted,
    source_expressions,
)

x, y = tf.Variable(1.5), tf.Variable(2.0)


class Tape:
    """Returns the expressions that are read from the call of its methods."""

    def gradient(self, *arguments: Any, **named: Any) -> list[str]:
        frame = inspect.currentframe()
        assert frame is not None
        return source_expressions(frame.f_back, "gradient")


tape, a, b = Tape(), 1.0, [2.0, 3.0]


def several_lines() -> Any:
    return tape.gradient(
        a,
        [
            a,
            b[0],
        ],
    )


def several_on_a_line() -> Any:
    return tape.gradient(a, b[0]), tape.gradient(a, b[1])


def one_inside_of_another() -> Any:
    return tape.gradient(tape.gradient(a, a), b)


def a_branch_in_a_comprehension() -> Any:
    return [tape.gradient(a, first) if first else tape.gradient(a, second) for first, second in ((0, 1), (1, 0))]


def in_an_assertion() -> Any:
    assert tape.gradient(a, b) == ["b"]
    return tape.gradient(a, a)


def by_another_name() -> Any:
    gradient = tape.gradient
    return gradient(a, b)


def nested_by_keyword() -> Any:
    return tape.gradient(a, sources={"w": b, "a": (a, x)})


def not_given() -> Any:
    return tape.gradient(a)


def decorated(*options: Any) -> Callable[..., Any]:
    def decorate(function: Any) -> Any:
        return functools.wraps(function)(lambda *arguments: function(*arguments))

    return decorate


@decorated(
    "over",
    "several lines",
)
@decorated()
def below_decorators() -> Any:
    return tape.gradient(a, b)


@pytest.mark.parametrize(
    ("code", "expressions"),
    [
        (several_lines, ["a", "b[0]"]),
        (several_on_a_line, (["b[0]"], ["b[1]"])),
        (one_inside_of_another, ["b"]),
        (a_branch_in_a_comprehension, [["second"], ["first"]]),
        (in_an_assertion, ["a"]),
        (by_another_name, []),
        (nested_by_keyword, ["a", "x", "b"]),
        (not_given, []),
        (below_decorators, ["b"]),
        (lambda: tape.gradient(a, b), ["b"]),
    ],
)
def test_the_sources_as_they_are_written(code: Callable[[], Any], expressions: Any) -> None:
    assert code() == expressions


def test_nothing_is_read_where_there_is_no_source_text() -> None:
    assert eval("tape.gradient(a, b)", {"tape": tape, "a": a, "b": b}) == []


def test_the_branch_that_ran_names_the_sources() -> None:
    def code() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = x * y
        return [tape.gradient(loss, x) if first else tape.gradient(loss, y) for first in (False, True)]

    assert [(one.name, one.gradient) for one in explain(code).sources] == [("y", "1.5"), ("x", "2")]


def test_a_definition_lies_below_its_decorators() -> None:
    filename, number = definition_of(below_decorators)
    assert Path(filename).name == "test_user_code.py"
    assert Path(filename).read_text(encoding="utf-8").splitlines()[number - 1] == "def below_decorators() -> Any:"
    function = eval("lambda: 1.0")
    assert definition_of(function) == ("<string>", 1)


def test_the_innermost_function_around_a_line() -> None:
    lines, first = inspect.getsourcelines(nested_by_keyword)
    around = function_around((__file__, first + 1))
    assert around is not None
    assert around.lineno == first
    assert function_around((__file__, 3)) is None
    assert function_around(("no such file.py", 7)) is None
    assert lines


def test_places_and_how_sentences_refer_to_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("\n  y = x**2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    line = str(tmp_path / "code.py"), 2
    assert str(place_of(line)) == "code.py:2: y = x**2"
    assert (at(line), quoted(line)) == (" at code.py:2", "`y = x**2` (code.py:2)")
    assert (place_of(None), at(None), quoted(None)) == (None, "", "the step")
    monkeypatch.chdir("/")
    place = place_of(("<string>", 1))
    assert place is not None
    assert place.file == "<string>"


def test_whose_file_it_is() -> None:
    owners = [file_owner(one) for one in (__file__, tf.__file__, inspect.__file__, explain.__code__.co_filename)]
    assert owners == ["user", "library", "library", "library"]
    assert file_owner("<frozen importlib>") == "library"


def loops(values: list[float]) -> float:
    total = sum(values)
    print(total, values)
    for value in values:
        if value > total:
            assert total
        total = total * (value + 1.0)
    values.append(total)
    return total


NAMES = {
    "total = sum(values)": ({"total"}, {"sum", "values"}, False),
    "print(total, values)": (set(), {"print", "total", "values"}, True),
    "for value in values:": ({"value"}, {"values"}, False),
    "if value > total:": (set(), {"value", "total"}, True),
    "assert total": (set(), {"total"}, True),
    "+ 1.0": ({"total"}, {"total", "value"}, False),
    "values.append(total)": (set(), {"values", "total"}, False),
}


@pytest.mark.parametrize("text", NAMES)
def test_what_a_line_gives_a_name_to_what_it_uses_and_whether_it_only_shows_it(text: str) -> None:
    source, first = inspect.getsourcelines(loops)
    line = __file__, next(number for number, code in enumerate(source, first) if text in code)
    assert (names_on(line, ast.Store), names_on(line, ast.Load), only_shown(line)) == NAMES[text]


def test_a_line_that_cannot_be_read_gives_and_uses_nothing() -> None:
    for line in (None, ("<stdin>", 3)):
        assert (names_on(line, ast.Store), names_on(line, ast.Load), only_shown(line)) == (set(), set(), False)
