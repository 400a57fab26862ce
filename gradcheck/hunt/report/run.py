"""A run merged from the events of all its processes: each finding once, counts added up, in a fixed order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeVar

from gradcheck import files
from gradcheck.documents import MAX_TEXT
from gradcheck.hunt import events
from gradcheck.hunt.coverage import COMPARED, LOST, MOST, Coverage
from gradcheck.hunt.events import Crash, Event, Finished, Hang, KnownReplayed, OperationDone, Started, State, to_line
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind

NEVER = "never compared"


class Grade(Enum):
    """The outcome of an operation at an order; the value is the colour of its cell."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    BLANK = "blank"
    KNOWN = "known"
    NONE = "none"


@dataclass(frozen=True)
class Reach:
    """One operation at one order: `compared` examples with a verdict, `lost` without (inconclusive, composed kinks).

    `rejected` of `attempts` graphs were no valid example. `reason` says why it is not green. It is red where something
    new is wrong, yellow where it was drawn and hardly compared, and blank where it was not reached.
    """

    operation: str
    order: int
    grade: Grade
    compared: int = 0
    lost: int = 0
    attempts: int = 0
    rejected: int = 0
    resolution: float | None = None
    reason: str = ""

    @property
    def counts(self) -> str:
        """The counts of its graphs, in words."""
        parts = {"compared": self.compared, "inconclusive": self.lost, "rejected": self.rejected}
        parts["cannot run in a mode"] = self.attempts - sum(parts.values())
        said = ", ".join(f"{count} {what}" for what, count in parts.items() if count > 0)
        return f"{self.attempts} drawn: {said}"


def reaches(run: HuntRun, left_out: Mapping[tuple[str, int], str] | None = None) -> tuple[Reach, ...]:
    """Every operation of the catalogue at both orders, in the catalogue's order.

    `left_out` maps (operation, order) to the known defect that excludes all its uses. Operations that the run was not
    asked for, and orders that an operation does not have, have the grade NONE.
    """
    asked, wrong = run.asked, _wrong(run)
    done = {(each.operation, each.order): each for each in run.operations}
    known = left_out or {}

    def reach(name: str, order: int) -> Reach:
        pair = name, order
        if pair in done:
            return _graded(done[pair])
        if pair in known:
            return Reach(name, order, Grade.KNOWN, reason=f"left out: {known[pair]}")
        if order not in CATALOGUE[name].orders:
            return Reach(name, order, Grade.NONE, reason="has no derivative of this order")
        if name not in asked:
            return Reach(name, order, Grade.NONE, reason="not asked for")
        return Reach(name, order, Grade.BLANK, reason="never reached")

    found = (reach(name, order) for name in CATALOGUE for order in (1, 2))
    return tuple(
        replace(each, grade=Grade.RED, reason=wrong[pair]) if (pair := (each.operation, each.order)) in wrong else each
        for each in found
    )


def _wrong(run: HuntRun) -> dict[tuple[str, int], str]:
    """The operations and orders with a new finding, the most severe one of each, a crash or a hang."""
    stopped = {(each.operation, each.order): each.kind for each in (*run.hangs, *run.crashes)}
    return stopped | {(found.culprit, found.order): str(found.kind) for found in reversed(run.ranked)}


def compared_in(done: OperationDone) -> int:
    """The number of examples whose derivative was compared."""
    return sum(done.counts.get(outcome, 0) for outcome in COMPARED)


def compared_in_modes(operations: Iterable[OperationDone]) -> Counter[tuple[str, int]]:
    """The number of comparisons in each mode, by its name, and at each order."""
    counts: Counter[tuple[str, int]] = Counter()
    for done in operations:
        counts.update({(name, done.order): count for name, count in done.modes.items()})
    return counts


