"""How much of TensorFlow's gradients a run has reached: functions at both orders, lines, branches, what is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeGuard

from gradcheck.hunt.census import Judgement, RegisteredGradient, census, rows_of
from gradcheck.hunt.gradient_code import FunctionCode, dead_lines, helpers_of, reachable_code, syntax_of
from gradcheck.hunt.gradient_run import GradientRun, installed_in, measurement

RAISES = "an exception is raised"
DEAD = "compatibility code for programs from before a date that has passed"
WHOLE = "*"
"""Stands for all lines of a function, in the table."""


@dataclass(frozen=True)
class Unreached:
    """A row: a function (file.name), the text of one of its lines, or `WHOLE`, and why it does not run."""

    function: str
    text: str
    why: str


@cache
def unreached() -> tuple[Unreached, ...]:
    """The rows of the table.

    >>> unreached()[0].function
    'array_grad._BroadcastToGrad'
    """
    return tuple(Unreached(*row) for row in rows_of("unreached.tsv"))


@cache
def reasons(code: FunctionCode) -> Mapping[int, str]:
    """The reasons why lines of a function are not expected to run, or, for lines that do, one of their branches."""
    syntax = syntax_of(code)
    rows = {row.text: row.why for row in unreached() if row.function == code.full_name}
    texts = {line: code.text(line) for line in range(code.first, code.last + 1)}
    if WHOLE in rows:
        return dict.fromkeys(texts, rows[WHOLE])
    found = dict.fromkeys(dead_lines(syntax), DEAD)
    found |= {node.lineno: RAISES for node in ast.walk(syntax) if isinstance(node, ast.Raise)}
    found |= {line: rows[text] for line, text in texts.items() if text in rows}
    for block in _blocks(syntax):
        found = {**_behind(block, found), **found}
    for node in ast.walk(syntax):
        if _branches(node) and node.lineno not in found:
            ways = (found.get(block[0].lineno) for block in (node.body, node.orelse) if block)
            if why := next(filter(None, ways), None):
                found[node.lineno] = why
    return found


def _behind(block: list[ast.stmt], found: Mapping[int, str]) -> dict[int, str]:
    """The lines from a block's first statement that does not run to its end, with the reason."""
    for one in block:
        if one.lineno in found and not _branches(one):
            lines = range(one.lineno, (block[-1].end_lineno or one.lineno) + 1)
            return dict.fromkeys(lines, found[one.lineno])
    return {}


def _branches(node: ast.AST) -> TypeGuard[ast.If | ast.For | ast.While]:
    return isinstance(node, ast.If | ast.For | ast.While)


def _blocks(syntax: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements that run one after another."""
    for node in ast.walk(syntax):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


@dataclass(frozen=True)
class CodeReach:
    """The coverage of a function: `lines` and `branches` as (run, all); the `missing` lines, and those with a branch
    that was never taken (`partial`); how many missing lines and branches are not expected to run (`explained`)."""

    code: FunctionCode
    lines: tuple[int, int]
    branches: tuple[int, int]
    missing: tuple[int, ...]
    partial: tuple[int, ...]
    explained: tuple[int, int]

    @property
    def reasons(self) -> Mapping[int, str]:
        """Why lines that are missing, or miss a branch, are not expected to run."""
        return {line: why for line, why in reasons(self.code).items() if line in self.never}

    @property
    def never(self) -> tuple[int, ...]:
        """The lines that are missing, or miss a branch."""
        return tuple(sorted({*self.missing, *self.partial}))

    @property
    def unexplained(self) -> tuple[int, ...]:
        """The lines that are missing, or miss a branch, without a reason."""
        return tuple(line for line in self.never if line not in self.reasons)

    def source(self, line: int) -> str:
        """The text of one of its lines."""
        return self.code.text(line)


@dataclass(frozen=True)
class GradientReach:
    """A registered gradient: whether it ran at first order, whether it was differentiated again, and its code."""

    gradient: RegisteredGradient
    first: bool
    second: bool
    code: CodeReach | None


@dataclass(frozen=True)
class RunReach:
    """All registered gradients that a CPU can reach, and the helpers that they call."""

    tensorflow: str
    gradients: tuple[GradientReach, ...]
    helpers: tuple[CodeReach, ...]

    @property
    def judged(self) -> tuple[GradientReach, ...]:
        """The gradients that finite differences can check."""
        return tuple(each for each in self.gradients if each.gradient.judgement is Judgement.DIFFERENCES)

    @property
    def others(self) -> tuple[GradientReach, ...]:
        """The gradients that something else checks."""
        return tuple(each for each in self.gradients if each.gradient.judgement is not Judgement.DIFFERENCES)

    @property
    def codes(self) -> tuple[CodeReach, ...]:
        """Every function once."""
        own = {each.code.code: each.code for each in self.gradients if each.code is not None}
        return tuple(own[code] for code in sorted(own)) + self.helpers

    @property
    def lines(self) -> tuple[int, int]:
        """The number of lines that ran, and of all lines."""
        return _sum(code.lines for code in self.codes)

    @property
    def branches(self) -> tuple[int, int]:
        """The number of branches that were taken, and of all branches."""
        return _sum(code.branches for code in self.codes)

    @property
    def explained(self) -> tuple[int, int]:
        """The number of lines, and of branches, that never ran for a known reason."""
        return _sum(code.explained for code in self.codes)


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    done, all_ = zip(*pairs, strict=True)
    return sum(done), sum(all_)


def reach_of(run: GradientRun) -> RunReach:
    """The reach of a run of the installed release; raises ValueError for another release, and NoCoverageError."""
    import tensorflow as tf

    if run.tensorflow != tf.__version__:
        raise ValueError(
            f"the run was one of TensorFlow {run.tensorflow}; {tf.__version__} is installed, with other lines"
        )
    codes, measured, home = reachable_code(), measurement(), installed_in()
    own = set(codes.values())
    measured.get_data().add_arcs({str(home / place): arcs for place, arcs in run.arcs.items()})
    reached = _measured(measured, helpers_of(own))
    gradients = tuple(
        GradientReach(row, name in run.first, name in run.second, reached.get(codes[name]) if name in codes else None)
        for name, row in census().items()
        if row.reachable
    )
    return RunReach(run.tensorflow, gradients, tuple(reached[code] for code in sorted(set(reached) - own)))


def _measured(measured: Any, codes: Iterable[FunctionCode]) -> Mapping[FunctionCode, CodeReach]:
    """The coverage of functions, by the data of a coverage.Coverage."""
    found = {}
    by_file: dict[str, list[FunctionCode]] = {}
    for code in codes:
        by_file.setdefault(code.file, []).append(code)
    for file, inside in by_file.items():
        _, statements, _, missing, _ = measured.analysis2(file)
        branches = measured.branch_stats(file)
        for code in inside:
            lines = [line for line in statements if line in code]
            never = tuple(line for line in missing if line in code)
            exits = {line: counts for line, counts in branches.items() if line in code}
            taken, all_ = _sum([(0, 0), *((done, count) for count, done in exits.values())])
            partial = tuple(sorted(line for line, (count, done) in exits.items() if 0 < done < count))
            known = reasons(code)
            explained = len(set(never) & set(known)), sum(c - done for at, (c, done) in exits.items() if at in known)
            found[code] = CodeReach(
                code, (len(lines) - len(never), len(lines)), (taken, all_), never, partial, explained
            )
    return found
