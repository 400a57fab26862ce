"""What a run says as it goes, one JSON object a line: {"event": kind, ...}; reports/README.md has the table of kinds.

A line is at most 1,000,000 characters of strict JSON. A kind's fields are those of its class below, by name, with the
types of their annotations; reading takes nothing else, executes nothing and imports no TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from hypothesis import settings

from gradcheck.autodiff.mode import EXECUTIONS, ORDERS, PLAIN, Mode
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.coverage import OUTCOMES
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_json import MAX_TEXT, Description, GraphFormatError, keys, parse
from gradcheck.hunt.report import environment, reading
from gradcheck.hunt.report.environment import Environment
from gradcheck.hunt.report.json_report import to_json
from gradcheck.hunt.report.reading import Report
from gradcheck.hunt.report.record_json import decode, encode
from gradcheck.hunt.running.configuration import RunConfiguration

FORMAT = "gradcheck events"
VERSION = 1
GROUP = re.compile(r"\([a-z (),.]{1,60}\)")
SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


class Ending(str, Enum):
    """How a process's part of a run ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    BUDGET_SPENT = "budget spent"


class State(str, Enum):
    """What became of a known defect; where runs differ, the first of these counts."""

    STILL = "still"
    CANNOT_RUN = "cannot run"
    FIXED = "fixed"


@dataclass(frozen=True)
class Started:
    """The first line of every file: who runs, and what was asked for.

    `shard` is "K/N", "1/1" without shards; `operations` are those asked for; `budget_minutes` is None without a budget.
    """

    kind: ClassVar[str] = "started"
    environment: Environment
    profile: str
    seed: str
    shard: str
    operations: tuple[str, ...]
    budget_minutes: float | None = None
    format: str = FORMAT
    version: int = VERSION

    def __post_init__(self) -> None:
        _expect((self.format, self.version) == (FORMAT, VERSION), "format", self.format, f"{FORMAT}, version {VERSION}")
        _hold_shard(self.shard)
        spent = self.budget_minutes is None or 0 < self.budget_minutes < math.inf
        _expect(spent, "budget_minutes", self.budget_minutes, "more than 0, or null")
        for operation in self.operations:
            _hold_operation(operation)


@dataclass(frozen=True)
class OperationDone:
    """One operation at one order, after its examples, or part of them: lines for the same two are added up.

    `counts` maps coverage.OUTCOMES to examples; `attempts` are graphs drawn, `rejected` those that were no valid
    example. `resolution` is the smallest error that would have been noticed, over the largest derivative, at its
    worst; None where nothing was compared.
    """

    kind: ClassVar[str] = "operation"
    operation: str
    order: int
    counts: Mapping[str, int]
    attempts: int
    rejected: int
    seconds: float
    resolution: float | None = None

    def __post_init__(self) -> None:
        _hold_operation(self.operation)
        _hold_order(self.order)
        for outcome, times in self.counts.items():
            _expect(outcome in OUTCOMES, "counts", outcome, f"one of {', '.join(OUTCOMES)}")
            _expect(times >= 0, f"counts.{outcome}", times, "0 or more")
        for name in ("attempts", "rejected", "seconds"):
            _expect(0 <= getattr(self, name) < math.inf, name, getattr(self, name), "0 or more")
        known = self.resolution is None or 0 <= self.resolution < math.inf
        _expect(known, "resolution", self.resolution, "0 or more, or null")


@dataclass(frozen=True)
class FindingMade:
    """A wrong derivative, in its final, shrunk form, with everything that its JSON report holds."""

    kind: ClassVar[str] = "finding"
    report: Report


