"""Compare second derivatives with two estimates: quickly, and closely where that leaves a doubt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import Gradients
from gradcheck.numerics.difference import EXCLUSION, RELATIVE, TIGHT, Estimate, first_difference
from gradcheck.numerics.one_sided import classify
from gradcheck.numerics.probing import FEW_INPUTS, FEW_OUTPUTS, PAIR, cotangents
from gradcheck.numerics.sampling import QUICK, SECOND, Sample, Stencil
from gradcheck.problem.problem import Problem
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict import terms
from gradcheck.verdict.doubts import finite_nearby, moved_at_kinks
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.looks import (
    BEYOND,
    closer_look,
    curvature_estimate,
    reach,
    scaled_by_values,
    screened,
    sharp_beside,
    slope_estimate,
    with_constants,
)
from gradcheck.verdict.measured_rounding import (
    Derivative,
    Neighbourhood,
    OwnRounding,
    taken_in_float64,
    ulp_rounding,
    with_inner_rounding,
)
from gradcheck.verdict.resolution import shares_of_parts
from gradcheck.verdict.suspicion import (
    FINER,
    NEARER,
    UNSMOOTH,
    WIDE,
    Evidence,
    noise_dominated,
    residue,
    rough_lines,
    worst_coordinates,
)
from gradcheck.verdict.tables import Comparison, Tolerance, combined, compare, confirmed
from gradcheck.verdict.terms import judged

MOST, BESIDE = 0.5, 0.6
"""If more than MOST of a column is in doubt, it is sampled again beyond the finest step, else between the steps."""

SHARE, SHARE_OF_PRODUCTS = 1e-10, 1e-9
"""A bound of this share of the largest entry of its column is as good as a tight one.

