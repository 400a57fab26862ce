"""The JSON form of a program: names, numbers, and the statements and operations that the interpreter knows."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from gradcheck.graphs.graph import Input
from gradcheck.graphs.json_form import GraphFormatError, input_to_json, integer, items, keys
from gradcheck.programs.program import Literal, Program
from gradcheck.programs.reader import MAX_STATEMENTS, STATEMENTS, Reader, flag

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
