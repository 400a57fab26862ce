"""Functions at many points: a graph gives the same as calls, and functions that cannot be trusted are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.problem import mapped
from gradcheck.problem.mapped import Mapped, Points, TracedGraph
from gradcheck.tracing.perturbation import perturbed_gradients

Array = np.ndarray[Any, Any]
POINTS = np.linspace(-1.0, 2.0, 24).reshape(12, 2)


def called(f: Callable[..., Any], point: Array) -> Array | None:
    try:
        return np.asarray(f(tf.constant(point)))
    except Exception:
        return None


def taken(f: Callable[..., Any], points: Array = POINTS) -> tuple[Mapped, list[Array | None]]:
    """The Mapped form of f, and f's only result at the points."""
    whole = Mapped(lambda tensors: [f(tensors[0])], 2.0**-53)
    return whole, [None if values is None else values[0] for values in whole([points])]


def in_a_graph(f: Callable[..., Any], points: Array = POINTS) -> bool:
    """Whether a graph was used; its results must be those of calls."""
    whole, values = taken(f, points)
    for value, point in zip(values, points, strict=True):
        expected = called(f, point)
        assert (value is None) == (expected is None)
        if value is not None and expected is not None:
            np.testing.assert_allclose(value, expected, rtol=1e-15)
    return whole._trusted


pytestmark = pytest.mark.usefixtures("graphs")  # tracing always pays


def test_a_clock_that_does_not_move_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.process_time", lambda: 7.0)
    assert in_a_graph(lambda x: tf.sin(x) * x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.sin(x) * x,
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: -x),
        tf.function(lambda x: tf.exp(x)),
        tf.function(lambda x: tf.exp(x), jit_compile=True),
        lambda x: tf.py_function(lambda y: y * 2.0, [x], tf.float64),
        lambda x: tf.cast(x, tf.bfloat16),
        lambda x: tf.complex(x, x),
        lambda x: tf.math.log(x),
    ],
    ids=["operations", "cond", "tf.function", "XLA", "py_function", "bfloat16", "complex", "NaN at some points"],
)
def test_what_can_be_traced_is_taken_in_a_graph(f: Callable[..., Any]) -> None:
    with np.errstate(invalid="ignore"):
        whole, values = taken(f)
    assert whole._trusted
    for value, point in zip(values, POINTS, strict=True):
        assert value is not None
        np.testing.assert_array_equal(value, np.asarray(f(tf.constant(point))))


def test_a_graph_that_has_nan_where_calls_have_numbers_is_not_trusted() -> None:
    assert not in_a_graph(lambda x: x if tf.executing_eagerly() else x * float("nan"))


def python_branch(x: Any) -> Any:
    return x if x[0] > 0 else -x


def numpy_inside(x: Any) -> Any:
    return tf.constant(np.sin(x.numpy()))


def variable_inside(x: Any) -> Any:
    return tf.Variable(x) * 2.0


def other_code_when_traced(x: Any) -> Any:
    return x * 2.0 if tf.executing_eagerly() else x * 2.000001


def throws_at_some_points(x: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(x[0], 1.0)]):
        return tf.identity(x)


def throws_in_python(x: Any) -> Any:
    if x.numpy()[0] > 1.0:
        raise ValueError("too large")
    return x


def known_value(x: Any) -> Any:
    value = tf.get_static_value(x)
    return x * 3.0 if value is not None and value[0] > 0 else x


def number_of_ones(x: Any) -> Any:
    return tf.boolean_mask(x, x > 0)


@pytest.mark.parametrize(
    "f",
    [
        python_branch,
        numpy_inside,
        variable_inside,
        other_code_when_traced,
        throws_at_some_points,
        throws_in_python,
        known_value,
    ],
)
def test_what_cannot_be_trusted_in_a_graph_is_called(f: Callable[..., Any]) -> None:
    assert not in_a_graph(f)