Products with left vectors sum thousands of roundings, one of which is always unlucky; sampling again costs as many
gradients of a large function once more.
"""


def second_order(problem: Problem, tolerance: Tolerance, probes: int) -> list[Comparison]:
    """Compare second derivatives, with one line per coordinate.

    All axes and outputs while they are few, else random pairs of a direction and a cotangent, one for `PAIR` probes.
    With few outputs, the wrong one is named. Raises DerivativeRaisedError and WrongShapeError.
    """
    rng = np.random.default_rng(0)
    n, m, pairs = problem.point.size, problem.outputs, probes // PAIR
    few = n <= FEW_INPUTS
    # The first to be drawn, as at first order, so that its values are reused.
    directions = np.eye(n) if few else problem.directions(rng, pairs)

    def compared(lines: Array, weight: Array, output: int | None = None) -> list[Comparison]:
        # An error is visible in proportion to the coordinate's component of the direction.
        farthest = max(float(lines.max()), -float(lines.min()))
        allowed = tolerance if tolerance.atol is None else replace(tolerance, atol=tolerance.atol * farthest)
        if n <= WIDE:
            return compare_second(problem, lines, weight, allowed, output)
        (left,) = problem.directions(rng, 1)
        return _until_wrong(_projected(problem, line[None, :], weight, allowed, left, output) for line in lines)

    def one_by_one() -> list[Comparison]:
        return [table for output, weight in enumerate(np.eye(m)) for table in compared(directions, weight, output)]

    if m == 1:
        return compared(directions, np.ones(1))
    if few and m <= FEW_OUTPUTS:
        return one_by_one()
    lines = [directions] * pairs if few else directions[:, None]
    weights = cotangents(rng, pairs, np.ones(m))
    tables = _until_wrong(compared(line, weight) for line, weight in zip(lines, weights, strict=True))
    if m <= FEW_OUTPUTS and _wrong(tables) and _wrong(named := one_by_one()):
        return named
    return tables


def _until_wrong(columns: Iterable[list[Comparison]]) -> list[Comparison]:
    """Return the comparisons of random pairs up to the first one that is wrong: each of them shows whole columns."""
    tables: list[Comparison] = []
    for column in columns:
        tables += column
        if _wrong(column):
            break
    return tables


def _wrong(tables: Iterable[Comparison]) -> bool:
    return any(table.any(Verdict.MISMATCH) for table in tables)


def _projected(
    problem: Problem, line: Array, cotangent: Array, tolerance: Tolerance, left: Array, output: int | None
) -> list[Comparison]:
    """Compare the second derivative along a line (1, n) by its products with parts of `left` (n,), and suspect entries.

    Wrong products are left out if there are wrong entries, which explain them.
    """
    found = []
    vectors = LeftVectors(left, line[0], WIDE, sources=problem.parts)
    for table in compare_second(problem, line, cotangent, tolerance, output, vectors):
        alone = np.array([[column is not None] for column in table.coordinates])
        if (table.where(Verdict.MISMATCH) & alone).any():
            table = replace(table, searched=True)
        else:
            alone[-1] = True  # the direction itself
        found.append(table.kept(np.any(alone | ~table.where(Verdict.MISMATCH), axis=1), axis=0))
    return found


def compare_second(
    problem: Problem,
    directions: Array,
    cotangent: Array,
    tolerance: Tolerance,
    output: int | None = None,
    left: LeftVectors | None = None,
) -> list[Comparison]:
    """Compare the second derivative of <w, f> along directions (k, n), for one cotangent w (m,), with two estimates.

    `output` is that behind the cotangent, if it is a single one. Each comparison has one column per direction, and one
    line per coordinate, or, with a single direction, per left vector. Directions along which everything agrees with
    tight estimates from few values are done; the others are compared closely, with the coordinates that look worst
    added to the left vectors, and first from these values alone where they are grossly off. If only the second
    differences of values contradict, a second comparison, of one line, is added. Raises DerivativeRaisedError and
    WrongShapeError.
    """
    lines = Lines(problem, directions, cotangent[None, :], tolerance, left=left)
    products = problem.products(cotangent, directions)
    tables, agrees, widest, grossly_off = [], np.zeros(len(directions), bool), np.ones(len(directions)), False
    if not problem.batched:
        entries, agrees, widest = _second_quickly(lines, products)
        agreeing, others = (combined(itemgetter(some), entries) for some in (agrees, ~agrees))
        tables = [] if not agrees.any() else [_table(lines[agrees], agreeing, products[agrees], output)]
        grossly_off = others.grossly_off
    if agrees.all():
        return tables
    close = lines[~agrees]
    if left is not None:
        suspects = worst_coordinates(close, products.values[0], widest)
        close = replace(close, left=replace(left, coordinates=suspects.tolist()))
    doubtful = products[~agrees]
    found = _grossly(close, doubtful, output) if grossly_off else []
    if not found:
        gradients, values = replace(close, gradients=True).sample(), close.sample()
        estimates = first_difference(gradients), curvature_estimate(values)
        found = compare_products(close, doubtful, gradients, values, estimates, output)
    return tables + found


def _grossly(lines: Lines, products: Gradients, output: int | None) -> list[Comparison]:
    """Compare with the samples of a quick look; return nothing unless these decide that all comparisons are wrong."""
    autodiff, precision = lines.seen(products.values), lines.problem.precision
    gradients = replace(lines, gradients=True).sample(QUICK)
    estimate = first_difference(gradients)
    entries = compare(autodiff, estimate, lines.tolerance, ulp_rounding(autodiff, precision), factor=1.0)
    if not entries.grossly_off:
        return []
    values = lines.sample(QUICK)
    found = compare_products(lines, products, gradients, values, (estimate, curvature_estimate(values)), output)
    return found if all(table.decided_wrong for table in found) else []


def _second_quickly(lines: Lines, products: Gradients) -> tuple[Comparison, Array, Array]:
    """Return the entries, the directions (k,) along which all agree with tight estimates, and a step scale (k,).

    They agree within EXCLUSION bounds, which is what a close look allows: of the thousands of entries of a column one
    always misses its bound. Autodiff and the values have to agree, too, so that a kink that shows in only one of them
    is not missed. Values are cheap, and first order may have them: they scale the gradients' steps to well within a
    radius.
    """
    autodiff, values = lines.seen(products.values), lines.sample(QUICK)

    radius = screened(lines.sampled, len(lines.directions), beyond=True).radius[:, 0]
    widest = np.where(radius > 0, np.minimum(radius / (QUICK.ratio * values.step), 1.0), 1.0)

    def sampled(stencil: Stencil, places: Array, shrink: Array) -> Sample:
        return replace(lines, gradients=True).sampled(stencil, places, widest[places] * shrink)

    share = SHARE if lines.left is None else SHARE_OF_PRODUCTS

    def enough(estimate: Estimate, places: Array | slice = slice(None)) -> Estimate:
        estimate = scaled_by_values(estimate, values[places], lines, TIGHT * values.eps)
        sharp = estimate.bound <= share * np.abs(estimate.value)
        estimate = replace(estimate, conclusive=estimate.conclusive | sharp)
        return replace(estimate, conclusive=sharp_beside(estimate, share, axis=1))

    estimate = screened(sampled, len(lines.directions), enough)
    # Steps that end before the first of thousands of kinks are smooth; each sample has a few unlucky entries.
    oblique, doubtful = np.count_nonzero(lines.directions, axis=1) > 1, np.mean(~estimate.conclusive, axis=1)
    again, closer = np.flatnonzero(oblique & (doubtful > 0)), np.where(doubtful > MOST, BEYOND, BESIDE)
    if len(again):
        other = screened(
            lambda stencil, places, shrink: sampled(stencil, again[places], closer[again[places]] * shrink),
            len(again),
            lambda estimate: enough(estimate, again),
        )
        estimate = estimate.replaced(again, estimate[again].better(other))
    entries = _with_what_is_lost(lines, autodiff, estimate)
    agrees: Array = np.asarray(entries.where(Verdict.AGREE).all(axis=1))
    diagonal = _diagonal(lines, autodiff, curvature_estimate(values), entries)
    unclear = np.flatnonzero(agrees & ~diagonal.where(Verdict.AGREE)[:, 0])
    if len(unclear):
        some, beside = lines[unclear], combined(itemgetter(unclear), entries)
        values = some.sample()
        diagonal = _diagonal(some, autodiff[unclear], curvature_estimate(values), beside)
        wrong = diagonal.where(Verdict.MISMATCH)
        agrees[unclear] = ~(wrong | np.isin(classify(values).kind, UNSMOOTH))[:, 0]
    return entries, agrees, widest


def _products(lines: Lines) -> Derivative:
    """Return the function that takes autodiff's second derivatives along the lines, multiplied by any left vectors."""
    (cotangent,) = lines.cotangents
    return lambda problem, point: lines.seen(problem.products(cotangent, lines.directions, point).values)


