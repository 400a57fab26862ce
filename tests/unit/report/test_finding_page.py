from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import markupsafe
import pytest
from msgspec import structs

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.finding import ElementCheck, GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.finding_page import finding_page, heat_maps, issue_form, properties
from gradcheck.hunt.report.rendering import render
from gradcheck.result import Finding, Kind, Verdict

Parsed = Callable[[str], Any]
NASTY = "</code></pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'`\u202e"


def test_everything_that_was_asked_for_is_on_the_page(report: Report, parsed: Parsed) -> None:
    page = parsed(finding_page(report.finding))
    for part in (
        "cumprod : non-finite at order 1",
        "the first derivative of cumprod (zero in argument 0) is not finite at a point where the function is smooth",
        "A fresh process confirms it.",
        "wrong elements 1 of 2",
        "Every element element verdict autodiff estimate error bound allowed error x[0] mismatch nan 9 2e-12 3e-11",
        "allowed error 3e-11",
        "error bound 2e-12",
        "Cause and remedy cause wrong custom gradient where a.py:3: y = f(x) evidence the formula divides by x",
        "remedy write it anew",
        "y1 = tf.sin(x)",
        "Step-size curve of x[0]",
        "The derivative of every operation alone",
        "mismatch culprit",
        "def function(x):",
        "exit code 1",
        "x[0] nan 9 <- wrong WRONG",
        "Have you reproduced the bug with TensorFlow Nightly?",
        "XLA flags",
        "a processor",
    ):
        assert part in page.text, part


def test_the_terms_of_what_is_allowed_are_on_the_page(report: Report, parsed: Parsed) -> None:
    (wrong, *_), terms = report.finding.findings, (("error of the estimate", 2e-11), ("rounding", 1e-11))
    found = dataclasses.replace(report.finding, findings=(dataclasses.replace(wrong, terms=terms),))
    assert "allowed for error of the estimate 2.0e-11, rounding 1.0e-11" in parsed(finding_page(found)).text
    assert "allowed for" not in parsed(finding_page(report.finding)).text


