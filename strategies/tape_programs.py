"""Programs around GradientTapes, run by the reference model while they are drawn, so that every name has a value.

The simplest statement comes first, blocks continue by a flag, operands are the newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import assume, reject
from hypothesis import strategies as st
from msgspec.structs import replace

from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import Apply, Literal, Program, Statement, Structure
from gradcheck.hunt.tapes.model import Model, NoneOperandError
from gradcheck.hunt.tapes.operations import FLOATING, INTEGER, OPERATIONS, ModelVariable, Value
from gradcheck.hunt.tapes.recording import TapeRecord
from gradcheck.hunt.tapes.tape import ModelTape, RaisedError
from gradcheck.typing import Array

from .values import Draw, choice, index

SHAPES: tuple[tuple[int, ...], ...] = ((2,), (), (2, 2))
NUMBERS = (1.7, 0.3, 2.2, -1.0, 0.7, -0.3, 1.4, 0.0, 3.1, -1.7)
LARGEST = 30.0
NEAREST = 10
"""The number of newest names from which an operand is drawn."""
EAGER_ONLY = ("numpy",)
NOT_IN_FUNCTIONS = ("numpy", "remainder", "to_integer")
STEPS = ("floor", "sign", "to_integer", "remainder", "round")
EDGE = 1e-6
"""Least distance from the edge of a step; nearer, rounding would decide on which side a value lies."""


def literal(draw: Draw) -> Literal:
    """A tensor of plain numbers."""
    shape = choice(draw, SHAPES)
    return Literal(shape, tuple(choice(draw, NUMBERS) for _ in range(prod(shape))))


class Operands:
    """The names of a program, in the order in which they were bound; queries list the newest first."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names: list[str] = []
        self.counts: dict[str, int] = {}

    def fresh(self, letter: str) -> str:
        """A new name."""
        self.counts[letter] = self.counts.get(letter, -1) + 1
        return f"{letter}{self.counts[letter]}"

    def bound(self, name: str) -> None:
        """Records that a name was bound (again), unless it has no value or None."""
        if self.model.values.get(name) is not None:
            if name in self.names:
                self.names.remove(name)
            self.names.append(name)

    def value(self, name: str) -> Array:
        """The value of a name."""
        return self.model.value(name).value

    def newest(self, fits: Callable[[Value], bool] = lambda value: True) -> list[str]:
        """The names whose value fits, and whose derivative is predicted."""
        return [name for name, value in self._predicted() if fits(value)][:NEAREST]

    def _predicted(self) -> list[tuple[str, Value]]:
        values = [(name, self.model.values[name]) for name in reversed(self.names)]
        return [(name, value) for name, value in values if value is not None and not value.opaque]

    def floating(self) -> list[str]:
        """The newest names of floating tensors and variables."""
        return self.newest(lambda value: value.value.dtype.kind == "f")

    def made(self, record: TapeRecord) -> list[str]:
        """The names whose operation a tape recorded."""
        return self.newest(lambda value: record.entries.get(value.followed) is not None)

    def behind(self, record: TapeRecord, targets: Sequence[str]) -> list[str]:
        """The names on which the recorded part of the targets depends, those that the tape only watches first."""
        entries = record.entries_behind([self.model.value(name).followed for name in targets])
        inputs = {tensor for entry in entries for tensor in entry.inputs if tensor in record.entries}
        found = [(name, value) for name, value in self._predicted() if value.followed in inputs]
        found.sort(key=lambda one: record.entries[one[1].followed] is not None)
        return [name for name, _ in found][:NEAREST]

    def recorded(self) -> list[str]:
        """The names that a tape that is active now would follow an operation on."""

        def followed(value: Value, record: TapeRecord) -> bool:
            accessed = record.accessed and isinstance(value, ModelVariable) and value.trainable
            return accessed or value.followed in record.entries

        return self.newest(lambda value: any(followed(value, record) for record in self.model.active.records))

    def batches(self, names: Sequence[str]) -> list[str]:
        """The names that have a batch dimension and another one; all, if there are none."""
        return [name for name in names if self.value(name).ndim == 2] or list(names)