def _with_what_is_lost(lines: Lines, autodiff: Array, estimate: Estimate) -> Comparison:
    """Compare autodiff with a tight estimate, granting what low precision is seen to lose, if that leaves enough."""
    problem = lines.problem
    rounding = ulp_rounding(autodiff, problem.precision)
    entries = compare(autodiff, estimate, lines.tolerance, rounding, factor=EXCLUSION)
    if not entries.any(Verdict.MISMATCH) or (exact := taken_in_float64(problem, _products(lines))) is None:
        return entries
    with np.errstate(invalid="ignore", over="ignore"):
        lost = np.nan_to_num(np.abs(autodiff - exact), posinf=0.0)
    sizes = np.abs(estimate.value)
    little = np.maximum(RELATIVE * sizes, problem.precision**0.5 * np.max(sizes, axis=1, keepdims=True))
    lost = np.where(entries.where(Verdict.MISMATCH) & (lost <= little), lost, 0.0)
    return compare(autodiff, estimate, lines.tolerance, np.maximum(rounding, lost), factor=EXCLUSION)


def _diagonal(lines: Lines, autodiff: Array, curvature: Estimate, entries: Comparison) -> Comparison:
    """Compare second derivatives along each direction twice, summed from entries, with second differences of values."""
    twice, precision = lines.twice(autodiff), lines.problem.precision
    alone = compare(twice, curvature, Tolerance(), ulp_rounding(twice, precision), factor=EXCLUSION)
    return _tolerated(alone, entries, lines)


