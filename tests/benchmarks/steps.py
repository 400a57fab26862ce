"""The cost of `explain` and `assert_step` on a training step, with every optimizer of Keras, all in one run.

    python tests/benchmarks/steps.py [NAME ...] [--dtype float32] [--eagerly] [--traced]

The step trains a model of two dense layers and 21 weights on a batch of 8. For each optimizer, in float64 and float32,
eagerly and as a tf.function: the processor time of a plain step, of `explain` and of `assert_step` (in seconds, and in
plain steps), their verdicts, and how many entries stay inconclusive. The ratios say more than the seconds.

    python tests/benchmarks/steps.py --programs [NAME ...]

Steps of other kinds, each right and wrong: how often their Python code runs, or is traced, and the processor time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import gradcheck

RATE = 0.01
REPEATS = 5
"""Number of times that a plain step is timed; the fastest counts."""
WITHOUT = {"Optimizer", "LossScaleOptimizer", "MultiOptimizer"}
"""Classes of keras.optimizers that are not optimizers by themselves."""


def optimizers() -> dict[str, Callable[[], Any]]:
    """Every optimizer of the installed Keras, and the usual variants of some."""
    found: dict[str, Callable[[], Any]] = {
        name: partial(made, RATE)
        for name, made in sorted(vars(keras.optimizers).items())
        if isinstance(made, type) and issubclass(made, keras.optimizers.Optimizer) and name not in WITHOUT
    }
    return {
        **found,
        "SGD, momentum": lambda: keras.optimizers.SGD(RATE, momentum=0.9),
        "SGD, Nesterov": lambda: keras.optimizers.SGD(RATE, momentum=0.9, nesterov=True),
        "Adam, AMSGrad": lambda: keras.optimizers.Adam(RATE, amsgrad=True),
        "Adam, clipnorm": lambda: keras.optimizers.Adam(RATE, clipnorm=0.1),
        "Adam, averages": lambda: keras.optimizers.Adam(RATE, use_ema=True),
        "RMSprop, centered": lambda: keras.optimizers.RMSprop(RATE, centered=True),
        "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(RATE)),
    }


def training_step(make: Callable[[], Any], dtype: str) -> Callable[[], Any]:
    """A training step of the model, which has already made one."""
    keras.utils.set_random_seed(1)
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    rng = np.random.default_rng(2)
    x, y = (tf.constant(rng.normal(size=(8, width)), dtype) for width in (3, 1))
    optimizer, variables = make(), model.trainable_variables

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        return loss

    step()
    return step


class Runs:
    """Counts the runs of a step; it has no attributes that a check could put back."""

    __slots__ = ("eager", "traced")

    def __init__(self) -> None:
        self.eager = self.traced = 0

    def add(self) -> None:
        """Count this run."""
        if tf.inside_function():
            self.traced += 1
        else:
            self.eager += 1


def _error(x: Any, w: Any, y: Any) -> Any:
    return tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)


def maml(wrong: bool) -> Callable[[], Any]:
    """A loss after an inner step; the wrong one stops the inner gradient."""
    w, x, y, optimizer = _regression(5)

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = _error(x[:3], w, y[:3])
            gradient = inner.gradient(loss, w)
            loss = _error(x[3:], w - 0.5 * (tf.stop_gradient(gradient) if wrong else gradient), y[3:])
        optimizer.apply_gradients([(outer.gradient(loss, w), w)])
        return loss

    return step


def autoencoder(wrong: bool) -> Callable[[], Any]:
    """A variational autoencoder; the wrong one computes its divergence in NumPy."""
    return autoencoder_step(_divergence_in_numpy if wrong else divergence)


def divergence(mean: Any, log: Any) -> Any:
    """The divergence of normal distributions, by their means and the logarithms of their variances, from the unit."""
    return -0.5 * tf.reduce_mean(1 + log - mean**2 - tf.exp(log))


def _divergence_in_numpy(mean: Any, log: Any) -> Any:
    return -0.5 * np.mean(1 + log.numpy() - mean.numpy() ** 2 - np.exp(log.numpy()))


def autoencoder_step(divergence: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """A step of a variational autoencoder of 170 weights in float32, with this divergence of its codes."""
    encoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)])
    decoder = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(6)])
    x, optimizer = tf.constant(np.random.default_rng(0).normal(size=(8, 6)), tf.float32), keras.optimizers.Adam(RATE)
    variables = encoder.trainable_variables + decoder.trainable_variables
    optimizer.build(variables)

    def step() -> Any:
        with tf.GradientTape() as tape:
            mean, log = tf.split(encoder(x), 2, axis=1)
            code = mean + tf.exp(0.5 * log) * tf.random.normal(tf.shape(mean))
            loss = tf.reduce_mean((decoder(code) - x) ** 2) + divergence(mean, log)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def normalised(wrong: bool) -> Callable[[], Any]:
    """A weight over its norm; the wrong step assigns that to the weight before its tape."""
    w, x, y, optimizer = _regression(3)

    def step() -> Any:
        if wrong:
            w.assign(w / tf.norm(w))
        with tf.GradientTape() as tape:
            loss = _error(x, w if wrong else w / tf.norm(w), y)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step


def accumulated(wrong: bool) -> Callable[[], Any]:
    """Two passes whose gradients a variable adds up; the wrong one uses their sum for the mean of the losses."""
    w, x, y, optimizer = _regression(3)
    kept = tf.Variable(tf.zeros_like(w), trainable=False)

    @tf.function
    def step() -> Any:
        kept.assign(tf.zeros_like(kept))
        total = tf.zeros((), tf.float64)
        for number in tf.range(2):
            with tf.GradientTape() as tape:
                loss = _error(x[3 * number : 3 * number + 3], w, y[3 * number : 3 * number + 3])
            kept.assign_add(tape.gradient(loss, w))
            total += loss
        optimizer.apply_gradients([(kept if wrong else kept / 2, w)])
        return total / 2

    return step


def _regression(width: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    w, x, y = (tf.constant(rng.normal(size=size)) for size in ((width, 2), (6, width), (6, 2)))
    variable, optimizer = tf.Variable(w, name="w"), keras.optimizers.SGD(RATE)
    optimizer.build([variable])
    return variable, x, y, optimizer


PROGRAMS = {one.__name__: one for one in (maml, normalised, accumulated, autoencoder)}


def count_runs(name: str, wrong: bool) -> None:
    """Print the rows of a program."""
    for check in (gradcheck.explain, partial(gradcheck.assert_step, inconclusive="ignore")):
        step, runs = PROGRAMS[name](wrong), Runs()
        step()

        def counted(step: Callable[[], Any] = step, runs: Runs = runs) -> Any:
            runs.add()
            return step()

        def verdict(check: Callable[..., Any] = check, counted: Callable[[], Any] = counted) -> str:
            try:
                return str(check(counted).verdict)
            except gradcheck.GradientMismatch as error:
                return type(error).__name__

        spent, said = timed(verdict)
        row = f"{name}, {'wrong' if wrong else 'right'}, {'explain' if check is gradcheck.explain else 'assert_step'}"
        print(f"{row:40s} | {runs.eager:5d} runs, {runs.traced} traces | {spent:6.2f} s | {said}", flush=True)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """The processor time of a call, and what it returned."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def measure(make: Callable[[], Any], dtype: str, traced: bool) -> str:
    """The figures of one row."""
    step = training_step(make, dtype)
    if traced:
        step = tf.function(step)
    step()
    unit = min(timed(step)[0] for _ in range(REPEATS))
    cells = [f"{unit * 1e3:7.2f} ms"]
    for check in (gradcheck.explain, partial(gradcheck.assert_step, inconclusive="ignore")):
        spent, result = timed(partial(check, step))
        (order,) = result.orders.values()
        entries = order.compared + order.inconclusive
        cells.append(f"{spent:6.2f} s {spent / unit:7.0f} {result.verdict!s:12s} {order.inconclusive:2d} of {entries}")
    return " | ".join(cells)


