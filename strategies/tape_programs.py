"""Programs around GradientTapes, run by the reference model while they are drawn, so that every name has a value.

The simplest statement comes first, blocks go on by a flag, operands are the newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import assume, reject
from hypothesis import strategies as st

from gradcheck.defects.tape_program import (
    Apply,
    Assign,
    Branch,
    Call,
    Constant,
    Derive,
    Loop,
    Open,
    Program,
    Reset,
    Resume,
    Statement,
    Stop,
    Structure,
    Tape,
    Variable,
    Watch,
)
from gradcheck.hunt.tapes.model import Model, NoneOperandError
from gradcheck.hunt.tapes.operations import ModelVariable
from gradcheck.hunt.tapes.tape import RaisedError

from .program_operands import SHAPES, Operands, applied, literal, moved_threshold
from .values import Draw, index

MOST_CALLS = 1
CALL_SHARE = 8
"""A function costs TensorFlow a trace, so that there are few."""


class ValueStatements:
    """A program while it is drawn, and its statements about values.

    `ended`: the model has raised. `loops`: how many loops surround the next statement.
    """

    def __init__(self, draw: Draw, traced: bool) -> None:
        self.draw, self.traced = draw, traced
        self.model = Model(traced)
        self.operands = Operands(draw, self.model)
        self.ended, self.calls, self.loops = False, 0, 0

    def _mostly(self, share: int) -> bool:
        """True but for one case in `share`."""
        return index(self.draw, share) > 0

    def _choice(self, options: Sequence[Any]) -> Any:
        return options[index(self.draw, len(options))]

    def _variable(self, number: int) -> Variable:
        variable = Variable(f"v{number}", literal(self.draw, self._choice(SHAPES)), index(self.draw, 5) < 4)
        self.model.declare(variable)
        self.operands.names.append(variable.name)
        return variable

    def _run(self, statement: Statement, name: str | None = None) -> Statement:
        """Runs a statement, which may bind `name`."""
        try:
            self.model.run(statement)
        except RaisedError:
            self.ended = True
        except NoneOperandError:
            # In a later round of a loop a derivative may be None.
            reject()
        else:
            self.operands.bound(name)
        return statement

    def _apply(self, depth: int) -> Statement:
        names = self.operands.recorded() if self._mostly(4) else []
        names = names or self.operands.newest()
        first, operation, arguments, value = applied(self.draw, names, self.operands.value, self.traced)
        old = self.operands.value(first)
        # In a loop a name keeps its shape and dtype, so that the next round runs as well.
        fits = first.isidentifier() and (not self.loops or (old.shape, old.dtype) == (value.shape, value.dtype))
        name = first if fits and not self._mostly(10) else self.operands.fresh("t")
        return self._run(Apply(name, operation, arguments), name)

    def _constant(self, depth: int) -> Statement:
        name = self.operands.fresh("c")
        return self._run(Constant(name, literal(self.draw, self._choice(SHAPES))), name)

    def _assign(self, depth: int) -> Statement:
        names = [n for n in self.operands.newest() if isinstance(self.model.values[n], ModelVariable)]
        if not names:
            return self._apply(depth)
        variable = self._choice(names)
        shape = self.operands.value(variable).shape
        fitting = [n for n in self.operands.floating() if self.operands.value(n).shape == shape]
        value = self._choice([n for n in fitting if n != variable] + [variable])
        grown = np.abs(self.operands.value(variable) + self.operands.value(value))
        method = self._choice(("assign_add", "assign")) if np.all(grown < 30) else "assign"
        return self._run(Assign(variable, method, value))

    def _branch(self, depth: int) -> Statement:
        names = self.operands.floating()
        if not names:
            return self._apply(depth)
        condition, operand = (self._choice(names) for _ in range(2))
        shape = self.operands.value(operand).shape
        other = self._choice([n for n in names if self.operands.value(n).shape == shape])
        threshold = moved_threshold(self._choice((0.3, -0.7, 1.1)), float(np.sum(self.operands.value(condition))))
        name = self.operands.fresh("t")
        then, otherwise = (
            (Apply(name, self._choice(("sin", "tanh", "identity", "neg", "stop_gradient")), (n,)),)
            for n in (operand, other)
        )
        return self._run(Branch(name, condition, threshold, then, otherwise), name)

    def _call(self, depth: int) -> Statement:
        names = self.operands.floating()
        captured = [n for n in names if isinstance(self.model.values[n], ModelVariable)]
        tensors = [n for n in names if n.isidentifier() and n not in captured]
        arguments = tuple(dict.fromkeys(self._choice(tensors) for _ in range(2) if tensors))
        values = {n: self.operands.value(n) for n in (*captured, *arguments)}
        if not values or self.loops or self.calls >= MOST_CALLS or self._mostly(CALL_SHARE):
            return self._apply(depth)
        self.calls += 1
        inner: list[Apply] = []
        while len(inner) < 3 and (not inner or self._mostly(2)):
            _, operation, operands, value = applied(self.draw, list(reversed(values)), values.__getitem__, True, False)
            inner.append(Apply(self.operands.fresh("t"), operation, operands))
            values[inner[-1].name] = value
        results = tuple(statement.name for statement in inner)
        call = self._run(Call(self.operands.fresh("f"), results, arguments, tuple(inner)))
        for name in results:
            self.operands.bound(name)
        return call


KINDS = (
    *("apply", "derive", "open", "watch", "apply", "derive", "constant", "open", "assign", "apply", "derive"),
    *("loop", "branch", "stop", "second", "resume", "reset", "derive", "watch", "call", "second"),
)
DEEPEST = 3
LONGEST = 20
LARGEST = 1e3
TRACED_SHARE = 18
JACOBIAN_SHARE = 40
MISTAKE_SHARE = 16
MOST_JACOBIANS = 1


@st.composite
def tape_programs(draw: Draw, traced: bool | None = None) -> Program:
    """Programs of up to two dozen statements; about one in eighteen is traced, unless `traced` says which.

    About one call in forty is a Jacobian, which costs TensorFlow a hundred times as much as a gradient.
    """
    inside = index(draw, TRACED_SHARE) == TRACED_SHARE - 1 if traced is None else traced
    return _Draft(draw, inside).program()


class _Draft(ValueStatements):
    """A whole program while it is drawn: blocks, tapes and derivatives."""

    def __init__(self, draw: Draw, traced: bool) -> None:
        super().__init__(draw, traced)
        self.jacobians, self.length = 0, 0

    def program(self) -> Program:
        """Variables, a body, and at least one derivative."""
        variables = [self._variable(0)]
        while len(variables) < 3 and self._mostly(2):
            variables.append(self._variable(len(variables)))
        body = list(self._block(0))
        if not self.ended and not self.model.tapes:
            body.append(self._open(0))
        if not self.ended and not self.model.derivatives:
            body.append(self._derive(0))
        values = [value.value for value in self.model.values.values() if value is not None]
        assume(all(np.all(np.abs(array) < LARGEST) for array in values))
        return Program(tuple(variables), tuple(body), self.traced)

    def _block(self, depth: int) -> tuple[Statement, ...]:
        body: list[Statement] = []
        while not self.ended and self.length < LONGEST and self._mostly(5):
            self.length += 1
            kind = self._choice(KINDS)
            body.append(getattr(self, f"_{kind}")(depth))
            if kind in ("open", "second") and not self.ended and self._mostly(2):
                body.append(self._derive(depth))
        return tuple(body)

    def _within(
        self,
        make: Callable[[tuple[Statement, ...]], Any],
        depth: int,
        begin: Callable[[Any], tuple[Statement, ...]] = lambda opened: (),
    ) -> Any:
        """A block whose body is drawn while the model is inside of it."""
        body: tuple[Statement, ...] = ()
        try:
            with self.model.block(make(())):
                body = begin(make(())) + self._block(depth + 1)
        except RaisedError:
            self.ended = True
        return make(body)

    def _open(self, depth: int) -> Statement:
        if depth >= DEEPEST:
            return self._apply(depth)
        tapes = [self._tape()]
        while len(tapes) < 2 and not self._mostly(4):
            tapes.append(self._tape())
        return self._within(lambda body: Open(tuple(tapes), body), depth, self._begin_with_watches)  # type: ignore[no-any-return]

    def _second(self, depth: int) -> Statement:
        """A tape around another one and the derivative that it gives."""
        if depth + 1 >= DEEPEST:
            return self._apply(depth)
        outer = (self._tape(),)
        return self._within(lambda body: Open(outer, body), depth, self._begin_with_derivative)  # type: ignore[no-any-return]

    def _begin_with_derivative(self, opened: Open) -> tuple[Statement, ...]:
        begin = [*self._begin_with_watches(opened)]
        for draw in (self._open, self._derive):
            begin += [] if self.ended else [draw(DEEPEST - 1)]
        return tuple(begin)

    def _begin_with_watches(self, opened: Open) -> tuple[Statement, ...]:
        """What the body of new tapes begins with: most of them watch something."""
        tapes = [tape.name for tape in opened.tapes if not (tape.accessed and self._mostly(3))]
        return tuple(
            self._run(Watch(tape, self._choice(self.operands.floating() or self.operands.newest()))) for tape in tapes
        )

    def _tape(self) -> Tape:
        return Tape(self.operands.fresh("tape"), index(self.draw, 3) == 2, index(self.draw, 4) < 3)

    def _tape_name(self, usable: Callable[[Any], bool]) -> str | None:
        """A tape, the newest first; rarely one on which the statement fails."""
        tapes = self.model.tapes
        fitting = [name for name in reversed(tapes) if usable(tapes[name])]
        if tapes and index(self.draw, MISTAKE_SHARE) == MISTAKE_SHARE - 1:
            fitting = list(reversed(tapes))
        return self._choice(fitting[:3]) if fitting else None

    def _watch(self, depth: int) -> Statement:
        tape = self._tape_name(lambda tape: tape.record is not None)
        if tape is None:
            return self._apply(depth)
        return self._run(Watch(tape, self._choice(self.operands.newest())))

    def _reset(self, depth: int) -> Statement:
        tape = self._tape_name(lambda tape: tape.recording)
        return self._apply(depth) if tape is None else self._run(Reset(tape))

    def _stop(self, depth: int) -> Statement:
        tape = self._tape_name(lambda tape: tape.recording)
        if tape is None or depth >= DEEPEST:
            return self._apply(depth)
        return self._within(lambda body: Stop(tape, body), depth)  # type: ignore[no-any-return]

    def _resume(self, depth: int) -> Statement:
        tape = self._tape_name(lambda tape: not tape.recording)
        if tape is None or depth >= DEEPEST:
            return self._apply(depth)
        return self._within(lambda body: Resume(tape, body), depth)  # type: ignore[no-any-return]

    def _loop(self, depth: int) -> Statement:
        """The body is drawn in the first round; the others repeat it."""
        if depth >= DEEPEST or self.length > LONGEST // 2:
            return self._apply(depth)
        count = 2 + index(self.draw, 2)
        self.loops += 1
        body = self._block(depth + 1) or (self._apply(depth),)
        self.loops -= 1
        for _ in range(count - 1):
            for statement in body:
                if not self.ended:
                    self._run(statement)
        return Loop(count, body)

    def _derive(self, depth: int) -> Statement:
        name = self._tape_name(lambda tape: tape.record is not None)
        if name is None:
            return self._apply(depth)
        record, method = self.model.tapes[name].record, self._method()
        made = self.operands.made(record)
        if method == "batch_jacobian":
            made = self.operands.batches(made)
        targets = self._structure(made, several=method == "gradient", others=self.operands.newest())
        behind = self.operands.behind(record, targets.names)
        if method == "batch_jacobian":
            behind = self.operands.batches(behind)
        # A target may be a source as well, now and then.
        others = [n for n in self.operands.newest() if n not in targets.names or not self._mostly(6)]
        sources = self._structure(behind, several=method != "batch_jacobian", others=others or list(targets.names))
        result = self.operands.fresh("g")
        derive = Derive(result, name, method, targets, sources, index(self.draw, 5) == 4)
        self._run(derive)
        for path in sources.paths(result):
            self.operands.bound(path)
        return derive

    def _method(self) -> str:
        if self.loops or self.jacobians >= MOST_JACOBIANS or index(self.draw, JACOBIAN_SHARE) < JACOBIAN_SHARE - 1:
            return "gradient"
        self.jacobians += 1
        return str(self._choice(("jacobian", "batch_jacobian")))

    def _structure(self, preferred: Sequence[str], several: bool, others: Sequence[str]) -> Structure:
        names: list[str] = []
        while not names or (several and len(names) < 3 and not self._mostly(3)):
            pool = preferred if preferred and self._mostly(6) else others
            names.append(self._choice(pool[:6]))
        if not several or (len(names) == 1 and self._mostly(3)):
            return Structure("one", (names[0],))
        return Structure(self._choice(("list", "dict")), tuple(names))
