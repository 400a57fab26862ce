"""Values held on purpose, as in reinforcement learning: a stop_gradient may be meant, and a missing one is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, assert_step, check, explain
from tests import slices

Loss = Callable[[Callable[[Any], Any]], Any]
mu = tf.Variable([0.3, -0.2], dtype=tf.float64, name="mu")
scale = tf.Variable([-0.1, 0.2], dtype=tf.float64, name="scale")
goal = tf.constant([1.0, 0.5], tf.float64)
states, later = (tf.constant(np.random.default_rng(n).normal(size=(4, 3))) for n in (1, 2))
keras.utils.set_random_seed(0)
value = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="float64")])
actor = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh", dtype="float64")])
WEIGHTS = (*value.trainable_variables, *actor.trainable_variables)


def held(x: Any) -> Any:
    return tf.stop_gradient(x)


def noise(*shape: int) -> Any:
    return tf.random.stateless_normal(shape, [1, 2], dtype=tf.float64)


def sampled() -> Any:
    return mu + tf.exp(scale) * noise(2)


def log_prob(a: Any) -> Any:
    return tf.reduce_sum(-0.5 * ((a - mu) / tf.exp(scale)) ** 2 - scale)


def reward(a: Any) -> Any:
    return -tf.reduce_sum((a - goal) ** 2)


def in_numpy(a: Any) -> Any:
    return -np.sum((a.numpy() - goal.numpy()) ** 2)


def score(hold: Callable[[Any], Any]) -> Any:
    a = hold(sampled())
    return -log_prob(a) * reward(a)


def score_of_numpy(hold: Callable[[Any], Any]) -> Any:
    a = hold(sampled())
    outcome = in_numpy(a)
    return -log_prob(a) * outcome


def score_with_a_held_reward(hold: Callable[[Any], Any]) -> Any:
    a = tf.stop_gradient(sampled()) if hold is held else sampled()
    return -log_prob(a) * tf.stop_gradient(reward(a))


def score_of_a_network(hold: Callable[[Any], Any]) -> Any:
    mean, log_scale = tf.split(actor(states), 2, axis=-1)
    a = hold(mean + tf.exp(log_scale) * noise(4, 2))
    density = tf.reduce_sum(-0.5 * ((a - mean) / tf.exp(log_scale)) ** 2 - log_scale, -1)
    return -tf.reduce_mean(density * -tf.reduce_sum((a - goal) ** 2, -1))


def td_learning(hold: Callable[[Any], Any]) -> Any:
    target = hold(1.0 + 0.9 * tf.reduce_max(value(later), 1))
    return tf.reduce_mean((target - value(states)[:, 0]) ** 2)


def td_learning_with_huber(hold: Callable[[Any], Any]) -> Any:
    best = tf.reduce_max(hold(value(later)), 1)
    return keras.losses.Huber()(1.0 + 0.9 * best, value(states)[:, 0])


def of_a_target_network(hold: Callable[[Any], Any]) -> Any:
    return tf.reduce_sum((actor(states)[:, :2] - hold(value(later))) ** 2)


def advantage(hold: Callable[[Any], Any]) -> Any:
    gain = hold(1.0 - value(later)[:, 0])
    return -tf.reduce_mean(tf.nn.log_softmax(value(states))[:, 0] * gain)


HELD: dict[Loss, tuple[str, tuple[tf.Variable, ...]]] = {
    score: ("the sample of a score function on purpose, as in REINFORCE", (mu, scale)),
    score_of_numpy: ("the sample of a score function on purpose, as in REINFORCE", (mu,)),
    score_of_a_network: ("the sample of a score function on purpose, as in REINFORCE", WEIGHTS[2:]),
    td_learning: ("a target on purpose, as in TD learning", WEIGHTS[:2]),
    td_learning_with_huber: ("a target on purpose, as in TD learning", WEIGHTS[:2]),
    of_a_target_network: ("a target on purpose, as in TD learning", (WEIGHTS[1], WEIGHTS[3])),
    advantage: ("an advantage, a reward or a baseline on purpose", WEIGHTS[:2]),
}


def step_of(loss: Callable[[], Any], variables: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            total = loss()
        return total, tape.gradient(total, list(variables))

    return step


def diagnoses(step: Any) -> list[Diagnosis]:
    return [one.diagnosis for one in explain(step).sources if one.diagnosis is not None]


@pytest.mark.parametrize("loss", HELD, ids=lambda loss: loss.__name__)
def test_a_stop_gradient_is_to_be_left_out_unless_it_holds_a_value_on_purpose(loss: Loss) -> None:
    kind, variables = HELD[loss]
    step = step_of(lambda: loss(held), variables)
    found = diagnoses(step)
    assert found
    for one in found:
        assert one.cause is Cause.STOP_GRADIENT
        first, _, then = one.remedy.partition("; ")
        assert first.startswith("leave tf.stop_gradient out of `")
        assert then.startswith(f'if that holds {kind}, nothing is wrong, and intended="test_held_values.py:')
        assert one.remedy.endswith('" compares the rest')
    mark = found[0].remedy.partition('intended="')[2].partition('"')[0]
    assert explain(step, intended=mark).verdict == "agree"


@slices.parametrized(
    "loss", [loss for loss in HELD if loss is not score_of_numpy], slices.every(2), ids=lambda loss: loss.__name__
)
def test_a_traced_step_with_what_is_held_agrees(loss: Loss) -> None:
    variables = list(HELD[loss][1])
    step = tf.function(step_of(lambda: loss(held), variables))
    assert assert_step(step, variables=variables, intended=held).verdict == "agree"


def score_gradient() -> Any:
    """The gradient of the score function at the sample, by hand."""
    a = sampled().numpy()
    z = (a - mu.numpy()) / np.exp(scale.numpy())
    outcome = in_numpy(tf.constant(a))
    return -z / np.exp(scale.numpy()) * outcome, -(z**2 - 1) * outcome


@pytest.mark.parametrize("loss", [score, score_of_numpy, score_with_a_held_reward])
def test_where_it_is_missing_on_the_sample_it_is_asked_for(loss: Loss) -> None:
    variables = (mu,) if loss is score_of_numpy else (mu, scale)
    step = step_of(lambda: loss(tf.identity), variables)
    result = explain(step)
    told = [one.diagnosis.remedy for one in result.sources if one.diagnosis] or list(result.orders[1].notes)
    for text in told:
        assert "hold the sample: `return mu + tf.exp(scale) * noise(2)` (test_held_values.py:" in text
        assert "write tf.stop_gradient around it" in text
    assert told
    mended = step_of(lambda: loss(held), (mu, scale))
    for given, right in zip(mended()[1], score_gradient(), strict=True):
        np.testing.assert_allclose(given, right, rtol=1e-12)
    assert not np.allclose(step()[1][0], score_gradient()[0])


def test_check_and_a_step_ask_for_it_too() -> None:
    def drawn() -> Any:
        a = mu + tf.exp(scale) * tf.random.normal([2], dtype=tf.float64)
        return -log_prob(a) * reward(a)

    asked = "if the loss is that of a score function .*, hold the sample: `"
    assert any(note.startswith("if the loss is that") for note in check(drawn, variables=[mu]).orders[1].notes)
    for step in (step_of(drawn, (mu, scale)), tf.function(step_of(lambda: score(tf.identity), (mu, scale)))):
        with pytest.warns(UserWarning, match=asked):
            assert_step(step, variables=[mu, scale])


def encoder() -> Any:
    return mu + tf.exp(scale) * noise(2)


def variational(_: Any) -> Any:
    z = encoder()
    return log_prob(z) - tf.reduce_sum(-0.5 * z**2) + reward(z)


def soft_actor(_: Any) -> Any:
    a = encoder()
    alpha = tf.stop_gradient(tf.exp(scale[0]))
    return alpha * log_prob(a) - reward(a)


def importance_weighted(_: Any) -> Any:
    z = mu + tf.exp(scale) * noise(3, 2)
    each = -0.5 * tf.reduce_sum(((z - mu) / tf.exp(scale)) ** 2, -1) - tf.reduce_sum((z - goal) ** 2, -1)
    return -tf.reduce_sum(tf.stop_gradient(tf.nn.softmax(each)) * each)


def pathwise(_: Any) -> Any:
    return -reward(encoder())


def remembered(_: Any) -> Any:
    return -log_prob(goal) * tf.reduce_sum(mu**2)


@pytest.mark.parametrize("loss", [variational, soft_actor, importance_weighted, pathwise, remembered])
def test_a_sample_that_may_move_is_left_alone(loss: Loss) -> None:
    result = explain(step_of(lambda: loss(tf.identity), (mu, scale)))
    texts = [*result.orders[1].notes, *(one.diagnosis.remedy for one in result.sources if one.diagnosis is not None)]
    assert not any("score function" in text for text in texts)


@pytest.mark.parametrize("factor", [1.0, tf.constant(0.5, tf.float64)])
def test_a_factor_that_depends_on_what_is_held_is_as_before(factor: Any) -> None:
    step = step_of(lambda: tf.reduce_sum(factor * mu * tf.stop_gradient(mu)), (mu,))
    (one,) = diagnoses(step)
    assert one.remedy.startswith("leave tf.stop_gradient out of `")
