"""The reference model: runs a program in plain Python and predicts what TensorFlow's tapes give, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.defects import tape_program as form
from gradcheck.hunt.tapes.operations import (
    MUL,
    OPERATIONS,
    Compute,
    Cotangents,
    ModelTensor,
    ModelVariable,
    Operation,
    TapeEntry,
    zeros_like,
)
from gradcheck.hunt.tapes.recording import ActiveTapes, Prediction, TapeRecord, evaluate, read_unrecorded
from gradcheck.hunt.tapes.tape import ModelTape, RaisedError, Value, followed, gradient

Array = np.ndarray[Any, Any]


class NoneOperandError(ValueError):
    """An operation is given None: the model predicts nothing for such a program."""


class Model:
    """The state of a program while it runs: the values of its names, its tapes, what was predicted so far.

    >>> from gradcheck.defects.tape_program import Apply, Derive, Literal, Open, Program, Structure, Tape, Variable
    >>> one = lambda name: Structure("one", (name,))
    >>> squared = Open((Tape("tape"),), (Apply("y", "square", ("v",)),))
    >>> derive = Derive("g", "tape", "gradient", one("y"), one("v"))
    >>> model = run(Program((Variable("v", Literal((), (3.0,))),), (squared, derive)))
    >>> model.derivatives[0]["g"].kind, model.derivatives[0]["g"].tensor.value.item()
    ('value', 6.0)
    """

    def __init__(self, traced: bool = False) -> None:
        self.active = ActiveTapes(traced)
        self.values: dict[str, Value | None] = {}
        self.tapes: dict[str, ModelTape] = {}
        self.derivatives: list[dict[str, Prediction]] = []
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
                self.values[statement.name] = self._applied(statement, self.active)
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
        """The `with` block of a statement."""
        if isinstance(statement, form.Stop):
            with self.tapes[statement.tape].stopped():
                yield
        elif isinstance(statement, form.Resume):
            with self.tapes[statement.tape].entered():
                yield
        else:
            yield from self._entered(statement.tapes)

    def value(self, name: str) -> Value:
        """The value of a name. Raises NoneOperandError."""
        found = self.values[name]
        if found is None:
            raise NoneOperandError(f"{name} is None, which no operation takes")
        return found

    def _entered(self, tapes: tuple[form.Tape, ...]) -> Iterator[None]:
        if not tapes:
            yield
            return
        first, *others = tapes
        self.tapes[first.name] = ModelTape(self.active, first.persistent, first.accessed)
        with self.tapes[first.name].entered():
            yield from self._entered(tuple(others))

    def _applied(
        self, statement: form.Apply, active: ActiveTapes, local: dict[str, ModelTensor] | None = None
    ) -> ModelTensor:
        operands = [(local or {}).get(name) or self.value(name) for name in statement.arguments]
        operation = OPERATIONS[statement.operation]
        read = active.read if operation.reads else read_unrecorded
        return active.apply(operation, *map(read, operands))

    def _assign(self, name: str, method: str, value: str) -> None:
        variable = self.value(name)
        if not isinstance(variable, ModelVariable):
            raise RaisedError("AttributeError", f"object has no attribute '{method}'")
        new = self.active.read(self.value(value)).value
        self.active.access(variable)
        variable.value = new if method == "assign" else variable.value + new

    def _derive(self, statement: form.Derive) -> None:
        before = self.active.hidden
        tape = self.tapes[statement.tape]
        targets = [self.value(name) for name in statement.targets.names]
        sources = [self.value(name) for name in statement.sources.names]
        found = tape.derive(statement.method, targets, sources, statement.zeros)
        if self.active.hidden > before:
            found = [prediction.opaque() for prediction in found]
        predictions = dict(zip(statement.sources.paths(statement.name), found, strict=True))
        self.values.update({path: prediction.tensor for path, prediction in predictions.items()})
        self.derivatives.append(predictions)

    def _branch(self, statement: form.Branch) -> None:
        tested = self.active.read(self.value(statement.condition))
        taken = statement.then if float(np.sum(tested.value)) > statement.threshold else statement.otherwise
        if not self.active.traced:
            for inner in taken:
                self.run(inner)
            return
        self._access(statement.then + statement.otherwise, every=False)
        bodies = tuple(self._body(body, (statement.name,), ()) for body in (statement.then, statement.otherwise))
        self._outputs("cond", (statement.name,), bodies, 0 if taken is statement.then else 1)

    def _access(self, statements: tuple[form.Apply, ...], every: bool) -> None:
        """Access the variables that a function or the branches read or, for `every`, use in any way."""
        for statement in statements:
            if every or OPERATIONS[statement.operation].reads:
                for name in statement.arguments:
                    value = self.values.get(name)
                    if isinstance(value, ModelVariable):
                        self.active.access(value)

    def _body(
        self, statements: tuple[form.Apply, ...], names: tuple[str, ...], arguments: tuple[str, ...]
    ) -> FunctionBody:
        """What a function or a branch computes, on a record of its own that follows everything from outside."""
        record = TapeRecord(accessed=True)
        active = ActiveTapes(records=[record])
        for name in dict.fromkeys((*arguments, *(one for each in statements for one in each.arguments))):
            outside = self.values.get(name)
            if outside is not None:
                record.watch(followed(outside))
        local: dict[str, ModelTensor] = {}
        for statement in statements:
            local[statement.name] = self._applied(statement, active, local)
        return FunctionBody(record, tuple(local[name] for name in names))

    def _outputs(self, kind: str, names: tuple[str, ...], bodies: tuple[FunctionBody, ...], taken: int) -> None:
        operation, inputs = _function_operation(kind, self.active, bodies, taken)
        self.values.update(zip(names, self.active.apply_all(operation, inputs), strict=True))


@dataclass(frozen=True, eq=False)
class FunctionBody:
    """What a tf.function or one branch of a tf.cond computes, all of it recorded."""

    record: TapeRecord
    outputs: tuple[ModelTensor, ...]

    @property
    def inputs(self) -> tuple[ModelTensor, ...]:
        """Its arguments and what it captures: tensors and handles of variables."""
        return tuple(tensor for tensor, entry in self.record.entries.items() if entry is None)


def _function_operation(
    name: str, active: ActiveTapes, bodies: tuple[FunctionBody, ...], taken: int
) -> tuple[Operation, tuple[ModelTensor, ...]]:
    """The operation that computes the outputs of the body `taken`, and the inputs of all bodies."""
    inputs = tuple(dict.fromkeys(tensor for body in bodies for tensor in body.inputs))
    body = bodies[taken]

    def forward(*arrays: Array) -> tuple[Array, ...]:
        moved = {tensor: array - tensor.value for tensor, array in zip(inputs, arrays, strict=True)}
        return tuple(evaluate(body.record, body.outputs, moved))

    def backward(compute: Compute, entry: TapeEntry, ups: tuple[ModelTensor, ...]) -> Cotangents:
        active.hidden += bool(active.records)
        connected = [_connected(one, inputs) for one in bodies]
        cotangents = _pulled_back(body, inputs, ups)
        return tuple(
            (cotangent or zeros_like(tensor)) if any(one[position] for one in connected) else None
            for position, (tensor, cotangent) in enumerate(zip(inputs, cotangents, strict=True))
        )

    return Operation(name, forward, backward), inputs


def _connected(body: FunctionBody, inputs: tuple[ModelTensor, ...]) -> list[bool]:
    targets = [output for output in body.outputs if output.floating]
    return [part is not None for part in gradient(body.record, targets, inputs, ActiveTapes().apply)]


def _pulled_back(
    body: FunctionBody, inputs: tuple[ModelTensor, ...], ups: tuple[ModelTensor, ...]
) -> list[ModelTensor | None]:
    """The gradients of the outputs weighted with `ups`."""
    active = ActiveTapes(records=[body.record])
    pairs = [(output, up) for output, up in zip(body.outputs, ups, strict=True) if output.floating]
    weighted = [active.apply(MUL, output, up) for output, up in pairs]
    return gradient(body.record, weighted, inputs, ActiveTapes().apply)


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
