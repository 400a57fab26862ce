"""The float64 form of a function that computes in less: with low-precision inputs or variables, or with casts inside.

A function of float32 inputs is called with float64 ones where it takes them. Everything else is traced, and built again
in float64 (`retraced`): layers with float32 variables, mixed policies, casts that hide digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from gradcheck.autodiff.coordinates import ROUNDOFF, WIDE
from gradcheck.autodiff.function import Function, flat, specs_of
from gradcheck.autodiff.mapped import as_array
from gradcheck.autodiff.reverse import Tensors
from gradcheck.autodiff.retraced import Retraced
from gradcheck.autodiff.sources import Arguments, Source
from gradcheck.autodiff.state import nodes_of, observe_operations

Array = np.ndarray[Any, Any]

FLOAT64 = ROUNDOFF["float64"]

ROUNDINGS, MOST = 1e3, 0.1
"""Values that differ by so many roundings, but no more than by so much, relatively, are those of one function;"""

DRAWS, SPREAD = 8, 10.0
"""or where perturbations of inner values, so many of them, move the form by at least a part of the difference."""

BESIDE = 2.0**-6
"""How far beside the point, relatively, the values are compared as well."""


@dataclass(frozen=True)
class ObservedCall:
    """A call of a function at its point: the coordinates `value` (m,) of the results, the processor time in seconds,
    and the unit roundoff of the coarsest arithmetic that what depends on the sources runs through, relevant or not."""

    value: Array
    seconds: float
    roundoff: float


def observed_call(function: Function) -> ObservedCall:
    """Call a function and look at its operations, those inside of functions included.

    What is coarser than float64 and comes of no source, such as a mask, counts only where it changes with them: code
    outside of TensorFlow may have made it. A second call, beside the point, shows that.
    """
    call = _Observation.of(function, function.point)
    roundoff = call.roundoff
    if call.apart and not _same_beside(function, call.apart):
        roundoff = max(roundoff, *(ROUNDOFF[tensor.dtype.name] for tensor in call.apart))
    return ObservedCall(call.value, call.seconds, roundoff)


def _same_beside(function: Function, tensors: Sequence[Any]) -> bool:
    """Whether a call beside the point, where every coordinate is another one, makes the same tensors apart from it."""
    zeros = function.point == 0
    point = np.where(zeros, BESIDE, _beside(function))
    if not function.contains(point) or (point == function.point).any():
        return False
    try:
        others = _Observation.of(function, point).apart
    except Exception:  # whatever it throws there, nothing is known
        return False
    pairs = zip(tensors, others, strict=False)
    return len(tensors) == len(others) and all(np.array_equal(*map(as_array, pair)) for pair in pairs)


@dataclass
class _Observation:
    """One observed call: tensors that come of the sources, by their ids, and those in less than float64 that do not."""

    moved: set[int]
    apart: list[Any] = field(default_factory=list)
    roundoff: float = 0.0
    seconds: float = 0.0
    value: Array = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def of(function: Function, point: Array) -> _Observation:
        """Call a function at a point."""
        began = time.process_time()
        tensors = function.tensors(point)
        found = _Observation({getattr(one, "handle", one)._id for one in tensors})
        observe_operations(lambda: found._take(function, tensors), found._note)
        found.seconds += time.process_time() - began
        return found

    def _take(self, function: Function, tensors: Tensors) -> None:
        self.value = flat(list(map(as_array, function.call(tensors))))

    def _note(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if not all(isinstance(tensor, ops.EagerTensor) for tensor in (*inputs, *outputs)):
            return  # a function is traced: its call follows
        began = time.process_time()
        coarse = [tensor for tensor in (*inputs, *outputs) if ROUNDOFF.get(tensor.dtype.name, 0.0) > FLOAT64]
        if any(tensor._id in self.moved for tensor in inputs):
            written = (tensor for tensor in inputs if tensor.dtype == tf.resource)
            self.moved.update(tensor._id for tensor in (*outputs, *written))
            inner = (tf.as_dtype(given.type) for node, _ in nodes_of(name) for given in node.attr.values() if given.type)
            names = {tensor.dtype.name for tensor in coarse}.union(dtype.name for dtype in inner)
            self.roundoff = max(self.roundoff, *(ROUNDOFF.get(one, 0.0) for one in names), 0.0)
        else:
            self.apart += coarse
        self.seconds -= time.process_time() - began


def _beside(function: Function) -> Array:
    """A point a little beside that of the function, in no direction in particular."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=function.point.size)
    return function.rounded(function.point * (1 + BESIDE * signs))


