"""Many sources of one derivative: which ones are wrong, and how many are searched to find that out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import assert_step, check, explain
from gradcheck.diagnosis import source_comparison
from gradcheck.diagnosis.calls import merged
from gradcheck.diagnosis.source_comparison import CLOSELY, CallProblem
from gradcheck.result import Cause, OrderResult, Reason, Result, Verdict
from gradcheck.verdict.first_order import compare_first, compare_quickly
from gradcheck.verdict.probes import first_order

LAYERS = 4


@tf.custom_gradient
def half_wrong(x: Any) -> Any:
    return tf.tanh(x), lambda dy: dy * (1 - 0.5 * tf.tanh(x) ** 2)


def explained(wrong: set[int], activation: Any = half_wrong) -> Result:
    """The result of explain for a training step of LAYERS layers, some of them with another activation."""
    rng = np.random.default_rng(0)
    kernels = [tf.Variable(np.linalg.qr(rng.normal(size=(2, 2)))[0], name=f"kernel{i}") for i in range(LAYERS)]
    biases = [tf.Variable(0.1 * rng.normal(size=2), name=f"bias{i}") for i in range(LAYERS)]
    x = tf.constant(rng.normal(size=(3, 2)))

    def step() -> Any:
        with tf.GradientTape() as tape:
            y = x
            for number, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
                y = (activation if number in wrong else tf.tanh)(tf.matmul(y, kernel) + bias)
            loss = tf.reduce_sum(y**2)
        return tape.gradient(loss, [*kernels, *biases])

    return explain(step)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the sources that are searched for a wrong entry."""
    names: list[str] = []

    def noted(problem: Any, *arguments: Any) -> Any:
        names.append(problem.sources[0].name)
        return first_order(problem, *arguments)

    monkeypatch.setattr(source_comparison, "first_order", noted)
    return names


def test_of_many_sources_with_one_cause_one_is_searched_and_all_are_told(searched: list[str]) -> None:
    result = explained(set(range(LAYERS)))
    assert [source.right for source in result.sources] == [False] * 2 * LAYERS
    assert {source.diagnosis.cause for source in result.sources if source.diagnosis} == {Cause.CUSTOM_GRADIENT}
    assert searched == ["kernel0"]
    findings = {finding.input: finding for finding in result.findings}
    assert findings["kernel0"].index is not None
    assert findings["bias3"].index is None
    assert findings["bias3"].reason.startswith("along a direction that moves all of its elements, autodiff gives")


def test_the_sources_behind_one_wrong_layer_are_wrong_and_no_others(searched: list[str]) -> None:
    result = explained({2})
    right = {source.name: source.right for source in result.sources}
    assert right == {f"{kind}{i}": i > 2 for kind in ("kernel", "bias") for i in range(LAYERS)}
    assert searched == ["kernel0"]
    for source in result.sources:
        assert source.right or (source.diagnosis and source.diagnosis.place and source.diagnosis.place.code) == (
            "def half_wrong(x: Any) -> Any:"
        )


