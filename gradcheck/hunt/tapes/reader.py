"""Reading the statements of a program, each in view of the names that were bound before it."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

from gradcheck.hunt.graph import Input
from gradcheck.hunt.graph_json import (
    NAME,
    Description,
    GraphFormatError,
    choice,
    input_from_json,
    input_to_json,
    integer,
    items,
    keys,
    number,
    text,
)
from gradcheck.hunt.tapes import program as form
from gradcheck.hunt.tapes.operations import OPERATIONS
from gradcheck.hunt.tapes.program import Literal, Program

STATEMENTS: dict[str, type[Any]] = {
    "constant": form.Constant,
    "apply": form.Apply,
    "assign": form.Assign,
    "watch": form.Watch,
    "open": form.Open,
    "resume": form.Resume,
    "stop": form.Stop,
    "reset": form.Reset,
    "derive": form.Derive,
    "branch": form.Branch,
    "loop": form.Loop,
    "call": form.Call,
}
"""The kinds of statements by their names in JSON."""

MAX_STATEMENTS = 64
MAX_RUNS = 256
MAX_DEPTH = 8
MAX_ELEMENTS = 16
MAX_RANK = 2
MAX_JACOBIANS = 1
"""Of small literals, one Jacobian stays small; one of another is of the fourth power."""
ASSIGNMENTS = ("assign", "assign_add")
DERIVATIVES = ("gradient", "jacobian", "batch_jacobian")
Field: TypeAlias = "Callable[[str], tuple[Any, str]]"


@dataclass
class Count:
    """How many statements were read, how many will be run (those of a loop in every round), Jacobians among them."""

    statements: int = 0
    runs: int = 0
    jacobians: int = 0


@dataclass(frozen=True)
class Reader:
    """What was bound before the statement that is read: `values` and `tapes`; how often, how deep it stands."""

    values: set[str] = field(default_factory=set)
    tapes: set[str] = field(default_factory=set)
    count: Count = field(default_factory=Count)
    rounds: int = 1
    depth: int = 0

    def variable(self, data: Any, place: str) -> form.Variable:
        """A variable; raises GraphFormatError."""
        at = _fields(form.Variable, data, place)
        name = self._binds(*at("name"))
        return form.Variable(name, _literal(*at("literal")), flag(*at("trainable")))

    def block(self, data: Any, place: str, kinds: Iterable[str] = STATEMENTS) -> tuple[Any, ...]:
        """The statements of a block, all of them of some kinds; raises GraphFormatError."""
        if self.depth > MAX_DEPTH:
            raise GraphFormatError(place, Description("a block inside of too many"), f"at most {MAX_DEPTH} around it")
        return tuple(
            self._statement(one, f"{place}[{i}]", tuple(kinds))
            for i, one in enumerate(items(data, place, MAX_STATEMENTS))
        )

    def _statement(self, data: Any, place: str, kinds: tuple[str, ...]) -> Any:
        if not isinstance(data, dict):
            raise GraphFormatError(place, data, "an object with statement")
        kind = choice(data.get("statement"), f"{place}.statement", kinds)
        self.count.statements += 1
        self.count.runs += self.rounds
        if self.count.statements > MAX_STATEMENTS or self.count.runs > MAX_RUNS:
            raise GraphFormatError(
                place, Description("one more"), f"at most {MAX_STATEMENTS} statements and {MAX_RUNS} runs"
            )
        at = _fields(STATEMENTS[kind], data, place, "statement")
        return getattr(self, f"_{kind}")(at)

    def _constant(self, at: Field) -> form.Constant:
        return form.Constant(self._binds(*at("name")), _literal(*at("literal")))

    def _apply(self, at: Field) -> form.Apply:
        operation = choice(*at("operation"), tuple(OPERATIONS))
        arguments = self._known(*at("arguments"), OPERATIONS[operation].arity, OPERATIONS[operation].arity)
        return form.Apply(self._binds(*at("name")), operation, arguments)

    def _assign(self, at: Field) -> form.Assign:
        variable, value = self._value(*at("variable")), self._value(*at("value"))
        return form.Assign(variable, choice(*at("method"), ASSIGNMENTS), value)

    def _watch(self, at: Field) -> form.Watch:
        return form.Watch(self._tape(*at("tape")), self._value(*at("name")))

    def _open(self, at: Field) -> form.Open:
        given, place = at("tapes")
        tapes = [_fields(form.Tape, one, f"{place}[{i}]") for i, one in enumerate(items(given, place, MAX_DEPTH))]
        made = tuple(form.Tape(_name(*t("name")), flag(*t("persistent")), flag(*t("accessed"))) for t in tapes)
        self.tapes.update(tape.name for tape in made)
        return form.Open(made, self._inner(at))

    def _resume(self, at: Field) -> form.Resume:
        return form.Resume(self._tape(*at("tape")), self._inner(at))

    def _stop(self, at: Field) -> form.Stop:
        return form.Stop(self._tape(*at("tape")), self._inner(at))

    def _reset(self, at: Field) -> form.Reset:
        return form.Reset(self._tape(*at("tape")))

    def _derive(self, at: Field) -> form.Derive:
        method = self._method(*at("method"))
        tape, name = self._tape(*at("tape")), _name(*at("name"))
        targets = self._structure(*at("targets"), several=method == "gradient")
        sources = self._structure(*at("sources"), several=method != "batch_jacobian")
        self.values.update(sources.paths(name))
        return form.Derive(name, tape, method, targets, sources, flag(*at("zeros")))

    def _method(self, data: Any, place: str) -> str:
        method = choice(data, place, DERIVATIVES)
        self.count.jacobians += 0 if method == "gradient" else self.rounds
        if self.count.jacobians > MAX_JACOBIANS:
            raise GraphFormatError(place, Description("one more Jacobian"), f"at most {MAX_JACOBIANS}, in no loop")
        return method

    def _branch(self, at: Field) -> form.Branch:
        condition, threshold = self._value(*at("condition")), number(*at("threshold"))
        name = _name(*at("name"))
        bodies = [self._local().block(*at(body), ("apply",)) for body in ("then", "otherwise")]
        for body, (given, place) in zip(bodies, map(at, ("then", "otherwise")), strict=True):
            if not body or body[-1].name != name:
                raise GraphFormatError(place, given, f"statements, the last of which binds {name}")
        self.values.add(name)
        return form.Branch(name, condition, threshold, *bodies)

    def _loop(self, at: Field) -> form.Loop:
        given, place = at("count")
        count = integer(given, place, MAX_RUNS)
        if not count:
            raise GraphFormatError(place, given, "at least one round")
        return form.Loop(count, replace(self, rounds=self.rounds * count)._inner(at))

    def _call(self, at: Field) -> form.Call:
        function, arguments = _name(*at("function")), self._known(*at("arguments"), 0, MAX_DEPTH)
        for argument in arguments:
            _name(argument, at("arguments")[1])
        inside = self._local()
        body = inside.block(*at("body"), ("apply",))
        made = replace(self, values={statement.name for statement in body})
        names = made._known(*at("names"), 1, MAX_STATEMENTS)
        self.values.update(names)
        return form.Call(function, names, arguments, body)

    def _inner(self, at: Field) -> tuple[Any, ...]:
        return replace(self, depth=self.depth + 1).block(*at("body"))

    def _local(self) -> Reader:
        return replace(self, values=set(self.values), depth=self.depth + 1)

    def _structure(self, data: Any, place: str, *, several: bool) -> form.Structure:
        at = _fields(form.Structure, data, place)
        shape = choice(*at("form"), ("one", "list", "dict") if several else ("one",))
        return form.Structure(shape, self._known(*at("names"), 1, 1 if shape == "one" else len(form.KEYS)))

    def _binds(self, data: Any, place: str) -> str:
        name = _name(data, place)
        self.values.add(name)
        return name

    def _known(self, data: Any, place: str, least: int, most: int) -> tuple[str, ...]:
        names = items(data, place, most)
        if len(names) < least:
            raise GraphFormatError(place, Description(f"a list of {len(names)}"), f"at least {least}")
        return tuple(self._value(name, f"{place}[{i}]") for i, name in enumerate(names))

    def _value(self, data: Any, place: str) -> str:
        return _bound(data, place, self.values)

    def _tape(self, data: Any, place: str) -> str:
        return _bound(data, place, self.tapes)


def flag(data: Any, place: str) -> bool:
    """True or false; raises GraphFormatError."""
    if type(data) is not bool:
        raise GraphFormatError(place, data, "true or false")
    return data


def _fields(made: type[Any], data: Any, place: str, *more: str) -> Field:
    """Where the fields of a dataclass stand in an object that has exactly those."""
    keys(data, place, (*more, *(one.name for one in fields(made))))
    return lambda name: (data[name], f"{place}.{name}")


def _name(data: Any, place: str) -> str:
    name = text(data, place, NAME)
    if keyword.iskeyword(name):
        raise GraphFormatError(place, data, "a name that is no keyword of Python")
    return name


def _bound(data: Any, place: str, names: set[str]) -> str:
    if not isinstance(data, str) or data not in names:
        raise GraphFormatError(place, data, "a name that was bound before")
    return data


def _literal(data: Any, place: str) -> form.Literal:
    found = input_from_json(data, place)
    if found.dtype != "float64":
        raise GraphFormatError(f"{place}.dtype", found.dtype, "float64")
    if len(found.shape) > MAX_RANK or len(found.values) > MAX_ELEMENTS:
        raise GraphFormatError(
            place, Description(f"shape {found.shape}"), f"at most {MAX_ELEMENTS} elements, rank {MAX_RANK}"
        )
    return form.Literal(found.shape, tuple(float(x.real) for x in found.values))


FORMAT = "gradcheck tape program"
VERSION = 1
KINDS = {made: kind for kind, made in STATEMENTS.items()}


def to_json(program: Program) -> dict[str, Any]:
    """The program as plain dictionaries, lists, numbers and texts; a statement is an object of its kind and its fields.

    Raises GraphFormatError for a program that `from_json` would not take.

    >>> from gradcheck.programs.program import Literal, Variable, Apply
    >>> to_json(Program((Variable("v", Literal((), (3.0,))),), (Apply("y", "sin", ("v",)),)))["body"]
    [{'statement': 'apply', 'name': 'y', 'operation': 'sin', 'arguments': ['v']}]
    """
    data = {"format": FORMAT, "version": VERSION, **_told(program)}
    from_json(data)
    return data


def from_json(data: Any, place: str = "$") -> Program:
    """The program of a JSON form at a place of a document.

    Raises GraphFormatError for anything that `to_json` would not have written: among others an unknown statement or
    operation, and a name that nothing before it binds.
    """
    keys(data, place, ("format", "version", "variables", "body", "traced"))
    if data["format"] != FORMAT:
        raise GraphFormatError(f"{place}.format", data["format"], repr(FORMAT))
    if integer(data["version"], f"{place}.version") != VERSION:
        raise GraphFormatError(f"{place}.version", data["version"], f"version {VERSION}")
    reader = Reader()
    variables = items(data["variables"], f"{place}.variables", MAX_STATEMENTS)
    return Program(
        tuple(reader.variable(one, f"{place}.variables[{i}]") for i, one in enumerate(variables)),
        reader.block(data["body"], f"{place}.body"),
        flag(data["traced"], f"{place}.traced"),
    )


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    if isinstance(value, Literal):
        return input_to_json(Input(value.shape, value.values))
    if not is_dataclass(value):
        return value
    kind = {"statement": KINDS[type(value)]} if type(value) in KINDS else {}
    return {**kind, **{field.name: _told(getattr(value, field.name)) for field in fields(value)}}
