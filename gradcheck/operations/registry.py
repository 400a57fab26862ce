"""The operations that a project has registered in this process, beside those of the catalogue.

Files contain only their names. A module is imported if the process or the command line asks for it, or if the events
of a run name it and it is a module of the working directory that registers operations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec

FAMILY = "of this project"


class OperationError(ValueError):
    """An operation cannot be registered, or is not what it was registered as; names it, what was given, what to do."""


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
class Registration:
    """A project's operation: the entry that the catalogue holds while it is registered, and where that was made.

    `elementwise` says that it was registered without shapes.
    """

    spec: OpSpec
    origin: Origin
    file: str
    line: int
    elementwise: bool

    @property
    def place(self) -> str:
        """The file's name and the line."""
        return f"{Path(self.file).name}:{self.line}"


REGISTERED: dict[str, Registration] = {}


def register(made: Registration) -> None:
    """Puts an operation beside those of the catalogue; raises OperationError where its name is taken.

    The same line of the same file may do so again, as its module may be loaded twice.
    """
    name, before = made.spec.name, REGISTERED.get(made.spec.name)
    same = before is not None and (before.file, before.line) == (made.file, made.line)
    if name in CATALOGUE and not same:
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
