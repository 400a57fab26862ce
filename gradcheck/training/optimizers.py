"""Optimizers of Keras and TensorFlow 1: how they are called, and what they do to their gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import optimizer as v1_optimizer

from gradcheck.autodiff.sources import variable_of
from gradcheck.problem.mapped import as_array

METHODS = {"apply_gradients": "grads_and_vars", "apply": "grads"}
"""The methods that pass gradients to optimizers, and the names of the arguments with the gradients."""
SCALES = ("dynamic_scale", "loss_scale_factor")
"""The attributes of an optimizer, one of which may hold its loss scale."""
ApplyGradients = Callable[[Sequence[Any]], Any]
"""Applies an optimizer to pairs of a gradient and a variable."""


@dataclass(frozen=True)
class OptimizerCall:
    """The gradients (tensors, IndexedSlices or None) that an optimizer got for its variables.

    `name` is the optimizer's; `repeat` applies it to other pairs in the same way. The gradients are those of the loss
    times `scale`, where the optimizer scales losses against underflow.
    """

    name: str
    optimizer: Any
    variables: tuple[Any, ...]
    gradients: tuple[Any, ...]
    repeat: ApplyGradients
    scale: float = 1.0

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the optimizer, where it is a number."""
        for name in ("learning_rate", "_learning_rate"):
            try:
                return float(getattr(self.optimizer, name))
            except (AttributeError, TypeError, ValueError):
                continue
        return None

    def own_changes(self) -> list[str]:
        """The notes on what the optimizer itself does to the gradients: clipping, averaging over steps."""
        arrays = [as_array(tf.convert_to_tensor(gradient)) for gradient in self.gradients if gradient is not None]
        # It divides by the scale before it clips.
        norms = [float(np.linalg.norm(array.astype(np.float64))) / self.scale for array in arrays]
        largest = max((float(np.max(np.abs(array), initial=0.0)) / self.scale for array in arrays), default=0.0)
        notes = []
        for attribute, size, how in (
            ("clipvalue", largest, "by value to"),
            ("clipnorm", max(norms, default=0.0), "the gradient of each variable to the norm"),
            ("global_clipnorm", float(np.linalg.norm(norms)), "to the global norm"),
        ):
            for name, limit in self._settings(attribute):
                if size > limit:
                    notes.append(f"{name} clips {how} {limit:g} (the largest was {size:.6g}), its {attribute}")
        for name, steps in self._settings("gradient_accumulation_steps"):
            notes.append(f"{name} averages over {steps} steps, its gradient_accumulation_steps")
        return notes

    def _settings(self, attribute: str) -> list[tuple[str, Any]]:
        """The values of an attribute of the optimizer, and of the one that it wraps, each with its name."""
        inner = inner_optimizer(self.optimizer)
        names = [(self.name, self.optimizer), *([] if inner is self.optimizer else [(type(inner).__name__, inner)])]
        return [(name, value) for name, one in names if (value := getattr(one, attribute, None))]


def optimizer_methods() -> list[tuple[type, str]]:
    """The METHODS that classes of optimizers define: those of TensorFlow 1, and of Keras if it is loaded."""
    waiting: list[Any] = [v1_optimizer.Optimizer]
    for name in ("keras", "tf_keras"):
        optimizers = getattr(sys.modules.get(name), "optimizers", None)
        waiting += [getattr(home, "Optimizer", None) for home in (optimizers, getattr(optimizers, "legacy", None))]
    seen: dict[Any, None] = {}
    while waiting:
        owner = waiting.pop()
        if owner is not None and owner not in seen:
            seen[owner] = None
            waiting += owner.__subclasses__()
    owners = dict.fromkeys(base for owner in seen for base in owner.__mro__)
    return [(owner, method) for owner in owners for method in METHODS if method in vars(owner)]


def pairs_and_call(
    optimizer: Any, original: Callable[..., Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[tuple[Any, Any]], ApplyGradients]:
    """The (gradient, variable) pairs of an optimizer call, and a function that repeats the call with other pairs."""
    kwargs = dict(kwargs)
    first, *rest = args or (kwargs.pop(METHODS[method]),)
    if method == "apply_gradients":
        return list(first), lambda pairs: original(optimizer, list(pairs), *rest, **kwargs)
    variables = rest[0] if rest else kwargs.get("trainable_variables")
    known = optimizer._trainable_variables if variables is None else variables
    return list(zip(first, known, strict=True)), lambda pairs: original(
        optimizer, [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
    )


def inner_optimizer(optimizer: Any) -> Any:
    """The innermost optimizer that this one wraps, as LossScaleOptimizer does; itself if it wraps none."""
    while (inner := getattr(optimizer, "inner_optimizer", None)) is not None:
        optimizer = inner
    return optimizer


def rate_variable(optimizer: Any) -> Any:
    """The variable that holds an optimizer's learning rate; None if there is none."""
    return variable_of(getattr(inner_optimizer(optimizer), "_learning_rate", None))


def _scale(optimizer: Any) -> tuple[str, Any]:
    """The attribute that holds an optimizer's loss scale, and its value; None if there is none."""
    found = ((name, getattr(optimizer, name, None)) for name in SCALES)
    return next((pair for pair in found if pair[1] is not None), ("", None))


def scale_variable(optimizer: Any) -> Any:
    """The variable that holds an optimizer's loss scale; None if there is none."""
    return variable_of(_scale(optimizer)[1])


@contextmanager
def twice_the_scale(optimizers: Iterable[Any]) -> Iterator[None]:
    """Double the loss scales of optimizers in the block; restoring a variable that holds one is left to the caller."""
    with ExitStack() as stack:
        for optimizer in {id(one): one for one in optimizers}.values():
            name, scale = _scale(optimizer)
            if (variable := variable_of(scale)) is not None:
                variable.assign(2 * variable)
            elif scale is not None:
                stack.callback(setattr, optimizer, name, scale)
                setattr(optimizer, name, 2 * scale)
        yield


def loss_scale(optimizer: Any) -> Any:
    """An optimizer's loss scale, a scalar tensor: its gradients are those of the scaled loss."""
    scale = _scale(optimizer)[1]
    return tf.convert_to_tensor(1.0 if scale is None else scale)
