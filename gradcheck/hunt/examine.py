"""Checks and counts a drawn graph for a property test, and raises a mismatch as a class of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property

from hypothesis import event, target
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.records import Defect
from gradcheck.graph import Graph
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.coverage import CANNOT_RUN, COMPOSED, INVALID, KINK, Coverage
from gradcheck.hunt.evidence import NodeTrials, completed, finding_of, node_trials
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.known_graphs import match
from gradcheck.hunt.off_kinks import moved
from gradcheck.hunt.trial import Trial
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.verdict.failure import FAILURES, GradientMismatch


class Found(GradientMismatch):
    """A mismatch in a drawn graph; its report is written from `finding`, which is completed when it is asked for."""

    found: GraphFinding
    node_trial: NodeTrials
    defects: Sequence[Defect] | None

    @cached_property
    def finding(self) -> GraphFinding:
        """The finding, moved off kinks where it is wrong there, too, with all that its report shows."""
        found = moved(self.found, self.node_trial, self.defects)
        monitor.current().before(lambda: found.graph)
        return completed(found, self.node_trial)


@contextmanager
def drawing(operation: str, order: int, coverage: Coverage) -> Iterator[None]:
    """A context for drawing a graph as an example of `operation`: counts a rejected one as invalid."""
    monitor.current().begin(operation, order)
    try:
        yield
    except UnsatisfiedAssumption:
        coverage.count(operation, order, verdict=INVALID)
        raise


def examine(
    graph: Graph,
    order: int,
    coverage: Coverage,
    *,
    operation: str,
    defects: Sequence[Defect] | None = None,
    mode: Mode = PLAIN,
) -> Trial | None:
    """Checks a graph at one order in a mode, and counts the verdict as an example of `operation`.

    Call it inside a Hypothesis test, whose search it steers towards larger errors, by log10(error / allowed). Raises a
    subclass of Found that is made for the kind, the culprit and the order, unless the mismatch has the signature of one
    of the known `defects` (those of the installed TensorFlow, if None).

    Returns None for a graph that the monitor skips because the time is up.
    """
    now = monitor.current()
    if now.passes_over(graph):
        return None
    now.begin(operation, order, mode)
    now.before(lambda: graph)
    checked = trial.run(graph, (order,), mode=mode)
    if 0 < checked.error_ratio < math.inf:
        target(math.log10(checked.error_ratio), label=f"log10(error / allowed) at order {order}")
    verdict = outcome(checked, order)
    coverage.count(operation, order, verdict=verdict)
    event("verdict", verdict)
    now.resolve(checked.result.orders[order].relative_resolution)
    if verdict == Verdict.MISMATCH:
        node_trial = node_trials(checked.problem.mode)
        found = finding_of(checked, order, node_trial)
        if match(found, defects=defects) is None:
            made = failure_class(found.findings[0].kind, found.culprit, order, found.taken)
            failure = made(f"{checked.result}\n{graph}", checked.result)
            failure.found, failure.node_trial, failure.defects = found, node_trial, defects
            now.fail(graph, failure)
            raise failure from None
    return checked


def outcome(checked: Trial, order: int) -> str:
    """The outcome to count: the verdict, or agreement at a kink, a composed kink, or a mode that cannot run."""
    result, kinks = checked.result.orders[order], checked.problem.nonsmooth_nodes.kinks
    if result.verdict == Verdict.INCONCLUSIVE and Reason.COMPOSED_KINK in result.reasons:
        return COMPOSED
    if Reason.CANNOT_RUN in result.reasons:
        return CANNOT_RUN
    if set(result.reasons) == {Reason.HIGHER_KINK} or (kinks and result.verdict == Verdict.AGREE):
        return KINK
    return result.verdict


@cache
def failure_class(kind: Kind, culprit: str, order: int, mode: Mode) -> type[Found]:
    """The class of exceptions of a kind, an operation, an order and a mode; the same each time.

    Hypothesis takes two failures for the same if their class and line agree, and would shrink one into the other.
    """
    base = FAILURES[kind]
    suffix = "" if mode == PLAIN else f" ({mode})"
    return type(f"{base.__name__}_{culprit}_order{order}{suffix}", (Found, base), {"__module__": __name__})
