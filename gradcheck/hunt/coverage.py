"""What was exercised: operation by order by verdict, counted in every worker and added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gradcheck.result import Verdict

KINK = "agree at a kink"
COMPOSED = "composed kink"
INVALID = "invalid"
CANNOT_RUN = "cannot run"
VERDICTS = (Verdict.AGREE, KINK, COMPOSED, Verdict.INCONCLUSIVE, Verdict.MISMATCH)
OUTCOMES = (*VERDICTS, CANNOT_RUN, INVALID)
SHORT = ("agree", "kink", "comp", "inc", "mis")
FORMAT = "gradcheck coverage"
VERSION = 1
WIDTH = 22
CELLS = (6, 5, 5, 5, 5)
ENOUGH = 5
"""An operation with fewer comparisons at an order was hardly tested."""


class Coverage:
    """Counts of examples: (operation, order, outcome), and (operation, edge) for special values and structures.

    >>> coverage = Coverage()
    >>> coverage.count("sin", 1, verdict="agree", edge="zero")
    >>> coverage.examples("sin"), coverage.valid("sin")
    (1, 1)
    """

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, int, str]] = Counter()
        self.edges: Counter[tuple[str, str]] = Counter()

    def count(self, operation: str, order: int, *, verdict: str = Verdict.AGREE, edge: str | None = None) -> None:
        """Counts one example of an operation at an order; `verdict` is one of OUTCOMES, else ValueError."""
        if verdict not in OUTCOMES:
            raise ValueError(f"verdict was {verdict!r}; it is one of {', '.join(OUTCOMES)}")
        self.outcomes[operation, order, str(verdict)] += 1  # a worker can send plain texts only
        if edge is not None:
            self.edges[operation, edge] += 1

    def merge(self, other: Coverage) -> None:
        """Adds another worker's counts."""
        self.outcomes.update(other.outcomes)
        self.edges.update(other.edges)

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that were exercised, sorted."""
        return tuple(sorted({operation for operation, _, _ in self.outcomes}))

    def __bool__(self) -> bool:
        return bool(self.outcomes)

    def at(self, operation: str | None, order: int, outcome: str) -> int:
        """The examples of an operation (None: of all) at an order with this outcome."""
        return sum(
            count
            for (name, number, what), count in self.outcomes.items()
            if (number, what) == (order, outcome) and operation in (None, name)
        )

    def examples(self, operation: str | None = None) -> int:
        """All examples of an operation (None: of all), each order counted."""
        return sum(count for (name, _, _), count in self.outcomes.items() if operation in (None, name))

    def valid(self, operation: str | None = None) -> int:
        """Those that were checked: neither rejected, nor without a derivative in the mode that was asked for."""
        return sum(
            count
            for (name, _, what), count in self.outcomes.items()
            if what not in (CANNOT_RUN, INVALID) and operation in (None, name)
        )

    def to_json(self) -> dict[str, Any]:
        """The counts as lists, sorted, so that the same counts give the same text."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "outcomes": [[*key, count] for key, count in sorted(self.outcomes.items())],
            "edges": [[*key, count] for key, count in sorted(self.edges.items())],
        }

    @staticmethod
    def from_json(data: Any) -> Coverage:
        """The counts of `to_json`; raises ValueError for anything else."""
        if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
            raise ValueError(f"not a {FORMAT}, version {VERSION}: {ascii(data)[:80]}")
        coverage = Coverage()
        for row in data.get("outcomes", ()):
            match row:
                case [str(operation), int(order), str(outcome), int(count)] if outcome in OUTCOMES and count >= 0:
                    coverage.outcomes[operation, order, outcome] += count
                case _:
                    raise ValueError(f"outcomes: {ascii(row)[:80]} is not [operation, order, outcome, count]")
        for row in data.get("edges", ()):
            match row:
                case [str(operation), str(edge), int(count)] if count >= 0:
                    coverage.edges[operation, edge] += count
                case _:
                    raise ValueError(f"edges: {ascii(row)[:80]} is not [operation, edge, count]")
        return coverage


def table(coverage: Coverage, findings: Sequence[Mapping[str, Any]] = ()) -> str:
    """One row an operation and a total, at most 100 columns; then one line a finding.

    A finding has its `operation` (the culprit), `order`, `kind` and `files`. Per order: agree, agree at a kink,
    composed kink, inconclusive, mismatch. Examples count every order that was checked.
    """
    names = "".join(f"{name:>{width}}" for name, width in zip(SHORT, CELLS, strict=True))
    blank = " " * (WIDTH + 15)
    titles = f"{'operation':<{WIDTH}} {'examples':>8} {'valid':>5}|{names}|{names}| new"
    rule = "-" * len(titles)
    lines = [f"{blank}|{'order 1':^{sum(CELLS)}}|{'order 2':^{sum(CELLS)}}|", titles, rule]
    known = [*coverage.operations, *sorted({str(f["operation"]) for f in findings} - {*coverage.operations})]
    lines += [_row(coverage, operation, _count(findings, operation)) for operation in known]
    lines += [rule, _row(coverage, None, len(findings))]
    for finding in findings:
        files = ", ".join(map(str, finding["files"])) or "not written"
        lines.append(f"new finding: {finding['operation']}, {finding['kind']} at order {finding['order']}: {files}")
    return "\n".join(lines)


def _row(coverage: Coverage, operation: str | None, findings: int) -> str:
    examples = coverage.examples(operation)
    share = f"{100 * coverage.valid(operation) / examples:.0f} %" if examples else "-"
    cells = [
        "".join(
            f"{_short(coverage.at(operation, order, what)):>{width}}"
            for what, width in zip(VERDICTS, CELLS, strict=True)
        )
        for order in (1, 2)
    ]
    name = f"total, {len(coverage.operations)} operations" if operation is None else operation
    name = name if len(name) <= WIDTH else name[: WIDTH - 1] + "…"
    return f"{name:<{WIDTH}} {_short(examples):>8} {share:>5}|{cells[0]}|{cells[1]}|{findings or '':>4}".rstrip()


def _count(findings: Sequence[Mapping[str, Any]], operation: str) -> int:
    return sum(finding["operation"] == operation for finding in findings)


def _short(count: int) -> str:
    if not count:
        return "."
    return str(count) if count < 10_000 else f"{count // 1000}k"
