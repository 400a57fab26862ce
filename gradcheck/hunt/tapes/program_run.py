"""Runs the parts of a program that compute nothing: its blocks, its loops, its tapes and the values of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from gradcheck.defects import tape_program as form


class ProgramRun:
    """A program while it runs: the values of its names, its tapes, and its derivatives so far.

    `make_tape` makes a tape, which has the methods of tf.GradientTape. A subclass runs the statements that compute.
    """

    def __init__(self, traced: bool, make_tape: Callable[[form.Tape], Any]) -> None:
        self.traced, self.make_tape = traced, make_tape
        self.values: dict[str, Any] = {}
        self.tapes: dict[str, Any] = {}
        self.derivatives: list[dict[str, Any]] = []

    def value(self, name: str) -> Any:
        """The value of a name."""
        return self.values[name]

    def run_all(self, body: Sequence[form.Statement]) -> None:
        """Runs several statements one after another."""
        for statement in body:
            self.run(statement)

    def run(self, statement: form.Statement) -> None:
        """Runs one statement with all of its inner ones."""
        match statement:
            case form.Open() | form.Resume() | form.Stop():
                with self.block(statement):
                    self.run_all(statement.body)
            case form.Loop(count, body):
                for _ in range(count):
                    self.run_all(body)
            case form.Watch(tape, name):
                self.tapes[tape].watch(self.value(name))
            case form.Reset(tape):
                self.tapes[tape].reset()

    @contextmanager
    def block(self, statement: form.Open | form.Resume | form.Stop) -> Iterator[None]:
        """The `with` block of a statement."""
        with ExitStack() as stack:
            match statement:
                case form.Stop(tape):
                    stack.enter_context(self.tapes[tape].stop_recording())
                case form.Resume(tape):
                    stack.enter_context(self.tapes[tape])
                case form.Open(tapes):
                    for one in tapes:
                        self.tapes[one.name] = stack.enter_context(self.make_tape(one))
            yield
