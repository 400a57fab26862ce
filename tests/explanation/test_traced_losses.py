"""Operations without a gradient that only a traced function runs, or that have a known replacement."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, GradientMismatch, Result, assert_step, check, explain
from tests import slices
from tests.datasets import untuned

Loss = Callable[[Any], Any]
rates = untuned([1.5, 0.5, 3.0])
elements, values = list(rates), tf.constant([1.5, 0.5, 3.0])
c = tf.Variable(2.0, name="c")


@tf.function
def looped(c: Any) -> Any:
    for r in rates:
        c = c * r
    return c


@tf.function
def over_a_list(c: Any) -> Any:
    for r in elements:
        c = c * r
    return c


@tf.function
def scanned(c: Any) -> Any:
    return tf.scan(lambda a, r: a * r, values, initializer=c)[-1]


@tf.function
def counted(c: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * values[i]), (0, tf.identity(c)))[1]


@tf.function
def nested(c: Any) -> Any:
    return looped(c + 1.0) ** 2


class Compounding(keras.layers.Layer):  # type: ignore[misc]
    @tf.function
    def call(self, x: Any) -> Any:
        for r in rates:
            x = x * r
        return x


layer = Compounding()


def in_a_layer(c: Any) -> Any:
    return layer(c * tf.ones(()))


def reduced(c: Any) -> Any:
    return rates.reduce(c, lambda a, r: a * r)


def step_of(loss: Loss) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(loss(c))
        return value, tape.gradient(value, [c])

    return step


def diagnosis_of(result: Result) -> Diagnosis:
    (found,) = (one.diagnosis for one in result.orders[1].findings)
    assert found is not None
    return found


LOOPS: dict[str, Loss] = {"alone": looped, "nested": nested, "layer": in_a_layer, "reduce": reduced}


# Each loop, two of them eagerly and two traced.
@slices.parametrized(("name", "traced"), product(LOOPS, (False, True)), lambda cases: [cases[n] for n in (0, 3, 5, 6)])
def test_a_loop_over_a_dataset_is_named_with_its_line(name: str, traced: bool) -> None:
    step = step_of(LOOPS[name])
    one = diagnosis_of(explain(tf.function(step) if traced else step))
    assert one.cause is Cause.NO_GRADIENT
    assert "Dataset, which at test_traced_losses.py:" in one.evidence
    assert "(loops over a tf.data.Dataset in a tf.function run it, and so do reduce and scan)" in one.evidence
    assert "loop over a Python list of the dataset's elements, made outside of the tf.function" in one.remedy
    assert "tf.scan or tf.while_loop" in one.remedy
    assert one.place is not None
    assert "for r in rates:" in one.place.code or "rates.reduce" in one.place.code


def test_check_and_a_traced_step_name_it() -> None:
    with pytest.raises(GradientMismatch) as caught:
        assert_step(tf.function(step_of(looped)), variables=[c])
    assert caught.value.result is not None
    for one in map(diagnosis_of, (check(looped, tf.constant(2.0)), caught.value.result)):
        assert one.cause is Cause.NO_GRADIENT
        assert one.place is not None
        assert "for r in rates:" in one.place.code


@pytest.mark.parametrize("loss", [over_a_list, scanned, counted], ids=["a list", "scan", "while_loop"])
def test_the_replacements_are_right(loss: Loss) -> None:
    assert explain(step_of(loss)).verdict == "agree"


def test_a_weighted_bincount_is_replaced_by_a_sum_of_segments() -> None:
    ids = tf.constant([0, 1, 1, 2])

    def binned(c: Any) -> Any:
        return tf.math.bincount(ids, weights=c * tf.ones(4)) ** 2

    def summed(c: Any) -> Any:
        return tf.math.unsorted_segment_sum(c * tf.ones(4), ids, 3) ** 2

    for loss in (binned, tf.function(binned)):
        one = diagnosis_of(explain(step_of(loss)))
        assert one.cause is Cause.NO_GRADIENT
        assert "sum the weights with tf.math.unsorted_segment_sum(" in one.remedy
    assert explain(step_of(summed)).verdict == "agree"


def test_a_loop_over_a_dataset_beside_the_path_is_not_blamed() -> None:
    @tf.function
    def shifted(c: Any) -> Any:
        total = tf.constant(0.0)
        for r in rates:
            total += r
        return tf.stop_gradient(c) * total

    (one,) = explain(step_of(shifted)).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.STOP_GRADIENT
    assert "Dataset" not in one.diagnosis.evidence


def test_a_dataset_made_of_the_source_still_keeps_it() -> None:
    def kept(c: Any) -> Any:
        return next(iter(tf.data.Dataset.from_tensors(c * 1.0))) * 2.0

    one = diagnosis_of(explain(step_of(kept)))
    assert one.cause is Cause.STATE
