"""The float64 form of a function that computes in less: with low-precision inputs or variables, or with casts inside.

A function of float32 inputs is called with float64 ones if it accepts them. Everything else is traced and rebuilt in
float64 (`retraced`): layers with float32 variables, mixed policies, casts that hide digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import func_graph

from gradcheck.autodiff.coordinates import WIDE
from gradcheck.autodiff.sources import Arguments, Source
from gradcheck.problem.function import Function
from gradcheck.problem.mapped import graph_of
from gradcheck.problem.observed_call import FLOAT64, ObservedCall, beside, beside_everywhere, observed_call
from gradcheck.problem.opening import specs_of
from gradcheck.tracing.graph_interpreter import straight
from gradcheck.tracing.retraced import Retraced
from gradcheck.tracing.wengert_list import WengertList
from gradcheck.typing import Array

ROUNDINGS, MOST = 1e3, 0.1
"""Values are those of one function if they differ by at most ROUNDINGS roundings and MOST times their size."""

DRAWS, SPREAD = 8, 10.0
"""Larger differences are allowed up to SPREAD times the range of the form in DRAWS perturbations of inner values."""

LONGEST = 128
"""A form with more operations that depend on the inputs is built as a graph."""


def with_float64_form(function: Function, observed: ObservedCall | None = None) -> Function:
    """Return the function with its float64 form, if it computes in less and has one, and with its inner roundoff.

    The form is compared with the function's own values, at the point and near it, and left out if it computes
    something else. `observed` is a call of the function, if there was one.
    """
    observed = observed or observed_call(function)
    inner = observed.roundoff
    if max(function.precision, inner) <= FLOAT64:
        return function
    retracing = _Retracing(function, observed.drawn)
    copied = _copied(function)
    if copied is not None:
        copied = replace(copied, noisy=partial(retracing.noisy, copied.results))
        if _same(function, copied, observed) and observed_call(copied).roundoff <= FLOAT64:
            return replace(function, wide=copied)
    try:
        wide, inner = retracing.wide
        if max(function.precision, inner) <= FLOAT64:
            return function  # what is computed in less precision does not matter
        function = replace(function, inner=inner)
        return replace(function, wide=wide) if _same(function, wide, observed) else function
    except Exception:  # cannot be traced, or has no kernel in float64
        return replace(function, inner=inner)


def _widened(source: Source) -> Source:
    return replace(source, value=source.value.astype(WIDE.get(source.dtype, source.dtype)), variable=None)


def _copied(function: Function) -> Function | None:
    """The function on float64 copies of its inputs, if it accepts them and returns nothing in less."""
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


def _same(function: Function, wide: Function, observed: ObservedCall) -> bool:
    """Whether both have the same values up to rounding, at the point, where one was observed, and at one near it.

    A form that draws other random numbers at every call is none.
    """
    if not _same_at(wide, function.point, observed.value, function.precision, draws=bool(observed.drawn)):
        return False
    point = beside(function)
    try:
        return not function.contains(point) or _same_at(wide, point, function.value(point), function.precision)
    except Exception:  # f raises there, or returns something else: the point alone has to do
        return True


def _same_at(wide: Function, point: Array, low: Array, precision: float, *, draws: bool = False) -> bool:
    try:
        high = wide.value(point)
        if draws and not np.array_equal(high, wide.value(point), equal_nan=True):
            return False
    except Exception:  # whatever it is: f did not raise it
        return False
    if low.shape != high.shape:
        return False
    apart = np.abs(low - high)
    slack = min(ROUNDINGS * precision, MOST) * float(np.max(np.abs(high), initial=0.0))
    if np.all(apart <= slack):
        return True
    with np.errstate(invalid="ignore"):
        moved = np.ptp([wide.perturbed(draw).value(point) for draw in range(DRAWS)], axis=0)
    # A rounding may move a value out of the domain: then it may be anything.
    return bool(np.all(apart <= slack + SPREAD * np.where(np.isnan(moved), np.inf, moved)))


@dataclass(frozen=True)
class _Retracing:
    """A function and what is built from its trace, on first use; every call draws the numbers `drawn`."""

    function: Function
    drawn: Sequence[tuple[str, Any]] = ()

    @cached_property
    def graph(self) -> Any:
        """The trace, in the given precision."""
        specs = [tf.TensorSpec(source.shape, source.dtype) for source in self.function.sources]

        def compute(*tensors: Any) -> Any:
            with tf.variable_creator_scope(_refuse_variable):
                return self.function.call(self.function.placed(list(tensors)))

        # As in a tf.function without autograph, a loop over a dataset then ends, with an error.
        unconverted = tf.autograph.experimental.do_not_convert(compute)
        # A tf.function would also build a function from it, which takes as long again.
        return func_graph.func_graph_from_py_func("traced", unconverted, specs, {}, add_control_dependencies=False)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The sources in float64."""
        return tuple(map(_widened, self.function.sources))

    @cached_property
    def wide(self) -> tuple[Function, float]:
        """The float64 form, and the coarsest roundoff of the computation that it replaces."""
        retraced = Retraced(drawn=self.drawn)

        def compute(*tensors: Any) -> Any:
            return retraced.outputs(self.graph, tensors)

        listed = self._listed(compute)
        wide = _function_of(self.sources, listed or _built(self.sources, compute))
        noisy, straight_on = partial(self.noisy, wide.results), listed is not None
        return replace(wide, noisy=noisy, plain=not retraced.same_gradients, straight=straight_on), retraced.narrow

    def _listed(self, compute: Callable[..., Any]) -> Callable[..., Any] | None:
        """The same form as a list of operations, if that is short; in a graph that is being traced, the form itself."""
        if not straight(self.graph):
            return None
        copies = replace(self.function, arguments=replace(self.function.arguments, sources=self.sources))
        try:
            points = copies.tensors(copies.point), copies.tensors(beside_everywhere(copies))
            listed = WengertList.of(compute, *points)
        except Exception:  # a graph may do what a list cannot
            return None
        if len(listed.steps) > LONGEST:
            return None
        return lambda *tensors: (listed if tf.executing_eagerly() else compute)(*tensors)

    @cached_property
    def _rounded(self) -> Callable[..., Any] | None:
        """The computation from the sources and a seed (2,) of its perturbations; None where it cannot be traced."""

        def compute(*tensors: Any) -> Any:
            return Retraced(seed=tensors[-1], drawn=self.drawn).outputs(self.graph, tensors[:-1])

        try:
            return _built((*self.sources, Source("seed", np.zeros(2, np.int32))), compute)
        except Exception:  # TensorFlow's: what it cannot trace
            return None

    def noisy(self, results: tuple[tf.TensorSpec, ...], draw: int) -> Function | None:
        """The float64 form, with these results, with perturbed inner values; None where there is none."""
        compute = self._rounded
        if compute is None:
            return None
        return _function_of(self.sources, lambda *tensors: compute(*tensors, tf.constant([draw, 0])), results)


def _refuse_variable(*_: Any, **__: Any) -> Any:
    raise ValueError("a variable is made at every call")


def _built(sources: Sequence[Source], compute: Callable[..., Any]) -> Callable[..., Any]:
    """Trace a computation from the sources into a graph."""
    graph = graph_of(compute, [tf.TensorSpec(source.shape, source.dtype) for source in sources])
    return lambda *tensors: graph(list(tensors))


def _function_of(
    sources: tuple[Source, ...], compute: Callable[..., Any], results: tuple[tf.TensorSpec, ...] | None = None
) -> Function:
    empty = (None,) * len(sources)
    arguments = Arguments(empty, empty, sources, tuple(range(len(sources))), len(sources))
    function = Function(lambda *tensors: compute(*tensors), arguments, results or ())
    return function if results else replace(function, results=specs_of(function.call(function.tensors(function.point))))
