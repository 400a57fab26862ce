"""A computation as the list of its operations, which run eagerly one after the other (a Wengert list).

Making and running a graph of a few dozen operations once takes many times longer than running those operations, and
again for its derivatives. Values that do not depend on the inputs are computed once.

R. E. Wengert, "A simple automatic derivative evaluation program", Communications of the ACM 7 (1964).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tensorflow.python.eager import context, execute, record
from tensorflow.python.framework import op_callbacks, op_def_registry, ops

from gradcheck.autodiff.coordinates import farthest, to_coordinates
from gradcheck.tracing.kernels import SHAPES

Compute = Callable[..., list[Any]]
"""Maps tensors to a list of tensors, eagerly."""


ULPS = 64.0
"""The list agrees with the computation if their values differ by at most this many roundings of the largest value."""


class NoListError(Exception):
    """The computation cannot be listed; the message says why."""


@dataclass(frozen=True)
class _Step:
    """One operation; `inputs` are places in the list of values before it.

    `attributes` are those that tapes get; those `given` to the operation leave out None, which means the default.
    """

    name: str
    inputs: tuple[int, ...]
    count: int
    attributes: tuple[Any, ...]

    @cached_property
    def given(self) -> tuple[Any, ...]:
        """The attributes to run it with."""
        pairs = zip(self.attributes[::2], self.attributes[1::2], strict=True)
        return tuple(part for name, value in pairs if value is not None for part in (name, value))


@dataclass(frozen=True)
class WengertList:
    """The operations between inputs and outputs. The values begin with the inputs, then the constants."""

    constants: tuple[Any, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[int, ...]

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the outputs for other inputs of the same shapes and dtypes. Raises what an operation raises."""
        values, handle = [*inputs, *self.constants], context.context()
        run, recorded = execute.execute, record.could_possibly_record()
        for step in self.steps:
            tensors = [values[place] for place in step.inputs]
            results = run(step.name, step.count, tensors, step.given, handle)
            if recorded:
                execute.record_gradient(step.name, tensors, step.attributes, results)
            values += results
        return [values[place] for place in self.outputs]

    @staticmethod
    def of(compute: Compute, inputs: Sequence[Any], *others: Sequence[Any]) -> WengertList:
        """List what runs at the inputs; the list has to agree with the computation at all `others`.

        Raises NoListError, or what the computation raises.
        """
        found = _Recording([tensor._id for tensor in inputs])
        op_callbacks.add_op_callback(found.note)
        try:
            outputs = compute(*inputs)
        finally:
            op_callbacks.remove_op_callback(found.note)
        listed = found.list_to(outputs)
        # An unseen operation would have become a constant.
        for given in others:
            if not all(map(_same, compute(*given), listed(*given))):
                raise NoListError("it has other values at other inputs")
        return listed


class _Recording:
    """The operations that depend on the inputs, by the ids of their tensors."""

    def __init__(self, inputs: Sequence[int]) -> None:
        self._inputs = inputs
        self._moved = set(inputs)
        self._seen: list[tuple[str, tuple[Any, ...], tuple[Any, ...], Sequence[Any]]] = []

    def note(self, name: Any, inputs: Any, attributes: Any, outputs: Any, *_: Any, **__: Any) -> None:
        """Record an operation if it depends on the inputs."""
        name = name.decode() if isinstance(name, bytes) else name
        eager = (tensor for tensor in inputs if isinstance(tensor, ops.EagerTensor))
        if name not in SHAPES and any(tensor._id in self._moved for tensor in eager):
            self._seen.append((name, tuple(inputs), attributes, outputs))
            self._moved.update(tensor._id for tensor in outputs)

    def list_to(self, outputs: Sequence[Any]) -> WengertList:
        """Return the list up to these tensors, without operations that they do not need. Raises NoListError."""
        wanted, needed = {tensor._id for tensor in outputs}, []
        for one in reversed(self._seen):
            if any(tensor._id in wanted for tensor in one[3]):
                needed.append(one)
                wanted.update(tensor._id for tensor in one[1])
        self._refuse_others(needed)
        used = [*outputs, *(tensor for one in needed for tensor in one[1])]
        constants = {tensor._id: tensor for tensor in used if tensor._id not in self._moved}
        places = {number: place for place, number in enumerate((*self._inputs, *constants))}
        count, steps = len(places), []
        for name, inputs, attributes, results in reversed(needed):
            steps.append(_Step(name, tuple(places[one._id] for one in inputs), len(results), attributes))
            places.update((one._id, count + place) for place, one in enumerate(results))
            count += len(results)
        return WengertList(tuple(constants.values()), tuple(steps), tuple(places[one._id] for one in outputs))

    def _refuse_others(self, needed: Sequence[Any]) -> None:
        for name, *_ in needed:
            definition = op_def_registry.get(name)
            if definition is None or definition.is_stateful:
                raise NoListError(f"{name} is a function, or has a state")


def _same(one: Any, other: Any) -> bool:
    first, second = to_coordinates(one.numpy()), to_coordinates(other.numpy())
    slack = float(ULPS * np.finfo(np.float64).eps * np.max(np.abs(first), where=np.isfinite(first), initial=0.0))
    return farthest(first, second) <= slack
