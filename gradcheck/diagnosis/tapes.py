"""What happens to the GradientTapes of a block, and the derivatives that they are asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tensorflow as tf

from gradcheck.diagnosis.patches import Wrapper, patched

METHODS = ("gradient", "jacobian", "batch_jacobian")
SIGNATURES = {name: inspect.signature(getattr(tf.GradientTape, name)) for name in METHODS}


class TapeWatcher(Protocol):
    """What is told of tapes."""

    def turned(self, tape: Any, change: str) -> None:
        """A tape was "opened", "closed" or "reset"."""
        ...

    def watched(self, tape: Any, tensors: Any) -> None:
        """A tape was told to watch tensors, nested as they were given."""
        ...

    def asked(self, tape: Any, method: str, arguments: dict[str, Any], answer: Callable[..., Any]) -> Any:
        """A tape was asked for a derivative, by the arguments' names; `answer` computes it, with others if given."""
        ...


@contextmanager
def watched_tapes(watcher: TapeWatcher) -> Iterator[None]:
    """Tell the watcher what the tapes of the block do."""

    def push(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "opened")

    def pop(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "closed")

    def reset(original: Any, tape: Any) -> None:
        original(tape)
        watcher.turned(tape, "reset")

    def watch(original: Any, tape: Any, tensor: Any) -> None:
        original(tape, tensor)
        watcher.watched(tape, tensor)

    def ask(name: str) -> Wrapper:
        signature = SIGNATURES[name]

        def call(original: Any, tape: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                arguments = dict(signature.bind(tape, *args, **kwargs).arguments)
            except TypeError:  # a wrong call, which TensorFlow answers in its own words
                return original(tape, *args, **kwargs)
            del arguments["self"]
            return watcher.asked(tape, name, arguments, lambda **other: original(tape, **{**arguments, **other}))

        return call

    with patched(
        (tf.GradientTape, "_push_tape", push),
        (tf.GradientTape, "_pop_tape", pop),
        (tf.GradientTape, "reset", reset),
        (tf.GradientTape, "watch", watch),
        *((tf.GradientTape, name, ask(name)) for name in METHODS),
    ):
        yield
