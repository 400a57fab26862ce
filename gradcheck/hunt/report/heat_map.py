"""Heat maps: of every element of an input, the error over what is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradcheck.autodiff.coordinates import is_complex
from gradcheck.hunt.report.comparison import ElementComparison
from gradcheck.hunt.report.markup import Markup, element
from gradcheck.result import Verdict

WIDEST = 32
CELL = 30


@dataclass(frozen=True)
class HeatMap:
    """The error over the allowed error of each element of an input, row by row; None where nobody could tell."""

    name: str
    rows: tuple[tuple[float | None, ...], ...]


def heat_maps(comparison: ElementComparison) -> tuple[HeatMap, ...]:
    """One map an input of at least two elements; a complex element takes two cells, real and imaginary part."""
    entries, maps, start = comparison.entries, [], 0
    ratios = [
        None if blank else float(ratio)
        for blank, ratio in zip(entries.where(Verdict.INCONCLUSIVE), entries.excess(), strict=True)
    ]
    for source in comparison.problem.sources:
        cells = ratios[start : start + source.count]
        start += source.count
        last = source.shape[-1] if source.shape else 1
        width = min(last * (2 if is_complex(source.dtype) else 1), WIDEST)
        if len(cells) > 1:
            rows = tuple(tuple(cells[at : at + width]) for at in range(0, len(cells), width))
            maps.append(HeatMap(source.name, rows))
    return tuple(maps)


def drawn(heat: HeatMap) -> Markup:
    """The map as an SVG drawing, a cell an element, with its number of tens over what is allowed written into it."""
    width = max(len(row) for row in heat.rows) * CELL
    cells = [
        _cell(ratio, column * CELL, line * CELL)
        for line, row in enumerate(heat.rows)
        for column, ratio in enumerate(row)
    ]
    return element(
        "svg",
        *cells,
        viewBox=f"0 0 {width} {len(heat.rows) * CELL}",
        width=width,
        role="img",
        class_="heat",
        aria_label=f"error over allowed error of each element of {heat.name}",
    )


def level(ratio: float | None) -> int:
    """0 where nobody could tell, 1 within what is allowed, then 2, 3, 4 for up to 1e3, up to 1e9, and beyond."""
    if ratio is None:
        return 0
    if not ratio > 1:
        return 4 if math.isnan(ratio) else 1
    return 2 if ratio <= 1e3 else 3 if ratio <= 1e9 else 4


def _cell(ratio: float | None, x: int, y: int) -> Markup:
    told = "cannot tell" if ratio is None else f"{ratio:.3g} times what is allowed"
    text = "?" if ratio is None else "∞" if not math.isfinite(ratio) else _digits(ratio)
    return element(
        "g",
        element("title", told),
        element("rect", x=x + 1, y=y + 1, width=CELL - 2, height=CELL - 2, rx=4, class_=f"heat{level(ratio)}"),
        element("text", text, x=x + CELL / 2, y=y + CELL / 2 + 4, text_anchor="middle", class_=f"on{level(ratio)}"),
    )


def _digits(ratio: float) -> str:
    return "✓" if ratio <= 1 else f"{np.floor(np.log10(ratio)):+.0f}"
