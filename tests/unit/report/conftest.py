"""A finding to write about, with everything that a report can hold."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck.finding import Cause, Diagnosis, Finding, Kind, Place
from gradcheck.graphs.graph import Graph, Input, Node
from gradcheck.report.confirm import Confirmation
from gradcheck.report.discovery import Discovery, NodeCheck, literal
from gradcheck.report.environment import Environment
from gradcheck.report.reading import Report

MACHINE = Environment("2.21.0", "2.0", "3.11", "0.1.0", "0", "2", 1, 1, "a processor", "Linux", "7")


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
    return Report(
        Discovery(
            graph,
            1,
            (wrong,),
            "cumprod",
            2,
            "zero in argument 0",
            literal(np.ones(2)),
            environment=MACHINE,
            values=(literal([0.0, 2.0]), literal([0.0, np.sin(2.0)]), literal([0.0, np.inf])),
            nodes=(NodeCheck(1, "agree", 1.0, 1.0, 1e-12), NodeCheck(2, "mismatch", float("nan"), 9.0, 2e-12)),
        ),
        Confirmation(1, "x[0] nan 9 <- wrong\nWRONG"),
    )
