"""The ways in which TensorFlow takes a derivative: along which path, and in which mode of execution."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradcheck.autodiff.forward import forward_over_reverse, forward_pullbacks, reverse_over_forward
from gradcheck.autodiff.jacobian import jacobian_pullbacks, jacobian_second
from gradcheck.autodiff.pullback import (
    DerivativeRaisedError,
    Forward,
    Second,
    Tensors,
    pullbacks,
    second_pullbacks,
)
from gradcheck.autodiff.traced import ModeUnavailableError, around, inside, told

PFOR, LOOP = "jacobian (pfor)", "jacobian (loop)"
FUNCTION, AROUND, XLA = "tf.function", "a tape around tf.function", "XLA"

PATHS: dict[tuple[str, int], Callable[..., Any]] = {
    ("reverse", 1): pullbacks,
    ("reverse", 2): second_pullbacks,
    ("forward", 1): forward_pullbacks,
    ("forward over reverse", 2): forward_over_reverse,
    ("reverse over forward", 2): reverse_over_forward,
    (PFOR, 1): partial(jacobian_pullbacks, pfor=True),
    (PFOR, 2): partial(jacobian_second, pfor=True),
    (LOOP, 1): partial(jacobian_pullbacks, pfor=False),
    (LOOP, 2): partial(jacobian_second, pfor=False),
}
"""What takes the derivative of an order along a path."""

EXECUTIONS: dict[str, Callable[..., Callable[..., Any]]] = {
    "eager": lambda take, order: take,
    FUNCTION: lambda take, order: inside(take, order=order, jit=False),
    AROUND: lambda take, order: around(take, order=order),
    XLA: lambda take, order: inside(take, order=order, jit=True),
}
"""What runs it."""

DOCUMENTED = (LookupError, NotImplementedError)
"""What TensorFlow raises for derivatives that it documents as not available: no gradient is registered, or its author
says that it is not implemented."""

REFUSED = re.compile(
    r"Detected unsupported operations when trying to compile graph|must be a compile-time constant"
    r"|No pfor vectorization defined for|No converter defined for"
)
"""What it says of a kernel that XLA has not, and of an operation that pfor does not vectorise."""


@dataclass(frozen=True)
class Mode:
    """A path and a mode of execution; the plain one is reverse and eager.

    >>> Mode("forward").orders
    (1,)
    """

    path: str = "reverse"
    mode: str = "eager"

    def __post_init__(self) -> None:
        paths = sorted({path for path, _ in PATHS})
        if self.path not in paths or self.mode not in EXECUTIONS:
            raise ValueError(
                f"path, mode were {self.path!r}, {self.mode!r}; expected one of {', '.join(paths)}, and one of "
                f"{', '.join(EXECUTIONS)}"
            )

    def __str__(self) -> str:
        return f"{self.path}, {self.mode}"

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders of derivatives that its path has."""
        return tuple(order for order in (1, 2) if (self.path, order) in PATHS)

    def pullbacks(self, forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
        """As `pullback.pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError."""
        rows: list[Tensors] = self._taken(1, forward, sources, cotangents)
        return rows

    def second_pullbacks(
        self, forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
    ) -> Second:
        """As `pullback.second_pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError."""
        second: Second = self._taken(2, forward, sources, cotangent, directions)
        return second

    def _taken(self, order: int, *given: Any) -> Any:
        if order not in self.orders:
            raise ValueError(f"order was {order}; the path {self.path!r} has {self.orders}")
        take = EXECUTIONS[self.mode](PATHS[self.path, order], order)
        if self == PLAIN:  # what it cannot take is always a finding
            return take(*given)
        try:
            return take(*given)
        except DerivativeRaisedError as error:
            cause = error.__cause__ or error
            if isinstance(cause, DOCUMENTED) or REFUSED.search(str(cause)):
                raise ModeUnavailableError(told(cause)) from error
            raise


PLAIN = Mode()
MODES = (
    Mode("forward"),
    Mode("forward over reverse"),
    Mode("reverse over forward"),
    Mode(PFOR),
    Mode(LOOP),
    Mode("forward", FUNCTION),
    Mode("reverse", FUNCTION),
    Mode("reverse", AROUND),
    Mode("reverse", XLA),
)
"""The modes that are compared with the plain one."""
