"""The HTML page of a finding: one file, no network, no script."""

from __future__ import annotations

import re

from gradcheck.hunt.finding import GraphFinding, NodeCheck
from gradcheck.hunt.report import figure, heat_map
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.hunt.report.drawing import drawing
from gradcheck.hunt.report.evidence import PageEvidence
from gradcheck.hunt.report.issue_form import issue_form
from gradcheck.hunt.report.markdown import excess, graph_lines, over
from gradcheck.hunt.report.markup import Markup, element, escaped, joined
from gradcheck.hunt.report.page import (
    badge,
    fact,
    more,
    number,
    page,
    pairs,
    row,
    section,
    spanning,
    table,
    text_block,
    words,
)
from gradcheck.hunt.report.sentence import sentence
from gradcheck.hunt.script import expression, variables
from gradcheck.result import Diagnosis, Finding, Kind

WRONG = "mismatch"
INPUT = re.compile(r"input (\d{1,3})")


def finding_page(found: GraphFinding, seen: PageEvidence, confirmation: Confirmation | None = None) -> str:
    """The page as text: verdict, graph, comparison, curve, heat maps, blame, cause, scripts and environment."""
    kind = found.signature.kind.value
    said = sentence(found, confirmation, text=escaped, code=lambda name: element("code", name))
    content = [
        element("p", "gradcheck · a derivative that is wrong", class_="soft"),
        element("h1", element("code", found.culprit), f": {kind} at order {found.order}"),
        element("p", Markup(said), class_="lead"),
        _facts(found, seen),
        *[_cause(f.diagnosis) for f in found.findings if f.diagnosis is not None],
        _graph(found),
        _comparison(found),
        _curve(found, seen),
        _maps(found, seen),
        _blame(found),
        _reproduction(found, confirmation),
        _environment(found),
        element("p", "Report ", element("code", found.name), ". reports/README.md says how to read it.", class_="soft"),
    ]
    return page(f"{found.culprit}: {kind} at order {found.order}", *content)


def _facts(found: GraphFinding, seen: PageEvidence) -> Markup:
    worst = _worst(found)
    if worst.kind in (Kind.RAISES, Kind.SHAPE):
        return element("dl", fact("what TensorFlow does", worst.reason, "wrong"), class_="facts")
    facts = [
        fact("autodiff", "None" if worst.autodiff is None else _number(worst.autodiff), "wrong"),
        fact("difference", _number(worst.difference), "right"),
        fact("error bound", _number(worst.bound, 3)),
        fact("allowed error", _number(worst.allowed, 3)),
        fact("off by", over(worst)),
        fact("worst element", _named(found, worst.element)),
    ]
    if seen.compared and not seen.wrong:
        facts.append(fact("wrong, computed anew", f"0 of {seen.compared}", "wrong"))
    elif seen.compared:
        facts.append(fact("wrong elements", f"{seen.wrong} of {seen.compared}"))
    return element("dl", *facts, class_="facts")


def _worst(found: GraphFinding) -> Finding:
    """Of the findings of the most severe kind, the one that is the furthest over what is allowed."""
    same = [wrong for wrong in found.findings if wrong.kind is found.findings[0].kind]
    return max(same, key=lambda wrong: excess(wrong) if excess(wrong) > 0 else 0.0)


def _cause(why: Diagnosis) -> Markup:
    rows: list[tuple[object, object]] = [("cause", why.cause.value), ("evidence", why.evidence), ("remedy", why.remedy)]
    if why.place is not None:
        rows.insert(1, ("where", element("code", str(why.place))))
    return section("Cause and remedy", pairs(rows))


def _graph(found: GraphFinding) -> Markup:
    return section(
        "The graph",
        element("figure", drawing(found), class_="scroll", tabindex=0),
        more("As text, with values", text_block("\n".join(graph_lines(found))), open_=True),
    )


def _comparison(found: GraphFinding) -> Markup:
    head = ("element", "kind", "autodiff #", "difference #", "error bound #", "allowed #", "off by #")
    rows = []
    for wrong in found.findings:
        numbers = ((wrong.autodiff, 12), (wrong.difference, 12), (wrong.bound, 3), (wrong.allowed, 3))
        cells = [number(_number(value, digits)) for value, digits in numbers]
        rows.append(
            row(_named(found, wrong.element), words(wrong.kind.value), *cells, number(over(wrong)), kind="joined")
        )
        rows.append(row(spanning(len(head), wrong.reason)))
    return section("Autodiff beside differences", table(head, rows))


