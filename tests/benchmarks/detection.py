"""How many wrong gradients a check sees, and what it costs: a table of large Jacobians, and one of models.

    python tests/benchmarks/detection.py [--repetitions 100] [--models [NAME ...]] [--weights N ...] [--dtypes NAME ...]
        [--order 2] [--every-factor] [--limit SECONDS] [--into FILE] [--beside FILE]

Jacobians: f is the identity with one entry of its Jacobian off by 1, at a place drawn anew every time.
`--repetitions 0` leaves them out.

Models: the loss of a Keras model on a batch, with a gradient that is right, and then with that of each variable in turn
times 0, -1, 1.1 and 1.5: given through `gradient=`, as values or as a callable, or made by a custom gradient inside of
the model. Variables whose derivative is zero in float64, of which all of these are right, are left out. Beyond 100,000
weights each variable has one of the factors in turn, unless `--every-factor`. A wrong gradient that agrees is printed
below its row. Order 2 takes the right gradients alone. Times are processor times, the fastest of a few; `gradients`
counts eager gradients beside one trace of the loss, as in models.py. `--into` keeps the rows in a file, and goes on
with it; `--beside` prints the times over those that another commit has written, in seconds and in gradients. `--models`
without a name leaves the models out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gradcheck import runtime

runtime.set_environment()  # before NumPy: its threads wait without sleeping

import keras  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
import resumed  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers as kl  # noqa: E402

from gradcheck import check  # noqa: E402
from gradcheck.check import result_of  # noqa: E402
from gradcheck.options import Options  # noqa: E402
from gradcheck.result import Verdict  # noqa: E402

SIZES = (100, 300, 1000)
ERROR = 1.0

FACTORS = (0.0, -1.0, 1.1, 1.5)
WAYS = ("given", "called", "inside")
"""The ways to plant a wrong gradient: `gradient=` with values, with a callable; a custom gradient in the model."""

DTYPES = ("float64", "float32", "mixed_float16", "mixed_bfloat16")
WEIGHTS = (1_000, 100_000, 1_000_000)
WHOLE = 100_000
"""Largest number of weights for which each variable gets every factor."""

ZERO = 1e-12
"""A derivative of at most this share of the largest one in float64 is taken for rounding."""

TOKENS = 50


def nearly_identity(size: int, output: int, coordinate: int) -> Any:
    """y = x, with a backward pass whose Jacobian is off by ERROR at one entry."""
    unit = np.eye(1, size, coordinate)[0]

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda upstream: upstream + ERROR * unit * upstream[output]

    return f


def detection(size: int, repetitions: int) -> tuple[int, int, float]:
    """The number of errors caught, of errors located, and the mean processor time of a check in seconds."""
    rng = np.random.default_rng(size)
    caught = located = 0
    start = time.process_time()
    for _ in range(repetitions):
        x = rng.uniform(0.5, 2.0, size) * rng.choice([-1.0, 1.0], size)
        output, coordinate = (int(place) for place in rng.integers(size, size=2))
        findings = check(nearly_identity(size, output, coordinate), x).findings
        caught += bool(findings)
        located += [(finding.output, finding.index) for finding in findings] == [(output, (coordinate,))]
    return caught, located, (time.process_time() - start) / repetitions


def convolution(channels: int) -> Any:
    """Two convolutions, the mean over the image, and a dense head."""
    stack = [kl.Conv2D(channels, 3, activation="tanh"), kl.Conv2D(channels, 3, activation="gelu")]
    return keras.Sequential([*stack, kl.GlobalAveragePooling2D(), kl.Dense(3)])


def embedding(width: int) -> Any:
    """Embedded tokens, a dense layer, their mean, and a dense head."""
    stack = [kl.Embedding(TOKENS + width**2 // 5, width), kl.Dense(width, "tanh")]
    return keras.Sequential([*stack, kl.GlobalAveragePooling1D(), kl.Dense(3)])


def lstm(units: int) -> Any:
    """An LSTM layer and a dense head."""
    return keras.Sequential([kl.LSTM(units), kl.Dense(2)])


def attention(width: int) -> Any:
    """Self-attention with a residual, normalization, the mean over the tokens, and a dense head."""
    tokens = keras.Input((6, width))
    mixed = kl.LayerNormalization()(kl.Add()([tokens, kl.MultiHeadAttention(2, width // 2)(tokens, tokens)]))
    return keras.Model(tokens, kl.Dense(3)(kl.GlobalAveragePooling1D()(mixed)))


@dataclass(frozen=True)
class Scaled:
    """A model of some width, the shape of a batch of it, and the width for each of the `WEIGHTS`."""

    make: Callable[[int], Any]
    shape: Callable[[int], tuple[int, ...]]
    widths: tuple[int, int, int]
    tokens: bool = False


MODELS = {
    "MLP": Scaled(lambda width: models.mlp(width)(), lambda width: (4, width), (22, 223, 707)),
    "convolution": Scaled(convolution, lambda _: (2, 8, 8, 3), (9, 103, 331)),
    "embedding": Scaled(embedding, lambda _: (2, 6), (13, 75, 166), tokens=True),
    "LSTM": Scaled(lstm, lambda _: (2, 6, 4), (13, 155, 497)),
    "attention": Scaled(attention, lambda width: (2, 6, width), (16, 158, 500)),
}


@contextmanager
def policy(dtype: str) -> Iterator[None]:
    """Keras' dtype policy and default floating type, restored afterwards."""
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64" if dtype == "float64" else "float32")
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_dtype_policy(before[1])