@pytest.mark.parametrize(("size", "calls"), [(2, 3), (2**12, 6)])
def test_what_no_graph_repeats_is_called_once_at_each_small_point(size: int, calls: int) -> None:
    called: list[float] = []

    def f(tensors: list[Any]) -> list[Any]:
        called.append(float(tensors[0][0].numpy()))
        return [tf.constant(np.sin(tensors[0].numpy()))]

    points = [np.arange(3.0)[:, None] + np.zeros(size)]
    whole = Mapped(f, 2.0**-53)
    whole.try_to_trace(Points.of(points))
    assert whole.untraceable
    called.clear()
    for _ in range(2):
        for (value,), point in zip(whole(points), points[0], strict=True):  # type: ignore[misc]
            np.testing.assert_array_equal(value, np.sin(point))
    assert len(called) == calls


def test_results_may_have_another_size_at_each_point() -> None:
    assert in_a_graph(number_of_ones)


def test_a_graph_is_no_substitute_while_gradients_are_perturbed() -> None:
    def gradient(tensors: list[Any]) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = tf.sin(tensors[0])
        return list(tape.gradient(value, tensors))

    whole = Mapped(gradient, 2.0**-53)
    plain = whole([POINTS])
    assert whole._trusted
    with perturbed_gradients(0):
        moved = whole([POINTS])
    assert any(np.any(one[0] != other[0]) for one, other in zip(plain, moved, strict=True) if one and other)


