"""A look at what somebody's code asks of its GradientTapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

METHODS = ("gradient", "jacobian", "batch_jacobian")


@dataclass
class TapeUses:
    """The methods that were called, and whether a derivative of a derivative came out as None."""

    names: list[str] = field(default_factory=list)
    second_lost: bool = False
    results: list[Any] = field(default_factory=list)

    def note(self, target: Any, result: Any) -> None:
        """Records the derivatives of `target`."""
        second = any(one is two for one in tf.nest.flatten(target) for two in self.results)
        parts = tf.nest.flatten(result)
        self.second_lost |= second and any(part is None for part in parts)
        self.results += [part for part in parts if part is not None]


@contextmanager
def tape_uses() -> Iterator[TapeUses]:
    """Records with what every GradientTape is asked for derivatives inside the block."""
    uses = TapeUses()
    methods = {name: getattr(tf.GradientTape, name) for name in METHODS}

    def recording(name: str) -> Callable[..., Any]:
        def call(tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            uses.names.append(name)
            result = methods[name](tape, target, *args, **kwargs)
            uses.note(target, result)
            return result

        return call

    for name in methods:
        setattr(tf.GradientTape, name, recording(name))
    try:
        yield uses
    finally:
        for name, method in methods.items():
            setattr(tf.GradientTape, name, method)
