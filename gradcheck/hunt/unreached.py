"""The lines of TensorFlow's gradients that are not expected to run, and why.

They are the lines that raise an exception, forward-compatibility branches, the lines of the table beside this file (by
their text in TensorFlow 2.21), and what follows them in the same block. A branch is not expected to be taken if it
leads to such a line, or if the table names its condition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeGuard

from gradcheck.hunt.census import rows_of
from gradcheck.hunt.gradient_code import FunctionCode, dead_lines, syntax_of

RAISES = "an exception is raised"
DEAD = "compatibility code for programs from before a date that has passed"
WHOLE = "*"
"""Stands for all lines of a function, in the table."""


@dataclass(frozen=True)
class Unreached:
    """A row: a function (file.name), the text of one of its lines, or `WHOLE`, and why it does not run."""

    function: str
    text: str
    why: str


@cache
def unreached() -> tuple[Unreached, ...]:
    """The rows of the table.

    >>> unreached()[0].function
    'array_grad._BroadcastToGrad'
    """
    return tuple(Unreached(*row) for row in rows_of("unreached.tsv"))


@cache
def reasons(code: FunctionCode) -> Mapping[int, str]:
    """The reasons why lines of a function are not expected to run, or, for lines that do, one of their branches."""
    syntax = syntax_of(code)
    rows = {row.text: row.why for row in unreached() if row.function == code.full_name}
    texts = {line: code.text(line) for line in range(code.first, code.last + 1)}
    if WHOLE in rows:
        return dict.fromkeys(texts, rows[WHOLE])
    found = dict.fromkeys(dead_lines(syntax), DEAD)
    found |= {node.lineno: RAISES for node in ast.walk(syntax) if isinstance(node, ast.Raise)}
    found |= {line: rows[text] for line, text in texts.items() if text in rows}
    for block in _blocks(syntax):
        found = {**_behind(block, found), **found}
    for node in ast.walk(syntax):
        if _branches(node) and node.lineno not in found:
            ways = (found.get(block[0].lineno) for block in (node.body, node.orelse) if block)
            if why := next(filter(None, ways), None):
                found[node.lineno] = why
    return found


def _behind(block: list[ast.stmt], found: Mapping[int, str]) -> dict[int, str]:
    """The lines from a block's first statement that does not run to its end, with the reason."""
    for one in block:
        if one.lineno in found and not _branches(one):
            lines = range(one.lineno, (block[-1].end_lineno or one.lineno) + 1)
            return dict.fromkeys(lines, found[one.lineno])
    return {}


def _branches(node: ast.AST) -> TypeGuard[ast.If | ast.For | ast.While]:
    return isinstance(node, ast.If | ast.For | ast.While)


def _blocks(syntax: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements that run one after another."""
    for node in ast.walk(syntax):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block