def main() -> None:
    """Print the table."""
    known: dict[str, Any] = optimizers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="optimizers; all by default")
    parser.add_argument("--dtype", choices=["float64", "float32"], help="one of the number types alone")
    parser.add_argument("--eagerly", action="store_true", help="no tf.function")
    parser.add_argument("--traced", action="store_true", help="the tf.function alone")
    parser.add_argument("--programs", action="store_true", help="steps of other kinds, by their names")
    given = parser.parse_args()
    if given.programs:
        known = PROGRAMS
    unknown = set(given.names) - set(known)
    if unknown:
        parser.error(f"none of that name: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if given.programs:
        for name in given.names or PROGRAMS:
            for wrong in (False, True):
                count_runs(name, wrong)
        return
    forms = [traced for traced in (False, True) if not (traced and given.eagerly) and not (not traced and given.traced)]
    print(f"{'':40s} | {'step':>10s} | explain: time, in steps, verdict, inconclusive | assert_step")
    gradcheck.explain(training_step(known["SGD"], "float64"))  # the first check in a process pays for imports
    for name in given.names or known:
        for dtype in (given.dtype,) if given.dtype else ("float64", "float32"):
            for traced in forms:
                row = f"{name}, {dtype}, {'tf.function' if traced else 'eager'}"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        print(f"{row:40s} | {measure(known[name], dtype, traced)}", flush=True)
                    except Exception as error:
                        print(f"{row:40s} | {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
