"""Where TensorFlow's gradients are written: the lines of the registered functions, and of helpers that they call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from linecache import getline
from pathlib import Path
from typing import Any

from gradcheck.hunt.census import census, gradient_functions

FunctionSyntax = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class FunctionCode:
    """A function of TensorFlow: its file, its name, the line where it starts, and the first and last of its body."""

    file: str
    name: str
    start: int
    first: int
    last: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last

    @property
    def full_name(self) -> str:
        """The file and the name, as the census has them."""
        return f"{Path(self.file).stem}.{self.name}"

    def text(self, line: int) -> str:
        """One of its lines."""
        return getline(self.file, line).strip()


def code_of(function: Callable[..., Any]) -> FunctionCode | None:
    """A function's code; None where it is not written in Python."""
    try:
        inner = inspect.unwrap(function)
        file, start = inspect.getsourcefile(inner), inner.__code__.co_firstlineno
    except (AttributeError, TypeError, ValueError):
        return None
    if file is None:
        return None
    # The innermost one: some gradients are defined inside of a function that makes them.
    around = [one for one in _functions(file) if one.start <= start <= one.last]
    return max(around, key=lambda one: one.start, default=None)


def helpers_of(functions: Iterable[FunctionCode]) -> set[FunctionCode]:
    """The functions that these call, directly or not, which are written for gradients.

    Those are the functions of files whose name has "grad" in it, and private ones in the file of their caller.
    """
    waiting, found = list(functions), set(functions)
    gradient_files = {one.file for one in found if "grad" in Path(one.file).name}
    while waiting:
        caller = waiting.pop()
        for name in _called(caller):
            files = {caller.file} if name.startswith("_") else gradient_files
            files = files | gradient_files if "grad" in Path(caller.file).name else files
            called = {one for file in files for one in _functions(file) if one.name == name} - found
            found |= called
            waiting += called
    return found


def registered_code(registry: Mapping[str, Any]) -> dict[str, FunctionCode]:
    """The code of those functions of a registry that are written in Python, by operation."""
    codes = {operation: code_of(function) for operation, function in registry.items() if function is not None}
    return {operation: code for operation, code in codes.items() if code is not None}


def reachable_code() -> dict[str, FunctionCode]:
    """The code of the registered gradients of the census that a CPU can reach, by operation."""
    rows = census()
    functions = gradient_functions().items()
    return registered_code({name: one for name, one in functions if name in rows and rows[name].reachable})


def syntax_of(code: FunctionCode) -> FunctionSyntax:
    """The syntax tree of a function; it is shared: copy it to change it."""
    return next(
        node for node in ast.walk(_tree(code.file)) if isinstance(node, FunctionSyntax) and _start(node) == code.start
    )


def dead_lines(syntax: ast.AST) -> set[int]:
    """The lines of forward-compatibility branches that the installed release does not take.

    `compat.forward_compatible` says whether a date has passed; no program can change its answer.
    """
    from tensorflow.python.compat import compat

    dead = set[int]()
    for node in ast.walk(syntax):
        if isinstance(node, ast.If) and ast.unparse(node.test).startswith("compat.forward_compatible("):
            assert isinstance(node.test, ast.Call)
            taken = compat.forward_compatible(*map(ast.literal_eval, node.test.args))
            for statement in node.orelse if taken else node.body:
                dead.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return dead


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


@cache
def _functions(file: str) -> tuple[FunctionCode, ...]:
    return tuple(
        FunctionCode(file, node.name, _start(node), node.body[0].lineno, _end(node))
        for node in ast.walk(_tree(file))
        if isinstance(node, FunctionSyntax)
    )


def _start(node: FunctionSyntax) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _end(node: FunctionSyntax) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


@cache
def _called(code: FunctionCode) -> frozenset[str]:
    """The names that a function calls, or passes on to be called."""
    return frozenset(_names(code))


def _names(code: FunctionCode) -> Iterator[str]:
    for inner in (inner for statement in syntax_of(code).body for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
