"""Where operations are applied: every active tape looks on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradcheck.programs.application import Application, Operation
from gradcheck.programs.operations import READ
from gradcheck.programs.record import Record
from gradcheck.programs.tensor import Tensor, Variable


@dataclass(eq=False)
class Stage:
    """The records of the tapes that are active, and whether all of this stands in a tf.function.

    `blocked` counts the gradients of functions and conditionals that were taken before the eyes of an active tape:
    what comes of them is opaque.
    """

    traced: bool = False
    active: list[Record] = field(default_factory=list)
    blocked: int = 0

    def apply(self, operation: Operation, *inputs: Tensor) -> Tensor:
        """One operation with one result."""
        return self.apply_all(operation, inputs)[0]

    def apply_all(self, operation: Operation, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """One operation with all of its results."""
        with np.errstate(all="ignore"):
            results = operation.forward(*(tensor.value[None] for tensor in inputs))
        arrays = results if isinstance(results, tuple) else (results,)
        outputs = tuple(Tensor(np.asarray(array[0])) for array in arrays)
        if operation.recorded:
            application = Application(operation, tuple(inputs), outputs)
            for record in self.active:
                record.note(application)
        return outputs

    def tensor(self, value: Tensor | Variable) -> Tensor:
        """A tensor as it is; a variable is read, and watched by the tapes that watch what is accessed."""
        if isinstance(value, Tensor):
            return value
        self.access(value)
        result = Tensor(value.value)
        application = Application(READ, (value.handle,), (result,))
        for record in self.active:
            record.note(application)
        return result

    def access(self, variable: Variable) -> None:
        """Reading or assigning a trainable variable makes tapes watch it."""
        for record in self.active:
            if record.accessed and variable.trainable:
                record.watch(variable.handle)


def unseen(value: Tensor | Variable) -> Tensor:
    """The same without any tape looking on."""
    return value if isinstance(value, Tensor) else Tensor(value.value)
