"""Tape programs: does TensorFlow do what the reference model says?

    python tests/benchmarks/tape_programs.py --programs 50000 --seeds 1 2 3 4 5

Prints, for each seed, how many programs were drawn, what they are made of, how their derivatives ended, and every
difference that the model does not explain, in full.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field

from drawing import draw_each
from gradcheck.strategies.tape_programs import tape_programs

from gradcheck.defects.tape_program import Derive, Open, Program
from gradcheck.hunt.tapes.interpreter import compare
from gradcheck.hunt.tapes.program_forms import to_python

PROGRESS = 60.0
"""Seconds between two lines of progress."""


@dataclass
class Tally:
    """The outcomes of the programs of one seed."""

    programs: int = 0
    traced: int = 0
    rejected: int = 0
    statements: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def add(self, program: Program) -> None:
        """Runs a program and counts it."""
        self.programs += 1
        self.traced += program.traced
        self.statements.update(set(kinds(program)))
        comparison = compare(program)
        self.outcomes.update(comparison.outcomes)
        if comparison.differences:
            self.unexplained.append("\n".join([*comparison.differences, to_python(program)]))


def kinds(program: Program) -> list[str]:
    """The features of a program: its kinds of statements, of tapes and of operations."""
    found = ["traced"] * program.traced
    found += ["variable, not trainable"] * any(not variable.trainable for variable in program.variables)
    for statement in program.statements():
        found.append(type(statement).__name__.lower())
        if isinstance(statement, Open):
            found += ["siblings"] * (len(statement.tapes) > 1)
            found += ["persistent"] * any(tape.persistent for tape in statement.tapes)
            found += ["accessed off"] * any(not tape.accessed for tape in statement.tapes)
        elif isinstance(statement, Derive):
            found += [statement.method, f"sources as {statement.sources.form}"] + ["ZERO"] * statement.zeros
        operation = getattr(statement, "operation", None)
        found += [f"op {operation}"] if operation else []
    return found


def hunt(number: int, count: int) -> Tally:
    """Draw and run `count` programs with one seed."""
    tally, started, last = Tally(), time.monotonic(), [time.monotonic()]

    def run(program: Program) -> None:
        tally.add(program)
        if time.monotonic() - last[0] > PROGRESS:
            last[0] = time.monotonic()
            rate = tally.programs / (last[0] - started)
            print(f"  {tally.programs} programs, {rate:.0f}/s, {len(tally.unexplained)} unexplained", flush=True)

    tally.rejected = draw_each(tape_programs(), number, count, run)
    return tally


def table(number: int, tally: Tally) -> str:
    """The figures of one seed."""
    attempts = tally.programs + tally.rejected
    lines = [
        f"seed {number}: {tally.programs} programs, traced {tally.traced / tally.programs:.1%}, "
        f"valid {tally.programs / attempts:.2%} of the attempts, unexplained {len(tally.unexplained)}"
    ]
    lines += [f"  {count:7d} programs with {kind}" for kind, count in sorted(tally.statements.items())]
    lines += [f"  {count:7d} {outcome}" for outcome, count in sorted(tally.outcomes.items())]
    return "\n".join(lines + tally.unexplained)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=50_000, help="programs in all, shared by the seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    for number in options.seeds:
        print(table(number, hunt(number, options.programs // len(options.seeds))), flush=True)


if __name__ == "__main__":
    main()
