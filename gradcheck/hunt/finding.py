"""A wrong derivative of TensorFlow that the hunt has found: all that a report needs, as immutable data."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.records import Signature
from gradcheck.documents import Order
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.report.environment import Environment
from gradcheck.hunt.script import to_python
from gradcheck.result import Finding, Kind, Verdict


@dataclass(frozen=True)
class Example:
    """The gradient of sum(cotangent * output), or the Hessian times `direction` (order 2), taken in a mode."""

    graph: Graph
    order: int
    cotangent: Input
    direction: tuple[Input, ...] = ()
    taken: Mode = PLAIN


@dataclass(frozen=True)
class NodeCheck:
    """A node's own derivative, checked at its actual arguments: the worst element, where there is one."""

    position: int
    verdict: str
    autodiff: float | None = None
    difference: float | None = None
    bound: float | None = None


@dataclass(frozen=True)
class ElementCheck:
    """A coordinate of the derivative as the trial compared it; it may be off by `allowed` before that is noticed."""

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
class StepCurve:
    """Plain central difference `quotients` of one coordinate of the derivative at `steps`, widest first."""

    coordinate: int
    steps: tuple[float, ...]
    quotients: tuple[float, ...]


@dataclass(frozen=True)
class GraphFinding:
    """A minimal graph whose derivative is wrong.

    `findings` has the most severe kind first; `culprit` is the catalogue operation at `position`, the first with a
    wrong derivative of its own (the whole graph's output where no node alone is wrong). `description` says in a few
    words what is special about its arguments. `cotangent` has the output's shape; `direction` (order 2) one literal an
    input. `values` are those at all positions, `nodes` what blaming found, `elements` the coordinates that the
    trial compared one by one, `curve` the step-size curve of the worst of them; all of these may be left out.

    >>> from gradcheck.hunt.graph import Node
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
    environment: Environment | None = None
    values: tuple[Input, ...] = ()
    nodes: tuple[NodeCheck, ...] = ()
    elements: tuple[ElementCheck, ...] = ()
    curve: StepCurve | None = None
    path: str = "reverse"
    mode: str = "eager"

    def __post_init__(self) -> None:
        if not self.findings:
            raise ValueError("a finding without a wrong element was given; it needs at least one")

    @property
    def signature(self) -> Signature:
        """The operation, the order, how the derivative was taken and what is wrong with it; no value of the example."""
        return Signature(self.culprit, self.order, self.findings[0].kind, self.path, self.mode)

    @property
    def name(self) -> str:
        """A name for files that depends on the signature only: the same finding has the same name every night."""
        same = self.signature
        taken = "" if same.taken == PLAIN else f"{same.taken} "
        words = re.sub(r"[^a-z0-9_]+", "-", f"{taken}{same.operation} order{same.order} {same.kind}".lower())
        full = "|".join((same.operation, str(same.order), same.path, same.mode, same.kind))
        return f"{words[:80].strip('-')}-{hashlib.sha256(full.encode()).hexdigest()[:6]}"

    @property
    def where(self) -> str:
        """What is special about the culprit's arguments, in parentheses; nothing if nothing is."""
        return "" if self.description == "none" else f" ({self.description})"

    @property
    def taken(self) -> Mode:
        """How the derivative was taken."""
        return Mode(self.path, self.mode)

    @property
    def example(self) -> Example:
        """The derivative that is wrong."""
        return Example(self.graph, self.order, self.cotangent, self.direction, self.taken)

    @property
    def script(self) -> str:
        """The reproduction script: TensorFlow and NumPy only."""
        return to_python(
            self.graph,
            self.order,
            self.cotangent,
            self.direction or None,
            title=f"{self.culprit}: {self.findings[0].kind} at order {self.order}{self.where}.",
            one_sided=self.findings[0].kind is Kind.SUBDIFFERENTIAL,
            mode=self.taken,
        )
