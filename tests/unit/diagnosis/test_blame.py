"""The record of a wrong operation, and the operations that are checked before it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Cause, Kind, OrderResult, check
from gradcheck.diagnosis import blame as blaming
from gradcheck.diagnosis import diagnosis
from gradcheck.diagnosis.blame import Blame, blame, blame_diagnosis, compared
from gradcheck.diagnosis.chain import Factor, factors
from gradcheck.tracing.blame_time import BlameTime
from gradcheck.tracing.record import CodeRecord
from gradcheck.tracing.recorder import recorded
from gradcheck.verdict.looks import screened


def record_of(f: Any, *values: Any, order: int = 1) -> CodeRecord:
    """The record of a gradient, or of the gradient of its sine."""

    def gradient(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = f(*inputs)
        return tape.gradient(y, inputs)

    def second(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = [tf.sin(part) for part in gradient(*inputs) if part is not None]
        return tape.gradient(y, inputs)

    inputs = [tf.constant(value, tf.float64) for value in values]
    record = recorded(gradient if order == 1 else second, inputs)
    assert record.error is None
    return record


def found(record: CodeRecord) -> Blame:
    return blame(record, record.derivatives[-1], record.inputs[0])


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)


def test_the_record_of_a_wrong_operation() -> None:
    record = record_of(lambda x: tf.reduce_sum(3.0 * tf.math.cumprod(x)), [2.0, 0.0, 5.0])
    result = found(record)
    culprit, finding = result.culprit, result.finding
    assert culprit is not None
    assert finding is not None
    assert (culprit.operation.name, culprit.order, culprit.moved, finding.input) == ("Cumprod", 1, (0,), "x")
    assert (finding.index, finding.autodiff, finding.kind) == ((1,), 0.0, Kind.WRONG_VALUE)
    assert culprit.value_at("x", (1,)) == 0.0
    assert finding.difference == pytest.approx(3 * (2 + 2 * 5), rel=1e-12)
    assert finding.difference is not None
    assert finding.bound is not None
    assert abs(finding.difference - 36) <= finding.bound


def test_the_chain_rule_goes_back_from_the_target() -> None:
    record = record_of(lambda x, y: tf.exp(tf.sin(x) * tf.cos(y)), 0.5, 0.25)
    call = record.derivatives[-1]
    assert [(one.operation.name, one.order) for one in factors(record, call, record.inputs[0])] == [
        ("Exp", 1),
        ("Mul", 1),
        ("Sin", 1),
    ]
    exp, mul, sin = factors(record, call, record.inputs[0])
    assert [one.names for one in (exp, mul, sin)] == [["x"], ["x"], ["x"]]
    assert float(exp.cotangents[0]) == 1.0
    assert float(sin.cotangents[0]) == pytest.approx(float(tf.exp(tf.sin(0.5) * tf.cos(0.25)) * tf.cos(0.25)), rel=1e-6)


def test_a_second_derivative_goes_through_vector_jacobian_products() -> None:
    record = record_of(lambda x: tf.exp(tf.tanh(x)), 0.5, order=2)
    steps = [(one.operation.name, one.order) for one in factors(record, record.derivatives[-1], record.inputs[0])]
    assert steps == [("Sin", 1), ("Tanh", 2), ("Exp", 2), ("Exp", 1), ("Tanh", 1)]


def test_what_is_right_is_counted() -> None:
    result = found(record_of(lambda x: tf.reduce_sum(tf.exp(tf.sin(x)) * x), [0.5, 1.0]))
    assert (result.culprit, result.looked_at, result.unclear) == (None, 4, ())
    assert blame_diagnosis(result) is None


def test_what_is_wrong_for_one_input_comes_first_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    record, seen = record_of(lambda x, y: tf.exp(doubled(tf.sin(x) * y)), 0.5, 2.0), []

    def noted(one: Factor, time: BlameTime) -> OrderResult:
        seen.append(one.operation.name)
        return compared(one, time)

    monkeypatch.setattr(blaming, "compared", noted)
    first, again = (blame(record, record.derivatives[-1], source) for source in record.inputs)
    assert seen == ["Exp", "doubled"]
    assert first.culprit is not None
    assert again.culprit is not None
    assert first.culprit.operation is again.culprit.operation
    assert first.finding == again.finding
    assert [one is not None and one.evidence.split("; ")[-1] for one in map(blame_diagnosis, (first, again))] == [
        "2 operations looked at, from the target back to this one",
        "as for another input",
    ]


@tf.custom_gradient
def by_its_own_tape(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(x) * x
    slope = tape.gradient(y, x)
    return y, lambda dy: dy * slope


@tf.custom_gradient
def by_a_formula(x: Any) -> Any:
    return doubled(x) * x, lambda dy: dy * tf.sin(x)


def test_what_is_wrong_inside_of_a_custom_gradient_is_blamed_for_it() -> None:
    result = found(record_of(lambda x: tf.exp(by_its_own_tape(by_its_own_tape(x))), 0.5))
    assert result.culprit is not None
    assert (result.culprit.operation.name, result.looked_at) == ("doubled", 4)


def test_what_a_custom_gradient_does_not_differentiate_is_not_blamed() -> None:
    result = found(record_of(lambda x: tf.exp(by_a_formula(x)), 0.5))
    assert result.culprit is not None
    assert (result.culprit.operation.name, result.looked_at) == ("by_a_formula", 2)


def test_a_wrong_operation_beside_the_path_is_not_blamed() -> None:
    record = record_of(lambda x, y: tf.exp(tf.sin(x) * doubled(y)), 0.5, 2.0)
    ahead, behind = (blame(record, record.derivatives[-1], source) for source in record.inputs[::-1])
    assert ahead.culprit is not None
    assert (behind.culprit, behind.looked_at) == (None, 3)


def test_a_cut_that_was_found_for_one_input_is_told_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = []

    def counted(*arguments: Any) -> Blame:
        walks.append(arguments)
        return blame(*arguments)

    monkeypatch.setattr(diagnosis, "blame", counted)
    result = check(lambda x, y: tf.sin(tf.stop_gradient(x * y) * x * y), 0.5, 2.0)
    first, second = (finding.diagnosis for finding in result.findings)
    assert first is not None
    assert second is not None
    assert (first.cause, first.place) == (second.cause, second.place)
    assert first.cause is Cause.STOP_GRADIENT
    assert "no other operation is wrong by itself (3 operations looked at)" in first.evidence
    assert second.evidence.endswith(diagnosis.AS_BEFORE)
    assert len(walks) == 1


@pytest.mark.parametrize(("factor", "looked_at_closely"), [(1.0, False), (1 + 1e-9, True)])
def test_a_glance_passes_over_what_is_right(
    factor: float, looked_at_closely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return tf.exp(x), lambda dy: factor * dy * tf.exp(x)

    asked = []

    def noted(*arguments: Any, **beyond: Any) -> Any:
        asked.append(arguments)
        return screened(*arguments, **beyond)

    monkeypatch.setattr(blaming, "screened", noted)
    result = found(record_of(scaled, [0.5, -0.25]))
    assert bool(asked) == (result.culprit is not None) == looked_at_closely


def test_what_is_too_expensive_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blaming, "MOST", 1)
    result = found(record_of(lambda x: doubled(tf.sin(x)), 0.5))
    assert result.culprit is None
    assert [operation.name for operation in result.unclear] == ["doubled", "Sin"]


def test_variables_of_a_custom_gradient_are_left_as_they_were() -> None:
    kernel = tf.Variable(2.0, dtype=tf.float64)

    @tf.custom_gradient
    def fused(x: Any) -> Any:
        return x * kernel, lambda dy, variables: (dy * kernel, [3 * dy * x])

    def step() -> Any:
        with tf.GradientTape() as tape:
            y = fused(tf.constant(0.5, tf.float64))
        return tape.gradient(y, kernel)

    record = recorded(step)
    result = blame(record, record.derivatives[-1], kernel)
    assert result.finding is not None
    assert (result.finding.input, result.finding.autodiff, float(kernel)) == ("Variable", 1.5, 2.0)
    told = blame_diagnosis(result)
    assert told is not None
    assert told.cause is Cause.CUSTOM_GRADIENT
