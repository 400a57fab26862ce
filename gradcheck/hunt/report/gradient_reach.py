"""How much of TensorFlow's gradients a run has reached: functions at both orders, lines, branches, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from linecache import getline
from typing import Any

from gradcheck.hunt.census import Judgement, RegisteredGradient, census, registered
from gradcheck.hunt.gradient_code import FunctionCode, helpers_of, registered_code
from gradcheck.hunt.gradient_run import GradientRun, NoCoverageError, installed_in


@dataclass(frozen=True)
class CodeReach:
    """A function: how many of its lines and branches ran, of how many; the `missing` lines, and lines with a branch
    that was never taken."""

    code: FunctionCode
    lines: tuple[int, int]
    branches: tuple[int, int]
    missing: tuple[int, ...]
    partial: tuple[int, ...]

    def source(self, line: int) -> str:
        """The text of one of its lines."""
        return getline(self.code.file, line).strip()


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
        """Those that differences can judge."""
        return tuple(each for each in self.gradients if each.gradient.judgement is Judgement.DIFFERENCES)

    @property
    def codes(self) -> tuple[CodeReach, ...]:
        """Every function once."""
        own = {each.code.code: each.code for each in self.gradients if each.code is not None}
        return tuple(own[code] for code in sorted(own)) + self.helpers

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines ran, of how many."""
        return _sum(code.lines for code in self.codes)

    @property
    def branches(self) -> tuple[int, int]:
        """How many branches were taken, of how many."""
        return _sum(code.branches for code in self.codes)


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    done, all_ = zip(*pairs, strict=True)
    return sum(done), sum(all_)


def reach_of(run: GradientRun) -> RunReach:
    """The reach of a run of the installed release; raises ValueError for another release, and NoCoverageError."""
    try:
        import coverage
    except ImportError:
        raise NoCoverageError from None
    import tensorflow as tf

    if run.tensorflow != tf.__version__:
        raise ValueError(
            f"the run was one of TensorFlow {run.tensorflow}; {tf.__version__} is installed, with other lines"
        )
    functions = {name: function for name, function in registered().items() if name in census()}
    codes = registered_code({name: functions[name] for name in functions if census()[name].reachable})
    own = set(codes.values())
    measured = coverage.Coverage(data_file=None, branch=True, config_file=False)
    home = installed_in()
    measured.get_data().add_arcs({str(home / place): arcs for place, arcs in run.arcs.items()})
    reached = _measured(measured, helpers_of(own))
    gradients = tuple(
        GradientReach(row, name in run.first, name in run.second, reached.get(codes[name]) if name in codes else None)
        for name, row in census().items()
        if row.reachable
    )
    return RunReach(run.tensorflow, gradients, tuple(reached[code] for code in sorted(set(reached) - own)))


def _measured(measured: Any, codes: Iterable[FunctionCode]) -> Mapping[FunctionCode, CodeReach]:
    """What ran of functions, according to a coverage.Coverage."""
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
            found[code] = CodeReach(code, (len(lines) - len(never), len(lines)), (taken, all_), never, partial)
    return found
