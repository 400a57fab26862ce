"""Compare the sources of a derivative with differences: together while they agree, else a few singly, many on lines.

Replays of the code give the values, the result of its derivative is the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, from_coordinates, parts_of, to_coordinates
from gradcheck.autodiff.reverse import Gradients, WrongShapeError, along, dense
from gradcheck.autodiff.sources import Source
from gradcheck.diagnosis.blame import NOTHING, Blame
from gradcheck.diagnosis.diagnosis import blamed, diagnose, diagnosed
from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.known_defect import known_to_raise
from gradcheck.diagnosis.not_finite_value import finite
from gradcheck.numerics.probing import FEW_INPUTS, PAIR, directions_at
from gradcheck.numerics.sampling import EPS64, LinePoints
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.function import Remembered
from gradcheck.problem.given import GivenGradient
from gradcheck.problem.mapped import Mapped, Points, as_array
from gradcheck.problem.opening import open_function
from gradcheck.problem.problem import Problem
from gradcheck.progress import TimeUpError
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall
from gradcheck.tracing.replay import replayed, target_value
from gradcheck.tracing.state import state_restored
from gradcheck.typing import Array
from gradcheck.verdict.entry_curve import worst_curve
from gradcheck.verdict.first_order import compare_first, compare_quickly
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.looks import screened, slope_estimate
from gradcheck.verdict.measured_rounding import ulp_rounding
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.probes import first_order
from gradcheck.verdict.summary import broken, out_of_time, summarise, undecided
from gradcheck.verdict.tables import GRANTED, Comparison, Tolerance, combined, compare

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
FEW, DIRECTIONS = 3, 2
"""Up to FEW coordinates are compared one by one. While there are few, up to FEW random directions are taken, since
errors rarely cancel along all of them; at first DIRECTIONS for each random pair of probes."""
COARSE = 0.01
"""A source of which only an error above this part of its largest derivative would show is looked at with more values,
or noted."""


class UntraceableError(Exception):
    """A replay has no value, or cannot be traced."""


@dataclass(frozen=True)
class CallProblem(Problem):
    """The targets of a call as a function of sources `taken` from it: their sum for a gradient, each for a Jacobian.

    A second derivative that the code takes is a call of its own.
    """

    taken: Sequence[CallSource]
    _remembered: Remembered = field(default_factory=Remembered, init=False, compare=False, repr=False)

    @property
    def record(self) -> CodeRecord:
        return self.taken[0].record

    @property
    def call(self) -> DerivativeCall:
        return self.taken[0].call

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(Source(one.name, np.asarray(one.value)) for one in self.taken)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        return parts_of([source.count for source in self.sources])

    @cached_property
    def point(self) -> Array:
        return np.concatenate([to_coordinates(source.value) for source in self.sources])

    @property
    def outputs(self) -> int:
        if self.call.method == "gradient":
            return 1
        return sum(math.prod(target.shape) for target in self.call.targets)

    @property
    def roundoff(self) -> float:
        names = [source.dtype for source in self.sources] + [target.dtype.name for target in self.call.targets]
        return max(ROUNDOFF.get(name, ROUNDOFF["float64"]) for name in names)

    def values(self, points: Array | LinePoints) -> Array:
        """The outputs (p, m) at points (p, n); NaN where the code raises or does not reach the call."""
        return self._remembered.table(b"", points, partial(self._values, points))

    def tables(self, cotangent: Array | None = None) -> list[tuple[LinePoints, Array]]:
        return self._remembered.on_lines(b"") if cotangent is None else []

    def _values(self, points: Array | LinePoints) -> Array:
        table = np.full((len(points), self.outputs), np.nan)
        moves = Points(len(points), lambda rows: self._deltas(points[rows]))
        with state_restored():
            for row, targets in self._replays.each(moves):
                value = None if targets is None else target_value(targets, self.call)
                table[row] = value if value is not None and value.shape == table[row].shape else np.nan
        return table

    @cached_property
    def expensive(self) -> bool:
        """Whether values of many coordinates take a run of the code each; the code is traced to find out."""
        if self.point.size <= FEW_INPUTS:
            return False
        moved = directions_at(np.random.default_rng(1), 3, self.point) * 2.0**-8
        with state_restored():
            self._replays.try_to_trace(Points(3, lambda rows: self._deltas((self.point + moved)[rows])))
        return self._replays.untraceable

    @cached_property
    def _replays(self) -> Mapped:
        """The targets of replays, as a function of the displacement of each source."""

        def targets(deltas: Sequence[Any]) -> list[Any]:
            moves = list(zip(self.taken, deltas, strict=True))
            if not tf.inside_function():
                moves = [(one, delta) for one, delta in moves if np.any(as_array(delta) != 0)]
            elif any(one.moved_by_operations for one in self.taken):
                raise UntraceableError("operations can be observed only when they run eagerly")
            replay = replayed(self.record, self.call, moves)
            if replay.target is None:
                raise UntraceableError("the code did not reach the call") from replay.error
            return [tf.convert_to_tensor(target) for target in replay.target]

        mapped = Mapped(targets, self.roundoff)
        mapped.keep(self._deltas(self.point), [as_array(tf.convert_to_tensor(one)) for one in self.call.targets])
        return mapped

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The result of the call at the given inputs, or that of a replay at another point."""
        results: Any = self.call.results
        if point is not None:
            results = replayed(self.record, self.call, self.moves(point), with_results=True).results
        if results is None:
            return Gradients.undefined(len(cotangents), self.point.size)
        parts = [results[one.position] for one in self.taken]
        matrices = [self._matrix(part, source) for part, source in zip(parts, self.sources, strict=True)]
        connected = np.repeat([part is not None for part in parts], [source.count for source in self.sources])
        values = cotangents @ np.concatenate(matrices, axis=1)
        return Gradients(values, np.broadcast_to(connected, values.shape))

    def moves(self, point: Array) -> list[tuple[CallSource, Any]]:
        """The displacements of the sources that lead to a point (n,)."""
        pairs = zip(self.taken, self._deltas(point), strict=True)
        return [(one, tf.constant(delta)) for one, delta in pairs if np.any(delta != 0)]

    def _deltas(self, points: Array) -> list[Array]:
        """The displacement of each source at a point (n,), or at points (p, n)."""
        ends = np.cumsum([source.count for source in self.sources])[:-1]
        with np.errstate(invalid="ignore"):  # a source may hold infinity
            moved = np.split(points - self.point, ends, axis=-1)
        return [
            from_coordinates(delta, source.shape, tf.as_dtype(source.dtype).as_numpy_dtype)
            for source, delta in zip(self.sources, moved, strict=True)
        ]

    def _matrix(self, result: Any, source: Source) -> Array:
        """The result for one source, (m, its coordinates)."""
        if result is None:
            return np.zeros((self.outputs, source.count))
        value = np.asarray(dense(result, source).numpy())
        if self.call.method == "batch_jacobian":
            value = _whole_jacobian(value, source)
        expected = (() if self.call.method == "gradient" else tuple(self.call.targets[0].shape)) + source.shape
        if value.shape != expected:
            raise WrongShapeError(source.name, f"of shape {value.shape}", f"of shape {expected}")
        return np.reshape(to_coordinates(value), (self.outputs, -1))


