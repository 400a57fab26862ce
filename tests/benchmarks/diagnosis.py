"""Does explain name the right cause, and the right line? Drawn programs, broken in one known way, and right ones.

    python tests/benchmarks/diagnosis.py --broken 2000 --right 2000 --seed 1

Prints, for each cause, how many programs were drawn, how often it was the first diagnosis, and how often the line was
the planted one; then the false alarms over right programs. `--failures FILE` writes out the programs that failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broken_programs import BROKEN, WrittenProgram, broken_programs, right_programs
from drawing import draw_each

from gradcheck import GradientMismatch, assert_step, explain
from gradcheck.result import Cause, Result, Verdict

PROGRESS = 60.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Outcome:
    """The diagnosis of a program: the first cause and its line, whether it is wrong, and all of the text."""

    cause: Cause | None
    line: int | None
    wrong: bool
    text: str

    @property
    def found(self) -> str:
        """The cause in words."""
        return "nothing" if self.cause is None else self.cause.value


def outcome(program: WrittenProgram, path: Path) -> Outcome:
    """Write a program to a file, import it and explain it; its own exceptions count as wrong without a cause."""
    path.write_text(program.text, encoding="utf-8")
    module = imported(path)
    try:
        return outcome_of(step_result(module) if program.step else explain(module.program))
    except Exception as error:
        return Outcome(None, None, True, f"{type(error).__name__}: {error}")


def imported(path: Path) -> Any:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def step_result(module: Any) -> Result:
    """The result of checking a module's training step."""
    try:
        return assert_step(module.program, variables=[module.x, module.w])
    except GradientMismatch as mismatch:
        if mismatch.result is None:
            raise
        return mismatch.result


def outcome_of(result: Result) -> Outcome:
    """The first diagnosis in a result; for a training step it may be a note."""
    diagnoses = [*(one.diagnosis for one in result.findings), *(one.diagnosis for one in result.sources)]
    found = [one for one in diagnoses if one is not None]
    wrong = result.verdict == Verdict.MISMATCH or any(source.right is False for source in result.sources)
    notes = [note for order in result.orders.values() for note in order.notes]
    if found:
        return Outcome(found[0].cause, found[0].place.line if found[0].place else None, wrong, str(result))
    changed = any(note.startswith(Cause.CHANGED_AFTERWARDS.value) for note in notes)
    return Outcome(Cause.CHANGED_AFTERWARDS if changed else None, None, wrong, str(result))


@dataclass
class Counts:
    """How many programs of one cause, or right ones, were drawn, diagnosed and placed, and how the others failed."""

    drawn: int = 0
    diagnosed: int = 0
    placed: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class Benchmark:
    """Explains programs and counts; failures are appended to a file, if there is one."""

    def __init__(self, folder: Path, failures: Path | None) -> None:
        self.folder, self.failures = folder, failures
        self.broken = {cause: Counts() for cause in BROKEN}
        self.right = Counts()
        self._programs, self._last = 0, time.monotonic()

    def count_broken(self, program: WrittenProgram) -> None:
        """Counts a broken program: the first diagnosis has to be its cause; the line is counted separately."""
        assert program.cause is not None
        found, counts = self._outcome(program), self.broken[program.cause]
        diagnosed = found.cause is program.cause
        counts.drawn += 1
        counts.diagnosed += diagnosed
        counts.placed += diagnosed and found.line == program.line
        if not diagnosed or found.line not in (None, program.line):
            where = " at another line" if diagnosed else ""
            self._failed(counts, f"{program.kind}: {found.found}{where}", program, found)

    def count_right(self, program: WrittenProgram) -> None:
        """Counts a correct program, in which nothing must be found."""
        found = self._outcome(program)
        self.right.drawn += 1
        if found.wrong:
            self._failed(self.right, f"{program.kind}: {found.found}", program, found)

    def _outcome(self, program: WrittenProgram) -> Outcome:
        if time.monotonic() - self._last > PROGRESS:
            self._last = time.monotonic()
            print(f"  {self._programs} programs", flush=True)
        self._programs += 1
        return outcome(program, self.folder / f"program_{self._programs}.py")

    def _failed(self, counts: Counts, failure: str, program: WrittenProgram, found: Outcome) -> None:
        counts.failures[failure] += 1
        if self.failures is not None and counts.failures[failure] <= 3:
            planted = f"planted line {program.line}\n\n" if program.line else ""
            text = f"## {failure}\n\n{planted}```python\n{program.text}```\n\n```text\n{found.text}\n```\n\n"
            with self.failures.open("a", encoding="utf-8") as file:
                file.write(text)

    def table(self) -> str:
        """The table of counts."""
        lines = [f"{'cause':56} drawn  first  share  line"]
        for cause, counts in self.broken.items():
            drawn = max(counts.drawn, 1)
            shares = (
                f"{counts.diagnosed / drawn:6.1%} {counts.placed / drawn:6.1%}"
                if counts.drawn
                else f"{'-':>6} {'-':>6}"
            )
            lines.append(f"{cause.value:56} {counts.drawn:5d}  {counts.diagnosed:5d} {shares}")
            lines += [f"    {times:5d} x {failure}" for failure, times in counts.failures.most_common()]
        drawn, named = (sum(getattr(c, name) for c in self.broken.values()) for name in ("drawn", "diagnosed"))
        lines.append(f"{'all':56} {drawn:5d}  {named:5d} {named / max(drawn, 1):6.1%}")
        lines.append(f"right programs: {self.right.drawn} drawn, {sum(self.right.failures.values())} false alarms")
        lines += [f"    {times:5d} x {failure}" for failure, times in self.right.failures.most_common()]
        return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broken", type=int, default=2000, help="broken programs")
    parser.add_argument("--right", type=int, default=2000, help="right programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failures", type=Path, help="a file to which failures are appended")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(Path(folder), options.failures)
        if options.broken:
            draw_each(broken_programs(), options.seed, options.broken, benchmark.count_broken)
        if options.right:
            draw_each(right_programs(), options.seed, options.right, benchmark.count_right)
    print(benchmark.table(), flush=True)


if __name__ == "__main__":
    main()
