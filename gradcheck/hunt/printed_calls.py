"""Functions of the catalogue as scripts print them: lambdas are written out, other functions are defined and called."""

from __future__ import annotations

import ast
import copy
import dis
import inspect
import linecache
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

Function = Callable[..., Any]
Arguments = Mapping[str, Any]
"""Expressions by the names of parameters: one for each, but a tuple for `*others`, and a dictionary for `**ways`."""


def printed_call(function: Function, arguments: Sequence[str], attributes: Mapping[str, Any]) -> str:
    """The call of a function with expressions for its arguments and literals for its attributes.

    >>> printed_call(lambda x, y, *, axis: x * y[axis], ["x1", "y2"], {"axis": -1})
    'x1 * y2[-1]'
    """
    given = [ast.parse(argument, mode="eval").body for argument in arguments]
    return ast.unparse(_call(function, given, {name: _literal(value) for name, value in attributes.items()}))


def definitions_of(functions: Iterable[Function | None]) -> Iterator[str]:
    """The sources of all functions but lambdas that these are or call, directly or not, in the order of definition."""
    found = [function for function in _reached(functions) if not _is_lambda(function)]
    for function in sorted(found, key=lambda each: (each.__module__, each.__code__.co_firstlineno)):
        yield inspect.getsource(function)


def texts_of(function: Function) -> Iterator[str]:
    """The sources of a function and of all that it calls, directly or not."""
    for each in _reached([function]):
        yield ast.unparse(node_of(each)) if _is_lambda(each) else inspect.getsource(each)


@cache
def node_of(function: Function) -> ast.Lambda:
    """The expression that a lambda was made by; LookupError where its line has several that it may be."""
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    there = _lambdas(source)[code.co_firstlineno]
    alike = {ast.dump(node): node for node in there if _outline(_compiled(node)) == _outline(code)}
    if len(alike) != 1:
        raise LookupError(f"{code.co_filename}:{code.co_firstlineno} has {len(alike)} lambdas that may be {function!r}")
    return next(iter(alike.values()))


@cache
def _lambdas(source: str) -> Mapping[int, list[ast.Lambda]]:
    found = defaultdict(list)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda):
            found[node.lineno].append(node)
    return found


def _compiled(node: ast.Lambda) -> CodeType:
    code = compile(ast.Expression(node), "lambda", "eval")
    return next(one for one in code.co_consts if isinstance(one, CodeType))


def _outline(code: CodeType) -> tuple[Any, ...]:
    """What a lambda's code has in common with that of its expression alone, in which free variables are global ones."""
    constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_varnames, {*code.co_names, *code.co_freevars}, constants


def _is_lambda(function: Any) -> bool:
    return inspect.isfunction(function) and function.__name__ == "<lambda>"


def _reached(functions: Iterable[Function | None]) -> list[Function]:
    found: list[Function] = []
    waiting = [function for function in functions if function is not None]
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if function not in found:
            found.append(function)
            known, names = _variables(function), (*_globals_read(function.__code__), *function.__code__.co_freevars)
            read = [known.get(name) for name in names]
            waiting += [value for value in read if callable(value) and inspect.isfunction(inspect.unwrap(value))]
    return found


def _variables(function: Function) -> Mapping[str, Any]:
    """What the names that a function does not bind stand for."""
    enclosing = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in enclosing}}


def _globals_read(code: CodeType) -> Iterator[str]:
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_read(inner)


def _call(function: Function, arguments: Sequence[ast.expr], keywords: Mapping[str, ast.expr]) -> ast.expr:
    if not _is_lambda(function):
        named = [ast.keyword(name, value) for name, value in keywords.items()]
        return ast.Call(ast.Name(function.__name__), list(arguments), named)
    given = inspect.signature(function).bind(*arguments, **keywords)
    given.apply_defaults()  # nothing for `*others` and `**ways`, where nothing is left
    body: ast.expr = _WrittenOut(given.arguments, _variables(function)).visit(copy.deepcopy(node_of(function).body))
    return body


def _literal(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


class _WrittenOut(ast.NodeTransformer):
    """Puts a lambda's arguments in the places of its parameters, and bodies in those of the lambdas that it calls."""

    def __init__(self, arguments: Arguments, variables: Mapping[str, Any]) -> None:
        self.arguments, self.variables = arguments, variables

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.arguments:
            return self.arguments[node.id]  # type: ignore[no-any-return]
        value = self.variables.get(node.id)
        return _literal(value) if isinstance(value, (bool, int, float, str, tuple)) else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        bound = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        arguments, variables = (
            {name: value for name, value in known.items() if name not in bound}
            for known in (self.arguments, self.variables)
        )
        node.body = _WrittenOut(arguments, variables).visit(node.body)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [one for argument in node.args for one in self._positional(argument)]
        node.keywords = [one for keyword in node.keywords for one in self._named(keyword)]
        called = self.variables.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if _is_lambda(called):
            return _call(called, node.args, {str(one.arg): one.value for one in node.keywords})
        node.func = ast.Name(called.__name__) if inspect.isfunction(called) else self.visit(node.func)
        return node

    def _positional(self, argument: ast.expr) -> Sequence[ast.expr]:
        spread = isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name)
        given = self.arguments.get(argument.value.id) if spread else None  # type: ignore[attr-defined]
        return given if isinstance(given, tuple) else [self.visit(argument)]

    def _named(self, keyword: ast.keyword) -> list[ast.keyword]:
        spread = keyword.arg is None and isinstance(keyword.value, ast.Name)
        given = self.arguments.get(keyword.value.id) if spread else None  # type: ignore[attr-defined]
        if isinstance(given, dict):
            return [ast.keyword(name, value) for name, value in given.items()]
        return [ast.keyword(keyword.arg, self.visit(keyword.value))]
