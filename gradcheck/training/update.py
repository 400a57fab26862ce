"""The optimizers that a step may use, and whether the variables move as their gradients require, or as by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import optimizer as v1_optimizer

from gradcheck.autodiff.coordinates import ROUNDOFF, element_of, to_coordinates
from gradcheck.result import Cause, Finding, Kind
from gradcheck.training.gradient_changes import GradientPair, clipping

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


Array = np.ndarray[Any, Any]

OPTIMIZER_UNITS = 64
"""An optimizer's formula in a graph and out of it may differ by so many units of roundoff."""
UNITS = 8
RATE_ROUNDING = ROUNDOFF["float32"]
"""A rate is often held in float32, by people and by TensorFlow's optimizers."""


@dataclass(frozen=True)
class VariableMove:
    """The values of a variable before and after a step."""

    name: str
    before: Array
    after: Array

    @property
    def change(self) -> Array:
        """What was added to the variable, in real coordinates, float64."""
        return to_coordinates(self.after) - to_coordinates(self.before)

    def slack(self, units: float, change: Array) -> Array:
        """The rounding of each coordinate when `change` is added."""
        slack: Array = units * ROUNDOFF[self.before.dtype.name] * (np.abs(to_coordinates(self.before)) + np.abs(change))
        return slack

    def finding(self, expected: Array, requirement: str) -> Finding:
        """A wrong update at the coordinate that is furthest off; `requirement` is a format with {expected}."""
        worst = int(np.argmax(np.abs(self.change - expected)))
        index, part = element_of(worst, self.before.shape, self.before.dtype)
        moved, right = float(self.change[worst]), float(expected[worst])
        required = requirement.format(expected=f"{right:.10g}")
        reason = f"the step moves it by {moved:.10g}; {required}{_ratio(moved, right)}"
        return Finding(Kind.UPDATE, 1, self.name + part, index, None, moved, right, None, None, reason)


def _ratio(moved: float, right: float) -> str:
    if not moved or not right:
        return ""
    ratio = moved / right
    return "; that is the other way" if abs(ratio + 1) < 1e-3 else f"; that is {ratio:.4g} times as much"


def optimizer_findings(moves: Sequence[VariableMove], expected: Sequence[Array], optimizer: str) -> list[Finding]:
    """Wrong updates: variables that end elsewhere than at `expected`, where the optimizer alone takes them."""
    findings = []
    for move, value in zip(moves, expected, strict=True):
        change = to_coordinates(value) - to_coordinates(move.before)
        if not np.all(np.abs(move.change - change) <= move.slack(OPTIMIZER_UNITS, change)):
            requirement = f"{optimizer}, given the same gradients in the same state, moves it by {{expected}}"
            findings.append(move.finding(change, requirement))
    return findings


@dataclass(frozen=True)
class UpdateCheck:
    """The wrong updates of a step, and notes on the right ones."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def check_manual_update(
    moves: Sequence[VariableMove],
    gradients: Sequence[Array | None],
    learning_rate: float | None,
    clip_functions: Sequence[str],
) -> UpdateCheck:
    """Compare moves with -rate * gradient; without a `learning_rate` the rate is estimated from the moves."""
    if not any(np.any(move.change) for move in moves):
        return UpdateCheck()
    pairs = [
        (move, np.zeros(move.before.size) if gradient is None else to_coordinates(gradient))
        for move, gradient in zip(moves, gradients, strict=True)
    ]
    if learning_rate is not None:
        return _at_rate(pairs, learning_rate, clip_functions)
    rates = [(move, _rate(move, gradient)) for move, gradient in pairs if np.any(gradient) and np.any(move.change)]
    findings = [
        move.finding(move.change, "the step moves other variables, and its gradient is not zero")
        for move, gradient in pairs
        if np.any(gradient) and not np.any(move.change)
    ]
    findings += [
        move.finding(-move.change, "that is along its gradient, uphill: {expected} was expected")
        for move, rate in rates
        if rate is not None and rate < 0
    ]
    if findings:
        return UpdateCheck(tuple(findings))
    if any(rate is None for _, rate in rates):
        note = "the update is no multiple of the gradients (momentum?), so that it was not checked; use an optimizer"
        return UpdateCheck(notes=(f"{note}, or give learning_rate=",))
    distinct = sorted({float(f"{rate:.5g}") for _, rate in rates if rate is not None})
    listed = " or ".join(f"{rate:.5g}" for rate in distinct)
    return UpdateCheck(notes=(f"each variable moves by -{listed} times its gradient",) if distinct else ())


def _at_rate(pairs: Sequence[tuple[VariableMove, Array]], rate: float, clip_functions: Sequence[str]) -> UpdateCheck:
    findings = []
    for move, gradient in pairs:
        slack = move.slack(UNITS, rate * gradient) + RATE_ROUNDING * np.abs(rate * gradient)
        if not np.all(np.abs(move.change + rate * gradient) <= slack):
            requirement = f"-learning_rate times its gradient is {{expected}} (learning_rate={rate:g})"
            findings.append(move.finding(-rate * gradient, requirement))
    if not findings:
        return UpdateCheck(notes=(f"each variable moves by -{rate:g} times its gradient",))
    clipped = [
        GradientPair(gradient, -move.change / rate, move.slack(UNITS, rate * gradient).max(initial=0.0) / rate)
        for move, gradient in pairs
    ]
    note = clipping(clipped, clip_functions)
    if note is not None:
        return UpdateCheck(notes=(f"{Cause.CHANGED_AFTERWARDS}: {note}",))
    return UpdateCheck(tuple(findings))


def _rate(move: VariableMove, gradient: Array) -> float | None:
    """The number c for which the move is -c times the (nonzero) gradient, within rounding."""
    size = float(gradient @ gradient)
    rate = -float(move.change @ gradient) / size if size else 0.0
    fits = np.all(np.abs(move.change + rate * gradient) <= move.slack(UNITS, rate * gradient))
    return rate if fits and rate else None
