"""A function that takes no derivative itself: ours is the call that is explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.sources import paths
from gradcheck.diagnosis.edges import differentiable
from gradcheck.diagnosis.recorder import recorded
from gradcheck.diagnosis.replay import Code


def own_call(code: Code, variables: Sequence[Any], parameters: Sequence[str]) -> tuple[Code, list[str]]:
    """Code that takes the gradient of the sum of what the function returns, and the names of its sources.

    Raises ValueError where there is nothing to differentiate with respect to, TypeError where there is no tensor to
    differentiate.
    """
    leaves = _leaves(code, parameters)
    floating = [position for position, (_, leaf) in enumerate(leaves) if tf.is_tensor(leaf) and differentiable(leaf)]
    held = list(variables)
    if not floating and not held:
        held = [variable for variable in code.record.variables.values() if variable.trainable]
    if not floating and not held:
        raise ValueError(
            "f takes no derivative, no floating input and reads no trainable variable: nothing to explain; "
            "give a function that calls tape.gradient, a float input (2.0, not 2), or variables=[...]"
        )
    _refuse_result(code.record.result)

    def gradient(*inputs: Any) -> Any:
        sources = [tf.nest.flatten(inputs)[position] for position in floating] + held
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            outputs = [part for part in tf.nest.flatten(code.f(*inputs)) if tf.is_tensor(part) and differentiable(part)]
        return tape.gradient(outputs, sources)

    names = [leaves[position][0] for position in floating] + [variable.name.split(":")[0] for variable in held]
    return Code(gradient, code.inputs, recorded(gradient, code.inputs)), _distinct(names)


def _leaves(code: Code, parameters: Sequence[str]) -> list[tuple[str, Any]]:
    named = []
    for position, value in enumerate(code.inputs):
        name = parameters[position] if position < len(parameters) else f"inputs[{position}]"
        named += paths(name, value)
    return named


def _refuse_result(result: Any) -> None:
    flat = tf.nest.flatten(result)
    if not any(tf.is_tensor(part) and differentiable(part) for part in flat):
        kinds = ", ".join(sorted({part.dtype.name if tf.is_tensor(part) else type(part).__name__ for part in flat}))
        raise TypeError(
            f"f takes no derivative and returned {kinds or 'nothing'}, no floating tensor; let f return the tensor to "
            "differentiate (not its .numpy()), or call tape.gradient inside f"
        )


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for position, name in enumerate(names):
        found.append(name if names.count(name) == 1 else f"{name} (sources[{position}])")
    return found