@dataclass(frozen=True)
class Stopped:
    """A graph that did not come to an end, an example of `operation`, its derivative taken along `path` in `mode`."""

    kind: ClassVar[str] = "stopped"
    operation: str
    order: int
    graph: Graph
    message: str
    path: str = PLAIN.path
    mode: str = PLAIN.mode

    def __post_init__(self) -> None:
        _hold_operation(self.operation)
        _hold_order(self.order)
        _expect(self.path in ORDERS, "path", self.path, f"one of {', '.join(ORDERS)}")
        _expect(self.mode in EXECUTIONS, "mode", self.mode, f"one of {', '.join(EXECUTIONS)}")

    @property
    def taken(self) -> Mode:
        """How the derivative was taken."""
        return Mode(self.path, self.mode)

    @property
    def where(self) -> str:
        """The order and, unless it is the plain one, the mode, in words."""
        return f"order {self.order}" + ("" if self.taken == PLAIN else f" ({self.taken})")

    @property
    def name(self) -> str:
        """A name for files that depends on the kind, the order, the mode and the graph's operations only."""
        operations = " ".join(sorted({node.op for node in self.graph.nodes}))
        how = "" if self.taken == PLAIN else f" {self.taken}"
        words = re.sub(r"[^a-z0-9_]+", "-", f"{self.kind} order{self.order}{how} {operations}".lower())
        return f"{words[:80].strip('-')}-{hashlib.sha256(words.encode()).hexdigest()[:6]}"


@dataclass(frozen=True)
class Crash(Stopped):
    """The process died on this graph; `message` says how, such as "killed by SIGABRT"."""

    kind: ClassVar[str] = "crash"


@dataclass(frozen=True)
class Hang(Stopped):
    """This graph did not end within its limit, which `message` states."""

    kind: ClassVar[str] = "hang"


@dataclass(frozen=True)
class KnownReplayed:
    """A known defect, by the name of its file, on a release of TensorFlow; `message` says more where it cannot run."""

    kind: ClassVar[str] = "known"
    name: str
    state: State
    release: str
    message: str = ""


@dataclass(frozen=True)
class Finished:
    """The last line of a file; `seconds` are those since `started`, `examples` all that the process checked."""

    kind: ClassVar[str] = "finished"
    how: Ending
    examples: int
    seconds: float
    shard: str = "1/1"

    def __post_init__(self) -> None:
        _hold_shard(self.shard)
        _expect(self.examples >= 0, "examples", self.examples, "0 or more")
        _expect(0 <= self.seconds < math.inf, "seconds", self.seconds, "0 or more")


Event = Started | OperationDone | FindingMade | Crash | Hang | KnownReplayed | Finished
KINDS: dict[str, Any] = {
    kind.kind: kind for kind in (Started, OperationDone, FindingMade, Crash, Hang, KnownReplayed, Finished)
}


def to_line(event: Event) -> str:
    """The event as one line of JSON without its end; raises ValueError for one that `from_line` would not take.

    >>> to_line(KnownReplayed("xlogy-zero-order1", State.STILL, "2.21.0"))
    '{"event": "known", "name": "xlogy-zero-order1", "state": "still", "release": "2.21.0", "message": ""}'
    """
    if isinstance(event, FindingMade):
        data: dict[str, Any] = {"report": to_json(event.report.discovery, event.report.confirmation)}
    else:
        data = encode(event)
    line = json.dumps({"event": event.kind, **data}, allow_nan=False)
    from_line(line)
    return line


def from_line(line: str) -> Event:
    """The event of a line; raises ValueError, which says where, what was given and what is expected.

    >>> from_line('{"event": "applause"}')
    Traceback (most recent call last):
    ...
    gradcheck.graphs.json_form.GraphFormatError: $.event: 'applause' was given; expected one of started, operation, ...
    """
    if len(line) > MAX_TEXT:
        raise GraphFormatError("$", Description(f"a line of {len(line)} characters"), f"at most {MAX_TEXT}")
    data = parse(line)
    if not isinstance(data, dict) or "event" not in data:
        raise GraphFormatError("$", data, 'an object with "event"')
    kind = data.pop("event")
    if not isinstance(kind, str) or kind not in KINDS:
        raise GraphFormatError("$.event", kind, f"one of {', '.join(KINDS)}")
    if kind == FindingMade.kind:
        keys(data, "$", ("report",))
        return FindingMade(reading.from_json(data["report"]))
    event: Event = decode(KINDS[kind], data, "$")
    return event