def _tolerated(diagonal: Comparison, entries: Comparison, lines: Lines) -> Comparison:
    """Accept the diagonal where tolerated errors of the entries may add up to its error."""
    if not lines.tolerance.given or not diagonal.any(Verdict.MISMATCH):
        return diagonal
    wanted = lines.twice(lines.tolerance.of(entries.difference), bounds=True)
    close = np.abs(diagonal.autodiff - diagonal.difference) <= wanted + diagonal.bound
    return diagonal.marked(diagonal.where(Verdict.MISMATCH) & close, Verdict.AGREE)


def _table(
    lines: Lines, entries: Comparison, products: Gradients, output: int | None, alone: str | None = None
) -> Comparison:
    """Return entries (directions, coordinates) as a comparison with one line per coordinate or left vector."""
    columns: tuple[int | None, ...]
    table = replace(combined(np.transpose, entries), outputs=(output,) * len(lines.directions), alone=alone)
    if lines.left is None:
        columns = tuple(range(lines.directions.shape[1]))
    else:
        columns = (*lines.left.coordinates, *[None] * (len(lines.left) - len(lines.left.coordinates)))
        (values,) = products.values
        largest = lines.left.over(np.maximum, lambda left, at: np.abs(left * np.nan_to_num(values[at])))
        table = replace(table, contribution=largest[:, None], shares=shares_of_parts(table, lines.left))
    return replace(table, coordinates=columns, directions=lines.directions)


def compare_products(
    lines: Lines,
    products: Gradients,
    gradients: Sample,
    values: Sample,
    estimates: tuple[Estimate, Estimate],
    output: int | None = None,
) -> list[Comparison]:
    """Compare autodiff's products (k, n) with the first difference of its gradients and the second one of values.

    Triangulation: autodiff of autodiff is wrong only if no independent estimate supports it. Cheap while everything
    agrees.
    """
    problem, directions, autodiff = lines.problem, lines.directions, lines.seen(products.values)
    estimate = scaled_by_values(with_constants(estimates[0], gradients), values, lines)
    rounding = ulp_rounding(autodiff, problem.precision)
    wide = close = compare(autodiff, estimate, lines.tolerance, rounding, factor=1.0)
    rough = np.zeros((len(directions), 1), bool) if problem.smooth else rough_lines(lines, gradients, values)
    sampled = replace(lines, gradients=True).sampled
    closer = estimate if rough.all() else closer_look(sampled, gradients, estimate, SECOND[gradients.stencil])
    if closer is not estimate:
        close = compare(autodiff, closer, lines.tolerance, rounding, factor=1.0)
    entries, agreed = close, wide.where(Verdict.AGREE)
    diagonal = _diagonal(lines, autodiff, estimates[1], close)
    alone = None
    # Where the function is not twice differentiable along a direction, its second derivative is not checked.
    if rough.all():
        entries, diagonal = (t.marked(rough, Verdict.INCONCLUSIVE, Reason.HIGHER_KINK) for t in (entries, diagonal))
    elif not entries.where(Verdict.AGREE).all() or diagonal.any(Verdict.MISMATCH) or rough.any():
        entries, diagonal = _second_closely(lines, autodiff, gradients, values, rough)
        diagonal = _tolerated(diagonal, entries, lines)
        entries, alone = triangulated(entries, diagonal, lines)
        differ = agreed != close.where(Verdict.AGREE)
        entries = entries.replaced(differ & entries.where(Verdict.INCONCLUSIVE), close.replaced(agreed, wide))
        entries, diagonal = (t.marked(rough, Verdict.INCONCLUSIVE, Reason.HIGHER_KINK) for t in (entries, diagonal))
        connected, left = products.connected, lines.left
        if left is not None:
            connected = left.over(np.logical_or, lambda v, at: (v != 0) & products.connected[0, at])[None, :]
        entries, diagonal = entries.named(~connected), diagonal.named()
    if (nan := entries.where(Verdict.INCONCLUSIVE) & np.isnan(autodiff)).any():
        finite = finite_nearby(gradients) & finite_nearby(values)
        entries = entries.marked(nan & finite, Verdict.MISMATCH, Kind.NON_FINITE)
    found = [_table(lines, entries, products, output, alone)]
    if diagonal.any(Verdict.MISMATCH) and not entries.any(Verdict.MISMATCH):
        one = replace(found[0], coordinates=(None,), contribution=None, shares=None)
        found.append(combined(lambda _, others: np.transpose(others), one, diagonal))
    return found


