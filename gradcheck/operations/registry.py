"""The operations that a project has registered in this process, beside those of the catalogue.

Files contain only their names. A module is imported if the process or the command line asks for it, or if the events
of a run name it and it is a module of the working directory that registers operations.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CellType, CodeType, FrameType
from typing import Any

from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec

FAMILY = "of this project"
EMPTY, MODULE = CellType(), "<module>"


class OperationError(ValueError):
    """An operation cannot be registered, or is not what it was registered as; names it, what was given, what to do."""

    __module__ = "gradcheck"  # as it is imported


@dataclass(frozen=True)
class Origin:
    """The module in which operations are registered, and the folder from which a fresh process can import it."""

    module: str
    folder: str

    @staticmethod
    def of(module: str, file: str) -> Origin:
        """The origin of a module that was loaded from a file.

        >>> Origin.of("project.layers.fused", "/home/project/layers/fused.py")
        Origin(module='project.layers.fused', folder='/home')
        """
        path = Path(file)
        folders = path.parents[module.count(".") + (path.name == "__init__.py") :] or (Path(),)
        return Origin(module, str(folders[0]))

    def load(self) -> None:
        """Imports the module, and thereby registers its operations."""
        if self.module not in sys.modules:
            sys.path.insert(0, self.folder)
            import_module(self.module)


@dataclass(frozen=True)
class Caller:
    """The line that registers an operation, and the code that it is executed from.

    A module that is loaded again, or a notebook's cell that is run again, has code of its own.
    """

    module: str
    file: str
    line: int
    code: CodeType

    @staticmethod
    def of(frame: FrameType) -> Caller:
        """The caller of a function that registers operations, by the frame of its caller.

        By way of whatever helper, it is the module that is being imported, since importing that in another process
        registers the operation there, too; where none is, as in a fixture of pytest, it is the frame itself.
        """
        module: FrameType | None = frame
        while module is not None and not _imports(module):
            module = module.f_back
        frame = module or frame
        return Caller(_name(frame), frame.f_code.co_filename, frame.f_lineno, frame.f_code)

    @property
    def place(self) -> str:
        """The file's name and the line."""
        return f"{Path(self.file).name}:{self.line}"

    def repeats(self, before: Caller) -> bool:
        """Whether the same file was loaded again, or another cell of a notebook was run."""
        if self.code is before.code:
            return False
        if self.file == before.file:
            return self.line == before.line or self.code.co_name == before.code.co_name == MODULE
        return not any(Path(one.file).exists() or one.module != "__main__" for one in (self, before))


def _name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "__main__"))


def _imports(frame: FrameType) -> bool:
    """Whether a frame executes a module that can be imported by its name: not a script, nor what a worker is sent."""
    name = _name(frame)
    imported = getattr(sys.modules.get(name), "__dict__", None) is frame.f_globals
    return imported and name != "__main__" and frame.f_code.co_name == MODULE


@dataclass(frozen=True)
class Registration:
    """A project's operation: the entry that the catalogue holds while it is registered, and where that was made.

    `elementwise` says that it was registered without shapes.
    """

    spec: OpSpec
    function: Any = field(compare=False)
    caller: Caller
    elementwise: bool

    @property
    def origin(self) -> Origin:
        """The module that registers it."""
        return Origin.of(self.caller.module, self.caller.file)

    @property
    def place(self) -> str:
        """The file's name and the line."""
        return self.caller.place

    def replaces(self, before: Registration) -> bool:
        """Whether it is what was registered before, once more.

        That is so where the file was loaded again. Within one execution of it, where loops and helpers register with
        one line, it takes the same function with the same declaration.
        """
        here, there = self.caller, before.caller
        if here.repeats(there):
            return True
        same = here.code is there.code and here.line == there.line
        return same and _content(self.function) == _content(before.function) and _said(self.spec) == _said(before.spec)


def _content(function: Any) -> tuple[int, ...]:
    """The identities of its code and of what it has captured, which tell a function from others of the same line."""
    made = inspect.unwrap(function)
    code = getattr(made, "__code__", None)
    if code is None:
        return (id(made),)
    captured = [cell.cell_contents for cell in made.__closure__ or () if cell != EMPTY]
    return tuple(map(id, (code, *captured, *(made.__defaults__ or ()), *(made.__kwdefaults__ or {}).values())))


def _said(spec: OpSpec) -> tuple[Any, ...]:
    """The declaration of a function, apart from sets of points, which are functions themselves."""
    return spec.domains, spec.starts, spec.attributes(), spec.orders, spec.dtypes, spec.result, spec.modes


REGISTERED: dict[str, Registration] = {}


def register(made: Registration) -> None:
    """Puts an operation beside those of the catalogue; raises OperationError where its name is taken.

    A module may be loaded twice, and a cell of a notebook run again.
    """
    name, before = made.spec.name, REGISTERED.get(made.spec.name)
    if name in CATALOGUE and (before is None or not made.replaces(before)):
        owner = "an operation of TensorFlow's catalogue" if before is None else f"the operation at {before.place}"
        raise OperationError(
            f"gradcheck.operation {name!r} at {made.place}: the name is taken by {owner}; "
            f"give another, such as @gradcheck.operation(name={f'my_{name}'!r})"
        )
    REGISTERED[name] = made
    CATALOGUE[name] = made.spec


def forget(names: Iterable[str]) -> None:
    """Takes registered operations away."""
    for name in names:
        del REGISTERED[name], CATALOGUE[name]


def registered(name: str) -> Callable[..., Any]:
    """The function of a registered operation, as graphs and scripts call it; raises OperationError."""
    if name not in REGISTERED:
        raise OperationError(
            f"no operation {name!r} is registered in this process; import the module that has its @gradcheck.operation"
        )
    return REGISTERED[name].spec.source


def own_among(names: Iterable[str]) -> list[Registration]:
    """The registrations of those of some operations that are registered, each once."""
    return [REGISTERED[name] for name in dict.fromkeys(names) if name in REGISTERED]


def origins() -> tuple[Origin, ...]:
    """From where this process has its registered operations."""
    return tuple(dict.fromkeys(made.origin for made in REGISTERED.values()))
