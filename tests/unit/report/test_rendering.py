from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import gradcheck.hunt.report
from gradcheck.hunt.finding import excess
from gradcheck.hunt.report.rendering import ENVIRONMENTS, code, counted, escape, fenced, number, visible
from gradcheck.result import Finding, Kind

TEMPLATES = sorted((Path(gradcheck.hunt.report.__file__).parent / "templates").iterdir())
HTML = ENVIRONMENTS["html"].from_string('<p title="{{ value }}">{{ content }}</p>')
MARKDOWN = ENVIRONMENTS["md"].from_string("| {{ value }} | {{ value | code }} |")


@given(st.text(), st.text())
def test_no_text_gets_out_of_its_element_or_attribute(parsed: Callable[[str], Any], content: str, value: str) -> None:
    page = parsed(HTML.render(content=content, value=value))
    assert [tag for tag, _ in page.elements] == ["p"]
    assert set(page.named("p")[0]) == {"title"}


@given(st.text())
def test_no_text_gets_out_of_its_cell(value: str) -> None:
    row = MARKDOWN.render(value=value)
    assert len(row.splitlines()) == 1
    assert re.sub(r"\\.", "", row).count("|") == 3
    assert "<" not in row.partition(" | `")[0]


@pytest.mark.parametrize("nasty", ["<script>", '"', "'", "&amp;", "-->", "]]>", "</style>"])
def test_what_was_given_is_what_is_shown(parsed: Callable[[str], Any], nasty: str) -> None:
    page = parsed(HTML.render(content=nasty, value=nasty))
    assert page.words == [nasty]
    assert page.named("p") == [{"title": nasty}]


@pytest.mark.parametrize("unseen", ["\0", "\x1b[31m", "\u202e", "\u2066", "\ud800", "\x7f"])
def test_characters_that_control_or_turn_text_are_replaced(unseen: str) -> None:
    for shown in (visible(f"a{unseen}b"), HTML.render(content=f"a{unseen}b", value=""), escape(f"a{unseen}b")):
        assert unseen[0] not in shown
        assert "a\ufffd" in shown
        shown.encode()


def test_markup_is_not_escaped_twice() -> None:
    assert HTML.render(content=Markup("<b>1 &lt; 2</b>"), value="") == '<p title=""><b>1 &lt; 2</b></p>'
    assert escape(code("a|b")) == "`a\\|b`"


def test_no_template_marks_a_text_as_safe_or_leaves_an_attribute_unquoted(subtests: pytest.Subtests) -> None:
    for template in TEMPLATES:
        with subtests.test(template.name):
            text = template.read_text(encoding="utf-8")
            assert not re.search(r"\|\s*safe\b|autoescape|Markup", text)
            assert not re.search(r"=\{\{", text)


def test_a_name_that_a_template_is_not_given_is_an_error() -> None:
    for environment in ENVIRONMENTS.values():
        with pytest.raises(jinja2.UndefinedError):
            environment.from_string("{{ nobody }}").render()


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("```\n# a\n````", "python") == "`````python\n```\n# a\n````\n`````"


def test_numbers_and_words() -> None:
    assert [number(None), number(1 / 3, 3), number(float("nan"))] == ["–", "0.333", "nan"]
    assert [number(np.float64(0.1), None), number(1 + 2j, None)] == ["0.1", "(1+2j)"]
    assert [counted(1, "crash", "crashes"), counted(0, "hang")] == ["1 crash", "0 hangs"]


@pytest.mark.parametrize(
    ("autodiff", "difference", "allowed", "expected"),
    [(2.0, 1.0, 0.25, 4.0), (None, 1.0, 0.25, None), (float("nan"), 1.0, 0.25, None), (2.0, 1.0, 0.0, None)],
)
def test_the_error_over_what_is_allowed(
    autodiff: float | None, difference: float, allowed: float, expected: float | None
) -> None:
    wrong = Finding(Kind.WRONG_VALUE, 1, "x", None, None, autodiff, difference, 0.0, allowed, "")
    assert excess(wrong) == expected
