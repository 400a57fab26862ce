"""The JSON form and the Python form of programs of tapes; statements are checked in view of the names bound before."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcheck import documents
from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import KEYS, MAX_RUNS, MAX_STATEMENTS, Program, Statement
from gradcheck.documents import Description, DocumentError
from gradcheck.hunt.tapes.operations import OPERATIONS

INDENT = "    "
HEAD = ("import numpy as np", "import tensorflow as tf", "")


def to_python(program: form.Program) -> str:
    """The program as a script, which prints every derivative (a traced one: all of them in the end)."""
    made = [_variable(variable) for variable in program.variables]
    if not program.traced:
        lines = [*HEAD, *(f"{v.name} = {text}" for v, text in zip(program.variables, made, strict=True))]
        return "\n".join([*lines, *_block(program.body, 0, traced=False)]) + "\n"
    # A function may give the name of a variable to a tensor, which makes the name its own.
    outside, own = f"variables = [{', '.join(made)}]", f"[{', '.join(v.name for v in program.variables)}] = variables"
    names = [statement.name for statement in program.statements() if isinstance(statement, form.Derive)]
    lines = [*HEAD, outside, "", "", "@tf.function", "def program():", INDENT + own]
    lines += _block(program.body, 1, traced=True)
    lines += [f"{INDENT}return [{', '.join(names)}]", "", "", "print(program())"]
    return "\n".join(lines) + "\n"


def _variable(variable: form.Variable) -> str:
    trainable = "" if variable.trainable else ", trainable=False"
    return f"tf.Variable({_numbers(variable.literal)}, dtype=tf.float64{trainable})"


def _numbers(literal: form.Literal) -> Any:
    return np.reshape(literal.values, literal.shape).tolist()


def _block(body: tuple[form.Statement, ...], depth: int, traced: bool) -> list[str]:
    lines = [line for statement in body for line in _lines(statement, depth, traced)]
    return lines or [INDENT * depth + "pass"]


def _lines(statement: form.Statement, depth: int, traced: bool) -> Iterator[str]:
    margin = INDENT * depth
    match statement:
        case form.Open(tapes, body):
            yield f"{margin}with {', '.join(map(_tape, tapes))}:"
            yield from _block(body, depth + 1, traced)
        case form.Resume(tape, body):
            yield f"{margin}with {tape}:"
            yield from _block(body, depth + 1, traced)
        case form.Stop(tape, body):
            yield f"{margin}with {tape}.stop_recording():"
            yield from _block(body, depth + 1, traced)
        case form.Loop(count, body):
            yield f"{margin}for _ in range({count}):"
            yield from _block(body, depth + 1, traced)
        case form.Branch(_, condition, threshold, then, otherwise):
            yield f"{margin}if tf.reduce_sum({condition}) > {threshold}:"
            yield from _block(then, depth + 1, traced)
            yield f"{margin}else:"
            yield from _block(otherwise, depth + 1, traced)
        case form.Call(function, names, arguments, body):
            yield f"{margin}@tf.function"
            yield f"{margin}def {function}({', '.join(arguments)}):"
            yield from _block(body, depth + 1, traced)
            yield f"{margin}{INDENT}return [{', '.join(names)}]"
            yield f"{margin}[{', '.join(names)}] = {function}({', '.join(arguments)})"
        case _:
            yield margin + _line(statement)
            if isinstance(statement, form.Derive) and not traced:
                yield f"{margin}print({statement.name!r}, {statement.name})"


def _line(statement: form.Statement) -> str:
    match statement:
        case form.Constant(name, literal):
            return f"{name} = tf.constant({_numbers(literal)}, dtype=tf.float64)"
        case form.Apply(name, operation, arguments):
            return f"{name} = {(OPERATIONS[operation].text or operation).format(*arguments)}"
        case form.Assign(variable, method, value):
            return f"{variable}.{method}({value})"
        case form.Watch(tape, name):
            return f"{tape}.watch({name})"
        case form.Reset(tape):
            return f"{tape}.reset()"
        case form.Derive(name, tape, method, targets, sources, zeros):
            unconnected = ", unconnected_gradients='zero'" if zeros else ""
            return f"{name} = {tape}.{method}({_handed(targets)}, {_handed(sources)}{unconnected})"
    raise TypeError(f"{type(statement).__name__} is no statement of a program")


def _tape(tape: form.Tape) -> str:
    options = ["persistent=True"] * tape.persistent + ["watch_accessed_variables=False"] * (not tape.accessed)
    return f"tf.GradientTape({', '.join(options)}) as {tape.name}"


def _handed(structure: form.Structure) -> str:
    if structure.form == "dict":
        return "{" + ", ".join(f"{k!r}: {name}" for k, name in zip(form.KEYS, structure.names, strict=False)) + "}"
    return f"[{', '.join(structure.names)}]" if structure.form == "list" else structure.names[0]


MAX_DEPTH = 8
MAX_JACOBIANS = 1
"""Of small literals, one Jacobian stays small; one of another is of the fourth power."""


def to_json(program: Program) -> dict[str, Any]:
    """The program as plain dictionaries, lists, numbers and texts; a statement is an object of its kind and its fields.

    Raises DocumentError for a program that `from_json` would not take.

    >>> from gradcheck.defects.tape_program import Literal, Variable, Apply
    >>> to_json(Program((Variable("v", Literal((), (3.0,))),), (Apply("y", "sin", ("v",)),)))["body"]
    [{'statement': 'apply', 'name': 'y', 'operation': 'sin', 'arguments': ['v']}]
    """
    data: dict[str, Any] = documents.plain(program)
    from_json(data)
    return data


def from_json(data: Any) -> Program:
    """The program of a JSON form.

    Raises DocumentError for anything that `to_json` would not have written: among others an unknown statement or
    operation, and a name that nothing before it binds.
    """
    return checked(documents.convert(data, Program))


def checked(program: Program, place: str = "$") -> Program:
    """The program itself; raises DocumentError where it cannot be run, or would run for too long."""
    scope = Scope()
    for i, variable in enumerate(program.variables):
        scope.bind(variable.name, f"{place}.variables[{i}].name")
    scope.block(program.body, f"{place}.body")
    return program


@dataclass
class Count:
    """How many statements were read, how many will be run (those of a loop in every round), Jacobians among them."""

    statements: int = 0
    runs: int = 0
    jacobians: int = 0


@dataclass(frozen=True)
class Scope:
    """What was bound before a statement: `values` and `tapes`; how often the statement runs, how deep it stands."""

    values: set[str] = field(default_factory=set)
    tapes: set[str] = field(default_factory=set)
    count: Count = field(default_factory=Count)
    rounds: int = 1
    depth: int = 0

    def block(self, statements: Sequence[Statement], place: str) -> None:
        """Checks the statements of a block in their order."""
        if self.depth > MAX_DEPTH:
            raise DocumentError(place, Description("a block inside of too many"), f"at most {MAX_DEPTH} around it")
        for i, statement in enumerate(statements):
            here = f"{place}[{i}]"
            self.count.statements += 1
            self.count.runs += self.rounds
            if self.count.statements > MAX_STATEMENTS or self.count.runs > MAX_RUNS:
                limit = f"at most {MAX_STATEMENTS} statements and {MAX_RUNS} runs"
                raise DocumentError(here, Description("one more"), limit)
            self._statement(statement, here)

    def bind(self, name: str, place: str) -> None:
        """A name stands for a value from here on."""
        self.values.add(_named(name, place))

    def _statement(self, statement: Statement, place: str) -> None:
        match statement:
            case form.Constant():
                self.bind(statement.name, f"{place}.name")
            case form.Apply():
                self._apply(statement, place)
            case form.Assign():
                self._known([statement.variable], f"{place}.variable")
                self._known([statement.value], f"{place}.value")
            case form.Watch():
                self._tape(statement.tape, place)
                self._known([statement.name], f"{place}.name")
            case form.Open():
                self.tapes.update(_named(t.name, f"{place}.tapes[{i}].name") for i, t in enumerate(statement.tapes))
                self._inside(statement.body, place)
            case form.Resume() | form.Stop():
                self._tape(statement.tape, place)
                self._inside(statement.body, place)
            case form.Reset():
                self._tape(statement.tape, place)
            case form.Derive():
                self._derive(statement, place)
            case form.Branch():
                self._branch(statement, place)
            case form.Loop():
                replace(self, rounds=self.rounds * statement.count)._inside(statement.body, place)
            case form.Call():
                self._call(statement, place)

    def _apply(self, statement: form.Apply, place: str) -> None:
        if statement.operation not in OPERATIONS:
            raise DocumentError(f"{place}.operation", statement.operation, f"one of {', '.join(OPERATIONS)}")
        arity = OPERATIONS[statement.operation].arity
        self._known(statement.arguments, f"{place}.arguments", arity, arity)
        self.bind(statement.name, f"{place}.name")

    def _derive(self, statement: form.Derive, place: str) -> None:
        self.count.jacobians += 0 if statement.method == "gradient" else self.rounds
        if self.count.jacobians > MAX_JACOBIANS:
            limit = f"at most {MAX_JACOBIANS}, in no loop"
            raise DocumentError(f"{place}.method", Description("one more Jacobian"), limit)
        self._tape(statement.tape, place)
        for name, several in (("targets", ("gradient",)), ("sources", ("gradient", "jacobian"))):
            structure: form.Structure = getattr(statement, name)
            if structure.form != "one" and statement.method not in several:
                raise DocumentError(f"{place}.{name}.form", structure.form, "one of one")
            most = 1 if structure.form == "one" else len(KEYS)
            self._known(structure.names, f"{place}.{name}.names", 1, most)
        self.values.update(statement.sources.paths(_named(statement.name, f"{place}.name")))

    def _branch(self, statement: form.Branch, place: str) -> None:
        self._known([statement.condition], f"{place}.condition")
        for name, body in (("then", statement.then), ("otherwise", statement.otherwise)):
            self._local().block(body, f"{place}.{name}")
            if not body or body[-1].name != statement.name:
                expected = f"statements, the last of which binds {statement.name}"
                raise DocumentError(f"{place}.{name}", [*body], expected)
        self.bind(statement.name, f"{place}.name")

    def _call(self, statement: form.Call, place: str) -> None:
        self._known(statement.arguments, f"{place}.arguments", 0, MAX_DEPTH)
        for name in (statement.function, *statement.arguments):
            _named(name, f"{place}.arguments")
        self._local().block(statement.body, f"{place}.body")
        made = replace(self, values={inner.name for inner in statement.body})
        made._known(statement.names, f"{place}.names", 1)
        self.values.update(statement.names)

    def _inside(self, body: Sequence[Statement], place: str) -> None:
        replace(self, depth=self.depth + 1).block(body, f"{place}.body")

    def _local(self) -> Scope:
        return replace(self, values=set(self.values), depth=self.depth + 1)

    def _known(self, names: Sequence[str], place: str, least: int = 1, most: int = MAX_STATEMENTS) -> None:
        if not least <= len(names) <= most:
            expected = f"at least {least}" if len(names) < least else f"at most {most} items"
            raise DocumentError(place, Description(f"a list of {len(names)}"), expected)
        for i, name in enumerate(names):
            if name not in self.values:
                at = f"{place}[{i}]" if isinstance(names, tuple) else place
                raise DocumentError(at, name, "a name that was bound before")

    def _tape(self, name: str, place: str) -> None:
        if name not in self.tapes:
            raise DocumentError(f"{place}.tape", name, "a name that was bound before")


def _named(name: str, place: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DocumentError(place, name, "a name that is no keyword of Python")
    return name
