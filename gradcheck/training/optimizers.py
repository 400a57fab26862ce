"""Optimizers of Keras and TensorFlow 1: the calls that give them gradients, and what they do with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import optimizer as v1_optimizer

METHODS = ("apply_gradients", "apply")


def optimizer_classes(method: str) -> list[type]:
    """The optimizer classes that define the method themselves: TensorFlow 1's, and those of Keras if it is loaded."""
    roots: list[Any] = [v1_optimizer.Optimizer]
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            optimizers = sys.modules[name].optimizers
            legacy = getattr(optimizers, "legacy", None)
            roots += [root for home in (optimizers, legacy) if (root := getattr(home, "Optimizer", None)) is not None]
    found = dict.fromkeys(owner for root in roots for owner in (*root.__mro__, *_subclasses(root)))
    return [owner for owner in found if method in vars(owner) and owner is not object]


def gradient_variable_pairs(
    optimizer: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The (gradient, variable) pairs of a call, and the arguments to go on with: a zip can be read only once."""
    if method == "apply_gradients":
        given = args[0] if args else kwargs["grads_and_vars"]
        pairs = list(given)
        return (pairs, (pairs, *args[1:]), kwargs) if args else (pairs, (), {**kwargs, "grads_and_vars": pairs})
    gradients = list(args[0] if args else kwargs["grads"])
    variables = args[1] if len(args) > 1 else kwargs.get("trainable_variables")
    known = optimizer._trainable_variables if variables is None else list(variables)
    return list(zip(gradients, known, strict=True)), (gradients, variables), {}


def repeated_call(
    optimizer: Any, original: Callable[..., Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Sequence[Any]], Any]:
    """A function that repeats a call of the optimizer with other pairs of a gradient and a variable."""

    def repeat(pairs: Sequence[Any]) -> Any:
        if method == "apply":
            return original(optimizer, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if args:
            return original(optimizer, list(pairs), *args[1:], **kwargs)
        return original(optimizer, **{**kwargs, "grads_and_vars": list(pairs)})

    return repeat


def _subclasses(owner: type) -> Iterator[type]:
    children: list[type] = owner.__subclasses__()
    for child in children:
        yield child
        yield from _subclasses(child)


def own_changes(optimizer: Any, gradients: Sequence[Any]) -> list[str]:
    """Notes on what an optimizer itself does to the gradients that it is given: clipping, averaging over steps."""
    name = type(optimizer).__name__
    arrays = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients if gradient is not None]
    norms = [float(np.linalg.norm(array.astype(np.float64))) for array in arrays]
    sizes = {
        "clipvalue": (max((float(np.max(np.abs(array), initial=0.0)) for array in arrays), default=0.0), "by value to"),
        "clipnorm": (max(norms, default=0.0), "the gradient of each variable to the norm"),
        "global_clipnorm": (float(np.linalg.norm(norms)), "to the global norm"),
    }
    notes = []
    for attribute, (size, how) in sizes.items():
        limit = getattr(optimizer, attribute, None)
        if limit and size > limit:
            notes.append(f"{name} clips {how} {limit:g} (the largest was {size:.6g}), its {attribute}")
    steps = getattr(optimizer, "gradient_accumulation_steps", None)
    if steps:
        notes.append(f"{name} averages over {steps} steps, its gradient_accumulation_steps")
    return notes


def learning_rate_of(optimizer: Any) -> float | None:
    """The learning rate of an optimizer, where it has one that is a number."""
    for name in ("learning_rate", "_learning_rate"):
        try:
            return float(getattr(optimizer, name))
        except (AttributeError, TypeError, ValueError):
            continue
    return None


def loss_scale(optimizer: Any) -> Any:
    """By what an optimizer multiplies losses, a scalar tensor: its gradients are those of the scaled loss."""
    for name in ("dynamic_scale", "loss_scale_factor"):
        scale = getattr(optimizer, name, None)
        if scale is not None:
            return tf.convert_to_tensor(scale)
    return tf.constant(1.0)
