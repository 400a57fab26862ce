"""The syntax of somebody's source file."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from functools import lru_cache

from gradcheck.diagnosis.lines import Line


def tree_of(filename: str) -> ast.AST:
    """The file parsed; an empty module where there is no file, or one that cannot be read."""
    return _parsed(filename, tuple(linecache.getlines(filename)))


def start_of_function(line: Line) -> int:
    """The first line of the innermost function around a line; the line itself where there is none."""
    around = [
        node.lineno
        for node in ast.walk(tree_of(line[0]))
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and node.lineno <= line[1] <= (node.end_lineno or 0)
    ]
    return max(around, default=line[1])


@lru_cache(maxsize=32)
def _parsed(filename: str, lines: Sequence[str]) -> ast.AST:
    try:
        return ast.parse("".join(lines), filename)
    except SyntaxError:
        return ast.Module([], [])
