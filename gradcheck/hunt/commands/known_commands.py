"""`python -m gradcheck known`: the triaged defects, whether TensorFlow still has them, and which are fixed."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gradcheck import documents, files
from gradcheck.defects import known
from gradcheck.defects.records import RELEASE, Known, version_of, wrong_derivatives
from gradcheck.hunt.commands import cli, known_add, known_list
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
KERNELS = """find the kernels of TensorFlow that known defects are about, and write them into their files

Runs every operation of a record's regions on small arguments, records what TensorFlow does, and writes down the kernel
that gets the operation's arguments; gradcheck.audit and the diagnoses go by it. A record has none whose operation puts
together several kernels, whose defect is one of a mode, or needs certain operations before it.

exit codes: 0 all files are as found, or were written; 2 nothing was written.

example:
  python -m gradcheck known kernels cumprod-zero-order1"""
PAGE = """write all known defects into one HTML page, or a list in Markdown

Ranked by how bad what TensorFlow gives is and by how common the operation is, grouped by root cause, searchable without
a network: each with the call, the wrong and the right value, releases, what to write instead, a script and the text of
an issue. A file whose name ends in .md gets tables: what is wrong, order, since when, what to write instead. Nothing of
a record is run.

exit codes: 0 written; 2 nothing was written.

example:
  python -m gradcheck known page --into known.html"""
SHOW = """show all that is recorded of known defects

Class, root cause, severity, releases, source, the kernels of TensorFlow, remedy, and the text of an issue for
TensorFlow. Nothing is computed.

exit codes: 0, or 2 if there is no such record.

example:
  python -m gradcheck known show cumprod-zero-order1"""


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
    parser = cli.subcommand(inner, "show", run_show, SHOW)
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of records")
    cli.folder_option(parser)
    parser = cli.subcommand(inner, "page", run_page, PAGE)
    parser.add_argument(
        "--into", type=Path, default=Path("known.html"), metavar="FILE", help="the page (known.html), or a list (*.md)"
    )
    cli.folder_option(parser)
    known_add.add(inner)
    parser = cli.subcommand(inner, "kernels", run_kernels, KERNELS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of defects (all of them)")
    cli.folder_option(parser)
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
    told = [
        {"name": name, "state": state, "message": message, "title": one.title, "upstream": one.upstream}
        for one, (state, name, message) in zip(records, rows, strict=True)
    ]
    data = {"tensorflow": installed, **known_list.listed(records, told)}
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
    path = None if folder is None else known.file_of(folder, name)
    if path is None:
        return f"python -m gradcheck known show {name}"
    if state == State.FIXED:
        return f"python -m gradcheck known fixed {name}{elsewhere}"
    return f"look at {name} in {path} and correct it ({state})"


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
    (path,) = cli.rewrite(folder, [replace(found, releases=replace(found.releases, until=until))])
    lines = (f"{found.name}: fixed in {until}, from {found.releases.since} before", f"written: {path}")
    data = {"file": str(path), "name": found.name, "from": found.releases.since, "until": until}
    step = f"git diff {shlex.quote(str(path))}, then python -m pytest tests/properties/{found.replayed_by}"
    return cli.CommandOutput("known fixed", lines, data, step)


def run_kernels(options: argparse.Namespace) -> cli.CommandOutput:
    """Finds and writes the kernels of the defects that are named."""
    folder = cli.known_folder(options.folder)
    records = known_list.named(cli.known_records(folder), options.names)
    cli.tensorflow()
    from gradcheck.hunt.kernel_forms import with_kernels

    found = [with_kernels(one) for one in wrong_derivatives(records)]
    before = {one.name: documents.plain(one) for one in records}
    changed = [one for one in found if documents.plain(one) != before[one.name]]
    paths = cli.rewrite(folder, changed)
    kernels = {one.name: one.kernel_names for one in found}
    rows = [(name, ", ".join(names) or "no kernel by itself") for name, names in kernels.items()]
    total = f"{sum(map(bool, kernels.values()))} of {len(found)} with a kernel, {len(paths)} files written"
    data = {"kernels": kernels, "written": [one.name for one in changed]}
    step = f"git diff {shlex.quote(str(folder))}" if changed else "python -m pytest tests/unit/defects"
    return cli.CommandOutput("known kernels", (*cli.table(rows), total), data, step)


def run_page(options: argparse.Namespace) -> cli.CommandOutput:
    """Writes the page."""
    from gradcheck.hunt.report.known_page import known_list, known_page

    records = cli.known_records(options.folder)
    if not records:
        place = options.folder or known.home() or known.installed()
        raise cli.CommandError(f"{place}: holds no known defects; name their folder with --folder DIR")
    listed = options.into.suffix == ".md"
    page = known_list(records) if listed else known_page(records, cli.release())
    try:
        options.into.parent.mkdir(parents=True, exist_ok=True)
        files.replace(options.into, page)
    except OSError as error:
        raise cli.CommandError(f"{options.into}: cannot be written ({error}); name another file with --into") from None
    causes = len({one.cause for one in records})
    lines = (f"{len(records)} records of {causes} root causes", f"written: {options.into}")
    data = {"file": str(options.into), "records": len(records), "causes": causes}
    step = "python -m gradcheck known page" if listed else f"open {shlex.quote(str(options.into))} in a browser"
    return cli.CommandOutput("known page", lines, data, step)


def run_show(options: argparse.Namespace) -> cli.CommandOutput:
    """Shows the records that are named."""
    shown = known_list.named(cli.known_records(options.folder), options.names)
    installed = cli.release()
    data = {"tensorflow": installed, **known_list.listed(shown, [_fields(one, installed) for one in shown])}
    lines = [line for one in shown for line in _lines(one, installed)]
    step = f"python -m gradcheck known check {shown[0].name}{cli.elsewhere(options.folder)}"
    return cli.CommandOutput("known show", tuple(lines), data, step)


def _fields(one: Known, installed: str) -> dict[str, Any]:
    full = {"source": one.source, "remedy": one.remedy, "kernels": one.kernel_names, "issue": _issue(one)}
    return known_list.fields(one, installed) | full


def _issue(one: Known) -> str:
    from gradcheck.hunt.environment import current
    from gradcheck.hunt.report.issue_text import issue_of

    return issue_of(one, current())


def _lines(one: Known, installed: str) -> Iterator[str]:
    _, kind, _, releases, here, _ = known_list.row(one, installed)
    taken = one.taken and f", {one.taken}"
    yield from (one.name, f"  {one.title}")
    yield f"  {one.category}, root cause {one.cause}; {kind} ({one.severity}){taken}; {releases}, {here}"
    yield f"  upstream: {one.upstream or 'not reported'}"
    yield f"  kernels: {', '.join(one.kernel_names) or 'none by itself'}"
    yield f"  source: {one.source}"
    if one.remedy is not None:
        yield from ("  remedy:", *(f"    {line}" for line in one.remedy.split("\n")))
    yield from (
        "  for TensorFlow's issue form:",
        *(f"    {line}" for line in _issue(one).rstrip().split("\n")),
    )
