"""`seconds=` ends a check, keeps what it has found, and says what it did not reach; evaluations stand for seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Reason, Result, Verdict, progress
from gradcheck.diagnosis import check_diagnosis, source_comparison

Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Lets the time limit pass after so many evaluations."""

    def after(evaluations: int) -> None:
        over = property(lambda check: check.seconds is not None and check.evaluations > evaluations)
        monkeypatch.setattr(progress.LongCheck, "out_of_time", over)

    return after


TIME_UP = (
    "the cause was not looked for to the end: seconds=0.5 were over; give more, such as seconds=30, or leave it out"
)


HELD = tf.Variable([1.0, 2.0], dtype=tf.float64)


def half(x: Any) -> Any:
    return tf.reduce_sum(tf.stop_gradient(x) * x)


def evaluations(run: Callable[[], Any]) -> int:
    """The number of evaluations of a check that is not limited."""
    seen: list[progress.LongCheck] = []
    original = progress.LongCheck.__init__

    def kept(check: progress.LongCheck, *arguments: Any) -> None:
        original(check, *arguments)
        seen.append(check)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.LongCheck, "__init__", kept)
        run()
    return seen[0].evaluations


def verdicts(result: Result) -> list[tuple[str, tuple[Reason, ...]]]:
    return [(one.verdict, one.reasons) for one in result.orders.values()]


def test_each_order_that_was_decided_stands(limit: Limit) -> None:
    first = evaluations(lambda: gradcheck.check(tf.sin, 1.0))
    for after, expected in ((0, []), (first, [("agree", ())]), (10**6, [("agree", ())] * 2)):
        limit(after)
        result = gradcheck.check(tf.sin, 1.0, order=2, seconds=3)
        left = [("inconclusive", (Reason.TOO_EXPENSIVE,))] * (2 - len(expected))
        assert verdicts(result) == expected + left
        notes = [note for order in result.orders.values() for note in order.notes if note.startswith("seconds=3 were")]
        assert len(notes) == len(left)


