"""The user's code: its running line, found through the frames of libraries, and the source on it."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from executing import Source

from gradcheck.result import Place

Line = tuple[str, int]
"""A file as Python names it, and a line number."""
Stack = tuple[tuple[CodeType, int], ...]
"""Running code objects, the innermost first, each with its current line."""

LONGEST = 120
"""Characters of a statement of several lines that are quoted."""
OWN = str(Path(__file__).resolve().parents[1]) + os.sep
STANDARD = str(Path(os.__file__).resolve().parent) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def call_user_code(f: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Call the user's code; the frames below this one are its own."""
    return f(*inputs)


def running_frame() -> FrameType | None:
    """The innermost frame outside TensorFlow, Keras, NumPy, the standard library and gradcheck.

    One of an installed package, or without a source text, stands back behind its callers. If the called code has no
    such frame, the innermost one of Keras.
    """
    frame: FrameType | None = sys._getframe(1)
    keras = other = None
    while frame is not None and frame.f_code is not call_user_code.__code__:
        owner = file_owner(frame.f_code.co_filename)
        if owner == "user" and _is_own(frame.f_code.co_filename):
            return frame
        if owner == "user" and other is None:
            other = frame
        if owner == "keras" and keras is None:
            keras = frame
        frame = frame.f_back
    return other or keras


@lru_cache(maxsize=4096)
def _is_own(filename: str) -> bool:
    """Whether a file of the called code can be read, and is not that of an installed package."""
    installed = any(part in filename for part in INSTALLED)
    return not installed and (not filename.startswith("<") or bool(linecache.getlines(filename)))


def running_layer() -> tuple[FrameType | None, str | None, str]:
    """The frame of Keras in the innermost call of a layer, else its innermost frame; that layer's name and class.

    Without Keras, the innermost frame of an installed package.
    """
    frame: FrameType | None = sys._getframe(1)
    keras = installed = None
    while frame is not None and frame.f_code is not call_user_code.__code__:
        owner = file_owner(frame.f_code.co_filename)
        owned = owner == "keras"
        keras = frame if owned and keras is None else keras
        if installed is None and owner == "user" and not _is_own(frame.f_code.co_filename):
            installed = frame
        name = getattr(frame.f_locals.get("self"), "name", None) if frame.f_code.co_name == "call" else None
        if isinstance(name, str):
            return frame if owned else keras, name, public_layer(type(frame.f_locals["self"]))
        frame = frame.f_back
    return keras or installed, None, ""


def public_layer(kind: type) -> str:
    """The public name of a class of layers of Keras; empty for any other class."""
    home = getattr(sys.modules.get("keras"), "layers", None)
    return f"keras.layers.{kind.__name__}" if getattr(home, kind.__name__, None) is kind else ""


def frames_of(codes: Container[int]) -> list[FrameType]:
    """The frames inside the called code, innermost first, that run one of these codes, given by id."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not call_user_code.__code__:
        if id(frame.f_code) in codes:
            found.append(frame)
        frame = frame.f_back
    return found


def line_of(frame: FrameType | None) -> Line | None:
    """The line that a frame is running."""
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def user_stack(frame: FrameType | None) -> Stack:
    """The running code and lines from a frame outwards to the called code, without the frames of libraries."""
    found = []
    while frame is not None and frame.f_code is not call_user_code.__code__:
        if file_owner(frame.f_code.co_filename) == "user":
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def library_codes() -> tuple[CodeType, ...]:
    """The running library code inside the innermost line of the called code, the innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not call_user_code.__code__:
        if file_owner(frame.f_code.co_filename) == "user":
            break
        found.append(frame.f_code)
        frame = frame.f_back
    return tuple(found)


def parting(stack: Stack, other: Stack) -> Line | None:
    """The line of a stack in the function where it parts from another stack; None within one statement."""
    for (code, number), (other_code, other_number) in zip(reversed(stack), reversed(other), strict=False):
        line, beside = (code.co_filename, number), (code.co_filename, other_number)
        if code is not other_code or (number != other_number and _same_statement(line, beside)):
            return None
        if number != other_number:
            return line
    return None


def _same_statement(line: Line, other: Line) -> bool:
    return not set(map(id, statements_on(line))).isdisjoint(map(id, statements_on(other)))


@lru_cache(maxsize=4096)
def file_owner(filename: str) -> str:
    """The owner of a file: "keras", "library" or "user"."""
    path = os.path.abspath(filename)
    for folder, name in _libraries():
        if path.startswith(folder):
            return name
    standard = path.startswith(STANDARD) and not any(part in path for part in INSTALLED)
    generated = filename.startswith("<frozen") or "__autograph_generated_file" in path
    return "library" if standard or generated or path.startswith(OWN) else "user"