def applied(
    draw: Draw, names: Sequence[str], value: Callable[[str], Array], left_out: Sequence[str]
) -> tuple[str, tuple[str, ...], Array]:
    """Draws an operation and its arguments from the names; returns both and the value, which another one keeps
    small."""
    first = choice(draw, names)
    integer = value(first).dtype.kind == "i"
    operation = choice(draw, [name for name in (INTEGER if integer else FLOATING) if name not in left_out])
    arguments = [first]
    if OPERATIONS[operation].arity == 2:
        matrix, taken = OPERATIONS[operation].matrix, value(first)
        arguments.append(choice(draw, [name for name in names if _fits(value(name), taken, matrix)]))
    arrays = [value(name) for name in arguments]
    if OPERATIONS[operation].matrix and any(array.ndim != 2 for array in arrays):
        operation = "mul" if OPERATIONS[operation].arity == 2 else "sin"
    if operation in STEPS and np.any(np.abs(arrays[0] * 2 - np.round(arrays[0] * 2)) < EDGE):
        operation = "identity"
    with np.errstate(all="ignore"):
        result = _computed(operation, arrays)
    if not np.all(np.abs(result) < LARGEST):
        operation = "to_float" if integer else "tanh"
        result = _computed(operation, arrays)
    return operation, tuple(arguments[: OPERATIONS[operation].arity]), result


def _fits(a: Array, b: Array, matrix: bool) -> bool:
    return a.dtype == b.dtype and (not matrix or a.shape == b.shape)


def _computed(operation: str, arrays: list[Array]) -> Array:
    used = arrays[: OPERATIONS[operation].arity]
    return np.asarray(OPERATIONS[operation].forward(*(array[None] for array in used))[0])


KINDS = (
    *("apply", "derive", "open", "watch", "apply", "derive", "constant", "open", "assign", "apply", "derive"),
    *("loop", "branch", "stop", "second", "resume", "reset", "derive", "watch", "call", "second"),
)
DEEPEST = 3
LONGEST = 20
LARGEST_VALUE = 1e3
TRACED_SHARE = 18
JACOBIAN_SHARE = 40
MISTAKE_SHARE = 16
MOST_JACOBIANS = 1
MOST_CALLS = 1
CALL_SHARE = 8
"""One call in CALL_SHARE is drawn, since each function costs TensorFlow a trace."""


@st.composite
def tape_programs(draw: Draw, traced: bool | None = None) -> Program:
    """Programs of up to some forty statements; about one in eighteen is traced, unless `traced` says which.

    About one call in forty is a Jacobian, which costs TensorFlow a hundred times as much as a gradient.
    """
    inside = index(draw, TRACED_SHARE) == TRACED_SHARE - 1 if traced is None else traced
    return _ProgramDraft(draw, inside).program()


