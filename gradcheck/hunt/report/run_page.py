"""The pages of a whole run, in HTML and Markdown: findings, known defects, what was tested and how sharply."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

from gradcheck.autodiff.mode import MODES, NARROW
from gradcheck.defects.records import ABSENT, CONVENTION, DEFECT, LIMITATION, version_of
from gradcheck.hunt.coverage import table
from gradcheck.hunt.events import KnownReplayed, State
from gradcheck.hunt.report.finding_page import sentence
from gradcheck.hunt.report.gradient_reach import RunReach
from gradcheck.hunt.report.rendering import counted, render
from gradcheck.hunt.report.run import NEVER, Earlier, Grade, HuntRun, Reach, compared_in, compared_in_modes, reaches
from gradcheck.operations.catalogue import CATALOGUE

LeftOut = Mapping[tuple[str, int], str]
"""Maps (operation, order) to the known defect that excludes all its uses."""

SIGNS = {Grade.RED: "✗", Grade.BLANK: "", Grade.KNOWN: "K", Grade.NONE: "·"}
"""The contents of cells; the others have the number of comparisons."""
MEANINGS = {
    Grade.GREEN: "compared, so many times",
    Grade.YELLOW: "drawn, but mostly without a comparison",
    Grade.RED: "something new is wrong",
    Grade.KNOWN: "left out, known to be wrong everywhere",
    Grade.BLANK: "not reached",
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


NOTHING = Earlier()


class Looks(NamedTuple):
    """The operations at one order: how many there are, were `reached` (compared), and the number of comparisons.

    `before` are the same two of the earlier runs, `together` is the number of operations that any run has reached.
    """

    there: int
    reached: int
    compared: int
    before: tuple[int, int]
    together: int


@dataclass(frozen=True)
class Operation:
    """An operation at both orders, with the numbers of comparisons of the earlier runs."""

    name: str
    orders: tuple[Reach, Reach]
    before: tuple[int, int]

    @property
    def resolution(self) -> float | None:
        """The worst of its resolutions."""
        return max((each.resolution for each in self.orders if each.resolution is not None), default=None)


@dataclass(frozen=True)
class Family:
    """Operations of one family, or of all of them."""

    name: str
    operations: tuple[Operation, ...]

    @property
    def listed(self) -> list[Operation]:
        """The operations, those with something new first, and then those that were hardly compared."""
        grades = list(Grade)
        return sorted(self.operations, key=lambda each: min(grades.index(one.grade) for one in each.orders))

    @cached_property
    def looks(self) -> tuple[Looks, Looks]:
        """The operations and comparisons of this run and of those before it, at each order."""

        def at(place: int) -> Looks:
            pairs = [(each.orders[place], each.before[place]) for each in self.operations]
            wanted = [pair for pair in pairs if pair[0].grade not in (Grade.NONE, Grade.KNOWN)]
            counts, before = ([pair[place] for pair in ((one.compared, n) for one, n in wanted)] for place in (0, 1))
            together = sum(bool(own or earlier) for own, earlier in zip(counts, before, strict=True))
            earlier = sum(map(bool, before)), sum(before)
            return Looks(len(wanted), sum(map(bool, counts)), sum(counts), earlier, together)

        return at(0), at(1)

    @cached_property
    def grades(self) -> Counter[Grade]:
        """The number of pairs of operation and order of each grade."""
        return Counter(one.grade for each in self.operations for one in each.orders)

    @property
    def resolutions(self) -> tuple[float | None, float | None]:
        """The median and the worst resolution of its pairs of operation and order."""
        pairs = (one.resolution for each in self.operations for one in each.orders)
        found = [resolution for resolution in pairs if resolution is not None]
        return (median(found), max(found)) if found else (None, None)


def _families(reached: Sequence[Reach], earlier: Earlier) -> list[Family]:
    """The families with operations that were asked for."""
    before = {(done.operation, done.order): compared_in(done) for done in earlier.operations}
    families: dict[str, list[Operation]] = {}
    for first, second in zip(reached[::2], reached[1::2], strict=True):
        if {first.grade, second.grade} != {Grade.NONE}:
            name = first.operation
            counts = before.get((name, 1), 0), before.get((name, 2), 0)
            families.setdefault(CATALOGUE[name].family, []).append(Operation(name, (first, second), counts))
    return [Family(name, tuple(operations)) for name, operations in families.items()]


def _modes(run: HuntRun, earlier: Earlier) -> list[tuple[str, list[tuple[int | None, int]]]]:
    """The comparisons in each mode and number type at both orders, of this run and of the earlier ones; of orders that
    a mode does not have, None. Empty if there are none at all.
    """
    counts = compared_in_modes(run.operations), compared_in_modes(earlier.operations)
    if not any(counts):
        return []
    orders = {str(mode): mode.orders for mode in (*MODES, *NARROW)}
    names = dict.fromkeys([*orders, *sorted({name for name, _ in counts[0] | counts[1]})])

    def count(name: str, order: int) -> tuple[int | None, int]:
        has = order in orders.get(name, (1, 2))
        return counts[0][name, order] if has else None, counts[1][name, order]

    return [(name, [count(name, order) for order in (1, 2)]) for name in names]


def run_page(
    run: HuntRun,
    left_out: LeftOut | None = None,
    reach: RunReach | None = None,
    linked: Collection[str] = (),
    without_page: Mapping[str, str] | None = None,
    earlier: Earlier = NOTHING,
) -> str:
    """The HTML page; findings link to the pages `<name>.html` beside it, known defects to `known.html` if `linked`.

    Findings in `without_page`, which gives the reason, link to their JSON. What `earlier` runs have compared stands
    beside what this one has.

    Imports no TensorFlow.
    """
    reached, releases = reaches(run, left_out), sorted({each.release for each in run.known}, key=_version)
    states = {(each.name, each.release): each for each in run.known}
    known = {name: [states.get((name, release)) for release in releases] for name in sorted({n for n, _ in states})}
    changed = {name for name, row in known.items() if any(each and each.state is not State.STILL for each in row)}
    return render(
        "run.html.j2",
        **_view(run, reached, earlier),
        releases=releases,
        classes={each.name: each.category for each in run.known if each.category != DEFECT},
        changed=[(name, row) for name, row in known.items() if name in changed],
        unchanged=[(name, row) for name, row in known.items() if name not in changed],
        modes=_modes(run, earlier),
        grades=Grade,
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


def summary(run: HuntRun, left_out: LeftOut | None = None, earlier: Earlier = NOTHING) -> str:
    """The Markdown page, such as for the summary that GitHub shows of a step. Imports no TensorFlow."""
    news = [each for each in run.known if each.state is not State.STILL]
    view = _view(run, reaches(run, left_out), earlier)
    return render("run.md.j2", **view, news=news, table=table(run.coverage, whole=True))


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


def _view(run: HuntRun, reached: Sequence[Reach], earlier: Earlier) -> dict[str, Any]:
    """The values that both templates take; `vain` are the pairs of operation and order that were drawn in vain."""
    families = _families(reached, earlier)
    total = Family("all", tuple(operation for family in families for operation in family.operations))
    states = latest(run)
    return {
        "run": run,
        "headline": headline(run),
        "findings": [(found, sentence(found)) for found in run.ranked],
        "stopped": [*run.crashes, *run.hangs],
        "unended": UNENDED if run.started and not run.finished else "",
        "families": families,
        "total": total,
        "looked_at": _looked_at(total, earlier.runs),
        "earlier": earlier,
        "vain": [each for each in reached if each.reason == NEVER],
        "still": {words: states[name, State.STILL] for name, words in CLASSES.items() if states[name, State.STILL]},
        "fixed": sum(states[name, State.FIXED] for name in CLASSES),
        "examples": f"{examples(run):,}",
        "rate": rate(run),
    }


def _looked_at(total: Family, runs: int) -> str:
    """A sentence on how many operations were looked at."""
    first, second = total.looks
    said = (
        f"{first.reached:,} of {first.there:,} operations were looked at in this run at order 1, "
        f"{second.reached:,} of {second.there:,} at order 2"
    )
    if runs:
        before = "run" if runs == 1 else f"{runs} runs"
        said += f"; with the {before} before it, {first.together:,} and {second.together:,}"
    known = [sum(each.orders[place].grade is Grade.KNOWN for each in total.operations) for place in (0, 1)]
    left = f" Left out, as known to be wrong everywhere: {known[0]} at order 1, {known[1]} at order 2." * any(known)
    return f"{said}.{left}"


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
