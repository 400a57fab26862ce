"""NaN and infinity from inside of a library, such as the log_prob of an action at the edge of tanh; what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, assert_step, check, explain
from tests.loading import loaded

LIBRARY = """\
import tensorflow as tf


class Tanh:
    def inverse(self, y):
        return tf.atanh(y)

    def log_slope(self, x):
        return tf.math.log1p(-(tf.tanh(x) ** 2))


class Squashed:
    def __init__(self, loc, scale):
        self.loc, self.scale, self.tanh = loc, scale, Tanh()

    def log_prob(self, y):
        return self.log_prob_before(self.tanh.inverse(y))

    def log_prob_before(self, x):
        return -0.5 * ((x - self.loc) / self.scale) ** 2 - tf.math.log(self.scale) - self.tanh.log_slope(x)
"""
mu = tf.Variable([0.3, 10.0], name="mu")
scale = tf.Variable([1.0, 0.5], name="scale")
noise = tf.constant([0.1, -0.2])
action = tf.constant([0.4, 1.0])
Loss = Callable[[Any], Any]


@pytest.fixture(scope="module")
def squashed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The distribution of an installed package."""
    path = tmp_path_factory.mktemp("venv") / "site-packages" / "fakeprob" / "__init__.py"
    return loaded(path, LIBRARY, "fakeprob").Squashed


def drawn() -> Any:
    return mu + scale * noise


def of_an_action(squashed: Any) -> Any:
    return tf.reduce_sum(squashed(mu, scale).log_prob(action))


def of_a_clipped_action(squashed: Any) -> Any:
    return tf.reduce_sum(squashed(0.1 * mu, scale).log_prob(tf.clip_by_value(action, -0.999999, 0.999999)))


def of_a_sample(squashed: Any) -> Any:
    return tf.reduce_sum(squashed(mu, scale).log_prob(tf.tanh(drawn())))


def by_hand(squashed: Any) -> Any:
    a = tf.tanh(drawn())
    return -tf.reduce_sum(tf.math.log(1.0 - a**2) + mu)


def by_hand_with_the_formula(squashed: Any) -> Any:
    u = drawn()
    return -tf.reduce_sum(2 * (tf.math.log(2.0) - u - tf.nn.softplus(-2 * u)) + mu)


def unused(squashed: Any) -> Any:
    a = tf.tanh(drawn())
    known = squashed(mu, scale).log_prob(a)
    return tf.reduce_sum(tf.where(tf.abs(a) < 0.999, known, mu))


def unused_and_harmless(squashed: Any) -> Any:
    a = tf.tanh(drawn())
    known = squashed(mu, scale).log_prob(tf.where(tf.abs(a) < 0.999, a, 0.5))
    return tf.reduce_sum(tf.where(tf.abs(a) < 0.999, known, mu))


class SquashedLoss(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return keras.ops.log1p(-keras.ops.square(keras.ops.tanh(x)))


class MendedLoss(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return 2 * (tf.math.log(2.0) - x - tf.nn.softplus(-2 * x))


layer, mended_layer = SquashedLoss(name="squashed"), MendedLoss()
ENTRY = "log_prob of fakeprob, at fakeprob/__init__.py:"
FORMULA = "write log(1 - tanh(u)**2) as 2 * (tf.math.log(2.0) - u - tf.nn.softplus(-2 * u))"
FOUND: dict[Loss, tuple[str, str, str, Loss]] = {
    of_an_action: (f"{ENTRY}6) returns inf at x[1] = 1", "clip the argument", "log_prob(action)", of_a_clipped_action),
    of_a_sample: (
        f"{ENTRY}6) returns inf at x[1] = 1",
        "use u in place of tf.atanh(tf.tanh(u))",
        "log_prob(tf.tanh(drawn()))",
        by_hand_with_the_formula,
    ),
    by_hand: ("tf.math.log at test_library_values.py:", FORMULA, "tf.math.log(1.0 - a**2)", by_hand_with_the_formula),
    unused: (f"{ENTRY}9) turns the finite cotangent", "safe = tf.where(", "known = squashed(", unused_and_harmless),
    lambda _: tf.reduce_sum(layer(mu)): (
        "keras.ops.log1p at test_library_values.py:",
        FORMULA,
        "keras.ops.log1p(",
        lambda _: tf.reduce_sum(mended_layer(mu)),
    ),
}


def step_of(loss: Loss, squashed: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            total = loss(squashed)
        return total, tape.gradient(total, [mu])

    return step


def diagnosis_of(step: Any) -> Diagnosis:
    (one,) = explain(step).sources
    assert one.diagnosis is not None
    return one.diagnosis


@pytest.mark.parametrize("loss", FOUND)
def test_the_first_operation_and_the_user_s_call_are_named(loss: Loss, squashed: Any) -> None:
    evidence, remedy, code, mended = FOUND[loss]
    step = step_of(loss, squashed)
    for found in (diagnosis_of(step), diagnosis_of(tf.function(step))):
        assert found.cause is Cause.NOT_FINITE
        assert evidence in found.evidence
        assert remedy in found.remedy
        assert found.place is not None
        assert code in found.place.code
    right = step_of(mended, squashed)
    assert explain(right).verdict == "agree"
    assert np.isfinite(right()[1][0].numpy()).all()
    if not np.isfinite(step()[0].numpy()):
        for call in (lambda: assert_step(step, variables=[mu]), lambda: check(lambda: step()[0], variables=[mu])):
            with pytest.raises(ValueError, match="in the forward pass, ") as caught:
                call()
            assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "loss",
    [lambda u: tf.math.log(tf.tanh(u) - 1.0), lambda u: tf.math.log(tf.tanh(u - u)), lambda u: tf.math.log(u**2 - 100)],
)
def test_other_logarithms_have_the_remedy_of_logarithms(loss: Loss) -> None:
    found = diagnosis_of(step_of(lambda _: tf.reduce_sum(loss(mu)), None))
    assert "softplus" not in found.remedy
    assert "keep x above 0, such as tf.math.log(tf.maximum(x, 1e-12))" in found.remedy
