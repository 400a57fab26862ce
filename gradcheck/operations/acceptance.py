"""The acceptance test of a registered operation, on arguments drawn from its declared shapes and domains."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.errors import without_places
from gradcheck.operations.drawn_arguments import drawn_arguments
from gradcheck.operations.registry import OperationError, Registration
from gradcheck.typing import Array

OTHER_TYPES = "register a function of float32 or complex numbers only with dtype='float32' or dtype='complex128'"
NEAR = 1e-9
"""Relative and absolute tolerance: kernels may round differently by a few ulps in a batch and alone."""


@cache
def accept(made: Registration) -> None:
    """Raises OperationError, with an example, for an operation that no hunt can use.

    Its function raises, returns no floating tensor or one that is not finite; two calls differ; it was registered
    without shapes and is not elementwise; no example has a first derivative.
    """
    cases = [TriedCase(made, arguments, attributes) for arguments, attributes in drawn_arguments(made.spec)]
    if not cases:
        expected = "all shapes are empty; expected at least one with elements"
        raise OperationError(f"gradcheck.operation {made.spec.name!r}: {expected}")
    for case in cases:
        case.refuse_value()
    if all(case.lost_derivative() for case in cases):
        case = cases[0]
        raise case.refused(
            f"is not differentiable: {case.lost_derivative()}",
            "a gradient for at least one argument; compute it with TensorFlow's operations, or give it a gradient with "
            "tf.custom_gradient or tf.RegisterGradient",
        )


@dataclass(frozen=True)
class TriedCase:
    """A registered operation at some arguments."""

    made: Registration
    arguments: list[Array]
    attributes: Mapping[str, Any]

    @property
    def call(self) -> str:
        """The arguments and attributes of the call, as text."""
        given = [_short(one) for one in self.arguments]
        return ", ".join([*given, *(f"{name}={value!r}" for name, value in self.attributes.items())])

    def refused(self, what: str, expected: str) -> OperationError:
        """An OperationError that says what the function did in this call, and what was expected."""
        name = self.made.spec.name
        return OperationError(
            f"gradcheck.operation {name!r} at {self.made.place}: {name}({self.call}) {what}; expected {expected}"
        )

    def run(self, *tensors: Any) -> Any:
        """The result for the given tensors."""
        return self.made.spec.source(*tensors, **self.attributes)

    def value(self) -> Array:
        """The result of the call; raises OperationError unless it is one tensor of the declared dtype."""
        try:
            value = self.run(*map(tf.constant, self.arguments))
        except Exception as error:  # of the function that is declared
            hint = "" if self.made.spec.rtol else f"; {OTHER_TYPES}"
            raise self.refused(
                f"raised {without_places(error)}", f"a result; declare valid inputs with shapes= and domain={hint}"
            ) from error
        if not isinstance(value, (tf.Tensor, tf.Variable)) or value.dtype != self.made.spec.result:
            given = f"a tensor of {value.dtype.name}" if isinstance(value, tf.Tensor) else f"{type(value).__name__}"
            raise self.refused(f"gave {given}", self._expected(getattr(value, "dtype", None)))
        array: Array = value.numpy()
        return array

    def _expected(self, given: Any) -> str:
        """The expected dtype of the result, and how to declare the dtype that it has."""
        result = self.made.spec.result
        if not isinstance(given, tf.DType) or given.is_complex == tf.as_dtype(result).is_complex:
            narrow = "complex64" if result == "complex128" else "float32"
            return f"one tensor of {result}, as declared; declare dtype={narrow!r} if it computes in {narrow}"
        return f"one tensor of {result}, as declared; declare result={given.name!r} if it returns {given.name}"

    def refuse_value(self) -> None:
        """Raises OperationError unless the result is finite, repeatable and, where that was declared, elementwise."""
        value = self.value()
        if not np.all(np.isfinite(value)):
            raise self.refused(f"gave {_short(value)}", "finite numbers; declare with domain= where it has them")
        again = self.value()
        if not np.array_equal(value, again):
            raise self.refused(
                f"gave {_short(value)}, then {_short(again)}",
                "the same for the same arguments; fix the seed, as with tf.random.stateless_uniform",
            )
        if self.made.elementwise:
            self._refuse_unless_elementwise(value)

    def _refuse_unless_elementwise(self, value: Array) -> None:
        others = [np.flip(one).reshape(one.shape) for one in self.arguments]
        stacked = [tf.constant(np.stack([one, other])) for one, other in zip(self.arguments, others, strict=True)]
        advice = "an elementwise function where no shapes are given; give them, such as shapes=[(3,), (2, 3)]"
        if value.shape != self.arguments[0].shape:
            raise self.refused(f"gave a result of shape {value.shape}", advice)
        try:
            rows: Array = self.run(*stacked).numpy()
            flipped: Array = self.run(*map(tf.constant, others)).numpy()
        except Exception as error:  # of the function that is declared
            raise self.refused(f"raised {type(error).__name__} for two of these at once", advice) from error
        near = NEAR + self.made.spec.rtol
        if rows.shape != (2, *value.shape) or not np.allclose(rows, np.stack([value, flipped]), rtol=near, atol=near):
            raise self.refused("changed when computed in a batch of two", advice)
        if not np.allclose(np.flip(flipped), value, rtol=near, atol=near):
            raise self.refused("gave different elements for reversed arguments", advice)

    def lost_derivative(self) -> str:
        """Why there is no first derivative here; empty if there is one."""
        tensors = [tf.constant(one) for one in self.arguments]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = self.run(*tensors)
        try:
            parts = tape.gradient(value, tensors)
        except Exception as error:  # of the function that is declared
            return f"its gradient raised {type(error).__name__}: {error}".splitlines()[0]
        return "its gradient is None" if all(part is None for part in parts) else ""


def _short(value: Array) -> str:
    text = np.array2string(value, precision=3, separator=", ", threshold=6, edgeitems=2)
    text = re.sub(r"(?<=\[) | (?=\])| (?= )", "", text.replace("\n", ""))
    return text if len(text) <= 80 else f"{text[:76]} ..."
