"""One observed call of the user's function: the time it takes, and how coarse its arithmetic is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.reverse import Tensors
from gradcheck.problem.function import Function
from gradcheck.problem.mapped import as_array
from gradcheck.tracing.state import advances_random_state, draws_at_random, nodes_of, observe_operations
from gradcheck.typing import Array

FLOAT64 = ROUNDOFF["float64"]

BESIDE = 2.0**-6
"""Relative offset of the second point at which the values are compared."""


@dataclass(frozen=True)
class ObservedCall:
    """A call of a function at its point: the coordinates `value` (m,) of the results, the processor time in seconds,
    and the unit roundoff of the coarsest arithmetic in anything that depends on the sources, relevant or not.

    `draws`: an operation outside of any function drew random numbers from a state of its own, while TensorFlow had no
    global seed. `drawn`: the outputs of such operations, and of random generators, in order."""

    value: Array
    seconds: float
    roundoff: float
    draws: bool = False
    drawn: tuple[tuple[str, Any], ...] = ()


def observed_call(function: Function) -> ObservedCall:
    """Call a function and observe its operations, those inside of functions included.

    A tensor coarser than float64 that does not come from a source, such as a mask, counts only if it changes with them:
    code outside of TensorFlow may have made it. A second call, near the point, shows that.
    """
    call = _Observation.of(function, function.point)
    roundoff = call.roundoff
    if call.apart and not _same_beside(function, call.apart):
        roundoff = max(roundoff, *(ROUNDOFF[tensor.dtype.name] for tensor in call.apart))
    return ObservedCall(call.value, call.seconds, roundoff, call.draws, tuple(call.drawn))


def _same_beside(function: Function, tensors: Sequence[Any]) -> bool:
    """Whether a call near the point, with every coordinate moved, makes the same tensors that depend on no source."""
    point = beside_everywhere(function)
    if not function.contains(point) or (point == function.point).any():
        return False
    try:
        others = _Observation.of(function, point).apart
    except Exception:  # whatever it raises there, nothing is known
        return False
    pairs = ((as_array(one), as_array(other)) for one, other in zip(tensors, others, strict=False))
    return len(tensors) == len(others) and all(np.array_equal(one, other) for one, other in pairs)


@dataclass
class _Observation:
    """One observed call: ids of the tensors that depend on the sources, and coarse tensors that do not."""

    moved: set[int]
    apart: list[Any] = field(default_factory=list)
    roundoff: float = 0.0
    seconds: float = 0.0
    value: Array = field(default_factory=lambda: np.zeros(0))
    draws: bool = False
    drawn: list[tuple[str, Any]] = field(default_factory=list)

    @staticmethod
    def of(function: Function, point: Array) -> _Observation:
        """Call a function at a point."""
        began = time.process_time()
        tensors = function.tensors(point)
        found = _Observation({(one.handle if hasattr(one, "handle") else one)._id for one in tensors})
        observe_operations(lambda: found._take(function, tensors), found._note)
        found.seconds += time.process_time() - began
        return found

    def _take(self, function: Function, tensors: Tensors) -> None:
        self.value = function.value_of(tensors)

    def _note(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], _: Any) -> None:
        if not all(isinstance(tensor, ops.EagerTensor) for tensor in (*inputs, *outputs)):
            return  # a function is being traced: its call follows
        began = time.process_time()
        self.draws = self.draws or (context.global_seed() is None and draws_at_random(name))
        if advances_random_state(name):
            self.drawn += [(name, output) for output in outputs]
        coarse = [tensor for tensor in (*inputs, *outputs) if ROUNDOFF.get(tensor.dtype.name, 0.0) > FLOAT64]
        if any(tensor._id in self.moved for tensor in inputs):
            written = (tensor for tensor in inputs if tensor.dtype == tf.resource)
            self.moved.update(tensor._id for tensor in (*outputs, *written))
            attributes = (given for node, _ in nodes_of(name) for given in node.attr.values())
            inner = {tf.as_dtype(given.type).name for given in attributes if given.type}
            names = inner.union(tensor.dtype.name for tensor in coarse)
            self.roundoff = max([self.roundoff, *(ROUNDOFF.get(one, 0.0) for one in names)])
        else:
            self.apart += coarse
        self.seconds -= time.process_time() - began


def beside(function: Function) -> Array:
    """A point near the function's, in a random direction."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=function.point.size)
    return function.rounded(function.point * (1 + BESIDE * signs))


def beside_everywhere(function: Function) -> Array:
    """The same, with zeros moved, too."""
    return np.where(function.point == 0, BESIDE, beside(function))
