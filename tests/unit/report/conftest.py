"""A finding with everything that a report can hold, and a strict reader of pages."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest

from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck
from gradcheck.hunt.json_report import Report
from gradcheck.result import Cause, Diagnosis, Finding, Kind, Place, Verdict
from gradcheck.step_curve import StepCurve
from tests.machine import MACHINE


@pytest.fixture
def machine() -> Environment:
    return MACHINE


@pytest.fixture
def report() -> Report:
    """cumprod of a zero, with sin before it: order 1, two elements, a diagnosis, values, blame and confirmation."""
    graph = Graph(
        (Input((2,), (0.0, 2.0)),), (Node.of("sin", 0), Node.of("cumprod", 1, exclusive=False, reverse=False))
    )
    why = Diagnosis(
        Cause.CUSTOM_GRADIENT, "the formula divides by x", "write it anew", Place("a.py", 3, "y = f(x)"), 9.0
    )
    wrong = Finding(
        Kind.NON_FINITE, 1, "x", (0,), None, float("nan"), 9.0, 2e-12, 3e-11, "NaN instead of 9", why, "x[1]"
    )
    return Report.of(
        GraphFinding(
            graph,
            1,
            (wrong,),
            "cumprod",
            2,
            "zero in argument 0",
            literal(np.ones(2)),
            environment=MACHINE,
            values=(literal([0.0, 2.0]), literal([0.0, np.sin(2.0)]), literal([0.0, np.inf])),
            elements=(
                ElementCheck(0, Verdict.MISMATCH, float("nan"), 9.0, 2e-12, 3e-11),
                ElementCheck(1, Verdict.AGREE, 0.0, 0.0, 1e-15, 1e-14),
            ),
            curve=StepCurve(0, (1.0, 0.1, 0.01), (10.0, 9.1, 9.01)),
            nodes=(
                NodeCheck(1, Verdict.AGREE, 1.0, 1.0, 1e-12),
                NodeCheck(2, Verdict.MISMATCH, float("nan"), 9.0, 2e-12),
            ),
            confirmation=Confirmation(1, "x[0] nan 9 <- wrong\nWRONG"),
        )
    )


VOID = {"meta", "br"}


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text; every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words, spaces and line ends as single spaces."""
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every element of a name."""
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="session")
def parsed() -> Callable[[str], Page]:
    """Reads a page, or a part of one."""
    return Page
