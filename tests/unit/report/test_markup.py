from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.hunt.report.markup import Markup, element, escaped, joined


@given(st.text(), st.text())
def test_no_text_gets_out_of_its_element_or_attribute(parsed: Callable[[str], Any], content: str, value: str) -> None:
    page = parsed(element("p", content, title=value))
    assert [tag for tag, _ in page.elements] == ["p"]
    assert set(page.named("p")[0]) == {"title"}


@pytest.mark.parametrize("nasty", ["<script>", '"', "'", "&amp;", "-->", "]]>", "</style>"])
def test_what_was_given_is_what_is_shown(parsed: Callable[[str], Any], nasty: str) -> None:
    page = parsed(element("p", nasty, title=nasty))
    assert page.words == [nasty]
    assert page.named("p") == [{"title": nasty}]


@pytest.mark.parametrize("unseen", ["\0", "\x1b[31m", "\u202e", "\u2066", "\ud800", "\x7f"])
def test_characters_that_control_or_turn_text_are_replaced(unseen: str) -> None:
    shown = escaped(f"a{unseen}b")
    assert unseen[0] not in shown
    assert shown.startswith("a\ufffd")
    shown.encode()


def test_markup_is_not_escaped_twice() -> None:
    assert joined(element("b", "1 < 2"), " < 3") == "<b>1 &lt; 2</b> &lt; 3"
    assert isinstance(joined("a"), Markup)


def test_attributes() -> None:
    assert element("a", class_="x", aria_label="y", open=True, title=None, hidden=False, rx=4) == (
        '<a class="x" aria-label="y" open rx="4"></a>'
    )
    assert element("meta", name="viewport") == '<meta name="viewport"/>'
