"""What the HTML pages have in common: a file of its own that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradcheck.hunt.report.markup import Markup, element, joined
from gradcheck.hunt.report.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, *content: object) -> str:
    """A whole HTML file. Its content security policy forbids scripts, forms and every request."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element("body", element("main", *content))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(title: str, *content: object) -> Markup:
    """A card with a heading."""
    return element("section", element("h2", title), *content)


def table(head: Sequence[str], rows: Iterable[Markup], kind: str = "") -> Markup:
    """A table that scrolls by itself where the screen is narrow; a column whose name ends in " #" holds numbers."""
    names = [
        element("th", name.removesuffix(" #"), scope="col", class_="number" if name.endswith(" #") else None)
        for name in head
    ]
    whole = element(
        "table", element("thead", element("tr", *names)), element("tbody", *rows), class_=f"numbers {kind}".strip()
    )
    return element("div", whole, class_="scroll", tabindex=0)


class Cell(Markup):
    """A cell of a table, its `td` included."""

    __slots__ = ()


def row(*cells: object, kind: str | None = None) -> Markup:
    """A row of a table; what is no Cell becomes one."""
    return element("tr", *(cell if isinstance(cell, Cell) else element("td", cell) for cell in cells), class_=kind)


def words(*content: object) -> Cell:
    """A cell of plain words in a table of numbers."""
    return Cell(element("td", *content, class_="words"))


def number(text: str) -> Cell:
    """A cell with a number, to the right."""
    return Cell(element("td", text, class_="number"))


def spanning(columns: int, *content: object) -> Cell:
    """A cell of plain words below a row's other cells."""
    return Cell(element("td", element("div", *content), colspan=columns, class_="words"))


def badge(text: str, kind: str) -> Markup:
    """A word on a coloured ground: `wrong`, `right`, `doubt` or `known`."""
    return element("span", text, class_=f"badge {kind}")


def pairs(rows: Iterable[tuple[object, object]]) -> Markup:
    """Names and values, side by side or, on narrow screens, one below the other."""
    return element("dl", *(joined(element("dt", name), element("dd", value)) for name, value in rows), class_="pairs")


def fact(name: str, value: object, kind: str | None = None) -> Markup:
    """One number with its name, for a `dl` of class `facts`."""
    return element("div", element("dt", name), element("dd", value, class_=kind))


def more(summary: str, *content: object, open_: bool = False) -> Markup:
    """A part that unfolds."""
    return element("details", element("summary", summary), *content, open=open_)


def text_block(text: str, *, long: bool = False) -> Markup:
    """A text as it stands, in a box that scrolls by itself; a long one is shown a part at a time."""
    return element("pre", element("code", text), tabindex=0, class_="long" if long else None)
