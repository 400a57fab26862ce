"""The model's tensors, and the applications that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradcheck.programs.operations import Operation

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


@dataclass(frozen=True, eq=False)
class Application:
    """One operation as a tape records it."""

    operation: Operation
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(eq=False)
class Variable:
    """A variable: a handle that tapes watch, and a value that changes."""

    handle: Tensor
    trainable: bool
    value: Array


@dataclass(eq=False)
class Record:
    """What one tape holds: the tensors that it follows, each with the application that made it (None: watched).

    Rules of tensorflow/c/eager/tape.h (Watch, ShouldRecord, RecordOperation).
    """

    accessed: bool
    entries: dict[Tensor, Application | None] = field(default_factory=dict)

    def watch(self, tensor: Tensor) -> None:
        """Follow a tensor; one that is followed already keeps its application."""
        self.entries.setdefault(tensor, None)

    def note(self, application: Application) -> None:
        """Record an application if a floating input is followed."""
        if any(tensor in self.entries and tensor.floating for tensor in application.inputs):
            self.entries.update(dict.fromkeys(application.outputs, application))

    def applications(self, targets: Sequence[Tensor]) -> list[Application]:
        """All recorded applications behind `targets`, each after those that it depends on."""
        found: dict[Application, None] = {}
        visited: set[Tensor] = set()

        def visit(tensor: Tensor) -> None:
            if tensor in visited:
                return
            visited.add(tensor)
            application = self.entries.get(tensor)
            if application is not None and application not in found:
                for parent in application.inputs:
                    visit(parent)
                found[application] = None

        for target in targets:
            visit(target)
        return list(found)
