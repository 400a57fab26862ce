"""The command line: `python -m gradcheck audit | replay | merge | coverage | known | reach`."""

from __future__ import annotations

import argparse
import io
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from gradcheck import __version__, runtime
from gradcheck.hunt.commands import audit_command, cli, known_commands, reach_command, replay_findings, run_commands

ABOUT = "Says what is known of the operations of your code, and looks at the results of a hunt for wrong gradients."
EPILOG = """every command takes --json (one object on standard output) and ends by naming the next step

example:
  python -m gradcheck replay reports"""

START = """what one does most, each in a line to copy (--help has all commands and options):

  python -m gradcheck audit train:step                which operations of train.py's step() are known to be wrong
  python -m gradcheck known list                      the known defects of TensorFlow, by root cause
  python -m gradcheck known show cumprod-zero-order1  all of one: what is wrong, and what to write instead
  python -m gradcheck known check                     whether the installed TensorFlow still has them
  python -m gradcheck replay reports                  takes the derivatives of a hunt's findings again

In a test: gradcheck.assert_close(f, x). For a gradient that is None, zero or NaN: print(gradcheck.explain(step))."""

IN_PYTHON = {
    "assert_close": "gradcheck.assert_close(f, x)",
    "assert_step": "gradcheck.assert_step(step, batch)",
    "check": "print(gradcheck.check(f, x))",
    "explain": "print(gradcheck.explain(step))",
    "spot_check": "gradcheck.spot_check(loss, weights)",
}
"""Functions that are looked for among the commands, and how to call each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; 2 if the command cannot be carried out."""
    runtime.set_environment()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal with another encoding must not end the command
        sys.stdout.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        _print(START)
        return 0
    if given[0] in IN_PYTHON:
        print(f"python -m gradcheck: error: {given[0]} is called in Python: {IN_PYTHON[given[0]]}", file=sys.stderr)
        return 2
    options = parser().parse_args(given)
    path = [*sys.path]
    try:
        cli.load_modules(options.modules)
        output: cli.CommandOutput = cli.with_modules(options.run(options), options.modules)
    except cli.CommandError as error:
        return _failed(options, str(error))
    except (Exception, SystemExit) as error:  # Python's own exit code 1 would mean that something is wrong
        traceback.print_exc()
        return _failed(options, f"{type(error).__name__}: {error}; unexpected internal error, no result")
    finally:
        sys.path[:] = path
    _print(output.json if options.json else output.text)
    return output.code


def _print(text: str) -> None:
    """Prints a text to its end, or until the reader stops, as in `| head`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        with suppress(BrokenPipeError):  # unwritten output would make Python complain at exit
            sys.stdout.close()


def _failed(options: argparse.Namespace, why: str) -> int:
    """Prints why a command cannot be carried out, and returns the exit code."""
    output = cli.CommandOutput("error", (), {"error": why}, f"{options.prog} --help", 2)
    print(f"{options.prog}: error: {cli.printable(why)}", file=sys.stderr)
    if options.json:
        _print(output.json)
    return output.code


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        "python -m gradcheck", description=ABOUT, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"gradcheck {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in (audit_command, replay_findings, run_commands, known_commands, reach_command):
        command.add(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())
