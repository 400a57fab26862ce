"""The cost of `explain` and `assert_step` on a training step, with every optimizer of Keras, all in one run.

    python tests/benchmarks/steps.py [NAME ...] [--dtype float32] [--eagerly] [--traced]

The step trains a model of two dense layers and 21 weights on a batch of 8. For each optimizer, in float64 and float32,
eagerly and as a tf.function: the processor time of a plain step, of `explain` and of `assert_step` (in seconds, and in
plain steps), their verdicts, and how many entries stay inconclusive. The ratios say more than the seconds.
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
    known = optimizers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="optimizers; all by default")
    parser.add_argument("--dtype", choices=["float64", "float32"], help="one of the number types alone")
    parser.add_argument("--eagerly", action="store_true", help="no tf.function")
    parser.add_argument("--traced", action="store_true", help="the tf.function alone")
    given = parser.parse_args()
    unknown = set(given.names) - set(known)
    if unknown:
        parser.error(f"no such optimizers: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
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
