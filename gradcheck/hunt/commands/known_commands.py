"""`python -m gradcheck known`: the triaged defects, whether TensorFlow still has them, and which are fixed."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcheck.defects import known
from gradcheck.defects.records import RELEASE, Known, TapeDefect, version_of
from gradcheck.hunt.commands import cli, known_add, known_kernels, known_list, known_show, page_of_known
from gradcheck.hunt.events import State

if TYPE_CHECKING:
    from gradcheck.hunt.recheck import Recheck

ABOUT = "list and show the known defects, add one, check them on the installed TensorFlow, mark one as fixed"
CHANGED, BACK, EARLIER, GONE = "changed", "back", "wrong earlier", "fixed, as recorded"
CHECK = f"""check the known defects on the installed TensorFlow

Takes the derivative of every defect of the project's own folder, or where there is none of all that came with
gradcheck (or of those named), on the installed TensorFlow, and runs every program of tapes.

{State.STILL}: as recorded; {GONE}: the same; {State.FIXED}: right now, though the file says otherwise;
{CHANGED}: wrong, but not as recorded; {BACK}: wrong again; {EARLIER}: wrong in a release before the recorded one;
{State.CANNOT_TELL}: it raises, or is inconclusive.

exit codes: 0 all are as recorded, 1 one or more are not, 2 one or more cannot be told.

example:
  python -m gradcheck known check cumprod-zero-order1"""
FIXED = """mark a known defect as fixed in a release

Writes the first release without the defect into its file. Without --release that is the installed one,
which is asked first. A release that the installed TensorFlow contradicts is refused.

exit codes: 0 marked; 2 nothing was written.

example:
  python -m gradcheck known fixed cumprod-zero-order1 --release 2.22.0"""


def add(commands: Any) -> None:
    """Adds the commands."""
    group: argparse.ArgumentParser = commands.add_parser(
        "known",
        help=ABOUT,
        description=f"{ABOUT[0].upper()}{ABOUT[1:]}.",
        epilog="example:\n  python -m gradcheck known list",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = group.add_subparsers(metavar="COMMAND", required=True)
    known_list.add(inner)
    known_show.add(inner)
    page_of_known.add(inner)
    known_add.add(inner)
    known_kernels.add(inner)
    parser = cli.subcommand(inner, "check", run_check, CHECK)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of defects (all of the folder)")
    cli.folder_option(parser)
    parser = cli.subcommand(inner, "fixed", run_fixed, FIXED)
    parser.add_argument("name", metavar="NAME", help="the name of the defect")
    parser.add_argument("--release", help="the first release without the defect (the installed one)")
    cli.folder_option(parser)


def run_check(options: argparse.Namespace) -> cli.CommandOutput:
    """Checks the defects that are named."""
    folder = options.folder or known.home()
    records = known_list.named(cli.known_records(options.folder if options.names else folder), options.names)
    installed = cli.tensorflow()
    from gradcheck.hunt.recheck import of_known

    seen = [of_known(one) for one in records]
    states = [_state(one, here, installed) for one, here in zip(records, seen, strict=True)]
    rows = [(state, one.name, here.message) for one, here, state in zip(records, seen, states, strict=True)]
    data: dict[str, Any] = {"tensorflow": installed, "defects": [], "tape_defects": []}
    for one, (state, name, message) in zip(records, rows, strict=True):
        told = {"name": name, "state": state, "message": message, "title": one.title, "upstream": one.upstream}
        data["tape_defects" if isinstance(one, TapeDefect) else "defects"].append(told)
    odd = [(state, name) for state, name, _ in rows if state not in (State.STILL, GONE)]
    total = f"{len(rows) - len(odd)} of {len(rows)} as recorded, TensorFlow {installed}"
    code = 2 if State.CANNOT_TELL in states else 1 if odd else 0
    step = _next(odd, folder, cli.elsewhere(options.folder))
    return cli.CommandOutput("known check", (*cli.table(rows), total), data, step, code)


def _state(one: Known, seen: Recheck, installed: str) -> str:
    if seen.state is State.CANNOT_TELL:
        return State.CANNOT_TELL
    if seen.state is State.FIXED:
        return State.FIXED if one.covers(installed) else GONE
    if one.covers(installed):
        return CHANGED if seen.changed else State.STILL
    return EARLIER if version_of(installed) < version_of(one.releases.since) else BACK


def _next(odd: Sequence[tuple[str, str]], folder: Path | None, elsewhere: str) -> str:
    """The next step for the first record that is fixed, or else for the first that is not as recorded.

    Records that came with the package can only be read.
    """
    if not odd:
        return "python -m gradcheck known page" if folder is None else "python -m pytest tests/properties"
    state, name = min(odd, key=lambda one: one[0] != State.FIXED)
    if folder is None or not (folder / f"{name}.json").is_file():
        return f"python -m gradcheck known show {name}"
    if state == State.FIXED:
        return f"python -m gradcheck known fixed {name}{elsewhere}"
    return f"look at {folder / name}.json and correct it ({state})"


def _refuse_contradicted(found: Known, until: str, installed: str) -> None:
    """Raises CommandError where the installed TensorFlow shows that `until` is not the first release without it."""
    from gradcheck.hunt.recheck import of_known

    if version_of(installed) < version_of(found.releases.since):
        return
    later, seen = version_of(installed) >= version_of(until), of_known(found)
    if later and seen.state is not State.FIXED:
        state = "is still wrong" if seen.state is State.STILL else "cannot be checked"
        raise cli.CommandError(
            f"{found.name} {state} on TensorFlow {installed} ({seen.message}); name a later release with --release"
        )
    if not later and seen.state is State.FIXED:
        raise cli.CommandError(
            f"{found.name} is right on TensorFlow {installed} already; name that release, or an earlier one, with "
            "--release"
        )


def run_fixed(options: argparse.Namespace) -> cli.CommandOutput:
    """Marks the defect that is named."""
    folder = cli.known_folder(options.folder)
    (found,) = known_list.named(cli.known_records(folder), [options.name])
    if options.release is not None and not RELEASE.fullmatch(options.release):
        raise cli.CommandError(f"--release was {options.release!r}; expected a release of TensorFlow, such as 2.22.0")
    installed = cli.tensorflow()
    until = installed.partition("-")[0] if options.release is None else options.release
    if version_of(until) <= version_of(found.releases.since):
        raise cli.CommandError(
            f"release {until} is not after {found.releases.since}, from which {found.name} is recorded"
        )
    _refuse_contradicted(found, until, installed)
    path = folder / f"{found.name}.json"
    cli.rewrite(path, lambda data: data["releases"].update(until=until))
    lines = (f"{found.name}: fixed in {until}, from {found.releases.since} before", f"written: {path}")
    data = {"file": str(path), "name": found.name, "from": found.releases.since, "until": until}
    test = "test_known_tape_defects.py" if isinstance(found, TapeDefect) else "test_known.py"
    return cli.CommandOutput(
        "known fixed", lines, data, f"git diff {shlex.quote(str(path))}, then python -m pytest tests/properties/{test}"
    )
