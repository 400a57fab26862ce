"""Compare the sources of a derivative with differences: together while they agree, else a few singly, many on lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import WrongShapeError
from gradcheck.diagnosis.blame import NOTHING, Blame
from gradcheck.diagnosis.call_problem import CallProblem, UntraceableError, plainly_agrees
from gradcheck.diagnosis.diagnosis import blamed, diagnose, diagnosed
from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.known_defect import known_to_raise
from gradcheck.diagnosis.not_finite_value import finite
from gradcheck.numerics.probing import directions_at
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.given import GivenGradient
from gradcheck.problem.opening import open_function
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict
from gradcheck.tracing.record import CallSource
from gradcheck.tracing.replay import replayed
from gradcheck.typing import Array
from gradcheck.verdict.first_order import compare_first, compare_quickly
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.probes import first_order
from gradcheck.verdict.summary import broken, summarise, undecided
from gradcheck.verdict.tables import Comparison, Tolerance, combined

Compared = list[tuple[Sequence[CallSource], OrderResult]]

CLOSELY, ENTRIES = 4, 64
"""Up to CLOSELY sources of a wrong derivative are searched singly for the wrong entry, until ENTRIES entries have been
searched: each may take hundreds of values of the whole code."""
HIDDEN = 0.5
"""An error of this part of a source's largest derivative has to be visible when it is compared with others."""
UNSEEN = "an error as large as the largest derivative would not have shown"
MOST = 32
"""Number of other sources that are compared closely; the rest is reported as too expensive."""
ONE = np.ones((1, 1))
ROWS = (
    "; batch_jacobian assumes that each row of the target depends only on the same row of the source: "
    "otherwise use jacobian"
)
TOO_MANY = "{} more sources, whose derivatives do not plainly agree, were not compared one by one"
ALONG = "along a direction that moves all of its elements, "


def compared(sources: Sequence[CallSource], tolerance: Tolerance, probes: int) -> Compared:
    """Compare all sources together if they plainly agree; else in groups, or each by itself, with its own verdict.

    Sources that are too small to be visible among the others are compared without these.

    If many disagree, the first few are searched for a wrong entry, except behind an operation that is already known to
    be wrong. The others are compared together, along one direction each, so that the time grows no faster than the
    number of values that this takes.
    """
    if not sources:
        return []
    problem = CallProblem(sources)
    try:
        agreement = plainly_agrees(problem, tolerance, probes)
        if agreement is not None:
            return _together(problem, *agreement, tolerance, probes)
        if len(sources) == 1:
            return [(sources, _closely(problem, tolerance, probes))]
        if problem.outputs == 1 and len(sources) > CLOSELY:
            return _many(problem, tolerance, probes)
    except WrongShapeError as error:
        if len(sources) == 1:
            order = broken(1, Kind.SHAPE, error.source, str(error))
            known = known_to_raise(sources[0].record)
            return [(sources, replace(order, findings=(replace(order.findings[0], diagnosis=known),)))]
    return [pair for one in sources for pair in compared([one], tolerance, probes)]


def _together(problem: CallProblem, table: Comparison, shares: Array, tolerance: Tolerance, probes: int) -> Compared:
    """Compare sources that plainly agree; those that are hidden by the others are compared without these."""
    hidden = (shares > HIDDEN) & (not tolerance.given)
    zero = hidden & np.isinf(shares)
    groups = [
        [one for one, chosen in zip(problem.taken, mask, strict=True) if chosen]
        for mask in (~hidden, zero, hidden & ~zero)
    ]
    if len(problem.taken) in map(len, groups):  # there are no others
        return [(problem.taken, _told(table, problem.taken, tolerance))]
    seen = [(groups[0], _told(table, groups[0], tolerance))] if groups[0] else []
    return seen + [pair for group in groups[1:] for pair in compared(group, tolerance, probes)]


def _told(table: Comparison, sources: Sequence[CallSource], tolerance: Tolerance) -> OrderResult:
    """The verdict on sources that agree; inconclusive if an error as large as the largest derivative would not show."""
    order = summarise(1, [table], CallProblem(sources).sources)
    unseen = order.relative_resolution > 1 and not tolerance.given
    return undecided(1, Reason.ILL_CONDITIONED, UNSEEN) if unseen else order


def _closely(problem: CallProblem, tolerance: Tolerance, probes: int) -> OrderResult:
    """The verdict on a single source; a float64 form decides if its gradient is not finite. Raises WrongShapeError."""
    (one,) = problem.taken
    told = partial(summarise, 1, sources=problem.sources, explain=partial(_diagnosed, one))
    order = told(first_order(problem, tolerance, probes))
    if order.verdict is Verdict.INCONCLUSIVE and not finite(one.given):
        tables = first_order_in_float64(one, tolerance, probes)
        return order if tables is None else told(tables)
    return order


