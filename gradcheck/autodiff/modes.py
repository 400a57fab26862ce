"""Taking derivatives in every mode, in the form of `pullback`, so that they can be compared with the plain ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from gradcheck.autodiff.forward import forward_over_reverse, forward_pullbacks, reverse_over_forward
from gradcheck.autodiff.jacobian import jacobian_pullbacks, jacobian_second
from gradcheck.autodiff.mode import AROUND, FUNCTION, LOOP, PFOR, PLAIN, XLA, Mode
from gradcheck.autodiff.pullback import DerivativeRaisedError, Forward, Second, Tensors
from gradcheck.autodiff.pullback import pullbacks as plain_pullbacks
from gradcheck.autodiff.pullback import second_pullbacks as plain_second_pullbacks
from gradcheck.autodiff.traced import ModeUnavailableError, around, called, inside, told

PATHS: dict[tuple[str, int], Callable[..., Any]] = {
    ("reverse", 1): plain_pullbacks,
    ("reverse", 2): plain_second_pullbacks,
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
    r"|XLA compilation requires a fixed tensor list size"
    r"|No pfor vectorization defined for|No converter defined for"
    r"|Output subscripts contain a label appearing more than once"
    r"|of a variable without handle data"
)
"""What it says of a kernel that XLA has not, of a loop in XLA without a largest number of iterations, of an operation
that pfor does not vectorise (jacobian documents a ValueError then, as for the diagonal that an einsum puts back), and
of the handle of a variable that is made inside, as the catalogue's are."""


def pullbacks(mode: Mode, forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """As `pullback.pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError.

    >>> import tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> ((gradient,),) = pullbacks(Mode("forward"), lambda sources: [sources[0] ** 2], [x], [[tf.ones(2)]])
    >>> gradient.numpy().tolist()
    [2.0, 4.0]
    """
    rows: list[Tensors] = _taken(mode, 1, forward, sources, cotangents)
    return rows


def second_pullbacks(
    mode: Mode, forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> Second:
    """As `pullback.second_pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError."""
    second: Second = _taken(mode, 2, forward, sources, cotangent, directions)
    return second


def values(mode: Mode, forward: Forward, sources: Tensors) -> Tensors:
    """The outputs, as they are computed in the mode. Raises ModeUnavailableError."""
    return forward(sources) if mode.mode == "eager" else called(forward, sources, jit=mode.mode == XLA)[0]


def _taken(mode: Mode, order: int, *given: Any) -> Any:
    if order not in mode.orders:
        raise ValueError(f"order was {order}; the path {mode.path!r} has {mode.orders}")
    take = EXECUTIONS[mode.mode](PATHS[mode.path, order], order)
    if mode == PLAIN:  # what it cannot take is always a finding
        return take(*given)
    try:
        return take(*given)
    except DerivativeRaisedError as error:
        cause = error.__cause__ or error
        if isinstance(cause, DOCUMENTED) or any(REFUSED.search(str(one)) for one in _chain(cause)):
            raise ModeUnavailableError(told(cause)) from error
        raise


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was raised from: pfor wraps those of the operations that it converts."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
