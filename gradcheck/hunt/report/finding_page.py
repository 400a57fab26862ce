"""The HTML page of a finding: one file, no network, no script."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck.autodiff.coordinates import coordinate_count, is_complex
from gradcheck.hunt.finding import ElementCheck, GraphFinding
from gradcheck.hunt.report.confirmation import Confirmation
from gradcheck.hunt.report.drawing import drawing
from gradcheck.hunt.report.finding_text import element_name, element_names, issue_form, view, worst
from gradcheck.hunt.report.rendering import excess, number, render
from gradcheck.hunt.report.step_curve import plot
from gradcheck.hunt.script import variables
from gradcheck.result import Verdict

WIDEST = 32
CELL = 30
Fact = tuple[str, object, str]
"""The name of a number, its value and its colour."""


def finding_page(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The page as text: verdict, graph, comparison, step-size curve, blame, cause, scripts and environment."""
    curve = None
    if found.curve is not None:
        element = next(each for each in found.elements if each.coordinate == found.curve.coordinate)
        curve = plot(element_names(found.graph)[element.coordinate], found.curve, element)
    return render(
        "finding.html.j2",
        **view(found, confirmation),
        facts=list(_facts(found)),
        graph=drawing(found),
        maps=list(heat_maps(found)),
        curve=curve,
        issue=issue_form(found, confirmation),
    )


def _facts(found: GraphFinding) -> Iterator[Fact]:
    wrong = worst(found)
    if wrong.difference is None:
        yield "what TensorFlow does", wrong.reason, "wrong"
        return
    yield "autodiff", "None" if wrong.autodiff is None else number(wrong.autodiff), "wrong"
    yield "finite-difference estimate", number(wrong.difference), "right"
    yield "error bound", number(wrong.bound, 3), ""
    yield "allowed error", number(wrong.allowed, 3), ""
    yield "error / allowed", number(excess(wrong), 3), ""
    yield "worst element", element_name(found.graph, wrong.element), ""
    if found.elements:
        mismatches = sum(element.verdict == Verdict.MISMATCH for element in found.elements)
        compared = sum(element.verdict != Verdict.INCONCLUSIVE for element in found.elements)
        yield "wrong elements", f"{mismatches} of {compared}", ""


@dataclass(frozen=True)
class HeatCell:
    """An element in a heat map, drawn around the point (x, y); `level` is its colour."""

    x: int
    y: int
    level: int
    text: str
    title: str


@dataclass(frozen=True)
class HeatMap:
    """The error over the allowed error of each element of an input."""

    name: str
    width: int
    height: int
    cells: list[HeatCell]


def heat_maps(found: GraphFinding) -> Iterator[HeatMap]:
    """One map an input of at least two elements; a complex element takes two cells, real and imaginary part."""
    elements, start = {element.coordinate: element for element in found.elements}, 0
    for name, value in zip(variables(found.graph), found.graph.inputs, strict=False):
        count = coordinate_count(value.shape, value.dtype)
        own = [elements.get(coordinate) for coordinate in range(start, start + count)]
        start += count
        if len(own) > 1 and any(own):
            last = value.shape[-1] * (2 if is_complex(value.dtype) else 1)
            yield _heat_map(name, own, min(last, WIDEST))


def _heat_map(name: str, elements: Sequence[ElementCheck | None], columns: int) -> HeatMap:
    rows = math.ceil(len(elements) / columns)
    cells = [
        _cell(element, CELL * (place % columns) + CELL // 2, CELL * (place // columns) + CELL // 2)
        for place, element in enumerate(elements)
    ]
    return HeatMap(name, CELL * columns, CELL * rows, cells)


def _cell(element: ElementCheck | None, x: int, y: int) -> HeatCell:
    if element is None:
        return HeatCell(x, y, 0, "", "not compared by itself")
    if element.verdict == Verdict.INCONCLUSIVE:
        return HeatCell(x, y, 0, "?", "inconclusive")
    ratio = element.excess
    title = f"error {ratio:.3g} times the allowed one"
    if not math.isfinite(ratio):
        return HeatCell(x, y, 4, "∞", title)
    if ratio <= 1:
        return HeatCell(x, y, 1, "✓", title)
    return HeatCell(x, y, 2 if ratio <= 1e3 else 3 if ratio <= 1e9 else 4, f"{math.floor(math.log10(ratio)):+d}", title)
