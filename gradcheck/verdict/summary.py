"""Summarise comparisons as an order's result: findings at their worst element, a verdict, a resolution."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import parts_of
from gradcheck.autodiff.sources import Source
from gradcheck.progress import time_limit
from gradcheck.result import ESTIMATE, Finding, Kind, OrderResult, Reason, SourceResolution, Verdict, told_apart
from gradcheck.typing import Array
from gradcheck.verdict.resolution import Sight, next_to_zero, seen_by_source
from gradcheck.verdict.tables import ALLOWANCES, PARTS, Comparison, Tolerance, combined

TERMS = 4
"""The number of elements of a direction, or of the items of a list, that are named."""

SHOWN = 0.05
"""The least share of an allowed error that a term has to have to be named."""

NONE_GIVEN = Tolerance()
CONTRADICTING = "the one that disagrees with the other two estimates: {}"


def element_of(sources: Sequence[Source], coordinate: int | None) -> tuple[str, tuple[int, ...] | None, str]:
    """Return the source (with the part of a complex number) and element of a coordinate, and what moves with it."""
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
    moving, terms = np.flatnonzero(direction), []
    for coordinate in map(int, moving[:TERMS]):
        name, index, _ = element_of(sources, coordinate)
        factor = float(direction[coordinate])
        size = "" if abs(factor) == 1 else f"{abs(factor):.3g} "
        terms.append(
            ("- " if factor < 0 else "+ ") + size + name + (f"[{', '.join(map(str, index))}]" if index else "")
        )
    text = re.sub("^- ", "-", " ".join(terms).removeprefix("+ "))
    return text + (f" + … ({len(moving)} terms)" if len(moving) > TERMS else "")


def summarise(
    order: int,
    comparisons: Sequence[Comparison],
    sources: Sequence[Source],
    *,
    notes: tuple[str, ...] = (),
    explain: Callable[[Finding, int | None], Finding] = lambda finding, coordinate: finding,
    tolerance: Tolerance = NONE_GIVEN,
) -> OrderResult:
    """Return one order's result; `explain` may rename or extend a finding, given its coordinate (None for a probe).

    `tolerance` is the requested one.
    """
    comparisons, sights, errors = seen_by_source(comparisons, parts_of([source.count for source in sources]), tolerance)
    whole = combined(lambda *arrays: np.concatenate([np.ravel(array) for array in arrays]), *comparisons)
    findings = [explain(finding, coordinate) for finding, coordinate in _worst(order, comparisons, sources)]
    findings.sort(key=lambda finding: list(Kind).index(finding.kind))
    left = _left(comparisons)
    inconclusive = np.concatenate(list(map(np.ravel, left)))
    hidden = 0 if findings else sum(one.hidden for one in sights)
    causes = {*whole.cause[inconclusive].tolist(), *([Reason.TOO_COARSE.value] if hidden else [])}
    reasons = tuple(reason for reason in Reason if reason.value in causes)
    alone = next((table.alone for table in comparisons if table.alone is not None), None)
    if alone is not None:
        notes = (*notes, CONTRADICTING.format(alone))
    probed = [table for table in comparisons if table.behind]
    if probed:
        behind = sum(table.behind for table in probed if not table.again)
        tests = sum(table.verdict.size for table in probed)
        notes = (*notes, _together(behind, tests))
    kinks = int(np.sum(whole.at_kink))
    if kinks:
        notes = (*notes, _at_kinks(kinks, whole.verdict.size))
    if Reason.TOLERANCE in reasons:
        notes = (*notes, _too_fine(tolerance, comparisons))
    if Reason.TOO_COARSE in reasons:
        notes = (*notes, _too_coarse(sources, sights))
    resolution, relative = _resolution(comparisons, whole, errors)
    return OrderResult(
        order=order,
        verdict=Verdict.MISMATCH if findings else Verdict.INCONCLUSIVE if reasons else Verdict.AGREE,
        findings=tuple(findings),
        reasons=reasons,
        notes=notes,
        resolution=resolution,
        relative_resolution=relative,
        by_source=tuple(
            SourceResolution(source.name, *(nan if isnan(one) else one for one in (sight.absolute, sight.relative)))
            for source, sight in zip(sources, sights, strict=True)
        ),
        compared=max(sum(map(_compared, comparisons, left)) - hidden, 0),
        inconclusive=int(np.sum(inconclusive)) + hidden,
    )


def _together(entries: int, tests: int, sources: int = 1) -> str:
    among = f" of {sources} sources" if sources > 1 else ""
    return f"{entries} entries{among} were compared together, in {tests} random combination{'s' * (tests > 1)}"


def _at_kinks(kinks: int, entries: int) -> str:
    return f"{kinks} of {entries} entries lie at a kink, between the one-sided slopes"


TOGETHER = re.compile(r"(\d+) entries(?: of (\d+) sources)? were compared together, in (\d+) random combinations?")
AT_KINKS = re.compile(r"(\d+) of (\d+) entries lie at a kink, between the one-sided slopes")


def notes_of(orders: Sequence[OrderResult]) -> list[str]:
    """The notes of several results, each once: those that count entries are added up, at the place of the first.

    >>> one, other = (OrderResult(1, Verdict.AGREE, notes=(_together(n, 1), "held")) for n in (40, 2))
    >>> notes_of([one, other])
    ['42 entries of 2 sources were compared together, in 2 random combinations', 'held']
    """
    notes, counts = list[str](), dict[str, list[tuple[int, ...]]]()
    for order in orders:
        for note in order.notes:
            if found := TOGETHER.fullmatch(note):
                entries, sources, tests = (int(part or len(order.by_source) or 1) for part in found.groups())
                counts.setdefault("together", []).append((entries, tests, sources))
                notes.append("together")
            elif found := AT_KINKS.fullmatch(note):
                counts.setdefault("kinks", []).append(tuple(map(int, found.groups())))
                notes.append("kinks")
            else:
                notes.append(note)
    written: dict[str, Callable[..., str]] = {"together": _together, "kinks": _at_kinks}
    totals = {name: [sum(column) for column in zip(*rows, strict=True)] for name, rows in counts.items()}
    return [written[note](*totals[note]) if note in totals else note for note in dict.fromkeys(notes)]


def _left(comparisons: Sequence[Comparison]) -> list[Array]:
    """The inconclusive entries, without failed probes behind which a search found a wrong entry."""
    located = any(map(_found_wrong, comparisons))
    return [
        table.where(Verdict.INCONCLUSIVE)
        & ~(table.where(Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED) & (located and table.behind > 0))
        for table in comparisons
    ]


def _found_wrong(table: Comparison) -> bool:
    return table.searched and table.any(Verdict.MISMATCH)


def _too_fine(tolerance: Tolerance, comparisons: Sequence[Comparison]) -> str:
    """The note on a tolerance that is finer than what is seen, for the entry that is seen worst."""
    worst, said = 0.0, ""
    for table in comparisons:
        seen = np.where(table.where(Verdict.INCONCLUSIVE, Reason.TOLERANCE), table.allowed, 0.0)
        place = np.unravel_index(int(np.argmax(seen)), seen.shape)
        if seen[place] > worst:
            worst = float(seen[place])
            wanted = float(tolerance.of(table.difference)[place])
            said = f"errors of {wanted:.1e} have to be detected, but this check detects only {worst:.1e} or more"
            if table.behind:  # what counts in a probe is its largest term
                said = f"smaller errors than {worst:.1e} have to be detected, but this check detects only that or more"
    said = said or "some errors that have to be detected are too small to be seen among the other entries"
    return f"with {tolerance}, {said}; use a larger tolerance"


def _too_coarse(sources: Sequence[Source], sights: Sequence[Sight]) -> str:
    """The note on the sources whose resolution is too coarse, with a remedy."""
    blurred = [
        (f"{sight.over:.2g} times the derivative" if np.isfinite(sight.over) else "none") + f" for {source.name}"
        for source, sight in zip(sources, sights, strict=True)
        if sight.coarse or sight.hidden
    ]
    return (
        f"the smallest detectable error is {listed(blurred)}, but at most 0.1 times is required; use float64, fewer "
        "inputs or variables at once, or more probes="
    )


def listed(texts: Sequence[str]) -> str:
    """The texts as a list, the first few of many.

    >>> listed(["w", "b"]), listed("abcdef")
    ('w, b', 'a, b, c, d, and 2 more')
    """
    return ", ".join(texts[:TERMS]) + (f", and {len(texts) - TERMS} more" if len(texts) > TERMS else "")


def _compared(table: Comparison, left: Array) -> int:
    """The number of compared entries: all behind probes, if these were compared, with the wrong one found there."""
    if _found_wrong(table) or table.again:
        return 0
    inconclusive = int(np.sum(left))
    return table.behind if table.behind and not inconclusive else table.verdict.size - inconclusive


def _resolution(comparisons: Sequence[Comparison], whole: Comparison, errors: Sequence[Array]) -> tuple[float, float]:
    """The resolution; and relative to the largest derivative, for a probe to the largest contribution to it."""
    # At a kink the interval is the subdifferential, which does not show how precise the estimates are.
    least = np.concatenate(list(map(np.ravel, errors)))
    seen = ~whole.where(Verdict.INCONCLUSIVE) & ~whole.at_kink & np.isfinite(least) & np.isfinite(whole.autodiff)
    contributions = [np.nan if table.contribution is None else _of_probes(table) for table in comparisons]
    shapes = [table.verdict.shape for table in comparisons]
    contribution = np.concatenate(
        [np.ravel(np.broadcast_to(*pair)) for pair in zip(contributions, shapes, strict=True)]
    )
    plain = np.isnan(contribution)
    scale = np.where(plain, np.max(np.abs(whole.difference[seen & plain]), initial=0.0), contribution)
    scaled = seen & (scale > 0)
    nothing = float("nan")
    return (
        float(np.max(least[seen])) if seen.any() else nothing,
        float(np.max(least[scaled] / scale[scaled])) if scaled.any() else nothing,
    )


def _of_probes(table: Comparison) -> Array:
    """The largest term of each probe; zero where all of them are next to zero."""
    contribution = np.asarray(table.contribution)
    return contribution if table.shares is None else np.where(next_to_zero(table), 0.0, contribution)


def undecided(order: int, reason: Reason, note: str) -> OrderResult:
    """The result of an order at which nothing could be compared."""
    return OrderResult(order=order, verdict=Verdict.INCONCLUSIVE, reasons=(reason,), notes=(note,), inconclusive=1)


def more_time(limit: float) -> str:
    """The remedy for a time limit in seconds that was too short.

    >>> more_time(2), more_time(60)
    ('give more, such as seconds=30, or leave it out', 'give more, such as seconds=600, or leave it out')
    """
    return f"give more, such as seconds={max(30, 10 * limit):g}, or leave it out"


def out_of_time(order: int) -> OrderResult:
    """The result of an order, or a part of it, that was not decided within the time limit."""
    limit = time_limit() or 0.0  # which has passed
    note = f"seconds={limit:g} were over before all of order {order} was decided: {more_time(limit)}, or check a part"
    return undecided(order, Reason.TOO_EXPENSIVE, note)


def broken(order: int, kind: Kind, source: str, reason: str) -> OrderResult:
    """The result of an order whose derivative could not be taken, or has a wrong shape."""
    finding = Finding(kind, order, source, None, None, None, None, None, None, reason)
    return OrderResult(order=order, verdict=Verdict.MISMATCH, findings=(finding,))


def _worst(
    order: int, comparisons: Sequence[Comparison], sources: Sequence[Source]
) -> list[tuple[Finding, int | None]]:
    """For each input and kind: the finding at its worst entry and its coordinate."""
    groups: dict[tuple[str, Kind], list[tuple[float, Finding, int | None]]] = {}
    for table in comparisons:
        wrong = table.where(Verdict.MISMATCH)
        if wrong.any():
            excess = table.excess()
            for line, row in zip(*np.nonzero(wrong), strict=True):
                finding = _finding(order, table, sources, int(line), int(row))
                entry = float(excess[line, row]), finding, table.coordinates[line]
                groups.setdefault((finding.input, finding.kind), []).append(entry)
    searched, worst = any(table.searched for table in comparisons), []
    for group in groups.values():
        _, finding, coordinate = max(group, key=lambda entry: entry[0])
        several = f"; {len(group)} entries are wrong, this is the worst relative to its error bound"
        count = several if len(group) > 1 else ""
        count = "; found among random probes, at least this entry is wrong" if searched else count
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            how = _pattern(comparisons, sources, finding) if order == 1 and len(group) > 1 else ""
        worst.append((replace(finding, reason=finding.reason + count + how), coordinate))
    return worst


def _pattern(comparisons: Sequence[Comparison], sources: Sequence[Source], finding: Finding) -> str:
    """How the derivatives of an input are wrong together: by a factor, transposed, or in one row; else empty."""
    parts = zip(sources, parts_of([source.count for source in sources]), strict=True)
    source, part = next((pair for pair in parts if pair[0].name == finding.input), (None, slice(0, 0)))
    whole = range(part.start, part.stop)
    lines = [
        (table, np.array([one in whole for one in table.coordinates], bool))
        for table in comparisons
        if not table.behind
    ]
    table = next((one.kept(some, axis=0) for one, some in lines if some.sum() == len(whole)), None)
    if source is None or table is None or source.constrained:
        return ""
    seen, wrong = ~table.where(Verdict.INCONCLUSIVE), table.where(Verdict.MISMATCH)
    autodiff, estimate, allowed = table.autodiff, table.difference, table.allowed
    largest = np.unravel_index(np.argmax(np.where(seen, np.abs(estimate) / allowed, 0.0)), seen.shape)
    factor = float(autodiff[largest] / estimate[largest]) if estimate[largest] else 0.0
    fits = np.abs(autodiff - factor * estimate) <= np.maximum(1.0, abs(factor)) * allowed
    if factor and fits[seen].all() and np.sum(seen & (np.abs(estimate) > allowed)) > 1:
        times = f"{factor:.6g}"
        return "; all have the wrong sign" if times == "-1" else f"; all are {times} times the estimate"
    if seen.all() and _same(autodiff, estimate, allowed, source.shape):
        return "; they are those of the transpose"
    places = np.argwhere(wrong.any(axis=1).reshape(source.shape))
    for axis, size in enumerate(source.shape):
        if size > 1 and np.ptp(places[:, axis]) == 0 and (seen & ~wrong).any():
            index = [":"] * len(source.shape)
            index[axis] = str(places[0, axis])
            return f"; all of them in {source.name}[{', '.join(index)}]"
    return ""


def _same(autodiff: Array, estimate: Array, allowed: Array, shape: tuple[int, ...]) -> bool:
    """Whether autodiff's derivatives are the estimates with two axes exchanged: of a matrix, or of the Jacobian."""
    turned = [(estimate.T, allowed.T)] if autodiff.shape[0] == autodiff.shape[1] > 1 else []
    if len(shape) > 1 and shape[-1] == shape[-2] > 1:
        grid = np.arange(autodiff.shape[0]).reshape(shape)
        order = np.swapaxes(grid, -1, -2).ravel()
        turned.append((estimate[order], allowed[order]))
    return any(bool(np.all(np.abs(autodiff - one) <= np.maximum(allowed, other))) for one, other in turned)


