"""The model's tensors and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value with an identity of its own, as tapes know them: two equal values are two tensors.

    A variable's handle is a tensor, too; its value is the variable's when it was made. `opaque` marks derivatives
    whose own derivative the model does not predict.
    """

    value: Array
    handle: bool = False
    opaque: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.value.shape)

    @property
    def floating(self) -> bool:
        """Whether a tape follows it."""
        return bool(self.value.dtype.kind == "f")


@dataclass(eq=False)
class Variable:
    """A variable: a handle that tapes watch, and a value that changes."""

    handle: Tensor
    trainable: bool
    value: Array
