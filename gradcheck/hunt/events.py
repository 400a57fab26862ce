"""The events of a run, one JSON object per line: {"event": kind, ...}; reports/README.md has the table of kinds.

A line is at most 1,000,000 characters of strict JSON. Reading accepts only the structs below, executes nothing and
imports no TensorFlow.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from hypothesis import settings
from msgspec import Meta, field

from gradcheck import documents
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.graph_document import GraphDocument
from gradcheck.defects.records import Class, check_mode
from gradcheck.documents import MAX_TEXT, Count, Description, Document, DocumentError, Order, Words, matching
from gradcheck.graph import Graph
from gradcheck.hunt import environment
from gradcheck.hunt.configuration import RunConfiguration, Shard
from gradcheck.hunt.coverage import Outcome, check_mode_name, check_outcome
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.finding import file_name
from gradcheck.hunt.graph_json import from_document, to_document
from gradcheck.hunt.json_report import Report
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import Origin, origins
from gradcheck.result import Word

if TYPE_CHECKING:
    from typing_extensions import Self

GROUP = re.compile(r"\([a-z_ (),.]{1,60}\)")
Amount = Annotated[float, Meta(ge=0)]


class Ending(Word):
    """The ways in which a process's part of a run ends."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    BUDGET_SPENT = "budget spent"


class State(Word):
    """The states of a known defect that was replayed; where runs differ, the first of these counts."""

    STILL = "still wrong"
    CANNOT_TELL = "cannot tell"
    FIXED = "fixed"


class RunEvent(Document, frozen=True, tag_field="event"):
    """One line of an event file; `kind` is its field `event`."""

    @property
    def kind(self) -> str:
        """The kind of the event, as in the field `event`."""
        return str(self.__struct_config__.tag)


class OwnModule(Document, frozen=True):
    """A module that registered operations of the project, and the folder below the run's from which it was imported.

    `folder` is "." for that folder itself, and empty for one that lies elsewhere.
    """

    module: Annotated[str, matching(r"[A-Za-z_]\w{0,63}(\.[A-Za-z_]\w{0,63}){0,9}")]
    folder: Annotated[str, matching(r"(\.|[\w-][\w.-]*(/[\w-][\w.-]*){0,9})?")]

    @staticmethod
    def of(origin: Origin) -> OwnModule | None:
        """The module of an origin, as seen from the working directory; None for a name that no file has."""
        folder = os.path.relpath(origin.folder or ".").replace(os.sep, "/")
        for place in (folder, ""):
            with suppress(DocumentError):
                return documents.convert({"module": origin.module, "folder": place}, OwnModule)
        return None


class Started(RunEvent, frozen=True, tag="started"):
    """The first line of every file: who runs, and what was asked for.

    `shard` is "K/N", "1/1" without shards; `operations` are those asked for; `budget_minutes` is None without a budget;
    `modules` registered operations of the project.
    """

    environment: Environment
    profile: Words
    seed: Words
    shard: Words
    operations: tuple[Words, ...]
    budget_minutes: Annotated[float, Meta(gt=0)] | None = None
    modules: tuple[OwnModule, ...] = ()
    format: Literal["gradcheck events"] = "gradcheck events"
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        _check_shard(self.shard)
        for operation in self.operations:
            _check_operation(operation, "operations")


