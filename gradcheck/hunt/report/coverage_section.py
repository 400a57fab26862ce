"""The overview's coverage: a map of the catalogue, what was hardly tested, and how sharp the comparisons were."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.coverage import ENOUGH
from gradcheck.hunt.report.markup import Markup, element
from gradcheck.hunt.report.page import more, number, row, section, table, words
from gradcheck.hunt.report.reach import Grade, Reach

SIGN = {Grade.GREEN: "✓", Grade.YELLOW: "~", Grade.RED: "✗", Grade.KNOWN: "K", Grade.NONE: "·"}
MEANING = {
    Grade.GREEN: f"tested: {ENOUGH} comparisons or more",
    Grade.YELLOW: "hardly tested",
    Grade.RED: "never compared",
    Grade.KNOWN: "left out, known to be wrong everywhere",
    Grade.NONE: "not asked for, or no derivative of this order",
}
SHOWN = 40
SHARPEST, BLUNTEST = -16, 0


def coverage(reached: Sequence[Reach]) -> Markup:
    """The catalogue by family: two cells an operation, for first and second order."""
    legend = [element("span", _cell(grade), meaning) for grade, meaning in MEANING.items()]
    families = groupby(reached, key=lambda each: CATALOGUE[each.operation].family)
    parts: dict[str, list[Reach]] = {}
    for family, group in families:
        parts.setdefault(family, []).extend(group)
    return section(
        "Coverage of the catalogue",
        element("p", "Of each operation, the first and the second order.", class_="soft"),
        element("div", *legend, class_="legend"),
        *(part for family, group in parts.items() for part in (element("h3", family), _map(group))),
    )


def hardly(reached: Sequence[Reach]) -> Markup:
    """Operations that were never compared or hardly tested, with the reason, those without a comparison first."""
    weak = [each for each in reached if each.grade in (Grade.RED, Grade.YELLOW)]
    weak.sort(key=lambda each: (each.compared, -each.order, each.operation))
    if not weak:
        return section("Hardly tested", element("p", "Every operation asked for was tested at all of its orders."))
    head = ("operation", "order #", "why", "compared #", "inconclusive #", "rejected #")
    rows = [
        row(
            each.operation,
            number(str(each.order)),
            words(each.reason),
            number(str(each.compared)),
            number(str(each.lost)),
            number(f"{each.rejected} of {each.attempts}"),
        )
        for each in weak
    ]
    second = sum(each.order == 2 and not each.compared for each in weak)
    told = f"{len(weak)} pairs of operation and order; {second} operations were never compared at second order."
    rest = more(f"{len(rows) - SHOWN} more", table(head, rows[SHOWN:])) if len(rows) > SHOWN else None
    return section("Hardly tested", element("p", told), table(head, rows[:SHOWN]), rest)


def resolution(reached: Sequence[Reach]) -> Markup | None:
    """How many pairs of operation and order have a resolution of 1e-12, 1e-11, … of the largest derivative."""
    known = [each for each in reached if each.resolution is not None]
    if not known:
        return None
    counts = Counter(_decade(each.resolution or 0.0) for each in known)
    largest = max(counts.values())
    rows = [
        row(
            f"1e{decade:+03d}",
            number(str(counts[decade])),
            words(_bar(counts[decade] / largest) if counts[decade] else ""),
        )
        for decade in range(min(counts), max(counts) + 1)
    ]
    told = (
        "The smallest error that would have been noticed, over the largest derivative, at its worst example: how many "
        "pairs of operation and order have which."
    )
    return section("Resolution", element("p", told, class_="soft"), table(("up to", "pairs #", ""), rows))


def _map(group: Sequence[Reach]) -> Markup:
    operations = [list(pair) for _, pair in groupby(group, key=lambda each: each.operation)]
    return element("div", *(_operation(pair) for pair in operations), class_="map")


def _operation(pair: Sequence[Reach]) -> Markup:
    name = pair[0].operation
    return element(
        "div", *(_cell(each.grade, _told(each)) for each in pair), element("span", name), class_="op", title=name
    )


def _cell(grade: Grade, told: str | None = None) -> Markup:
    return element(
        "i", SIGN[grade], class_=f"cell {grade.value}", title=told, role="img", aria_label=told or grade.value
    )


def _told(each: Reach) -> str:
    counts = f"{each.compared} compared, {each.lost} inconclusive, {each.rejected} of {each.attempts} rejected"
    return f"order {each.order}: {each.reason or 'tested'}" + (f" ({counts})" if each.attempts else "")


def _decade(value: float) -> int:
    """The power of ten that a resolution lies below."""
    return min(max(math.ceil(math.log10(value)) if value > 0 else SHARPEST, SHARPEST), BLUNTEST)


def _bar(share: float) -> Markup:
    return element("span", class_="bar", style=f"width: {100 * share:.0f}%")
