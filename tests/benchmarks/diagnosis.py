"""Does explain name the right cause, and the right line? Drawn programs, broken in one known way, and right ones.

    python tests/benchmarks/diagnosis.py --broken 2000 --right 2000 --seed 1

Prints, for each cause, how many programs were drawn, how often it was the first answer, and how often the line was the
planted one; then the complaints over right programs. `--failures FILE` writes out every program that failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from drawing import draw_each
from gradcheck.strategies.broken_programs import BROKEN, WrittenProgram, broken_programs, right_programs

from gradcheck import GradientMismatch, assert_step, explain
from gradcheck.result import Cause, Diagnosis, Result, Verdict

PROGRESS = 60.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Answer:
    """What gradcheck said of a program: the first cause and its line, whether it complained, and all of its text."""

    cause: Cause | None
    line: int | None
    complained: bool
    text: str


@dataclass
class Tally:
    """What came of the programs of one cause, or of the right ones."""

    drawn: int = 0
    right: int = 0
    placed: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class Desk:
    """Writes programs into a folder, imports them and asks gradcheck."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, count()

    def ask(self, program: WrittenProgram) -> Answer:
        """The answer to one program; an exception of gradcheck's own is a complaint without a cause."""
        path = self.folder / f"program_{next(self.numbers)}.py"
        path.write_text(program.text, encoding="utf-8")
        module = _imported(path)
        try:
            result = _step(module) if program.step else explain(module.program)
        except Exception as error:
            return Answer(None, None, True, f"{type(error).__name__}: {error}")
        return _answer(result)


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _step(module: Any) -> Result:
    try:
        return assert_step(module.program, variables=[module.x, module.w])
    except GradientMismatch as mismatch:
        if mismatch.result is None:
            raise
        return mismatch.result


def _answer(result: Result) -> Answer:
    found = [finding.diagnosis for finding in result.findings]
    found += [source.diagnosis for source in result.sources]
    first: Diagnosis | None = next((diagnosis for diagnosis in found if diagnosis is not None), None)
    complained = result.verdict == Verdict.MISMATCH or any(source.right is False for source in result.sources)
    notes = [note for order in result.orders.values() for note in order.notes]
    if first is None and any(note.startswith(Cause.CHANGED_AFTERWARDS.value) for note in notes):
        return Answer(Cause.CHANGED_AFTERWARDS, None, complained, str(result))
    if first is None:
        return Answer(None, None, complained, str(result))
    return Answer(first.cause, first.place.line if first.place else None, complained, str(result))


def table(broken: dict[Cause, Tally], right: Tally) -> str:
    """The figures."""
    lines = [f"{'cause':56} drawn  first  share  line"]
    for cause, tally in broken.items():
        share = f"{tally.right / tally.drawn:6.1%}" if tally.drawn else "     -"
        placed = f"{tally.placed / tally.drawn:6.1%}" if tally.drawn else "     -"
        lines.append(f"{cause.value:56} {tally.drawn:5d}  {tally.right:5d} {share} {placed}")
        lines += [f"    {times:5d} x {failure}" for failure, times in tally.failures.most_common()]
    drawn, named = sum(t.drawn for t in broken.values()), sum(t.right for t in broken.values())
    lines.append(f"{'all':56} {drawn:5d}  {named:5d} {named / max(drawn, 1):6.1%}")
    lines.append(f"right programs: {right.drawn} drawn, {sum(right.failures.values())} complaints")
    lines += [f"    {times:5d} x {failure}" for failure, times in right.failures.most_common()]
    return "\n".join(lines)


class Session:
    """One run of the benchmark."""

    def __init__(self, desk: Desk, failures: Path | None) -> None:
        self.desk, self.failures = desk, failures
        self.broken = {cause: Tally() for cause in BROKEN}
        self.right = Tally()
        self.last = time.monotonic()

    def judge_broken(self, program: WrittenProgram) -> None:
        """The first answer has to be the cause; the line is counted apart."""
        assert program.cause is not None
        answer, tally = self.desk.ask(program), self.broken[program.cause]
        tally.drawn += 1
        tally.right += answer.cause is program.cause
        placed = answer.cause is program.cause and answer.line in (None, program.line)
        tally.placed += answer.cause is program.cause and answer.line == program.line
        if not placed:
            said = "nothing" if answer.cause is None else answer.cause.value
            where = "" if answer.cause is not program.cause else " at another line"
            self._failed(tally, f"{program.kind}: {said}{where}", program, answer)
        self._progress()

    def judge_right(self, program: WrittenProgram) -> None:
        """There must not be a complaint."""
        answer = self.desk.ask(program)
        self.right.drawn += 1
        if answer.complained:
            said = "nothing" if answer.cause is None else answer.cause.value
            self._failed(self.right, f"{program.kind}: {said}", program, answer)
        self._progress()

    def _failed(self, tally: Tally, failure: str, program: WrittenProgram, answer: Answer) -> None:
        tally.failures[failure] += 1
        if self.failures is not None and tally.failures[failure] <= 3:
            planted = f"planted line {program.line}\n\n" if program.line else ""
            text = f"## {failure}\n\n{planted}```python\n{program.text}```\n\n```text\n{answer.text}\n```\n\n"
            with self.failures.open("a", encoding="utf-8") as file:
                file.write(text)

    def _progress(self) -> None:
        if time.monotonic() - self.last > PROGRESS:
            self.last = time.monotonic()
            drawn = sum(tally.drawn for tally in self.broken.values())
            print(f"  {drawn} broken, {self.right.drawn} right", flush=True)


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
        session = Session(Desk(Path(folder)), options.failures)
        if options.broken:
            draw_each(broken_programs(), options.seed, options.broken, session.judge_broken)
        if options.right:
            draw_each(right_programs(), options.seed, options.right, session.judge_right)
    print(table(session.broken, session.right), flush=True)


if __name__ == "__main__":
    main()
