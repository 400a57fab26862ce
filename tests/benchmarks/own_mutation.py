"""Random changes of gradcheck's own code, one place each, and which of them its tests notice.

    PYTHONPATH=tests/benchmarks python -m pytest -p own_mutation --reach-into=DIR --junitxml=DIR/tests.xml -n auto
    python tests/benchmarks/own_mutation.py DIR [--changes 120] [--seed 1] [--into FILE] [--at-most 300] [--exhaustive]

The first command notes which lines of the library each test reaches (coverage contexts), and how long it takes; the
second draws changes: an operator, a comparison, a constant times 2, a returned value, a dropped statement. Each is
made in a copy of the checkout, where the tests that reach the line run until one fails, those of each function in turn.
A change is noticed by the test that fails (or that does not end), or not noticed, or never reached. A second seed draws
other changes. With --at-most, a change that tests do not notice in this many seconds is not noticed, and its row says
how many of its tests did not run; --only, without --into, runs them all. Both commands take --exhaustive; its tests are
considered separately from those of the test command.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import coverage
import pytest
import resumed

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted({path.parent.name for path in (ROOT / "gradcheck").glob("*/__init__.py")} - {"hunt", "operations"})
PAIRS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr))
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    **dict(PAIRS),
    **{two: one for one, two in PAIRS},
    **dict.fromkeys((ast.Pow, ast.FloorDiv, ast.MatMult), ast.Mult),
}
OPPOSITES = ((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {**dict(OPPOSITES), **{two: one for one, two in OPPOSITES}}
DROPPED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)
PATIENCE = 300.0
"""Seconds that the tests of a changed copy are given beyond ten times their usual time."""


# The plugin of a run of pytest that records which test reaches which lines.


class Reach:
    """The lines that each test of this process reaches, by coverage's contexts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        sources = [str(ROOT / "gradcheck" / name) for name in FOLDERS]
        self._coverage = coverage.Coverage(
            data_file=str(folder / "reach"), data_suffix=True, source=sources, config_file=False, messages=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """A context for each item; restarts the measurement if a test that measures lines itself has replaced it."""
        if sys.gettrace() is None:
            self._coverage.stop()
            self._coverage.start()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            with suppress(coverage.CoverageException):
                self._coverage.switch_context("")

    def pytest_unconfigure(self) -> None:
        """Saves the measurement."""
        self._coverage.stop()
        self._coverage.save()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of both commands."""
    parser.addoption("--reach-into", type=Path, help="note the lines that each test reaches in this folder")
    parser.addoption("--tests-of", type=Path, help="run the tests that this file names, in its order")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the measurement."""
    if folder := config.getoption("--reach-into"):
        config.pluginmanager.register(Reach(folder), "reach")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Keeps only the tests that the file names, in its order, however they have been sorted."""
    yield
    if path := config.getoption("--tests-of"):
        place = {name: number for number, name in enumerate(path.read_text().split("\n"))}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


# Changes.


@dataclass(frozen=True)
class Change:
    """A part of a file's text and its replacement; first and last line of it, and of its statement."""

    path: str
    start: int
    end: int
    lines: tuple[int, int]
    statement: tuple[int, int]
    kind: str
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.lines[0]}"

    def applied(self, source: str) -> str:
        return source[: self.start] + self.after + source[self.end :]