def test_every_cause_is_searched_for(searched: list[str]) -> None:
    @tf.custom_gradient
    def too_large(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * tf.cos(x) * 1.1

    variables = [tf.Variable(0.3 + 0.1 * i, dtype=tf.float64, name=f"v{i}") for i in range(2 * CLOSELY)]

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = half_wrong(tf.add_n(variables[::2])) + too_large(tf.add_n(variables[1::2]))
        return tape.gradient(loss, variables)

    result = explain(step)
    assert searched == ["v0", "v1"]
    codes = [source.diagnosis.place.code for source in result.sources if source.diagnosis and source.diagnosis.place]
    assert codes == ["def half_wrong(x: Any) -> Any:", "def too_large(x: Any) -> Any:"] * CLOSELY


def test_what_no_operation_explains_is_compared_with_all_care_as_far_as_that_goes(
    searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_comparison, "MOST", 2)
    result = explained({3}, lambda x: tf.tanh(x) + tf.stop_gradient(x**2))
    told = [source.right for source in result.sources]
    assert told.count(False) == CLOSELY + 2
    assert told.count(None) == 2 * LAYERS - CLOSELY - 2
    assert result.verdict is Verdict.MISMATCH
    assert Reason.TOO_EXPENSIVE in result.orders[1].reasons
    assert result.orders[1].notes[-1].startswith(f"{told.count(None)} more sources")


def test_what_agrees_behind_a_wrong_operation_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(problem: Any, lines: Any, *arguments: Any) -> Any:
        seen.append(len(lines))
        return compare_first(problem, lines, *arguments)

    monkeypatch.setattr(source_comparison, "compare_first", noted)

    def blind(*arguments: Any) -> Any:
        table = compare_quickly(*arguments)
        verdict = table.verdict.copy()
        verdict[-1] = Verdict.AGREE.value
        return replace(table, verdict=verdict)

    monkeypatch.setattr(source_comparison, "compare_quickly", blind)
    result = explained({3})
    assert seen == [1]
    assert [source.right for source in result.sources] == [False] * 2 * LAYERS


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_few_runs_tell_which_sources_of_code_that_cannot_be_traced_are_wrong(dtype: str) -> None:
    runs, right = counted_runs(dtype, lost=False)
    assert right == [True, True, True, True]
    assert runs <= 40
    runs, right = counted_runs(dtype, lost=True)
    assert right == [False, False, False, True]
    assert runs <= (200 if dtype == "float64" else 360)  # float32 shows less in few values


def counted_runs(dtype: str, lost: bool) -> tuple[int, list[bool | None]]:
    """The number of runs that explain makes of a step that Python reads, and which sources it calls right."""
    rng, runs = np.random.default_rng(0), np.zeros(1, int)
    sizes = {"first": (3, 4), "bias": (4,), "second": (4, 2), "beside": (2,)}
    variables = [tf.Variable(rng.normal(size=size), dtype=dtype, name=name) for name, size in sizes.items()]
    x = tf.constant(rng.normal(size=(5, 3)), dtype)

    def step() -> Any:
        counted()
        first, bias, second, beside = variables
        with tf.GradientTape() as tape:
            y = tf.tanh(x @ first + bias) @ second
            part = float(tf.reduce_sum(y**3).numpy())
            loss = tf.reduce_sum(y**2) + tf.reduce_sum(beside**2) + (part if lost else 0.0)
        return tape.gradient(loss, variables)

    def counted() -> None:
        runs[0] += 1

    result = explain(step)
    return int(runs[0]), [source.right for source in result.sources]


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_what_float32_hides_is_compared_in_float64(factor: float) -> None:
    """A bias whose derivative is small beside those of the kernels; if it is wrong, it is not called plainly right."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), *(keras.layers.Dense(16, "tanh") for _ in range(3))])
    small = tf.Variable([1e-2, -2e-2], name="small")
    rng = np.random.default_rng(2)
    x, y = (tf.constant(rng.normal(size=(8, width)), tf.float32) for width in (3, 16))

    @tf.custom_gradient
    def off(value: Any) -> Any:
        return 1e-2 * tf.sin(value), lambda upstream: 1e-2 * factor * upstream * tf.cos(value)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2) + tf.reduce_sum(off(small))
        return tape.gradient(loss, [*model.trainable_variables, small])

    *others, last = explain(step).sources
    assert [(source.right, source.note) for source in others if factor == 1.0] == [(True, "")] * 6 * (factor == 1.0)
    assert (last.right is True and not last.note) == (factor == 1.0)


@pytest.mark.parametrize(("seed", "activation"), [(3, "sigmoid"), (6, "tanh"), (12, "tanh")])
def test_a_float32_step_is_compared_as_by_assert_step(seed: int, activation: str) -> None:
    """The loss of inputs that are not scaled, whose differences show little in float32."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Dense(8, activation), keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", "mse")
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, high, (32, width)).astype("float32") for high, width in ((256, 4), (2, 1)))
    model(x)
    result = explain(model.train_step, (x, y))
    assert [source.right for source in result.sources] == [True] * 4, str(result)
    assert not any("would not have shown" in source.note for source in result.sources)
    assert assert_step(model.train_step, (x, y)).verdict == "agree"


def test_a_wrong_kernel_is_searched_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small error in float32, in which each entry by itself takes many values until it shows."""
    points, values = 0, CallProblem._values

    def counted(problem: CallProblem, table: Any) -> Any:
        nonlocal points
        points += len(table)
        return values(problem, table)

    monkeypatch.setattr(CallProblem, "_values", counted)
    rng = np.random.default_rng(1)
    kernels = [tf.Variable(rng.normal(size=size) / 4, dtype=tf.float32) for size in ((3, 16), (16, 16), (16, 1))]
    x, y = (tf.constant(rng.normal(size=(8, width)), tf.float32) for width in (3, 1))

    @tf.custom_gradient
    def off(kernel: Any) -> Any:
        return tf.identity(kernel), lambda upstream: upstream * 1.02

    def step() -> Any:
        with tf.GradientTape() as tape:
            first, second, third = kernels
            loss = tf.reduce_mean((tf.tanh(tf.tanh(x @ first) @ off(second)) @ third - y) ** 2)
        return tape.gradient(loss, kernels)

    result = explain(step)
    assert [source.right for source in result.sources] == [True, False, True]
    assert points < 1000


def test_notes_that_count_entries_are_one() -> None:
    variables = [tf.Variable(tf.linspace(0.1, 1.0, 30 + i), name=f"v{i}") for i in range(3)]

    def step() -> Any:
        found = []
        for variable in variables:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(variable) ** 2)
            found.append(tape.gradient(loss, variable))
        return found

    compared = [f"{30 + i} entries were compared together, in 1 random combination" for i in range(3)]
    kink = "{} of {} entries lie at a kink, between the one-sided slopes"
    orders = [OrderResult(1, Verdict.AGREE, notes=(note, kink.format(2, 3))) for note in compared]
    total = ("93 entries of 3 sources were compared together, in 3 random combinations",)
    assert merged(orders, ()).orders[1].notes == (*total, kink.format(6, 9))
    assert explain(step).orders[1].notes == total
    names = {f"x{i}": np.linspace(0.1, 1.0, 30) for i in range(2)}
    (note,) = check(lambda x0, x1: tf.reduce_sum(tf.sin(x0) * x1), *names.values(), rtol={"x0": 1e-3}).orders[1].notes
    assert note == "60 entries of 2 sources were compared together, in 2 random combinations"
