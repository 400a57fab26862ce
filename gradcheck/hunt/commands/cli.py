"""The output of a command: lines for people, data for machines, the next step, an exit code."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from gradcheck import documents, runtime
from gradcheck.defects import known
from gradcheck.defects.records import Known
from gradcheck.hunt import known_graphs

LARGEST_NUMBER = 1_000_000
"""The largest number of seconds or minutes that an option takes; the clocks of the system take little more."""


class CommandError(Exception):
    """A command cannot do what it was asked to do; says what was given, what was expected, and what to do."""


@dataclass(frozen=True)
class CommandOutput:
    """`command` names it in the JSON; `data` are its fields; `next` is a command line, or another step to take."""

    command: str
    lines: tuple[str, ...]
    data: Mapping[str, Any]
    next: str
    code: int = 0

    @property
    def text(self) -> str:
        """The lines and the next step, with control characters spelt out."""
        return "\n".join(map(printable, [*self.lines, f"next: {self.next}"]))

    @property
    def json(self) -> str:
        """Strict JSON: `format`, `version`, the command's own fields, `exit_code`, `next`."""
        head = {"format": f"gradcheck {self.command}", "version": 1}
        data = {**head, **self.data, "exit_code": self.code, "next": self.next}
        return json.dumps(documents.plain(data), indent=2, allow_nan=False)


def printable(text: str) -> str:
    r"""A text without control characters: one from a file could otherwise clear the screen or forge a line.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns aligned, two spaces apart; the last column is not padded.

    >>> table([("a", "bc", "d"), ("aa", "b", "dd")])
    ['a   bc  d', 'aa  b   dd']
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def subcommand(
    commands: Any, name: str, run: Callable[[argparse.Namespace], CommandOutput], text: str
) -> argparse.ArgumentParser:
    """Adds a command that `run` carries out, with --json; the first paragraph of `text` is its one-line help, the last
    an example."""
    about, more = text.strip().split("\n\n", 1)
    more, example = more.rsplit("\n\n", 1)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.\n\n{more}",
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, for machines")
    own = "a module with operations of your own (@gradcheck.operation) that the files name; may be given again"
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=own)
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def load_modules(names: Sequence[str]) -> None:
    """Imports the modules that --import names, relative to the working directory; raises CommandError."""
    for name in names:
        try:
            imported(name)
        except (Exception, SystemExit) as error:
            raise CommandError(
                f"--import {name}: {type(error).__name__}: {error}; expected a module that can be imported from here, "
                "such as project.layers"
            ) from None


def imported(name: str) -> ModuleType:
    """A user's module, imported relative to the working directory; its exceptions propagate, SystemExit included.

    The directory stays on the path of `main`: what is called may import more of it.
    """
    if sys.path[:1] != [os.getcwd()]:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def positive(text: str) -> float:
    """An option's number above 0, such as of seconds; raises argparse.ArgumentTypeError.

    >>> positive("nan")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: 'nan' was given; expected a number above 0, at most 1,000,000
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= LARGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} was given; expected a number above 0, at most {LARGEST_NUMBER:,}")
    return number


def count(text: str) -> int:
    """An option's integer of at least 1; raises argparse.ArgumentTypeError.

    >>> count("0")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '0' was given; expected an integer of at least 1
    """
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} was given; expected an integer of at least 1")
    return int(text)


def add_paths(parser: argparse.ArgumentParser, name: str, metavar: str, what: str) -> None:
    """Adds paths as arguments; the default is the folder of reports."""
    default = [Path("reports")]
    parser.add_argument(name, nargs="*", type=Path, default=default, metavar=metavar, help=f"{what} (default: reports)")


def folder_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the folder of known defects."""
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")


def with_modules(output: CommandOutput, names: Sequence[str]) -> CommandOutput:
    """The output with --import in the next step, if that is a command of this command line."""
    given = "".join(f" --import {shlex.quote(name)}" for name in names)
    return replace(output, next=output.next + given) if output.next.startswith("python -m gradcheck") else output


PACKAGES = ("tensorflow", "tf-nightly", "tensorflow-cpu", "tf-nightly-cpu", "tensorflow-macos", "tensorflow-intel")


def tensorflow() -> str:
    """Loads TensorFlow with one thread, and returns its release; for commands that compute."""
    runtime.configure()
    import tensorflow as tf

    return str(tf.__version__)


def release() -> str:
    """TensorFlow's release without loading it (five seconds), if a package states it."""
    for name in PACKAGES:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return tensorflow()


def known_folder(named: Path | None) -> Path:
    """The folder of the known defects, `named` or the nearest; raises CommandError where there is none."""
    folder = named if named is not None else known.home()
    if folder is None:
        raise CommandError("no folder reports/known here or above; name one with --folder DIR")
    if not folder.is_dir():
        raise CommandError(f"{folder}: no such folder; name the folder of the known defects with --folder DIR")
    return folder


def elsewhere(folder: Path | None) -> str:
    """The option that names the same folder of known defects in the next step, if one was given."""
    return "" if folder is None else f" --folder {shlex.quote(str(folder))}"


def rewrite(folder: Path, changed: Iterable[Known]) -> list[Path]:
    """Puts changed records into their files, and returns these; raises CommandError where one cannot be written."""
    new = {one.name: one for one in changed}
    paths = dict.fromkeys(path for name in new if (path := known.file_of(folder, name)) is not None)
    for path in paths:
        try:
            known.write(path, [new.get(one.name, one) for one in known.read(path)])
        except OSError as error:
            raise CommandError(f"{path}: cannot be written ({error}); is the folder read-only?") from None
    return [*paths]


def known_records(folder: Path | None = None) -> tuple[Known, ...]:
    """All known defects of a folder; without one, a project's own and those that came with the package.

    Raises CommandError where a file cannot be read.
    """
    try:
        return known.records(folder, known_graphs.check)
    except known.KnownDefectError as error:
        raise CommandError(str(error)) from None
