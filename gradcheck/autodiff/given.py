"""Somebody's own gradient, as values or as a callable, brought into the order of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.function import Function


def given_gradient(function: Function, gradient: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """A callable from the sources' tensors to one gradient (tensor or None) a source.

    A callable `gradient` takes what `f` takes. Raises ValueError where the structure or a shape does not fit.
    """
    if not callable(gradient):
        fixed = _arranged(function, gradient)
        return lambda tensors: fixed

    def given(tensors: Sequence[Any]) -> list[Any]:
        free = [tensor for tensor, source in zip(tensors, function.sources, strict=True) if source.variable is None]
        return _arranged(function, gradient(*function.arguments.rebuilt(free)))

    return given


def _arranged(function: Function, gradient: Any) -> list[Any]:
    items = tf.nest.flatten(gradient)
    sources = function.sources
    leaves = len(function.arguments.leaves)
    if len(items) == leaves + len(sources) - len(function.arguments.places) and len(items) != len(sources):
        places = (*function.arguments.places, *range(leaves, len(items)))
        items = [items[place] for place in places]
    if len(items) != len(sources):
        expected = ", ".join(f"{source.name} {source.shape}" for source in sources)
        raise ValueError(
            f"gradient holds {len(items)} tensors, {len(sources)} were expected, one for each of: {expected} (None where "
            "there is none)"
        )
    for item, source in zip(items, sources, strict=True):
        shape = None if item is None else tuple(tf.convert_to_tensor(item).shape)
        if shape is not None and shape != source.shape:
            raise ValueError(
                f"gradient for {source.name} has shape {shape}, its source has shape {source.shape}; "
                "give the gradient of the sum of f's outputs, element by element"
            )
    return items


@contextmanager
def tape_uses() -> Iterator[list[str]]:
    """Collects the names of the methods with which a GradientTape is asked for derivatives inside the block."""
    names: list[str] = []
    methods = {name: getattr(tf.GradientTape, name) for name in ("gradient", "jacobian", "batch_jacobian")}

    def recording(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            names.append(name)
            return methods[name](*args, **kwargs)

        return call

    for name in methods:
        setattr(tf.GradientTape, name, recording(name))
    try:
        yield names
    finally:
        for name, method in methods.items():
            setattr(tf.GradientTape, name, method)
