"""What the sources of a derivative are called in the line that takes it."""

from __future__ import annotations

import ast
from typing import Any

from gradcheck.diagnosis.lines import Line
from gradcheck.diagnosis.record import Derivative
from gradcheck.diagnosis.source_text import tree_of

POSITION = {"gradient": 1, "jacobian": 1, "batch_jacobian": 1}


def source_names(call: Derivative, earlier: int = 0) -> list[str]:
    """A name for each source, no two alike: as written in the code, else the variable's own, else its number.

    `earlier`: so many calls of the method were made on this line before.
    """
    written = _written(call, earlier)
    names = written if len(written) == len(call.sources) else [""] * len(call.sources)
    found: list[str] = []
    for position, (name, source) in enumerate(zip(names, call.sources, strict=True)):
        name = name or _own_name(source) or f"sources[{position}]"
        found.append(name if name not in found else f"{name} (sources[{position}])")
    return found


def _own_name(source: Any) -> str:
    """A variable's name, where somebody gave it one."""
    if not hasattr(source, "handle"):
        return ""
    name = str(getattr(source, "path", None) or source.name).split(":")[0]
    return "" if name == "Variable" else name


def _written(call: Derivative, earlier: int) -> list[str]:
    """The expressions for the sources in the call's source text; empty where it cannot be read."""
    if call.line is None:
        return []
    nodes = _calls(call.line, call.method)
    if not nodes:
        return []
    node = nodes[earlier % len(nodes)]
    named = [k.value for k in node.keywords if k.arg in ("sources", "source")]
    argument = named[0] if named else node.args[1] if len(node.args) > 1 else None
    return [] if argument is None else _expressions(argument)


def _expressions(node: ast.expr) -> list[str]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in _expressions(item)]
    if isinstance(node, ast.Dict):
        # TensorFlow flattens a dict in the order of its keys.
        keys = [ast.unparse(name) if name is not None else "" for name in node.keys]
        pairs = sorted(zip(keys, node.values, strict=True), key=lambda pair: pair[0])
        return [text for _, value in pairs for text in _expressions(value)]
    return [ast.unparse(node)]


def _calls(line: Line, method: str) -> list[ast.Call]:
    """The calls of the method on a line, in the order in which they are written."""
    calls = [
        node
        for node in ast.walk(tree_of(line[0]))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and node.func.end_lineno is not None
        and node.lineno <= line[1] <= node.func.end_lineno
    ]
    return sorted(calls, key=lambda node: (node.lineno, node.col_offset))
