"""The pages in a real browser. Screenshots go to the folder that GRADCHECK_SCREENSHOTS names, if it is set."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.defects import known
from gradcheck.hunt.report.issue_text import script_of
from tests.records import COMMITTED

FINDINGS = ("block_lstm_v2-order1", "xlogy-zero-order1", "bessel_i0-zero-order2", "gather-of-rgb_to_hsv")
PAGES = (*FINDINGS, "index", "known")
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRASTS = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(x => { x /= 255;
    return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!c.endsWith(', 0)') && c !== 'transparent') return c } return 'rgb(255, 255, 255)' };
  const found = [];
  for (const e of document.querySelectorAll('main *:not(svg *)')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) found.push(`${e.tagName}.${e.className} ${((a + .05) / (b + .05)).toFixed(2)}`);
  }
  return [...new Set(found)]; }"""


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("light", 360), ("dark", 320)])
def test_a_page_is_whole_quiet_and_as_wide_as_the_window(
    reports: dict[str, Path], show: Callable[..., Any], name: str, scheme: str, width: int
) -> None:
    shown = show(reports[name], scheme, width)
    assert shown.requests == [reports[name].as_uri()]
    assert shown.complaints == []
    assert shown.page.evaluate(WIDER) <= 0
    folder = os.environ.get("GRADCHECK_SCREENSHOTS")
    if folder:
        shown.page.screenshot(path=Path(folder, f"{name}-{scheme}-{width}.png"), full_page=True)
    shown.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    assert shown.page.evaluate(WIDER) <= 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 400), ("light", 1100)])
def test_an_edge_is_shaded_where_a_table_goes_on_behind_it(
    reports: dict[str, Path], show: Callable[..., Any], scheme: str, width: int
) -> None:
    page = show(reports["xlogy-zero-order1"], scheme, width).page
    table = page.locator(".scroll:has(table)").first
    hidden = table.evaluate("part => part.scrollWidth - part.clientWidth")
    assert (hidden > 0) == (width == 400)

    def shaded() -> tuple[bool, bool]:
        """Whether the left and the right edge differ from the ground between the lowest line of text and the end."""
        pixels = tf.io.decode_png(table.screenshot(), channels=3).numpy().astype(int)[-2]
        ground = pixels[len(pixels) // 2]
        left, right = (bool(np.abs(pixels[place] - ground).max() > 8) for place in (1, -2))
        return left, right

    assert shaded() == (False, width == 400)
    table.evaluate("part => { part.scrollLeft = part.scrollWidth }")
    assert shaded() == (width == 400, False)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    reports: dict[str, Path], show: Callable[..., Any], name: str, scheme: str
) -> None:
    """The contrast that WCAG 2 requires, 4.5 to 1."""
    assert show(reports[name], scheme).page.evaluate(CONTRASTS) == []


def test_a_script_that_got_in_would_not_run(reports: dict[str, Path], show: Callable[..., Any], tmp_path: Path) -> None:
    text = reports["xlogy-zero-order1"].read_text(encoding="utf-8")
    planted = text.replace("<main>", "<main><script>document.title = 'it ran'</script><img src='https://example.org/'>")
    assert planted != text
    path = tmp_path / "planted.html"
    path.write_text(planted, encoding="utf-8")
    shown = show(path)
    assert shown.page.title() == "xlogy: wrong value at order 1"
    assert shown.complaints != []
    assert shown.answers == [path.as_uri()]


def test_a_page_that_is_too_wide_would_be_noticed(
    reports: dict[str, Path], show: Callable[..., Any], tmp_path: Path
) -> None:
    text = reports["index"].read_text(encoding="utf-8")
    path = tmp_path / "wide.html"
    path.write_text(text.replace(".scroll { overflow-x: auto;", ".scroll {"), encoding="utf-8")
    assert show(path, "light", 360).page.evaluate(WIDER) > 0


def test_the_overview_leads_to_the_findings(reports: dict[str, Path], show: Callable[..., Any]) -> None:
    page = show(reports["index"]).page
    page.locator("a[href^='xlogy-order1-']").click()
    assert page.title() == "xlogy: wrong value at order 1"
    assert page.url == reports["xlogy-zero-order1"].as_uri()


def test_the_graph_and_the_curve_are_drawn(reports: dict[str, Path], show: Callable[..., Any]) -> None:
    page = show(reports["block_lstm_v2-order1"]).page
    for kind, least in (("graph", 300), ("curve", 300), ("heat", 30)):
        box = page.locator(f"svg.{kind}").first.bounding_box()
        assert box["width"] >= least
        assert box["height"] >= 30


@pytest.mark.parametrize("name", FINDINGS)
def test_the_words_of_the_graph_stay_in_their_boxes(
    reports: dict[str, Path], show: Callable[..., Any], name: str
) -> None:
    page = show(reports[name]).page
    wide = """e => { const inner = e.getBBox(), outer = e.parentNode.querySelector('rect').getBBox();
        return inner.x < outer.x + 4 || inner.x + inner.width > outer.x + outer.width - 4 }"""
    words = page.locator("svg.graph text").all()
    assert len(words) >= 4
    assert [word.text_content() for word in words if word.evaluate(wide)] == []


def test_a_script_that_is_opened_is_whole(reports: dict[str, Path], show: Callable[..., Any]) -> None:
    page = show(reports["known"]).page
    (defect,) = (one for one in known.load(COMMITTED) if one.name == "cumprod-zero-order1")
    texts = page.evaluate(
        """name => {
        const record = document.getElementById(name), [script, issue] = record.querySelectorAll("details");
        record.open = issue.open = script.open = true;
        return new Promise(done => setTimeout(() => done([script, issue].map(
            one => one.querySelector("pre").textContent.trimEnd())), 200));
    }""",
        defect.name,
    )
    assert texts[0] == script_of(defect).rstrip()
    assert script_of(defect).rstrip() in texts[1]
    assert defect.source in texts[1]


def test_the_known_defects_are_searched(reports: dict[str, Path], show: Callable[..., Any]) -> None:
    page = show(reports["known"]).page
    records = page.locator("details.record:visible")
    everything = records.count()
    page.fill("#search", "cumprod")
    assert 0 < records.count() < everything
