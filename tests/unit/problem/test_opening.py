"""The arguments and results that a function may have: keywords, nested numbers, models, dataclasses, None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Verdict
from tests.verdicts import check


@dataclass
class Fields:
    first: Any
    second: Any = None


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("f", "compared"),
    [
        (lambda x: Fields(x**2, tf.sin(x)), 8),
        (lambda x: Pair(x**2, tf.sin(x)), 8),
        (lambda x: {"deep": Fields(x, Fields(x**2))}, 8),
        (lambda x: (x**2, None), 4),
        (lambda x: {"value": x**2, "mask": None}, 4),
        (tf.function(lambda x: (x**2, None)), 4),
    ],
)
def test_results_in_fields_and_without_some(f: Callable[..., Any], compared: int) -> None:
    result = check(f, [1.0, 2.0], order=2)
    assert (result.verdict, result.orders[1].compared) == (Verdict.AGREE, compared)


def test_what_is_wrong_in_a_field_is_found() -> None:
    (finding,) = check(lambda x: Fields(None, tf.stop_gradient(x) * x), 3.0).findings
    assert finding.autodiff == 3.0
    assert finding.difference == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("returned", "name"), [(None, "the result"), ((None, None), "output 0"), (Fields(None), "the result")]
)
def test_nothing_but_none_is_refused(returned: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name} of f is .*; f has to return a floating or complex tensor"):
        gradcheck.check(lambda x: returned, 1.0)


def test_keyword_arguments_are_differentiated_and_named() -> None:
    def f(x: Any, *, rate: Any = 1.0) -> Any:
        return x * tf.stop_gradient(rate) + rate

    result = gradcheck.check(f, 2.0, kwargs={"rate": 3.0}, order=2)
    assert [(finding.input, finding.autodiff) for finding in result.orders[1].findings] == [("rate", 1.0)]
    assert gradcheck.check(lambda *, rate: rate**2, kwargs={"rate": [1.0, 2.0]}).orders[1].compared == 4
    gradcheck.assert_close(lambda x, rate: x * rate, 2.0, kwargs={"rate": 3.0}, gradient=lambda x, rate: (rate, x))
    gradcheck.assert_close(lambda x, rate: x * rate, 2.0, kwargs={"rate": 3.0}, gradient=(3.0, 2.0))
    with pytest.raises(gradcheck.GradientMismatch, match="with respect to rate"):
        gradcheck.assert_close(lambda x, rate: x * rate, 2.0, kwargs={"rate": 3.0}, gradient=(3.0, 2.1))


def test_keyword_arguments_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^kwargs was \[2.0\]; a dict of f's keyword arguments was expected"):
        gradcheck.check(lambda x, rate: x * rate, 1.0, kwargs=[2.0])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'other'"):
        gradcheck.check(lambda x: x, 1.0, kwargs={"other": 2.0})


@pytest.mark.parametrize(
    "given", [[3.0, 4.0], (3.0, 4.0), {"a": [3.0, 4.0]}, {"a": (3.0, 4.0)}, [{"b": [3.0, 4.0]}, "name"]]
)
def test_lists_and_tuples_of_numbers_are_tensors_at_every_level(given: Any) -> None:
    shapes = []

    def f(structure: Any) -> Any:
        while not tf.is_tensor(structure):
            structure = next(iter(structure.values())) if isinstance(structure, dict) else structure[0]
        shapes.append(tuple(structure.shape))
        return structure**2

    assert check(f, given).orders[1].compared == 4
    assert set(shapes) == {(2,)}


def test_named_tuples_and_lists_of_whole_numbers_keep_their_structure() -> None:
    assert check(lambda pair: pair.first * pair.second, Pair(3.0, 4.0)).orders[1].compared == 2
    assert check(lambda x, sizes: x * tf.cast(sizes[0] + sizes[1], tf.float64), 2.0, [1, 2]).verdict == Verdict.AGREE


def test_a_model_or_a_layer_stands_for_its_trainable_variables() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
    dense, x = model.layers[0], np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3)
    first, second = (
        [one.name for one in check(model, x, variables=given).orders[1].by_source]
        for given in (model, model.trainable_variables)
    )
    assert first == second
    assert len(first) == 5
    extra = tf.Variable(1.0)
    named = check(lambda: dense(x) * extra, variables=[dense, extra]).orders[1].by_source
    assert [one.name for one in named] == [
        f"variables[0] ({dense.kernel.path})",
        f"variables[1] ({dense.bias.path})",
        "variables[2] (Variable:0)",
    ]
    assert gradcheck.spot_check(lambda: tf.reduce_mean(model(x) ** 2), model).verdict == Verdict.AGREE


def test_the_variables_of_a_model_in_a_step() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    x = np.ones((2, 3), "f4")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    assert gradcheck.assert_step(step, variables=model).orders[1].compared == 4