def _hold_operation(name: str) -> None:
    known = name in CATALOGUE or GROUP.fullmatch(name) is not None
    _expect(known, "operation", name, "an operation of the catalogue, or a group such as (random graphs)")


def _hold_order(order: int) -> None:
    _expect(order in (1, 2), "order", order, "1 or 2")


def _hold_shard(shard: str) -> None:
    match = SHARD.fullmatch(shard)
    _expect(match is not None and int(match[1]) <= int(match[2]), "shard", shard, '"K/N" with K from 1 to N')


def _expect(holds: bool, place: str, given: object, expected: str) -> None:
    if not holds:
        raise GraphFormatError(f"$.{place}", given, expected)


SYNCED = (Started, FindingMade, Crash, Hang, Finished)
WORKER = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class EventFile:
    """A new file `<worker>.jsonl` (`<worker>-2.jsonl`, … where that exists) in a folder, made if it is missing.

    It begins with `started`. A line goes out in one write, and what must not be lost is on the disk when `write`
    returns; a process that is killed leaves at most half a last line. Raises ValueError for a worker's name that is no
    plain word, OSError where nothing can be written. Close it, or use it in a `with` statement.
    """

    def __init__(self, folder: Path | str, worker: str, started: Started) -> None:
        if not WORKER.fullmatch(worker) or worker.startswith("."):
            raise ValueError(f"worker was {worker!r}; it names a file: letters, digits, _, - and . after the first")
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.path, self._descriptor = _create(Path(folder), worker)
        self.write(started)

    def write(self, event: Event) -> None:
        """Adds an event; raises ValueError for one that could not be read back, OSError where the disk is full."""
        line = (to_line(event) + "\n").encode()
        before = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            if isinstance(event, SYNCED):
                os.fsync(self._descriptor)
        except OSError:
            # The next line must not be glued to a half of this one.
            os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        """Ends the file; closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> EventFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _create(folder: Path, worker: str) -> tuple[Path, int]:
    for number in count(1):
        path = folder / f"{worker}{'' if number == 1 else f'-{number}'}.jsonl"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            continue
    raise AssertionError("there is always another number")


class Journal:
    """Opens its file with the first event; `problem` says why it could write no more, `events` what it was told."""

    def __init__(self, folder: Path, name: str, started: Callable[[], Started]) -> None:
        self.problem: str | None = None
        self.opened = False
        self._folder, self._name, self._started = folder, name, started
        self._file: EventFile | None = None

    def write(self, event: Event) -> None:
        """Adds an event, or keeps silent once writing has failed."""
        if self.problem is not None:
            return
        size = 0
        try:
            if self._file is None:
                self._file = EventFile(self._folder, self._name, self._started())
                self.opened = True
            size = self._file.path.stat().st_size
            self._file.write(event)
        except (OSError, ValueError) as error:
            if self._file is not None and size:
                with suppress(OSError):  # takes half a line away
                    os.truncate(self._file.path, size)
            self.close()
            self.problem = f"the events could not be written to {self._folder} ({error}); what follows is missing there"

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def journal(asked: RunConfiguration, worker: str) -> Journal:
    """The journal of a process of a run."""

    def started() -> Started:
        return _of_another(asked) or Started(
            environment.current(asked.seed),
            profile=settings.get_current_profile_name(),
            seed=asked.seed,
            shard=str(asked.shard),
            operations=asked.operations or (),
            budget_minutes=asked.minutes,
        )

    return Journal(asked.events, f"{asked.name}-{worker}", started)


def _of_another(asked: RunConfiguration) -> Started | None:
    """What another process of the run has written: a controller need not import TensorFlow to say the same."""
    for path in sorted(asked.events.glob(asked.pattern)):
        with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
            first = from_line(file.readline().rstrip("\n"))
            if isinstance(first, Started):
                return first
    return None