class OperationDone(RunEvent, frozen=True, tag="operation"):
    """The examples of an operation at one order, or part of them; lines for the same operation and order are added up.

    `counts` has the numbers of examples by outcome (coverage.OUTCOMES), `attempts` is the number of graphs drawn,
    `rejected` that of those which were no valid example. `resolution` is the smallest error that would have been
    noticed, over the largest derivative, at its worst; None where nothing was compared. `modes` has the numbers of
    those examples that were compared in a mode, by its name; the plain one is left out.
    """

    operation: Words
    order: Order
    counts: dict[Outcome, Count]
    attempts: Count
    rejected: Count
    seconds: Amount
    resolution: Amount | None = None
    modes: dict[Words, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_operation(self.operation)
        for outcome in self.counts:
            check_outcome(outcome, "$.counts")
        for name in self.modes:
            check_mode_name(name, "$.modes")


class FindingMade(RunEvent, frozen=True, tag="finding"):
    """A wrong derivative, in its final, shrunk form, with everything that its JSON report holds."""

    report: Report


class Stopped(RunEvent, frozen=True):
    """A graph on which a process crashed or hung; it is an example of `operation`, with the derivative along `path`."""

    operation: Words
    order: Order
    document: GraphDocument = msgspec.field(name="graph")
    message: Words
    path: Words = PLAIN.path
    mode: Words = PLAIN.mode

    def __post_init__(self) -> None:
        _check_operation(self.operation)
        check_mode(self.path, self.mode)
        from_document(self.document, "$.graph")

    @classmethod
    def of(cls, operation: str, order: Order, graph: Graph, message: str, taken: Mode = PLAIN) -> Self:
        """The event about a graph; raises DocumentError for one that could not be read back."""
        return cls(operation, order, to_document(graph), message, taken.path, taken.mode)

    @property
    def graph(self) -> Graph:
        """The graph that was running."""
        return from_document(self.document, "$.graph")

    @property
    def taken(self) -> Mode:
        """How its derivative was taken."""
        return Mode(self.path, self.mode)

    @property
    def where(self) -> str:
        """The order and, unless it is the plain one, the mode, in words."""
        return f"order {self.order}" + ("" if self.taken == PLAIN else f" ({self.taken})")

    @property
    def name(self) -> str:
        """A name for files that depends on the kind, the order, the mode and the graph's operations only."""
        operations = " ".join(sorted({node.op for node in self.document.nodes}))
        taken = "" if self.taken == PLAIN else f" {self.taken}"
        return file_name(f"{self.kind} order{self.order}{taken} {operations}")


class Crash(Stopped, frozen=True, tag="crash"):
    """The process died on this graph; `message` says how, such as "killed by SIGABRT"."""


class Hang(Stopped, frozen=True, tag="hang"):
    """This graph did not end within its limit, which `message` states."""


class KnownReplayed(RunEvent, frozen=True, tag="known"):
    """A known defect that was replayed on a release of TensorFlow; `message` says why its state cannot be told.

    `category` is the record's class.
    """

    name: Words
    state: State
    release: Annotated[str, Meta(max_length=100)]
    message: Words = ""
    category: Class = field(default="defect", name="class")


class Finished(RunEvent, frozen=True, tag="finished"):
    """The last line of a file; `seconds` are those since `started`, `examples` all that the process checked."""

    how: Ending
    examples: Count
    seconds: Amount
    shard: Words = "1/1"

    def __post_init__(self) -> None:
        _check_shard(self.shard)


Event = Started | OperationDone | FindingMade | Crash | Hang | KnownReplayed | Finished


def to_line(event: Event) -> str:
    """The event as one line of JSON without its end; raises ValueError for one that `from_line` would not take.

    >>> to_line(KnownReplayed("xlogy-zero-order1", State.STILL, "2.21.0"))
    '{"event": "known", "name": "xlogy-zero-order1", "state": "still wrong", "release": "2.21.0", "message": "", \
"class": "defect"}'
    """
    line = json.dumps(documents.plain(event), allow_nan=False)
    from_line(line)
    return line


def from_line(line: str) -> Event:
    """The event of a line; raises ValueError, which says where, what was given and what is expected.

    >>> from_line('{"event": "applause"}')
    Traceback (most recent call last):
    gradcheck.documents.DocumentError: $.event: 'applause' was given; expected one of started, operation, finding, ...
    """
    if len(line) > MAX_TEXT:
        raise DocumentError("$", Description(f"a line of {len(line)} characters"), f"at most {MAX_TEXT}")
    event: Event = documents.convert(documents.parse(line), Event)  # type: ignore[arg-type]  # a union is no type
    return event


def _check_operation(name: str, place: str = "operation") -> None:
    if name not in CATALOGUE and not GROUP.fullmatch(name):
        expected = (
            "the name of an operation of the catalogue, or of one of your own, whose module --import names, "
            "or a group such as (random graphs)"
        )
        raise DocumentError(f"$.{place}", name, expected)


def _check_shard(shard: str) -> None:
    try:
        Shard.parse(shard)
    except ValueError:
        raise DocumentError("$.shard", shard, '"K/N" with K from 1 to N') from None


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
        for number in count(1):
            self.path = Path(folder, f"{worker}{'' if number == 1 else f'-{number}'}.jsonl")
            with suppress(FileExistsError):
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                break
        try:
            self.write(started)
        except BaseException:  # such as a full disk: an empty file would look as if its process had been killed
            self.close()
            with suppress(OSError):
                self.path.unlink()
            raise

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
            with suppress(OSError):  # The next line must not be glued to a half of this one.
                os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        """Ends the file; closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _described(event: Event) -> str:
    """The kind of an event, and what it is about."""
    about = event.report.name if isinstance(event, FindingMade) else getattr(event, "name", "")
    return f"{event.kind!r} of {about[:100]}" if about else repr(event.kind)


class Journal:
    """The events of a process of a run; its `file` is opened with the first one, or before.

    `problems` say what could not be written, and why.
    """

    def __init__(self, configuration: RunConfiguration, worker: str) -> None:
        self.problems: list[str] = []
        self._failed = False
        self.file: EventFile | None = None
        self._configuration, self._worker = configuration, worker

    def write(self, event: Event) -> bool:
        """Adds an event and returns whether it was written; does nothing once the file has failed.

        An event that could not be read back is left out alone; the file stays open.
        """
        if not self.opened() or self.file is None:
            return False
        try:
            self.file.write(event)
        except ValueError as error:
            self.problems.append(f"the event {_described(event)} is missing in {self.file.path}: {error}")
            return False
        except OSError as error:
            self._fail(error)
            return False
        return True

    def opened(self) -> bool:
        """Open the file, if it is not open yet; return whether it is."""
        given = self._configuration
        if self.file is None and not self._failed:
            try:
                self.file = EventFile(given.events, f"{given.name}-{self._worker}", self._started())
            except (OSError, ValueError) as error:
                self._fail(error)
        return self.file is not None

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failed, place = True, self._configuration.events
        self.problems.append(f"the events could not be written to {place} ({error}); what follows is missing there")

    def close(self) -> None:
        """Ends the file."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def _started(self) -> Started:
        """The first line, copied from another process of the run where there is one, which saves importing
        TensorFlow."""
        given = self._configuration
        for path in sorted(given.events.glob(given.pattern)):
            with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
                first = from_line(file.readline().rstrip("\n"))
                if isinstance(first, Started):
                    return first
        return Started(
            environment.current(given.seed),
            profile=settings.get_current_profile_name(),
            seed=given.seed,
            shard=str(given.shard),
            operations=given.operations or (),
            budget_minutes=given.minutes,
            modules=tuple(one for one in map(OwnModule.of, origins()) if one is not None),
        )
