"""The cost of checking a layer or a model, in units of one eager gradient of the same function, all in one run.

    python tests/benchmarks/models.py [NAME ...] [--float32] [--limit SECONDS]

For every Keras layer with weights or a differentiable computation, and for a few models: the processor time of one
eager gradient of the sum of squares of the outputs, and of one trace of the function with a first run of its graph;
that of `check` at orders 1 and 2 with the inputs and all trainable variables, less one such trace, in units of the
gradient (each the fastest of several, on one thread: the first also makes kernels and asks for memory); the verdicts,
and the share of inconclusive entries; of a mismatch, how much of the time found its cause; the most memory of all rows
so far; beside it `tf.test.compute_gradient` of the same function where that ends in time. A check that does not end
within the limit says so. Only the ratios mean something.
"""

from __future__ import annotations

import argparse
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradcheck
from gradcheck import runtime

runtime.set_environment()  # before NumPy: its threads wait without sleeping

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers as kl  # noqa: E402

from gradcheck.check import result_of  # noqa: E402
from gradcheck.options import Options  # noqa: E402
from gradcheck.result import Verdict  # noqa: E402

REPEATS, TRACES, CHECKS = 5, 2, 3
"""Number of times that an eager gradient, a trace, and a check of less than `SHORT` seconds are timed; the fastest
counts.
"""

SHORT = 3.0


@dataclass(frozen=True)
class Row:
    """A layer, the shapes of its inputs, whether it runs in training, and whether its inputs are whole numbers."""

    make: Callable[[], Any]
    shapes: tuple[tuple[int, ...], ...]
    training: bool = False
    integers: bool = False


def _row(make: Callable[[], Any], *shapes: tuple[int, ...], **options: bool) -> Row:
    return Row(make, shapes, **options)