def _second_closely(
    lines: Lines, autodiff: Array, gradients: Sample, values: Sample, rough: Array
) -> tuple[Comparison, Comparison]:
    """Make both comparisons, with both tableaus, the rounding of autodiff and of inner values, and the terms.

    Where gradients contradict on lines that are not `rough` (k, 1), values count only if they agree.
    """
    of_gradients, problem = replace(lines, gradients=True), lines.problem
    own = OwnRounding(Neighbourhood(problem, _products(lines)), autodiff, ulp_rounding(autodiff, problem.precision))
    twice, second = own.twice(lines), SECOND[gradients.stencil]
    of_values, of_slopes = lines.sample(second), of_gradients.sample(second)
    both_values = with_inner_rounding(lines, values, of_values, enough=twice.settled(curvature_estimate))
    both_gradients = with_inner_rounding(of_gradients, gradients, of_slopes, enough=own.settled(slope_estimate))
    step, of_terms = reach(lines, both_values[1]), partial(residue, problem, both_values[1], lines.cotangents)
    beside_gradients = Evidence(
        lines=of_gradients,
        samples=both_gradients,
        estimate=slope_estimate,
        own=own,
        residue=of_terms(step * lines.lengths),
        beside=of_terms(step * lines.lengths, of_any=True),
        values=both_values,
        fixed=partial(moved_at_kinks, lines, gradients),
    )
    beside_values = replace(
        beside_gradients,
        lines=replace(lines, tolerance=Tolerance()),
        samples=both_values,
        estimate=curvature_estimate,
        own=twice,
        residue=of_terms(step**2),
        beside=of_terms(step**2, of_any=True),
    )
    slopes_of = [
        scaled_by_values(slope_estimate(one), other, lines)
        for one, other in zip(both_gradients, both_values, strict=True)
    ]
    entries = (
        beside_gradients.compare(closer_look(of_gradients.sampled, one, wide))
        for one, wide in zip(both_gradients, slopes_of, strict=True)
    )
    diagonal = (
        beside_values.compare(closer_look(lines.sampled, one, curvature_estimate(one), order=2)) for one in both_values
    )
    confirmed_entries = confirmed(*entries)
    suspected = judged(confirmed_entries, beside_gradients, terms.GRADIENT_DIFFERENCES)
    compared = judged(suspected, beside_gradients, terms.SWING)
    wrong, doubtful, left = (table.where(Verdict.MISMATCH) for table in (confirmed_entries, suspected, compared))
    noisy = (doubtful & ~left) | (confirmed_entries.where(Verdict.INCONCLUSIVE) & noise_dominated(gradients))
    curvatures, aliased = confirmed(*diagonal), wrong & ~doubtful
    if curvatures.any(Verdict.MISMATCH):
        if aliased.any():
            noisy |= aliased & ~beside_values.refutes(curvatures.autodiff)
        gaps = noisy_gaps(compared, noisy), narrow_gaps(compared, slopes_of[0], beside_gradients, beside_values)
        curvatures = beyond_gaps(curvatures, np.maximum(*gaps), lines)
    chosen = terms.VALUE_AGREEMENT if (compared.where(Verdict.MISMATCH) & ~rough).any() else terms.VALUE_DIFFERENCES
    return compared, judged(curvatures, beside_values, chosen)


