"""Records of user code, and results of replaying them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tensorflow as tf

from gradcheck.tracing.call_source import call_source
from gradcheck.tracing.record import HostRead, TapeChange, WatchEvent
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.replay import (
    influence,
    nondeterminism,
    replayed,
    target_value,
    unused_derivatives,
)

x, w = tf.Variable(1.5, dtype=tf.float64, name="x"), tf.Variable(2.0, dtype=tf.float64, name="w")


def curvature() -> Any:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x**3
        slope = inner.gradient(y, x)
    with tf.GradientTape() as other:
        z = w * w
    other.gradient(z, w)
    return outer.gradient(slope, x)


def test_the_events_come_in_order_with_their_numbers() -> None:
    def f() -> Any:
        with tf.GradientTape() as tape:
            y = x * w
            float(y)
        return tape.gradient(y, [x, w])

    record = recorded(f)
    assert [one.number for one in record.operations] == list(range(len(record.operations)))
    (call,) = record.derivatives
    changes = [event for event in record.before(call) if isinstance(event, TapeChange)]
    assert [change.change for change in changes] == ["opened", "closed"]
    (product,) = [one for one in record.operations if one.name == "Mul" and one.derivative is None]
    assert changes[0].operations <= product.number < changes[1].operations
    assert product.tapes == {call.tape}
    assert [event.method for event in record.events if isinstance(event, HostRead)] == ["__float__"]
    watched = [event.tensor for event in record.events if isinstance(event, WatchEvent)]
    assert {id(one) for one in watched} == {id(x), id(w)}
    assert (call.expressions, call.zeros, call.error) == (("x", "w"), False, None)


def test_the_origins_of_sources() -> None:
    captured = tf.constant(3.0, tf.float64)

    def f(given: Any) -> Any:
        w.assign(5.0)
        made = given * 2.0
        with tf.GradientTape() as tape:
            tape.watch([given, made, captured])
            y = made * captured * x * w
        return tape.gradient(y, [given, made, captured, x, w])

    record = recorded(f, [tf.constant(4.0, tf.float64)])
    (call,) = record.derivatives
    origins = [call_source(record, call, source) for source in call.sources]
    assert [bool(one.captured) for one in origins] == [False, False, True, False, False]
    assert [one.moved_at_start for one in origins] == [False, False, False, True, False]
    assert [one.moved_by_operations for one in origins] == [False, True, True, False, True]
    (number,) = origins[4].sets
    assert (origins[0].input, origins[3].variable is x, record.operations[number].inputs[1]) == (0, True, 5.0)
    for origin in origins:
        replay = replayed(record, call, [(origin, tf.constant(0.5, tf.float64))])
        assert replay.target is not None
        moved, before = (float(target_value(target, call)[0]) for target in (replay.target, call.targets))
        assert moved / before == pytest.approx((origin.value + 0.5) / origin.value)
    assert (float(x), float(w)) == (1.5, 2.0)


def test_an_operation_taken_alone_gives_its_own_derivative_at_a_cotangent() -> None:
    @tf.custom_gradient
    def tripled(a: Any) -> Any:
        return 3.0 * a, lambda upstream: 5.0 * upstream

    def f() -> Any:
        with tf.GradientTape() as tape:
            y = tf.sin(tripled(x * w))
        return tape.gradient(y, [x, w])

    record = recorded(f)
    first = {one.name: one for one in reversed(record.operations) if one.derivative is None}
    (sine,), cotangent = first["Sin"].outputs, tf.constant(2.0, tf.float64)
    assert float(first["Sin"].alone(*first["Sin"].inputs).gradient(sine, first["Sin"].inputs[0], cotangent)) == (
        pytest.approx(2.0 * math.cos(9.0))
    )
    product = first["Mul"]
    gradients = product.alone(*product.inputs).gradient(product.outputs[0], product.inputs, cotangent)
    assert [float(one) for one in gradients] == [4.0, 3.0]
    custom = first["tripled"]
    assert custom.custom_gradient is not None
    assert float(custom.alone(custom.inputs[0]).gradient(custom.outputs[0], custom.inputs[0], cotangent)) == 10.0


def test_sources_know_their_places_and_their_gradients() -> None:
    def f() -> Any:
        with tf.GradientTape() as tape:
            y = x * w
        return tape.gradient(y, {"b": x, "a": w})

    record = recorded(f)
    (call,) = record.derivatives
    sources = [call_source(record, call, tensor, name) for tensor, name in ((x, "x"), (w, "w"))]
    assert [(one.position, float(one.given), one.name) for one in sources] == [(1, 2.0, "x"), (0, 1.5, "w")]


def test_derivatives_that_nothing_depends_on_are_not_taken_again() -> None:
    record = recorded(curvature)
    first, second, third = record.derivatives
    assert list(unused_derivatives(record, third)) == [1]
    assert list(unused_derivatives(record, second)) == [0]
    assert unused_derivatives(record, first) == {}

    def printed() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = x**2
        float(tape.gradient(y, x))
        return tape.gradient(y, x)

    record = recorded(printed)
    assert unused_derivatives(record, record.derivatives[-1]) == {}


def test_the_other_variables_that_were_updated_before_the_tape_was_opened_get_what_they_got() -> None:
    def alternating() -> Any:
        with tf.GradientTape() as tape:
            y = w * x**2
        w.assign_sub(tape.gradient(y, w))
        with tf.GradientTape() as tape:
            y = w * x
        return tape.gradient(y, [x, w])

    code = recorded(alternating)
    second = code.derivatives[-1]
    of_x, of_w = (call_source(code, second, source) for source in (x, w))
    (number,) = of_x.kept
    assert code.operations[number].name == "AssignSubVariableOp"
    assert (of_w.sets, of_w.kept) == ((number,), frozenset())
    assert list(unused_derivatives(code, second)) == []
    assert list(unused_derivatives(code, second, of_x.kept)) == [0]
    half = tf.constant(0.5, tf.float64)
    for moves, expected in (
        ([(of_x, half)], (2.0 - 1.5**2) * 2.0),
        ([(of_w, half)], (2.5 - 1.5**2) * 1.5),
        ([(of_x, half), (of_w, half)], (2.5 - 1.5**2) * 2.0),
    ):
        target = replayed(code, second, moves).target
        assert target is not None
        assert float(target[0]) == pytest.approx(expected)


def test_an_update_from_before_the_source_was_set_itself_does_not_depend_on_its_value() -> None:
    def both() -> Any:
        with tf.GradientTape() as tape:
            y = w * x**2
        slopes = tape.gradient(y, [x, w])
        w.assign_sub(slopes[1])
        x.assign_sub(slopes[0])
        with tf.GradientTape() as tape:
            y = w * x
        return tape.gradient(y, x)

    code = recorded(both)
    of_x = call_source(code, code.derivatives[-1], x)
    assert ([code.operations[number].inputs[0] is x.handle for number in of_x.sets], of_x.kept) == ([True], frozenset())


def test_a_replay_stops_at_the_derivative_and_takes_it_if_asked_for() -> None:
    code = recorded(curvature)
    third = code.derivatives[-1]
    move = (call_source(code, third, x), tf.constant(0.5, tf.float64))
    replay = replayed(code, third, [move], with_results=True)
    assert replay.target is not None
    assert float(replay.target[0]) == pytest.approx(3 * 2.0**2)
    assert replay.results is not None
    assert float(replay.results[0]) == pytest.approx(6 * 2.0)


def test_what_a_source_influences_a_little_or_in_steps() -> None:
    def f() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            smooth, flat, other = x * w, tf.floor(x) * w, 2.0 * w
        return tape.gradient(smooth, x), tape.gradient(flat, x), tape.gradient(other, x)

    code = recorded(f)
    found = [influence(call_source(code, call, x)) for call in code.derivatives]
    assert [(one.small, one.large) for one in found] == [(True, True), (False, True), (False, False)]
    (floor,) = [one for one in code.operations if one.name == "Floor"]
    assert [one.changed(floor.number, 0) for one in found] == [False, True, False]


def test_code_that_is_not_the_same_twice() -> None:
    runs = []

    def moody() -> Any:
        runs.append(1)
        with tf.GradientTape() as tape:
            y = x * float(len(runs))
        return tape.gradient(y, x)

    def fickle() -> Any:
        runs.append(1)
        with tf.GradientTape() as tape:
            y = x * 2.0
        return tape.gradient(y, x) if len(runs) < 2 else None

    for f, text in ((moody, "two runs differ"), (fickle, "a second run did not get here: it came to no such call")):
        runs.clear()
        code = recorded(f)
        assert text in str(nondeterminism(code, code.derivatives[0]))
    code = recorded(curvature)
    assert nondeterminism(code, code.derivatives[0]) is None
