"""Random operations that draw the same numbers in every run, without touching the state of any generator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from gradcheck.tracing.hooks import RANDOM_OPERATIONS, Wrapper, patched

raw = tf.raw_ops


def _shuffled(value: Any, seed: Any) -> Any:
    ranks = raw.StatelessRandomUniform(shape=tf.shape(value)[:1], seed=seed)
    return tf.gather(value, tf.argsort(ranks))


STATELESS: dict[str, Callable[..., Any]] = {
    "random_standard_normal": lambda seed, shape, dtype: raw.StatelessRandomNormal(shape=shape, seed=seed, dtype=dtype),
    "random_uniform": lambda seed, shape, dtype: raw.StatelessRandomUniform(shape=shape, seed=seed, dtype=dtype),
    "truncated_normal": lambda seed, shape, dtype: raw.StatelessTruncatedNormal(shape=shape, seed=seed, dtype=dtype),
    "random_uniform_int": lambda seed, shape, minval, maxval: raw.StatelessRandomUniformInt(
        shape=shape, seed=seed, minval=minval, maxval=maxval
    ),
    "multinomial": lambda seed, logits, num_samples, output_dtype=tf.int64: raw.StatelessMultinomial(
        logits=logits, num_samples=num_samples, seed=seed, output_dtype=output_dtype
    ),
    "random_shuffle": lambda seed, value: _shuffled(value, seed),
}
"""Stateless replacements for the functions by which TensorFlow's Python code makes stateful random operations."""


@contextmanager
def drawn_statelessly() -> Iterator[None]:
    """Make random numbers in the block depend only on how many were drawn before, in graphs, too.

    For runs that have to be alike and leave no trace: the state of a kernel inside a graph can be neither read nor put
    back.

    >>> import tensorflow as tf
    >>> runs = []
    >>> for _ in range(2):
    ...     with drawn_statelessly():
    ...         runs.append([float(tf.random.normal([])), float(tf.random.normal([]))])
    >>> runs[0] == runs[1], runs[0][0] == runs[0][1]
    (True, False)
    """
    count = itertools.count(1)

    def standing_in(stateless: Callable[..., Any]) -> Wrapper:
        def draw(original: Any, *args: Any, seed: Any = 0, seed2: Any = 0, name: Any = None, **kwargs: Any) -> Any:
            return stateless(tf.constant([next(count), 0]), *args, **kwargs)

        return draw

    with patched(*((*RANDOM_OPERATIONS[name], standing_in(stateless)) for name, stateless in STATELESS.items())):
        yield
