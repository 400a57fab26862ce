"""Changes made to gradients are recognised, and errors are not mistaken for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.training.gradient_changes import CLIPPED_AT_ZERO, GradientChange, alike

LIMIT = 0.5
numbers = st.floats(-9, 9, allow_subnormal=False).map(lambda value: np.float64(round(value, 3)))
gradients = st.lists(st.lists(numbers, min_size=1).map(np.array), min_size=1)


def by_value(taken: list[Any]) -> list[Any]:
    return [np.clip(gradient, -LIMIT, LIMIT) for gradient in taken]


def by_norm(taken: list[Any]) -> list[Any]:
    return [gradient * min(1.0, LIMIT / max(float(np.linalg.norm(gradient)), 1e-9)) for gradient in taken]


def by_global_norm(taken: list[Any]) -> list[Any]:
    size = float(np.linalg.norm(np.concatenate(taken)))
    return [gradient * min(1.0, LIMIT / max(size, 1e-9)) for gradient in taken]


def change(taken: list[Any], used: list[Any]) -> GradientChange:
    found = GradientChange.between(taken, used)
    assert found is not None
    return found


def clipped(found: GradientChange, *rest: Any) -> str | None:
    clipping = found.clipping(*rest)
    return None if clipping is None else clipping.note


HOW = {
    "clip_by_value": (by_value, "clipped by value to at "),
    "clip_by_norm": (by_norm, "clipped to the norm 0.5 for each variable"),
    "clip_by_global_norm": (by_global_norm, "clipped to the global norm 0.5 (it was "),
}


@pytest.mark.parametrize("name", HOW)
@given(taken=gradients)
def test_a_clip_that_was_seen_is_named(name: str, taken: list[Any]) -> None:
    clip, expected = HOW[name]
    used = clip(taken)
    found = change(taken, used)
    note = clipped(found, [name])
    if found.nothing:
        assert note is None or note.startswith("clipped")
    else:
        assert note is not None
        assert note.startswith(expected)


@pytest.mark.parametrize("name", HOW)
@given(taken=gradients, wrong=numbers)
def test_a_wrong_element_beside_a_clip_is_not_excused(name: str, taken: list[Any], wrong: Any) -> None:
    used = [gradient.copy() for gradient in HOW[name][0](taken)]
    used[0][0] = used[0][0] - np.sign(taken[0][0] or 1.0) * (abs(wrong) + 0.25) - np.sign(taken[0][0] or 1.0) * 2
    found = change(taken, used)
    note = clipped(found, [name])
    # A clip never reverses a gradient, and a change that makes it larger is not a clip.
    assert note is None or bool(np.all(np.sign(used[0]) * np.sign(taken[0]) >= 0))


@given(taken=gradients, by=st.sampled_from([0.1, 0.5, 2.0, -1.0]))
def test_a_factor_alone_is_no_clip(taken: list[Any], by: float) -> None:
    found = change(taken, [by * gradient for gradient in taken])
    if any(np.any(gradient) for gradient in taken):
        assert found.factor == pytest.approx(by)
        assert clipped(found, []) is None
        assert found.averaging({3: "3 gradients"}) is None


def test_without_a_witness_two_sizes_have_to_become_one() -> None:
    taken = [np.array([3.0, 12.0, 27.0])]
    assert clipped(change(taken, [np.array([3.0, 4.0, 4.0])]), []) == "clipped by value to at most 4"
    assert clipped(change(taken, [np.array([3.0, 12.0, 4.0])]), []) is None
    assert clipped(change(taken, [np.array([3.0, 4.0, 5.0])]), []) is None
    two = [np.array([3.0, 4.0]), np.array([5.0, 12.0])]
    assert clipped(change(two, [np.array([0.6, 0.8]), np.array([5.0, 12.0]) / 13]), []) == (
        "clipped to the norm 1 for each variable (the longest was 13)"
    )
    assert clipped(change(two, [np.array([0.6, 0.8]), np.array([5.0, 12.0])]), []) is None


@pytest.mark.parametrize("seen", [[], ["clip_by_value"], ["clip_by_norm"], ["clip_by_value", CLIPPED_AT_ZERO]])
def test_gradients_that_are_all_zero_were_lost_and_not_clipped(seen: list[str]) -> None:
    taken = [np.array([3.0, 12.0]), np.array([5.0])]
    assert clipped(change(taken, [np.zeros(2), np.zeros(1)]), seen) is None


def test_a_gradient_that_became_zero_was_clipped_only_where_a_bound_was_zero() -> None:
    found = change([np.array([-3.0, -4.0, 8.0, 9.0])], [np.array([0.0, 0.0, 5.0, 5.0])])
    assert clipped(found, []) is None
    assert clipped(found, ["clip_by_value"]) is None
    assert clipped(found, ["clip_by_value", CLIPPED_AT_ZERO]) == "clipped by value to at most 5 and at least 0"


def test_averages() -> None:
    taken = [np.array([3.0, 12.0]), None]
    found = change(taken, [np.array([1.0, 4.0]), None])
    assert found.averaging({2: "2 gradients", 3: "the 3 samples of inputs[0]"}) == (
        "averaged over the 3 samples of inputs[0]"
    )
    assert GradientChange.between(taken, [None, None]) is None
    assert GradientChange.between(taken, [np.array([1.0, np.nan]), None]) is None


def test_values_are_alike_within_rounding_and_where_they_are_the_same_without_being_finite() -> None:
    assert alike([1.0, None, np.array([np.nan, np.inf])], [1.0 + 1e-14, None, np.array([np.nan, np.inf])])
    assert not alike([1.0], [1.0 + 1e-9])
    assert not alike([1.0], [None])
    assert not alike([np.array([np.nan, 1.0])], [np.array([1.0, 1.0])])
    assert not alike([np.zeros(2)], [np.zeros((2, 1))])
