"""The test command takes a share of large products, and `--exhaustive` all of them."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests import slices

AXES = ((0.5, 1.5, 2.0), "abcde", (1, 2), ("x", "y", "z", "w"))


def test_every_pair_of_values_occurs() -> None:
    rows = slices.pairwise(*AXES)
    for one, two in combinations(range(len(AXES)), 2):
        assert {(row[one], row[two]) for row in rows} == {(a, b) for a in AXES[one] for b in AXES[two]}
    assert len(rows) == len(set(rows)) <= 30 < 3 * 5 * 2 * 4


def test_all_cases_are_taken_of_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for whole in (False, True):
        monkeypatch.setattr(slices, "whole", whole)
        assert slices.sliced(range(7), slices.every(3)) == (list(range(7)) if whole else [0, 3, 6])


@pytest.mark.parametrize(
    ("marks", "command", "whole"),
    [(set(), True, False), ({slices.SLICED}, True, True), ({slices.EXHAUSTIVE}, False, True)],
)
def test_what_runs_where(marks: set[str], command: bool, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for exhaustively, taken in ((False, command), (True, whole)):
        monkeypatch.setattr(slices, "exhaustively", exhaustively)
        assert slices.takes({*marks, "parametrize"}) is taken
