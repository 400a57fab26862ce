"""From comparisons to an order's result: findings at their worst element, a verdict, a resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.sources import Source
from gradcheck.comparison.tables import Comparison, stacked
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]

TERMS = 4
"""So many elements of a direction are named."""


def element_of(sources: Sequence[Source], coordinate: int | None) -> tuple[str, tuple[int, ...] | None, str]:
    """The source (with the part of a complex number), the element behind a coordinate, and what moves with it."""
    if coordinate is None:
        return "a combination of inputs", None, ""
    rest = coordinate
    for source in sources:
        if rest < source.count:
            return source.place(rest)
        rest -= source.count
    raise IndexError(f"no source holds coordinate {coordinate}")


def direction_text(sources: Sequence[Source], direction: Array) -> str:
    """A direction (n,) as a sum over its elements, such as "0.5 x[0] - 0.75 x[2]"; the first few of many."""
    moving = np.flatnonzero(direction)
    text = ""
    for coordinate in map(int, moving[:TERMS]):
        name, index, _ = element_of(sources, coordinate)
        factor = float(direction[coordinate])
        size = "" if abs(factor) == 1 else f"{abs(factor):.3g} "
        element = f"{name}[{', '.join(map(str, index))}]" if index else name
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += sign + size + element
    return text + (f" + … ({len(moving)} terms)" if len(moving) > TERMS else "")


def summarise(
    order: int,
    comparisons: Sequence[Comparison],
    sources: Sequence[Source],
    *,
    notes: tuple[str, ...] = (),
    explain: Callable[[Finding, int | None], Finding] = lambda finding, coordinate: finding,
) -> OrderResult:
    """One order's verdict; `explain` may rename or extend a finding, given its coordinate (None for a probe)."""
    whole = stacked(comparisons)
    findings = [explain(finding, coordinate) for finding, coordinate in _worst(order, comparisons, sources)]
    findings.sort(key=lambda finding: list(Kind).index(finding.kind))
    inconclusive = int(np.sum(whole.where(Verdict.INCONCLUSIVE)))
    seen = _resolving(whole)
    alone = next((table.alone for table in comparisons if table.alone is not None), None)
    if alone is not None:
        notes = (*notes, _contradicting(alone))
    kinks = int(np.sum(whole.at_kink))
    if kinks:
        notes = (*notes, f"{kinks} of {whole.verdict.size} entries lie at a kink, between the one-sided slopes")
    return OrderResult(
        order=order,
        verdict=Verdict.MISMATCH if findings else Verdict.INCONCLUSIVE if inconclusive else Verdict.AGREE,
        findings=tuple(findings),
        reasons=whole.reasons(),
        notes=notes,
        resolution=float(np.max(whole.allowed[seen])) if seen.any() else float("nan"),
        relative_resolution=_relative(comparisons, whole),
        compared=int(whole.verdict.size) - inconclusive,
        inconclusive=inconclusive,
    )


def undecided(order: int, reason: Reason, note: str) -> OrderResult:
    """An order at which nothing could be compared."""
    return OrderResult(order=order, verdict=Verdict.INCONCLUSIVE, reasons=(reason,), notes=(note,), inconclusive=1)


def broken(order: int, kind: Kind, source: str, reason: str) -> OrderResult:
    """An order whose derivative could not be taken, or has a wrong shape."""
    finding = Finding(kind, order, source, None, None, None, None, None, None, reason)
    return OrderResult(order=order, verdict=Verdict.MISMATCH, findings=(finding,))


def _resolving(entries: Comparison) -> Array:
    """At a kink the interval is the subdifferential, which does not show how precise the estimates are."""
    return np.asarray(~entries.where(Verdict.INCONCLUSIVE) & ~entries.at_kink & np.isfinite(entries.allowed))


def _relative(comparisons: Sequence[Comparison], whole: Comparison) -> float:
    """The resolution over the largest derivative; for probes, over the largest contribution to each of them."""
    plain = [table for table in comparisons if table.contribution is None]
    shares = []
    if plain:
        whole = whole if len(plain) == len(comparisons) else stacked(plain)
        seen = _resolving(whole)
        largest = np.max(np.abs(whole.difference[seen]), initial=0.0)
        shares += [float(np.max(whole.allowed[seen])) / largest] if largest > 0 else []
    for table in comparisons:
        if table.contribution is not None:
            seen = _resolving(table) & (table.contribution > 0)
            shares += [float(np.max(table.allowed[seen] / table.contribution[seen]))] if seen.any() else []
    return max(shares, default=float("nan"))


def _worst(
    order: int, comparisons: Sequence[Comparison], sources: Sequence[Source]
) -> list[tuple[Finding, int | None]]:
    """For each input and kind: the finding at its worst entry and its coordinate."""
    groups: dict[tuple[str, Kind], list[tuple[float, Finding, int | None]]] = {}
    searched = any(table.searched for table in comparisons)
    for table in comparisons:
        wrong = table.where(Verdict.MISMATCH)
        if not wrong.any():
            continue
        excess = table.excess()
        for line, row in zip(*np.nonzero(wrong), strict=True):
            finding = _finding(order, table, sources, int(line), int(row))
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


def _contradicting(alone: str) -> str:
    return f"of the three estimates {alone} stands alone"


def _finding(order: int, table: Comparison, sources: Sequence[Source], line: int, row: int) -> Finding:
    kind = Kind(str(table.cause[line, row]))
    source, index, also = element_of(sources, table.columns[line])
    other = ""
    if table.directions is not None:
        way = direction_text(sources, table.directions[row])
        other = f"; the other derivative goes along {way}"
        if table.columns[line] is None:
            source, other = f"the direction {way}", "; both derivatives go along it"
    if table.alone is not None:
        other += f"; {_contradicting(table.alone)}"
    autodiff = None if kind is Kind.MISSING else float(table.autodiff[line, row])
    difference, bound = float(table.difference[line, row]), float(table.bound[line, row])
    given = "None" if autodiff is None else f"{autodiff:.10g}"
    if kind is Kind.SUBDIFFERENTIAL:
        estimate = f"the one-sided slopes lie between {difference - bound:.10g} and {difference + bound:.10g}"
    else:
        estimate = estimate_text(difference, bound)
    return Finding(
        kind=kind,
        order=order,
        input=source,
        index=index,
        output=table.rows[row],
        autodiff=autodiff,
        difference=difference,
        bound=bound,
        allowed=float(table.allowed[line, row]),
        reason=f"autodiff gives {given}, {estimate}{other}",
        also=also,
    )


def estimate_text(difference: float, bound: float) -> str:
    """The estimate in words."""
    return f"the finite-difference estimate is {difference:.10g} (error at most {bound:.1e})"
