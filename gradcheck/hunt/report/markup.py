"""HTML that is built, never pasted together: every text that is not markup is escaped."""

from __future__ import annotations

import html
import re

UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ALONE = frozenset({"meta", "br", "rect", "path", "line", "circle"})


class Markup(str):
    """A text that is HTML already. Only this module and those that draw make one."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element of HTML or SVG.

    Children that are no Markup are escaped, None and empty texts left out. Attributes are always escaped; `_` becomes
    `-`, a `_` at the end is dropped (`class_`); None and False leave an attribute out, True gives its name alone.

    >>> element("p", "1 < 2 ", element("b", "&"), class_="note")
    '<p class="note">1 &lt; 2 <b>&amp;</b></p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in ALONE and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Children one after the other, escaped where they are no Markup."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escaped(child) for child in children if child is not None)
    )


def escaped(value: object) -> Markup:
    """A text as it is shown; characters that control or turn it (NUL, escapes, right-to-left marks) become �."""
    return Markup(html.escape(UNSEEN.sub("\ufffd", str(value))))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'