LINE, PLANE, SPACE, SEQUENCE = (1, 6, 2), (1, 5, 5, 2), (1, 4, 4, 4, 2), (2, 3, 2)
LAYERS: dict[str, Row] = {
    "Dense": _row(lambda: kl.Dense(3, "tanh"), (2, 4)),
    "EinsumDense": _row(lambda: kl.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"), SEQUENCE),
    "Embedding": _row(lambda: kl.Embedding(5, 3), (2, 3), integers=True),
    "Conv1D": _row(lambda: kl.Conv1D(3, 2), LINE),
    "Conv1D, groups": _row(lambda: kl.Conv1D(4, 2, groups=2), LINE),
    "Conv2D": _row(lambda: kl.Conv2D(3, 2, padding="same"), PLANE),
    "Conv2D, groups": _row(lambda: kl.Conv2D(4, 2, groups=2), PLANE),
    "Conv3D": _row(lambda: kl.Conv3D(2, 2), SPACE),
    "Conv1DTranspose": _row(lambda: kl.Conv1DTranspose(3, 2), LINE),
    "Conv2DTranspose": _row(lambda: kl.Conv2DTranspose(3, 2, strides=2), PLANE),
    "Conv3DTranspose": _row(lambda: kl.Conv3DTranspose(2, 2), (1, 3, 3, 3, 2)),
    "SeparableConv1D": _row(lambda: kl.SeparableConv1D(3, 2), LINE),
    "SeparableConv2D": _row(lambda: kl.SeparableConv2D(3, 2), PLANE),
    "DepthwiseConv1D": _row(lambda: kl.DepthwiseConv1D(2), LINE),
    "DepthwiseConv2D": _row(lambda: kl.DepthwiseConv2D(2), PLANE),
    "MaxPooling1D": _row(lambda: kl.MaxPooling1D(2), LINE),
    "MaxPooling2D": _row(lambda: kl.MaxPooling2D(2), PLANE),
    "MaxPooling3D": _row(lambda: kl.MaxPooling3D(2), SPACE),
    "AveragePooling1D": _row(lambda: kl.AveragePooling1D(2), LINE),
    "AveragePooling2D": _row(lambda: kl.AveragePooling2D(2), PLANE),
    "AveragePooling3D": _row(lambda: kl.AveragePooling3D(2), SPACE),
    "GlobalMaxPooling2D": _row(kl.GlobalMaxPooling2D, PLANE),
    "GlobalAveragePooling2D": _row(kl.GlobalAveragePooling2D, PLANE),
    "AdaptiveAveragePooling2D": _row(lambda: kl.AdaptiveAveragePooling2D(2), PLANE),
    "LSTM": _row(lambda: kl.LSTM(4), SEQUENCE),
    "GRU": _row(lambda: kl.GRU(4), SEQUENCE),
    "SimpleRNN": _row(lambda: kl.SimpleRNN(4), SEQUENCE),
    "Bidirectional LSTM": _row(lambda: kl.Bidirectional(kl.LSTM(2)), SEQUENCE),
    "LSTM, sequences": _row(lambda: kl.LSTM(3, return_sequences=True), SEQUENCE),
    "RNN of stacked cells": _row(lambda: kl.RNN(kl.StackedRNNCells([kl.LSTMCell(2), kl.GRUCell(3)])), SEQUENCE),
    "TimeDistributed": _row(lambda: kl.TimeDistributed(kl.Dense(2, "gelu")), SEQUENCE),
    "ConvLSTM1D": _row(lambda: kl.ConvLSTM1D(2, 2), (1, 3, 5, 2)),
    "ConvLSTM2D": _row(lambda: kl.ConvLSTM2D(2, 2), (1, 2, 4, 4, 1)),
    "ConvLSTM3D": _row(lambda: kl.ConvLSTM3D(1, 2), (1, 2, 3, 3, 3, 1)),
    "Attention": _row(lambda: kl.Attention(use_scale=True), SEQUENCE, SEQUENCE),
    "AdditiveAttention": _row(kl.AdditiveAttention, SEQUENCE, SEQUENCE),
    "MultiHeadAttention": _row(lambda: kl.MultiHeadAttention(2, 3), SEQUENCE, SEQUENCE),
    "GroupQueryAttention": _row(lambda: kl.GroupQueryAttention(3, 4, 2), SEQUENCE, SEQUENCE),
    "BatchNormalization": _row(kl.BatchNormalization, (4, 3), training=True),
    "BatchNormalization, inference": _row(kl.BatchNormalization, (4, 3)),
    "BatchNormalization of images": _row(kl.BatchNormalization, (2, 3, 3, 2), training=True),
    "LayerNormalization": _row(kl.LayerNormalization, (2, 4)),
    "GroupNormalization": _row(lambda: kl.GroupNormalization(2), (1, 3, 3, 4)),
    "RMSNormalization": _row(kl.RMSNormalization, (2, 4)),
    "UnitNormalization": _row(kl.UnitNormalization, (2, 4)),
    "SpectralNormalization": _row(lambda: kl.SpectralNormalization(kl.Dense(3)), (2, 4), training=True),
    "Normalization": _row(lambda: kl.Normalization(mean=0.5, variance=2.0), (2, 4)),
    "PReLU": _row(kl.PReLU, (2, 4)),
    "LeakyReLU": _row(kl.LeakyReLU, (2, 4)),
    "ELU": _row(kl.ELU, (2, 4)),
    "ReLU": _row(kl.ReLU, (2, 4)),
    "Softmax": _row(kl.Softmax, (2, 4)),
    "Activation gelu": _row(lambda: kl.Activation("gelu"), (2, 4)),
    "Activation mish": _row(lambda: kl.Activation("mish"), (2, 4)),
    "Dropout": _row(lambda: kl.Dropout(0.4, seed=3), (3, 4), training=True),
    "GaussianDropout": _row(lambda: kl.GaussianDropout(0.4, seed=3), (3, 4), training=True),
    "AlphaDropout": _row(lambda: kl.AlphaDropout(0.4, seed=3), (3, 4), training=True),
    "SpatialDropout2D": _row(lambda: kl.SpatialDropout2D(0.4, seed=3), PLANE, training=True),
    "GaussianNoise": _row(lambda: kl.GaussianNoise(0.4, seed=3), (3, 4), training=True),
    "Add": _row(kl.Add, (2, 3), (2, 3)),
    "Multiply": _row(kl.Multiply, (2, 3), (2, 3)),
    "Average": _row(kl.Average, (2, 3), (2, 3)),
    "Maximum": _row(kl.Maximum, (2, 3), (2, 3)),
    "Dot": _row(lambda: kl.Dot(1, normalize=True), (2, 3), (2, 3)),
    "Concatenate": _row(kl.Concatenate, (2, 3), (2, 2)),
    "UpSampling2D": _row(lambda: kl.UpSampling2D(2, interpolation="bilinear"), (1, 3, 3, 2)),
    "Resizing": _row(lambda: kl.Resizing(4, 4), (1, 3, 3, 2)),
    "ZeroPadding2D": _row(lambda: kl.ZeroPadding2D(1), (1, 3, 3, 2)),
    "Rescaling": _row(lambda: kl.Rescaling(0.5, 1.0), (2, 4)),
    "MelSpectrogram": _row(
        lambda: kl.MelSpectrogram(fft_length=16, sequence_stride=8, num_mel_bins=4, max_freq=4000.0), (1, 48)
    ),
}


def mlp(width: int) -> Callable[[], Any]:
    """A perceptron of about 2 * width ** 2 parameters."""
    return lambda: keras.Sequential([kl.Dense(width, "tanh"), kl.Dense(width, "tanh"), kl.Dense(1)])


def cnn() -> Any:
    """Convolutions, pooling, batch normalization and a dense head."""
    stack = [kl.Conv2D(8, 3, activation="tanh"), kl.BatchNormalization(), kl.MaxPooling2D(), kl.Conv2D(16, 3)]
    return keras.Sequential([*stack, kl.Activation("gelu"), kl.GlobalAveragePooling2D(), kl.Dense(10, "softmax")])


def transformer() -> Any:
    """Two encoder layers, 16 wide, with 2 heads."""
    tokens = keras.Input((6, 16))
    hidden = tokens
    for _ in range(2):
        attended = kl.MultiHeadAttention(2, 8)(hidden, hidden)
        hidden = kl.LayerNormalization()(kl.Add()([hidden, attended]))
        wide = kl.Dense(16)(kl.Dense(32, "gelu")(hidden))
        hidden = kl.LayerNormalization()(kl.Add()([hidden, wide]))
    return keras.Model(tokens, kl.Dense(3)(kl.GlobalAveragePooling1D()(hidden)))


def recurrent() -> Any:
    """Two LSTM layers."""
    return keras.Sequential([kl.LSTM(8, return_sequences=True), kl.LSTM(8), kl.Dense(2)])


def mobile_net() -> Any:
    """MobileNetV2 at a third of its width, with the moving statistics of a batch, without which it fades to 1e-11."""
    net = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=5, classifier_activation=None)
    for layer in net.layers:
        if isinstance(layer, kl.BatchNormalization):
            layer.momentum = 0.0
    net(np.random.default_rng(1).normal(size=(16, 32, 32, 3)), training=True)
    return net


