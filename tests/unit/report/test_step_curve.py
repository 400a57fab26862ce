from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from gradcheck.hunt.blame import step_curve
from gradcheck.step_curve import BOTTOM, LEFT, RIGHT, TOP, CurvePlot, StepCurve, plot

Parsed = Callable[[str], Any]


def curve_of(function: Callable[[Any], Any], at: float) -> StepCurve:
    """The curve of a function of one coordinate."""
    return step_curve(lambda points: function(points[:, 0]), np.array([at]), np.array([1.0]), 0.25, 0)


def test_the_curve_of_a_right_derivative_is_a_v() -> None:
    curve = curve_of(np.sin, 0.5)
    far = np.abs(np.array(curve.quotients) - math.cos(0.5))
    steps = np.array(curve.steps)
    slope = np.polyfit(np.log(steps[1:8]), np.log(far[1:8]), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.2)  # truncation falls with the square of the step
    lowest = int(np.argmin(far))
    assert 8 < lowest < len(far) - 8
    assert far[lowest] < 1e-9 < far[0]
    assert np.median(far[-5:]) > 100 * far[lowest]  # and rounding rises again


def drawn(curve: StepCurve, autodiff: float, estimate: float, bound: float) -> CurvePlot:
    """The plot of a curve, with the comparison of a trial."""
    return plot("x[0]", curve, autodiff, estimate, bound)


def test_a_step_that_is_not_finite_is_not_drawn() -> None:
    """A report may hold such a step."""
    steps = (math.inf, 0.1, 0.01, 0.0, math.nan)
    plotted = drawn(StepCurve(0, steps, (1.0, 1.1, 1.01, 1.0, 1.0)), 2.0, 1.0, 1e-9)
    assert [len(line.points) for line in plotted.lines] == [2, 2]


def test_a_wrong_derivative_ends_in_a_flat_floor_and_the_right_one_falls() -> None:
    right, wrong = drawn(curve_of(np.exp, 0.0), 0.0, 1.0, 1e-12).lines
    assert (right.kind, wrong.kind) == ("estimate", "autodiff")
    assert len(right.points) == len(wrong.points) == 44
    floor = [y for _, y in wrong.points[8:30]]
    assert max(floor) == min(floor)
    assert right.points[20][1] - right.points[0][1] > 100  # downwards, in pixels


def test_every_place_lies_within_the_axes_and_wide_steps_lie_to_the_right() -> None:
    plotted = drawn(curve_of(np.exp, 0.0), 0.0, 1.0, 1e-12)
    for line in plotted.lines:
        assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in line.points)
        assert [x for x, _ in line.points] == sorted((x for x, _ in line.points), reverse=True)
    for ticks in (plotted.x_ticks, plotted.y_ticks):
        assert 4 <= len(ticks) <= 10
        assert len({power for _, power in ticks}) == len(ticks)
    (low, bottom), (high, top) = plotted.y_ticks[-1], plotted.y_ticks[0]
    assert (low > high) == (bottom < top)


def test_distances_are_drawn_down_to_the_error_bound() -> None:
    plotted = drawn(StepCurve(0, (1.0, 0.1), (1.0, 1.0)), 2.0, 1.0, 1e-6)
    assert [power for _, power in plotted.y_ticks][-1] == -6
    assert plotted.rows == [(1.0, 1.0, 1.0, 0.0), (0.1, 1.0, 1.0, 0.0)]


def test_a_derivative_that_is_not_finite_has_no_distance() -> None:
    plotted = drawn(StepCurve(0, (1.0, 0.1), (0.0, 0.0)), math.nan, 0.0, 0.0)
    assert [line.kind for line in plotted.lines] == ["estimate"]
    assert plotted.rows[0] == (1.0, 0.0, None, 0.0)


def test_quotients_that_are_not_finite_are_left_out(parsed: Parsed) -> None:
    for quotients in ((math.nan, 1.5, math.inf), (math.nan, math.nan, math.inf)):
        plotted = drawn(StepCurve(0, (1.0, 0.1, 0.01), quotients), 2.0, 1.0, 1e-6)
        finite = sum(map(math.isfinite, quotients))
        assert [len(line.points) for line in plotted.lines] == [finite, finite]
        page = parsed(plotted.svg)
        assert len(page.named("circle")) == finite + 1  # and one in the legend
        assert not any("nan" in (value or "") for _, found in page.elements for value in found.values())


def test_the_allowed_error_is_a_level_line_across_the_drawing(parsed: Parsed) -> None:
    curve = StepCurve(0, (1.0, 0.1, 0.01), (1.1, 1.01, 1.001))
    *_, allowed = plot("x[0]", curve, 2.0, 1.0, 1e-6, 1e-5).lines
    (left, height), (right, same) = allowed.points
    assert (allowed.kind, left, right, height) == ("allowed", LEFT, RIGHT, same)
    _, wrong, _ = plot("x[0]", curve, 2.0, 1.0, 1e-6, 1e-5).lines
    assert all(y < height for _, y in wrong.points)  # above it, in pixels
    for unknown in (math.nan, math.inf, 0.0):
        assert [line.kind for line in plot("x[0]", curve, 2.0, 1.0, 1e-6, unknown).lines] == ["estimate", "autodiff"]


def test_a_drawing_is_a_whole_file_in_light_and_dark_colours(tmp_path: Path, parsed: Parsed) -> None:
    plotted = plot("x['<a>']", StepCurve(0, (1.0, 0.1), (1.1, 1.01)), 2.0, 1.0, 1e-6, 1e-5)
    path = plotted.save(tmp_path / "curve.svg")
    tree = ElementTree.parse(path)
    assert tree.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert "Step-size curve of x['<a>']" in tree.getroot().itertext()
    assert plotted._repr_svg_() == path.read_text(encoding="utf-8").rstrip("\n")
    assert "prefers-color-scheme: dark" in plotted.svg
    with pytest.raises(OSError, match="missing"):
        plotted.save(tmp_path / "missing" / "curve.svg")
    assert [one.name for one in tmp_path.iterdir()] == ["curve.svg"]