@lru_cache(maxsize=1)
def _libraries() -> list[tuple[str, str]]:
    """The folders of libraries, with their owners."""
    owners = {"tensorflow": "library", "numpy": "library", "keras": "keras", "tf_keras": "keras"}
    specs = [(find_spec(module), owner) for module, owner in owners.items()]
    folders = [(path, owner) for spec, owner in specs for path in (spec and spec.submodule_search_locations) or ()]
    return [(os.path.abspath(path) + os.sep, owner) for path, owner in folders]


def place_of(line: Line | None, operation: str | None = None) -> Place | None:
    """The line with its text; the file is relative to the current directory if it lies below it."""
    if line is None:
        return None
    filename, number = line
    relative = filename if filename.startswith("<") else os.path.relpath(filename)
    shown = filename if relative.startswith("..") else relative
    return Place(shown, number, linecache.getline(filename, number).strip(), operation)


def at(line: Line | None) -> str:
    """A line as part of a sentence, such as ` at train.py:12`; empty if unknown."""
    return "" if line is None else f" at {short(line)}"


def quoted(line: Line | None) -> str:
    """The text of a line, or of the statement of several lines around it, in quotes, with its place."""
    if line is None:
        return "the step"
    text = linecache.getline(*line).strip()
    found = statements_on(line)
    if len(found) == 1 and found[0].end_lineno != found[0].lineno and not hasattr(found[0], "body"):
        text = textwrap.shorten(ast.unparse(found[0]), LONGEST, placeholder=" ...")
    return f"`{text}` ({short(line)})" if text else f"the code{at(line)}"


def listed(parts: Sequence[str]) -> str:
    """Join parts of a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def short(line: Line) -> str:
    """A line without the folder of its file, such as `train.py:12`."""
    # A diagnosis gives the whole path in addition to its sentences.
    return f"{_in_package(line[0]) or Path(line[0]).name}:{line[1]}"


def _in_package(filename: str) -> str:
    """The path of a file below the folder of installed packages, if it belongs to one that is not Keras."""
    folder = next((part for part in INSTALLED if part in filename), None)
    return "" if folder is None or file_owner(filename) != "user" else Path(filename.rpartition(folder)[2]).as_posix()


def entry_of(frame: FrameType | None) -> str:
    """The function of an installed package that the called code calls, for a frame inside; empty for its own code."""
    name = ""
    while frame is not None and frame.f_code is not call_user_code.__code__:
        code = frame.f_code
        if file_owner(code.co_filename) == "user" and _is_own(code.co_filename):
            return name
        if package := _in_package(code.co_filename).partition("/")[0]:
            name = f"{getattr(code, 'co_qualname', code.co_name)} of {package.removesuffix('.py')}"
        frame = frame.f_back
    return ""


def source_expressions(frame: FrameType | None, method: str) -> list[str]:
    """The expressions for the sources in the call of a tape's method that a frame is running; empty if unreadable."""
    call = None if frame is None else Source.executing(frame).node
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == method):
        return []
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("sources", "source")]
    return [text for argument in (named or call.args[1:2])[:1] for text in _leaves(argument)]


def _leaves(node: ast.expr) -> list[str]:
    """The leaves of a nested list, tuple or dict, in the order in which TensorFlow flattens it."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in _leaves(item)]
    if isinstance(node, ast.Dict):
        keys = [ast.unparse(name) if name is not None else "" for name in node.keys]
        pairs = sorted(zip(keys, node.values, strict=True), key=lambda pair: pair[0])
        return [text for _, value in pairs for text in _leaves(value)]
    return [ast.unparse(node)]


def line_that_makes(kind: str, name: str, filename: str) -> Line | None:
    """The one line of a file that makes an object of a class, with this name if several do; None if there is none."""
    tree = Source.for_filename(filename).tree
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    made = [one for one in calls if kind in (getattr(one.func, "id", None), getattr(one.func, "attr", None))]
    names = [
        next((getattr(word.value, "value", "") for word in one.keywords if word.arg == "name"), "") for one in made
    ]
    named = [one for one, given in zip(made, names, strict=True) if given == name]
    found = named or [one for one, given in zip(made, names, strict=True) if not given]
    return (filename, found[0].lineno) if len(found) == 1 else None


def names_on(line: Line | None, context: type[ast.expr_context]) -> set[str]:
    """The names that the statements on a line use (ast.Load) or assign (ast.Store)."""
    nodes = (node for statement in statements_on(line) for part in header(statement) for node in ast.walk(part))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def expression_of(frame: FrameType | None, value: Any) -> str:
    """The name or attribute on a frame's current line whose value is this object; empty if there is none."""
    statements = [] if frame is None else statements_on(line_of(frame))
    nodes = (node for statement in statements for part in header(statement) for node in ast.walk(part))
    return next((ast.unparse(node) for node in nodes if _held(frame, node) is value), "")


