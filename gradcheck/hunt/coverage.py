"""Coverage: examples by operation, order and verdict, counted in every worker and added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from gradcheck import documents
from gradcheck.autodiff.mode import EXECUTIONS, ORDERS, PLAIN, Mode
from gradcheck.documents import Count, Document, DocumentError, Order, Words
from gradcheck.result import Verdict

KINK = "agree at a kink"
COMPOSED = "composed kink"
INVALID = "invalid"
CANNOT_RUN = "cannot run"
VERDICTS = (Verdict.AGREE, KINK, COMPOSED, Verdict.INCONCLUSIVE, Verdict.MISMATCH)
OUTCOMES = (*VERDICTS, CANNOT_RUN, INVALID)
COMPARED, LOST = (Verdict.AGREE, KINK, Verdict.MISMATCH), (Verdict.INCONCLUSIVE, COMPOSED)
"""The verdicts on derivatives that were compared, and on those that could not be."""
MOST = 0.5
"""An operation that lost more of its examples than this share was hardly compared."""
MODE_NAMES = {str(Mode(path, mode)) for path in ORDERS for mode in EXECUTIONS}
SHORT = ("agree", "kink", "comp", "inc", "mis")
LEGEND = "kink: agrees at one, comp: at a composed kink, inc: inconclusive, mis: mismatch (a known one passes)"
WIDTH = 22
CELLS = (6, 5, 5, 5, 5)
LOST_LOOK = 0.25
"""Of a look at a mode, the share that an example is worth which could not be compared: if it were 0, a mode that never
runs, such as XLA on a machine without a compiler, would be drawn all the time."""
FEW = 20
"""A table of so few operations has a row for each."""


Outcome = Annotated[str, Meta(extra_json_schema={"enum": list(map(str, OUTCOMES))})]


def check_outcome(outcome: str, place: str) -> None:
    """Raises DocumentError for an unknown outcome."""
    if outcome not in OUTCOMES:
        raise DocumentError(place, outcome, f"one of {', '.join(OUTCOMES)}")


def check_mode_name(name: str, place: str) -> None:
    """Raises DocumentError for a text that is no mode's name."""
    if name not in MODE_NAMES:
        raise DocumentError(place, name, "a path and a mode of execution, such as 'reverse, tf.function'")


class CoverageCounts(Document, frozen=True, tag_field="format", tag="gradcheck coverage"):
    """Rows [operation, order, outcome, count], and rows [operation, order, mode, comparisons]; both are sorted."""

    outcomes: tuple[tuple[str, Order, Outcome, Count], ...]
    modes: tuple[tuple[str, Order, Words, Count], ...] = ()
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        for i, row in enumerate(self.outcomes):
            check_outcome(row[2], f"$.outcomes[{i}][2]")
        for i, row in enumerate(self.modes):
            check_mode_name(row[2], f"$.modes[{i}][2]")


