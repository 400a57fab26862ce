"""Compare the sources of a derivative with differences: together while they agree, else a few singly, many on lines.

Replays of the code give the values, the result of its derivative is the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import compress
from math import isnan
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
from gradcheck.numerics.probing import FEW_INPUTS, PAIR, directions_at, magnitudes
from gradcheck.numerics.sampling import EPS64, LinePoints
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.function import Remembered
from gradcheck.problem.given import GivenGradient
from gradcheck.problem.mapped import Mapped, Points, as_array
from gradcheck.problem.opening import open_function
from gradcheck.problem.problem import Problem
from gradcheck.progress import TimeUpError
from gradcheck.result import Finding, Kind, OrderResult, Reason, SourceResolution, Verdict
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall
from gradcheck.tracing.replay import replayed, target_value
from gradcheck.tracing.state import state_restored, variables_restored
from gradcheck.typing import Array
from gradcheck.verdict.entry_curve import worst_curve
from gradcheck.verdict.first_order import compare_first, compare_quickly
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.looks import screened, slope_estimate
from gradcheck.verdict.measured_rounding import ulp_rounding
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.probes import first_order
from gradcheck.verdict.resolution import shares_of, unseen
from gradcheck.verdict.summary import broken, listed, out_of_time, summarise, undecided
from gradcheck.verdict.tables import GRANTED, Comparison, Tolerance, combined, compare

Compared = list[tuple[Sequence[CallSource], OrderResult]]

CLOSELY, ENTRIES = 4, 64
"""Up to CLOSELY sources of a wrong derivative are searched singly for the wrong entry, until ENTRIES entries have been
searched: each may take hundreds of values of the whole code."""
HIDDEN = 0.5
"""In code that cannot be traced, a look is enough if it shows an error of this part of each largest derivative."""
MOST = 32
"""Number of other sources that are compared closely; the rest is reported as too expensive."""
ONE = np.ones((1, 1))
ROWS = (
    "; batch_jacobian assumes that each row of the target depends only on the same row of the source: "
    "otherwise use jacobian"
)
FAINT = (
    "the {} so small beside what the target does there that errors below {:.1e} would not have shown; where a gradient "
    "should not vanish, look for what saturates, such as a sigmoid of inputs that were not scaled"
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
    """Compare sources; one whose derivative is smaller than the errors that would show is inconclusive."""
    found, small = list[tuple[Sequence[CallSource], OrderResult]](), dict[CallSource, float]()
    for group, order in _in_groups(sources, tolerance, probes):
        if order.verdict is Verdict.AGREE and not tolerance.given and len(order.by_source) == len(group):
            pairs = zip(group, order.by_source, strict=True)
            small |= {one: seen.resolution for one, seen in pairs if _is_faint(one, seen)}
        if rest := [one for one in group if one not in small]:
            found.append((rest, order))
    if small:
        names = [one.name for one in small]
        which = f"gradients of {listed(names)} are" if len(names) > 1 else f"gradient of {names[0]} is"
        order = undecided(1, Reason.TOO_COARSE, FAINT.format(which, max(small.values())))
        found.append((list(small), replace(order, inconclusive=len(small))))
    return found


def _is_faint(one: CallSource, seen: SourceResolution) -> bool:
    """Whether an error as large as the derivative, which is not zero, would not have been noticed."""
    given = _coordinates(one)
    if not given.any() or isnan(seen.resolution):
        return False
    if not isnan(seen.relative):
        return seen.relative > 1
    # Many entries are compared together, each moved by about its own size, which is a bound for a row of a Jacobian.
    sizes = magnitudes(to_coordinates(np.asarray(one.value)))
    most = np.abs(given) @ sizes if given.size == sizes.size else np.abs(given).max() * sizes.sum()
    return bool(seen.resolution > most)


def _coordinates(one: CallSource) -> Array:
    """The gradient of a source as coordinates; of a Jacobian, all of them."""
    return to_coordinates(tf.convert_to_tensor(one.given).numpy())


def _in_groups(sources: Sequence[CallSource], tolerance: Tolerance, probes: int) -> Compared:
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
        look = looked_at(problem, tolerance, probes)
        found = look and (_sharper(problem, look[0], tolerance, probes) or _together(problem, *look, tolerance, probes))
        if found:
            return found
        if problem.outputs == 1 and (len(sources) > CLOSELY or problem.expensive):
            return _many(problem, tolerance, probes)
        if len(sources) == 1:
            return [(sources, _closely(problem, tolerance, probes))]
    except WrongShapeError as error:
        if len(sources) == 1:
            order = broken(1, Kind.SHAPE, error.source, str(error))
            known = known_to_raise(sources[0].record)
            return [(sources, replace(order, findings=(replace(order.findings[0], diagnosis=known),)))]
    return [pair for one in sources for pair in _in_groups([one], tolerance, probes)]


def looked_at(problem: CallProblem, tolerance: Tolerance, probes: int) -> tuple[Comparison, Array] | None:
    """Compare along a few random directions that move all sources; None for few, or endless, gradients.

    Also returns, for each source, the smallest visible error relative to its largest derivative, or infinity where its
    derivatives are all 0. Raises WrongShapeError.
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
        enough = count > 1 and _agrees(table) and np.all((shares <= visible) | np.isinf(shares))
        if _clearly_off(table) or enough:
            break
    rows, count = tuple(range(problem.outputs)), len(directions)
    own = shares_of(directions, gradients, problem.parts, estimate.little)
    table = replace(table, coordinates=(None,) * count, outputs=rows, contribution=np.max(largest, axis=0), shares=own)
    return table, shares