MODELS: dict[str, Row] = {
    **{f"MLP of {2 * width**2:,} weights": _row(mlp(width), (4, width)) for width in (22, 70, 223, 707)},
    "CNN": _row(cnn, (2, 12, 12, 3)),
    "transformer": _row(transformer, (2, 6, 16)),
    "LSTM model": _row(recurrent, (2, 8, 4)),
    "MobileNetV2": _row(mobile_net, (1, 32, 32, 3)),
}


class OverTimeError(Exception):
    """The limit of a row was reached."""


@contextmanager
def limited(limit: int) -> Iterator[None]:
    """Raise OverTimeError after `limit` seconds."""

    def stop(*_: Any) -> None:
        raise OverTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def timed(run: Callable[[], Any], limit: int) -> tuple[float, Any]:
    """The processor time of a call and what it returned; infinity and None if it does not end in time."""
    start = time.process_time()
    try:
        with limited(limit):
            result = run()
    except OverTimeError:
        return float("inf"), None
    return time.process_time() - start, result


def called(layer: Any, row: Row) -> Callable[..., Any]:
    """The layer as a function of its inputs, one argument each."""
    options = {"training": True} if row.training else {}
    if len(row.shapes) == 1 or isinstance(layer, (kl.MultiHeadAttention, kl.GroupQueryAttention)):
        return lambda *inputs: layer(*inputs, **options)
    return lambda *inputs: layer(list(inputs), **options)


