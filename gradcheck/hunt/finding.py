"""A wrong derivative of TensorFlow that the hunt has found: all that a report needs, as immutable data."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.records import Signature
from gradcheck.documents import Order
from gradcheck.graph import Graph, Input
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.script import to_python
from gradcheck.result import Finding, Kind, Reason, Verdict
from gradcheck.step_curve import StepCurve

EAGER_TAPE = "an eager tape"
"""Begins what a finding in another mode says of the plain one, at the end of its reason."""
LOST_DIGITS = {Reason.ILL_CONDITIONED, Reason.TOO_COARSE}
"""The reasons for which a node's own derivative may be wrong and is not seen to be."""


@dataclass(frozen=True)
class Example:
    """The gradient of sum(cotangent * output), or the Hessian times `direction` (order 2), taken in a mode."""

    graph: Graph
    order: int
    cotangent: Input
    direction: tuple[Input, ...] = ()
    taken: Mode = PLAIN

    def script(self, title: str, *, one_sided: bool) -> str:
        """The reproduction script, which needs TensorFlow and NumPy only; `one_sided`: the finding is at a kink."""
        return to_python(
            self.graph,
            self.order,
            self.cotangent,
            self.direction or None,
            title=title,
            one_sided=one_sided,
            mode=self.taken,
        )


@dataclass(frozen=True)
class NodeCheck:
    """A node's own derivative, checked at its actual arguments: the worst element, where there is one.

    `detail` says what was raised, or why the comparison is inconclusive, in whole or beside a wrong element.
    """

    position: int
    verdict: Verdict
    autodiff: float | None = None
    difference: float | None = None
    bound: float | None = None
    detail: str = ""

    @property
    def lost_digits(self) -> bool:
        """Whether it is inconclusive, since too many digits are lost to judge it."""
        return self.verdict == Verdict.INCONCLUSIVE and not LOST_DIGITS.isdisjoint(self.detail.split(", "))


@dataclass(frozen=True)
class ElementCheck:
    """One coordinate of the derivative, as the trial compared it; an error of up to `allowed` is not noticed."""

    coordinate: int
    verdict: Verdict
    autodiff: float
    difference: float
    bound: float
    allowed: float

    @property
    def excess(self) -> float:
        """The error over what is allowed; infinite where autodiff is not finite, 0 where inconclusive."""
        if self.verdict == Verdict.INCONCLUSIVE:
            return 0.0
        gap = abs(self.autodiff - self.difference)
        ratio = gap / self.allowed if self.allowed else gap and math.inf
        return math.inf if math.isnan(ratio) else ratio


@dataclass(frozen=True)
class GraphFinding:
    """A minimal graph whose derivative is wrong.

    `findings` has the most severe kind first; `culprit` is the catalogue operation at `position`, the first with a
    wrong derivative of its own (the whole graph's output where no node alone is wrong). `description` says in a few
    words what is special about its arguments. `cotangent` has the output's shape; `direction` (order 2) one literal per
    input. `values` are those at all positions, `nodes` what blaming found, `elements` the coordinates that the
    trial compared one by one, `curve` the step-size curve of the worst of them, `confirmation` what the script did in
    a fresh process; all of these may be left out.

    >>> from gradcheck.graph import Node
    >>> graph = Graph((Input((1,), (0.0,)),), (Node.of("sin", 0),))
    >>> wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "2 instead of 1")
    >>> GraphFinding(graph, 1, (wrong,), "sin", 1, "zero in argument 0", Input((1,), (1.0,))).name
    'sin-order1-wrong-value-95ab20'
    """

    graph: Graph
    order: Order
    findings: tuple[Finding, ...]
    culprit: str
    position: int
    description: str
    cotangent: Input
    direction: tuple[Input, ...] = ()
    taken: Mode = PLAIN
    environment: Environment | None = None
    values: tuple[Input, ...] = ()
    nodes: tuple[NodeCheck, ...] = ()
    elements: tuple[ElementCheck, ...] = ()
    curve: StepCurve | None = None
    confirmation: Confirmation | None = None

    def __post_init__(self) -> None:
        if not self.findings:
            raise ValueError("a finding without a wrong element was given; it needs at least one")

    @property
    def kind(self) -> Kind:
        """The most severe kind of mismatch."""
        return self.findings[0].kind

    @property
    def error(self) -> str:
        """The exception that was raised, with its type; empty if none was."""
        return self.findings[0].reason if self.kind is Kind.RAISES else ""

    @property
    def worst(self) -> Finding:
        """Of the findings of the most severe kind, the one that is the furthest over what is allowed."""
        return max((one for one in self.findings if one.kind is self.kind), key=lambda one: excess(one) or 0.0)

    @property
    def signature(self) -> Signature:
        """The operation, the order, how the derivative was taken and what is wrong with it; no value of the example."""
        return Signature(self.culprit, self.order, self.kind, self.taken.path, self.taken.mode)

    @property
    def name(self) -> str:
        """A name for files that depends on the signature only: the same finding has the same name every night."""
        taken = "" if self.taken == PLAIN else f"{self.taken} "
        full = "|".join((self.culprit, str(self.order), self.taken.path, self.taken.mode, self.kind))
        return file_name(f"{taken}{self.culprit} order{self.order} {self.kind}", full)

    @property
    def beside(self) -> str:
        """The verdict on the derivative by an eager tape, of a finding in another mode; empty for other findings."""
        last = self.findings[0].reason.rpartition("; ")[2]
        return last if self.taken != PLAIN and last.startswith(EAGER_TAPE) else ""

    @property
    def where(self) -> str:
        """The special property of the culprit's arguments, in parentheses; empty if there is none."""
        return "" if self.description == "none" else f" ({self.description})"

    @property
    def example(self) -> Example:
        """The derivative that is wrong."""
        return Example(self.graph, self.order, self.cotangent, self.direction, self.taken)

    @property
    def script(self) -> str:
        """The reproduction script: TensorFlow and NumPy only."""
        title = f"{self.culprit}: {self.kind} at order {self.order}{self.where}."
        return self.example.script(title, one_sided=self.kind is Kind.SUBDIFFERENTIAL)


def excess(finding: Finding) -> float | None:
    """The error over what is allowed; None where one of them is missing or not finite."""
    if finding.autodiff is None or finding.difference is None or not finding.allowed:
        return None
    ratio = abs(finding.autodiff - finding.difference) / finding.allowed
    return None if math.isnan(ratio) else ratio


def summary_line(found: GraphFinding, files: Iterable[Path | str]) -> dict[str, Any]:
    """A finding's row in tables, with the files that describe it, as plain data that a worker can send."""
    line = {"operation": found.culprit, "order": found.order, "kind": found.kind.value}
    return {**line, "files": [str(path) for path in files], "name": found.name}


def file_name(words: str, identity: str = "") -> str:
    """Plain words for the name of a file, ending in six digits that depend on all of the `identity` (or the words)."""
    plain = re.sub(r"[^a-z0-9_]+", "-", words.lower())
    return f"{plain[:80].strip('-')}-{hashlib.sha256((identity or plain).encode()).hexdigest()[:6]}"
