"""Inputs for users' tests: special values occur, bounds are kept, failures shrink to plain numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies import arguments_of, tensors
from gradcheck.strategies.inputs import DTYPES, PARTS, numpy_dtype
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import gradcheck
from gradcheck.operations.domains import DOMAINS
from tests import slices
from tests.verdicts import check

FLOATING = [dtype for dtype in DTYPES if dtype.startswith(("float", "bfloat"))]
ALWAYS = settings(max_examples=2000, database=None, derandomize=True)
UNSHRUNK = settings(ALWAYS, phases=[Phase.generate])


def sample(strategy: st.SearchStrategy[Any], examples: int = 100) -> list[Any]:
    """The examples that Hypothesis generates; all of its health checks stay on."""
    drawn: list[Any] = []

    @settings(max_examples=examples, database=None, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(strategy)
    def run(value: Any) -> None:
        drawn.append(value)

    run()
    return drawn


def first(strategy: st.SearchStrategy[Any], condition: Callable[[Any], Any] = lambda _: True) -> Any:
    """The simplest example that meets a condition."""
    return find(strategy, lambda value: bool(condition(value)), settings=ALWAYS)


def occurs(strategy: st.SearchStrategy[Any], condition: Callable[[Any], Any]) -> bool:
    """Whether an example meets a condition; it is not shrunk."""
    try:
        find(strategy, lambda value: bool(condition(value)), settings=UNSHRUNK)
    except NoSuchExample:
        return False
    return True


def exact(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


BOUNDS: list[Any] = [
    *DOMAINS,
    (0.0, 1.0),
    (-1.0, 1.0),
    (0.1, 0.9),
    (None, -7.0),
    (0.995, 1.005),
    (100, 2000),
    (1e4, None),
]


SHAPES = ((3,), (None, 2), (70,))
ONE_SHAPE_EACH = [(dtype, SHAPES[place % len(SHAPES)]) for place, dtype in enumerate(DTYPES)]


@slices.parametrized(("dtype", "shape"), product(DTYPES, SHAPES), lambda _: ONE_SHAPE_EACH, ids=str)
def test_bounds_are_kept_by_every_dtype(dtype: str, shape: tuple[int | None, ...]) -> None:
    looked_at, refused = 0, list[Any]()
    for domain in BOUNDS:
        closed = domain in ("nonnegative", "probabilities")
        low, high = (DOMAINS[domain].low, DOMAINS[domain].high) if isinstance(domain, str) else domain
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        try:
            strategy = tensors(shape, dtype, domain)
        except ValueError:
            refused.append(domain)
            continue
        for array in sample(strategy, 40 if slices.exhaustively else 15):
            assert array.dtype == numpy_dtype(dtype)
            parts = np.stack([exact(array).real, exact(array).imag]) if dtype in PARTS else exact(array)
            assert np.all(np.isfinite(parts))
            assert np.all((parts >= low) & (parts <= high) if closed else (parts > low) & (parts < high)), (
                domain,
                array,
            )
            if dtype not in ("int32", "int64", "bool"):
                tiny = float(ml_dtypes.finfo(numpy_dtype(PARTS.get(dtype, dtype))).smallest_normal)
                assert np.all((parts == 0) | (np.abs(parts) >= tiny))
            looked_at += array.size
    assert looked_at > 300
    assert not refused or dtype in ("int32", "int64", "bool")


SPECIAL: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "zero": lambda x: np.any(x == 0),
    "one": lambda x: np.any(x == 1),
    "tie": lambda x: len(np.unique(x)) < x.size,
    "tie away from zero": lambda x: x[0] == x[1] not in (0, 1),
    "whole": lambda x: np.any(x == 5),
    "half": lambda x: np.any(x == 2.5),
    "nothing special": lambda x: np.all(x != np.rint(x)) and len(np.unique(x)) == x.size,
}


EACH_KIND_ONCE = [(FLOATING[place % len(FLOATING)], kind) for place, kind in enumerate(SPECIAL)]


@slices.parametrized(("dtype", "kind"), product(FLOATING, SPECIAL), lambda _: EACH_KIND_ONCE)
def test_special_values_occur(dtype: str, kind: str) -> None:
    assert occurs(tensors((3,), dtype).map(exact), SPECIAL[kind])


@slices.parametrized(
    ("dtype", "tiny", "huge"),
    [("float16", 1e-3, 900.0), *((one, 1e-11, 1e12) for one in FLOATING[:2])],
    lambda cases: cases[1:2],
)
def test_magnitudes_are_tiny_and_huge(dtype: str, tiny: float, huge: float) -> None:
    strategy = tensors((2,), dtype)
    assert occurs(strategy, lambda x: np.any((x != 0) & (np.abs(exact(x)) < tiny)))
    assert occurs(strategy, lambda x: np.any(exact(x) > huge))
    assert occurs(strategy, lambda x: np.any(exact(x) < -huge / 2))


@pytest.mark.parametrize("dtype", FLOATING)
def test_values_lie_near_both_ends_as_near_as_the_dtype_has_them(dtype: str) -> None:
    near = max(2 * float(ml_dtypes.finfo(numpy_dtype(dtype)).eps), 1e-5)
    assert (
        1 < first(tensors((2,), dtype, (1, 2)), lambda x: np.any(exact(x) <= 1 + near)).astype(float).min() <= 1 + near
    )
    assert (
        2 - near <= first(tensors((2,), dtype, (1, 2)), lambda x: np.any(exact(x) >= 2 - near)).astype(float).max() < 2
    )


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "int32"])
def test_zero_and_one_are_probabilities_and_no_numbers_between_them(dtype: str) -> None:
    closed = np.concatenate(sample(tensors((2,), dtype, "probabilities")))
    assert {0, 1} <= set(closed.real.tolist())
    if dtype != "int32":
        between = np.concatenate(sample(tensors((2,), dtype, (0, 1))))
        assert not {0, 1} & set(between.real.tolist())


def test_integers_of_a_range_are_all_drawn() -> None:
    assert set(np.concatenate(sample(tensors((3,), "int64", range(4)))).tolist()) == {0, 1, 2, 3}
    assert {9, 0} <= set(np.concatenate(sample(tensors((3,), "int32", range(10)), 200)).tolist())
    assert set(np.concatenate(sample(tensors((3,), "bool"))).tolist()) == {True, False}


def test_large_arrays_are_spread_with_a_few_special_values() -> None:
    arrays = sample(tensors((500,), domain=(-1, 1)), 50)
    assert all(len(np.unique(array)) >= 496 for array in arrays)
    assert any(np.any(array == 0) for array in arrays)
    assert all(set(array.tolist()) == set(range(10)) for array in sample(tensors((500,), "int32", range(10)), 20))


def test_a_free_dimension_is_empty_one_or_more() -> None:
    sizes = [array.shape for array in sample(tensors((None, 3)), 300)]
    assert {size for size, _ in sizes} == {0, 1, 2, 3, 4}
    assert 0.01 < np.mean([size == 0 for size, _ in sizes]) < 0.12
    assert {array.shape for array in sample(tensors((2, None)), 200)} == {(2, size) for size in range(5)}
    assert {0, 1, 2} == {array.ndim for array in sample(tensors(None), 100)} - {3}


def test_shapes_may_be_a_strategy() -> None:
    shapes = st.tuples(st.integers(2, 3), st.just(None))
    assert {array.shape[0] for array in sample(tensors(shapes))} == {2, 3}


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_shrink_to_zeros(dtype: str) -> None:
    assert first(tensors((2, 2), dtype)).tolist() == np.zeros((2, 2), numpy_dtype(dtype)).tolist()
    assert first(tensors((None, 2), dtype), len).tolist() == np.zeros((1, 2), numpy_dtype(dtype)).tolist()


def test_arrays_shrink_to_the_plainest_numbers_and_the_fewest_rows() -> None:
    assert first(tensors((2,), "float32", "positive")).tolist() == [1, 1]
    assert first(tensors((None,)), lambda x: x.size >= 3 and 1 in x).tolist() == [0, 0, 1]
    assert first(tensors((None, None)), lambda x: 2 in x).tolist() == [[2]]
    assert first(tensors((3,)), lambda x: np.any(x > 1e6))[:2].tolist() == [0, 0]


def test_a_gradient_that_is_wrong_at_a_zero_is_found_and_shrunk() -> None:
    @tf.custom_gradient
    def product(x):
        y = tf.reduce_prod(x)
        return y, lambda upstream: upstream * tf.math.divide_no_nan(y, x)

    def is_wrong(x: np.ndarray[Any, Any]) -> bool:
        return check(product, x).verdict == "mismatch"

    assert sorted(first(tensors((2,), domain=(-9, 9)), is_wrong).tolist()) == [0, 1]


@pytest.mark.parametrize("dtype", [tf.float16, np.float16, np.dtype("float16"), "float16"], ids=repr)
def test_a_dtype_may_be_of_numpy_or_tensorflow(dtype: Any) -> None:
    assert first(tensors((2,), dtype)).dtype == np.float16


BATCH = [
    tf.TensorSpec((None, 3)),
    {"a": tf.TensorSpec((None,), tf.int32, name="labels"), "b": (tf.TensorSpec((2, None)),)},
]


def test_arguments_have_the_structure_of_the_signature_and_one_batch() -> None:
    given_arguments = sample(arguments_of(BATCH, {"labels": range(5)}))
    for x, others in given_arguments:
        assert (x.dtype, others["a"].dtype) == (np.float32, np.int32)
        assert x.shape == (len(others["a"]), 3)
        assert isinstance(others["b"], tuple)
        assert np.all((others["a"] >= 0) & (others["a"] < 5))
    assert {len(x) for x, _ in given_arguments} == {0, 1, 2, 3, 4}
    assert any(others["b"][0].shape[1] != len(x) for x, others in given_arguments)
    assert any(np.any(x < 0) for x, _ in given_arguments)


def test_a_batch_shrinks_sample_by_sample() -> None:
    x, others = first(arguments_of(BATCH), lambda one: np.sum(one[1]["a"] == 3) == 1 and len(one[0]) == 2)
    assert (x.tolist(), sorted(others["a"].tolist())) == ([[0, 0, 0], [0, 0, 0]], [0, 3])


class Pair(NamedTuple):
    left: Any
    right: Any


def test_one_spec_named_tuples_and_other_dtypes() -> None:
    assert first(arguments_of(tf.TensorSpec((2,), tf.bfloat16), "positive")).tolist() == [1, 1]
    pair = first(arguments_of(Pair(tf.TensorSpec(()), tf.TensorSpec((1,), tf.bool))))
    assert (type(pair), pair.left.tolist(), pair.right.tolist()) == (Pair, 0, [False])
    assert first(arguments_of([])) == []


def test_the_signature_of_a_function() -> None:
    @tf.function(input_signature=[tf.TensorSpec((None, 2)), tf.TensorSpec((), tf.float64)])
    def scaled(x, factor):
        return tf.cast(x, tf.float64) * factor

    concrete = scaled.get_concrete_function()
    for function, domain in ((scaled, {1: "positive"}), (concrete, {"factor": "positive"})):
        for arguments in sample(arguments_of(function, domain), 30):
            assert isinstance(arguments, tuple)
            assert function(*arguments).shape == arguments[0].shape
            assert arguments[1] > 0


def test_a_concrete_function_of_keywords_gives_a_dict(tmp_path: Path) -> None:
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec((None,), name="x")])
    tf.saved_model.save(module, str(tmp_path), signatures={"serve": module.f})
    serve = tf.saved_model.load(str(tmp_path)).signatures["serve"]
    arguments = first(arguments_of(serve), lambda one: len(one["x"]))
    assert serve(**{name: tf.constant(value) for name, value in arguments.items()})["y"].numpy().tolist() == [0]


SPEC = tf.TensorSpec((2,))
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: tensors(3), r"shape was 3; expected a tuple of sizes.*\(None, 3\)"),
    (lambda: tensors((2, -1)), r"shape was \(2, -1\); expected a tuple of sizes"),
    (lambda: tensors((True,)), r"shape was \(True,\)"),
    (
        lambda: tensors((10**5, None, 10**4)),
        r"expected at most 16,777,216 elements: Hypothesis draws hundreds of arrays",
    ),
    (lambda: tensors((2,), "float"), "dtype was 'float'; expected one of float64, float32"),
    (lambda: tensors((2,), float), "dtype was <class 'float'>; expected one of float64"),
    (lambda: tensors((2,), None), "dtype was None; expected"),
    (lambda: tensors((2,), tf.string), "dtype was tf.string; expected one of float64"),
    (lambda: tensors((2,), domain="real"), r"domain was 'real'; expected one of reals, positive.*\(2.0, None\)"),
    (lambda: tensors((2,), domain=(1, 1)), r"domain was \(1, 1\); expected one of"),
    (lambda: tensors((2,), domain=(math.nan, 1)), r"domain was \(nan, 1\)"),
    (lambda: tensors((2,), "int32", (0, 1)), r"domain was \(0, 1\); expected exclusive bounds with .* of int32"),
    (lambda: tensors((2,), "float16", (1e6, None)), "expected exclusive bounds with a number of float16"),
    (lambda: tensors((2,), "float32", range(3)), r"range\(0, 3\); expected exclusive bounds for .*, such as \(-1, 3\)"),
    (lambda: tensors((2,), "int32", range(0)), r"range\(0, 0\); expected exclusive bounds with"),
    (lambda: arguments_of(lambda x: x), r"signature was <function.*expected tf.TensorSpec in lists"),
    (lambda: arguments_of([SPEC, {"k": 3}]), r"signature\[1\]\['k'\] was 3; expected tf.TensorSpec"),
    (lambda: arguments_of([tf.TensorSpec((2,), tf.string)]), r"the dtype of signature\[0\] was tf.string"),
    (lambda: arguments_of([SPEC], {"x": "positive"}), "expected positions or names of arguments, here 0; not 'x'"),
    (lambda: arguments_of([SPEC], {0: "positve"}), r"domain\[0\] was 'positve'; expected one of reals"),
    (
        lambda: arguments_of(tf.function(lambda x: x)),
        "input_signature of the function was None; expected tf.TensorSpec",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_at_once(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_shape_that_a_strategy_draws_is_refused_when_it_is_drawn() -> None:
    with pytest.raises(ValueError, match="shape was 3; expected a tuple of sizes"):
        first(tensors(st.just(3)))


def test_many_rows_fail_no_health_check() -> None:
    assert len(sample(arguments_of([tf.TensorSpec((None, 64))] * 8), 30)) == 30
    assert len(sample(arguments_of([tf.TensorSpec((None, None, None, None))] * 3), 30)) == 30


@pytest.mark.sliced
def test_the_names_load_on_first_use() -> None:
    """The test command only checks that they load no earlier, since this process has already loaded them."""
    name = "s.tensors.__name__" if slices.exhaustively else "'tensors'"
    source = f"import sys, gradcheck.strategies as s; print('tensorflow' in sys.modules, {name}, *dir(s))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.stdout.split()[:2] == ["False", "tensors"], done.stderr
    assert {"arguments_of", "tensors"} <= set(done.stdout.split()[2:])
    with pytest.raises(AttributeError, match="'tensor'; it offers arguments_of, tensors"):
        gradcheck.strategies.tensor  # noqa: B018
