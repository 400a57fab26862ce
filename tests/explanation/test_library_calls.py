"""Calls of public functions made of several kernels: audit, check and explain name them only inside a region."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck.result import Cause, Verdict
from gradcheck.tracing import recorder
from gradcheck.tracing.recorder import recorded
from tests import slices

ZEROS, TWO, FOUR = np.zeros(2), np.array([1.0, 2.5]), np.array([1.0, 2.0, 3.0, 5.0])
PIXELS = FOUR.reshape(1, 2, 2, 1)
MATRIX = np.array([[1.0, 0.3], [0.2, 2.0]])


class Call(NamedTuple):
    """A function, an argument inside the region of a record and one outside, and the order that is wrong inside."""

    record: str
    function: str
    f: Callable[..., Any]
    inside: Any
    outside: Any
    order: int = 1


def slopes(alpha: float) -> Any:
    made = keras.layers.PReLU(alpha_initializer=keras.initializers.Constant(alpha), dtype="float64")
    made.build((None, 2))
    return made


def two_values(x: Any, which: int) -> Any:
    return tf.nn.moments(x, [0])[which]


NORMALIZED = keras.layers.BatchNormalization(dtype="float64")
NORMALIZED.build((None, 2))
SLOPES = slopes(0.3)
ROWS = np.array([[1.0, 2.0], [3.0, 5.0], [1.0, 6.0]])

CALLS = [
    Call("norm_euclidean-zero-order1", "tf.norm", lambda x: tf.norm(tf.sin(x)), ZEROS, TWO),
    Call("norm_euclidean-zero-order1", "tf.norm", lambda x: tf.linalg.norm(x, ord=5, axis=0), ZEROS, TWO),
    Call("norm_euclidean-zero-order1", "tf.compat.v1.norm", lambda x: tf.compat.v1.norm(x), ZEROS, TWO),
    Call("norm_euclidean-zero-order1", "keras.ops.norm", lambda x: keras.ops.norm(x, ord=3), ZEROS, TWO),
    Call("clip_by_global_norm-zero-order1", "tf.clip_by_global_norm", lambda x: clipped(x), ZEROS, TWO),
    Call("keras_logaddexp-tie-order1", "keras.ops.logaddexp", lambda x: keras.ops.logaddexp(x, TWO), TWO, TWO + 1),
    Call("keras_celu-zero-order1", "keras.ops.celu", lambda x: keras.ops.celu(x, alpha=0.7), ZEROS, TWO),
    Call("keras_sinc-zero-order1", "keras.ops.sinc", lambda x: keras.ops.sinc(x), ZEROS, TWO),
    Call("keras_fmod-zero-order1", "keras.ops.fmod", lambda x: keras.ops.fmod(x, 3 * TWO), ZEROS, TWO),
    Call("keras_hypot-tie-order1", "keras.ops.hypot", lambda x: keras.ops.hypot(x, TWO), TWO, TWO + 1),
    Call("keras_relu-slope-zero-order1", "keras.activations.relu", lambda x: bounded(x), ZEROS, TWO),
    Call("keras_prelu-zero-order1", "keras.layers.PReLU", lambda x: SLOPES(x[tf.newaxis]), ZEROS, TWO),
    Call(
        "weighted_cross_entropy-zero-order1",
        "tf.nn.weighted_cross_entropy_with_logits",
        lambda x: weighted(x),
        ZEROS,
        TWO,
    ),
    Call("silu-beta-order1", "tf.nn.silu", lambda x: tf.nn.silu(TWO, x), TWO, np.array(1.5)),
    Call("rfft_truncated-raises", "tf.signal.rfft", lambda x: shortened(x), FOUR, TWO),
    Call("keras_lstsq-equal-order1", "keras.ops.lstsq", lambda x: keras.ops.lstsq(x, TWO), np.eye(2), MATRIX),
    Call("pinv-equal-order1", "tf.linalg.pinv", lambda x: tf.linalg.pinv(x), np.eye(2), MATRIX),
    Call("isotonic_regression-rank-order1", "tf.nn.isotonic_regression", lambda x: isotonic(x), TWO, TWO[np.newaxis]),
    Call("keras_normalize-zero-order2", "keras.ops.normalize", lambda x: keras.ops.normalize(x), ZEROS, TWO, 2),
    Call(
        "per_image_standardization-flat-order2",
        "tf.image.per_image_standardization",
        lambda x: tf.image.per_image_standardization(x),
        np.ones((2, 2, 1)),
        PIXELS[0],
        2,
    ),
]


def clipped(x: Any) -> Any:
    return tf.clip_by_global_norm([x], 10.0)[0][0]


def bounded(x: Any) -> Any:
    return keras.activations.relu(x, negative_slope=0.1, max_value=6.0)


def weighted(x: Any) -> Any:
    return tf.nn.weighted_cross_entropy_with_logits(np.ones(2), x, 2.0)


def shortened(x: Any) -> Any:
    return tf.math.real(tf.signal.rfft(x, [2]))


def isotonic(x: Any) -> Any:
    return tf.nn.isotonic_regression(x)[0]


def inside(f: Any, *inputs: Any) -> set[tuple[str, str, int]]:
    """The functions and records in whose regions the code lies, and the orders."""
    found = gradcheck.audit(f, *inputs).inside
    return {(one.kernel, each.defect.name, each.order) for one in found for each in one.defects if each.inside}


def called(call: Any) -> str:
    return f"{call.record}-{call.function}" if isinstance(call, Call) else "tf.function" if call else "eager"


@slices.parametrized(
    *("call, traced", product(CALLS, (False, True)), lambda cases: [*cases[::4], *cases[3::4]]),  # one each, by turns
    ids=called,
)
def test_a_call_is_named_inside_of_the_region_and_not_outside(call: Call, traced: bool) -> None:
    f = tf.function(call.f, autograph=False) if traced else call.f
    wanted = (call.function, call.record, call.order)
    assert wanted in inside(f, call.inside)
    assert wanted not in inside(f, call.outside)


SLOW = "tf.image.per_image_standardization"


@slices.parametrized(
    *("call", CALLS, lambda calls: [call for call in calls[::4] if call.function != SLOW]),
    ids=called,
)
def test_a_check_names_the_record_and_the_remedy(call: Call) -> None:
    found = gradcheck.check(call.f, call.inside, order=call.order)
    diagnosis = next(one for one in found.findings if one.order == call.order).diagnosis
    assert diagnosis is not None
    assert (diagnosis.cause, diagnosis.evidence.partition(",")[0]) == (Cause.KNOWN_DEFECT, call.record)
    assert "instead of" in diagnosis.remedy
    assert gradcheck.check(call.f, call.outside, order=call.order).verdict is Verdict.AGREE


def test_one_tensor_taken_twice_is_told_from_two_that_are_equal() -> None:
    wanted = ("keras.ops.hypot", "keras_hypot-tie-order1", 1)
    assert wanted in inside(lambda x: keras.ops.hypot(x, 1.0 * x), TWO)
    assert wanted not in inside(lambda x: keras.ops.hypot(x, x), TWO)
    assert gradcheck.check(lambda x: keras.ops.hypot(x, x), TWO).verdict is Verdict.AGREE


@pytest.mark.parametrize(
    ("left", "size", "known"),
    [(0.5, (2, 2), True), (0.4, (2, 2), False), (0.5, (3, 3), False)],
    ids=["on a pixel", "beside it", "more than the corners"],
)
def test_a_crop_of_an_image_by_a_box_with_an_edge_on_a_pixel_is_known(
    left: float, size: tuple[int, int], known: bool
) -> None:
    sloping = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1) ** 2
    boxes = np.array([[0.25, left, 0.75, 0.8]], np.float32)
    record = ("tf.image.crop_and_resize", "crop_and_resize-pixels-order1", 1)
    seen = inside(lambda boxes: tf.image.crop_and_resize(sloping, boxes, [0], size), boxes)
    assert (record in seen) is known
    assert record not in inside(lambda image: tf.image.crop_and_resize(image, boxes, [0], size), sloping)


def test_of_moments_the_variance_alone_is_said_to_be_wrong() -> None:
    record = ("tf.nn.moments", "moments-variance-order2", 2)
    assert inside(lambda x: two_values(x, 1), FOUR) == {record}
    assert inside(lambda x: two_values(x, 0), FOUR) == set()
    (finding,) = gradcheck.check(lambda x: two_values(x, 1) ** 2, FOUR, order=2).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.evidence.startswith("moments-variance-order2, ")


def test_what_derivatives_are_not_taken_by_does_not_count() -> None:
    def loss(labels: Any, x: Any) -> Any:
        return tf.nn.softmax_cross_entropy_with_logits(labels, 2.0 * x)

    wrong = {("tf.nn.softmax_cross_entropy_with_logits", "softmax_cross_entropy-labels-order2", 2)}
    assert inside(lambda x: loss(tf.nn.softmax(x), x), ROWS) == wrong
    assert inside(lambda x: loss(tf.stop_gradient(tf.nn.softmax(x)), x), ROWS) == set()
    assert inside(lambda x: loss(np.eye(2)[[0, 1, 0]], x), ROWS) == set()


def test_a_layer_is_told_by_how_it_is_called_and_once() -> None:
    record = ("keras.layers.BatchNormalization", "keras_layer_normalization-order2", 2)
    assert inside(lambda x: NORMALIZED(x, training=True), ROWS) == {record}, "not that of tf.nn.moments, too"
    assert inside(lambda x: NORMALIZED(x, training=False), ROWS) == set()
    at_kink = np.array([[0.0, 1.0]])
    assert inside(SLOPES, at_kink)
    assert inside(slopes(0.0), at_kink) == set(), "with alpha 0, 0 is one of the slopes"


def test_of_nested_calls_the_outermost_counts_which_may_guard_the_others() -> None:
    flat, image = np.ones((2, 2, 1)), tf.image.per_image_standardization
    assert inside(tf.math.reduce_std, flat)
    assert inside(image, flat) == {("tf.image.per_image_standardization", "per_image_standardization-flat-order2", 2)}
    assert gradcheck.check(image, flat, order=1).verdict is Verdict.AGREE

    def loss(labels: Any, x: Any) -> Any:
        return keras.losses.categorical_crossentropy(labels, x, from_logits=True)

    wrong = {("keras.losses.categorical_crossentropy", "softmax_cross_entropy-labels-order2", 2)}
    assert inside(lambda x: loss(tf.nn.softmax(x), x), ROWS) == wrong
    assert inside(lambda x: loss(np.eye(2)[[0, 1, 0]], x), ROWS) == set()


def test_of_several_results_only_those_count_that_derivatives_are_taken_of() -> None:
    def normalized(x: Any, which: int) -> Any:
        return tf.cast(tf.compat.v1.nn.fused_batch_norm(tf.cast(x, tf.float32), [1.0], [0.0])[which], tf.float64)

    wrong = {("tf.compat.v1.nn.fused_batch_norm", f"batch_norm_mean-order{order}", order) for order in (1, 2)}
    assert inside(lambda x: normalized(x, 1), PIXELS) == wrong
    assert inside(lambda x: normalized(x, 0), PIXELS) == set()


def test_a_variable_counts_with_the_value_that_it_had() -> None:
    x = tf.Variable(ZEROS)

    def step(first: Any) -> Any:
        with tf.GradientTape() as tape:
            x.assign(first)
            loss = tf.norm(x)
            x.assign(1.0 - first)
        return tape.gradient(loss, x)

    assert inside(lambda: step(ZEROS)) == {("tf.norm", "norm_euclidean-zero-order1", order) for order in (1, 2)}
    assert inside(lambda: step(ZEROS + 1)) == set()


def test_explain_names_the_line_of_the_call_in_a_traced_step() -> None:
    x = tf.Variable(ZEROS)

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = 2.0 * tf.norm(x)
        return tape.gradient(loss, x)

    (source,) = gradcheck.explain(step).sources
    assert source.diagnosis is not None
    assert source.diagnosis.cause is Cause.KNOWN_DEFECT
    assert source.diagnosis.place is not None
    assert source.diagnosis.place.code == "loss = 2.0 * tf.norm(x)"


def test_a_wrong_gradient_beside_a_call_is_not_laid_at_its_door() -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * tf.sin(x)

    def f(x: Any) -> Any:
        return wrong(x) + 0.0 * keras.ops.celu(x)

    assert inside(f, ZEROS)
    (finding,) = gradcheck.check(f, ZEROS).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.CUSTOM_GRADIENT


def test_a_guard_around_a_call_gets_the_advice_of_the_guard() -> None:
    guarded = gradcheck.check(lambda x: tf.where(tf.reduce_sum(x) > 0, tf.norm(x), 0.0 * x[0]), ZEROS - 0.0)
    causes = {one.diagnosis.cause for one in guarded.findings if one.diagnosis is not None}
    assert Cause.KNOWN_DEFECT not in causes


def test_a_call_is_known_with_its_parameters_and_the_call_around_it() -> None:
    record = recorded(lambda x: tf.norm(x, axis=0) + x, [tf.constant(TWO)])
    norm, add = record.operations[-2], record.operations[-1]
    names = [call.forms[0].function for call in norm.calls]
    assert names == ["tf.compat.v1.norm", "tf.norm"]
    assert norm.call is not None
    assert norm.call.outer is not None
    assert norm.call.outer.given["axis"] == 0
    assert add.call is None


def test_every_call_is_read_once_whatever_runs_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    read, plain = [], recorder._call

    def counted(*given: Any) -> Any:
        read.append(given)
        return plain(*given)

    def long(x: Any) -> Any:
        for _ in range(20):
            x = tf.sin(x) + tf.norm(keras.ops.hypot(x, TWO))
        return x

    monkeypatch.setattr(recorder, "_call", counted)
    assert len(recorded(long, (tf.constant(TWO),)).operations) > 200
    assert len(read) == 20 * 3  # tf.norm calls tf.compat.v1.norm
