"""The step-size curve: how far plain central differences lie from a derivative, step by step, as a drawing.

From a right derivative it falls with the square of the step until rounding takes over and it rises again: a V. From a
wrong one it ends in a flat floor, the error itself.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from gradcheck import files

Pixels = list[tuple[float, float]]

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 78, 622, 36, 340
"""The size of a drawing, and the places of its axes, in pixels."""
ROWS = 12
MOST_TICKS = 9
LABELS = {
    "estimate": "from the finite-difference estimate",
    "autodiff": "from autodiff",
    "allowed": "allowed error",
}
LEGENDS = {"estimate": 0, "autodiff": 285, "allowed": 425}
"""Where the legend of a line begins, from the left axis."""
RULES = """svg.curve text {{ fill: {ink}; }}
svg.curve text.power {{ fill: {soft}; }}
svg.curve .ground {{ fill: {card}; }}
svg.curve .grid {{ stroke: {line}; }}
svg.curve .autodiff polyline {{ stroke: {wrong}; }}
svg.curve .autodiff .mark {{ fill: {wrong}; }}
svg.curve .estimate polyline {{ stroke: {right}; }}
svg.curve .estimate .mark {{ fill: {right}; }}
svg.curve .allowed polyline {{ stroke: {soft}; }}"""
LIGHT = {"ink": "#1c2330", "soft": "#5b6577", "card": "#fff", "line": "#e2dfd8", "wrong": "#b3261e", "right": "#1b6e4a"}
DARK = {
    "ink": "#e6e4df",
    "soft": "#a3a9b5",
    "card": "#1c2028",
    "line": "#353b47",
    "wrong": "#ff9a8f",
    "right": "#7fd8a8",
}
"""The colours of the pages of reports."""
STYLE = f"""<style>
svg.curve {{ width: 100%; min-width: 30rem; max-width: 40rem; height: auto; }}
svg.curve text {{ font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
svg.curve text.power {{ font-size: 12px; }}
svg.curve .grid, svg.curve polyline {{ fill: none; }}
svg.curve polyline {{ stroke-width: 1.6; }}
svg.curve .estimate polyline {{ stroke-dasharray: 6 3; }}
svg.curve .allowed polyline {{ stroke-dasharray: 2 3; }}
{RULES.format(**LIGHT)}
@media (prefers-color-scheme: dark) {{
{RULES.format(**DARK)}
}}
</style>"""
WHAT = "distance of the central difference from autodiff and from the estimate, against the step, both logarithmic"


@dataclass(frozen=True)
class StepCurve:
    """Plain central difference `quotients` of one coordinate of the derivative at `steps`, widest first."""

    coordinate: int
    steps: tuple[float, ...]
    quotients: tuple[float, ...]


@dataclass(frozen=True)
class CurveLine:
    """The distances from one value, drawn."""

    kind: str
    points: Pixels


@dataclass(frozen=True)
class CurvePlot:
    """A step-size curve, drawn: places in pixels, ticks with their powers of ten, rows of a table.

    A notebook shows it; `svg` is its text, which `save(path)` writes to a file.
    """

    name: str
    lines: tuple[CurveLine, ...]
    x_ticks: Pixels
    y_ticks: Pixels
    rows: list[tuple[float, float, float | None, float]]

    @property
    def svg(self) -> str:
        """The drawing as SVG, in the colours that the reader prefers, light or dark."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" role="img" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" aria-label="{WHAT}">',
            f"<title>Step-size curve of {escape(self.name)}</title>",
            STYLE,
            f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
            f'<rect class="grid" x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/>',
            *(_tick(power, x, BOTTOM + 20, "middle", f"M{x} {TOP}V{BOTTOM}") for x, power in self.x_ticks),
            *(_tick(power, LEFT - 7, y + 5, "end", f"M{LEFT} {y}H{RIGHT}") for y, power in self.y_ticks),
            f'<text text-anchor="middle" x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 6}">step</text>',
            f'<text text-anchor="middle" x="16" y="{(TOP + BOTTOM) / 2}" '
            f'transform="rotate(-90 16 {(TOP + BOTTOM) / 2})">distance of the central difference</text>',
            *map(_drawn, self.lines),
            "</svg>",
        ]
        return "\n".join(parts)

    def save(self, path: str | Path) -> Path:
        """Write the drawing to an SVG file, completely or not at all, and return its path. Raises OSError."""
        return files.replace(Path(path), f"{self.svg}\n")

    def _repr_svg_(self) -> str:
        return self.svg


def plot(
    name: str, curve: StepCurve, autodiff: float, estimate: float, bound: float, allowed: float = math.nan
) -> CurvePlot:
    """The plot of a curve, for an element whose derivative is compared with an estimate.

    The estimate has an error `bound`; an error of up to `allowed` is not noticed.
    """
    values = {"estimate": estimate, **({"autodiff": autodiff} if math.isfinite(autodiff) else {})}
    # Distances from the estimate that are below its error bound mean nothing.
    least = bound if 0 < bound < math.inf else sys.float_info.epsilon * (abs(estimate) or 1.0)
    logs = {kind: _logarithms(curve, value, least) for kind, value in values.items()}
    x_low, x_high = _decades([x for points in logs.values() for x, _ in points])
    if 0 < allowed < math.inf:
        logs["allowed"] = [(float(end), math.log10(allowed)) for end in (x_low, x_high)]
    y_low, y_high = _decades([y for points in logs.values() for _, y in points])

    def x_place(log: float) -> float:
        return round(LEFT + (log - x_low) / (x_high - x_low) * (RIGHT - LEFT), 1)

    def y_place(log: float) -> float:
        return round(BOTTOM - (log - y_low) / (y_high - y_low) * (BOTTOM - TOP), 1)

    rows = [
        (step, quotient, abs(quotient - autodiff) if "autodiff" in values else None, abs(quotient - estimate))
        for step, quotient in zip(curve.steps, curve.quotients, strict=True)
    ]
    return CurvePlot(
        name,
        tuple(CurveLine(kind, [(x_place(x), y_place(y)) for x, y in points]) for kind, points in logs.items()),
        [(x_place(power), power) for power in _ticks(x_low, x_high)],
        [(y_place(power), power) for power in _ticks(y_low, y_high)],
        rows[:: max(1, len(rows) // ROWS)],
    )


def _logarithms(curve: StepCurve, value: float, least: float) -> Pixels:
    """The decimal logarithms of the steps and of the distances from a value, where these are finite."""
    pairs = zip(curve.steps, (max(abs(quotient - value), least) for quotient in curve.quotients), strict=True)
    return [(math.log10(step), math.log10(far)) for step, far in pairs if 0 < step < math.inf and far < math.inf]


def _decades(logs: list[float]) -> tuple[int, int]:
    """The powers of ten around numbers, at least one apart."""
    low = math.floor(min(logs, default=0.0))
    return low, max(math.ceil(max(logs, default=0.0)), low + 1)


def _ticks(low: int, high: int) -> range:
    return range(high, low - 1, -max(1, math.ceil((high - low) / MOST_TICKS)))


def _tick(power: float, x: float, y: float, anchor: str, line: str) -> str:
    label = f'10<tspan dy="-5" font-size="9">{power}</tspan>'
    return f'<path class="grid" d="{line}"/>\n<text class="power" text-anchor="{anchor}" x="{x}" y="{y}">{label}</text>'


def _drawn(line: CurveLine) -> str:
    """A line with its marks, and its legend above the drawing."""
    start = LEFT + LEGENDS[line.kind]
    marks = [] if line.kind == "allowed" else [(start + 14.0, 16.0), *line.points]
    if line.kind == "autodiff":
        drawn = [
            f'<rect class="mark" x="-2.6" y="-2.6" width="5.2" height="5.2" transform="translate({x} {y})"/>'
            for x, y in marks
        ]
    else:
        drawn = [f'<circle class="mark" cx="{x}" cy="{y}" r="3"/>' for x, y in marks]
    parts = [
        f'<g class="{line.kind}">',
        f'<polyline points="{" ".join(f"{x},{y}" for x, y in line.points)}"/>',
        *drawn,
        f'<polyline points="{start},16 {start + 28},16"/>',
        f'<text x="{start + 36}" y="20">{LABELS[line.kind]}</text>',
        "</g>",
    ]
    return "\n".join(parts)