def test_no_point_stands_alone_where_a_graph_rounds_otherwise() -> None:
    def f(x: Any) -> Any:
        return tf.sin(x) if tf.executing_eagerly() else tf.sin(x) * (1 + 8 * 2.0**-52)

    whole, values = taken(f)
    assert whole._trusted
    np.testing.assert_array_equal(values, np.sin(POINTS) * (1 + 8 * 2.0**-52))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of points in each run of a graph."""
    counts: list[int] = []
    together, alone = TracedGraph.rows, TracedGraph.__call__

    def rows(self: TracedGraph, points: Any, shared: Any) -> Any:
        counts.append(len(points[0]))
        return together(self, points, shared)

    def call(self: TracedGraph, tensors: list[Any]) -> Any:
        counts.append(1)
        return alone(self, tensors)

    monkeypatch.setattr(TracedGraph, "rows", rows)
    monkeypatch.setattr(TracedGraph, "__call__", call)
    return counts


VARIABLE = tf.Variable(2.0, dtype=tf.float64)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: VARIABLE * x,
        tf.function(lambda x: VARIABLE * x),
        lambda x: tf.cond(x[0] > 0, lambda: VARIABLE * x, lambda: -x),
        lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, VARIABLE * y), (0, x))[1],
    ],
    ids=["operations", "tf.function", "cond", "while_loop"],
)
def test_a_graph_without_a_state_is_run_at_all_points_by_one_call(f: Callable[..., Any], runs: list[int]) -> None:
    assert in_a_graph(f)
    assert runs == [3, len(POINTS)]


def updated(x: Any) -> Any:
    """Twice the point, by way of a variable, in which simultaneous runs would interfere."""
    VARIABLE.assign(x[0])
    try:
        return tf.stack([VARIABLE + x[0], 2 * x[1]])
    finally:
        VARIABLE.assign(2.0)


@pytest.mark.parametrize(
    "f",
    [
        updated,
        tf.function(updated, autograph=False),
        lambda x: tf.py_function(lambda y: y * 2.0, [x], tf.float64),
        number_of_ones,
    ],
    ids=["variable", "in a tf.function", "py_function", "several sizes"],
)
def test_a_graph_with_a_state_is_run_point_by_point_and_not_again_where_it_was_compared(
    f: Callable[..., Any], runs: list[int]
) -> None:
    assert in_a_graph(f)
    assert runs == [1] * len(POINTS)


def test_of_points_that_take_long_one_call_takes_few(runs: list[int]) -> None:
    whole = Mapped(lambda tensors: [tf.sin(tensors[0])], 2.0**-53, seconds=mapped.TOGETHER_SECONDS / 2)
    whole._graph = whole._graph_of([tf.constant(POINTS[0])], [])
    whole._tried = whole._trusted = True
    whole([POINTS])
    assert runs == [2] * (len(POINTS) // 2)


def test_shared_tensors_are_given_at_every_point() -> None:
    whole = Mapped(lambda tensors, weight: [tensors[0] * weight], 2.0**-53)
    for weight in (2.0, 3.0):
        values = whole([POINTS], [tf.constant(weight, tf.float64)])
        np.testing.assert_array_equal([value[0] for value in values if value is not None], POINTS * weight)
    assert whole._trusted


def test_variables_and_attributes_are_those_of_eager_code_afterwards() -> None:
    kept: list[Any] = []
    variable = tf.Variable(0.0, dtype=tf.float64)

    def f(x: Any) -> Any:
        kept[:] = [x * 2.0]
        variable.assign(x[0])
        return variable * x

    assert in_a_graph(f)
    assert isinstance(kept[0].numpy(), np.ndarray)


@pytest.mark.parametrize("traced", [False, True])
def test_points_are_made_by_the_block(monkeypatch: pytest.MonkeyPatch, *, traced: bool) -> None:
    monkeypatch.setattr(Mapped, "_pays", lambda self, count: traced)
    monkeypatch.setattr(mapped, "BLOCK_BYTES", 5 * POINTS[0].nbytes)
    asked: list[int] = []

    def at(rows: slice | list[int]) -> list[Array]:
        asked.append(len(POINTS[rows]))
        return [POINTS[rows]]

    whole = Mapped(lambda tensors: [tf.sin(tensors[0])], 2.0**-53)
    for row, values in whole.each(Points(len(POINTS), at)):
        assert values is not None
        np.testing.assert_allclose(values[0], np.sin(POINTS[row]), rtol=1e-15)
    assert max(asked) == 5
    assert whole._trusted == traced


def test_what_throws_beside_the_points_that_were_compared_is_called_from_the_first_on() -> None:
    def throws(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, POINTS[4])]):
            return tf.sin(x) if tf.executing_eagerly() else tf.sin(x) * (1 + 8 * 2.0**-52)

    whole, values = taken(throws)
    assert not whole._trusted
    assert values[4] is None
    rest = [value for value in values if value is not None]
    np.testing.assert_array_equal(rest, np.delete(np.sin(POINTS), 4, axis=0))


def test_the_user_s_options_of_grappler_stay() -> None:
    before = tf.config.optimizer.get_experimental_options()
    assert in_a_graph(tf.sin)
    after = tf.config.optimizer.get_experimental_options()
    assert {**after, "disable_meta_optimizer": False} == {**before, "disable_meta_optimizer": False}
    assert not after["disable_meta_optimizer"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        assert in_a_graph(tf.cos)
        assert tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def test_a_cheap_function_of_few_points_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    whole = Mapped(lambda tensors: [tf.sin(tensors[0])], 2.0**-53)
    whole._seconds, whole._calls = 1e-5, 3
    assert not whole._pays(1000)
    whole._seconds = 1e-2
    assert whole._pays(30)
    assert not whole._pays(15)
    whole._calls = 30
    assert whole._pays(15)
    whole._seconds, whole._calls = 0.2, 3
    assert whole._pays(8)


def test_a_function_that_is_called_at_one_point_again_and_again_is_traced_once_it_is_measured() -> None:
    eager: list[bool] = []

    def f(tensors: list[Any]) -> list[Any]:
        eager.append(tf.executing_eagerly())
        return [tf.sin(tensors[0])]

    whole = Mapped(f, 2.0**-53)
    for point in POINTS:
        np.testing.assert_array_equal(whole([point[None]])[0], [np.sin(point)])
    assert sum(eager) < len(POINTS)


def test_what_rounding_moves_is_trusted_within_it_and_no_more() -> None:
    def otherwise_traced(error: float, scale: float) -> Callable[[Any], Any]:
        return lambda x: tf.sin(scale * x) + (0.0 if tf.executing_eagerly() else error)

    for error, scale, trusted in ((1e-12, 1e5, True), (1e-12, 1.0, False), (1e-8, 1e5, False), (1e-7, 1e12, False)):
        whole, _ = taken(otherwise_traced(error, scale))
        assert (whole._trusted) == trusted, (error, scale)


def test_a_function_that_is_known_is_traced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its known time saves the timed calls; expected calls count as if they had been requested already."""
    monkeypatch.undo()
    calls = []

    def f(tensors: list[Any]) -> list[Any]:
        calls.append(tf.executing_eagerly())
        return [tf.sin(tensors[0])]

    for expected, seconds, eager in ((100, 1e-2, 3), (0, 1e-2, 4), (100, 1e-5, 4)):
        calls.clear()
        Mapped(f, 2.0**-53, expected, seconds)([POINTS[:4]])
        assert sum(calls) == eager, (expected, seconds)