class Coverage:
    """Counts of examples, (operation, order, outcome), and of those of them that were compared in a mode.

    `modes` counts the latter, (operation, order, name of the mode), without the plain one; `looks` counts them by mode
    alone in this process, with a quarter of each example that could not be compared.

    >>> coverage = Coverage()
    >>> coverage.count("sin", 1, verdict="agree")
    >>> coverage.examples("sin"), coverage.valid("sin")
    (1, 1)
    """

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, int, str]] = Counter()
        self.modes: Counter[tuple[str, int, str]] = Counter()
        self.looks: defaultdict[str, float] = defaultdict(float)

    def count(self, operation: str, order: int, *, verdict: str = Verdict.AGREE, mode: Mode = PLAIN) -> None:
        """Counts one example of an operation at an order; `verdict` is one of OUTCOMES, else ValueError."""
        if verdict not in OUTCOMES:
            raise ValueError(f"verdict was {verdict!r}; it is one of {', '.join(OUTCOMES)}")
        self.outcomes[operation, order, str(verdict)] += 1  # a worker can send plain strings only
        self.looks[str(mode)] += 1.0 if verdict in COMPARED else LOST_LOOK
        if mode != PLAIN and verdict in COMPARED:
            self.modes[operation, order, str(mode)] += 1

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that were exercised, sorted."""
        return tuple(sorted({operation for operation, _, _ in self.outcomes}))

    def __bool__(self) -> bool:
        return bool(self.outcomes)

    def at(self, operation: str | None, order: int, *outcomes: str) -> int:
        """The examples of an operation (None: of all) at an order with one of these outcomes."""
        names = self.operations if operation is None else (operation,)
        return sum(self.outcomes[name, order, outcome] for name in names for outcome in outcomes)

    def examples(self, operation: str | None = None) -> int:
        """All examples of an operation (None: of all), each order counted."""
        return self.at(operation, 1, *OUTCOMES) + self.at(operation, 2, *OUTCOMES)

    def valid(self, operation: str | None = None) -> int:
        """The examples that were checked: neither rejected, nor without a derivative in the mode that was asked for."""
        return self.at(operation, 1, *VERDICTS) + self.at(operation, 2, *VERDICTS)

    def to_json(self) -> dict[str, Any]:
        """The document of the counts: the same counts give the same text."""
        outcomes, modes = (
            tuple((*key, count) for key, count in sorted(counts.items())) for counts in (self.outcomes, self.modes)
        )
        data: dict[str, Any] = documents.plain(CoverageCounts(outcomes, modes))
        return data


def table(coverage: Coverage, findings: Sequence[Mapping[str, Any]] = (), *, whole: bool = False) -> str:
    """One row per operation and a total, at most 100 columns; then what the columns are, and one line per finding.

    Of many operations, unless the `whole` table is asked for, those without a finding or a mismatch, and with enough
    examples that were compared, have one row together. A finding has its `operation` (the culprit), `order`, `kind` and
    `files`. Per order: agree, agree at a kink, composed kink, inconclusive, mismatch. Examples count every order that
    was checked.
    """
    heads = "".join(f"{name:>{width}}" for name, width in zip(SHORT, CELLS, strict=True))
    titles = f"{'operation':<{WIDTH}} {'examples':>8} {'valid':>5}|{heads}|{heads}| new"
    rule = "-" * len(titles)
    lines = [f"{' ' * (WIDTH + 15)}|{'order 1':^{sum(CELLS)}}|{'order 2':^{sum(CELLS)}}|", titles, rule]
    new = Counter(str(finding["operation"]) for finding in findings)
    parts: defaultdict[str, Coverage] = defaultdict(Coverage)
    for key, count in coverage.outcomes.items():
        parts[key[0]].outcomes[key] = count
    names = [*coverage.operations, *sorted(new.keys() - {*coverage.operations})]
    whole |= len(names) <= FEW
    shown = [name for name in names if whole or new[name] or _stands_out(parts[name])]
    lines += [_row(parts[name], name, new[name]) for name in shown]
    if len(shown) < len(names):
        others = Coverage()
        for name in {*names} - {*shown}:
            others.outcomes.update(parts[name].outcomes)
        lines.append(_row(others, f"{len(names) - len(shown)} others", 0))
    lines += [rule, _row(coverage, f"total, {len(coverage.operations)} operations", len(findings)), LEGEND]
    for finding in findings:
        files = ", ".join(map(str, finding["files"])) or "not written"
        lines.append(f"new finding: {finding['operation']}, {finding['kind']} at order {finding['order']}: {files}")
    return "\n".join(lines)


def _stands_out(coverage: Coverage) -> bool:
    """Whether there is a mismatch, or most examples of an order could not be compared."""
    for order in (1, 2):
        compared, lost = (coverage.at(None, order, *outcomes) for outcomes in (COMPARED, LOST))
        if coverage.at(None, order, Verdict.MISMATCH) or lost > MOST * (compared + lost):
            return True
    return False


def _row(coverage: Coverage, name: str, findings: int) -> str:
    examples = coverage.examples()
    share = f"{100 * coverage.valid() / examples:.0f} %" if examples else "-"
    cells = [
        "".join(
            f"{_short(coverage.at(None, order, what)):>{width}}" for what, width in zip(VERDICTS, CELLS, strict=True)
        )
        for order in (1, 2)
    ]
    name = name if len(name) <= WIDTH else name[: WIDTH - 1] + "…"
    return f"{name:<{WIDTH}} {_short(examples):>8} {share:>5}|{cells[0]}|{cells[1]}|{findings or '':>4}".rstrip()


def _short(count: int) -> str:
    if count >= 10_000:
        return f"{count // 1000}k"
    return str(count or ".")
