"""A finding in words, in Markdown, as TensorFlow's issue form asks for it, and as an HTML page that loads nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck.autodiff.coordinates import coordinate_count, element_of, is_complex
from gradcheck.autodiff.mode import PLAIN
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.report.confirmation import Confirmation
from gradcheck.hunt.report.drawing import drawing
from gradcheck.hunt.report.rendering import excess, number, render
from gradcheck.hunt.report.step_curve import plot
from gradcheck.hunt.script import expression, variables
from gradcheck.result import Finding, Kind, Verdict

SHOWN = 12
INPUT = re.compile(r"input (\d{1,3})")
ORDINAL = {1: "first", 2: "second"}
COMPLAINT = {
    Kind.RAISES: "throws, although the function is computed",
    Kind.SHAPE: "has the wrong shape or dtype",
    Kind.MISSING: "is None, although the function depends on the input",
    Kind.PARTIAL: "lacks a part of the dependence",
    Kind.NON_FINITE: "is not finite at a point where the function is smooth",
    Kind.WRONG_VALUE: "has a wrong value",
    Kind.SUBDIFFERENTIAL: "lies outside the one-sided derivatives at a kink",
    Kind.UPDATE: "is not what a variable moves by",
    Kind.MODES: "depends on how TensorFlow runs it",
}
Sentence = list[tuple[str, bool]]
"""Parts of a sentence, and whether each is code."""


@dataclass(frozen=True)
class NodeRow:
    """A node's own derivative, as tables show it: with its variable and its source text."""

    check: NodeCheck
    name: str
    text: str
    is_culprit: bool

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return self.check.verdict.partition(": ")[0]

    @property
    def detail(self) -> str:
        """What was raised, where anything was."""
        return self.check.verdict.partition(": ")[2]

    @property
    def is_wrong(self) -> bool:
        """Whether the node is wrong by itself."""
        return self.verdict == Verdict.MISMATCH

    @property
    def colour(self) -> str:
        """The kind of its badge."""
        return "right" if self.verdict == Verdict.AGREE else "wrong" if self.is_wrong else "doubt"


def sentence(found: GraphFinding, confirmation: Confirmation | None = None) -> Sentence:
    """The verdict, with the names of operations and of registered gradients as code.

    >>> from gradcheck.hunt.graph import Node
    >>> from gradcheck.result import Finding
    >>> one = Input((1,), (1.0,))
    >>> wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "")
    >>> parts = sentence(GraphFinding(Graph((one,), (Node.of("sin", 0),)), 1, (wrong,), "sin", 1, "none", one))
    >>> "".join(text for text, is_code in parts)[:55]
    'In TensorFlow, the first derivative of sin has a wrong '
    """
    release = f"TensorFlow {found.environment.tensorflow}" if found.environment else "TensorFlow"
    taken = "" if found.taken == PLAIN else f", taken as {found.taken},"
    functions = CATALOGUE[found.culprit].gradients if found.culprit in CATALOGUE else ()
    parts = [(f"In {release}, the {ORDINAL[found.order]} derivative of ", False), (found.culprit, True)]
    parts.append((f"{found.where}{taken} {COMPLAINT[found.signature.kind]}", False))
    for place, name in enumerate(functions):
        before = ", " if place else "; its backward pass uses the gradient registered for "
        parts += [(before, False), (name, True)]
    sure = ""
    if confirmation is not None:
        sure = " A fresh process confirms it." if confirmation.confirmed else " A fresh process did not confirm it."
    return [*parts, (f".{sure}", False)]


