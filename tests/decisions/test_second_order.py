"""Second derivatives of many inputs and outputs: few pairs of random vectors, and few calls, miss no wrong entry."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.sampling import QUICK
from gradcheck.problem.function import Function
from gradcheck.tracing.perturbation import perturbing
from gradcheck.verdict import second_order
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.looks import BEYOND, screened
from gradcheck.verdict.suspicion import worst_coordinates
from tests import slices
from tests.verdicts import check

Array = np.ndarray[Any, Any]
Entry = tuple[int, int, int, float]
"""An output, two inputs, and the error of that second derivative."""


def planted(matrix: Array, *errors: Entry) -> Any:
    """y = sin(A x) with a correct first derivative and a second one with these errors."""

    @tf.custom_gradient
    def nothing(x: tf.Tensor, upstream: tf.Tensor) -> Any:
        def backward(other: tf.Tensor) -> Any:
            parts = [
                tf.where(tf.range(len(x)) == second, error * upstream[output] * other[first], 0.0)
                for output, first, second, error in errors
            ]
            return tf.add_n([tf.zeros_like(x), *parts]), None

        return tf.zeros_like(x), backward

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        inner = tf.linalg.matvec(matrix, x)

        def backward(upstream: tf.Tensor) -> Any:
            return tf.linalg.matvec(matrix, tf.cos(inner) * upstream, transpose_a=True) + nothing(x, upstream)

        return tf.sin(inner), backward

    return f


def drawn(seed: int, outputs: int = 7, inputs: int = 12) -> tuple[np.random.Generator, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(outputs, inputs)) / np.sqrt(inputs), rng.uniform(0.5, 2.0, inputs)


def wrong_elements(f: Any, x: Array) -> list[tuple[str, int | None]]:
    result = check(f, x, order=2)
    assert result.orders[1].verdict == "agree"
    return [(finding.element, finding.output) for finding in result.findings]


@slices.parametrized("seed", range(12), slices.every(6))
def test_a_wrong_entry_among_many_is_caught(seed: int) -> None:
    rng, matrix, x = drawn(seed)
    entry = int(rng.integers(7)), int(rng.integers(12)), int(rng.integers(12)), 1e-6
    assert wrong_elements(planted(matrix), x) == []
    assert wrong_elements(planted(matrix, entry), x) == [(f"x[{entry[2]}]", None)]


@slices.parametrized("other, seed", product(["input", "output", "both"], range(8)), slices.every(9))
def test_wrong_entries_that_could_cancel_are_caught(other: str, seed: int) -> None:
    rng, matrix, x = drawn(seed)
    first, second = ((int(place) for place in rng.choice(size, 2, replace=False)) for size in (7, 12))
    (output, output_too), (place, place_too), column = first, second, int(rng.integers(12))
    one = output, place, column, 1e-4
    two = output_too if other != "input" else output, place_too if other != "output" else place, column, -1e-4
    assert wrong_elements(planted(matrix, one, two), x) == [(f"x[{column}]", None)]


def test_of_few_outputs_the_wrong_one_is_named() -> None:
    _, matrix, x = drawn(0, outputs=3)
    assert wrong_elements(planted(matrix, (1, 2, 5, 1e-3)), x) == [("x[5]", 1)]


@pytest.mark.sliced
def test_a_wrong_entry_among_thousands_is_caught_and_located(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_order, "WIDE", 100)
    for seed in slices.sliced(range(4), slices.every(4)):
        rng, matrix, x = drawn(seed, inputs=300)
        first, second = (int(place) for place in rng.integers(300, size=2))
        assert check(planted(matrix), x, order=2).verdict == "agree"
        wrong = check(planted(matrix, (3, first, second, 1e-4)), x, order=2)
        (finding,) = wrong.findings
        assert finding.element == f"x[{second}]"
        assert wrong.orders[2].inconclusive == 0  # products that the entry explains are not inconclusive
        assert "at least this entry is wrong" in finding.reason
        pair = (3, first, second, 1e-4), (3, second, first, -1e-4)  # these cancel along one direction taken twice
        assert first == second or check(planted(matrix, *pair), x, order=2).findings[0].index in ((first,), (second,))


def test_what_is_not_connected_or_not_finite_among_thousands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_order, "WIDE", 100)
    _, matrix, x = drawn(0, inputs=300)
    (finding,) = check(planted(matrix, (3, 7, 9, np.nan)), x, order=2).findings
    assert (finding.kind, finding.element) == ("non-finite", "x[9]")

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x**3), lambda upstream: tf.stop_gradient(3 * upstream * x**2)

    (finding,) = check(f, x, order=2).findings
    assert finding.kind == "missing"


def test_the_eight_entries_that_look_worst_among_thousands_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    examined = []

    def noted(*arguments: Any) -> Array:
        examined.append(worst_coordinates(*arguments))
        return examined[-1]

    monkeypatch.setattr(second_order, "WIDE", 100)
    monkeypatch.setattr(second_order, "worst_coordinates", noted)
    _, matrix, x = drawn(0, inputs=300)
    wrong = [3, 50, 99, 100, 111, 200, 250, 299]
    assert check(planted(matrix, *((3, 7, place, 1e-4) for place in wrong)), x, order=2).verdict == "mismatch"
    assert sorted(examined[0].tolist()) == wrong


def test_a_gradient_whose_derivative_is_its_own_contradicts_the_values_among_thousands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(second_order, "WIDE", 100)

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x**3), lambda upstream: 4.5 * upstream * x**2

    first, second = check(f, np.linspace(0.5, 2.0, 300), order=2).findings
    assert (first.order, second.order) == (1, 2)
    assert "the other two estimates: differences of function values" in second.reason


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of points at which gradients are taken, call by call."""
    counts, plain = [], Function.gradients_at

    def counted(self: Function, cotangent: Array, points: Array, left: LeftVectors | None = None) -> Array:
        counts.append(len(points))
        return plain(self, cotangent, points, left)

    monkeypatch.setattr(Function, "gradients_at", counted)
    return counts


