"""Where Python took a value out, among all the places at which it read one; and a source that nothing depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Cause, explain
from tests import slices

Code = Callable[[], Any]
x = tf.Variable([1.5, -0.5], dtype=tf.float64, name="x")


def printed() -> Any:
    with tf.GradientTape() as tape:
        a = tf.reduce_sum(2.0 * x)
        s = float(a)  # the cut
        print("a is", float(a))
        c = s * x
    return tape.gradient(c, x)


def asked() -> Any:
    with tf.GradientTape() as tape:
        a = tf.reduce_sum(2.0 * x)
        s = 3 * float(a)  # the cut
        if a > 0.0:
            assert tf.reduce_all(tf.math.is_finite(a))
        c = s * x
    return tape.gradient(c, x)


def measured() -> Any:
    with tf.GradientTape() as tape:
        a = tf.reduce_sum(2.0 * x)
        s = 3 * float(a)  # the cut
        accuracy = float(tf.reduce_mean(tf.cast(x > 0.0, tf.float64) * x))
        c = s * x
    return tape.gradient(c, x), accuracy


def handed_over() -> Any:
    def scaled(factor: float) -> tf.Tensor:
        return factor * x

    with tf.GradientTape() as tape:
        a = tf.reduce_sum(2.0 * x)
        s = float(a)  # the cut
        share = float(tf.reduce_max(x)) / 7
        c = scaled(s)
    return tape.gradient(c, x), share


def as_an_array() -> Any:
    with tf.GradientTape() as tape:
        kept = []
        kept.append((2.0 * x).numpy())  # the cut
        print("the first", x[0].numpy())
        c = tf.constant(kept[0]) * x
    return tape.gradient(c, x)


def computed_in_a_list() -> Any:
    with tf.GradientTape() as tape:
        kept = []
        kept.append((2.0 * x).numpy() / 7)  # the cut
        print("the first", x[0].numpy())
        c = tf.constant(kept[0]) * x
    return tape.gradient(c, x)


CUTS = [printed, asked, measured, handed_over, as_an_array, computed_in_a_list]


@slices.parametrized("code", CUTS, slices.every(3), ids=lambda code: code.__name__)
def test_the_read_that_is_the_cut_is_told_from_those_that_are_not(code: Code) -> None:
    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.NUMPY
    assert one.diagnosis.place is not None
    assert one.diagnosis.place.code.endswith("# the cut")
    assert one.diagnosis.evidence.count("taken out") == 1
    assert ", or by" not in one.diagnosis.evidence


def test_of_reads_that_may_all_be_the_cut_all_are_named(lines: Callable[..., str]) -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            one = float(tf.reduce_sum(x))
            two = float(tf.reduce_max(x))
            c = (one + two) * x
        return tape.gradient(c, x)

    (found,) = explain(code).sources
    assert found.diagnosis is not None
    where = ", taken out by float at test_cuts.py:«two = float», or by float at test_cuts.py:«one = float»; no other"
    assert lines(code, where) in found.diagnosis.evidence
    assert "`two = float(tf.reduce_max(x))`" in found.diagnosis.remedy
    assert "`one = float(tf.reduce_sum(x))`" in found.diagnosis.remedy


def sliced() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x**2)
    return tape.gradient(loss, x[0])


def converted() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x**2)
    return tape.gradient(loss, tf.convert_to_tensor(x), unconnected_gradients="zero")


def of_a_tensor() -> Any:
    given = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = tf.reduce_sum(given**2)
    return tape.gradient(loss, tf.cast(given, tf.float64))


MADE = {
    sliced: ("StridedSlice", "variable"),
    converted: ("ReadVariableOp", "variable"),
    of_a_tensor: ("Cast", "tensor"),
}


@pytest.mark.parametrize("code", MADE, ids=lambda code: code.__name__)
def test_a_source_that_is_made_in_the_call_is_told_from_one_without_influence(
    code: Code, lines: Callable[..., str]
) -> None:
    (one,) = explain(code).sources
    maker, what = MADE[code]
    text = (
        f"the target does not depend on it: {maker} at test_cuts.py:«return tape.gradient» made it, a tensor of its "
        f"own, from a {what} that the target does depend on; ask for the gradient with respect to that {what}"
    )
    assert one.unconnected
    assert one.note.endswith(lines(code, text))


def test_a_source_made_of_what_the_target_does_not_depend_on_is_nothing_special() -> None:
    other = tf.Variable(2.0, dtype=tf.float64)

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss, made = tf.reduce_sum(x**2), 3.0 * other
        return tape.gradient(loss, made)

    (one,) = explain(code).sources
    assert (one.right, one.unconnected) == (None, True)
    assert one.note.startswith("the target does not depend on it, but on x")


def test_replicas_are_refused_by_name() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        w = tf.Variable([0.7, -0.3], dtype=tf.float64)

    def replica(shard: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w * shard) ** 2)
        return tape.gradient(loss, w)

    message = r"f runs on replicas \(1 of MirroredStrategy\).*; pass the function that is passed to strategy.run"

    def code() -> Any:
        return strategy.run(replica, args=(tf.constant([1.0, 2.0], tf.float64),))

    for given in (code, tf.function(code)):
        with pytest.raises(ValueError, match=message):
            explain(given)
    (one,) = explain(replica, tf.constant([1.0, 2.0], tf.float64)).sources
    assert one.right
