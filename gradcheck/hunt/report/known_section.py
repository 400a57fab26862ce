"""The overview's table of known defects: one row a defect, one column a release."""

from __future__ import annotations

from collections import Counter

from gradcheck.hunt.events import KnownReplayed, State
from gradcheck.hunt.report.markup import Markup, element
from gradcheck.hunt.report.page import badge, more, row, section, table, words
from gradcheck.hunt.report.run import HuntRun

LOOK = {State.STILL: "known", State.CANNOT_RUN: "doubt", State.FIXED: "right"}


def known(run: HuntRun) -> Markup | None:
    """What became of each known defect on each release that was tried: what changed first, the rest folded away."""
    if not run.known:
        return None
    releases = sorted({each.release for each in run.known}, key=_version)
    states = {(each.name, each.release): each for each in run.known}
    names = sorted({each.name for each in run.known})
    rows: dict[bool, list[Markup]] = {True: [], False: []}
    for name in names:
        found = [states.get((name, release)) for release in releases]
        same = all(each is None or each.state is State.STILL for each in found)
        rows[same].append(row(words(element("code", name)), *(words(_state(each)) for each in found)))
    head = ("defect", *releases)
    told = (
        "Generation leaves the regions of wrong derivatives out, and the model of tapes does what tapes do, so that "
        "the hunt goes on behind them; each is replayed."
    )
    return section(
        "Known defects of TensorFlow",
        element("p", told, class_="soft"),
        table(head, rows[False]) if rows[False] else None,
        more(f"{len(rows[True])} still there on every release that was tried", table(head, rows[True]))
        if rows[True]
        else None,
    )


def latest(run: HuntRun) -> Counter[State]:
    """How many known defects are in which state, on the newest release that each was tried on."""
    newest: dict[str, KnownReplayed] = {}
    for each in sorted(run.known, key=lambda each: _version(each.release)):
        newest[each.name] = each
    return Counter(each.state for each in newest.values())


def _state(replayed: KnownReplayed | None) -> Markup | str:
    if replayed is None:
        return "–"
    return element("span", badge(replayed.state.value, LOOK[replayed.state]), title=replayed.message or None)


def _version(release: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in release.split("."))
