"""Each constant of numerics and verdict changed: whether the test that its row names fails then.

    python tests/benchmarks/constants.py [FOLDER.MODULE.NAME ...] [--tests PATH ...] [--stop-after 1] [--into FILE]

The docstrings of both packages have a table with a row for each constant. Sizes are multiplied and divided by 8, small
whole numbers moved by 2; if no test fails then, they are made as large or as small as if the constant were left out. A
value is changed while its module is loaded, so that whatever imports the constant, or derives from it, has the new one.
A constant without which no test fails protects nothing, or its test is missing: `--tests` runs others than the one that
is named, files or folders.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import resumed

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("numerics", "verdict")
ROW = re.compile(r"^(\w+\.[A-Z_\d]+)  +(\S+)  +(\S.*?)  +(\S.*)\n +(\S+\.py::\w+)$", re.MULTILINE)
LARGE = 16
"""A whole number from here on is a size; a smaller one counts."""


@dataclass(frozen=True)
class Row:
    """A row of a table: the value as it is written there, its unit, the purpose, and the test, below tests/."""

    value: str
    unit: str
    protects: str
    test: str


def rows(folder: str) -> dict[str, Row]:
    """The table in the docstring of a package, by the module and name of each constant."""
    tree = ast.parse((ROOT / "gradcheck" / folder / "__init__.py").read_text(encoding="utf-8"))
    return {name: Row(*cells) for name, *cells in ROW.findall(ast.get_docstring(tree) or "")}


@dataclass(frozen=True)
class Constant:
    """A number that a module of a package assigns to a name in capitals."""

    folder: str
    module: str
    name: str
    value: ast.expr

    @property
    def place(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def path(self) -> Path:
        return ROOT / "gradcheck" / self.folder / f"{self.module}.py"

    def variants(self) -> tuple[str, ...]:
        """A larger and a smaller value, and values as large and small as if the constant were left out."""
        first = self.value.left if isinstance(self.value, ast.BinOp) else self.value
        name, number = self.name, first.value if isinstance(first, ast.Constant) else None
        if not isinstance(number, int) or "EPS64" in ast.unparse(self.value):
            return f"{name} * 8.0", f"{name} / 8.0", f"{name} * 2.0**30", f"{name} / 2.0**30"
        if first is self.value and number < LARGE:
            return f"{name} + 2", f"max(1, {name} - 2)", f"8 * {name}", "1"
        return f"{name} * 8", f"{name} // 8", f"{name} * 2**30", "1"


def constants(folder: str) -> Iterator[Constant]:
    """The numbers of a package's modules, also in units of EPS64, but neither stencils nor what derives from others."""
    for path in sorted((ROOT / "gradcheck" / folder).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.Assign):
                continue
            target, values = node.targets[0], [node.value]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                values = node.value.elts
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            for name, value in zip(names, values, strict=True):
                if isinstance(name, ast.Name) and name.id.isupper() and _is_number(value):
                    yield Constant(folder, path.stem, name.id, value)


def _is_number(value: ast.expr) -> bool:
    parts = list(ast.walk(value))
    names = {one.id for one in parts if isinstance(one, ast.Name)}
    numbers = [one for one in parts if isinstance(one, ast.Constant) and type(one.value) in (int, float)]
    arrays = [one for one in parts if isinstance(one, (ast.Tuple, ast.List, ast.Dict))]
    return bool(numbers) and not arrays and names <= {"EPS64", "float", "np"}


class Changed(SourceFileLoader):
    """Loads the module of a constant with another value of it."""

    def __init__(self, constant: Constant, other: str) -> None:
        super().__init__(f"gradcheck.{constant.folder}.{constant.module}", str(constant.path))
        self._constant, self._other = constant, other

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module, with another assignment after the one of the constant."""
        body = []
        for line in Path(self.path).read_text(encoding="utf-8").splitlines(keepends=True):
            body.append(line)
            if re.match(rf"(\w+, )*{self._constant.name}(, \w+)* = ", line):
                body.append(f"{self._constant.name} = {self._other}\n")
        return compile("".join(body), self.path, "exec")


def failing(constant: Constant, other: str, tests: Sequence[str], stop_after: int) -> list[str]:
    """The tests that fail with another value of a constant; needs a process of its own."""
    sys.meta_path.insert(0, Changed(constant, other))
    os.chdir(ROOT)
    options = ["-q", "--tb=no", "-n", "0", "-p", "no:cacheprovider", "--gradcheck-shrinking=1"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = pytest.main([*options, f"--maxfail={stop_after}", *tests])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{constant.place} = {other}: {code!r}\n{out.getvalue()}")
    return re.findall(r"^(?:FAILED|ERROR) (\S+.*?)(?: - .*)?$", out.getvalue(), re.MULTILINE)


def noticed(constant: Constant, tests: Sequence[str], stop_after: int) -> dict[str, Any]:
    """The first value of a constant with which tests fail, and these; the last one if none fails."""
    other, failed = "", list[str]()
    for other in constant.variants():
        with multiprocessing.get_context("fork").Pool(1) as process:
            failed = process.apply(failing, (constant, other, tests, stop_after))
        if failed:
            break
    return {"value": other, "failed": failed}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constants", nargs="*", help="such as numerics.tableau.SPAN, or the beginning of several")
    parser.add_argument("--tests", nargs="+", help="files, folders or tests, from the root on")
    parser.add_argument("--stop-after", type=int, default=1, metavar="FAILURES", help="of each value (default: 1)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    resumed.add_option(parser)
    options = parser.parse_args()
    every = {f"{folder}.{one.place}": one for folder in FOLDERS for one in constants(folder)}
    chosen = [name for name in every if name.startswith(tuple(options.constants or [""]))]
    table = {f"{folder}.{name}": row for folder in FOLDERS for name, row in rows(folder).items()}
    kept, missed = resumed.Rows(options.into, "constant"), list[str]()
    for module in ("numpy", "tensorflow", "hypothesis"):  # once, before the processes part
        importlib.import_module(module)

    def row(name: str) -> dict[str, Any]:
        tests = options.tests or [f"tests/{table[name].test}"]
        return kept.get((name,), lambda: noticed(every[name], tests, options.stop_after))

    with ThreadPoolExecutor(options.workers) as pool:
        for name, found in zip(chosen, pool.map(row, chosen), strict=True):
            missed += [] if found["failed"] else [name]
            print(f"{name:36}  {found['value']:28}  {' '.join(found['failed']) or 'not noticed'}", flush=True)
    print(f"{len(chosen)} constants, {len(missed)} not noticed {' '.join(missed)}".rstrip())


if __name__ == "__main__":
    main()
