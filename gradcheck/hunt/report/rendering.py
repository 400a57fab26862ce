"""Fills the templates: every value is escaped, and a missing value is an error.

The suffix of a template's name gives the format, and so how text from outside is made harmless: it is escaped in HTML,
SVG and Markdown, and unchanged in plain text. No template marks a text as safe; only the Markdown filters return markup
of their own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gradcheck.hunt.finding import excess

UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MARKS = re.compile(r"([\\`*\[\]#|~]|(?<!\w)_|_(?!\w))")
SPACES = re.compile(r"\s+")


def render(template: str, **values: Any) -> str:
    """The text of a template with these values; raises jinja2.UndefinedError where it needs another one."""
    return ENVIRONMENTS[template.split(".")[-2]].get_template(template).render(values)


def number(value: complex | None, digits: int | None = 6) -> str:
    """A number with `digits` significant digits (None: enough to read it back), or a dash for None.

    >>> number(0.1 + 0.2, 3), number(0.1 + 0.2, None), number(2.0, None)
    ('0.3', '0.30000000000000004', '2')
    """
    if value is None:
        return "–"
    if digits is None:
        return str(float(value) if isinstance(value, float) else value).removesuffix(".0")
    return f"{value:.{digits}g}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things, in words.

    >>> counted(2, "crash", "crashes")
    '2 crashes'
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def visible(value: object) -> str:
    """A text whose control and direction characters (NUL, escapes, right-to-left marks) are replaced by �."""
    return value if isinstance(value, Markup) else UNSEEN.sub("\ufffd", str(value))


def escape(value: object) -> str:
    """A text from outside, harmless in Markdown and HTML, on one line."""
    if isinstance(value, Markup):
        return value
    return MARKS.sub(r"\\\1", html.escape(SPACES.sub(" ", visible(value)), quote=False))


def code(text: str) -> Markup:
    """A text as code within a line of Markdown."""
    return Markup("`{}`").format(Markup(" ".join(visible(text).split()).replace("`", "'").replace("|", "\\|")))


def fenced(text: str, language: str = "text") -> Markup:
    """A text as a block of Markdown, within a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return Markup(f"{fence}{language}\n{visible(text).rstrip()}\n{fence}")


def _sentence(parts: Sequence[tuple[str, bool]]) -> Markup:
    return Markup("".join(code(text) if is_code else escape(text) for text, is_code in parts))


def content(text: str) -> Markup:
    """A text as the content of an element, where quotation marks are no markup, and five times as long if escaped."""
    return Markup(html.escape(visible(text), quote=False))


def _environment(**options: Any) -> Environment:
    loader = PackageLoader("gradcheck.hunt.report")
    options |= {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    made = Environment(loader=loader, undefined=StrictUndefined, **options)
    made.filters.update(number=number, excess=excess, content=content)
    return made


ENVIRONMENTS = {
    "html": _environment(autoescape=True, finalize=visible),
    "md": _environment(autoescape=False, finalize=escape),
    "txt": _environment(autoescape=False),
}
ENVIRONMENTS["svg"] = ENVIRONMENTS["html"]
ENVIRONMENTS["md"].filters.update(
    code=code, fenced=fenced, sentence=_sentence, number=lambda value, digits=6: Markup(number(value, digits))
)
