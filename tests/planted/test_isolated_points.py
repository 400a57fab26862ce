"""Derivatives that are wrong at one isolated point: where an input, or a value computed from it, is exactly special.

Every factor at every place, for functions and for graphs of the hunt, and at both orders; the shapes take turns, so
that each meets every factor and every place. In the test command each place has one factor in a function and another
one in a graph, and the orders take turns. A fault of first order affects the gradient, and with it the second
derivative; one of second order only the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import FUNCTION, PLAIN, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import trial
from gradcheck.result import Kind, OrderResult, Verdict
from tests import slices
from tests.verdicts import check

SMALL = 1 + 1e-6
FACTORS = (0.0, 0.5, np.nan, SMALL, 1 + 1e-9)
TIE, INTEGER = "tie", "integer"
PLACES = (0.0, 1.0, -1.0, 2.0, 0.5, TIE, INTEGER)
SHAPES = ("scalar", "one of a vector", "all of a vector", "behind other nodes")
ELSEWHERE = 0.7310585786300049


class Fault(NamedTuple):
    """A factor of the derivative of one order at a place, in some elements of the input."""

    factor: float
    place: float | str
    shape: str
    order: int

    def __str__(self) -> str:
        return f"{self.factor:.10g}, {self.place}, {self.shape}, order {self.order}"

    def seen_in(self, result: OrderResult) -> bool:
        """Whether it was found and named, or is smaller than the stated resolution of the result."""
        kind = Kind.NON_FINITE if np.isnan(self.factor) else Kind.WRONG_VALUE
        if result.verdict == Verdict.MISMATCH:
            return {finding.kind for finding in result.findings} == {kind}
        return result.relative_resolution > abs(self.factor - 1)

    def there(self, x: Any) -> Any:
        """Where a tensor has the special value."""
        if self.place == TIE:
            return x == tf.reverse(x, [-1])
        return x == (tf.round(x) if self.place == INTEGER else tf.constant(self.place, x.dtype))

    def spoilt(self, right: Any, x: Any) -> Any:
        """The `right` gradient, or only its derivative, times the factor where `x` has the special value."""
        if self.order == 1:
            return tf.where(self.there(x), self.factor * right, right)
        return tf.where(self.there(x), _with_derivative_times(self.factor, right), right)

    def values(self) -> np.ndarray[Any, Any]:
        """The input of the faulty operation."""
        value = 3.0 if self.place == INTEGER else 1.25 if self.place == TIE else float(self.place)
        if self.place == TIE:
            return np.array([value, value] if self.shape != "one of a vector" else [value, ELSEWHERE, -1.7, value])
        if self.shape == "scalar":
            return np.array(value)
        return np.array([ELSEWHERE, value, -1.7] if self.shape == "one of a vector" else [value] * 3)


class FromThereOn(Fault):
    """A fault on one side of the place, and at it: a formula that changes where the function does not."""

    def there(self, x: Any) -> Any:
        return x >= tf.constant(self.place, x.dtype)


def _with_derivative_times(factor: float, value: Any) -> Any:
    @tf.custom_gradient
    def identity(x: Any) -> Any:
        return tf.identity(x), lambda upstream: factor * upstream

    return identity(value)


TRACED = Mode("reverse", FUNCTION)
FUNCTION_CALL, OPERATION = 0, 1
ORDERS = (1, 2)
FAULTS: list[tuple[float, Any, int]] = list(product(FACTORS, PLACES, ORDERS))
FROM_A_POINT_ON = list(product(FACTORS, PLACES[:5], ORDERS[:1]))
IN_FLOAT32 = (0.0, 0.5, np.nan, 1.01)


def taking_turns(subject: int, *, orders: bool = True) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A factor at each place, another one in a function than in an operation; each place has one of the orders."""

    def chosen(cases: Sequence[Any]) -> Sequence[Any]:
        turns = [(FACTORS.index(factor), PLACES.index(place), order) for factor, place, order in cases]
        return [
            case
            for case, (i, j, order) in zip(cases, turns, strict=True)
            if i == 2 * (j + subject) % len(FACTORS) and (order == 1 + j % 2 or not orders)
        ]

    return chosen


