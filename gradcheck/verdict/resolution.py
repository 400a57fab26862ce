"""How small an error would have been noticed: by entry and by source.

An agreement is earned if an error of a tenth of the source's own derivative would not have agreed: of its largest
entry, or, if many entries are compared together, of its own share of the directional derivative. For a derivative near
zero, an error that is negligible compared with the function's values (`little`) would not have agreed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

import numpy as np

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.numerics.difference import EXCLUSION
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.tables import GRANTED, Comparison, Tolerance

EARNED = 0.1
"""The relative error of a source's own derivative that has to be noticeable for an agreement."""

MARGIN = 1 / (1 - EARNED)
"""Allows for the change that such an error makes in what is allowed and in a source's share, about as large."""


def shares_of(directions: Array, gradients: Array, parts: Sequence[slice], little: Array) -> Array:
    """Return each source's share (k, l, sources) of the derivatives along directions (k, n), by gradients (l, n).

    `parts`: the coordinates of each source. Where the derivative is zero, and so is every share, the sources that move
    are weighed by `little` (k, l), which is negligible compared with the function's values.
    """
    shares = np.zeros((len(directions), len(gradients), len(parts)))
    moving = np.zeros((len(directions), 1, len(parts)), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        for number, part in enumerate(parts):
            shares[:, :, number] = np.abs(directions[:, part] @ gradients[:, part].T)
            moving[:, 0, number] = directions[:, part].any(axis=1)
    least = (EXCLUSION / EARNED) * little[:, :, None]
    return np.where((shares.max(axis=2, keepdims=True) <= least) & moving, least, shares)


def next_to_zero(table: Comparison) -> Array:
    """Where probes have practically no derivative, and are weighed by `little`, boolean (k, l)."""
    return np.asarray(np.asarray(table.shares).max(axis=2) <= (EXCLUSION / EARNED) * table.little)


def shares_of_parts(table: Comparison, left: LeftVectors) -> Array:
    """Return each source's share (c, 1, sources) of the products with left vectors: all of those with its own parts."""
    sizes = np.maximum(np.abs(np.nan_to_num(table.autodiff)), (EXCLUSION / EARNED) * table.little)
    first, owners = len(left.coordinates), np.array(left.owners)
    shares = np.zeros((*table.autodiff.shape, max(1, len(left.sources))))
    shares[first + np.arange(len(owners)), :, owners] = sizes[first:-1]
    return shares


def earned(table: Comparison, scale: Array | float, little: Array | float = 0.0) -> Array:
    """Where an error of a tenth of `scale`, or one that is next to zero, would not have agreed; boolean (k, l).

    It would have been a mismatch; or it is far larger than the rounding, a tenth of what is allowed, and than the
    actual error.
    """
    with np.errstate(invalid="ignore"):
        error, half = np.abs(table.autodiff - table.difference), EARNED / 2 / MARGIN * np.asarray(scale)
        allowed = table.allowed if table.lost is None else np.maximum(table.allowed, EXCLUSION * table.lost)
        seen = allowed <= np.maximum(2 * half, EXCLUSION * np.asarray(little))
        return np.asarray(seen | ((allowed <= EXCLUSION * half) & (error <= half)))


def noticed(table: Comparison, scale: Array | float, little: Array | float = 0.0) -> Array:
    """The errors (k, l) that would not have agreed, however close the look, where an agreement is earned."""
    with np.errstate(invalid="ignore"):
        error = np.where(table.where(Verdict.AGREE), np.abs(table.autodiff - table.difference), 0.0)
        allowed, most = GRANTED * table.allowed / _weights(table), EARNED * np.asarray(scale)
        large = (allowed > most) & (table.allowed > EXCLUSION * np.asarray(little)) & (most > 0)
        return np.asarray(MARGIN * (np.where(large, most, allowed) + error))


def _weights(table: Comparison) -> Array:
    """The least weight (k, l) of a wrong entry: probes weigh each input and output by a half to one."""
    halves = [
        np.array([0.5 if place is None else 1.0 for place in places]) for places in (table.coordinates, table.outputs)
    ]
    return np.asarray(np.multiply.outer(*halves))


@dataclass(frozen=True)
class Sight:
    """How small an error would have been noticed in one source, absolutely and relative to its own derivative.

    NaN where nothing of it was compared, `relative` also where its derivative is next to zero. `coarse` counts its
    entries whose agreement is not earned, `hidden` those that no probe shows; then `over` is the smallest error that
    would have been a mismatch, relative to its own derivative.
    """

    absolute: float
    relative: float
    coarse: int = 0
    hidden: int = 0
    over: float = 0.0


def seen_by_source(
    comparisons: Sequence[Comparison], parts: Sequence[slice], tolerance: Tolerance
) -> tuple[list[Comparison], list[Sight], list[Array]]:
    """Withdraw unearned agreement of single entries, and return the comparisons with the `Sight` of each source.

    The third value holds the errors (k, l) that would not have agreed in each comparison. `parts`: the coordinates of
    each source. An error that the `tolerance` allows need not show.
    """
    tables, sights = list(comparisons), []
    scales = [np.zeros(table.verdict.shape) if table.shares is None else table.shares.max(axis=2) for table in tables]
    for number, part in enumerate(parts):
        single = _one_by_one(tables, scales, part, tolerance)
        sights.append(_joined(single, _together(tables, number, part, tolerance)))
    errors = [
        noticed(table, scale * (not tolerance.given), table.little) for table, scale in zip(tables, scales, strict=True)
    ]
    return tables, sights, errors


def _one_by_one(tables: list[Comparison], scales: list[Array], part: slice, tolerance: Tolerance) -> Sight:
    """Return the `Sight` of a source whose entries have lines of their own; its scale is stored in `scales`.

    Agreement that is not earned is marked as inconclusive in `tables`.
    """
    own = [(place, lines) for place, table in enumerate(tables) if (lines := _lines_of(table, part)).any()]
    told = [tables[place].difference[(tables[place].verdict != Verdict.INCONCLUSIVE) & lines] for place, lines in own]
    scale = max((float(np.max(np.abs(one), initial=0.0, where=np.isfinite(one))) for one in told), default=0.0)
    absolute, coarse, over = -inf, 0, 0.0
    for place, lines in own:
        table, scales[place] = tables[place], np.where(lines, scale, scales[place])
        agree = table.where(Verdict.AGREE) & lines & ~table.at_kink
        allowed = (table.allowed <= tolerance.of(table.difference)) & tolerance.given
        unearned = agree & ~earned(table, scale, table.little) & ~allowed
        if unearned.any():
            tables[place] = table.marked(unearned, Verdict.INCONCLUSIVE, Reason.TOO_COARSE)
            coarse += int(unearned.sum())
            over = max(over, float(np.max(table.allowed[unearned])) / scale if scale else inf)
        errors = noticed(table, scale * (not tolerance.given), table.little)
        absolute = max(absolute, float(np.max(errors, initial=-inf, where=agree & ~unearned)))
    absolute = absolute if absolute > -inf else nan
    return Sight(absolute, absolute / scale if scale else nan, coarse, over=over)


def _lines_of(table: Comparison, part: slice) -> Array:
    """Lines of a comparison that are coordinates of a source, boolean (k, 1)."""
    columns = np.array([-1 if column is None else column for column in table.coordinates], int)
    return np.asarray((columns >= part.start) & (columns < part.stop))[:, None]


def _together(tables: Sequence[Comparison], number: int, part: slice, tolerance: Tolerance) -> Sight:
    """Return the `Sight` of a source whose entries are compared together, in the best probe of each comparison.

    A source has a share in several of them where these show different parts of it. An error in a single output shows
    only in the probes of that output.
    """
    seen, over, probed, hidden = Sight(nan, nan), inf, False, False
    for table in tables:
        if table.shares is None or None not in table.coordinates:
            continue
        agree = table.where(Verdict.AGREE)
        probed |= bool(agree.any())
        if not (table.shares[:, :, number] * agree).any():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            # The share is autodiff's, whose whole error may be this source's.
            share = np.maximum(table.shares[:, :, number] - np.abs(table.autodiff - table.difference), 0.0)
            shows = agree & (share > 0) & (earned(table, share) | tolerance.given)
            errors = np.where(agree, noticed(table, share * shows * (not tolerance.given)), inf)
            ratio = np.where(shows, errors / share, inf)
            over = min(over, float(np.min(np.where(agree & (share > 0), table.allowed / share, inf), initial=inf)))
        if not shows.any():
            hidden = True
            continue
        best = int(np.argmin(ratio.min(axis=0)))
        outputs = np.arange(len(table.outputs)) if None not in table.outputs else np.array([best])
        lines = np.argmin(np.where(shows.any(axis=0), ratio, errors)[:, outputs], axis=0)
        absolute = float(np.max(errors[lines, outputs], where=agree[lines, outputs], initial=0.0))
        nothing = next_to_zero(table)[np.argmin(ratio[:, best]), best]
        seen = _joined(seen, Sight(absolute, nan if nothing else absolute / float(np.max(share[lines, outputs]))))
    hidden |= probed and isnan(seen.absolute)
    return replace(seen, hidden=part.stop - part.start, over=over) if hidden else seen


def _joined(one: Sight, other: Sight) -> Sight:
    """Combine both: the coarser one counts."""
    absolute, relative = (float(np.fmax(getattr(one, name), getattr(other, name))) for name in ("absolute", "relative"))
    return Sight(absolute, relative, one.coarse + other.coarse, one.hidden + other.hidden, max(one.over, other.over))


def unseen(tables: Sequence[Comparison], parts: Sequence[slice]) -> list[bool]:
    """For each source, whether no probe shows it."""
    return [_together(tables, number, part, Tolerance()).hidden > 0 for number, part in enumerate(parts)]
