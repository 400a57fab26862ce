"""Blame ends after ten times the time of the check that failed, and says how far it got."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, check, explain
from gradcheck.progress import TimeUpError
from gradcheck.result import Diagnosis, Result
from gradcheck.tracing import blame_time
from gradcheck.tracing.blame_time import TIMES, BlameTime


@tf.custom_gradient
def doubled(x: tf.Tensor) -> Any:
    return x * x, lambda upstream: 4 * upstream * x


def chain(x: Any) -> Any:
    """Fifteen correct operations after a wrong one."""
    y = doubled(x)
    for _ in range(15):
        y = tf.sin(y)
    return y


def taken(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(chain(x))
    return tape.gradient(y, x)


def told(result: Result) -> Diagnosis:
    finding = result.findings[0]
    assert finding.diagnosis is not None
    return finding.diagnosis


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float]], None]:
    return lambda seconds: monkeypatch.setattr(blame_time, "processor_seconds", seconds)


CHECKS: dict[str, Callable[[], Result]] = {
    "check": lambda: check(chain, 0.5),
    "probes": lambda: check(chain, np.linspace(0.25, 0.75, 64)),
    "explain": lambda: explain(taken, tf.constant([0.5, 0.75], tf.float64)),
}


@pytest.mark.parametrize("name", CHECKS)
def test_it_looks_at_what_the_time_allows_and_says_so(name: str, clock: Callable[[Callable[[], float]], None]) -> None:
    # Each reading of the clock advances it by a second: one passes between the starts of the check and of blame.
    clock(map(float, itertools.count()).__next__)
    found = told(CHECKS[name]())
    assert found.cause is Cause.NOT_COMPARED
    looked_at, total = found.evidence.split(" operations looked at in 10 times the time of the check")[0].split(" of ")
    assert 0 < int(looked_at) <= TIMES
    assert int(total) in (16, 17)
    assert "none of these is wrong by itself" in found.evidence
    assert "the part of the code that ends with Sin" in found.remedy
    assert found.place is not None


@pytest.mark.parametrize("name", CHECKS)
def test_with_time_enough_it_finds_the_same_operation(name: str, clock: Callable[[Callable[[], float]], None]) -> None:
    clock(lambda: 0.0)
    found = told(CHECKS[name]())
    assert found.cause is Cause.CUSTOM_GRADIENT
    assert "looked at, from the target back to this one" in found.evidence


def test_a_cut_of_the_path_is_told_without_saying_that_all_others_are_right(
    clock: Callable[[Callable[[], float]], None],
) -> None:
    clock(map(float, itertools.count()).__next__)
    found = told(check(lambda x: tf.stop_gradient(x) * chain(x), 0.5))
    assert found.cause is Cause.STOP_GRADIENT
    assert "no other operation is wrong" not in found.evidence
    assert "operations looked at in 10 times the time of the check, none of these is wrong by itself" in found.evidence


def test_time_is_the_checks_or_blames(clock: Callable[[Callable[[], float]], None]) -> None:
    now = [0.0]
    clock(lambda: now[0])
    time = BlameTime()
    now[0] = 1.0
    with time.blaming():
        now[0] = 9.0
        time.refuse_more()
    now[0] = 9.5
    # The check took 1.5 s, so that blame may take 15 s, of which it has used 8.
    with time.blaming():
        now[0] = 16.5
        time.refuse_more()
        now[0] = 16.75
        with pytest.raises(TimeUpError):
            time.refuse_more()