def shapes(factor: float, place: float | str, order: int) -> tuple[str, ...]:
    """One shape, or two for the factor that is tried at both orders."""
    possible = SHAPES[1:] if place == TIE else SHAPES
    turn = FACTORS.index(factor) + PLACES.index(place) + 2 * order
    chosen = {turn % len(possible), (turn + 1) % len(possible)} if factor == SMALL else {turn % len(possible)}
    return tuple(possible[place] for place in chosen)


def function(fault: Fault) -> tuple[Callable[[Any], Any], Any]:
    """A function whose derivatives have the fault at a point, and the point."""

    @tf.custom_gradient
    def spoilt(x: Any) -> Any:
        return tf.exp(x), lambda upstream: fault.spoilt(upstream * tf.exp(x), x)

    if fault.shape == "behind other nodes":
        return lambda x: tf.tanh(0.25 * spoilt(2 * x - 1)), (fault.values() + 1) / 2
    return spoilt, fault.values()


def graph(fault: Fault) -> Graph:
    """A graph with the operation `expm1` at the place, alone or after others."""
    values = fault.values()
    if fault.shape != "behind other nodes":
        return Graph((_literal(values),), (Node.of("expm1", 0),))
    inputs = (_literal((values + 1) / 2), _literal(np.ones_like(values)))
    nodes = (Node.of("add", 0, 0), Node.of("subtract", 2, 1), Node.of("expm1", 3), Node.of("atan", 4))
    return Graph(inputs, nodes)


def _literal(values: Any) -> Input:
    return Input(values.shape, tuple(map(float, values.ravel())))


def hunted(
    fault: Fault, plant: Any, orders: tuple[int, ...], mode: Mode = PLAIN, *, eagerly: bool | None = None
) -> Mapping[int, OrderResult]:
    """The hunt's verdicts on the graph with the fault, which may exist only `eagerly`, or only otherwise."""

    def spoilt(right: Any, op: Any, cotangent: Any) -> Any:
        part = right(op, cotangent)
        there = eagerly in (None, tf.executing_eagerly())
        return fault.spoilt(part, op.inputs[0]) if there else part

    with plant("Expm1", spoilt):
        return trial.run(graph(fault), orders, mode=mode).result.orders


def assert_seen(fault: Fault, orders: Mapping[int, OrderResult]) -> None:
    for order, result in orders.items():
        if order < fault.order:
            assert result.verdict == Verdict.AGREE, (fault.shape, order)
        else:
            assert fault.seen_in(result), (fault.shape, order, result)


@slices.parametrized(("factor", "place", "order"), FAULTS, taking_turns(FUNCTION_CALL))
def test_a_function_is_wrong_at_a_point(factor: float, place: float | str, order: int) -> None:
    for shape in shapes(factor, place, order):
        fault = Fault(factor, place, shape, order)
        f, x = function(fault)
        assert_seen(fault, check(f, x, order=2 if factor == SMALL else order).orders)


@slices.parametrized(("factor", "place", "order"), FAULTS, taking_turns(OPERATION))
def test_an_operation_is_wrong_at_a_point(factor: float, place: float | str, order: int, plant: Any) -> None:
    for shape in shapes(factor, place, order):
        fault = Fault(factor, place, shape, order)
        for orders in ((1, 2), (2,)) if factor == SMALL else ((1, 2),):
            assert_seen(fault, hunted(fault, plant, orders))


@slices.parametrized(("factor", "place", "order"), FROM_A_POINT_ON, taking_turns(FUNCTION_CALL, orders=False))
def test_a_function_is_wrong_from_a_point_on(factor: float, place: float, order: int) -> None:
    """Values on one side are right: they do not show that those on the other side are rounding errors."""
    for shape in shapes(factor, place, order):
        fault = FromThereOn(factor, place, shape, order)
        f, x = function(fault)
        assert_seen(fault, check(f, x).orders)


@pytest.mark.parametrize("factor", IN_FLOAT32)
def test_so_is_a_function_in_float32(factor: float) -> None:
    fault = FromThereOn(factor, 1.0, "scalar", 1)
    f, _ = function(fault)
    assert_seen(fault, check(f, np.float32(1.0)).orders)


