"""The pages of a whole run, in HTML and Markdown: findings, known defects, what was tested and how sharply."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from gradcheck.defects.records import ABSENT, CONVENTION, DEFECT, LIMITATION, version_of
from gradcheck.hunt.coverage import ENOUGH, table
from gradcheck.hunt.events import KnownReplayed, State
from gradcheck.hunt.report.finding_page import sentence
from gradcheck.hunt.report.gradient_reach import RunReach
from gradcheck.hunt.report.rendering import counted, render
from gradcheck.hunt.report.run import Grade, HuntRun, Reach, reaches
from gradcheck.operations.catalogue import CATALOGUE

LeftOut = Mapping[tuple[str, int], str]
"""Maps (operation, order) to the known defect that excludes all its uses."""

SIGNS = {Grade.GREEN: "✓", Grade.YELLOW: "~", Grade.RED: "✗", Grade.KNOWN: "K", Grade.NONE: "·"}
MEANINGS = {
    Grade.GREEN: f"tested: {ENOUGH} comparisons or more",
    Grade.YELLOW: "hardly tested",
    Grade.RED: "never compared",
    Grade.KNOWN: "left out, known to be wrong everywhere",
    Grade.NONE: "not asked for, or no derivative of this order",
}
COLOURS = {State.STILL: "known", State.CANNOT_TELL: "doubt", State.FIXED: "right"}
UNENDED = "This run is still going on, or was killed: here is what it had found when this was written."
CLASSES = {
    DEFECT: "known defects",
    LIMITATION: "documented limitations",
    ABSENT: "derivatives that are not implemented",
    CONVENTION: "conventions",
}
"""The plural names of the classes of records."""
SHOWN = 40
LOWEST, HIGHEST = -16, 0
"""Resolutions below or above these powers of ten are counted at them."""


def run_page(
    run: HuntRun,
    left_out: LeftOut | None = None,
    reach: RunReach | None = None,
    linked: Collection[str] = (),
    without_page: Mapping[str, str] | None = None,
) -> str:
    """The HTML page; findings link to the pages `<name>.html` beside it, known defects to `known.html` if `linked`.

    Findings in `without_page`, which gives the reason, link to their JSON.

    Imports no TensorFlow.
    """
    reached, releases = reaches(run, left_out), sorted({each.release for each in run.known}, key=_version)
    states = {(each.name, each.release): each for each in run.known}
    known = {name: [states.get((name, release)) for release in releases] for name in sorted({n for n, _ in states})}
    changed = {name for name, row in known.items() if any(each and each.state is not State.STILL for each in row)}
    families: dict[str, list[list[Reach]]] = {}
    for operation, orders in groupby(reached, key=lambda each: each.operation):
        families.setdefault(CATALOGUE[operation].family, []).append(list(orders))
    return render(
        "run.html.j2",
        **_view(run, reached),
        releases=releases,
        classes={each.name: each.category for each in run.known if each.category != DEFECT},
        changed=[(name, row) for name, row in known.items() if name in changed],
        unchanged=[(name, row) for name, row in known.items() if name not in changed],
        families=families,
        resolutions=list(_resolutions(reached)),
        machines=sorted({each.environment.rows() for each in run.started}),
        signs=SIGNS,
        meanings=MEANINGS,
        colours=COLOURS,
        shown=SHOWN,
        counted=counted,
        reach=reach,
        linked=linked,
        without_page=without_page or {},
    )


def summary(run: HuntRun, left_out: LeftOut | None = None) -> str:
    """The Markdown page, such as for the summary that GitHub shows of a step. Imports no TensorFlow."""
    news = [each for each in run.known if each.state is not State.STILL]
    return render("run.md.j2", **_view(run, reaches(run, left_out)), news=news, table=table(run.coverage))


def headline(run: HuntRun) -> str:
    """The outcome in a few words."""
    parts = [counted(len(run.findings), "new finding")] if run.findings else ["No new finding"]
    parts += [counted(len(run.crashes), "crash", "crashes")] if run.crashes else []
    parts += [counted(len(run.hangs), "hang")] if run.hangs else []
    fixed = sum(latest(run)[each, State.FIXED] for each in CLASSES)
    parts += [f"{fixed} known fixed"] if fixed else []
    return ", ".join(parts)


def examples(run: HuntRun) -> int:
    """The examples that all processes checked, those of processes that were killed included."""
    return max(sum(sum(done.counts.values()) for done in run.operations), sum(each.examples for each in run.finished))


def rate(run: HuntRun) -> float | None:
    """Examples per second of a process: all examples over the total time of all processes."""
    seconds = sum(each.seconds for each in run.finished)
    return sum(each.examples for each in run.finished) / seconds if seconds > 0 else None


def latest(run: HuntRun) -> Counter[tuple[str, State]]:
    """The number of records of each class in each state, on the newest release that each was tried on."""
    newest: dict[str, KnownReplayed] = {}
    for each in sorted(run.known, key=lambda each: _version(each.release)):
        newest[each.name] = each
    return Counter((each.category, each.state) for each in newest.values())


def _view(run: HuntRun, reached: Sequence[Reach]) -> dict[str, Any]:
    """The values that both templates take; `tested` has for each order how many operations were tested, and how many
    should have been."""
    weak = [each for each in reached if each.grade in (Grade.RED, Grade.YELLOW)]
    grades = Counter((each.order, each.grade) for each in reached)
    wanted = Counter(each.order for each in reached if each.grade is not Grade.NONE)
    states = latest(run)
    return {
        "run": run,
        "headline": headline(run),
        "findings": [(found, sentence(found)) for found in run.ranked],
        "stopped": [*run.crashes, *run.hangs],
        "unended": UNENDED if run.started and not run.finished else "",
        "weak": sorted(weak, key=lambda each: (each.compared, -each.order, each.operation)),
        "still": {words: states[name, State.STILL] for name, words in CLASSES.items() if states[name, State.STILL]},
        "fixed": sum(states[name, State.FIXED] for name in CLASSES),
        "tested": {order: (grades[order, Grade.GREEN], wanted[order]) for order in (1, 2)},
        "examples": f"{examples(run):,}",
        "rate": rate(run),
    }


def _version(release: str) -> tuple[tuple[int, ...], str]:
    return version_of(release), release


def _resolutions(reached: Sequence[Reach]) -> Iterator[tuple[int, int, int]]:
    """How many pairs of operation and order have a resolution of up to 1e-12, 1e-11, …, and the bar's length."""
    given = (each.resolution for each in reached if each.resolution is not None)
    decades = (math.ceil(math.log10(value)) if value > 0 else LOWEST for value in given)
    counts = Counter(min(max(decade, LOWEST), HIGHEST) for decade in decades)
    if counts:
        largest = max(counts.values())
        for decade in range(min(counts), max(counts) + 1):
            yield decade, counts[decade], round(100 * counts[decade] / largest)
