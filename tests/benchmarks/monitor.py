"""The cost of GradientMonitor: a spot check in units of training steps, and its share at one check in a thousand steps.

    python tests/benchmarks/monitor.py [NAME ...] [--steps 600] [--checks 5]

For a few Keras models, in one run each: the time of a step of `fit` (the first ones, which trace, left out),
of the monitor's first check, which traces its graphs, and of a later one; how many steps a later one costs, and which
share of a training it takes at `every=1000`. Only the ratios mean something.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers as kl

from gradcheck.keras import GradientMonitor

BATCH, EVERY = 32, 1000
WARM = 20
"""Number of steps before the clock starts."""


def mlp() -> Any:
    """Two hidden layers with dropout."""
    return keras.Sequential([kl.Dense(256, "relu"), kl.Dropout(0.3), kl.Dense(256, "relu"), kl.Dense(10)])


def cnn() -> Any:
    """Convolutions with batch normalization."""
    stack = [kl.Conv2D(16, 3, activation="relu"), kl.BatchNormalization(), kl.MaxPooling2D(), kl.Conv2D(32, 3)]
    return keras.Sequential([*stack, kl.Activation("relu"), kl.GlobalAveragePooling2D(), kl.Dense(10)])


def lstm() -> Any:
    """One LSTM layer."""
    return keras.Sequential([kl.LSTM(32), kl.Dense(10)])


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "MLP": (mlp, (64,)),
    "CNN": (cnn, (24, 24, 3)),
    "LSTM": (lstm, (20, 16)),
}


class Clock(keras.callbacks.Callback):
    """The time of a training from the step after WARM on."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == WARM:
            self.began = time.perf_counter()

    def on_train_end(self, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self.began


class TimedMonitor(GradientMonitor):
    """A monitor that times its checks."""

    def __init__(self, every: int) -> None:
        super().__init__(every)
        self.seconds: list[float] = []

    def _check(self, data: Any) -> None:
        began = time.perf_counter()
        super()._check(data)
        self.seconds.append(time.perf_counter() - began)


def trained(make: Callable[[], Any], shape: tuple[int, ...], steps: int, *callbacks: Any) -> None:
    """Train a new model for `steps` steps."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(steps * BATCH, *shape)).astype(np.float32), rng.integers(0, 10, steps * BATCH)
    model = make()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, labels, batch_size=BATCH, verbose=0, shuffle=False, callbacks=list(callbacks))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; all by default")
    parser.add_argument("--steps", type=int, default=600, help="steps that are timed (default: 600)")
    parser.add_argument("--checks", type=int, default=5, help="checks that are timed (default: 5)")
    given = parser.parse_args()
    unknown = set(given.names) - set(MODELS)
    if unknown:
        parser.error(f"no such models: {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    print(
        f"{'':6s} {'a step':>10s} {'first check':>12s} {'later check':>12s} {'in steps':>9s}   share at every={EVERY}"
    )
    for name in given.names or MODELS:
        make, shape = MODELS[name]
        clock, monitor = Clock(), TimedMonitor(every=WARM)
        trained(make, shape, given.steps + WARM + 1, clock)
        trained(make, shape, WARM * given.checks + 1, monitor)
        step, later = clock.seconds / given.steps, float(np.median(monitor.seconds[1:]))
        verdicts = {str(check.verdict) for check in monitor.checks}
        print(
            f"{name:6s} {step * 1e3:7.2f} ms {monitor.seconds[0]:10.2f} s {later * 1e3:9.1f} ms {later / step:9.1f}   "
            f"{later / step / EVERY:.2%}   {', '.join(sorted(verdicts))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
