"""Programs of tapes as Python scripts, and the validation of a program that was read: it can run, and not for long."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import KEYS, MAX_RUNS, MAX_STATEMENTS, Program, Statement
from gradcheck.documents import Description, DocumentError
from gradcheck.hunt.tapes.operations import OPERATIONS

INDENT = "    "
HEAD = ("import numpy as np", "import tensorflow as tf", "")


def to_python(program: Program) -> str:
    """The program as a script, which prints every derivative (a traced one: all of them in the end)."""
    names, made = [variable.name for variable in program.variables], [_variable(one) for one in program.variables]
    if not program.traced:
        variables = [f"{name} = {text}" for name, text in zip(names, made, strict=True)]
        return "\n".join([*HEAD, *variables, *_block(program.body, traced=False), ""])
    # A function may give the name of a variable to a tensor, which makes the name its own.
    results = [statement.name for statement in program.statements() if isinstance(statement, form.Derive)]
    body = [f"[{', '.join(names)}] = variables", *_block(program.body, traced=True), f"return [{', '.join(results)}]"]
    head = [*HEAD, f"variables = [{', '.join(made)}]", "", "", "@tf.function", "def program():"]
    return "\n".join([*head, *(INDENT + line for line in body), "", "", "print(program())", ""])


def _variable(variable: form.Variable) -> str:
    trainable = "" if variable.trainable else ", trainable=False"
    return f"tf.Variable({_numbers(variable.literal)}, dtype=tf.float64{trainable})"


def _numbers(literal: form.Literal) -> Any:
    return np.reshape(literal.values, literal.shape).tolist()


def _block(body: Sequence[Statement], traced: bool) -> list[str]:
    return [line for statement in body for line in _lines(statement, traced)] or ["pass"]


def _below(head: str, body: Sequence[Statement], traced: bool, *last: str) -> list[str]:
    return [head, *(INDENT + line for line in (*_block(body, traced), *last))]


def _lines(statement: Statement, traced: bool) -> list[str]:
    match statement:
        case form.Open(tapes, body):
            return _below(f"with {', '.join(map(_tape, tapes))}:", body, traced)
        case form.Resume(tape, body):
            return _below(f"with {tape}:", body, traced)
        case form.Stop(tape, body):
            return _below(f"with {tape}.stop_recording():", body, traced)
        case form.Loop(count, body):
            return _below(f"for _ in range({count}):", body, traced)
        case form.Branch(_, condition, threshold, then, otherwise):
            test = f"if tf.reduce_sum({condition}) > {threshold}:"
            return _below(test, then, traced) + _below("else:", otherwise, traced)
        case form.Call(function, names, arguments, body):
            made, given = f"[{', '.join(names)}]", ", ".join(arguments)
            defined = _below(f"def {function}({given}):", body, traced, f"return {made}")
            return ["@tf.function", *defined, f"{made} = {function}({given})"]
        case form.Constant(name, literal):
            return [f"{name} = tf.constant({_numbers(literal)}, dtype=tf.float64)"]
        case form.Apply(name, operation, arguments):
            return [f"{name} = {(OPERATIONS[operation].text or operation).format(*arguments)}"]
        case form.Assign(variable, method, value):
            return [f"{variable}.{method}({value})"]
        case form.Watch(tape, name):
            return [f"{tape}.watch({name})"]
        case form.Reset(tape):
            return [f"{tape}.reset()"]
        case form.Derive(name, tape, method, targets, sources, zeros):
            unconnected = ", unconnected_gradients='zero'" if zeros else ""
            line = f"{name} = {tape}.{method}({_structure(targets)}, {_structure(sources)}{unconnected})"
            return [line] if traced else [line, f"print({name!r}, {name})"]


def _tape(tape: form.Tape) -> str:
    options = ["persistent=True"] * tape.persistent + ["watch_accessed_variables=False"] * (not tape.accessed)
    return f"tf.GradientTape({', '.join(options)}) as {tape.name}"


def _structure(structure: form.Structure) -> str:
    if structure.form == "dict":
        return "{" + ", ".join(f"{key!r}: {name}" for key, name in zip(KEYS, structure.names, strict=False)) + "}"
    return f"[{', '.join(structure.names)}]" if structure.form == "list" else structure.names[0]


MAX_DEPTH = 8
MAX_JACOBIANS = 1
"""With small literals, one Jacobian stays small; a Jacobian of a Jacobian grows with the fourth power."""
BOUND = "a name that was bound before"


def checked(program: Program, place: str = "$") -> Program:
    """The program itself; raises DocumentError where it cannot be run, or would run for too long.

    For instance, for an unknown operation, or for a name that nothing before it binds.
    """
    check = _Check()
    for i, variable in enumerate(program.variables):
        check.bind(f"{place}.variables[{i}].name", variable.name)
    check.block(program.body, f"{place}.body")
    return program


@dataclass
class _Check:
    """The names bound before a statement, the number of statements read, and the number that will run in all rounds."""

    values: set[str] = field(default_factory=set)
    tapes: set[str] = field(default_factory=set)
    statements: int = 0
    runs: int = 0
    jacobians: int = 0

    def block(self, statements: Sequence[Statement], place: str, rounds: int = 1, depth: int = 0) -> None:
        """Checks the statements of a block in their order; `rounds` is how often they run."""
        if depth > MAX_DEPTH:
            raise DocumentError(place, Description("a block inside of too many"), f"at most {MAX_DEPTH} around it")
        for i, statement in enumerate(statements):
            here = f"{place}[{i}]"
            self.statements += 1
            self.runs += rounds
            if self.statements > MAX_STATEMENTS or self.runs > MAX_RUNS:
                limit = f"at most {MAX_STATEMENTS} statements and {MAX_RUNS} runs"
                raise DocumentError(here, Description("one more"), limit)
            self._statement(statement, here, rounds, depth)

    def bind(self, place: str, *names: str) -> None:
        """Adds names that stand for values from here on."""
        self.values.update(_named(name, place) for name in names)

    def _statement(self, statement: Statement, place: str, rounds: int, depth: int) -> None:
        tape = getattr(statement, "tape", None)
        if tape is not None and tape not in self.tapes:
            raise DocumentError(f"{place}.tape", tape, BOUND)
        match statement:
            case form.Constant(name):
                self.bind(f"{place}.name", name)
            case form.Apply(name, operation, arguments):
                if operation not in OPERATIONS:
                    raise DocumentError(f"{place}.operation", operation, f"one of {', '.join(OPERATIONS)}")
                arity = OPERATIONS[operation].arity
                self._known(arguments, f"{place}.arguments", arity, arity)
                self.bind(f"{place}.name", name)
            case form.Assign(variable, _, value):
                self._bound(variable, f"{place}.variable")
                self._bound(value, f"{place}.value")
            case form.Watch(_, name):
                self._bound(name, f"{place}.name")
            case form.Open(tapes, body):
                self.tapes.update(_named(one.name, f"{place}.tapes[{i}].name") for i, one in enumerate(tapes))
                self.block(body, f"{place}.body", rounds, depth + 1)
            case form.Resume(_, body) | form.Stop(_, body):
                self.block(body, f"{place}.body", rounds, depth + 1)
            case form.Loop(count, body):
                self.block(body, f"{place}.body", rounds * count, depth + 1)
            case form.Derive():
                self._derive(statement, place, rounds)
            case form.Branch(name, condition, _, then, otherwise):
                self._bound(condition, f"{place}.condition")
                for part, body in (("then", then), ("otherwise", otherwise)):
                    self._local(body, f"{place}.{part}", rounds, depth)
                    if not body or body[-1].name != name:
                        raise DocumentError(f"{place}.{part}", [*body], f"statements, the last of which binds {name}")
                self.bind(f"{place}.name", name)
            case form.Call(function, names, arguments, body):
                self._known(arguments, f"{place}.arguments", 0, MAX_DEPTH)
                for name in (function, *arguments):
                    _named(name, f"{place}.arguments")
                self._local(body, f"{place}.body", rounds, depth)
                _Check({inner.name for inner in body})._known(names, f"{place}.names")
                self.values.update(names)

    def _derive(self, statement: form.Derive, place: str, rounds: int) -> None:
        self.jacobians += 0 if statement.method == "gradient" else rounds
        if self.jacobians > MAX_JACOBIANS:
            limit = f"at most {MAX_JACOBIANS}, in no loop"
            raise DocumentError(f"{place}.method", Description("one more Jacobian"), limit)
        several = {"targets": ("gradient",), "sources": ("gradient", "jacobian")}
        for name, structure in (("targets", statement.targets), ("sources", statement.sources)):
            if structure.form != "one" and statement.method not in several[name]:
                raise DocumentError(f"{place}.{name}.form", structure.form, "one of one")
            self._known(structure.names, f"{place}.{name}.names", 1, 1 if structure.form == "one" else len(KEYS))
        self.values.update(statement.sources.paths(_named(statement.name, f"{place}.name")))

    def _local(self, body: Sequence[Statement], place: str, rounds: int, depth: int) -> None:
        """Checks a block whose names are local."""
        outside = set(self.values)
        self.block(body, place, rounds, depth + 1)
        self.values = outside

    def _known(self, names: Sequence[str], place: str, least: int = 1, most: int = MAX_STATEMENTS) -> None:
        if not least <= len(names) <= most:
            expected = f"at least {least}" if len(names) < least else f"at most {most} items"
            raise DocumentError(place, Description(f"a list of {len(names)}"), expected)
        for i, name in enumerate(names):
            self._bound(name, f"{place}[{i}]")

    def _bound(self, name: str, place: str) -> None:
        if name not in self.values:
            raise DocumentError(place, name, BOUND)


def _named(name: str, place: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DocumentError(place, name, "a name that is no keyword of Python")
    return name
