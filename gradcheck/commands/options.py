"""What all commands have in common on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from gradcheck.commands.answer import Answer


def subcommand(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Answer], *, about: str, more: str, example: str
) -> argparse.ArgumentParser:
    """Adds a command that `run` answers, with --json, and a help that ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.\n\n{more}",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, for machines")
    parser.set_defaults(run=run, prog=parser.prog)
    return parser