def _many(problem: CallProblem, tolerance: Tolerance, probes: int) -> Compared:
    """Compare many sources, at least one of which is wrong. Raises WrongShapeError."""
    gradients = problem.gradients(ONE)
    lines = _one_line_each(problem, gradients.values)
    quick = compare_quickly(Lines(problem, lines, ONE, tolerance), gradients)
    agreeing = quick.where(Verdict.AGREE)[:, 0]
    clear = (quick.where(Verdict.MISMATCH) & (quick.excess() > 1))[:, 0]
    found: Compared = []
    rest = np.ones(len(lines), bool)

    @cache
    def blame_of(position: int) -> Blame:
        with cause_searched():
            return blamed(problem.taken[position])
        return NOTHING

    for position in _searched(problem, agreeing, clear, blame_of):
        found += compared([problem.taken[position]], tolerance, probes)
        rest[position] = False
    behind = np.array([rest[i] and blame_of(i).culprit is not None for i in range(len(lines))])
    # An operation that is wrong by itself confirms a source behind it as wrong, which few values show.
    wrong, right = rest & clear & behind, rest & agreeing & ~behind
    found += _along_a_line(problem, _rows(quick, wrong), np.flatnonzero(wrong))
    found += _right(problem, _rows(quick, right), np.flatnonzero(right), tolerance, probes)
    unsure = np.flatnonzero(rest & ~wrong & ~right)
    if len(unsure):
        closer = compare_first(problem, lines[unsure[:MOST]], ONE, tolerance)
        found += _along_a_line(problem, closer, unsure[:MOST])
    left = [problem.taken[position] for position in unsure[MOST:]]
    return found + ([(left, undecided(1, Reason.TOO_EXPENSIVE, TOO_MANY.format(len(left))))] if left else [])


def _searched(problem: CallProblem, agreeing: Array, clear: Array, blame_of: Callable[[int], Blame]) -> Iterator[int]:
    """Yield the positions of the sources to search for a wrong entry, clear mismatches first, each before the next.

    A cause that many share is searched for once; another clear mismatch may have another one.
    """
    searched = entries = 0
    for position in map(int, [*np.flatnonzero(clear), *np.flatnonzero(~agreeing & ~clear)]):
        one = problem.taken[position]
        if one.record.wrong and (not clear[position] or blame_of(position).again):
            continue
        yield position
        searched, entries = searched + 1, entries + problem.sources[position].count
        if searched == CLOSELY or entries >= ENTRIES:
            return


def _right(problem: CallProblem, quick: Comparison, positions: Array, tolerance: Tolerance, probes: int) -> Compared:
    """Compare the sources that agree along their lines together, for more resolution, if they plainly agree."""
    right = [problem.taken[position] for position in positions]
    together = CallProblem(right)
    agreement = plainly_agrees(together, tolerance, probes) if right else None
    if agreement is None:
        return _along_a_line(problem, quick, positions)
    table, shares = agreement
    hidden = (shares > HIDDEN) & (not tolerance.given)
    seen = [one for one, away in zip(right, hidden, strict=True) if not away]
    told: Compared = [(seen, _told(table, seen, tolerance))] if seen else []
    return told + _along_a_line(problem, _rows(quick, hidden), positions[hidden])


def _one_line_each(problem: CallProblem, gradient: Array) -> Array:
    """A direction for each source, (sources, n), which moves no other one and has the signs of its gradient (1, n).

    With these signs no entries of the gradient cancel.
    """
    counts = [source.count for source in problem.sources]
    belongs = np.repeat(np.arange(len(counts)), counts) == np.arange(len(counts))[:, None]
    drawn = directions_at(np.random.default_rng(0), 1, problem.point)
    gradient = np.nan_to_num(gradient)
    return np.asarray(np.where(gradient == 0, drawn, np.copysign(drawn, gradient)) * belongs)


def _along_a_line(problem: CallProblem, table: Comparison, positions: Array) -> Compared:
    """The verdicts on the sources at some positions, each along its line, which is a row of the table."""
    found: Compared = []
    for row, position in enumerate(positions):
        one, source = problem.taken[position], problem.sources[position]
        own = replace(_rows(table, [row]), coordinates=(None,), outputs=(None,), behind=source.count)
        found.append(([one], summarise(1, [own.named()], [source], explain=partial(_diagnosed, one))))
    return found


def _rows(table: Comparison, chosen: Array | list[int]) -> Comparison:
    return combined(lambda array: array[chosen], table)


def _diagnosed(one: CallSource, finding: Finding, coordinate: int | None) -> Finding:
    """Return the finding with its cause."""
    if coordinate is None:
        finding = replace(finding, input=one.name, reason=ALONG + finding.reason)
    diagnosis = None
    with cause_searched():
        diagnosis = diagnose(one, finding, None if coordinate is None else (finding.output or 0, coordinate))
    reason = finding.reason + (ROWS if diagnosis is None and one.call.method == "batch_jacobian" else "")
    output = None if one.call.method == "gradient" else finding.output
    return diagnosed(replace(finding, output=output, reason=reason), diagnosis)


def first_order_in_float64(one: CallSource, tolerance: Tolerance, probes: int) -> list[Comparison] | None:
    """Compare first derivatives with respect to a source as `check` does; None without a float64 form.

    For gradients that are not finite: the rounding of others is not measured here.
    """
    if one.call.method != "gradient" or one.moved_by_operations:
        return None
    try:
        function = with_float64_form(open_function(partial(_target, one), (tf.constant(one.value),), None))
    except (RuntimeError, ValueError):  # the code did not reach the call, or returns no finite number there
        return None
    given = tf.convert_to_tensor(one.given)
    problem = GivenGradient.of(function, lambda tensors: [given])
    return None if function.wide is None else first_order(problem, tolerance, probes)


def _target(one: CallSource, tensor: Any) -> Any:
    """The targets of the call, weighted and summed, with the source at a tensor."""
    replay = replayed(one.record, one.call, [(one, tensor - one.value)])
    if replay.target is None:
        raise UntraceableError("the code did not reach the call") from replay.error
    weights: Sequence[Any] = one.call.weights or [None] * len(replay.target)
    pairs = zip(replay.target, weights, strict=True)
    return tf.add_n([tf.reduce_sum(part if weight is None else weight * part) for part, weight in pairs])
