"""`python -m gradcheck known page`: all known defects on one page."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from gradcheck import files
from gradcheck.defects import known
from gradcheck.hunt.commands import cli

PAGE = """write all known defects into one HTML page

Ranked by how bad what TensorFlow gives is and by how common the operation is, grouped by root cause, searchable without
a network: each with the call, the wrong and the right value, releases, what to write instead, a script and the text of
an issue. Nothing of a record is run.

exit codes: 0 written; 2 nothing was written.

example:
  python -m gradcheck known page --into known.html"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "page", run, PAGE)
    parser.add_argument("--into", type=Path, default=Path("known.html"), metavar="FILE", help="the page (known.html)")
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Writes the page."""
    from gradcheck.hunt.report.known_page import known_page

    records = cli.known_records(options.folder)
    if not records:
        place = options.folder or known.home() or known.installed()
        raise cli.CommandError(f"{place}: holds no known defects; name their folder with --folder DIR")
    page = known_page(records, cli.release())
    try:
        options.into.parent.mkdir(parents=True, exist_ok=True)
        files.replace(options.into, page)
    except OSError as error:
        raise cli.CommandError(f"{options.into}: cannot be written ({error}); name another file with --into") from None
    causes = len({one.cause for one in records})
    lines = (f"{len(records)} records of {causes} root causes", f"written: {options.into}")
    data = {"file": str(options.into), "records": len(records), "causes": causes}
    return cli.CommandOutput("known page", lines, data, f"open {shlex.quote(str(options.into))} in a browser")
