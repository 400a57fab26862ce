from __future__ import annotations

import dataclasses
import html
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck.hunt.finding import GraphFinding, literal
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.hunt.report.evidence import PageEvidence, completed, evidence
from gradcheck.hunt.report.finding_page import finding_page
from gradcheck.hunt.report.issue_form import issue_form
from gradcheck.hunt.report.junit import properties
from gradcheck.hunt.report.json_report import Report
from gradcheck.hunt.report.step_curve import StepCurve
from gradcheck.result import Finding, Kind

Parsed = Callable[[str], Any]
CURVE = StepCurve("input 0[0]", (1.0, 0.1, 0.01), (2.0, 1.1, 1.01), 3.0, 1.0, 1e-12)
NASTY = "</code></pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'`\u202e"


def test_everything_that_was_asked_for_is_on_the_page(report: Report, parsed: Parsed) -> None:
    page = parsed(finding_page(report.discovery, PageEvidence(1, 2, CURVE), report.confirmation))
    for part in (
        "cumprod : non-finite at order 1",
        "the first derivative of cumprod (zero in argument 0) is not finite at a point where the function is smooth",
        "A fresh process confirms it.",
        "wrong elements 1 of 2",
        "allowed error 3e-11",
        "error bound 2e-12",
        "Cause and remedy cause wrong custom gradient where a.py:3: y = f(x) evidence the formula divides by x",
        "remedy write it anew",
        "y1 = tf.sin(x)",
        "Step-size curve of x[0]",
        "Every operation alone",
        "mismatch culprit",
        "def function(x):",
        "exit code 1",
        "x[0] nan 9 <- wrong WRONG",
        "Have you reproduced the bug with TensorFlow Nightly?",
        "XLA flags",
        "a processor",
    ):
        assert part in page.text, part