def _curve(found: GraphFinding, seen: PageEvidence) -> Markup:
    if seen.curve is None:
        reason = seen.problem or "nothing was computed"
        return section("Step-size curve", element("p", "There is none: ", element("code", reason), class_="soft"))
    drawn = figure.drawn(seen.curve)
    told = (
        "How far plain central differences lie from a derivative, step by step, both axes logarithmic. Beside a right "
        "one they fall with the square of the step until rounding takes over: a V, which is drawn down to the error "
        "bound. Beside a wrong one they end in a flat floor, which is the error."
    )
    missing = element("p", "Install gradcheck[report] for a drawing.", class_="soft") if drawn is None else None
    caption = element("figcaption", told)
    numbers = figure.tabulated(seen.curve)
    return section(
        f"Step-size curve of {_named(found, seen.curve.element)}",
        element("figure", drawn, caption),
        missing if drawn is None else None,
        numbers if drawn is None else more("As a table", numbers),
    )


def _maps(found: GraphFinding, seen: PageEvidence) -> Markup | None:
    if not seen.maps:
        return None
    drawings = [
        joined(
            element("h3", _named(found, heat.name)), element("div", heat_map.drawn(heat), class_="scroll", tabindex=0)
        )
        for heat in seen.maps
    ]
    told = (
        "The error of each element over what is allowed: ✓ is within, +3 is a thousand times too far off, ∞ is not "
        "finite, ? could not be told."
    )
    return section("Where it is wrong", *drawings, element("p", told, class_="soft"))


def _blame(found: GraphFinding) -> Markup | None:
    if not found.nodes:
        return None
    names = variables(found.graph)
    rows = [_own(found, node, names) for node in found.nodes]
    head = ("", "operation", "own derivative", "autodiff #", "difference #", "error bound #")
    told = (
        "Every operation alone, at its actual arguments, under random weights of its own, at its worst element. The "
        "first that is wrong is the culprit."
    )
    if not any(node.verdict.startswith(WRONG) for node in found.nodes):
        told += " Here none is: the fault lies in how they are put together."
    return section("Blame", element("p", told, class_="soft"), table(head, rows))


def _own(found: GraphFinding, node: NodeCheck, names: list[str]) -> Markup:
    text = expression(found.graph.nodes[node.position - len(found.graph.inputs)], names)
    word, _, detail = node.verdict.partition(": ")
    kind = "right" if word.startswith("agree") else "wrong" if word == WRONG else "doubt"
    culprit = node.position == found.position
    return row(
        names[node.position],
        words(element("code", text)),
        words(badge(word, kind), " culprit" if culprit else "", element("br") if detail else None, detail),
        *(
            number(_number(value, digits))
            for value, digits in ((node.autodiff, 12), (node.difference, 12), (node.bound, 3))
        ),
        kind="culprit" if culprit else None,
    )


def _reproduction(found: GraphFinding, confirmation: Confirmation | None) -> Markup:
    output: list[object] = []
    if confirmation is not None:
        code = "no exit code" if confirmation.returncode is None else f"exit code {confirmation.returncode}"
        output = [element("h3", f"Its output in a fresh process, {code}"), text_block(confirmation.output)]
    return section(
        "Reproduce it",
        element("p", "Needs TensorFlow and NumPy only. Exit code 1: still wrong; 0: right; 2: cannot tell."),
        more(f"{found.name}.py", text_block(found.script, long=True), open_=True),
        *output,
        more("As text for TensorFlow's issue form", text_block(issue_form(found, confirmation))),
    )


def _environment(found: GraphFinding) -> Markup | None:
    if found.environment is None:
        return None
    return section("Environment", pairs((name, element("code", value)) for name, value in found.environment.rows()))


def _named(found: GraphFinding, place: str) -> str:
    """An element by its variable in the script: `x2[0, 1]` for `input 1[0, 1]`."""
    names = variables(found.graph)[: len(found.graph.inputs)]
    match = INPUT.match(place)
    return names[int(match[1])] + place[match.end() :] if match and int(match[1]) < len(names) else place


def _number(value: float | None, digits: int = 6) -> str:
    return "–" if value is None else f"{value:.{digits}g}"