def _held(frame: FrameType | None, node: ast.AST) -> Any:
    """The value of a name, or of an object's own attribute; runs none of the user's code."""
    if isinstance(node, ast.Name) and frame is not None:
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if not isinstance(node, ast.Attribute):
        return None
    try:
        return object.__getattribute__(_held(frame, node.value), "__dict__").get(node.attr)
    except AttributeError:
        return None


def assignment_to(expression: str, line: Line | None, mentioned: str) -> Line | None:
    """The line of the one statement that assigns a name, or an attribute of this name, as seen from a line.

    It is in the same class, or else anywhere in the file; of several, the one that mentions `mentioned`. None if that
    leaves none, or several.
    """
    tree = None if line is None else Source.for_filename(line[0]).tree
    if line is None or tree is None:
        return None
    kind, name = (ast.Attribute if "." in expression else ast.Name), expression.split(".")[-1]

    def assigns(node: ast.AST) -> bool:
        stored = (one for one in ast.walk(node) if isinstance(one, kind) and isinstance(one.ctx, ast.Store))
        return isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            name in (getattr(one, "attr", None), getattr(one, "id", None)) for one in stored
        )

    around = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and _covers(one, line)]
    for scope in (*around[-1:], tree):
        found = [(line[0], node.lineno) for node in ast.walk(scope) if isinstance(node, ast.stmt) and assigns(node)]
        alone = found if len(found) == 1 else [one for one in found if mentions(one, mentioned)]
        if found:
            return alone[0] if len(alone) == 1 else None
    return None


def _covers(node: ast.stmt, line: Line) -> bool:
    return node.lineno <= line[1] <= (node.end_lineno or 0)


def mentions(line: Line, name: str) -> bool:
    """Whether the statements on a line use a name, or an attribute of this name."""
    nodes = (node for statement in statements_on(line) for part in header(statement) for node in ast.walk(part))
    used = (node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Load))
    return any(name in (getattr(node, "id", None), getattr(node, "attr", None)) for node in used)


def says(line: Line, code: CodeType | None, name: str) -> bool:
    """Whether the statements on a line use a name or an attribute; if none can be read, whether the code does."""
    found = statements_on(line)
    nodes = [node for statement in found for part in header(statement) for node in ast.walk(part)]
    names = {getattr(node, "id", None) or getattr(node, "attr", None) for node in nodes}
    return name in (names if found or code is None else code.co_names)


def only_shown(line: Line | None) -> bool:
    """Whether a line only prints its values, or branches on them."""
    found = statements_on(line)
    return bool(found) and all(isinstance(one, (ast.If, ast.While, ast.Assert)) or _prints(one) for one in found)


def _prints(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def statements_on(line: Line | None) -> list[ast.stmt]:
    """The innermost statements on a line; empty if the source cannot be read."""
    found = () if line is None else Source.for_filename(line[0]).statements_at_line(line[1])
    return [statement for statement in found if isinstance(statement, ast.stmt)]


def header(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a statement without the statements inside it."""
    return [part for part in ast.iter_child_nodes(statement) if not isinstance(part, (ast.stmt, ast.excepthandler))]


def function_around(line: Line) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function, not a lambda, around a line; None if there is none to read."""
    tree = Source.for_filename(line[0]).tree
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)] if tree is not None else []
    around = [node for node in functions if _covers(node, line)]
    return max(around, key=lambda node: node.lineno, default=None)


def definition_of(function: Callable[..., Any]) -> Line:
    """The line on which a function is defined, below its decorators."""
    code = inspect.unwrap(function).__code__
    number = code.co_firstlineno
    texts = enumerate(linecache.getlines(code.co_filename)[number - 1 :], number)
    decorated = linecache.getline(code.co_filename, number).lstrip().startswith("@")
    below = (at_line for at_line, text in texts if text.lstrip().startswith(("def ", "async def ")))
    return code.co_filename, next(below, number) if decorated else number