def test_what_the_trace_of_a_function_took_tells_what_that_of_its_gradient_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    function = Mapped(lambda tensors: [tf.sin(tensors[0])], 2.0**-53, 10**6, 1.0)
    function([POINTS])
    assert function._trusted
    assert function._trace_calls is not None
    assert function._trace_calls > 0
    for calls, traced in ((1.0, True), ((len(POINTS) - 3) / mapped.TRACE_RATIO, False)):
        function._trace_calls = calls
        eager: list[bool] = []

        def gradient(tensors: list[Any], eager: list[bool] = eager) -> list[Any]:
            eager.append(tf.executing_eagerly())
            return [tf.cos(tensors[0])]

        whole = Mapped(gradient, 2.0**-53, function=function)
        np.testing.assert_array_equal([one[0] for one in whole([POINTS]) if one is not None], np.cos(POINTS))
        assert whole._trusted == traced
        assert sum(eager) == (mapped.COMPARED - 1 if traced else len(POINTS))


def listed(f: Callable[[Any, Any], Any]) -> tuple[Mapped, list[int]]:
    """A Mapped function that promises to run the same operations at all points, and a count of `f`'s calls in
    Python."""
    calls = [0]

    def compute(tensors: list[Any], weight: Any) -> list[Any]:
        calls[0] += 1
        return [f(tensors[0], weight)]

    return Mapped(compute, 2.0**-53, straight=True), calls


def test_the_same_operations_at_all_points_are_listed_by_three_calls() -> None:
    whole, calls = listed(lambda x, weight: tf.sin(x) * weight)
    for weight in (2.0, 3.0):
        values = whole([POINTS], [tf.constant(weight, tf.float64)])
        np.testing.assert_array_equal([value[0] for value in values if value is not None], np.sin(POINTS) * weight)
    assert calls == [3]


def test_what_a_list_is_compared_with_moves_every_coordinate() -> None:
    """A coordinate that is the same at the first, the middle and the last point, and is read where it cannot be
    seen."""
    points = np.array([[0.5, 0.25], *[[0.5, 0.75]] * 3, [1.0, 0.25], *[[0.5, 0.75]] * 3, [1.5, 0.25]])
    whole, _ = listed(lambda x, weight: tf.sin(x[0]) * tf.constant(x[1].numpy()) * weight)
    values = whole([points], [tf.constant(2.0, tf.float64)])
    expected = [2 * np.sin(x) * y for x, y in points]
    np.testing.assert_allclose([value[0] for value in values if value is not None], expected, rtol=1e-15)


def test_few_points_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mapped, "_pays", lambda self, count: False)
    whole, calls = listed(lambda x, weight: tf.sin(x) * weight)
    whole([POINTS[: mapped.LISTED - 1]], [tf.constant(2.0, tf.float64)])
    assert calls == [mapped.LISTED - 1]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, weight: (tf.sin(x) if x[0] < 1 else tf.cos(x)) * weight,
        lambda x, weight: tf.sin(x) * tf.constant(weight.numpy()),
    ],
)
def test_a_broken_promise_means_calls(monkeypatch: pytest.MonkeyPatch, f: Callable[[Any, Any], Any]) -> None:
    monkeypatch.setattr(Mapped, "_pays", lambda self, count: False)
    weight = tf.constant(2.0, tf.float64)
    whole, _ = listed(f)
    values = whole([POINTS], [weight])
    expected = [f(tf.constant(point), weight) for point in POINTS]
    np.testing.assert_array_equal([value[0] for value in values if value is not None], expected)


def test_what_throws_at_a_listed_point_is_no_value_there() -> None:
    def f(x: Any, weight: Any) -> Any:
        return tf.debugging.check_numerics(tf.where(x == POINTS[3], np.inf, x), "Inf") * weight

    whole, _ = listed(f)
    values = whole([POINTS], [tf.constant(2.0, tf.float64)])
    assert [row for row, value in enumerate(values) if value is None] == [3]
