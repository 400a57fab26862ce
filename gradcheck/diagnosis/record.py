"""What somebody's code did, in order: operations, values that left TensorFlow, tapes and what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck.diagnosis.lines import Line


def key(tensor: Any) -> int:
    """What tells a tensor, or a variable by its handle, from all others of a record."""
    return id(handle) if (handle := getattr(tensor, "handle", None)) is not None else id(tensor)


@dataclass(frozen=True)
class Operation:
    """One operation: its name, tensors and attributes, the line that ran it, and the tapes that recorded it.

    `Const` stands for a value that entered TensorFlow. `backward` is the gradient of an operation that brings its own
    (tf.custom_gradient of `function`, a loaded function). `call` is the derivative that was being taken meanwhile.
    """

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    attrs: Any = ()
    line: Line | None = None
    tapes: frozenset[int] = frozenset()
    call: int | None = None
    backward: Callable[..., Any] | None = None
    function: CustomCall | None = None


@dataclass(frozen=True)
class CustomCall:
    """A call of a function under tf.custom_gradient."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Exit:
    """A tensor whose value left TensorFlow through `method`, such as numpy or __float__."""

    tensor: Any
    method: str
    line: Line | None = None


@dataclass(frozen=True)
class Watch:
    """A tensor or variable that a tape was told to watch, or began to watch by itself when it was read."""

    tape: int
    tensor: Any
    line: Line | None = None


@dataclass(frozen=True)
class Turn:
    """A tape begins or ends to record: `change` is "opened", "closed" or "reset"."""

    tape: int
    change: str
    line: Line | None = None


@dataclass(frozen=True)
class Derivative:
    """A tape was asked for a derivative; `number` counts these calls, `position` the events before it.

    `targets` and `sources` are flat, and so are the `results` (one a source) of what came as `result`; None where the
    call raised `error`. `weights` are the output_gradients; so many
    `operations` took the derivative.
    """

    number: int
    position: int
    tape: int
    method: str
    targets: tuple[Any, ...]
    sources: tuple[Any, ...]
    weights: tuple[Any, ...] | None = None
    zeros: bool = False
    result: Any = None
    results: tuple[Any, ...] | None = None
    error: Exception | None = None
    line: Line | None = None
    operations: int = 0


@dataclass(frozen=True)
class Tape:
    """A GradientTape, and whether it watches the trainable variables that are read while it records."""

    tape: Any
    watches_accessed: bool


Event = Operation | Exit | Watch | Turn | Derivative


@dataclass(frozen=True)
class Record:
    """The events in order, the tapes by number, and what the code returned or raised.

    `covering` is a persistent tape that recorded everything and watched everything. `functions` says whether a
    tf.function was called, `variables` gives those that were touched, by the keys of their handles.
    """

    events: Sequence[Event]
    tapes: Sequence[Tape]
    inputs: tuple[Any, ...] = ()
    result: Any = None
    error: BaseException | None = None
    covering: Any = None
    functions: bool = False
    variables: dict[int, Any] = field(default_factory=dict)

    @property
    def derivatives(self) -> list[Derivative]:
        """What the tapes were asked for."""
        return [event for event in self.events if isinstance(event, Derivative)]

    @property
    def operations(self) -> list[Operation]:
        """The operations alone; replays count them in this order."""
        return [event for event in self.events if isinstance(event, Operation)]
