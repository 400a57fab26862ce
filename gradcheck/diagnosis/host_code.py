"""Find the line on which NumPy took a value: it reads a tensor's memory unobserved, so that only the code shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from gradcheck.tracing.record import RecordedOperation
from gradcheck.tracing.user_code import Line, function_around, header, names_on, statements_on

HOST_NAMES = {"np", "numpy", "math", "float", "int", "bool", "complex", "round"}
"""Names of functions that compute with NumPy or Python numbers."""
STATIC = {"shape", "dtype", "ndim", "size"}
"""Attributes of a tensor that do not depend on its value."""


def host_line(back: RecordedOperation, dependent: Iterable[RecordedOperation], source: str) -> Line | None:
    """Return the line that most likely computed a constant from a value that depends on the source.

    Searches the function that used the constant, then its callers; falls back to the line that used it.
    """
    numbers: dict[str, set[int]] = {}
    for code, number in {at for operation in dependent for at in operation.stack}:
        numbers.setdefault(code.co_filename, set()).add(number)
    for code, number in back.stack:
        file = code.co_filename
        found = _cut((file, number), numbers.get(file, set()), source)
        if found is not None:
            return file, found
    return back.line


def _cut(back: Line, dependent: Set[int], source: str) -> int | None:
    """The number of that line, among those of a function up to one of them."""
    function = function_around(back)
    returning = statements_on(back)
    body = [node for node in ast.walk(function) if isinstance(node, ast.stmt)] if function is not None else []
    made = {source}.union(*(names_on((back[0], one.lineno), ast.Store) for one in body if dependent & _lines(one)))
    if any(_takes(statement, made) for statement in returning):
        return back[1]
    needed, on_the_way = names_on(back, ast.Load), []
    before = [one for one in body if one is not function and one.lineno < min(map(_first, returning), default=back[1])]
    for statement in sorted(before, key=_first, reverse=True):
        if _given(statement) & needed:
            needed |= _names(statement)
            on_the_way.append(statement)
    takes = [statement for statement in on_the_way if _takes(statement, made)]
    mention = [statement for statement in on_the_way if _names(statement) & HOST_NAMES]
    return next(map(_first, (*takes, *mention)), None)


def _first(statement: ast.stmt) -> int:
    return statement.lineno


def _lines(statement: ast.stmt) -> Set[int]:
    """The lines of a statement without those of the statements inside it."""
    ends = [getattr(part, "end_lineno", None) or statement.lineno for part in header(statement)]
    return set(range(statement.lineno, max(ends, default=statement.lineno) + 1))


def _names(statement: ast.stmt) -> set[str]:
    return {node.id for part in header(statement) for node in ast.walk(part) if isinstance(node, ast.Name)}


def _given(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns to or calls: `z = …`, `kept[0] = …`, `kept.append(…)`."""
    parts = [node for part in header(statement) for node in ast.walk(part)]
    stored: list[ast.AST] = [node for node in parts if isinstance(getattr(node, "ctx", None), ast.Store)]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        stored.append(statement.value.func)
    return {node.id for part in stored for node in ast.walk(part) if isinstance(node, ast.Name)}


def _takes(statement: ast.stmt, made: Set[str]) -> bool:
    """Whether a function of NumPy or Python takes one of these names."""
    return any(made & {node.id for node in _arguments(call)} for part in header(statement) for call in _calls(part))


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    """The calls of NumPy's and Python's functions in a piece of code."""
    for node in ast.walk(part):
        root: ast.AST = node.func if isinstance(node, ast.Call) else node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(node, ast.Call) and isinstance(root, ast.Name) and root.id in HOST_NAMES:
            yield node


def _arguments(call: ast.Call) -> Iterator[ast.Name]:
    """The names whose values a call takes, not only their shapes or types."""
    nodes = [node for argument in (*call.args, *call.keywords) for node in ast.walk(argument)]
    static = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in STATIC]
    apart = {id(node) for part in static for node in ast.walk(part)}
    yield from (node for node in nodes if isinstance(node, ast.Name) and id(node) not in apart)