class _ProgramDraft:
    """A program while it is drawn.

    `ended`: the model has raised. `loops`: how many loops surround the next statement. A method for a kind of statement
    returns None where the statement does not fit; an operation takes its place.
    """

    def __init__(self, draw: Draw, traced: bool) -> None:
        self.draw, self.traced = draw, traced
        self.model = Model(traced)
        self.operands = Operands(self.model)
        self.ended = False
        self.calls, self.jacobians, self.loops, self.length = 0, 0, 0, 0

    def program(self) -> Program:
        """Variables, a body, and at least one derivative."""
        variables: list[form.Variable] = []
        while not variables or (len(variables) < 3 and self._mostly(2)):
            variable = form.Variable(f"v{len(variables)}", literal(self.draw), index(self.draw, 5) < 4)
            self.model.declare(variable)
            self.operands.bound(variable.name)
            variables.append(variable)
        body = self._block(0)
        if not self.ended and not self.model.tapes:
            body.append(self._statement("open", 0))
        if not self.ended and not self.model.derivatives:
            body.append(self._statement("derive", 0))
        values = [value.value for value in self.model.values.values() if value is not None]
        assume(all(np.all(np.abs(array) < LARGEST_VALUE) for array in values))
        return Program(tuple(variables), tuple(body), self.traced)

    def _mostly(self, share: int) -> bool:
        """True except for one case in `share`."""
        return index(self.draw, share) > 0

    def _choice(self, options: Sequence[Any]) -> Any:
        return choice(self.draw, options)

    def _run(self, statement: Statement, *names: str) -> Statement:
        """Runs a statement, which may bind `names`."""
        try:
            self.model.run(statement)
        except RaisedError:
            self.ended = True
        except NoneOperandError:
            # In a later round of a loop a derivative may be None.
            reject()
        else:
            for name in names:
                self.operands.bound(name)
        return statement

    def _statement(self, kind: str, depth: int) -> Statement:
        made: Statement = getattr(self, f"_{kind}")(depth) or self._apply(depth)
        return made

    def _block(self, depth: int) -> list[Statement]:
        body: list[Statement] = []
        while not self.ended and self.length < LONGEST and self._mostly(5):
            self.length += 1
            kind = self._choice(KINDS)
            body.append(self._statement(kind, depth))
            if kind in ("open", "second") and not self.ended and self._mostly(2):
                body.append(self._statement("derive", depth))
        return body

    def _within(
        self, opened: form.Open | form.Stop | form.Resume, depth: int, begin: Callable[[], list[Statement]] = list
    ) -> Statement:
        """A block whose body is drawn while the model is inside of it."""
        body: list[Statement] = []
        try:
            with self.model.block(opened):
                body = begin() + self._block(depth + 1)
        except RaisedError:
            self.ended = True
        return replace(opened, body=tuple(body))

    def _open(self, depth: int) -> Statement | None:
        if depth >= DEEPEST:
            return None
        tapes = [self._tape()]
        while len(tapes) < 2 and not self._mostly(4):
            tapes.append(self._tape())
        return self._within(form.Open(tuple(tapes), ()), depth, lambda: self._watches(tapes))

    def _second(self, depth: int) -> Statement | None:
        """A tape around another one and its derivative."""
        if depth + 1 >= DEEPEST:
            return None
        outer = self._tape()

        def begin() -> list[Statement]:
            body = self._watches([outer])
            for kind in ("open", "derive"):
                body += [] if self.ended else [self._statement(kind, DEEPEST - 1)]
            return body

        return self._within(form.Open((outer,), ()), depth, begin)

    def _tape(self) -> form.Tape:
        return form.Tape(self.operands.fresh("tape"), index(self.draw, 3) == 2, index(self.draw, 4) < 3)

    def _watches(self, tapes: Sequence[form.Tape]) -> list[Statement]:
        """The first statements in the body of new tapes: most of them watch something."""
        watching = [tape.name for tape in tapes if not (tape.accessed and self._mostly(3))]
        names = self.operands.floating() or self.operands.newest()
        return [self._run(form.Watch(tape, self._choice(names))) for tape in watching]

    def _drawn_tape(self, usable: Callable[[ModelTape], bool]) -> str | None:
        """A tape, the newest first; rarely one on which the statement fails."""
        tapes = self.model.tapes
        fitting = [name for name in reversed(tapes) if usable(tapes[name])]
        if tapes and index(self.draw, MISTAKE_SHARE) == MISTAKE_SHARE - 1:
            fitting = list(reversed(tapes))
        return self._choice(fitting[:3]) if fitting else None

    def _watch(self, depth: int) -> Statement | None:
        tape = self._drawn_tape(lambda tape: tape.record is not None)
        return None if tape is None else self._run(form.Watch(tape, self._choice(self.operands.newest())))

    def _reset(self, depth: int) -> Statement | None:
        tape = self._drawn_tape(lambda tape: tape.recording)
        return None if tape is None else self._run(form.Reset(tape))

    def _stop(self, depth: int) -> Statement | None:
        tape = self._drawn_tape(lambda tape: tape.recording)
        return None if tape is None or depth >= DEEPEST else self._within(form.Stop(tape, ()), depth)

    def _resume(self, depth: int) -> Statement | None:
        tape = self._drawn_tape(lambda tape: not tape.recording)
        return None if tape is None or depth >= DEEPEST else self._within(form.Resume(tape, ()), depth)

    def _loop(self, depth: int) -> Statement | None:
        """A loop whose body is drawn in the first round and repeated in the others."""
        if depth >= DEEPEST or self.length > LONGEST // 2:
            return None
        count = 2 + index(self.draw, 2)
        self.loops += 1
        body = self._block(depth + 1) or [self._apply(depth)]
        self.loops -= 1
        for statement in body * (count - 1):
            if not self.ended:
                self._run(statement)
        return form.Loop(count, tuple(body))

    def _apply(self, depth: int) -> Statement:
        names = (self.operands.recorded() if self._mostly(4) else []) or self.operands.newest()
        left_out = EAGER_ONLY if self.traced else ()
        operation, arguments, value = applied(self.draw, names, self.operands.value, left_out)
        first, old = arguments[0], self.operands.value(arguments[0])
        # In a loop a name keeps its shape and dtype, so that the next round runs as well.
        fits = first.isidentifier() and (not self.loops or (old.shape, old.dtype) == (value.shape, value.dtype))
        name = first if fits and not self._mostly(10) else self.operands.fresh("t")
        return self._run(Apply(name, operation, arguments), name)

    def _constant(self, depth: int) -> Statement:
        name = self.operands.fresh("c")
        return self._run(form.Constant(name, literal(self.draw)), name)

    def _assign(self, depth: int) -> Statement | None:
        names = [name for name in self.operands.newest() if isinstance(self.model.values[name], ModelVariable)]
        if not names:
            return None
        variable = self._choice(names)
        old = self.operands.value(variable)
        fitting = [name for name in self.operands.floating() if self.operands.value(name).shape == old.shape]
        value = self._choice([name for name in fitting if name != variable] + [variable])
        small = np.all(np.abs(old + self.operands.value(value)) < LARGEST)
        return self._run(form.Assign(variable, self._choice(("assign_add", "assign")) if small else "assign", value))

    def _branch(self, depth: int) -> Statement | None:
        names = self.operands.floating()
        if not names:
            return None
        condition, operand = (self._choice(names) for _ in range(2))
        shape = self.operands.value(operand).shape
        other = self._choice([name for name in names if self.operands.value(name).shape == shape])
        threshold = self._choice((0.3, -0.7, 1.1))
        if abs(threshold - float(np.sum(self.operands.value(condition)))) < EDGE:
            threshold += 0.123
        name = self.operands.fresh("t")
        then, otherwise = (
            (Apply(name, self._choice(("sin", "tanh", "identity", "neg", "stop_gradient")), (one,)),)
            for one in (operand, other)
        )
        return self._run(form.Branch(name, condition, threshold, then, otherwise), name)

    def _call(self, depth: int) -> Statement | None:
        names = self.operands.floating()
        captured = [name for name in names if isinstance(self.model.values[name], ModelVariable)]
        tensors = [name for name in names if name.isidentifier() and name not in captured]
        arguments = tuple(dict.fromkeys(self._choice(tensors) for _ in range(2) if tensors))
        values = {name: self.operands.value(name) for name in (*captured, *arguments)}
        if not values or self.loops or self.calls >= MOST_CALLS or self._mostly(CALL_SHARE):
            return None
        self.calls += 1
        body: list[Apply] = []
        while len(body) < 3 and (not body or self._mostly(2)):
            operation, operands, value = applied(self.draw, [*reversed(values)], values.__getitem__, NOT_IN_FUNCTIONS)
            body.append(Apply(self.operands.fresh("t"), operation, operands))
            values[body[-1].name] = value
        results = tuple(statement.name for statement in body)
        return self._run(form.Call(self.operands.fresh("f"), results, arguments, tuple(body)), *results)

    def _derive(self, depth: int) -> Statement | None:
        tape = self._drawn_tape(lambda tape: tape.record is not None)
        if tape is None:
            return None
        record, method = self.model.tapes[tape].record or TapeRecord(accessed=False), self._method()
        one_batch = self.operands.batches if method == "batch_jacobian" else list
        made, newest = one_batch(self.operands.made(record)), self.operands.newest()
        targets = self._structure(made, newest, several=method == "gradient")
        behind = one_batch(self.operands.behind(record, targets.names))
        # A target may be a source as well, now and then.
        others = [name for name in newest if name not in targets.names or not self._mostly(6)]
        sources = self._structure(behind, others or targets.names, several=method != "batch_jacobian")
        name = self.operands.fresh("g")
        derive = form.Derive(name, tape, method, targets, sources, index(self.draw, 5) == 4)
        return self._run(derive, *sources.paths(name))

    def _method(self) -> form.Method:
        if self.loops or self.jacobians >= MOST_JACOBIANS or index(self.draw, JACOBIAN_SHARE) < JACOBIAN_SHARE - 1:
            return "gradient"
        self.jacobians += 1
        method: form.Method = self._choice(("jacobian", "batch_jacobian"))
        return method

    def _structure(self, preferred: Sequence[str], others: Sequence[str], several: bool) -> Structure:
        names: list[str] = []
        while not names or (several and len(names) < 3 and not self._mostly(3)):
            names.append(self._choice((preferred if preferred and self._mostly(6) else others)[:6]))
        if not several or (len(names) == 1 and self._mostly(3)):
            return Structure("one", (names[0],))
        return Structure(self._choice(("list", "dict")), tuple(names))
