"""Sixty steps with a planted error of the kinds that people report: the expected texts, and the mended step.

`PLANTS` maps a name to each of them. A mended step is the wrong one with its remedy applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.datasets import untuned

Loss = Callable[[], Any]
Step = Callable[[], Any]
RNG = np.random.default_rng(0)


class Plant(NamedTuple):
    """A wrong step, the mended one, and what has to be said; one with `variables` is for assert_step, not for explain.

    `agrees`: the derivative is right, although not what was wanted; `marked`: intended= makes it agree, too. In the
    mended step the function `holds` holds a value on purpose.
    """

    wrong: Step
    mended: Step
    said: tuple[str, ...]
    variables: tuple[tf.Variable, ...] = ()
    agrees: bool = False
    marked: bool = False
    holds: str = ""


PLANTS: dict[str, Plant] = {}


def variable(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name)


def constant(*shape: int) -> Any:
    return tf.constant(RNG.normal(size=shape))


w, v = variable([0.3, 1.4, -0.7], "w"), variable([0.5, -0.9, 1.1], "v")
kernel, bias = variable([[0.4, -0.2], [0.3, 0.8]], "kernel"), variable([0.1, -0.3], "bias")
table = variable(RNG.normal(size=(5, 2)), "table")
batch, labels, rows = constant(4, 2), constant(4, 2), tf.constant([0, 3, 3, 1])
BOTH = (kernel, bias)
VARIABLES = {id(one): one for one in (w, v, kernel, bias, table)}


def gradient_of(loss: Loss) -> Step:
    """A step that takes the gradient of a loss for the variables that it uses."""

    def step() -> Any:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(loss())
        sources = [one for one in tape.watched_variables() if id(one) in VARIABLES]
        return tape.gradient(total, sources)

    return step


def losses(name: str, wrong: Loss, mended: Loss, *said: str, **how: Any) -> None:
    PLANTS[name] = Plant(gradient_of(wrong), gradient_of(mended), said, **how)


def steps(name: str, wrong: Step, mended: Step, *said: str, **how: Any) -> None:
    PLANTS[name] = Plant(wrong, mended, said, **how)


# Surrogates

MEANT, OUT = "a surrogate; if that is meant, nothing is wrong, and intended=", "leave tf.stop_gradient out of `"
KEPT = "; if that was its purpose, nothing is wrong, and intended="


def held(x: Any) -> Any:
    return tf.stop_gradient(x)


def straight(through: Callable[[Any], Any], factor: float, hold: Callable[[Any], Any]) -> Any:
    return (factor * w + hold(through(w) - w)) ** 2 * w


for place, (name, through) in enumerate(
    {
        "floor": lambda x: tf.floor(2 * x) / 2,
        "round": tf.round,
        "sign": tf.sign,
        "ceil": tf.math.ceil,
        "threshold": lambda x: tf.cast(x > 0.5, x.dtype),
        "argmax": lambda x: tf.one_hot(tf.argmax(x), 3, dtype=x.dtype),
        "nearest": lambda x: tf.gather(v, tf.argmin(tf.abs(x[:, None] - v[None].numpy()), -1)),
    }.items()
):
    losses(
        f"straight-through {name}",
        partial(straight, through, 1.0 + place, held),
        partial(straight, through, 1.0 + place, tf.identity),
        "tf.stop_gradient at cause_steps.py:",
        OUT,
        marked=True,
    )


class Quantising(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self, right: bool) -> None:
        super().__init__(dtype="float64")
        self.right = right

    def call(self, x: Any) -> Any:
        return keras.ops.round(x) if self.right else x + keras.ops.stop_gradient(keras.ops.round(x) - x)


quantising, rounding = Quantising(right=False), Quantising(right=True)
losses("quantising layer", lambda: quantising(1.7 * w) * w, lambda: rounding(1.7 * w) * w, MEANT, OUT, marked=True)


@tf.custom_gradient
def spiking(x: Any) -> Any:
    return tf.cast(x > 0.0, x.dtype), lambda dy: dy / (1 + x**2)


@tf.custom_gradient
def rounded(x: Any) -> Any:
    return tf.round(x), lambda dy: dy


@tf.custom_gradient
def reversing(x: Any) -> Any:
    return tf.identity(x), lambda dy: -0.5 * dy


def times(function: Callable[[Any], Any]) -> Any:
    return function(1.1 * w) * w


for function, flat in ((spiking, lambda x: tf.cast(x > 0.0, x.dtype)), (rounded, tf.round), (reversing, tf.identity)):
    losses(
        f"custom gradient {function.__name__}",
        partial(times, function),
        partial(times, flat),
        f" {function.__name__} under tf.custom_gradient",
        f'{MEANT}"{function.__name__}" compares the rest; otherwise correct the gradient',
        marked=True,
    )

# Custom gradients by keyword


@tf.custom_gradient
def softplus(x: Any) -> Any:
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def overflowing(x: Any) -> Any:
    e = tf.exp(x)
    return tf.where(x > 50.0, x, tf.math.log(1.0 + e)), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def product(a: Any, x: Any) -> Any:
    return a * x, lambda dy: (dy * x, dy * a)


UNUSED = "is not used at cause_steps.py:"
losses("keyword", lambda: softplus(x=w), lambda: softplus(w), UNUSED, "call it as softplus(w)", agrees=True)
losses("one of two by keyword", lambda: product(v, x=w), lambda: product(v, w), UNUSED, "call it as product(v, w)")
losses("overflow", lambda: overflowing(x=800 * w), lambda: overflowing(800 * w), "call it as overflowing(800 * w)")

# Operations without a gradient, NumPy, state

dataset, factors = untuned(np.array([1.5, 0.5])), tf.constant([1.5, 0.5], tf.float64)


@tf.function
def over_a_dataset() -> Any:
    x = w
    for factor in dataset:
        x = x * factor
    return x


def over_a_scan() -> Any:
    return tf.scan(lambda x, factor: x * factor, factors, w + 0.0)[-1]


losses("loop over a dataset", over_a_dataset, over_a_scan, "loops over a tf.data.Dataset in a tf.function", "tf.scan")
bins = tf.constant([0, 1, 1])
losses(
    "weighted bincount",
    lambda: tf.math.bincount(bins, weights=w, minlength=2) ** 2,
    lambda: tf.math.unsorted_segment_sum(w, bins, 2) ** 2,
    "tf.math.unsorted_segment_sum(weights, values, the number of bins)",
)
losses("NumPy", lambda: w * np.mean(w), lambda: w * tf.reduce_mean(w), "write `", "with TensorFlow's operations")
losses("float", lambda: w * float(w[1]), lambda: w * w[1], "taken out by float at cause_steps.py:")
kept = variable([0.0, 0.0, 0.0], "kept")


def in_a_variable() -> Any:
    kept.assign(2.0 * w)
    return kept * w


losses("a variable that keeps it", in_a_variable, lambda: 2.0 * w * w, "puts a value that depends on", "store it after")
losses("integers", lambda: tf.cast(tf.cast(9 * w, tf.int32), w.dtype), lambda: 9 * w, "the cast to int32", "replace `")

# Tapes


def each_with_a_tape(*, again: bool = True, whole: bool = False) -> Any:
    """Two passes; the gradient of the sum by the last tape, by one tape, or the sum of both gradients."""
    total, gradients = tf.zeros((), tf.float64), []
    if whole:
        with tf.GradientTape() as tape:
            total = tf.add_n([tf.reduce_sum(tf.tanh(w * part) ** 2) for part in (v, 2.0 * v)])
        return tape.gradient(total, [w])
    for part in (v, 2.0 * v):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(w * part) ** 2)
            total += loss
        gradients.append(None if again else tape.gradient(loss, w))
    return tape.gradient(total, [w]) if again else tf.add_n(gradients)


steps(
    "a tape in each pass",
    each_with_a_tape,
    lambda: each_with_a_tape(whole=True),
    "was recorded by the tape of an earlier pass",
    "add up the gradients of each tape, each of its own loss, or open one tape around the loop",
)
PLANTS["a tape in each pass, added up"] = PLANTS["a tape in each pass"]._replace(
    mended=lambda: each_with_a_tape(again=False)
)


class Trainer:
    total: Any = 0.0

    def step(self, right: bool) -> Any:
        self.total = 0.0
        with tf.GradientTape() as first:
            self.total += tf.reduce_sum(w**2)
            if right:
                self.total += tf.reduce_sum(w**3)
        if right:
            return first.gradient(self.total, [w])
        with tf.GradientTape() as second:
            self.total += tf.reduce_sum(w**3)
        return second.gradient(self.total, [w])


trainer = Trainer()
steps(
    "a total in two tapes",
    lambda: trainer.step(False),
    lambda: trainer.step(True),
    "by another tape",
    "one tape around",
)


def outside(right: bool) -> Any:
    square = w**2
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((w**2 if right else square) + w)
    return tape.gradient(loss, [w])


steps(
    "before the tape", lambda: outside(False), lambda: outside(True), "ran before the tape was opened", "move `square ="
)


def not_watched(right: bool) -> Any:
    x = 2.0 * w
    with tf.GradientTape() as tape:
        if right:
            tape.watch(x)
        loss = tf.reduce_sum(x**2)
    return tape.gradient(loss, x)


steps(
    "a tensor that is not watched",
    lambda: not_watched(False),
    lambda: not_watched(True),
    "or call tape.watch(x) as soon as",
)


def used_twice(right: bool) -> Any:
    with tf.GradientTape(persistent=right) as tape:
        loss = tf.reduce_sum(w**2)
        other = tf.reduce_sum(v**3)
    return tape.gradient(loss, w), tape.gradient(other, v)


steps("a tape used twice", lambda: used_twice(False), lambda: used_twice(True), "make this one persistent")


def penalised(wrapped: bool) -> Any:
    layer = tf.recompute_grad(hidden) if wrapped else hidden
    with tf.GradientTape() as outer:
        x = tf.identity(batch)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = tf.reduce_sum(layer(x))
        penalty = tf.reduce_sum(inner.gradient(value, x) ** 2)
    return outer.gradient(penalty, kernel)


def hidden(x: Any) -> Any:
    return tf.tanh(x @ kernel)


steps("recompute_grad in a penalty", lambda: penalised(True), lambda: penalised(False), "call hidden itself")

frozen = tf.Variable([0.5, 2.0], dtype=tf.float64, trainable=False, name="frozen")


def of_frozen(right: bool) -> Any:
    with tf.GradientTape() as tape:
        if right:
            tape.watch(frozen)
        loss = tf.reduce_sum(frozen**2)
    return tape.gradient(loss, frozen)


steps("a variable that is not trainable", lambda: of_frozen(False), lambda: of_frozen(True), "call tape.watch(frozen)")


def second_order(swapped: bool) -> Any:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(w**3)
        first = None if swapped else inner.gradient(loss, w)
    first = inner.gradient(loss, w) if first is None else first
    return outer.gradient(first, w)


steps("tapes that are swapped", lambda: second_order(True), lambda: second_order(False), "take the first derivative, `")


def moved(right: bool) -> Any:
    x = tf.Variable([0.5, 2.0], dtype=tf.float64, name="x")
    if right:
        x.assign_add([1.0, 1.0])
    else:
        x = x + 1.0
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x**2)
    return tape.gradient(loss, x)


steps(
    "a variable that is replaced",
    lambda: moved(False),
    lambda: moved(True),
    "change the variable in place, with assign",
)

# Wrong custom gradients


@tf.custom_gradient
def gated(x: Any) -> Any:
    return x * tf.sigmoid(x), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def forgetting(x: Any) -> Any:
    return x**2, lambda dy: 2.0 * x


losses(
    "a term that is forgotten", lambda: gated(w) * v, lambda: tf.nn.silu(w) * v, "correct the gradient that gated at"
)
losses("a forgotten upstream", lambda: forgetting(w) * v, lambda: w**2 * v, "correct the gradient that forgetting at")

# Factors of all gradients, in whole steps


def fitted(part: Any, target: Any) -> Any:
    return (tf.tanh(part @ kernel + bias) - target) ** 2


def whole(how: Callable[[Any], Any], loss_of: Callable[[Any], Any] = tf.reduce_mean) -> Step:
    def step() -> Any:
        with tf.GradientTape() as tape:
            errors = fitted(batch, labels)
            loss = tf.reduce_mean(errors)
            differentiated = loss_of(errors)
        return loss, [how(one) for one in tape.gradient(differentiated, [kernel, bias])]

    return step


def passes(share: float) -> Step:
    def step() -> Any:
        total, sums = 0.0, [tf.zeros_like(kernel), tf.zeros_like(bias)]
        for half in (slice(0, 2), slice(2, 4)):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(fitted(batch[half], labels[half]))
            taken = tape.gradient(loss, [kernel, bias])
            sums = [one + share * other for one, other in zip(sums, taken, strict=True)]
            total += loss / 2
        return total, sums

    return step


right = whole(lambda one: one)
steps("a sum for a mean", whole(lambda one: one, tf.reduce_sum), right, "all gradients are 8 times", variables=BOTH)
steps("gradients of a reward", whole(lambda one: one, lambda e: -tf.reduce_mean(e)), right, "negative", variables=BOTH)
steps(
    "passes that are summed", passes(1.0), passes(0.5), "all gradients are 2 times", "divide the summed", variables=BOTH
)
steps("a factor afterwards", whole(lambda one: 3.0 * one), right, "all gradients were multiplied by 3", variables=BOTH)
steps("a loss scale", whole(lambda one: one, lambda e: 1024.0 * tf.reduce_mean(e)), right, "loss scale", variables=BOTH)


def clipped_rows(change: Callable[[Any], Any]) -> Step:
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([table])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
        optimizer.apply_gradients([(change(tape.gradient(loss, table)), table)])
        return loss

    return step


def clipped_values(one: Any) -> Any:
    return tf.IndexedSlices(tf.clip_by_norm(one.values, 1.0), one.indices, one.dense_shape)


steps(
    "a norm of the values of slices",
    clipped_rows(clipped_values),
    clipped_rows(lambda one: tf.clip_by_norm(tf.convert_to_tensor(one), 1.0)),
    "counts repeated rows apart, before they are summed",
    variables=(table,),
)

# NaN and infinity

SAFE = "safe = tf.where(condition, x, 1.0)"
edge = variable([0.0, 0.5, 2.0], "edge")
large = variable([0.5, 12.0, -20.0], "large")
VARIABLES |= {id(one): one for one in (edge, large)}


def positive(f: Callable[[Any], Any], x: Any) -> Any:
    return unused(f, tf.where(x > 0.1, x, tf.ones_like(x))) * tf.cast(x > 0.1, x.dtype)


def unused(f: Callable[[Any], Any], x: Any) -> Any:
    return tf.where(x > 0.1, f(x), tf.zeros_like(x))


for name, f in {
    "log": tf.math.log,
    "lgamma": tf.math.lgamma,
    "1 / x": lambda x: 1.0 / x,
    "x**0.3": lambda x: x**0.3,
}.items():
    losses(f"unused {name}", partial(unused, f, edge), partial(positive, f, edge), "0 times infinity is NaN", SAFE)
losses(
    "a norm at zero",
    lambda: tf.sqrt(tf.reduce_sum((edge - held(edge)) ** 2)) + edge,
    lambda: tf.sqrt(tf.reduce_sum((edge - held(edge)) ** 2) + 1e-12) + edge,
    "Sqrt at cause_steps.py:",
    "tf.sqrt(tf.reduce_sum(x**2) + 1e-12)",
)
losses(
    "log of 1 - tanh**2",
    lambda: tf.math.log(1.0 - tf.tanh(2 * large) ** 2),
    lambda: 2 * (tf.math.log(tf.constant(2.0, tf.float64)) - 2 * large - tf.nn.softplus(-4 * large)),
    "write log(1 - tanh(u)**2) as 2 * (tf.math.log(2.0) - u - tf.nn.softplus(-2 * u))",
)
losses(
    "atanh of tanh", lambda: tf.atanh(tf.tanh(2 * large)), lambda: 2 * large, "use u in place of tf.atanh(tf.tanh(u))"
)
losses(
    "log of a softmax",
    lambda: -tf.math.log(tf.nn.softmax(100 * large))[1:2],
    lambda: -tf.nn.log_softmax(100 * large)[1:2],
    "tf.nn.log_softmax(logits)",
)

nan = tf.constant([1.0, np.nan, 0.5], tf.float64)
losses("NaN in a batch", lambda: w * nan, lambda: w * 0.5, "holds nan", "leave such rows out of the data")
losses(
    "a sum of exponentials", lambda: tf.exp(800 * w), lambda: 800 * w, "the value is too large for its dtype", "tf.exp("
)

# Zeros, branches, copies

losses("dead relu", lambda: tf.nn.relu(-(w**2)) * w, lambda: -(w**2) * w, "3 of 3 values are negative", agrees=True)
losses("clip", lambda: tf.minimum(w**2, -1.0), lambda: w**2, "3 of 3 values are beyond the bound", agrees=True)
BRANCH = ("a branch at one point has another derivative", "f0 + f1 * x")


def ratio(x: Any) -> Any:
    return tf.math.expm1(x) / x


def selected(series: float) -> Any:
    ones = tf.ones_like(edge)
    return tf.where(edge == 0.0, ones + series * edge, ratio(tf.where(edge == 0.0, ones, edge)))


def branching(series: float) -> Any:
    return [1.0 + series * one if float(one) == 0.0 else ratio(one) for one in tf.unstack(edge)]


def conditional(series: float) -> Any:
    parts = tf.unstack(edge)
    return [tf.cond(one == 0.0, lambda one=one: 1.0 + series * one, lambda one=one: ratio(one)) for one in parts]


losses("a branch of tf.where", lambda: selected(0.0), lambda: selected(0.5), *BRANCH)
losses("a branch in Python", lambda: branching(0.0), lambda: branching(0.5), *BRANCH)
losses("a branch of tf.cond", lambda: conditional(0.0), lambda: conditional(0.5), *BRANCH)
net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, dtype="float64")], name="net")
copies = [tf.Variable(one.value) for one in net.trainable_variables]


def of_copies(variables: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(net(batch) ** 2)
    return tape.gradient(loss, variables)


steps(
    "copies of variables",
    lambda: of_copies(copies),
    lambda: of_copies(net.trainable_variables),
    "as a copy has: differentiate net",
)

# Values that are held, and one that should be

goal = tf.constant([1.0, 0.5, 0.2], tf.float64)


def scored(hold: Callable[[Any], Any], hold_reward: Callable[[Any], Any] = tf.identity) -> Any:
    sample = w + 0.5 * tf.random.stateless_normal([3], [1, 2], dtype=tf.float64)
    action = hold(sample)
    density = tf.reduce_sum(-0.5 * ((action - w) / 0.5) ** 2)
    return -density * hold_reward(-tf.reduce_sum((action - goal) ** 2))


def learned(hold: Callable[[Any], Any]) -> Any:
    return (hold(1.0 + 0.9 * tf.reduce_max(w * v)) - tf.reduce_sum(w)) ** 2


def gained(hold: Callable[[Any], Any]) -> Any:
    return -tf.nn.log_softmax(w)[0] * hold(1.0 - tf.reduce_sum(w * v))


HELD = "; if that holds "
losses(
    "a score function",
    lambda: scored(tf.identity),
    lambda: scored(held),
    "hold the sample: `sample = w",
    "write tf.stop_gradient around it",
    agrees=True,
    holds="held",
)
losses(
    "a held sample", lambda: scored(held), lambda: scored(tf.identity), OUT, f"{HELD}the sample of a score", marked=True
)
losses("a held target", lambda: learned(held), lambda: learned(tf.identity), OUT, f"{HELD}a target", marked=True)
losses("a held advantage", lambda: gained(held), lambda: gained(tf.identity), OUT, f"{HELD}an advantage", marked=True)

# Steps that differ from run to run

counted = {"turn": 0}
numbers: Iterator[float] = iter(np.arange(1.0, 1e6))


def counting() -> Any:
    counted["turn"] += 1
    return right_times(float(counted["turn"]))()


def right_times(factor: float) -> Step:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = factor * tf.reduce_mean(fitted(batch, labels))
        return loss, tape.gradient(loss, [kernel, bias])

    return step


def reading() -> Any:
    return right_times(next(numbers))()


earlier, history = [tf.exp(w)], list[float]()


def of_an_earlier_call(right: bool) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.exp(w) if right else earlier[0]) * v)
    return tape.gradient(loss, [w])


def remembering() -> Any:
    history.append(1.0)
    return right_times(float(len(history)))()


steps("a list that grows", remembering, right_times(1.0), "history (held ", "pass that as an input", variables=BOTH)
steps(
    "a tensor of another call",
    lambda: of_an_earlier_call(False),
    lambda: of_an_earlier_call(True),
    "of shape (3,), which `loss = ",
    "was made before the code ran",
)
steps("a counter", counting, right_times(1.0), "counted", "pass that as an input", variables=BOTH)
steps(
    "an iterator", reading, right_times(1.0), "numbers, an iterator", "take one batch first and pass it", variables=BOTH
)