@slices.parametrized(
    ("factor", "place", "shape"),
    [case for case in product(IN_FLOAT32, PLACES[:6], SHAPES) if case[1:] != (TIE, "scalar")],
    # Each place once: with one of the factors, in one of the shapes.
    lambda _: [(IN_FLOAT32[i % 4], place, SHAPES[(i + 1) % 4]) for i, place in enumerate(PLACES[:6])],
)
def test_a_function_in_float32_is_wrong_at_a_point(factor: float, place: float | str, shape: str) -> None:
    fault = Fault(factor, place, shape, 1)
    f, x = function(fault)
    result = check(f, np.float32(x)).orders[1]
    assert result.verdict == Verdict.MISMATCH
    assert fault.seen_in(result)


@slices.parametrized(("factor", "place", "order"), FROM_A_POINT_ON, taking_turns(OPERATION, orders=False))
def test_an_operation_is_wrong_from_a_point_on(factor: float, place: float, order: int, plant: Any) -> None:
    for shape in shapes(factor, place, order):
        fault = FromThereOn(factor, place, shape, order)
        assert_seen(fault, hunted(fault, plant, (order,)))


@slices.parametrized(
    ("factor", "order"),
    product(FACTORS, ORDERS),
    lambda _: [(SMALL, 1), (np.nan, 2)],
)
def test_a_mode_is_wrong_at_a_point(factor: float, order: int, plant: Any) -> None:
    fault = Fault(factor, 1.0, "behind other nodes", order)
    result = hunted(fault, plant, (order,), TRACED, eagerly=False)[order]
    assert {finding.kind for finding in result.findings} == {Kind.MODES}


@slices.parametrized("factor", FACTORS, slices.every(2))
def test_a_mode_is_right_where_the_plain_derivative_is_wrong_at_a_point(factor: float, plant: Any) -> None:
    fault = Fault(factor, 1.0, "behind other nodes", 1)
    result = hunted(fault, plant, (1,), TRACED, eagerly=True)[1]
    assert fault.seen_in(result)


@slices.parametrized("factor", FACTORS, lambda factors: factors[2::2])
def test_one_of_many_elements_is_wrong_at_a_point(factor: float) -> None:
    x = np.linspace(-1.7, 1.9, 60)
    x[17] = 1.0
    fault = Fault(factor, 1.0, "one of a vector", 1)
    f, _ = function(fault)
    (finding,) = check(f, x).findings
    assert finding.index == (17,)
    assert_seen(fault, check(lambda x: tf.reduce_sum(f(x)), x, order=2).orders)


AT_A_KINK: list[tuple[Any, Any, float]] = [
    (tf.abs, tf.sign, 1.0001),
    (tf.abs, tf.sign, -2.0),
    (tf.abs, tf.sign, np.nan),
    (tf.nn.relu, lambda x: tf.cast(x > 0, x.dtype), -1e-4),
]


def spoilt_at_the_kink(f: Any, slope: Any, kink: float) -> Any:
    @tf.custom_gradient
    def spoilt(x: Any) -> Any:
        return f(x), lambda upstream: upstream * tf.where(x == 0.0, tf.constant(kink, x.dtype), slope(x))

    return spoilt


@pytest.mark.parametrize("where", [0.0, 1.0])
def test_a_subgradient_is_wrong_only_at_the_kink(where: float, subtests: pytest.Subtests) -> None:
    for case in AT_A_KINK:
        spoilt = spoilt_at_the_kink(*case)
        with subtests.test(function=case[0].__name__, kink=case[2]):
            (finding,) = check(lambda x, spoilt=spoilt: spoilt(x - where), where).findings
            assert finding.kind is Kind.SUBDIFFERENTIAL


def test_every_shape_meets_every_factor_and_every_place() -> None:
    met = {(factor, place, shape) for factor, place, order in FAULTS for shape in shapes(factor, place, order)}
    assert {(factor, shape) for factor, _, shape in met} == set(product(FACTORS, SHAPES))
    assert {(place, shape) for _, place, shape in met} == set(product(PLACES, SHAPES)) - {(TIE, "scalar")}


@pytest.mark.parametrize("subject", [FUNCTION_CALL, OPERATION])
def test_those_of_the_test_command_have_each_factor_place_shape_and_order_in_either_subject(subject: int) -> None:
    met = [
        (factor, place, shape, order)
        for factor, place, order in taking_turns(subject)(FAULTS)
        for shape in shapes(factor, place, order)
    ]
    assert list(map(set, zip(*met, strict=True))) == list(map(set, (FACTORS, PLACES, SHAPES, ORDERS)))