def drawn(row: Row, dtype: str) -> list[Any]:
    """Random inputs: normal numbers, or small integers."""
    rng = np.random.default_rng(7)
    if row.integers:
        return [tf.constant(rng.integers(0, 5, shape)) for shape in row.shapes]
    return [tf.constant(rng.normal(size=shape), dtype) for shape in row.shapes]


def traced(function: Callable[..., Any], inputs: list[Any]) -> Any:
    """A run of the function's graph, newly traced."""
    return tf.function(function, autograph=False).get_concrete_function(*inputs)(*inputs)


def without_causes(function: Callable[..., Any], inputs: list[Any], order: int, variables: list[Any] | None) -> Any:
    """A check that looks for no causes of its findings."""
    return result_of(function, tuple(inputs), Options(order), variables, causes=False)


def built(row: Row, dtype: str) -> tuple[Callable[..., Any], list[Any], list[Any]]:
    """The layer as a function, its inputs, and its trainable variables."""
    keras.utils.set_random_seed(7)
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    inputs, layer = drawn(row, dtype), row.make()
    function = called(layer, row)
    function(*inputs)
    return function, inputs, [variable.value for variable in layer.trainable_variables]


def checked(row: Row, dtype: str) -> gradcheck.Result:
    """The check of a layer at both orders."""
    function, inputs, variables = built(row, dtype)
    return gradcheck.check(function, *inputs, order=2, variables=variables or None)


def measure(name: str, row: Row, dtype: str, limit: int) -> str:
    """One line of the table."""
    function, inputs, variables = built(row, dtype)
    sources = [*(x for x in inputs if x.dtype.is_floating), *variables]

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = tf.reduce_sum(tf.square(tf.cast(function(*inputs), dtype)))
        return tape.gradient(loss, sources)

    gradient()
    unit = min(timed(gradient, limit)[0] for _ in range(REPEATS))
    trace = min(timed(partial(traced, function, inputs), limit)[0] for _ in range(TRACES))
    cells = [f"{name:30s} {unit * 1e3:9.2f} ms {trace * 1e3:7.0f} ms"]
    for order in (1, 2):
        run = partial(gradcheck.check, function, *inputs, order=order, variables=variables or None)
        spent, result = timed(run, limit)
        if spent < SHORT:
            spent = min(spent, *(timed(run, limit)[0] for _ in range(CHECKS - 1)))
        if result is None:
            cells.append(f"more than {limit} s, {limit / unit:.0f} gradients")
            break
        outcome = result.orders[order]
        left = outcome.inconclusive / max(outcome.compared + outcome.inconclusive, 1)
        cells.append(f"{spent:7.2f} s {(spent - trace) / unit:7.1f} {outcome.verdict!s:12s} {left:6.1%}")
        if outcome.verdict is Verdict.MISMATCH and spent < SHORT:
            alone = partial(without_causes, function, inputs, order, variables or None)
            cells[-1] += f", {(spent - min(timed(alone, limit)[0] for _ in range(CHECKS))) / unit:.0f} for the cause"
    cells.append(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if not row.integers:
        spent, _ = timed(partial(tf.test.compute_gradient, function, inputs), limit)
        cells.append(f"{spent / unit:9.1f}")
    return " | ".join(cells)


def main() -> None:
    """Print the table."""
    runtime.configure()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows to measure; all by default")
    parser.add_argument("--float32", action="store_true", help="layers and inputs in float32 instead of float64")
    parser.add_argument("--limit", type=int, default=60, help="seconds for one check (default: 60)")
    given = parser.parse_args()
    rows = {**LAYERS, **MODELS}
    unknown = set(given.names) - set(rows)
    if unknown:
        parser.error(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(rows)}")
    print(
        f"{'':30s} {'gradient':>12s} {'trace':>10s} | order 1: time, gradients beside the trace, verdict, inconclusive"
        " | order 2 | peak memory | compute_gradient"
    )
    names = given.names or list(rows)
    for turn, name in enumerate([names[0], *names]):  # one-time work of the process does not count
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gradcheck.InconclusiveWarning)
            try:
                line = measure(name, rows[name], "float32" if given.float32 else "float64", given.limit)
            except tf.errors.OpError:  # no kernel in float64
                line = measure(name, rows[name], "float32", given.limit) + " | float32"
            if turn:
                print(line, flush=True)


if __name__ == "__main__":
    main()
