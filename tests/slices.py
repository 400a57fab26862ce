"""The share of many cases that the test command takes; `pytest --exhaustive` takes all of them, and a hunt does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
SLICED, EXHAUSTIVE = "sliced", "exhaustive"

exhaustively = False
"""Whether to run only the tests that have more cases than the test command takes: --exhaustive."""

whole = False
"""Whether to take all cases: with --exhaustive and in a hunt. tests/conftest.py sets both, before other imports."""


def sliced(cases: Iterable[T], chosen: Callable[[Sequence[T]], Iterable[T]]) -> list[T]:
    """All cases in a whole run, else the chosen ones; a test of these is marked as `sliced`."""
    all_cases = list(cases)
    return all_cases if whole else list(chosen(all_cases))


def parametrized(
    names: str | Sequence[str], cases: Iterable[Any], chosen: Callable[[Sequence[Any]], Iterable[Any]], **ids: Any
) -> Callable[[Any], Any]:
    """A `pytest.mark.parametrize` over `sliced` cases.

    >>> @parametrized("factor", (0.5, 1.5, 2.0), every(2))
    ... def test_a_factor(factor): ...
    >>> [mark.name for mark in test_a_factor.pytestmark], test_a_factor.pytestmark[0].args
    (['parametrize', 'sliced'], ('factor', [0.5, 2.0]))
    """
    values = pytest.mark.parametrize(names, sliced(cases, chosen), **ids)
    return lambda test: getattr(pytest.mark, SLICED)(values(test))


def every(share: int) -> Callable[[Sequence[T]], Sequence[T]]:
    """Takes one case in `share`, beginning with the first.

    >>> every(3)("abcdefg")
    'adg'
    """
    return lambda cases: cases[::share]


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of a product in which each pair of values, of any two axes, occurs at least once; few, not the fewest.

    >>> rows = pairwise("ab", "xyz", (1, 2))
    >>> len(rows), sorted({(one, three) for one, _, three in rows})
    (6, [('a', 1), ('a', 2), ('b', 1), ('b', 2)])
    """
    places = list(combinations(range(len(axes)), 2))
    left = {(pair, values) for pair in places for values in product(*(range(len(axes[axis])) for axis in pair))}
    rows = list(product(*map(range, map(len, axes))))

    def covered(row: tuple[int, ...]) -> set[Any]:
        return {((one, two), (row[one], row[two])) for one, two in places} & left

    found = []
    while left:
        best = max(rows, key=lambda row: len(covered(row)))  # the first of the best: the same ones every time
        left -= covered(best)
        found.append(tuple(axis[value] for axis, value in zip(axes, best, strict=True)))
    return found


def takes(marks: set[str]) -> bool:
    """Whether a test with these marks runs: with --exhaustive, those that have more than the test command's share."""
    return bool(marks & {SLICED, EXHAUSTIVE}) if exhaustively else EXHAUSTIVE not in marks