def _finding(order: int, table: Comparison, sources: Sequence[Source], line: int, row: int) -> Finding:
    kind = Kind(str(table.cause[line, row]))
    source, index, also = element_of(sources, table.coordinates[line])
    other = ""
    if table.directions is not None:
        way = direction_text(sources, table.directions[row])
        other = f"; the other derivative is taken along {way}"
        if table.coordinates[line] is None:
            source, other = f"the direction {way}", "; both derivatives are taken along it"
    if table.alone is not None:
        other += f"; {CONTRADICTING.format(table.alone)}"
    numbers = table.autodiff, table.difference, table.bound, table.allowed
    autodiff, difference, bound, allowed = (float(array[line, row]) for array in numbers)
    allowed += sum(float(table.parts[name][line, row]) for name in ALLOWANCES)
    given = "None" if kind is Kind.MISSING else told_apart(autodiff, difference, 10)[0]
    estimate = estimate_text(difference, bound, autodiff)
    if kind is Kind.SUBDIFFERENTIAL:
        estimate = f"the one-sided slopes lie between {difference - bound:.10g} and {difference + bound:.10g}"
    return Finding(
        kind=kind,
        order=order,
        input=source,
        index=index,
        output=table.outputs[row],
        autodiff=None if kind is Kind.MISSING else autodiff,
        difference=difference,
        bound=bound,
        allowed=allowed,
        reason=f"autodiff gives {given}, {estimate}{other}",
        also=also,
        terms=_terms(allowed, table.parts[line, row]),
    )


def _terms(allowed: float, part_of: Any) -> tuple[tuple[str, float], ...]:
    """The parts of an allowed error that are at least SHOWN of it, by their names."""
    parts = {name: float(part_of[name]) for name in PARTS.names or ()}
    terms = {ESTIMATE: allowed - sum(parts.values()), **parts}
    return tuple((name, part) for name, part in terms.items() if part >= SHOWN * allowed)


def estimate_text(difference: float, bound: float, beside: float = nan) -> str:
    """The estimate in words, with enough digits to tell it from the number `beside` it."""
    text = told_apart(difference, beside, 10)[0]
    return f"the finite-difference estimate is {text} (error at most {bound:.1e})"
