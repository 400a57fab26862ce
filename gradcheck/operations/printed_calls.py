"""Functions of the catalogue as scripts print them: lambdas are written out, other functions are defined and called.

An expression is put together as a tree and not as a text, so that brackets, names that it binds itself, and lines that
are broken where it stands take care of themselves.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from types import CodeType
from typing import Any

from gradcheck.operations.spec import Formula


def printed_call(function: Formula, arguments: Sequence[str], attributes: Mapping[str, Any]) -> str:
    """The call of a function with expressions for its arguments and literals for its attributes.

    >>> printed_call(lambda x, y, *, axis: x * y[axis], ["x1", "y2"], {"axis": -1})
    'x1 * y2[-1]'
    """
    given = [ast.parse(argument, mode="eval").body for argument in arguments]
    keywords = [ast.keyword(name, _literal(value)) for name, value in attributes.items()]
    return ast.unparse(_call(function, given, keywords))


def definitions_of(functions: Iterable[Formula | None]) -> Iterator[str]:
    """The sources of all functions but lambdas that these are or call, directly or not, in the order of definition."""
    found = [function for function in _reached(functions) if not _is_lambda(function)]
    for function in sorted(found, key=lambda each: (each.__module__, each.__code__.co_firstlineno)):
        yield _definition(function)


def texts_of(function: Formula) -> Iterator[str]:
    """The sources of a function and of all that it calls, directly or not."""
    for each in _reached([function]):
        yield ast.unparse(node_of(each)) if _is_lambda(each) else _definition(each)


@cache
def _definition(function: Formula) -> str:
    lines = source_of(function.__code__.co_filename).splitlines(keepends=True)
    return "".join(inspect.getblock(lines[function.__code__.co_firstlineno - 1 :]))


@cache
def node_of(function: Formula) -> ast.Lambda:
    """The expression that a lambda was made by; LookupError where its line has several that it may be."""
    code = function.__code__
    there = _lambdas(source_of(code.co_filename))[code.co_firstlineno]
    alike = {ast.dump(node): node for node in there if _may_be(node, code)}
    if len(alike) != 1:
        raise LookupError(f"{code.co_filename}:{code.co_firstlineno} has {len(alike)} lambdas that may be {function!r}")
    return next(iter(alike.values()))


@cache
def source_of(file: str) -> str:
    """The text of a source file as it was when it was first asked for: it may be edited during a long run."""
    return "".join(linecache.getlines(file))


@cache
def _lambdas(source: str) -> Mapping[int, list[ast.Lambda]]:
    found = defaultdict(list)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda):
            found[node.lineno].append(node)
    return found


def _may_be(node: ast.Lambda, code: CodeType) -> bool:
    """Whether this has the parameters, names and constants of a lambda's code.

    The instructions differ, for alone the lambda has no free variables, and no names that were imported.
    """
    constants = compile(ast.Expression(node), "lambda", "eval").co_consts
    return any(_outline(one) == _outline(code) for one in constants if isinstance(one, CodeType))


def _outline(code: CodeType) -> tuple[Any, ...]:
    constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_varnames, {*code.co_names, *code.co_freevars}, constants


def _is_lambda(function: Any) -> bool:
    return inspect.isfunction(function) and function.__name__ == "<lambda>"


def _reached(functions: Iterable[Formula | None]) -> list[Formula]:
    found: list[Formula] = []
    waiting = [function for function in functions if function is not None]
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if function not in found:
            found.append(function)
            known, names = _variables(function), (*_globals_read(function.__code__), *function.__code__.co_freevars)
            read = [known.get(name) for name in names]
            waiting += [value for value in read if callable(value) and inspect.isfunction(inspect.unwrap(value))]
    return found


def _variables(function: Formula) -> Mapping[str, Any]:
    """The values of the names that a function reads but does not bind."""
    enclosing = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in enclosing}}


@cache
def _globals_read(code: CodeType) -> tuple[str, ...]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    own = (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    return (*own, *chain.from_iterable(map(_globals_read, inner)))


def _call(function: Formula, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> ast.expr:
    if not _is_lambda(function):
        return ast.Call(ast.Name(function.__name__), list(arguments), list(keywords))
    given = inspect.signature(function).bind(*arguments, **{str(one.arg): one.value for one in keywords})
    given.apply_defaults()  # an empty dictionary for `**ways`, where nothing is left for it
    body: ast.expr = _WrittenOut(given.arguments, _variables(function)).visit(_copied(node_of(function).body))
    return body


def _copied(node: ast.expr) -> ast.expr:
    """A copy that may be changed: its text, parsed.

    All trees share the object that is a name's context, on which `executing` leaves a parent, so that copy.deepcopy
    would follow it into the module that was looked at last (findings/copies_of_trees_after_executing.sh).
    """
    return ast.parse(ast.unparse(node), mode="eval").body


def _literal(value: Any) -> ast.expr:
    text = repeated(value) if isinstance(value, tuple) else None
    return ast.parse(text or repr(value), mode="eval").body


FEW, RUNS = 16, 4
"""Longer lists of so few runs of equal items are written as products."""


def repeated(items: Sequence[Any]) -> str | None:
    """A long list or tuple as a sum of products, such as [1.0] + [0.0] * 99; None for a short one, or many runs.

    >>> repeated((0,) * 99), repeated([1.0, 2.0])
    ('(0,) * 99', None)
    """
    runs: list[list[Any]] = []
    for one in items if len(items) > FEW else ():
        if not runs or runs[-1][0] != repr(one):
            if len(runs) == RUNS:
                return None
            runs.append([repr(one), 0])
        runs[-1][1] += 1
    kind = "({},)" if isinstance(items, tuple) else "[{}]"
    return " + ".join(kind.format(one) + (f" * {count}" if count > 1 else "") for one, count in runs) or None


class _WrittenOut(ast.NodeTransformer):
    """Puts a lambda's arguments in the places of its parameters, and bodies in those of the lambdas that it calls.

    The arguments are expressions by the names of parameters, and a dictionary of expressions for `**ways`.
    """

    def __init__(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self.variables = {name: value for name, value in variables.items() if name not in arguments}

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.arguments:
            return self.arguments[node.id]
        value = self.variables.get(node.id)
        return _literal(value) if isinstance(value, (bool, int, float, str, tuple)) else node

    def visit_keyword(self, node: ast.keyword) -> Any:
        given = self.arguments.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if node.arg is None and given is not None:
            return [ast.keyword(name, value) for name, value in given.items()]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = self.variables.get(node.func.id) if isinstance(node.func, ast.Name) else None
        self.generic_visit(node)
        return _call(called, node.args, node.keywords) if inspect.isfunction(called) else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        bound = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        left = {name: value for name, value in self.arguments.items() if name not in bound}
        variables = {name: value for name, value in self.variables.items() if name not in bound}
        node.body = _WrittenOut(left, variables).visit(node.body)
        return node
