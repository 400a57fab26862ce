"""State that a check may touch in passing and puts back: random generators and the variables that it perturbs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops

from gradcheck.autodiff.touched import Touched, touched


@contextmanager
def restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        for put_back in _snapshots():
            stack.callback(put_back)
        for variable in variables:
            stack.callback(variable.assign, variable.numpy())
        yield


@contextmanager
def undone() -> Iterator[Touched]:
    """Leave every variable that is read or assigned inside, and the generators, as they were, whatever happens.

    For one call of somebody's code that changes its own state: moving averages, counters, optimizer slots, the states
    of a SeedGenerator. A variable made inside keeps the value that it was first touched with. What was computed inside
    stays connected for a tape around the block.

    >>> import tensorflow as tf
    >>> calls = tf.Variable(0)
    >>> with undone():
    ...     _ = calls.assign_add(1)
    >>> int(calls)
    0
    """
    with restored(), touched() as seen:
        try:
            yield seen
        finally:
            seen.put_back()


def _snapshots() -> list[Callable[[], Any]]:
    python, numpy = random.getstate(), np.random.get_state()
    undo: list[Callable[[], Any]] = [lambda: random.setstate(python), lambda: np.random.set_state(numpy)]
    # TensorFlow offers no public way to ask whether its generators exist, and asking for one would make it.
    generator = getattr(stateful_random_ops, "global_generator", None)
    undo.append(lambda: setattr(stateful_random_ops, "global_generator", generator))
    if generator is not None:
        state = generator.state.numpy()
        undo.append(lambda: generator.state.assign(state))
    operation_seeds = getattr(context.context(), "_rng", None)
    if operation_seeds is not None:
        undo.append(_seeds_restorer(operation_seeds))
    return undo


def _seeds_restorer(operation_seeds: random.Random) -> Callable[[], None]:
    seeds = operation_seeds.getstate()

    def put_back() -> None:
        if operation_seeds.getstate() != seeds:
            operation_seeds.setstate(seeds)
            # A kernel is cached under its seed and goes on where it stopped; tf.random.set_seed clears the cache, too.
            context.context().clear_kernel_cache()

    return put_back