def _agrees(table: Comparison) -> bool:
    return bool(table.where(Verdict.AGREE).all())


def _clearly_off(table: Comparison) -> bool:
    return bool((table.where(Verdict.MISMATCH) & (table.excess() > GRANTED)).any())


def _share(allowed: Array, largest: Array) -> float:
    return float(np.min(allowed[largest > 0] / largest[largest > 0], initial=np.inf))


def _sharper(problem: CallProblem, table: Comparison, tolerance: Tolerance, probes: int) -> Compared:
    """Compare sources in float64 of which low precision shows too little; nothing unless they agree there."""
    if problem.roundoff <= EPS64 or problem.expensive or _clearly_off(table):
        return []
    _, told = _told(problem, table, np.ones(len(problem.taken), bool), tolerance)
    if told.verdict is Verdict.AGREE and not _coarse(problem.taken, told):
        return []
    # Those that are moved as variables, which tapes see, come last.
    taken = sorted(problem.taken, key=lambda one: one.moved_at_start)
    tables = first_order_in_float64(taken, tolerance, probes)
    order = None if tables is None else summarise(1, tables, CallProblem(taken).sources, tolerance=tolerance)
    if order is None or order.verdict is not Verdict.AGREE:
        return []
    # What low precision may lose of larger derivatives hides what is lost of one that is zero, or small beside them.
    pairs = zip(taken, order.by_source, strict=True)
    apart = np.array([not _coordinates(one).any() or _is_faint(one, seen) for one, seen in pairs])
    if tolerance.given or apart.all() or not apart.any():
        return [(taken, order)]
    seen = replace(order, by_source=tuple(compress(order.by_source, ~apart)))
    return [(list(compress(taken, ~apart)), seen), *_in_groups(list(compress(taken, apart)), tolerance, probes)]


