"""The step-size curve as a drawing, with matplotlib where it is installed (`gradcheck[report]`), and as a table."""

from __future__ import annotations

import io
import math
import re
import threading
from typing import Any

from gradcheck.hunt.report.markup import Markup
from gradcheck.hunt.report.page import number, row, table
from gradcheck.hunt.report.step_curve import StepCurve
from gradcheck.numerics.stencil import EPS64

INK, WRONG, RIGHT, GRID = "#010101", "#020202", "#030303", "#040404"
COLOURS = {INK: "var(--ink)", WRONG: "var(--wrong)", RIGHT: "var(--right)", GRID: "var(--line)"}
ROWS = 12
LOCK = threading.Lock()
"""Of matplotlib's settings, which are those of the whole process."""


def drawn(curve: StepCurve) -> Markup | None:
    """An SVG drawing in the page's own colours, or None where matplotlib is not installed.

    The `Figure` is made without pyplot, so that nobody's backend, style or open figure is touched.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        return None
    settings = {"svg.hashsalt": "gradcheck", "svg.fonttype": "none", "font.size": 11, "text.color": INK}
    with LOCK, matplotlib.rc_context(dict(matplotlib.rcParamsDefault, **settings)):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        figure.patch.set_alpha(0.0)
        _plotted(figure.add_subplot(), curve)
        file = io.StringIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    return _inlined(file.getvalue())


def tabulated(curve: StepCurve) -> Markup:
    """About twelve of the steps, with the differences and their distances from autodiff and from the limit."""
    beside = [None] * len(curve.steps) if curve.autodiff is None else curve.distances(curve.autodiff)
    columns = zip(curve.steps, curve.differences, beside, curve.distances(curve.limit), strict=True)
    rows = [
        row(number(_short(step)), number(f"{difference:.12g}"), number(_short(far)), number(_short(off)))
        for step, difference, far, off in list(columns)[:: max(1, len(curve.steps) // ROWS)]
    ]
    return table(("step #", "central difference #", "distance from autodiff #", "distance from the limit #"), rows)


def _plotted(axes: Any, curve: StepCurve) -> None:
    axes.set_facecolor("none")
    lines = [("from the limit of the differences", curve.limit, RIGHT, "o", 3.5)]
    if curve.autodiff is not None:
        lines.append(("from autodiff", curve.autodiff, WRONG, "s", 3.0))
    for label, value, colour, marker, size in lines:
        steps, distances = _finite(curve, value)
        axes.loglog(steps, distances, color=colour, marker=marker, markersize=size, linewidth=1.4, label=label)
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel("distance of the central difference", color=INK)
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.minorticks_off()
    axes.tick_params(colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_color(GRID)
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2)


def _finite(curve: StepCurve, value: float) -> tuple[list[float], list[float]]:
    """The steps and distances that can be drawn; below its error bound nobody knows how far the limit is."""
    least = curve.bound if 0 < curve.bound < math.inf else EPS64 * abs(curve.limit) or EPS64
    pairs = [(step, max(far, least)) for step, far in zip(curve.steps, curve.distances(value), strict=True)]
    pairs = [(step, far) for step, far in pairs if math.isfinite(far)]
    return [step for step, _ in pairs], [far for _, far in pairs]


def _inlined(text: str) -> Markup:
    """Matplotlib's file as an element: no prologue, no style for the whole page, colours from the page, fluid."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"font: [^;\"]*(\d+)px [^;\"]*", r"font-size: \1px", text)
    for given, wanted in COLOURS.items():
        text = text.replace(given, wanted)
    label = 'role="img" class="curve" aria-label="distance of the central difference against the step"'
    return Markup(re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf"<svg {label} \1>", text, count=1))


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2e}"
