"""The screening: few values where autodiff agrees with a tight estimate, all that a verdict needs elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck.numerics.sampling import FIRST, QUICK
from gradcheck.problem import mapped
from gradcheck.problem.function import Function
from gradcheck.result import Kind, Verdict
from tests import slices
from tests.verdicts import check

QUICKLY, CLOSELY = len(QUICK.offsets), len(FIRST.offsets)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of points that were requested, call by call, without the point itself."""
    counts: list[int] = []
    values = Function._values

    def counted(function: Function, table: Any) -> Any:
        counts.append(len(table) - 1)
        return values(function, table)

    monkeypatch.setattr(Function, "_values", counted)
    return counts


def scaled(factor: float) -> Callable[[Any], Any]:
    """The sine, with a gradient that is wrong by a factor."""

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) * tf.constant(factor, x.dtype)

    return f


def test_agreement_takes_the_light_stencil_only(points: list[int]) -> None:
    assert check(tf.sin, [0.7, 0.3]).verdict == Verdict.AGREE
    assert points == [2 * (QUICKLY - 1)]


def test_so_do_probes(points: list[int]) -> None:
    assert check(lambda x: tf.sin(x) * x, np.linspace(0.2, 1.4, 100)).verdict == Verdict.AGREE
    assert points == [QUICKLY - 1]


def test_a_function_that_takes_its_time_is_called_a_few_times() -> None:
    """Once to open it, once to observe it, twice for gradients, once for the trace, and three times to trust the
    trace."""
    calls = []

    def f(x: Any) -> Any:
        calls.append(tf.executing_eagerly())
        for _ in range(100):
            x = x + 0.001 * tf.sin(x)
        return x

    assert check(f, np.linspace(0.2, 1.4, 100)).verdict == Verdict.AGREE
    assert (calls.count(True), calls.count(False)) == (7, 1)


