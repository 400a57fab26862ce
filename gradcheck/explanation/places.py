"""The line of somebody's code that is running, seen through the frames of libraries."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from gradcheck.result import Place

Line = tuple[str, int]
"""A file as Python names it, and a line number."""

OWN = str(Path(__file__).resolve().parents[1]) + os.sep
STANDARD = str(Path(os.__file__).resolve().parent) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def called(f: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Call somebody's code; the frames below this one are its own."""
    return f(*inputs)


def running_line() -> Line | None:
    """The innermost line outside of TensorFlow, Keras, NumPy, the standard library and gradcheck.

    Where there is none in the code that we called, the innermost line of Keras.
    """
    frame: FrameType | None = sys._getframe(1)
    keras = None
    while frame is not None and frame.f_code is not called.__code__:
        kind = kind_of(frame.f_code.co_filename)
        if kind == "user":
            return frame.f_code.co_filename, frame.f_lineno
        if kind == "keras" and keras is None:
            keras = frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return keras


@lru_cache(maxsize=4096)
def kind_of(filename: str) -> str:
    """Whose file it is: "keras", "library" or "user"."""
    path = os.path.abspath(filename)
    for name, folders in _libraries():
        if path.startswith(folders):
            return name
    standard = path.startswith(STANDARD) and not any(part in path for part in INSTALLED)
    generated = filename.startswith("<frozen") or "__autograph_generated_file" in path
    return "library" if standard or generated or path.startswith(OWN) else "user"


def place_of(line: Line | None, operation: str | None = None) -> Place | None:
    """The line with its text; the file relative to the current directory if it lies below it."""
    if line is None:
        return None
    filename, number = line
    code = linecache.getline(filename, number).strip()
    return Place(shown(filename), number, code, operation)


def shown(filename: str) -> str:
    """A file's name as a person would write it."""
    if filename.startswith("<"):
        return filename
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative


@lru_cache(maxsize=1)
def _libraries() -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for module, name in (("tensorflow", "library"), ("numpy", "library"), ("keras", "keras"), ("tf_keras", "keras")):
        spec = find_spec(module)
        folders = tuple(os.path.abspath(path) + os.sep for path in (spec and spec.submodule_search_locations) or ())
        found.append((name, folders))
    return tuple(found)


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
