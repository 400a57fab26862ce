"""The reference model: runs a program in plain Python and predicts the results of TensorFlow's tapes, call by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcheck.defects import tape_program as form
from gradcheck.hunt.tapes.operations import (
    MUL,
    OPERATIONS,
    Cotangents,
    ModelTensor,
    ModelVariable,
    Operation,
    RunOperation,
    Value,
    zeros_like,
)
from gradcheck.hunt.tapes.program_run import ProgramRun
from gradcheck.hunt.tapes.recording import ActiveTapes, Prediction, TapeRecord, evaluate
from gradcheck.hunt.tapes.tape import ModelTape, RaisedError, gradient
from gradcheck.typing import Array


class NoneOperandError(ValueError):
    """An operation is given None; the model predicts nothing for such a program."""


class Model(ProgramRun):
    """A program that the model runs: tensors of NumPy, tapes in Python, and predictions for derivatives.

    >>> from gradcheck.defects.tape_program import Apply, Derive, Literal, Open, Program, Structure, Tape, Variable
    >>> one = lambda name: Structure("one", (name,))
    >>> squared = Open((Tape("tape"),), (Apply("y", "square", ("v",)),))
    >>> derive = Derive("g", "tape", "gradient", one("y"), one("v"))
    >>> model = run(Program((Variable("v", Literal((), (3.0,))),), (squared, derive)))
    >>> model.derivatives[0]["g"].kind, model.derivatives[0]["g"].tensor.value.item()
    ('value', 6.0)
    """

    derivatives: list[dict[str, Prediction]]
    values: dict[str, Value | None]
    tapes: dict[str, ModelTape]

    def __init__(self, traced: bool = False) -> None:
        super().__init__(traced, lambda tape: ModelTape(self.active, tape.persistent, tape.accessed))
        self.active = ActiveTapes(traced)
        self.raised: RaisedError | None = None

    def declare(self, variable: form.Variable) -> None:
        """Declares a variable."""
        value = variable.literal.array()
        self.values[variable.name] = ModelVariable(ModelTensor(value), variable.trainable, value)

    def value(self, name: str) -> Value:
        """The value of a name. Raises NoneOperandError."""
        found = self.values[name]
        if found is None:
            raise NoneOperandError(f"{name} is None, which no operation takes")
        return found

    def run(self, statement: form.Statement) -> None:
        """Runs one statement with all of its inner ones. Raises RaisedError where TensorFlow would raise."""
        match statement:
            case form.Constant(name, literal):
                self.values[name] = ModelTensor(literal.array())
            case form.Apply():
                self.values[statement.name] = self._applied(statement, self.active, {})
            case form.Assign(name, method, value):
                self._assign(name, method, value)
            case form.Derive():
                self._derive(statement)
            case form.Branch(name, condition, threshold, then, otherwise):
                taken = float(np.sum(self.active.read(self.value(condition)).value)) > threshold
                if self.traced:
                    self._access(then + otherwise, every=False)
                    bodies = [self._body(body, (name,)) for body in (then, otherwise)]
                    self._call("cond", (name,), bodies, 0 if taken else 1)
                else:
                    self.run_all(then if taken else otherwise)
            case form.Call(_, names, arguments, body):
                # Calling a function accesses every variable that it captured, however it uses them.
                self._access(body, every=True)
                self._call("call", names, [self._body(body, names, arguments)], 0)
            case _:
                super().run(statement)

    def _applied(self, statement: form.Apply, active: ActiveTapes, local: Mapping[str, ModelTensor]) -> ModelTensor:
        operands = [local.get(name) or self.value(name) for name in statement.arguments]
        operation = OPERATIONS[statement.operation]
        return active.apply(operation, *(active.read(operand, operation.reads) for operand in operands))

    def _assign(self, name: str, method: str, value: str) -> None:
        variable = self.value(name)
        if not isinstance(variable, ModelVariable):
            raise RaisedError("AttributeError", f"object has no attribute '{method}'")
        new = self.active.read(self.value(value)).value
        self.active.access(variable)
        variable.value = new if method == "assign" else variable.value + new

    def _derive(self, statement: form.Derive) -> None:
        before = self.active.hidden
        targets, sources = (
            [self.value(name) for name in structure.names] for structure in (statement.targets, statement.sources)
        )
        found = self.tapes[statement.tape].derive(statement.method, targets, sources, statement.zeros)
        if self.active.hidden > before:
            found = [replace(one, tensor=one.tensor and replace(one.tensor, opaque=True)) for one in found]
        predictions = dict(zip(statement.sources.paths(statement.name), found, strict=True))
        self.values.update({path: prediction.tensor for path, prediction in predictions.items()})
        self.derivatives.append(predictions)

    def _access(self, statements: Sequence[form.Apply], every: bool) -> None:
        """Accesses the variables that a function or the branches read or, for `every`, use in any way."""
        used = [statement for statement in statements if every or OPERATIONS[statement.operation].reads]
        for value in (self.values.get(name) for statement in used for name in statement.arguments):
            if isinstance(value, ModelVariable):
                self.active.access(value)

    def _body(
        self, statements: Sequence[form.Apply], names: Sequence[str], arguments: Sequence[str] = ()
    ) -> FunctionBody:
        """The computation of a function or a branch, on a record of its own that watches everything from outside."""
        record = TapeRecord(accessed=True)
        for name in dict.fromkeys((*arguments, *(one for each in statements for one in each.arguments))):
            outside = self.values.get(name)
            if outside is not None:
                record.watch(outside.followed)
        local: dict[str, ModelTensor] = {}
        for statement in statements:
            local[statement.name] = self._applied(statement, ActiveTapes(records=[record]), local)
        return FunctionBody(record, tuple(local[name] for name in names))

    def _call(self, kind: str, names: Sequence[str], bodies: Sequence[FunctionBody], taken: int) -> None:
        """Applies one operation with the outputs of the body that is taken, and the inputs of all bodies."""
        inputs = tuple(dict.fromkeys(tensor for body in bodies for tensor in body.inputs))
        record, outputs = bodies[taken].record, bodies[taken].outputs

        def forward(*arrays: Array) -> tuple[Array, ...]:
            moved = {tensor: array - tensor.value for tensor, array in zip(inputs, arrays, strict=True)}
            return tuple(evaluate(record, outputs, moved))

        def cotangents(compute: RunOperation, *tensors: ModelTensor) -> Cotangents:
            self.active.hidden += bool(self.active.records)
            gradients = [body.gradients(inputs, tensors[-len(names) :]) for body in bodies]
            return tuple(
                None if all(part is None for part in parts) else parts[taken] or zeros_like(tensor)
                for tensor, *parts in zip(inputs, *gradients, strict=True)
            )

        results = self.active.apply_all(Operation(kind, forward, cotangents), inputs)
        self.values.update(zip(names, results, strict=True))


@dataclass(frozen=True, eq=False)
class FunctionBody:
    """The computation of a tf.function or of one branch of a tf.cond, all of it recorded."""

    record: TapeRecord
    outputs: tuple[ModelTensor, ...]

    @property
    def inputs(self) -> list[ModelTensor]:
        """Its arguments and captures: tensors and handles of variables."""
        return [tensor for tensor, entry in self.record.entries.items() if entry is None]

    def gradients(self, inputs: Sequence[ModelTensor], ups: Sequence[ModelTensor]) -> list[ModelTensor | None]:
        """The gradients of the floating outputs, weighted with the incoming cotangents `ups`."""
        active = ActiveTapes(records=[self.record])
        pairs = [(output, up) for output, up in zip(self.outputs, ups, strict=True) if output.floating]
        weighted = [active.apply(MUL, output, up) for output, up in pairs]
        return gradient(self.record, weighted, inputs, ActiveTapes().apply)


def run(program: form.Program) -> Model:
    """Runs a program to its end, or to the first exception, which `raised` then holds."""
    model = Model(program.traced)
    for variable in program.variables:
        model.declare(variable)
    try:
        model.run_all(program.body)
    except RaisedError as error:
        model.raised = error
    return model