def test_a_column_is_done_with_after_few_gradients(taken: list[int]) -> None:
    _, matrix, x = drawn(0)
    assert check(planted(matrix), x, order=2).verdict == "agree"
    assert taken == [len(QUICK.offsets)]
    taken.clear()
    assert check(planted(matrix), x, order=2, probes=16).verdict == "agree"
    assert len(taken) == 2


def test_an_unlucky_entry_costs_another_row_and_no_close_look(
    taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Estimate] = []

    def unlucky(*arguments: Any, **of_values: Any) -> Estimate:
        estimate = screened(*arguments, **of_values)
        if of_values:
            return estimate
        if not looks:
            estimate.conclusive[0, 3], estimate.bound[0, 3] = False, np.inf
        looks.append(estimate)
        return estimate

    monkeypatch.setattr(second_order, "screened", unlucky)
    _, matrix, x = drawn(0)
    assert check(planted(matrix), x, order=2).verdict == "agree"
    assert taken == [len(QUICK.offsets)] * 2
    looks.clear()
    assert check(planted(matrix, (2, 3, 4, 0.1)), x, order=2).verdict == "mismatch"


@pytest.mark.parametrize(("unlucky", "closer"), [(5, 0.6), (7, BEYOND)])
def test_a_column_is_sampled_again_between_its_steps_or_beyond_them_if_most_is_in_doubt(
    unlucky: int, closer: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve entries so many are in doubt at first."""
    shrinks: list[float] = []
    sampled = Lines.sampled

    def noted(lines: Lines, stencil: Any, places: Array, shrink: Array) -> Any:
        shrinks.extend(shrink.tolist() if lines.gradients else [])
        return sampled(lines, stencil, places, shrink)

    def doubtful(*arguments: Any, **of_values: Any) -> Estimate:
        estimate = screened(*arguments, **of_values)
        if len(shrinks) == 1:
            estimate.conclusive[0, :unlucky], estimate.bound[0, :unlucky] = False, np.inf
        return estimate

    monkeypatch.setattr(Lines, "sampled", noted)
    monkeypatch.setattr(second_order, "screened", doubtful)
    _, matrix, x = drawn(0)
    assert check(planted(matrix), x, order=2).verdict == "agree"
    assert shrinks[1] / shrinks[0] == pytest.approx(closer)


@pytest.mark.parametrize(("lost", "rows"), [(1e6, 1), (1e7, 2)])
def test_digits_that_are_lost_far_below_the_largest_entry_of_a_column_cost_no_other_row(
    lost: float, rows: int, taken: list[int]
) -> None:
    x = np.linspace(0.4, 1.3, 4)

    def f(x: tf.Tensor) -> Any:
        return 1e3 * (tf.reduce_sum(x**3) - 3.4) + x[1] * ((lost + x[0] ** 2) - lost)

    assert check(f, x, order=2).verdict == "agree"
    assert len(taken) == rows


def test_what_products_of_thousands_lose_costs_no_other_row(taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_order, "WIDE", 100)
    x = np.linspace(0.4, 1.3, 300)
    at_point = float(1e2 * np.sum(x**3))

    def f(x: tf.Tensor) -> Any:
        return 1e2 * tf.reduce_sum(x**3) - at_point + x[1] * ((1e5 + x[0] ** 2) - 1e5)

    assert check(f, x, order=2).verdict == "agree"
    assert taken == [len(QUICK.offsets), 1]


def test_a_network_with_kinks_nearby_is_seen_from_closer(taken: list[int]) -> None:
    rng = np.random.default_rng(0)
    first, second, x = rng.normal(size=(20_000, 8)), rng.normal(size=(7, 20_000)) / 2e4, rng.normal(size=8)

    def f(x: tf.Tensor) -> tf.Tensor:
        kinked = tf.linalg.matvec(second, tf.nn.relu(tf.linalg.matvec(first, x)))
        return kinked + tf.linalg.matvec(second[:, :8], tf.exp(x)) * 2e4

    result = check(f, x, order=2).orders[2]
    assert (result.verdict, result.inconclusive) == ("agree", 0)
    assert result.relative_resolution < 1e-3
    assert max(taken) == len(QUICK.offsets)
    assert len(taken) <= 8
    wrong = check(lambda x: f(x) + planted(second[:, :8], (3, 5, 2, 1.0))(x), x, order=2)
    assert [finding.element for finding in wrong.findings] == ["x[2]"]


def test_what_is_far_off_is_confirmed_by_few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one at the point, one perturbed (four if it moves nothing), a neighbour's or two, two perturbed gradients."""
    calls: list[str] = []

    def noted(name: str) -> Any:
        original = getattr(Function, name)

        def taken(self: Function, *arguments: Any) -> Any:
            calls.append("perturbed" if perturbing() and name == "gradients_at" else name)
            return original(self, *arguments)

        return taken

    for name in ("products", "gradients_at"):
        monkeypatch.setattr(Function, name, noted(name))
    _, matrix, x = drawn(0)
    f = planted(matrix, (2, 5, 6, 0.5))
    assert check(lambda x: f(tf.exp(x)), x, order=2).orders[2].verdict == "mismatch"
    assert 1 + 1 + 1 <= calls.count("products") <= 1 + 4 + 2
    assert calls.count("perturbed") == 2
