"""Somebody's own gradient, as values or as a callable, brought into the order of the sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.autodiff.source import Source
from gradcheck.autodiff.sources import paths


def given_gradient(function: Function, gradient: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """A callable from the sources' tensors to one gradient (tensor or None) a source.

    A callable `gradient` takes what `f` takes. Raises ValueError where the structure, a shape or a dtype does not fit,
    DerivativeRaisedError where the callable throws.
    """
    if not callable(gradient):
        fixed = arranged(function, gradient)
        return lambda tensors: fixed

    def given(tensors: Sequence[Any]) -> list[Any]:
        free = [tensor for tensor, source in zip(tensors, function.sources, strict=True) if source.variable is None]
        try:
            result = gradient(*function.arguments.rebuilt(free))
        except Exception as error:
            raise DerivativeRaisedError(1, error) from error
        return arranged(function, result)

    return given


def arranged(function: Function, gradient: Any) -> list[Any]:
    """The gradients in the order of the sources.

    They may come in the structure of the inputs, or as one list for all sources (or for all inputs, None standing for
    those without a derivative), followed by those of `variables`. Raises ValueError.
    """
    arguments, sources = function.arguments, function.sources
    items = tf.nest.flatten(gradient)
    if len(items) == arguments.total:
        items = [items[position] for position in arguments.positions]
    elif len(items) == len(sources):
        places = sorted(arguments.positions)
        items = [items[places.index(position)] for position in arguments.positions]
    else:
        raise ValueError(
            f"gradient holds {len(items)} {'tensor' if len(items) == 1 else 'tensors'}, {len(sources)} expected, one "
            f"for each of {_listing(sources)}; give None where there is none"
        )
    _refuse_other_keys(arguments.structure, gradient)
    return [_tensor(item, source) for item, source in zip(items, sources, strict=True)]


def _listing(sources: Sequence[Source]) -> str:
    return ", ".join(f"{source.name} (shape {source.shape})" for source in sources)


def _refuse_other_keys(inputs: tuple[Any, ...], gradient: Any) -> None:
    given = _keys(gradient)
    expected = _keys(inputs)
    if given and given != expected:
        raise ValueError(
            f"gradient has the keys {', '.join(sorted(given))}, the inputs have "
            f"{', '.join(sorted(expected)) or 'none'}; give the gradients in the structure of the inputs"
        )


def _keys(structure: Any) -> set[str]:
    """The keys of all dicts in a nested structure."""
    parts = {part for path, _ in paths("", structure) for part in path.strip("[]").split("][")}
    return {part for part in parts if part and not part.isdigit()}


def _tensor(item: Any, source: Source) -> Any:
    if item is None:
        return None
    tensor = item if tf.is_tensor(item) or isinstance(item, tf.Variable) else _constant(item, source)
    tensor = tf.convert_to_tensor(tensor)
    if tuple(tensor.shape) != source.shape:
        raise ValueError(
            f"gradient for {source.name} has shape {tuple(tensor.shape)}, its source has shape {source.shape}; "
            "give the gradient of the sum of f's outputs, element by element"
        )
    complex_source = np.iscomplexobj(source.value)
    if tensor.dtype.is_complex != complex_source or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise ValueError(
            f"gradient for {source.name} has dtype {tensor.dtype.name}, its source has dtype {source.dtype}; "
            f"give {'complex' if complex_source else 'floating'} values"
        )
    return tensor


def _constant(item: Any, source: Source) -> Any:
    """Numbers that did not come from TensorFlow; whole ones count as floating."""
    array = np.asarray(item)
    if array.dtype.kind in "iuf" and np.iscomplexobj(source.value):
        return tf.constant(array, tf.complex128)
    return tf.constant(array, tf.float64) if array.dtype.kind in "iu" else tf.convert_to_tensor(item)