def beyond_gaps(diagonal: Comparison, gaps: Array, lines: Lines) -> Comparison:
    """Excuse the diagonal where it is off by no more than the `gaps` (k, c) of the entries that it is summed from."""
    covered = np.abs(diagonal.autodiff - diagonal.difference) <= 2 * lines.twice(gaps, bounds=True)
    return diagonal.excused(covered, Reason.ILL_CONDITIONED)


def noisy_gaps(entries: Comparison, noisy: Array) -> Array:
    """The errors that `noisy` entries may bring into the diagonal.

    A gradient may be nothing but rounding, as 1 - 2 x F(x) far out, with Dawson's integral F. Its derivative is then
    amplified rounding, which may be alike at all neighbours. And steps that alias gradients alias values, too.
    """
    return np.where(noisy, np.abs(entries.autodiff - entries.difference), 0.0)


def narrow_gaps(entries: Comparison, wide: Estimate, gradients: Evidence, values: Evidence) -> Array:
    """The same for a part of the function that is narrower than the usual steps, unless `values` contradict it there.

    Within 1e-10 of a point a second derivative may differ from that around it. Differences of gradients resolve that
    with finer steps, at which second differences of values are nothing but rounding. Where one entry agrees on such
    steps only, the undecided ones of its line count as part of the same function.
    """
    autodiff, agree = entries.autodiff, np.zeros(entries.verdict.shape, bool)
    radius = np.zeros(agree.shape)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(autodiff - wide.value)
        for row in (gradients.closer, gradients.estimate(gradients.row(FINER * NEARER))):
            near = (np.abs(autodiff - row.value) <= row.bound) & (EXCLUSION * row.bound < gaps)
            agree |= near
            radius = np.where(near, np.maximum(radius, row.radius), radius)
        agree &= gaps > EXCLUSION * wide.bound
    seen = agree.any(axis=1, keepdims=True)
    if not seen.any():
        return np.zeros_like(gaps)
    least = np.min(radius, axis=1, where=agree, initial=np.inf)
    seen &= ~values.refutes(values.own.autodiff, np.minimum(least / values.samples[0].step, 1.0))
    narrow = agree | (entries.where(Verdict.INCONCLUSIVE) & np.isfinite(gaps))
    return np.where(seen & narrow, gaps, 0.0)


def triangulated(entries: Comparison, diagonal: Comparison, lines: Lines) -> tuple[Comparison, str | None]:
    """Return the entries, and the name of the one of the three estimates that contradicts the two others."""
    if not entries.any(Verdict.MISMATCH):
        return entries, "differences of function values" if diagonal.any(Verdict.MISMATCH) else None
    differences = lines.twice(np.where(np.isfinite(entries.difference), entries.difference, 0.0))
    bounds = lines.twice(entries.bound, bounds=True) + diagonal.bound
    apart = np.abs(differences - diagonal.difference) > EXCLUSION * bounds
    if not (diagonal.where(Verdict.AGREE) & apart).all():
        return entries, "autodiff of autodiff"
    # The first derivative is wrong near the point, not the second; the first order has to find that.
    return entries.excused(True, Reason.ILL_CONDITIONED), "differences of the first autodiff derivative"
