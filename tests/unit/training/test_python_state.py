"""Python state that a function reaches by name: how changes are found, and how it is restored."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from gradcheck.training.side_effects import LARGEST, PythonState, reachable

COUNT = {"calls": 0}


class Holder:
    def __init__(self) -> None:
        self.items = [1.0]
        self.rng = random.Random(3)

    def step(self) -> float:
        COUNT["calls"] += 1
        self.items.append(2.0)
        return self.rng.random()


def test_what_is_reachable_by_a_name() -> None:
    free = np.zeros(2)

    def step() -> Any:
        return free, COUNT

    assert {named.name for named in reachable(step).values()} == {"free", "COUNT"}
    assert {named.name for named in reachable(Holder().step).values()} == {"COUNT", "self.items", "self.rng"}


def test_changes_are_described_and_undone() -> None:
    holder = Holder()
    state = PythonState(holder.step)
    items, first = holder.items, holder.step()
    assert list(state.changes().values()) == ["COUNT", "self.items (held 1 items, holds 2)", "self.rng"]
    holder.items = []
    state.restore()
    assert holder.items is items
    assert (items, COUNT["calls"], state.changes()) == ([1.0], 0, {})
    assert holder.step() == first
    state.restore()


def test_a_container_keeps_what_a_first_call_built_for_later_ones() -> None:
    layers: list[Any] = []

    def step() -> None:
        if not layers:
            layers.append(object())

    state = PythonState(step)
    step()
    (built,) = layers
    state.restore()
    assert layers == [built]


def test_generators_alone() -> None:
    holder = Holder()
    state = PythonState(holder.step, generators_only=True)
    first = holder.step()
    state.restore()
    assert len(holder.items) == 2
    assert holder.step() == first
    COUNT["calls"] = 0


def test_numpy_generators_and_rebound_names() -> None:
    rng, legacy, number = np.random.default_rng(1), np.random.RandomState(2), 1

    def step() -> tuple[Any, ...]:
        nonlocal number
        number += 1
        return rng.random(), legacy.random(), number

    state = PythonState(step)
    first = step()
    assert "number (was 1, is 2)" in state.changes().values()
    state.restore()
    assert step() == first


def test_large_containers_are_compared_by_identity() -> None:
    large = np.zeros(LARGEST + 1)

    def step() -> None:
        large[0] += 1

    state = PythonState(step)
    step()
    assert state.changes() == {}