def test_the_page_needs_no_network_and_runs_nothing(report: Report, parsed: Parsed) -> None:
    text = finding_page(report.finding)
    page = parsed(text)
    assert {"script", "link", "iframe", "object", "form", "base"} & {tag for tag, _ in page.elements} == set()
    attributes = [(name, value) for _, found in page.elements for name, value in found.items()]
    assert [name for name, _ in attributes if name.startswith("on") or name in ("src", "href", "action")] == []
    assert all((value or "").startswith("#") for name, value in attributes if name == "xlink:href")
    assert "url(http" not in text
    policy = next(meta["content"] for meta in page.named("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy


def nasty(report: Report) -> GraphFinding:
    """The finding with a text that would break out of HTML in every place for text (no such file is read)."""
    found = report.finding
    assert found.environment is not None
    why = found.findings[0].diagnosis
    assert why is not None
    assert why.place is not None
    place = dataclasses.replace(why.place, file=NASTY, code=NASTY)
    why = dataclasses.replace(why, evidence=NASTY, remedy=NASTY, place=place)
    wrong = dataclasses.replace(found.findings[0], input=NASTY, reason=NASTY, diagnosis=why, also=NASTY)
    machine = structs.replace(found.environment, tensorflow=NASTY, processor=NASTY, seed=NASTY)
    nodes = tuple(dataclasses.replace(node, detail=NASTY) for node in found.nodes)
    changed = dataclasses.replace(found, culprit=NASTY, description=NASTY, findings=(wrong,), nodes=nodes)
    return dataclasses.replace(changed, environment=machine, confirmation=Confirmation(1, NASTY))


def test_nothing_that_comes_from_outside_can_act(report: Report, parsed: Parsed) -> None:
    text = finding_page(nasty(report))
    plain = finding_page(dataclasses.replace(report.finding, culprit="unheard of"))
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert markupsafe.escape(NASTY.rstrip("\u202e")) in text
    # The same elements as without it: nothing was opened, nothing closed.
    tags = [[tag for tag, _ in parsed(page).elements] for page in (text, plain)]
    assert {tag: tags[0].count(tag) for tag in set(tags[0]) - {"br", "dt", "dd"}} == {
        tag: tags[1].count(tag) for tag in set(tags[1]) - {"br", "dt", "dd"}
    }


def test_the_step_size_curve_is_drawn_and_tabulated(report: Report, parsed: Parsed) -> None:
    found = report.finding
    finite = dataclasses.replace(found.elements[0], autodiff=10.0)
    text = finding_page(dataclasses.replace(found, elements=(finite, found.elements[1])))
    page = parsed(text)
    assert "Step-size curve of x[0]" in page.text
    assert "from the finite-difference estimate" in page.text
    assert "1 10 0 1 0.1 9.1 0.9 0.1 0.01 9.01 0.99 0.01" in page.text  # step, difference, from autodiff, from estimate
    assert [svg["role"] for svg in page.named("svg") if svg["class"] == "curve"] == ["img"]
    assert [group["class"] for group in page.named("g") if group.get("class") in ("estimate", "autodiff")] == [
        "estimate",
        "autodiff",
    ]


def test_a_finding_without_more_than_its_graph_has_a_page(report: Report, parsed: Parsed) -> None:
    bare = dataclasses.replace(report.finding, elements=(), curve=None, nodes=(), values=(), environment=None)
    page = parsed(finding_page(bare))
    assert "non-finite at order 1" in page.text
    for missing in ("Step-size curve", "Every element", "Each operation", "Environment", "wrong elements"):
        assert missing not in page.text


def cells(
    *elements: ElementCheck, report: Report, parsed: Parsed, shape: tuple[int, ...]
) -> list[tuple[int, int, int, str]]:
    """The cells (x, y, level, text) of the heat map of an input of this shape, for which these elements were
    compared."""
    count = math.prod(shape)
    graph = Graph((Input(shape, (1.0,) * count),), (Node.of("sin", 0),))
    found = dataclasses.replace(report.finding, graph=graph, elements=elements, curve=None, nodes=(), values=())
    (heat,) = heat_maps(found)
    page = parsed(render("heat_map.svg.j2", map=heat))
    places = [(int(text["x"]), int(text["y"]) - 4) for text in page.named("text")]
    assert places == [(int(rect["x"]) + 14, int(rect["y"]) + 14) for rect in page.named("rect")]
    assert len(places) == count
    return [(*place, level, text) for place, (level, text, _) in zip(places, heat.cells, strict=True)]


def test_heat_maps_have_a_cell_an_element(report: Report, parsed: Parsed) -> None:
    unknown = ElementCheck(0, Verdict.INCONCLUSIVE, 0.0, math.nan, math.nan, math.nan)
    ratios = [0.0, 1.0, 2.0, 1e5, 1e12, math.inf, math.nan]
    checks = [ElementCheck(place, Verdict.MISMATCH, ratio, 0.0, 0.1, 1.0) for place, ratio in enumerate(ratios, 2)]
    drawn = cells(unknown, *checks, report=report, parsed=parsed, shape=(9,))
    assert [level for _, _, level, _ in drawn] == [0, 0, 1, 1, 2, 3, 4, 4, 4]
    assert [text for _, _, _, text in drawn] == ["?", "", "✓", "✓", "+0", "+5", "+12", "∞", "∞"]


def test_a_complex_scalar_has_a_map_of_its_two_parts(report: Report, parsed: Parsed) -> None:
    graph = Graph((Input((), (1j,), "complex128"),), (Node.of("sin", 0),))
    elements = tuple(ElementCheck(place, Verdict.MISMATCH, 1.0, 0.0, 0.1, 1.0) for place in range(2))
    bare = dataclasses.replace(
        report.finding, graph=graph, position=1, elements=elements, curve=None, nodes=(), values=()
    )
    assert [(heat.columns, len(heat.cells)) for heat in heat_maps(bare)] == [(2, 2)]
    assert "wrong elements 2 of 2" in parsed(finding_page(bare)).text


def test_a_map_of_many_elements_breaks_into_rows(report: Report, parsed: Parsed) -> None:
    right = ElementCheck(0, Verdict.AGREE, 0.0, 0.0, 0.1, 1.0)
    places = {(x, y) for x, y, _, _ in cells(right, report=report, parsed=parsed, shape=(2, 3))}
    assert places == {(x, y) for x in (15, 45, 75) for y in (15, 45)}
    assert max(x for x, _, _, _ in cells(right, report=report, parsed=parsed, shape=(2, 50))) == 15 + 31 * 30


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_page(report: Report, parsed: Parsed, kind: Kind) -> None:
    wrong = Finding(kind, 1, "the inputs", None, None, None, None, None, None, "TypeError: no")
    page = parsed(finding_page(dataclasses.replace(report.finding, findings=(wrong,))))
    assert f"{kind.value} at order 1" in page.text
    assert "TypeError: no" in page.text


def test_the_worst_of_several_inputs_is_the_one_shown_on_top(report: Report, parsed: Parsed) -> None:
    mild = Finding(Kind.WRONG_VALUE, 1, "input 0", (0,), None, 1.0, 2.0, 1e-12, 1e-2, "mild")
    bad = Finding(Kind.WRONG_VALUE, 1, "input 0", (1,), None, 1.0, 2.0, 1e-12, 1e-9, "bad")
    page = parsed(finding_page(dataclasses.replace(report.finding, findings=(mild, bad))))
    assert "worst element x[1]" in page.text
    assert "error / allowed 1e+09" in page.text


def test_the_issue_form_has_every_field_of_tensorflows(report: Report) -> None:
    text = issue_form(report.finding)
    fields = (
        ("Title", "First derivative of cumprod: non-finite (zero in argument 0)"),
        ("Issue type", "Bug"),
        ("Have you reproduced the bug with TensorFlow Nightly?", "(please fill in)"),
        ("Source", "binary"),
        ("TensorFlow version", "2.21.0"),
        ("Custom code", "No"),
        ("OS platform and distribution", "Linux"),
        ("Python version", "3.11"),
    )
    for name, answer in fields:
        assert f"{name}: {answer}\n" in text
    assert "Current behavior?\n\nIn TensorFlow 2.21.0, the first derivative of `cumprod`" in text
    assert f"Standalone code to reproduce the issue\n\n{report.finding.script.rstrip()}\n" in text
    assert text.endswith("Relevant log output\n\nx[0] nan 9 <- wrong\nWRONG\n")


def test_the_properties_are_pairs_of_texts(report: Report) -> None:
    pairs = dict(properties(report.finding))
    assert pairs["gradcheck.name"] == report.finding.name
    assert pairs["gradcheck.kind"] == "non-finite"
    assert pairs["gradcheck.autodiff"] == "nan"
    assert pairs["gradcheck.cause"] == "wrong custom gradient"
    assert pairs["gradcheck.confirmed"] == "true"
    bare = dict(properties(dataclasses.replace(report.finding, environment=None, confirmation=None)))
    assert "gradcheck.tensorflow" not in bare
    assert "gradcheck.confirmed" not in bare
    assert all(isinstance(value, str) for value in bare.values())