def _graded(done: OperationDone) -> Reach:
    compared = compared_in(done)
    lost = sum(done.counts.get(outcome, 0) for outcome in LOST)
    if not compared:
        grade, reason = Grade.YELLOW, NEVER
    elif lost > MOST * (compared + lost):
        grade, reason = Grade.YELLOW, "mostly inconclusive"
    elif done.rejected > MOST * done.attempts:
        grade, reason = Grade.YELLOW, "mostly rejected"
    else:
        grade, reason = Grade.GREEN, ""
    resolution = done.resolution
    return Reach(done.operation, done.order, grade, compared, lost, done.attempts, done.rejected, resolution, reason)


E = TypeVar("E")


@dataclass(frozen=True)
class HuntRun:
    """The events of all processes together; `remarks` name what could not be read, such as a half-written last line.

    `operations` has one entry per operation and order, `findings`, `crashes` and `hangs` one per name (the smallest
    graph), `known` one per defect and release; all sorted, so that the order of the processes does not matter.
    """

    started: tuple[Started, ...] = ()
    operations: tuple[OperationDone, ...] = ()
    findings: tuple[GraphFinding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    hangs: tuple[Hang, ...] = ()
    known: tuple[KnownReplayed, ...] = ()
    finished: tuple[Finished, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def coverage(self) -> Coverage:
        """The counts, as the table of a run prints them."""
        coverage = Coverage()
        for done in self.operations:
            coverage.outcomes.update({(done.operation, done.order, what): n for what, n in done.counts.items() if n})
            coverage.modes.update({(done.operation, done.order, mode): n for mode, n in done.modes.items() if n})
        return coverage

    @property
    def asked(self) -> set[str]:
        """The operations that its processes were asked for: all of them, if a process names none."""
        named = [started.operations for started in self.started]
        return set(chain(*named)) if named and all(named) else set(CATALOGUE)

    @property
    def missing_shards(self) -> list[str]:
        """The shards K/N that no process ran, for each N of a build; the build is named if there are several."""
        seen: dict[tuple[str, int], set[int]] = defaultdict(set)
        for event in self.started:
            number, total = map(int, event.shard.split("/"))
            seen[event.environment.build, total].add(number)
        several = len({build for build, _ in seen}) > 1
        return [
            f"{number}/{total}" + f" of {build}" * several
            for (build, total), numbers in sorted(seen.items())
            for number in range(1, total + 1)
            if number not in numbers
        ]

    @property
    def ranked(self) -> tuple[GraphFinding, ...]:
        """The findings, the most severe kind first."""
        kinds = list(Kind)
        return tuple(sorted(self.findings, key=lambda found: kinds.index(found.kind)))

    def events(self) -> Iterator[Event]:
        """Its events, such as for a file of its own: `merge(run.events())` gives the same run without its remarks."""
        findings = [events.FindingMade(Report.of(found)) for found in self.findings]
        rest = chain[Event](self.crashes, self.hangs, self.known, self.finished)
        yield from chain[Event](self.started, self.operations, findings, rest)


def read(*folders: Path | str, pattern: str = "*.jsonl") -> HuntRun:
    """The run whose events lie in the files of these folders that match the pattern.

    A half-written last line, which a killed process leaves, becomes a remark. Raises ValueError, which names the file
    and the line, for anything else that is no event and for a file that does not begin with `started`; OSError where a
    folder is missing or cannot be read.
    """
    found: list[Event] = []
    remarks: list[str] = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder; give one with the events of a run, DIR/events")
        for path in sorted(folder.glob(pattern)):
            found += _read_file(path, remarks)
    return replace(merge(found), remarks=tuple(remarks))


RUN_NAME = re.compile(r"(\d{8}-\d{6}-[0-9a-f]+)-.+\.jsonl")
"""The name of a run, which begins with its time, before that of the process whose events a file holds."""
RUNS, LARGEST = 20, 2**24
"""The most runs before a run that are shown beside it, and about the most bytes of them, which take seconds to read."""


@dataclass(frozen=True)
class Earlier:
    """The events about operations of the last `runs` before a run, added up; `remarks` name files that were left out.

    `remarks` say nothing of half-written last lines.
    """

    runs: int = 0
    operations: tuple[OperationDone, ...] = ()
    remarks: tuple[str, ...] = ()


def read_earlier(folder: Path, name: str, releases: Collection[str]) -> Earlier:
    """The last runs before that of this name with one of these releases of TensorFlow, of the events in a folder."""
    names = {match[1] for path in folder.glob("*.jsonl") if (match := RUN_NAME.fullmatch(path.name))}
    found: list[OperationDone] = []
    remarks: list[str] = []
    runs = size = 0
    for earlier in sorted((each for each in names if each < name), reverse=True):
        of_run: list[OperationDone] = []
        for path in sorted(folder.glob(f"{earlier}-*.jsonl")):
            try:
                files.refuse_unusual(path, LARGEST)
                of_file = _read_file(path, [])
                first = next(of_file, None)
                if isinstance(first, Started) and first.environment.tensorflow in releases:
                    of_run += [event for event in of_file if isinstance(event, OperationDone)]
                    size += path.stat().st_size
            except (OSError, ValueError) as error:
                remarks.append(f"an earlier run is not counted: {error}".replace(str(path), path.name))
        found += of_run
        runs += bool(of_run)
        if runs == RUNS or size > LARGEST:
            break
    return Earlier(runs, _added(found), tuple(remarks))


def _read_file(path: Path, remarks: list[str]) -> Iterator[Event]:
    """The events of one file; adds a remark where its process was killed as it wrote."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        number = 0
        for number, line in enumerate(iter(lambda: file.readline(MAX_TEXT + 2), ""), 1):
            if not line.endswith("\n") and len(line) < MAX_TEXT + 2:
                remarks.append(f"{path.name}: line {number} is half-written; its process was killed")
                return
            try:
                event = events.from_line(line.rstrip("\n"))
                if number == 1 and not isinstance(event, Started):
                    raise ValueError(f"the first event was {event.kind!r}; expected 'started'")
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: not an event of this project: {error}") from None
            yield event
        if not number:
            remarks.append(f"{path.name} is empty; its process was killed, or its disk was full")


def merge(every: Iterable[Event]) -> HuntRun:
    """The run of these events, in whatever order they come."""
    kinds: dict[type[Any], list[Any]] = defaultdict(list)
    for event in every:
        kinds[type(event)].append(event)
    states = list(State)
    found = _least(kinds[events.FindingMade], lambda event: event.report.name, _size)
    return HuntRun(
        started=tuple(sorted(set(kinds[Started]), key=to_line)),
        operations=_added(kinds[OperationDone]),
        findings=tuple(event.report.finding for event in found),
        crashes=_least(kinds[Crash], lambda event: event.name, _size),
        hangs=_least(kinds[Hang], lambda event: event.name, _size),
        known=_least(
            kinds[KnownReplayed],
            lambda event: (event.name, event.release),
            lambda event: (states.index(event.state), event.message),
        ),
        finished=tuple(sorted(kinds[Finished], key=to_line)),
    )


def _added(every: Iterable[OperationDone]) -> tuple[OperationDone, ...]:
    """One event per operation and order: counts are added up, and the worst resolution is kept."""
    groups: dict[tuple[str, int], list[OperationDone]] = defaultdict(list)
    for event in every:
        groups[event.operation, event.order].append(event)
    return tuple(
        OperationDone(
            operation,
            order,
            _sum(event.counts for event in group),
            attempts=sum(event.attempts for event in group),
            rejected=sum(event.rejected for event in group),
            seconds=sum(sorted(event.seconds for event in group)),
            resolution=max((event.resolution for event in group if event.resolution is not None), default=None),
            modes=_sum(event.modes for event in group),
        )
        for (operation, order), group in sorted(groups.items())
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))


def _least(events: Iterable[E], name: Callable[[E], Any], size: Callable[[E], Any]) -> tuple[E, ...]:
    """The least event of each name, by name."""
    ordered = sorted(events, key=lambda event: (name(event), size(event)))
    return tuple(next(group) for _, group in groupby(ordered, name))


def _size(event: events.FindingMade | Crash | Hang) -> tuple[int, int, str]:
    graph = event.report.graph if isinstance(event, events.FindingMade) else event.document
    return graph.size, sum(len(value.values) for value in graph.inputs), to_line(event)
