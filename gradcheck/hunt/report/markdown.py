"""The Markdown report of a discovery, for the person who will correct the formula."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph import Input
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.hunt.report.sentence import sentence
from gradcheck.hunt.script import expression, variables
from gradcheck.result import Finding

SHOWN = 12
MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~])")


def markdown(discovery: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The whole report: verdict, graph with values, comparison, every node's own derivative, environment, script."""
    sections = [
        f"# {escape(discovery.culprit)}: {escape(discovery.signature.kind.value)} at order {discovery.order}",
        verdict(discovery, confirmation),
        "## Graph\n\n" + _fenced("\n".join(graph_lines(discovery))),
        "## Comparison\n\n" + _findings(discovery.findings),
    ]
    if discovery.nodes:
        sections.append("## Blame: every node's own derivative at its actual arguments\n\n" + _blame(discovery))
    if discovery.environment is not None:
        rows = [(name, f"`{_code(value)}`") for name, value in discovery.environment.rows()]
        sections.append("## Environment\n\n" + _table(("", ""), rows))
    sections.append(
        "## Reproduction\n\nNeeds TensorFlow and NumPy only. Exit code 1: still wrong; 0: right; 2: cannot tell.\n\n"
        + _fenced(discovery.script, "python")
    )
    if confirmation is not None:
        how = "Exit code" if confirmation.returncode is not None else "No exit code"
        code = "" if confirmation.returncode is None else f" {confirmation.returncode}"
        sections.append(f"## Output in a fresh process\n\n{how}{code}.\n\n" + _fenced(confirmation.output))
    sections.append(f"Report `{discovery.name}`, written by gradcheck; reports/README.md says how to read it.")
    return "\n\n".join(sections) + "\n"


def verdict(discovery: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The verdict in one sentence."""
    return sentence(discovery, confirmation, text=escape, code=lambda name: f"`{_code(name)}`")


def graph_lines(discovery: GraphFinding) -> list[str]:
    """The graph as text, one position a line, with values where the discovery has them."""
    graph, names, lines = discovery.graph, variables(discovery.graph), []
    for position, value in enumerate(graph.inputs):
        lines.append(f"{names[position]} = {value.dtype}{list(value.shape)} {numbers(value)}")
    for position, node in graph.positions():
        value_text = f"   # {numbers(discovery.values[position])}" if position < len(discovery.values) else ""
        culprit = "   <- culprit" if position == discovery.position else ""
        lines.append(f"{names[position]} = {expression(node, names)}{value_text}{culprit}")
    lines.append(f"differentiated: sum(w * {names[-1]}) with w = {numbers(discovery.cotangent)}")
    if discovery.order == 2:
        lines += [
            f"direction of {name}: {numbers(vector)}" for name, vector in zip(names, discovery.direction, strict=False)
        ]
    return lines


def numbers(value: Input) -> str:
    """A literal tensor's elements, at most twelve of them."""
    texts = [f"{x:.17g}" if isinstance(x, float) else str(x) for x in value.values[:SHOWN]]
    more = f", … {len(value.values) - SHOWN} more" if len(value.values) > SHOWN else ""
    return f"[{', '.join(texts)}{more}]"


def over(finding: Finding) -> str:
    """How far off a value is, in units of what is allowed."""
    ratio = excess(finding)
    return "-" if math.isnan(ratio) else f"{ratio:.3g} times"


def excess(finding: Finding) -> float:
    """The error over what is allowed; NaN where one of them is missing or not finite."""
    if finding.autodiff is None or finding.difference is None or not finding.allowed:
        return math.nan
    return abs(finding.autodiff - finding.difference) / finding.allowed


def escape(text: str) -> str:
    """Text from outside, harmless in Markdown and HTML, on one line."""
    return MARKS.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


def _findings(findings: Sequence[Finding]) -> str:
    head = ("kind", "input", "element", "autodiff", "difference", "error bound", "allowed", "off by", "reason")
    rows = [
        (
            finding.kind.value,
            escape(finding.input),
            "-" if finding.index is None else str(list(finding.index)).replace("[", "\\[").replace("]", "\\]"),
            _number(finding.autodiff),
            _number(finding.difference),
            _number(finding.bound, 3),
            _number(finding.allowed, 3),
            over(finding),
            escape(finding.reason),
        )
        for finding in findings
    ]
    return _table(head, rows)


def _blame(discovery: GraphFinding) -> str:
    first = len(discovery.graph.inputs)
    rows = [
        (
            str(node.position),
            f"`{_code(discovery.graph.nodes[node.position - first].op)}`",
            escape(node.verdict) + (" (culprit)" if node.position == discovery.position else ""),
            _number(node.autodiff),
            _number(node.difference),
            _number(node.bound, 3),
        )
        for node in discovery.nodes
    ]
    return _table(("position", "operation", "own derivative", "autodiff", "difference", "error bound"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def _number(value: float | None, digits: int = 17) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def _fenced(text: str, language: str = "text") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