@dataclass(frozen=True)
class Training:
    """A model and a batch with targets."""

    model: Any
    batch: Any
    targets: Any

    @staticmethod
    def of(name: str, weights: int, dtype: str, seed: int = 7) -> Training:
        """The model of that name with about `weights` weights, drawn by Keras' initializers."""
        kind = MODELS[name]
        width, rng = kind.widths[WEIGHTS.index(weights)], np.random.default_rng(seed)
        keras.utils.set_random_seed(seed)
        with policy(dtype):
            floating, shape = keras.config.floatx(), kind.shape(width)
            batch = rng.integers(0, TOKENS, shape) if kind.tokens else rng.normal(size=shape)
            model, batch = kind.make(width), tf.constant(batch, None if kind.tokens else floating)
            targets = tf.constant(rng.normal(size=model(batch).shape), floating)
        return Training(model, batch, targets)

    def in_float64(self, name: str, weights: int) -> Training:
        """The same model, weights and batch in float64."""
        twin = Training.of(name, weights, "float64")
        twin.model.set_weights(self.model.get_weights())
        batch = tf.cast(self.batch, "float64") if self.batch.dtype.is_floating else self.batch
        return Training(twin.model, batch, tf.cast(self.targets, "float64"))

    @property
    def variables(self) -> list[Any]:
        """The trainable variables."""
        return list(self.model.trainable_variables)

    def loss(self) -> Any:
        """The mean squared distance to the targets."""
        return self._distance(self.model(self.batch))

    def gradient(self) -> list[Any]:
        """The eager gradients of the variables."""
        held = [variable.value for variable in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(held)
            loss = self.loss()
        return list(tape.gradient(loss, held))

    def scaled_gradient(self, place: int, factor: float) -> list[Any]:
        """The eager gradients, with that of one variable times a factor."""
        gradients = self.gradient()
        gradients[place] = tf.convert_to_tensor(gradients[place]) * factor
        return gradients

    def loss_with(self, place: int, factor: float) -> Any:
        """The loss in which the variable at `place` is read through a backward pass that is off by the factor."""

        @tf.custom_gradient
        def read(value: tf.Tensor) -> Any:
            return tf.identity(value), lambda upstream: tf.convert_to_tensor(upstream) * tf.cast(factor, value.dtype)

        values = [tf.convert_to_tensor(variable.value) for variable in self.variables]
        values[place] = read(values[place])
        outputs, _ = self.model.stateless_call(values, self.model.non_trainable_variables, self.batch)
        return self._distance(outputs)

    def _distance(self, outputs: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.cast(outputs, self.targets.dtype) - self.targets))

    def verdict(self, place: int, factor: float, way: str) -> Verdict:
        """The verdict on the gradient that is wrong in this way."""
        checked = partial(result_of, inputs=(), options=Options(), variables=self.variables, causes=False)
        if way == "inside":
            return checked(partial(self.loss_with, place, factor), gradient=None).verdict
        wrong = partial(self.scaled_gradient, place, factor)
        return checked(self.loss, gradient=wrong if way == "called" else wrong()).verdict


def cases(training: Training, moving: Sequence[int], every_factor: bool) -> list[tuple[int, float, str]]:
    """The variable, factor and way of each wrong gradient."""
    count = len(FACTORS)
    chosen = [(place, turn) for place in moving for turn in range(count) if every_factor or turn == place % count]
    return [(place, FACTORS[turn], WAYS[(place + turn) % len(WAYS)]) for place, turn in chosen]


def moving_variables(training: Training, name: str, weights: int) -> list[int]:
    """The places of the variables whose derivative is not zero in float64."""
    exact = training.in_float64(name, weights).gradient()
    sizes = [float(np.max(np.abs(tf.convert_to_tensor(one)))) for one in exact]
    return [place for place, size in enumerate(sizes) if size > ZERO * max(sizes)]