def with_float64_form(function: Function, inner: float | None = None) -> Function:
    """The function with its float64 form, where it computes in less and has one, and with the roundoff of what it does.

    The form is compared with the function's own values, at the point and beside it: what computes something else in
    float64 is not used. `inner` is the roundoff that an ObservedCall has shown.
    """
    inner = observed_call(function).roundoff if inner is None else inner
    if max(function.precision, inner) <= FLOAT64:
        return function
    retracing = _Retracing(function)
    copied = _copied(function)
    if copied is not None:
        copied = replace(copied, noisy=retracing.noisy)
        if _same(function, copied) and observed_call(copied).roundoff <= FLOAT64:
            return replace(function, wide=copied)
    try:
        wide, inner = retracing.wide
        if max(function.precision, inner) <= FLOAT64:
            return function  # what it does in less does not matter
        function = replace(function, inner=inner)
        return replace(function, wide=wide) if _same(function, wide) else function
    except Exception:  # what cannot be traced, or has no kernel in float64, stays what it is
        return replace(function, inner=inner)


def _widened(source: Source) -> Source:
    return replace(source, value=source.value.astype(WIDE.get(source.dtype, source.dtype)), variable=None)


def _copied(function: Function) -> Function | None:
    """The function on float64 copies of its inputs, if it accepts them and gives nothing less."""
    sources = function.sources
    if not any(source.dtype in WIDE for source in sources) or any(source.variable is not None for source in sources):
        return None
    copies = replace(function.arguments, sources=tuple(map(_widened, sources)))
    wide = replace(function, arguments=copies)
    try:
        wide = replace(wide, results=specs_of(wide.f(*wide.arguments.rebuilt(wide.tensors(wide.point)))))
    except Exception:  # any refusal of float64, for whatever reason, means: stay with the dtype given
        return None
    narrow = any(result.dtype.name in WIDE for result in wide.results)
    return None if narrow or len(wide.results) != len(function.results) else wide


def _same(function: Function, wide: Function) -> bool:
    """Whether both have the same values but for rounding, at the point and at one beside it."""
    points = function.rounded(function.point), _beside(function)
    return all(_same_at(function, wide, point) for point in points if function.contains(point))


def _same_at(function: Function, wide: Function, point: Array) -> bool:
    low, high = function.value(point), wide.value(point)
    if low.shape != high.shape:
        return False
    apart = np.abs(low - high)
    slack = min(ROUNDINGS * function.precision, MOST) * float(np.max(np.abs(high), initial=0.0))
    if np.all(apart <= slack):
        return True
    moved = np.ptp([wide.perturbed(draw).value(point) for draw in range(DRAWS)], axis=0)
    return bool(np.all(apart <= slack + SPREAD * moved))


@dataclass(frozen=True)
class _Retracing:
    """A function and what is built of its trace, when it is first asked for."""

    function: Function

    @cached_property
    def graph(self) -> Any:
        """The trace, in the precision given."""
        specs = [tf.TensorSpec(source.shape, source.dtype) for source in self.function.sources]

        def compute(*tensors: Any) -> Any:
            return self.function.call(self.function.placed(list(tensors)))

        return tf.function(compute, autograph=False).get_concrete_function(*specs).graph

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The sources in float64."""
        return tuple(map(_widened, self.function.sources))

    @cached_property
    def wide(self) -> tuple[Function, float]:
        """The float64 form, and the coarsest roundoff that was left out."""
        retraced = Retraced()
        form = _built(self.sources, lambda *tensors: retraced.outputs(self.graph, tensors))
        return replace(_function_of(self.sources, form), noisy=self.noisy), retraced.narrow

    @cached_property
    def _rounded(self) -> Callable[..., Any] | None:
        """The computation of the sources and a seed (2,) of its perturbations; None where there is none."""

        def compute(*tensors: Any) -> Any:
            return Retraced(seed=tensors[-1]).outputs(self.graph, tensors[:-1])

        try:
            return _built((*self.sources, Source("seed", np.zeros(2, np.int32))), compute)
        except Exception:
            return None

    def noisy(self, draw: int) -> Function | None:
        """The float64 form with perturbed inner values, where there is one."""
        compute = self._rounded
        if compute is None:
            return None
        return _function_of(self.sources, lambda *tensors: compute(*tensors, tf.constant([draw, 0])))


def _built(sources: Sequence[Source], compute: Callable[..., Any]) -> Callable[..., Any]:
    """A computation in a graph for the sources."""
    specs = [tf.TensorSpec(source.shape, source.dtype) for source in sources]
    built: Callable[..., Any] = tf.function(compute, autograph=False).get_concrete_function(*specs)
    return built


def _function_of(sources: tuple[Source, ...], compute: Callable[..., Any]) -> Function:
    empty = (None,) * len(sources)
    arguments = Arguments(empty, empty, sources, tuple(range(len(sources))), len(sources))
    function = Function(lambda *tensors: compute(*tensors), arguments, ())
    return replace(function, results=specs_of(function.call(function.tensors(function.point))))