def _together(problem: CallProblem, table: Comparison, shares: Array, tolerance: Tolerance, probes: int) -> Compared:
    """Compare sources that plainly agree, those that are hidden by the others without these; nothing if none is seen.

    Where values are expensive, the verdict on sources that hide one another is that they do.
    """
    if not _agrees(table):
        return []
    hidden = _hidden(problem, table, tolerance)
    if hidden.all():
        return [_told(problem, table, hidden, tolerance)] if problem.expensive else []
    seen, zero = [_told(problem, table, ~hidden, tolerance)], hidden & np.isinf(shares)
    groups = (list(compress(problem.taken, mask)) for mask in (zero, hidden & ~zero))
    return seen + [pair for group in groups for pair in _in_groups(group, tolerance, probes)]


def _hidden(problem: CallProblem, table: Comparison, tolerance: Tolerance) -> Array:
    """The sources whose agreement among the others is not earned, boolean."""
    return np.array(unseen([table], problem.parts)) & (not tolerance.given)


def _told(
    problem: CallProblem, table: Comparison, chosen: Array, tolerance: Tolerance
) -> tuple[Sequence[CallSource], OrderResult]:
    """The verdict on the chosen sources of those that agree; inconclusive if that is not earned."""
    sources, own = list(compress(problem.taken, chosen)), np.asarray(table.shares)[:, :, chosen]
    table = replace(table, shares=None if tolerance.given else own)  # what a tolerance allows need not show
    return sources, summarise(1, [table], CallProblem(sources).sources, tolerance=tolerance)


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
    if problem.roundoff > EPS64 and (order.verdict is Verdict.INCONCLUSIVE or _coarse([one], order)):
        decided = in_float64()
        return order if decided is None or decided.verdict is Verdict.INCONCLUSIVE else decided
    return order


def _coarse(sources: Sequence[CallSource], order: OrderResult) -> bool:
    """Whether an agreement leaves errors above a noted part of the largest derivative, or of a whole source, unseen."""
    faint = (_is_faint(one, seen) for one, seen in zip(sources, order.by_source, strict=True))
    return order.verdict is Verdict.AGREE and (order.relative_resolution > COARSE or any(faint))


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
            yield from _in_groups(one, tolerance, probes)
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
    look = looked_at(together, tolerance, probes) if right else None
    if look is None or not _agrees(look[0]):
        return _along_a_line(problem, quick, positions)
    hidden = _hidden(together, look[0], tolerance)
    told: Compared = [] if hidden.all() else [_told(together, look[0], ~hidden, tolerance)]
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
    """Compare first derivatives with respect to sources, in their order, as `check` does; None without a float64 form.

    For gradients of which low precision shows nothing. The rounding of those that are not finite is not measured here.
    """
    if taken[0].call.method != "gradient" or any(one.moved_by_operations for one in taken):
        return None
    values = tuple(tf.constant(one.value) for one in taken if not one.moved_at_start)
    variables = [one.variable for one in taken if one.moved_at_start]
    with variables_restored(variables):
        try:
            function = with_float64_form(open_function(partial(_target, taken), values, variables or None))
        except (RuntimeError, ValueError):  # the code did not reach the call, or returns no finite number there
            return None
        given = [tf.convert_to_tensor(one.given) for one in taken]
        problem = GivenGradient.of(function, lambda tensors: given)
        return None if function.wide is None else first_order(problem, tolerance, probes)


def _target(taken: Sequence[CallSource], *tensors: Any) -> Any:
    """The targets of the call, weighted and summed, with the sources at these tensors, or at what variables hold."""
    record, call = taken[0].record, taken[0].call
    moved = [one for one in taken if not one.moved_at_start]
    record = replace(record, accessed=record.accessed.besides([one.variable for one in taken if one.moved_at_start]))
    replay = replayed(record, call, [(one, tensor - one.value) for one, tensor in zip(moved, tensors, strict=True)])
    if replay.target is None:
        raise UntraceableError("the code did not reach the call") from replay.error
    weights: Sequence[Any] = call.weights or [None] * len(replay.target)
    pairs = zip(replay.target, weights, strict=True)
    return tf.add_n([tf.reduce_sum(part if weight is None else weight * part) for part, weight in pairs])
