"""`python -m gradcheck known fixed`: a release of TensorFlow does not have a defect any more."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gradcheck import documents, files
from gradcheck.defects.records import RELEASE, Known, TapeDefect, version_of
from gradcheck.documents import MAX_TEXT
from gradcheck.hunt.commands.command_output import (
    CommandError,
    CommandOutput,
    known_folder,
    known_records,
    subcommand,
    tensorflow,
)
from gradcheck.hunt.commands.known_check import named
from gradcheck.hunt.events import State

MORE = """Writes the first release without the defect into its file. Without --release that is the installed one,
which is asked first. A release that the installed TensorFlow contradicts is refused.

exit codes: 0 marked; 2 nothing was written."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = subcommand(
        commands,
        "fixed",
        run,
        about="mark a known defect as fixed in a release",
        more=MORE,
        example="python -m gradcheck known fixed cumprod-zero-order1 --release 2.22.0",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the defect")
    parser.add_argument("--release", help="the first release without the defect (the installed one)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")


def run(options: argparse.Namespace) -> CommandOutput:
    """Marks the defect that is named."""
    folder = known_folder(options.folder)
    (found,) = named(known_records(folder), [options.name])
    if options.release is not None and not RELEASE.fullmatch(options.release):
        raise CommandError(f"--release was {options.release!r}; expected a release of TensorFlow, such as 2.22.0")
    installed = tensorflow()
    until = installed.partition("-")[0] if options.release is None else options.release
    if version_of(until) <= version_of(found.releases.since):
        raise CommandError(f"release {until} is not after {found.releases.since}, from which {found.name} is recorded")
    _refuse_contradiction(found, until, installed)
    path = folder / f"{found.name}.json"
    try:
        data = documents.parse(files.read(path, MAX_TEXT))
        data["releases"]["until"] = until
        files.replace(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error}); is the folder read-only?") from None
    lines = (f"{found.name}: fixed in {until}, from {found.releases.since} before", f"written: {path}")
    data = {"file": str(path), "name": found.name, "from": found.releases.since, "until": until}
    test = "test_known_tape_defects.py" if isinstance(found, TapeDefect) else "test_known.py"
    return CommandOutput("known fixed", lines, data, f"git diff {path}, then python -m pytest tests/properties/{test}")


def _refuse_contradiction(found: Known, until: str, installed: str) -> None:
    from gradcheck.hunt.recheck import of_known

    if version_of(installed) < version_of(until):
        return
    seen = of_known(found)
    if seen.state is not State.FIXED:
        state = "is still wrong" if seen.state is State.STILL else "cannot be checked"
        raise CommandError(
            f"{found.name} {state} on TensorFlow {installed} ({seen.message}); name a later release with --release"
        )
