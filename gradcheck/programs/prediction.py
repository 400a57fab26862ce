"""What the model predicts of a derivative: a value, None, zeros; or the exception that ends the program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.programs.seen import Seen
from gradcheck.programs.tensor import Tensor

VALUE, NONE, ZEROS = "value", "None", "zeros"


@dataclass(frozen=True, eq=False)
class Part:
    """The derivative with respect to one source: `kind` is VALUE (that of `seen`), NONE or ZEROS (shape and dtype).

    `tensor` is the derivative as the program goes on to use it (a Jacobian is opaque, and a placeholder of zeros);
    `seen` is what the tape saw, for every kind.
    """

    kind: str
    tensor: Tensor | None
    seen: Seen

    @classmethod
    def of_gradient(cls, found: Tensor | None, zeros: Tensor | None, seen: Seen) -> Part:
        """The part for what the reverse pass found, or for the zeros that were asked for."""
        if found is not None:
            return cls(VALUE, found, seen)
        return cls(NONE, None, seen) if zeros is None else cls(ZEROS, zeros, seen)

    @classmethod
    def of_jacobian(cls, found: Tensor | None, zeros: Any, seen: Seen) -> Part:
        """The same for a Jacobian; `zeros` is the dtype of those that were asked for."""
        if found is None and zeros is None:
            return cls(NONE, None, seen)
        kind, dtype = (ZEROS, zeros) if found is None else (VALUE, np.float64)
        return cls(kind, Tensor(np.zeros(seen.shape, dtype), opaque=True), seen)

    def veiled(self) -> Part:
        """The same part, whose derivative is not predicted."""
        return replace(self, tensor=None if self.tensor is None else replace(self.tensor, opaque=True))


@dataclass(frozen=True)
class Derivative:
    """One call of gradient, jacobian or batch_jacobian: its name, and its parts by the paths of the result."""

    name: str
    parts: dict[str, Part]