def measure(name: str, weights: int, dtype: str, order: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row: the right gradient and its time, then the wrong ones."""
    training, limit = Training.of(name, weights, dtype), options.limit
    training.gradient()
    unit = min(models.timed(training.gradient, limit)[0] for _ in range(models.REPEATS))
    trace = min(models.timed(partial(models.traced, training.loss, []), limit)[0] for _ in range(models.TRACES))
    right = partial(check, training.loss, order=order, variables=training.variables)
    spent, result = models.timed(right, limit)
    if spent < models.SHORT:
        spent = min(spent, *(models.timed(right, limit)[0] for _ in range(models.CHECKS - 1)))
    row = {"verdict": "too long", "resolution": float("nan"), "relative": float("nan"), "notes": []}
    if result is not None:
        outcome = result.orders[order]
        wrong = [str(finding) for finding in result.findings]
        row = {"verdict": outcome.verdict.value, "resolution": outcome.resolution, "notes": wrong}
        row |= {"relative": outcome.relative_resolution}
    row |= {"unit": unit, "seconds": spent, "gradients": (spent - trace) / unit}
    row |= {"count": sum(int(np.prod(variable.shape)) for variable in training.variables)}
    moving = moving_variables(training, name, weights)
    taken = cases(training, moving, options.every_factor or weights <= WHOLE) if order == 1 else []
    found = [training.verdict(*case) for case in taken]
    agreed = [
        f"{training.variables[place].path} times {factor:g}, {way}"
        for (place, factor, way), verdict in zip(taken, found, strict=True)
        if verdict is Verdict.AGREE
    ]
    row |= {"found": Counter(verdict.value for verdict in found), "agreed": agreed, "cases": len(taken)}
    return row | {"left_out": len(training.variables) - len(moving), "of": len(FACTORS) * len(moving)}


HEADER = (
    f"{'model':12s} {'weights':>9s} {'dtype':14s} order | {'right':12s} {'resolution':>10s} {'of largest':>10s} "
    f"{'time':>9s} {'gradients':>9s} | {'wrong':>5s} mismatch inconclusive agree"
)


def line(row: dict[str, Any], other: dict[str, Any] | None) -> str:
    """A row of the table, with the wrong gradients that agree below it."""
    found = Counter(row["found"])
    text = (
        f"{row['model']:12s} {row['count']:9,d} {row['dtype']:14s} {row['order']:5d} | {row['verdict']:12s} "
        f"{row['resolution']:10.1e} {row['relative']:10.1e} {row['seconds']:7.2f} s {row['gradients']:9.1f} | "
        f"{row['cases']:5d} {found['mismatch']:8d} {found['inconclusive']:12d} {found['agree']:5d}"
    )
    if row["cases"] and row["cases"] < row["of"]:
        text += f" (of {row['of']}; all with --every-factor)"
    if row["left_out"] and row["cases"]:
        text += f", {row['left_out']} with a derivative of zero left out"
    if other is not None:
        seconds, gradients = (row[name] / other[name] for name in ("seconds", "gradients"))
        text += f" | {seconds:.2f} and {gradients:.2f} times the other's {other['verdict']}"
    return "\n".join([text, *(f"    AGREES: {one}" for one in row["agreed"]), *(f"    {one}" for one in row["notes"])])


def jacobians(repetitions: int) -> None:
    """Prints one line per size."""
    print(f"{'Jacobian':>12} {'caught':>12} {'located':>12} {'s a check':>10}")
    for size in SIZES:
        caught, located, seconds = detection(size, repetitions)
        print(
            f"{f'{size} x {size}':>12} {f'{caught} of {repetitions}':>12} {f'{located} of {repetitions}':>12} "
            f"{seconds:>10.2f}",
            flush=True,
        )


def tabulate(options: argparse.Namespace) -> None:
    """Prints one line per model, size and dtype, and the wrong gradients that agree."""
    names = "model", "weights", "dtype", "order"
    kept, beside = resumed.Rows(options.into, *names), resumed.Rows(options.beside, *names)
    total: Counter[str] = Counter()
    check(tf.sin, 1.0)  # one-time work of the process does not count for the first row
    print(HEADER)
    for weights in options.weights:
        for name in options.models:
            for dtype in options.dtypes:
                key = (name, weights, dtype, options.order)
                row = kept.get(key, partial(measure, *key, options))
                total.update(row["found"])
                print(line(row, beside.done(key)), flush=True)
    if total:
        print(f"{total.total()} wrong gradients: " + ", ".join(f"{total[one.value]} {one.value}" for one in Verdict))


def main() -> None:
    """Prints the tables."""
    runtime.configure()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="checks of each Jacobian's size (100)")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), help="all by default")
    parser.add_argument("--weights", nargs="+", type=int, choices=WEIGHTS, default=WEIGHTS, help="all by default")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="all by default")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1)
    parser.add_argument("--every-factor", action="store_true", help="of the largest models, too")
    parser.add_argument("--limit", type=int, default=300, help="seconds for the check of a right gradient (300)")
    parser.add_argument("--beside", type=Path, help="a file that --into of another commit has written")
    resumed.add_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.repetitions:
        jacobians(options.repetitions)
    if options.models:
        tabulate(options)


if __name__ == "__main__":
    main()
