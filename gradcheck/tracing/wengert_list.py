"""A computation as the list of its operations, which run eagerly one after the other (a Wengert list).

Making and running a graph of a few dozen operations once takes many times longer than running those operations, and
again for its derivatives. Values that do not depend on the inputs are computed once.

R. E. Wengert, "A simple automatic derivative evaluation program", Communications of the ACM 7 (1964).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tensorflow.python.framework import op_def_registry, ops

from gradcheck.autodiff.coordinates import farthest, to_coordinates
from gradcheck.tracing.kernels import SHAPES
from gradcheck.tracing.operation import Operation
from gradcheck.tracing.state import observe_operations

Compute = Callable[..., list[Any]]
"""Maps tensors to a list of tensors, eagerly."""


ULPS = 64.0
"""The list agrees with the computation if their values differ by at most this many roundings of the largest value."""


class NoListError(Exception):
    """The computation cannot be listed; the message says why."""


class Step(NamedTuple):
    """An operation, and the places of its inputs in the list of values before it."""

    operation: Operation
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class WengertList:
    """The operations between inputs and outputs. The values begin with the inputs, then the constants."""

    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the outputs for other inputs of the same shapes and dtypes. Raises what an operation raises."""
        values = [*inputs, *self.constants]
        for operation, places in self.steps:
            values += operation.run([values[place] for place in places])
        return [values[place] for place in self.outputs]

    @staticmethod
    def of(compute: Compute, inputs: Sequence[Any], *others: Sequence[Any]) -> WengertList:
        """List what runs at the inputs; the list has to agree with the computation at all `others`.

        Raises NoListError, or what the computation raises.
        """
        found, outputs = _Recording({tensor._id for tensor in inputs}), []
        observe_operations(lambda: outputs.extend(compute(*inputs)), found.note)
        listed = found.list_to(inputs, outputs)
        # An unseen operation would have become a constant.
        for given in others:
            if not all(map(_same, compute(*given), listed(*given))):
                raise NoListError("it has other values at other inputs")
        return listed


class _Recording:
    """The operations that depend on the inputs, and the ids of the tensors that do."""

    def __init__(self, moved: set[int]) -> None:
        self._moved = moved
        self._run: list[tuple[Operation, Sequence[Any], Sequence[Any]]] = []

    def note(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], attributes: Any) -> None:
        """Record an operation if it depends on the inputs."""
        eager = (tensor for tensor in inputs if isinstance(tensor, ops.EagerTensor))
        if name not in SHAPES and any(tensor._id in self._moved for tensor in eager):
            self._run.append((Operation(name, len(outputs), attributes), tuple(inputs), outputs))
            self._moved.update(tensor._id for tensor in outputs)

    def list_to(self, sources: Sequence[Any], targets: Sequence[Any]) -> WengertList:
        """Return the list from some tensors to others, without operations that it does not need. Raises NoListError."""
        wanted, needed, used = {tensor._id for tensor in targets}, [], list(targets)
        for one in reversed(self._run):
            operation, inputs, outputs = one
            if any(tensor._id in wanted for tensor in outputs):
                definition = op_def_registry.get(operation.name)
                if definition is None or definition.is_stateful:
                    raise NoListError(f"{operation.name} is a function, or has a state")
                needed.append(one)
                used += inputs
                wanted.update(tensor._id for tensor in inputs)
        constants = {tensor._id: tensor for tensor in used if tensor._id not in self._moved}
        places = {number: place for place, number in enumerate((*(one._id for one in sources), *constants))}
        steps = []
        for operation, inputs, outputs in reversed(needed):
            steps.append(Step(operation, tuple(places[tensor._id] for tensor in inputs)))
            places |= {tensor._id: len(places) + number for number, tensor in enumerate(outputs)}
        return WengertList(tuple(constants.values()), tuple(steps), tuple(places[tensor._id] for tensor in targets))


def _same(one: Any, other: Any) -> bool:
    first, second = to_coordinates(one.numpy()), to_coordinates(other.numpy())
    slack = float(ULPS * np.finfo(np.float64).eps * np.max(np.abs(first), where=np.isfinite(first), initial=0.0))
    return farthest(first, second) <= slack
