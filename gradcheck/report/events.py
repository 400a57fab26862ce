"""What a run says as it goes, one JSON object a line: {"event": kind, ...}; reports/README.md has the table of kinds.

A line is at most 1,000,000 characters of strict JSON. A kind's fields are those of its class below, by name, with the
types of their annotations; reading takes nothing else, executes nothing and imports no TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from gradcheck.coverage import OUTCOMES
from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Graph
from gradcheck.graphs.json_form import MAX_TEXT, GraphFormatError, Words, keys, parse
from gradcheck.report import reading
from gradcheck.report.environment import Environment
from gradcheck.report.json_report import to_json
from gradcheck.report.reading import Report
from gradcheck.report.record_json import decode, encode

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
        for outcome, count in self.counts.items():
            _expect(outcome in OUTCOMES, "counts", outcome, f"one of {', '.join(OUTCOMES)}")
            _expect(count >= 0, f"counts.{outcome}", count, "0 or more")
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
    """A graph that did not come to an end, an example of `operation`."""

    kind: ClassVar[str] = "stopped"
    operation: str
    order: int
    graph: Graph
    message: str

    def __post_init__(self) -> None:
        _hold_operation(self.operation)
        _hold_order(self.order)

    @property
    def name(self) -> str:
        """A name for files that depends on the kind, the order and the graph's operations only."""
        operations = " ".join(sorted({node.op for node in self.graph.nodes}))
        words = re.sub(r"[^a-z0-9_]+", "-", f"{self.kind} order{self.order} {operations}".lower())
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
        raise GraphFormatError("$", Words(f"a line of {len(line)} characters"), f"at most {MAX_TEXT}")
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