@pytest.mark.parametrize(("factor", "most"), [(1.0, 60), (1.5, 240)])
def test_few_runs_tell_whether_what_no_graph_repeats_is_wrong(
    factor: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "TRACE_SECONDS", 0.0)  # so that a trace is tried, as for code that takes its time
    monkeypatch.setattr(mapped, "TRACE_CALLS", 0.0)
    calls = 0

    def read_by_python(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return scaled(factor)(tf.reduce_sum(x * x.numpy()))

    x = np.linspace(0.2, 0.7, 30)
    result = gradcheck.check(read_by_python, x, gradient=factor * 2 * x * np.cos(np.sum(x**2)))
    assert result.verdict is (Verdict.AGREE if factor == 1.0 else Verdict.MISMATCH)
    assert calls <= most


def test_the_light_stencil_is_a_part_of_the_close_one() -> None:
    assert set(QUICK.offsets) < set(FIRST.offsets)
    assert QUICKLY * 2 < CLOSELY


def test_a_short_scale_is_found_by_a_second_row(points: list[int]) -> None:
    result = check(lambda x: tf.sin(300.0 * x), [0.7])
    assert result.verdict == Verdict.AGREE
    assert points == [QUICKLY - 1, QUICKLY - 1]
    assert result.orders[1].relative_resolution < 1e-8


def test_only_lines_in_doubt_are_looked_at_closely(points: list[int]) -> None:
    result = check(lambda x: tf.sin(x) * [1.0, 1.0, 0.0] + tf.abs(x) * [0.0, 0.0, 1.0], [0.7, 0.3, 0.0])
    assert result.verdict == Verdict.AGREE
    assert points[:2] == [3 * (QUICKLY - 1), CLOSELY - 1]


FACTORS = (1 + 1e-9, 0.5, 0.0, -1.0)


@pytest.mark.sliced
@pytest.mark.parametrize(("size", "chosen"), [(1, FACTORS[1:3]), (20, FACTORS[:1]), (100, FACTORS[::3])])
def test_what_a_close_look_sees_is_seen(size: int, chosen: Sequence[float]) -> None:
    x = np.linspace(0.2, 1.4, size)
    assert check(scaled(1.0), x).verdict == Verdict.AGREE
    for factor in slices.sliced(FACTORS, lambda _: chosen):
        kinds = {finding.kind for finding in check(scaled(factor), x).findings}
        assert kinds == {Kind.WRONG_VALUE}, factor


@pytest.mark.parametrize("slope", [0.5, 1.0, 0.0])
def test_the_mean_slope_at_a_kink_is_not_agreed_to_quickly(slope: float, points: list[int]) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return tf.nn.relu(x), lambda upstream: slope * upstream

    result = check(f, 0.0)
    assert result.verdict == Verdict.AGREE
    assert "1 of 1 entries lie at a kink" in result.orders[1].notes[0]
    assert points[1] == CLOSELY - 1


def test_a_gradient_that_loses_what_oscillates_is_not_agreed_to(points: list[int]) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x + 1e-5 * tf.sin(1e5 * x), lambda upstream: upstream

    result = check(f, 0.71)
    assert result.verdict == Verdict.MISMATCH
    assert max(points) >= CLOSELY - 1


def test_a_gross_error_needs_no_fine_steps(points: list[int]) -> None:
    for factor, closely in [(0.5, False), (1 + 1e-6, True)]:
        points.clear()
        assert check(scaled(factor), [0.7, 0.3]).verdict == Verdict.MISMATCH
        assert (CLOSELY - 1 in points) == closely


def test_of_lines_that_are_clearly_wrong_the_worst_alone_is_looked_at_closely(points: list[int]) -> None:
    for entries in (2, 6):
        points.clear()
        (finding,) = check(scaled(0.5), np.linspace(0.3, 1.2, entries)).findings
        assert "all are 0.5 times the estimate" in finding.reason
        assert f"{entries} entries are wrong" in finding.reason
        quick, *close = (count // (QUICKLY - 1) for count in points if count)
        assert quick == entries
        assert sum(close) < 20  # a few rows on one line, and those of the oblique lines


@tf.custom_gradient
def lower(x: Any) -> Any:
    return tf.nn.relu(x), lambda upstream: 0.0 * upstream


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize(
    "right",
    [
        lambda x: lower(x[1]),
        lambda x: tf.maximum(tf.minimum(x[1], x[2]), 0.0),
        lambda x: 1e-3 * tf.floor(1e5 * (x[1] + 0.3)) * 1e-5,
        lambda x: tf.sin(x[1] + x[2]),
    ],
    ids=["a kink", "a kink that no axis shows", "stairs", "a smooth one"],
)
def test_what_is_right_beside_a_wrong_entry_is_not_called_wrong(right: Callable[[Any], Any], size: float) -> None:
    wrong = scaled(0.5)
    result = check(lambda x: wrong(x[0]) + size * right(x), [0.7, 0.0, 0.0])
    assert [finding.element for finding in result.findings] == ["x[0]"]
    assert "entries are wrong" not in result.findings[0].reason


def test_where_the_worst_line_is_right_after_all_the_others_are_looked_at() -> None:
    """The first coordinate is off by far at stairs that few steps step over, the second one is wrong by less."""
    wrong, step = scaled(0.9), 1e-9

    def f(x: Any) -> Any:
        return 1e3 * step * tf.floor(x[0] / step) + wrong(x[1])

    assert [finding.element for finding in check(f, [0.7, 0.3]).findings] == ["x[1]"]


def test_nor_does_one_of_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    gradients_at = Function.gradients_at

    def counted(function: Function, cotangent: Any, table: Any, left: Any = None) -> Any:
        asked.append(len(table))
        return gradients_at(function, cotangent, table, left)

    monkeypatch.setattr(Function, "gradients_at", counted)
    for factor, closely in [(0.5, False), (1 + 1e-6, True)]:

        @tf.custom_gradient
        def slope(x: Any, factor: float = factor) -> Any:
            return tf.cos(x), lambda upstream: -upstream * tf.sin(x) * factor

        @tf.custom_gradient
        def f(x: Any, slope: Callable[[Any], Any] = slope) -> Any:
            return tf.sin(x), lambda upstream: upstream * slope(x)

        asked.clear()
        result = check(f, 0.7, order=2)
        assert [result.orders[order].verdict for order in (1, 2)] == [Verdict.AGREE, Verdict.MISMATCH]
        assert (CLOSELY in asked) == closely


FEATURES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a bump": (lambda u: u * tf.exp(-(u**2)), lambda u: (1 - 2 * u**2) * tf.exp(-(u**2))),
    "a step": (tf.tanh, lambda u: 1 / tf.cosh(u) ** 2),
    "a kink": (lambda u: tf.abs(u - 0.3), lambda u: tf.sign(u - 0.3)),
    "a wave": (tf.sin, tf.cos),
}
POWERS = (3, 5, 6, 9)


@slices.parametrized("name, power", product(FEATURES, POWERS), lambda cases: cases[:: len(POWERS) + 1])
def test_a_right_derivative_that_wide_steps_do_not_show_is_no_gross_error(name: str, power: int) -> None:
    scale, (feature, slope) = 10.0**-power, FEATURES[name]

    @tf.custom_gradient
    def f(x: Any) -> Any:
        u = (x - 1) / scale
        return tf.sin(x) + scale * feature(u), lambda upstream: upstream * (tf.cos(x) + slope(u))

    assert check(f, 1.0).verdict != Verdict.MISMATCH


def test_an_output_that_ends_beside_the_point_costs_the_others_no_digits() -> None:
    sine = scaled(1.0 + 1e-10)
    (finding,) = check(lambda x: tf.concat([sine(x), tf.math.log(x - 1.0)], axis=0), [1.001]).findings
    assert finding.output == 0


def test_probes_find_the_scale_of_many_near_kinks(points: list[int]) -> None:
    x = np.random.default_rng(0).normal(size=2000)
    result = check(lambda x: tf.reduce_sum(tf.nn.relu(x + 1e-5) * x), x)
    assert result.verdict == Verdict.AGREE
    assert sum(points) <= 3 * 8 * (QUICKLY - 1)
    wrong = check(lambda x: tf.reduce_sum(tf.nn.relu(x + 1e-5) * tf.stop_gradient(x)), x)
    assert wrong.verdict == Verdict.MISMATCH


def test_probes_keep_the_resolution_where_one_output_is_small() -> None:
    x = np.linspace(0.3, 1.2, 3000)

    def f(x: tf.Tensor) -> tf.Tensor:
        whole = tf.reduce_sum(tf.sin(x))
        return tf.stack([whole, whole * 1e-3, tf.reduce_sum(tf.sin(x) * tf.cast(tf.range(3000) % 2 * 2 - 1, x.dtype))])

    result = check(f, x)
    assert result.verdict == Verdict.AGREE
    assert result.orders[1].relative_resolution < 1e-8


def test_a_coordinate_that_is_faint_beside_the_others_is_looked_at_without_them(points: list[int]) -> None:
    sizes = np.where(np.arange(18) == 3, 1e-4, 1.0)
    x = np.linspace(0.2, 1.4, 18).astype(np.float32)

    def weighted(error: float) -> Callable[[Any], Any]:
        factor = np.where(np.arange(18) == 3, 1 + error, 1.0)

        @tf.custom_gradient
        def f(x: Any) -> Any:
            weights = tf.constant(sizes, x.dtype)
            return tf.reduce_sum(
                weights * tf.sin(x)
            ), lambda upstream: upstream * weights * tf.cos(x) * tf.constant(factor, x.dtype)

        return f

    result = check(weighted(0.0), x)
    assert result.verdict == Verdict.AGREE
    assert points == [QUICKLY - 1] * 2
    assert result.orders[1].notes == ("18 entries were compared together, in 2 random combinations",)
    points.clear()
    check(weighted(5e-4), x)
    assert len(points) > 2
    assert [finding.index for finding in check(weighted(0.01), x).findings] == [(3,)]


def test_coordinates_that_stay_faint_are_looked_at_one_by_one_after_five_probes(points: list[int]) -> None:
    sizes = 1e-3 ** (np.arange(18) % 3)
    result = check(lambda x: tf.reduce_sum(sizes * tf.sin(x)), np.linspace(0.2, 1.4, 18))
    assert result.verdict == Verdict.AGREE
    assert points == [QUICKLY - 1] * 5 + [18 * (QUICKLY - 1)]


@slices.parametrized("wrong", range(0, 20, 3), lambda places: places[-1:])
def test_so_is_an_output(wrong: int, points: list[int]) -> None:
    matrix = np.random.default_rng(0).normal(size=(20, 40))
    factor = np.where(np.arange(20) == wrong, 1.001, 1.0)
    x = np.linspace(0.2, 1.4, 40).astype(np.float32)

    def product(factor: Any) -> Callable[[Any], Any]:
        @tf.custom_gradient
        def f(x: Any) -> Any:
            weights, factors = tf.constant(matrix, x.dtype), tf.constant(factor, x.dtype)
            return tf.linalg.matvec(
                weights, tf.sin(x)
            ), lambda upstream: tf.linalg.matvec(weights, upstream * factors, transpose_a=True) * tf.cos(x)

        return f

    assert check(product(np.ones(20)), x).verdict == Verdict.AGREE
    assert points == [QUICKLY - 1]
    assert {finding.output for finding in check(product(factor), x).findings} == {wrong}


def test_what_float32_loses_of_second_derivatives_takes_no_close_look(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    gradients_at = Function._gradients_at

    def counted(function: Function, table: Any, *arguments: Any) -> Any:
        taken.append(len(table))
        return gradients_at(function, table, *arguments)

    monkeypatch.setattr(Function, "_gradients_at", counted)
    rng = np.random.default_rng(0)
    into, out = rng.normal(size=(30, 8)) / 3, rng.normal(size=(1, 30))

    def network(slope: float) -> Callable[[Any], Any]:
        @tf.custom_gradient
        def squashed(x: Any) -> Any:
            return (
                tf.tanh(x),
                lambda upstream: (
                    upstream * (1 - slope * tf.tanh(x) ** 2 + (slope - 1) * tf.stop_gradient(tf.tanh(x) ** 2))
                ),
            )

        return lambda x: tf.linalg.matvec(
            tf.constant(out, x.dtype), squashed(tf.linalg.matvec(tf.constant(into, x.dtype), x))
        )

    x = rng.normal(size=8).astype(np.float32)
    assert check(network(1.0), x, order=2).verdict == Verdict.AGREE
    assert taken == [QUICKLY]
    found = check(network(1.001), x, order=2)
    assert (found.orders[1].verdict, found.orders[2].verdict) == (Verdict.AGREE, Verdict.MISMATCH)
