"""`python -m gradcheck known kernels`: which kernel of TensorFlow each known defect is about, written into its file."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import Any

from gradcheck import documents
from gradcheck.defects.records import Defect
from gradcheck.hunt.commands import cli, known_list

KERNELS = """find the kernels of TensorFlow that known defects are about, and write them into their files

Runs every operation of a record's regions on small arguments, records what TensorFlow does, and writes down the kernel
that gets the operation's arguments; gradcheck.audit and the diagnoses go by it. A record has none whose operation puts
together several kernels, whose defect is one of a mode, or needs certain operations before it.

exit codes: 0 all files are as found, or were written; 2 nothing was written.

example:
  python -m gradcheck known kernels cumprod-zero-order1"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "kernels", run, KERNELS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of defects (all of them)")
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Finds and writes the kernels of the defects that are named."""
    folder = cli.known_folder(options.folder)
    records = known_list.named(cli.known_records(folder), options.names)
    cli.tensorflow()
    from gradcheck.hunt.kernel_forms import with_kernels

    found = [with_kernels(one) for one in records if isinstance(one, Defect)]
    before = {one.name: documents.plain(one) for one in records}
    changed = [one for one in found if documents.plain(one) != before[one.name]]
    for one in changed:
        cli.rewrite(folder / f"{one.name}.json", partial(_put_kernels, defect=one))
    rows = [
        (one.name, ", ".join(sorted({form.kernel for form in one.kernels})) or "no kernel by itself") for one in found
    ]
    kernels = {one.name: sorted({form.kernel for form in one.kernels}) for one in found}
    total = f"{sum(map(bool, kernels.values()))} of {len(found)} with a kernel, {len(changed)} files written"
    data = {"kernels": kernels, "written": [one.name for one in changed]}
    step = f"git diff {shlex.quote(str(folder))}" if changed else "python -m pytest tests/unit/defects"
    return cli.CommandOutput("known kernels", (*cli.table(rows), total), data, step)


def _put_kernels(data: dict[str, Any], *, defect: Defect) -> None:
    data.pop("kernels", None)
    if defect.kernels:
        data["kernels"] = documents.plain(defect.kernels)