class Places(ast.NodeVisitor):
    """The changes of a file; annotations, docstrings and decorators are left out."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found = path, source, list[Change]()
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._statement: ast.stmt | None = None
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            outer, self._statement = self._statement, node
            if isinstance(node, DROPPED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self._offer(node, "dropped", "pass")
            self._children(node)
            self._statement = outer
        else:
            self._children(node)

    def _children(self, node: ast.AST) -> None:
        for kind, text in variants(node):
            self._offer(node.value if isinstance(node, ast.Return) else node, kind, text)
        skipped = {"annotation", "returns", "decorator_list", "type_params"}
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                is_text = isinstance(node, ast.JoinedStr) or (name == "slice" and isinstance(child, ast.Constant))
                if isinstance(child, ast.AST) and name not in skipped and not is_text:
                    self.visit(child)

    def _offer(self, node: Any, kind: str, after: str) -> None:
        start, end = self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)
        before = self.source[start:end]
        at: Any = self._statement
        header = at.body[0].lineno - 1 if getattr(at, "body", None) else at.end_lineno
        lines = (node.lineno, node.end_lineno)
        self.found.append(Change(self.path, start, end, lines, (at.lineno, header), kind, before, after))

    def _place(self, line: int, column: int) -> int:
        """The number of characters before a place that is given in bytes."""
        return len(self.source.encode()[: self._starts[line - 1] + column].decode())


def variants(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Kinds of changes of an expression, with the text that takes its place."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        other = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        yield "operator", f"({ast.unparse(other)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield "operator", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BoolOp):
        turned = ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        yield "operator", f"({ast.unparse(turned)})"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        beside = ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
        yield "comparison", f"({ast.unparse(beside)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value:
        yield "constant", repr(2 * node.value)
    elif isinstance(node, ast.Return) and not (isinstance(node.value, ast.Constant) or node.value is None):
        truth = isinstance(node.value, (ast.Compare, ast.BoolOp)) or ast.unparse(node.value).startswith("not ")
        yield "returned value", f"not ({ast.unparse(node.value)})" if truth else "None"


def changes() -> list[Change]:
    """All changes of the library's folders, in the order of the files."""
    paths = [path for name in FOLDERS for path in sorted((ROOT / "gradcheck" / name).rglob("*.py"))]
    return [one for path in paths for one in Places(path.relative_to(ROOT).as_posix(), path.read_text()).found]


# Which tests reach a change, and whether one of them fails.


@dataclass(frozen=True)
class Reached:
    """The lines that tests reached in a run, and the times of the tests."""

    data: coverage.CoverageData
    seconds: dict[str, float]

    @classmethod
    def read(cls, folder: Path) -> Reached:
        whole = coverage.Coverage(data_file=str(folder / "reach"), config_file=False, messages=False)
        whole.combine([str(path) for path in sorted(folder.glob("reach.*"))] or [str(folder / "reach")], keep=True)
        seconds: dict[str, float] = {}
        for path in folder.glob("*.xml"):
            for case in ElementTree.parse(path).getroot().iter("testcase"):
                name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
                seconds[name] = float(case.get("time", 0))
        return cls(whole.get_data(), seconds)

    def tests(self, change: Change) -> list[str]:
        """The tests that reach the line; else its statement; of code run at import, lines that read it, or the file."""
        places = [[(change.path, range(first, last + 1))] for first, last in (change.lines, change.statement)]
        for place in (*places, readers(change), [(change.path, contexts_of(self.data, str(ROOT / change.path)))]):
            if found := {name for path, lines in place for name in self._of_lines(path, lines)}:
                return self._ordered(found)
        return []

    def _of_lines(self, path: str, lines: Iterable[int]) -> set[str]:
        contexts = contexts_of(self.data, str(ROOT / path))
        return {context for line in lines for context in contexts.get(line, ()) if context}

    def _ordered(self, tests: set[str]) -> list[str]:
        """One of each test function first, from the cheapest on; then the second one of each, and so on."""
        groups = defaultdict(list)
        for name in sorted(tests, key=lambda name: (self.seconds.get(name, 0.0), name)):
            groups[name.partition("[")[0]].append(name)
        return [name for row in zip_longest(*groups.values()) for name in row if name is not None]


@cache
def contexts_of(data: coverage.CoverageData, path: str) -> dict[int, list[str]]:
    """For each line of a file the contexts that reach it."""
    return data.contexts_by_lineno(path)


def readers(change: Change) -> Iterator[tuple[str, list[int]]]:
    """The lines of the library that read a name which the changed statement binds at import."""
    source = (ROOT / change.path).read_text()
    names = set()
    for node in ast.parse(source).body:
        if node.lineno <= change.lines[0] <= (node.end_lineno or node.lineno):
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            names |= {node.name} if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else set()
    if names:
        pattern = re.compile(r"\b(" + "|".join(map(re.escape, sorted(names))) + r")\b")
        for name in FOLDERS:
            for path in sorted((ROOT / "gradcheck" / name).rglob("*.py")):
                lines = path.read_text().splitlines()
                yield path.relative_to(ROOT).as_posix(), [i for i, line in enumerate(lines, 1) if pattern.search(line)]


