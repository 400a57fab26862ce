"""The reference model: runs a program in plain Python and predicts what TensorFlow's tapes give, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from gradcheck.defects import tape_program as form
from gradcheck.hunt.tapes import errors
from gradcheck.hunt.tapes.errors import RaisedError
from gradcheck.hunt.tapes.operations import OPERATIONS, ModelTensor, ModelVariable
from gradcheck.hunt.tapes.recording import PredictedDerivative, Stage, TapeRecord, unseen
from gradcheck.hunt.tapes.tape import Body, ModelTape, block

Value: TypeAlias = "ModelTensor | ModelVariable"


class NoneTakenError(ValueError):
    """An operation is given None: a program that the model says nothing about."""


class Model:
    """The state of a program that runs: what its names stand for, its tapes, what was predicted so far.

    >>> from gradcheck.programs.program import Apply, Derive, Literal, Open, Program, Structure, Tape, Variable
    >>> one = lambda name: Structure("one", (name,))
    >>> squared = Open((Tape("tape"),), (Apply("y", "square", ("v",)),))
    >>> derive = Derive("g", "tape", "gradient", one("y"), one("v"))
    >>> model = run(Program((Variable("v", Literal((), (3.0,))),), (squared, derive)))
    >>> model.derivatives[0].parts["g"].kind, model.derivatives[0].parts["g"].tensor.value.item()
    ('value', 6.0)
    """

    def __init__(self, traced: bool = False) -> None:
        self.stage = Stage(traced)
        self.values: dict[str, Value | None] = {}
        self.tapes: dict[str, ModelTape] = {}
        self.derivatives: list[PredictedDerivative] = []
        self.raised: RaisedError | None = None

    def declare(self, variable: form.Variable) -> None:
        """A new variable."""
        value = variable.literal.array()
        self.values[variable.name] = ModelVariable(ModelTensor(value, handle=True), variable.trainable, value)

    def run(self, statement: form.Statement) -> None:
        """One statement with all of its inner ones. Raises RaisedError where TensorFlow would raise."""
        match statement:
            case form.Open() | form.Resume() | form.Stop():
                with self.block(statement):
                    for inner in statement.body:
                        self.run(inner)
            case form.Loop(count, body):
                for _ in range(count):
                    for inner in body:
                        self.run(inner)
            case form.Constant(name, literal):
                self.values[name] = ModelTensor(literal.array())
            case form.Apply():
                self.values[statement.name] = self._applied(statement, self.stage)
            case form.Assign(name, method, value):
                self._assign(name, method, value)
            case form.Watch(tape, name):
                self.tapes[tape].watch(self.value(name))
            case form.Reset(tape):
                self.tapes[tape].reset()
            case form.Derive():
                self._derive(statement)
            case form.Branch():
                self._branch(statement)
            case form.Call(_, names, arguments, body):
                # Calling a function accesses every variable that it captured, however it uses them.
                self._access(body, every=True)
                self._outputs("call", names, (self._body(body, names, arguments),), 0)

    @contextmanager
    def block(self, statement: form.Open | form.Resume | form.Stop) -> Iterator[None]:
        """The `with` of a statement, around whatever is run meanwhile."""
        if isinstance(statement, form.Stop):
            with self.tapes[statement.tape].stopped():
                yield
        elif isinstance(statement, form.Resume):
            with self.tapes[statement.tape].entered():
                yield
        else:
            yield from self._opened(statement.tapes)

    def value(self, name: str) -> Value:
        """What a name stands for."""
        found = self.values[name]
        if found is None:
            raise NoneTakenError(f"{name} is None, which no operation takes")
        return found

    def _opened(self, tapes: tuple[form.Tape, ...]) -> Iterator[None]:
        if not tapes:
            yield
            return
        first, *others = tapes
        self.tapes[first.name] = ModelTape(self.stage, first.persistent, first.accessed)
        with self.tapes[first.name].entered():
            yield from self._opened(tuple(others))

    def _applied(self, statement: form.Apply, stage: Stage, local: dict[str, ModelTensor] | None = None) -> ModelTensor:
        operands = [(local or {}).get(name) or self.value(name) for name in statement.arguments]
        operation = OPERATIONS[statement.operation]
        read = stage.tensor if operation.reads else unseen
        return stage.apply(operation, *map(read, operands))

    def _assign(self, name: str, method: str, value: str) -> None:
        variable = self.value(name)
        if not isinstance(variable, ModelVariable):
            raise errors.not_a_variable(method)
        new = self.stage.tensor(self.value(value)).value
        self.stage.access(variable)
        variable.value = new if method == "assign" else variable.value + new

    def _derive(self, statement: form.Derive) -> None:
        before = self.stage.blocked
        tape = self.tapes[statement.tape]
        targets = [self.value(name) for name in statement.targets.names]
        sources = [self.value(name) for name in statement.sources.names]
        found = tape.derive(statement.method, targets, sources, statement.zeros)
        if self.stage.blocked > before:
            found = [part.veiled() for part in found]
        parts = dict(zip(statement.sources.paths(statement.name), found, strict=True))
        self.values.update({path: part.tensor for path, part in parts.items()})
        self.derivatives.append(PredictedDerivative(statement.name, parts))

    def _branch(self, statement: form.Branch) -> None:
        tested = self.stage.tensor(self.value(statement.condition))
        taken = statement.then if float(np.sum(tested.value)) > statement.threshold else statement.otherwise
        if not self.stage.traced:
            for inner in taken:
                self.run(inner)
            return
        self._access(statement.then + statement.otherwise, every=False)
        bodies = tuple(self._body(body, (statement.name,), ()) for body in (statement.then, statement.otherwise))
        self._outputs("cond", (statement.name,), bodies, 0 if taken is statement.then else 1)

    def _access(self, statements: tuple[form.Apply, ...], every: bool) -> None:
        """The variables that a function or the branches read, or merely mention, are accessed."""
        for statement in statements:
            if every or OPERATIONS[statement.operation].reads:
                for name in statement.arguments:
                    value = self.values.get(name)
                    if isinstance(value, ModelVariable):
                        self.stage.access(value)

    def _body(self, statements: tuple[form.Apply, ...], names: tuple[str, ...], arguments: tuple[str, ...]) -> Body:
        """What a function or a branch computes, on a record of its own that follows all that comes from outside."""
        record = TapeRecord(accessed=True)
        stage = Stage(active=[record])
        for name in dict.fromkeys((*arguments, *(one for each in statements for one in each.arguments))):
            outside = self.values.get(name)
            if outside is not None:
                record.watch(outside.handle if isinstance(outside, ModelVariable) else outside)
        local: dict[str, ModelTensor] = {}
        for statement in statements:
            local[statement.name] = self._applied(statement, stage, local)
        return Body(record, tuple(local[name] for name in names))

    def _outputs(self, kind: str, names: tuple[str, ...], bodies: tuple[Body, ...], taken: int) -> None:
        operation, inputs = block(kind, self.stage, bodies, taken)
        self.values.update(zip(names, self.stage.apply_all(operation, inputs), strict=True))


def run(program: form.Program) -> Model:
    """Run a program to its end, or to the first exception, which `raised` then holds."""
    model = Model(program.traced)
    for variable in program.variables:
        model.declare(variable)
    try:
        for statement in program.body:
            model.run(statement)
    except RaisedError as error:
        model.raised = error
    return model
