"""State that a check may touch in passing and puts back: random generators and the variables that it perturbs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops


@contextmanager
def restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        for put_back in _snapshots():
            stack.callback(put_back)
        for variable in variables:
            stack.callback(variable.assign, variable.numpy())
        yield


def _snapshots() -> list[Callable[[], Any]]:
    python, numpy = random.getstate(), np.random.get_state()
    undo: list[Callable[[], Any]] = [lambda: random.setstate(python), lambda: np.random.set_state(numpy)]
    # TensorFlow offers no public way to ask whether its generators exist, and asking for one would make it.
    generator = getattr(stateful_random_ops, "global_generator", None)
    if generator is not None:
        state = generator.state.numpy()
        undo.append(lambda: generator.state.assign(state))
    operation_seeds = getattr(context.context(), "_rng", None)
    if operation_seeds is not None:
        seeds = operation_seeds.getstate()
        undo.append(lambda: operation_seeds.setstate(seeds))
    return undo