def test_the_page_needs_no_network_and_runs_nothing(report: Report, parsed: Parsed) -> None:
    text = finding_page(report.discovery, PageEvidence(1, 2, CURVE), report.confirmation)
    page = parsed(text)
    assert {"script", "link", "iframe", "object", "form", "base"} & {tag for tag, _ in page.elements} == set()
    attributes = [(name, value) for _, found in page.elements for name, value in found.items()]
    assert [name for name, _ in attributes if name.startswith("on") or name in ("src", "href", "action")] == []
    assert all((value or "").startswith("#") for name, value in attributes if name == "xlink:href")
    assert "url(http" not in text
    policy = next(meta["content"] for meta in page.named("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy


def nasty(report: Report) -> Report:
    """The report with a text that would break out of HTML wherever a text can stand."""
    found = report.discovery
    assert found.environment is not None
    why = found.findings[0].diagnosis
    assert why is not None
    assert why.place is not None
    place = dataclasses.replace(why.place, file=NASTY, code=NASTY)
    why = dataclasses.replace(why, evidence=NASTY, remedy=NASTY, place=place)
    wrong = dataclasses.replace(found.findings[0], input=NASTY, reason=NASTY, diagnosis=why, also=NASTY)
    machine = dataclasses.replace(found.environment, tensorflow=NASTY, processor=NASTY, seed=NASTY)
    nodes = tuple(dataclasses.replace(node, verdict=f"mismatch: {NASTY}") for node in found.nodes)
    changed = dataclasses.replace(
        found, culprit=NASTY, trigger=NASTY, findings=(wrong,), environment=machine, nodes=nodes
    )
    return Report(changed, Confirmation(1, NASTY))


def test_nothing_that_comes_from_outside_can_act(report: Report, parsed: Parsed) -> None:
    evil = nasty(report)
    curve = dataclasses.replace(CURVE, element=NASTY)
    text = finding_page(evil.discovery, PageEvidence(1, 2, curve, problem=NASTY), evil.confirmation)
    unheard = dataclasses.replace(report.discovery, culprit="unheard of")
    plain = finding_page(unheard, PageEvidence(1, 2, CURVE), report.confirmation)
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert html.escape(NASTY.rstrip("\u202e")) in text
    # The same elements as without: nothing was opened, nothing closed.
    tags = [[tag for tag, _ in parsed(page).elements] for page in (text, plain)]
    assert {tag: tags[0].count(tag) for tag in set(tags[0]) - {"br", "dt", "dd"}} == {
        tag: tags[1].count(tag) for tag in set(tags[1]) - {"br", "dt", "dd"}
    }


def test_with_matplotlib_the_curve_is_drawn_in_the_pages_colours(report: Report, parsed: Parsed) -> None:
    pytest.importorskip("matplotlib")
    page = parsed(finding_page(report.discovery, PageEvidence(1, 2, CURVE)))
    drawn = [svg for svg in page.named("svg") if svg.get("class") == "curve"]
    assert len(drawn) == 1
    text = finding_page(report.discovery, PageEvidence(1, 2, CURVE))
    assert "var(--wrong)" in text.partition('class="curve"')[2]
    assert "#020202" not in text
    assert "As a table" in page.text
    assert "Install gradcheck[report]" not in page.text


def test_without_matplotlib_the_curve_is_a_table(
    report: Report, parsed: Parsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = parsed(finding_page(report.discovery, PageEvidence(1, 2, CURVE)))
    assert [svg for svg in page.named("svg") if svg.get("class") == "curve"] == []
    assert "Install gradcheck[report] for a drawing." in page.text
    assert "1.00e-02 1.01 1.99e+00 1.00e-02" in page.text  # step, difference, from autodiff, from the limit
    assert "As a table" not in page.text


def test_the_drawing_leaves_matplotlibs_settings_alone_and_is_always_the_same(report: Report) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.rcParams["font.size"] = 33.0
    try:
        before = dict(matplotlib.rcParams)
        texts = {finding_page(report.discovery, PageEvidence(1, 2, CURVE)) for _ in range(2)}
        assert dict(matplotlib.rcParams) == before
    finally:
        matplotlib.rcParams["font.size"] = matplotlib.rcParamsDefault["font.size"]
    assert len(texts) == 1


def test_what_could_not_be_computed_is_said(report: Report, parsed: Parsed) -> None:
    page = parsed(finding_page(report.discovery, PageEvidence(problem="RuntimeError: no such kernel")))
    assert "Step-size curve There is none: RuntimeError: no such kernel" in page.text


def test_what_is_no_longer_wrong_is_said(report: Report, parsed: Parsed) -> None:
    page = parsed(finding_page(report.discovery, PageEvidence(0, 2, CURVE)))
    assert "wrong, computed anew 0 of 2" in page.text


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_page(report: Report, parsed: Parsed, kind: Kind) -> None:
    wrong = Finding(kind, 1, "the inputs", None, None, None, None, None, None, "TypeError: no")
    page = parsed(finding_page(dataclasses.replace(report.discovery, findings=(wrong,)), PageEvidence()))
    assert f"{kind.value} at order 1" in page.text
    assert "TypeError: no" in page.text


def test_the_worst_of_several_inputs_is_the_one_shown_on_top(report: Report, parsed: Parsed) -> None:
    mild = Finding(Kind.WRONG_VALUE, 1, "input 0", (0,), None, 1.0, 2.0, 1e-12, 1e-2, "mild")
    bad = Finding(Kind.WRONG_VALUE, 1, "input 0", (1,), None, 1.0, 2.0, 1e-12, 1e-9, "bad")
    page = parsed(finding_page(dataclasses.replace(report.discovery, findings=(mild, bad)), PageEvidence()))
    assert "worst element x[1]" in page.text
    assert "off by 1e+09 times" in page.text


def test_a_real_discovery_from_its_graph_alone(parsed: Parsed) -> None:
    graph = Graph((Input((2,), (0.0, 3.0)), Input((2,), (2.0, 2.0))), (Node.of("xlogy", 0, 1),))
    wrong = Finding(Kind.WRONG_VALUE, 1, "input 0", (0,), None, 0.0, np.log(2.0), 1e-14, 1e-13, "0 instead of log 2")
    whole = completed(GraphFinding(graph, 1, (wrong,), "xlogy", 2, "zero in argument 0", literal([1.0, 1.0])))
    page = parsed(finding_page(whole, evidence(whole)))
    assert "wrong elements 1 of 4" in page.text
    assert "Where it is wrong x1" in page.text
    assert len([svg for svg in page.named("svg") if svg.get("class") == "heat"]) == 2
    assert "0.69314718056" in page.text


def test_the_issue_form_has_every_field_of_tensorflows(report: Report) -> None:
    text = issue_form(report.discovery, report.confirmation)
    fields = (
        ("Title", "Gradient of order 1 of cumprod: non-finite (zero in argument 0)"),
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
    assert f"Standalone code to reproduce the issue\n\n{report.discovery.script.rstrip()}\n" in text
    assert text.endswith("Relevant log output\n\nx[0] nan 9 <- wrong\nWRONG\n")


def test_the_properties_are_pairs_of_texts(report: Report) -> None:
    pairs = dict(properties(report.discovery, report.confirmation))
    assert pairs["gradcheck.name"] == report.discovery.name
    assert pairs["gradcheck.kind"] == "non-finite"
    assert pairs["gradcheck.autodiff"] == "nan"
    assert pairs["gradcheck.cause"] == "wrong custom gradient"
    assert pairs["gradcheck.confirmed"] == "true"
    bare = dict(properties(dataclasses.replace(report.discovery, environment=None)))
    assert "gradcheck.tensorflow" not in bare
    assert "gradcheck.confirmed" not in bare
    assert all(isinstance(value, str) for value in bare.values())