def _whole_jacobian(value: Array, source: Source) -> Array:
    """A batch Jacobian (b, out..., in...) as a full one (b, out..., b, in...): rows do not depend on one another."""
    rows, rank = np.arange(len(value)), value.ndim - len(source.shape) + 1
    whole = np.zeros((*value.shape[:rank], len(value), *value.shape[rank:]), value.dtype)
    np.moveaxis(whole, rank, 1)[rows, rows] = value
    return whole


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
            return _sharper(problem, agreement[1], tolerance, probes) or _together(
                problem, *agreement, tolerance, probes
            )
        if problem.outputs == 1 and (len(sources) > CLOSELY or problem.expensive):
            return _many(problem, tolerance, probes)
        if len(sources) == 1:
            return [(sources, _closely(problem, tolerance, probes))]
    except WrongShapeError as error:
        if len(sources) == 1:
            order = broken(1, Kind.SHAPE, error.source, str(error))
            known = known_to_raise(sources[0].record)
            return [(sources, replace(order, findings=(replace(order.findings[0], diagnosis=known),)))]
    return [pair for one in sources for pair in compared([one], tolerance, probes)]


def plainly_agrees(problem: CallProblem, tolerance: Tolerance, probes: int) -> tuple[Comparison, Array] | None:
    """Return the comparison along random directions if all of them agree at once, else None. Raises WrongShapeError.

    Also returns, for each source, the smallest visible error relative to its largest derivative, or infinity where its
    derivatives are all 0.
    """
    if problem.point.size <= FEW or problem.outputs > SMALL:
        return None
    cotangents = np.eye(problem.outputs)
    gradients = problem.gradients(cotangents).values
    if not np.isfinite(gradients).all():
        return None
    every = directions_at(np.random.default_rng(0), FEW if problem.point.size <= SMALL else probes, problem.point)
    visible = HIDDEN if problem.expensive else COARSE
    looks = [(DIRECTIONS * max(1, probes // PAIR), True), (FEW if problem.expensive else len(every), False)]
    for count, quickly in [(1, True)] * problem.expensive + looks:
        directions = every[:count]
        lines = Lines(problem, directions, cotangents, tolerance)
        estimate = screened(lines.sampled, len(directions)) if quickly else slope_estimate(lines.sample())
        autodiff = along(directions, gradients)
        table = compare(autodiff, estimate, tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
        products = np.abs(directions[:, None, :] * gradients[None, :, :])
        largest = [products[:, :, part].max(axis=2, initial=0.0) for part in problem.parts]
        counts = [source.count for source in problem.sources]
        shares = np.array([_share(table.allowed, one) if n else 0.0 for n, one in zip(counts, largest, strict=True)])
        clear = (table.where(Verdict.MISMATCH) & (table.excess() > GRANTED)).any()
        enough = count > 1 and table.where(Verdict.AGREE).all() and np.all((shares <= visible) | np.isinf(shares))
        if clear or enough:
            break
    if not table.where(Verdict.AGREE).all():
        return None
    rows, count = tuple(range(problem.outputs)), len(directions)
    table = replace(table, coordinates=(None,) * count, outputs=rows, contribution=np.max(largest, axis=0))
    return table, shares


def _share(allowed: Array, largest: Array) -> float:
    return float(np.min(allowed[largest > 0] / largest[largest > 0], initial=np.inf))


def _sharper(problem: CallProblem, shares: Array, tolerance: Tolerance, probes: int) -> Compared:
    """Compare sources in float64 of which low precision shows too little; nothing unless they agree there."""
    coarse = bool(np.any((shares > COARSE) & np.isfinite(shares)))
    if problem.roundoff <= EPS64 or not coarse or problem.expensive:
        return []
    tables = first_order_in_float64(problem.taken, tolerance, probes)
    order = None if tables is None else summarise(1, tables, problem.sources)
    return [] if order is None or order.verdict is not Verdict.AGREE else [(problem.taken, order)]


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

    def told(tables: list[Comparison]) -> OrderResult:
        order = summarise(1, tables, problem.sources, explain=partial(_diagnosed, one))
        return replace(order, curve=worst_curve(problem, tables, problem.sources))

    @cache
    def in_float64() -> OrderResult | None:
        tables = first_order_in_float64([one], tolerance, probes)
        return None if tables is None else told(tables)

    # Low precision shows which of many entries is wrong only after many values.
    if problem.roundoff > EPS64 and problem.point.size > FEW_INPUTS and not problem.expensive:
        order = in_float64()
        if order is not None and order.verdict is Verdict.MISMATCH:
            return order
    order = told(first_order(problem, tolerance, probes))
    if order.verdict is Verdict.INCONCLUSIVE and not finite(one.given):
        return in_float64() or order
    return order


def _many(problem: CallProblem, tolerance: Tolerance, probes: int) -> Compared:
    """Compare many sources, at least one of which is wrong, as far as the time allows. Raises WrongShapeError."""
    found: Compared = []
    try:
        for pair in _wrong_first(problem, tolerance, probes):
            found.append(pair)
    except TimeUpError:
        done = {one for group, _ in found for one in group}
        found.append(([one for one in problem.taken if one not in done], out_of_time(1)))
    return found


def _wrong_first(
    problem: CallProblem, tolerance: Tolerance, probes: int
) -> Iterator[tuple[Sequence[CallSource], OrderResult]]:
    """Yield the verdicts on many sources, those that look wrong first."""
    gradients = problem.gradients(ONE)
    lines = _one_line_each(problem, gradients.values)
    quick = compare_quickly(Lines(problem, lines, ONE, tolerance), gradients)
    agreeing = quick.where(Verdict.AGREE)[:, 0]
    clear = (quick.where(Verdict.MISMATCH) & (quick.excess() > 1))[:, 0]
    rest = np.ones(len(lines), bool)

    @cache
    def blame_of(position: int) -> Blame:
        with cause_searched():
            return blamed(problem.taken[position])
        return NOTHING

    for position in () if problem.expensive else _searched(problem, agreeing, clear, blame_of):
        one = [problem.taken[position]]
        if clear[position]:
            yield one, _closely(CallProblem(one), tolerance, probes)
        else:
            yield from compared(one, tolerance, probes)
        rest[position] = False
    behind = np.array([rest[i] and blame_of(i).culprit is not None for i in range(len(lines))])
    # An operation that is wrong by itself confirms a source behind it as wrong, which few values show.
    wrong, right = rest & clear & behind, rest & agreeing & ~behind
    yield from _along_a_line(problem, _rows(quick, wrong), np.flatnonzero(wrong))
    yield from _right(problem, _rows(quick, right), np.flatnonzero(right), tolerance, probes)
    unsure = np.flatnonzero(rest & ~wrong & ~right)
    if len(unsure):
        closer = compare_first(problem, lines[unsure[:MOST]], ONE, tolerance, lines)
        yield from _along_a_line(problem, closer, unsure[:MOST])
    if left := [problem.taken[position] for position in unsure[MOST:]]:
        yield left, undecided(1, Reason.TOO_EXPENSIVE, TOO_MANY.format(len(left)))


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


def first_order_in_float64(taken: Sequence[CallSource], tolerance: Tolerance, probes: int) -> list[Comparison] | None:
    """Compare first derivatives with respect to sources as `check` does; None without a float64 form.

    For gradients of which low precision shows nothing. The rounding of those that are not finite is not measured here.
    """
    if taken[0].call.method != "gradient" or any(one.moved_by_operations for one in taken):
        return None
    try:
        function = open_function(partial(_target, taken), tuple(tf.constant(one.value) for one in taken), None)
        function = with_float64_form(function)
    except (RuntimeError, ValueError):  # the code did not reach the call, or returns no finite number there
        return None
    given = [tf.convert_to_tensor(one.given) for one in taken]
    problem = GivenGradient.of(function, lambda tensors: given)
    return None if function.wide is None else first_order(problem, tolerance, probes)


def _target(taken: Sequence[CallSource], *tensors: Any) -> Any:
    """The targets of the call, weighted and summed, with the sources at these tensors."""
    record, call = taken[0].record, taken[0].call
    replay = replayed(record, call, [(one, tensor - one.value) for one, tensor in zip(taken, tensors, strict=True)])
    if replay.target is None:
        raise UntraceableError("the code did not reach the call") from replay.error
    weights: Sequence[Any] = call.weights or [None] * len(replay.target)
    pairs = zip(replay.target, weights, strict=True)
    return tf.add_n([tf.reduce_sum(part if weight is None else weight * part) for part, weight in pairs])