def markdown(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The Markdown report: verdict, graph with values, comparison, every node's own derivative, script, environment."""
    return render("finding.md.j2", **view(found, confirmation))


def issue_form(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The fields of TensorFlow's issue form with their answers, in its order; what only a person can know says so.

    The fields are those of .github/ISSUE_TEMPLATE/tensorflow_issue_template.yaml in TensorFlow's repository.
    """
    values = {**view(found, confirmation), "verdict": sentence(found), "machine": found.environment}
    ordinal = ORDINAL[found.order].capitalize()
    return render("issue_form.txt.j2", **values, ordinal=ordinal, ask="(please fill in)")


def text(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The full finding for a terminal: verdict, graph, comparison and script."""
    lines = ["".join(part for part, _ in sentence(found, confirmation)), ""]
    lines += [*(f"  {line}" for line in graph_lines(found)), ""]
    for wrong in found.findings:
        lines.append(
            f"  {wrong.kind}, {element_name(found.graph, wrong.element)}: autodiff {wrong.autodiff}, finite-difference "
            f"estimate {wrong.difference} ± {wrong.bound}, allowed error {wrong.allowed}, error / allowed "
            f"{number(excess(wrong), 3)}: {wrong.reason}"
        )
    lines += ["", f"report {found.name}; script:", "", found.script]
    return "\n".join(lines)


def properties(found: GraphFinding, confirmation: Confirmation | None = None) -> tuple[tuple[str, str], ...]:
    """Pairs of name and value for pytest's record_property, all texts; what a finding has no value for is left out."""
    worst, signature = found.findings[0], found.signature
    pairs = {
        "name": found.name,
        "operation": signature.operation,
        "order": signature.order,
        "kind": signature.kind,
        "description": found.description,
        "path": signature.path,
        "mode": signature.mode,
        "element": worst.element,
        "autodiff": worst.autodiff,
        "difference": worst.difference,
        "bound": worst.bound,
        "allowed": worst.allowed,
        "cause": None if worst.diagnosis is None else worst.diagnosis.cause,
        "remedy": None if worst.diagnosis is None else worst.diagnosis.remedy,
        "tensorflow": None if found.environment is None else found.environment.tensorflow,
        "confirmed": None if confirmation is None else str(confirmation.confirmed).lower(),
    }
    return tuple((f"gradcheck.{name}", str(value)) for name, value in pairs.items() if value is not None)


def view(found: GraphFinding, confirmation: Confirmation | None) -> dict[str, Any]:
    """What the templates of a finding have in common."""
    names, places = variables(found.graph), element_names(found.graph)
    first = len(found.graph.inputs)
    return {
        "found": found,
        "confirmation": confirmation,
        "kind": found.signature.kind,
        "verdict": sentence(found, confirmation),
        "graph_text": "\n".join(graph_lines(found)),
        "compared": any(wrong.difference is not None for wrong in found.findings),
        "elements": [(places[element.coordinate], element) for element in found.elements],
        "named": lambda place: element_name(found.graph, place),
        "nodes": [
            NodeRow(
                node,
                names[node.position],
                expression(found.graph.nodes[node.position - first], names),
                node.position == found.position,
            )
            for node in found.nodes
        ],
    }


def worst(found: GraphFinding) -> Finding:
    """Of the findings of the most severe kind, the one that is the furthest over what is allowed."""
    same = [wrong for wrong in found.findings if wrong.kind is found.findings[0].kind]
    return max(same, key=lambda wrong: excess(wrong) or 0.0)


def graph_lines(found: GraphFinding) -> list[str]:
    """The graph as text, one position a line, with values where the finding has them."""
    graph, names, lines = found.graph, variables(found.graph), []
    for position, value in enumerate(graph.inputs):
        lines.append(f"{names[position]} = {value.dtype}{list(value.shape)} {numbers(value)}")
    for position, node in graph.positions():
        value_text = f"   # {numbers(found.values[position])}" if position < len(found.values) else ""
        culprit = "   <- culprit" if position == found.position else ""
        lines.append(f"{names[position]} = {expression(node, names)}{value_text}{culprit}")
    lines.append(f"differentiated: sum(w * {names[-1]}) with w = {numbers(found.cotangent)}")
    if found.order == 2:
        pairs = zip(names, found.direction, strict=False)
        lines += [f"direction of {name}: {numbers(vector)}" for name, vector in pairs]
    return lines


def numbers(value: Input) -> str:
    """A literal tensor's elements, at most twelve of them."""
    texts = [number(x, None) for x in value.values[:SHOWN]]
    more = f", … {len(value.values) - SHOWN} more" if len(value.values) > SHOWN else ""
    return f"[{', '.join(texts)}{more}]"


def element_name(graph: Graph, place: str) -> str:
    """An element by its variable in the script: `x2[0, 1]` for `input 1[0, 1]`."""
    names = variables(graph)[: len(graph.inputs)]
    match = INPUT.match(place)
    return names[int(match[1])] + place[match.end() :] if match and int(match[1]) < len(names) else place


def element_names(graph: Graph) -> list[str]:
    """The names of all coordinates of a graph's inputs."""
    names = []
    for name, value in zip(variables(graph), graph.inputs, strict=False):
        for coordinate in range(coordinate_count(value.shape, value.dtype)):
            index, part = element_of(coordinate, value.shape, value.dtype)
            names.append(f"{name}{list(index) if index else ''}{part}")
    return names


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