def test_a_mismatch_stands_when_its_cause_is_not_found_in_time(limit: Limit) -> None:
    whole = evaluations(lambda: gradcheck.check(half, [1.0, 2.0]))
    found = set()
    for after in (*range(0, whole, max(1, whole // 12)), whole):
        limit(after)
        result = gradcheck.check(half, [1.0, 2.0], seconds=0.5)
        order = result.orders[1]
        caused = bool(order.findings and order.findings[0].diagnosis)
        found.add((order.verdict, caused))
        if order.verdict == Verdict.MISMATCH and not caused:
            assert TIME_UP in order.notes
    assert found >= {(Verdict.INCONCLUSIVE, False), (Verdict.MISMATCH, True)}
    assert (Verdict.AGREE, False) not in found


def half_step() -> Any:
    with tf.GradientTape() as tape:
        loss = half(HELD)
    return loss, [tape.gradient(loss, HELD)]


ASKED: dict[str, Callable[[], str]] = {
    "assert_close": lambda: raised(gradcheck.assert_close, half, [1.0, 2.0], seconds=0.5),
    "assert_step": lambda: raised(gradcheck.assert_step, half_step, variables=[HELD], seconds=0.5),
    "explain": lambda: str(gradcheck.explain(half_step, seconds=0.5)),
}


def raised(door: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        door(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", ASKED)
def test_the_message_names_the_option_when_the_cause_was_not_found_in_time(
    name: str, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> Any:
        limit(-1)
        raise progress.TimeUpError

    limit(10**6)
    for module in (check_diagnosis, source_comparison):
        monkeypatch.setattr(module, "diagnose", late)
    text = ASKED[name]()
    assert "wrong value" in text
    assert TIME_UP in text


@tf.custom_gradient
def tripled(x: Any) -> Any:
    return tf.sin(x), lambda upstream: 3 * upstream * tf.cos(x)


def test_a_search_that_ended_early_names_the_option(limit: Limit) -> None:
    limit(10**6)
    f, told = lambda x: tf.reduce_sum(tf.exp(tripled(x)) ** 2), set()
    whole = evaluations(lambda: gradcheck.check(f, [1.0, 2.0], seconds=2))
    for after in range(whole - 1, 0, -max(1, whole // 10)):
        limit(after)
        for finding in gradcheck.check(f, [1.0, 2.0], seconds=2).findings:
            if finding.diagnosis is not None and "seconds=" in finding.diagnosis.evidence:
                assert re.search(r"\d of \d operations looked at in seconds=2, none ", finding.diagnosis.evidence)
                assert finding.diagnosis.remedy.startswith(
                    "give more, such as seconds=30, or leave it out; or check the"
                )
                told.add(finding.diagnosis.cause)
    assert told == {gradcheck.Cause.NOT_COMPARED}


def test_assert_close_raises_if_nothing_was_decided(limit: Limit) -> None:
    limit(0)
    with pytest.raises(
        gradcheck.GradientInconclusive, match="seconds=2 were over before all of order 1 was decided"
    ) as caught:
        gradcheck.assert_close(half, [1.0, 2.0], seconds=2)
    advice = 'What to do: give more seconds=, or leave it out, or pass inconclusive="ignore".'
    assert str(caught.value).endswith(advice)


def variables(count: int) -> list[tf.Variable]:
    return [tf.Variable(np.linspace(0.5, 1.0, 3), name=f"v{number}") for number in range(count)]


def test_explain_keeps_the_derivatives_and_the_sources_that_it_reached(limit: Limit) -> None:
    held = variables(6)

    def step() -> Any:
        with tf.GradientTape() as tape:
            right = tf.reduce_sum(held[0] ** 3)
        first = tape.gradient(right, held[0])
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(one**3) for one in held[1:]]) + half(held[2]) + half(held[4])
        return first, tape.gradient(loss, held[1:])

    whole = gradcheck.explain(step)
    assert [one.right for one in whole.sources] == [True, True, False, True, False, True]
    count, seen = evaluations(lambda: gradcheck.explain(step)), set()
    for share in (0.0, 0.9, 1.0):
        limit(int(share * count))
        result = gradcheck.explain(step, seconds=1)
        seen.add(tuple(one.right for one in result.sources))
        for one, right in zip(result.sources, whole.sources, strict=True):
            assert one.right in (None, right.right)
            assert one.gradient == right.gradient
    nothing, partly, everything = sorted(seen, key=lambda row: row.count(None), reverse=True)
    assert nothing == (None,) * 6
    assert {True, False, None} == set(partly)
    assert everything == (True, True, False, True, False, True)


def test_a_step_that_was_not_reached_is_inconclusive(limit: Limit) -> None:
    (held,) = variables(1)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(held**2)
        gradient = tape.gradient(loss, held)
        held.assign_sub(0.1 * gradient)
        return loss, [gradient]

    before = held.numpy()
    limit(0)
    result = gradcheck.assert_step(step, variables=[held], learning_rate=0.1, seconds=1, inconclusive="ignore")
    assert verdicts(result) == [("inconclusive", (Reason.TOO_EXPENSIVE,))]
    limit(10**6)
    assert gradcheck.assert_step(step, variables=[held], learning_rate=0.1, seconds=1).verdict == Verdict.AGREE
    np.testing.assert_array_equal(held.numpy(), before)


def test_the_clock_is_asked() -> None:
    assert not progress.LongCheck("f").out_of_time
    assert not progress.LongCheck("f", 1e9).out_of_time
    assert progress.LongCheck("f", -1.0).out_of_time


@pytest.mark.parametrize("seconds", [0, -1.0, "5", True, float("nan")])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    for call in (gradcheck.check, gradcheck.assert_close, gradcheck.explain):
        with pytest.raises(ValueError, match=r"^seconds was .*; a positive number, or None for no limit, was expected"):
            call(tf.sin, 1.0, seconds=seconds)
    with pytest.raises(ValueError, match=r"^seconds was"):
        gradcheck.assert_step(lambda: None, seconds=seconds)