def copy_of_checkout(folder: Path) -> Path:
    """The files of the checkout that git knows, as they are."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0")[:-1]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def outcome(change: Change, reached: Reached, exhaustive: bool, at_most: float, copies: list[Path]) -> dict[str, Any]:
    """The row of a change: noticed, and by which test; not noticed; or never reached by any."""
    every = reached.tests(change)
    spent = list(accumulate(reached.seconds.get(name, 0.0) for name in every))
    tests = every[: max(1, bisect_right(spent, at_most))]
    asked = {"tests": len(tests), "left": len(every) - len(tests)}
    told = {"kind": change.kind, "before": change.before, "after": change.after, **asked}
    if not every:
        return {**told, "outcome": "never reached", "by": ""}
    copy = copies.pop()
    path = copy / change.path
    source = path.read_text()
    try:
        path.write_text(change.applied(source))
        return {**told, **run(copy, tests, spent[len(tests) - 1], exhaustive)}
    finally:
        path.write_text(source)
        copies.append(copy)


def run(copy: Path, tests: Sequence[str], seconds: float, exhaustive: bool) -> dict[str, str]:
    """Whether one of the tests fails, or does not end, or none."""
    named = copy / "tests-of.txt"
    named.write_text("\n".join(tests))
    files = sorted({name.partition("::")[0] for name in tests})
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "own_mutation", f"--tests-of={named}", "--tb=line"]
    command += ["-p", "no:cacheprovider", *(["--exhaustive"] if exhaustive else []), *files]
    paths = f"{copy / 'tests/benchmarks'}{os.pathsep}{copy}"
    limit = PATIENCE + 10 * seconds
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, cwd=copy, env={**os.environ, "PYTHONPATH": paths}, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return {"outcome": "noticed", "by": f"not ended after {limit:.0f} s"}
        out.seek(0)
        text = out.read()
    failed = re.findall(r"^(?:(?:SUB)?FAILED|ERROR)(?:\([^)]*\))? (\S+.*?)(?: - .*)?$", text, re.MULTILINE)
    if code == 0:
        return {"outcome": "not noticed", "by": ""}
    if code == 5:
        return {"outcome": "not run", "by": text[-300:]}
    return {"outcome": "noticed", "by": failed[0] if failed else f"exit code {code}: {text[-300:]}"}


def main() -> None:
    """Run the second command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what a run with --reach-into has noted")
    parser.add_argument("--changes", type=int, default=120, help="how many, drawn at random (default: 120)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=float, default=float("inf"), metavar="SECONDS", help="of tests of one change")
    parser.add_argument("--exhaustive", action="store_true", help="the tests of .ci/exhaustive")
    parser.add_argument("--only", help="changes whose names (gradcheck/numerics/tableau.py:120) contain this text")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    resumed.add_option(parser)
    options = parser.parse_args()
    every = [change for change in changes() if not options.only or options.only in change.name]
    drawn = random.Random(options.seed).sample(every, min(options.changes, len(every)))
    print(f"seed {options.seed}: {len(drawn)} of {len(every)} changes", flush=True)
    reached, kept = Reached.read(options.folder), resumed.Rows(options.into, "change", "start", "after")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.workers) as pool:
        copies = [copy_of_checkout(Path(scratch, str(number))) for number in range(options.workers)]

        def row(change: Change) -> dict[str, Any]:
            made = partial(outcome, change, reached, options.exhaustive, options.at_most, copies)
            return kept.get((change.name, change.start, change.after), made)

        for one in pool.map(row, drawn):
            counts[one["outcome"]] += 1
            text = f"{one['before'][:60]!r} -> {one['after'][:60]!r}"
            beside = one["by"][:120] or f"({one['tests']} tests, {one['left']} left)"
            print(f"{one['outcome']:13s} {one['change']} {one['kind']}: {text} {beside}", flush=True)
    for what, count in counts.most_common():
        print(f"{what:13s} {count:5d}")


if __name__ == "__main__":
    main()
