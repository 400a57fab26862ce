"""Where a path from a source to the targets leaves what a tape can follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradcheck.diagnosis.edges import passes
from gradcheck.diagnosis.paths import Paths, written
from gradcheck.diagnosis.record import Event, Operation, Turn, Watch, key


@dataclass(frozen=True)
class Cut:
    """An operation on the path that no gradient comes through.

    `unseen`: the tape did not follow the source when the operation used it. `recorded`: the tape recorded the
    operation.
    """

    number: int
    operation: Operation
    recorded: bool
    unseen: bool = False


def cuts(events: Sequence[Event], path: Paths, tape: int | None) -> list[Cut]:
    """The cuts for a tape, in order; for None those for a tape that records and watches everything."""
    operations = [event for event in events if isinstance(event, Operation)]
    return [_spoken(cut, operations, path) for cut in _Follower(path, tape).run(events)]


def _spoken(cut: Cut, operations: Sequence[Operation], path: Paths) -> Cut:
    """Reading a variable is nothing that a person wrote: the operation that uses what was read."""
    if cut.operation.name != "ReadVariableOp":
        return cut
    (value,) = cut.operation.outputs
    for number in path.operations:
        user = operations[number]
        if number > cut.number and user.tapes == cut.operation.tapes and any(value is one for one in user.inputs):
            return replace(cut, number=number, operation=user)
    return cut


class _Follower:
    """Does what a tape does: keeps the tensors that it follows at all, and those that it can follow to the source."""

    def __init__(self, path: Paths, tape: int | None) -> None:
        self.path, self.tape = path, tape
        self.tracked: set[int] = set()
        self.alive: set[int] = {path.source} if tape is None else set()
        self.on_path = set(path.operations)
        self.makers: dict[int, tuple[int, Operation]] = {}
        self.forgotten: set[int] = set()
        self.found: list[Cut] = []

    def run(self, events: Sequence[Event]) -> list[Cut]:
        number = -1
        for event in events:
            if isinstance(event, Operation):
                number += 1
                self._operation(number, event)
            elif isinstance(event, Watch) and event.tape == self.tape:
                self.tracked.add(key(event.tensor))
                self.alive |= {key(event.tensor)} & {self.path.source}
            elif isinstance(event, Turn) and event.tape == self.tape and event.change == "reset":
                self.forgotten |= self.alive - {self.path.source}
                self.tracked.clear()
                self.alive.clear()
        return self.found

    def _operation(self, number: int, event: Operation) -> None:
        recorded = self.tape is None or self.tape in event.tapes
        made = {key(tensor) for tensor in event.outputs}
        if recorded and any(key(tensor) in self.tracked for tensor in event.inputs):
            self.tracked |= made
            self.alive |= made & {self.path.source}
        if number not in self.on_path:
            return
        moving = {key(tensor): tensor for tensor in event.inputs if key(tensor) in self.path.dependent}
        passed = False
        for name, tensor in moving.items():
            if name in self.alive and recorded and self._through(event, tensor):
                passed = True
            elif name in self.alive or name == self.path.source:
                self.found.append(Cut(number, event, recorded, unseen=name not in self.alive))
            elif name in self.forgotten:
                self.found.append(Cut(*self.makers[name], recorded=True))
        if number in self.path.hops:
            self.found.append(Cut(number, event, recorded))
        if passed:
            self.alive |= made & self.path.dependent
            self.makers.update(dict.fromkeys(made, (number, event)))
        elif event.backward is not None:
            self.alive -= made

    def _through(self, event: Operation, tensor: Any) -> bool:
        numbers = {n for n, output in enumerate(event.outputs) if key(output) in self.path.dependent}
        if not numbers and any(key(handle) in self.path.dependent for handle in written(event)):
            return False
        return passes(event, tensor, numbers)
