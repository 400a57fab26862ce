"""Operations as tapes record them: what an operation is, and one application of it to tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gradcheck.programs.tensor import Tensor

Compute: TypeAlias = Callable[..., Tensor]
Parts: TypeAlias = "tuple[Tensor | None, ...]"
Backward: TypeAlias = "Callable[[Compute, Application, tuple[Tensor, ...]], Parts]"


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation; `forward` takes and returns arrays with a leading axis of points.

    `text` is the Python source, None for what only gradients use. `backward` maps the gradients of the outputs to those
    of the inputs; None is an operation that is registered as not differentiable. `fixed`: differences hold its
    value, as the tape does. `recorded=False`: no tape sees it (NumPy, stop_gradient); `reads=False`: nor sees that a
    variable is read for it. `matrix`: the arguments are matrices.
    """

    name: str
    forward: Callable[..., Any]
    backward: Backward | None = None
    text: str | None = None
    arity: int = 1
    fixed: bool = False
    recorded: bool = True
    reads: bool = True
    matrix: bool = False


@dataclass(frozen=True, eq=False)
class Application:
    """One operation as a tape records it."""

    operation: Operation
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
