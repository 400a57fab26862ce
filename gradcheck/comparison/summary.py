"""From tables of entries to what a person is told: findings at their worst element, a verdict, a resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.sources import Source
from gradcheck.comparison.probes import ComparisonTable
from gradcheck.comparison.tables import INCONCLUSIVE, KINDS, KINK, MISMATCH, Comparison, stacked
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]

TERMS = 4
"""So many elements of a direction are named."""


@dataclass(frozen=True)
class Names:
    """The sources, to say which element a coordinate is."""

    sources: tuple[Source, ...]

    @staticmethod
    def of(sources: Sequence[Source]) -> Names:
        """The names of these sources."""
        return Names(tuple(sources))

    def place(self, coordinate: int | None) -> tuple[str, tuple[int, ...] | None, str]:
        """The source (with the part of a complex number), the element behind a coordinate, and what moves with it."""
        if coordinate is None:
            return "a combination of inputs", None, ""
        rest = coordinate
        for source in self.sources:
            if rest < source.count:
                return source.place(rest)
            rest -= source.count
        raise IndexError(f"no source holds coordinate {coordinate}")

    def direction(self, row: Array) -> str:
        """A direction (n,) as a sum over its elements, such as "0.5 x[0] - 0.75 x[2]"; the first few of many."""
        moving = np.flatnonzero(row)
        terms = "".join(self._term(row[place], int(place)) for place in moving[:TERMS])
        more = f" + … ({len(moving)} terms)" if len(moving) > TERMS else ""
        return terms.removeprefix(" + ").replace(" - ", "-", int(terms.startswith(" - "))) + more

    def _term(self, factor: float, coordinate: int) -> str:
        name, index, _ = self.place(coordinate)
        size = "" if abs(factor) == 1 else f"{abs(factor):.3g} "
        element = f"{name}[{', '.join(map(str, index))}]" if index else name
        return f" {'-' if factor < 0 else '+'} {size}{element}"


def summarise(
    order: int,
    tables: Sequence[ComparisonTable],
    names: Names,
    *,
    notes: tuple[str, ...] = (),
    explain: Callable[[Finding, int | None], Finding] = lambda finding, coordinate: finding,
) -> OrderResult:
    """One order's verdict; `explain` may rename or extend a finding, given its coordinate (None for a probe)."""
    whole = stacked([table.entries for table in tables])
    findings = [explain(finding, coordinate) for finding, coordinate in _worst(order, tables, names)]
    findings.sort(key=lambda finding: KINDS.index(finding.kind))
    undecided = int(np.sum(whole.status == INCONCLUSIVE))
    verdict = Verdict.MISMATCH if findings else Verdict.INCONCLUSIVE if undecided else Verdict.AGREE
    seen = _seen(whole)
    resolution = float(np.max(whole.allowed[seen])) if seen.any() else float("nan")
    kinks = int(np.sum(whole.status == KINK))
    if kinks:
        notes = (*notes, f"{kinks} of {whole.status.size} entries lie at a kink, between the one-sided slopes")
    return OrderResult(
        order=order,
        verdict=verdict,
        findings=tuple(findings),
        reasons=whole.reasons(),
        notes=notes,
        resolution=resolution,
        relative_resolution=_relative(tables, whole),
        compared=int(whole.status.size) - undecided,
        inconclusive=undecided,
    )


def undecided(order: int, reason: Reason, note: str) -> OrderResult:
    """An order at which nothing could be compared."""
    return OrderResult(order=order, verdict=Verdict.INCONCLUSIVE, reasons=(reason,), notes=(note,), inconclusive=1)


def broken(order: int, kind: Kind, source: str, reason: str) -> OrderResult:
    """An order whose derivative could not be taken, or has a wrong shape."""
    finding = Finding(kind, order, source, None, None, None, None, None, None, reason)
    return OrderResult(order=order, verdict=Verdict.MISMATCH, findings=(finding,))


def _seen(entries: Comparison) -> Array:
    """At a kink the interval is the subdifferential, which says nothing of how sharp the differences are."""
    seen: Array = (entries.status != INCONCLUSIVE) & (entries.status != KINK) & np.isfinite(entries.allowed)
    return seen


def _relative(tables: Sequence[ComparisonTable], whole: Comparison) -> float:
    """The resolution over the largest derivative; for probes, over the largest contribution to each of them."""
    plain = [table.entries for table in tables if table.contribution is None]
    shares = []
    if plain:
        whole = whole if len(plain) == len(tables) else stacked(plain)
        seen = _seen(whole)
        largest = np.max(np.abs(whole.difference[seen]), initial=0.0)
        shares += [float(np.max(whole.allowed[seen])) / largest] if largest > 0 else []
    for table in tables:
        if table.contribution is not None:
            seen = _seen(table.entries) & (table.contribution > 0)
            shares += [float(np.max(table.entries.allowed[seen] / table.contribution[seen]))] if seen.any() else []
    return max(shares, default=float("nan"))


def _worst(order: int, tables: Sequence[ComparisonTable], names: Names) -> list[tuple[Finding, int | None]]:
    """For each input and kind: the finding at its worst entry and its coordinate."""
    groups: dict[tuple[str, Kind], list[tuple[float, Finding, int | None]]] = {}
    searched = any(table.searched for table in tables)
    for table in tables:
        if not table.entries.any(MISMATCH):
            continue
        excess = table.entries.excess()
        for line, row in zip(*np.nonzero(table.entries.status == MISMATCH), strict=True):
            finding = _finding(order, table, names, int(line), int(row))
            group = groups.setdefault((finding.input, finding.kind), [])
            group.append((float(excess[line, row]), finding, table.columns[line]))
    worst = []
    for group in groups.values():
        _, finding, coordinate = max(group, key=lambda item: item[0])
        worst.append((replace(finding, reason=finding.reason + _count(len(group), searched)), coordinate))
    return worst


def _count(wrong: int, searched: bool) -> str:
    if searched:
        return "; found among random probes, at least this entry is wrong"
    return f"; {wrong} entries are wrong, this is the worst" if wrong > 1 else ""


def _finding(order: int, table: ComparisonTable, names: Names, line: int, row: int) -> Finding:
    entries: Comparison = table.entries
    kind = KINDS[int(entries.code[line, row])]
    source, index, also = names.place(table.columns[line])
    other = ""
    if table.directions is not None:
        way = names.direction(table.directions[row])
        other = f"; the other derivative goes along {way}"
        if table.columns[line] is None:
            source, other = f"the direction {way}", "; both derivatives go along it"
    autodiff = None if kind is Kind.MISSING else float(entries.autodiff[line, row])
    difference, bound = float(entries.difference[line, row]), float(entries.bound[line, row])
    given = "None" if autodiff is None else f"{autodiff:.10g}"
    if kind is Kind.SUBDIFFERENTIAL:
        said = f"the one-sided slopes lie between {difference - bound:.10g} and {difference + bound:.10g}"
    else:
        said = f"differences say {difference:.10g} (error at most {bound:.1e})"
    return Finding(
        kind=kind,
        order=order,
        input=source,
        index=index,
        output=table.rows[row],
        autodiff=autodiff,
        difference=difference,
        bound=bound,
        allowed=float(entries.allowed[line, row]),
        reason=f"autodiff gives {given}, {said}{other}",
        also=also,
    )
