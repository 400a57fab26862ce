"""The float64 form of a function that computes in less: with low-precision inputs or variables, or with casts inside.

A function of float32 inputs is called with float64 ones where it takes them. Everything else is traced, and built again
in float64 (`retraced`): layers with float32 variables, mixed policies, casts that hide digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks, op_def_registry

from gradcheck.autodiff.coordinates import ROUNDOFF, WIDE
from gradcheck.autodiff.function import Function, specs_of
from gradcheck.autodiff.retraced import Retraced
from gradcheck.autodiff.reverse import pullbacks
from gradcheck.autodiff.sources import Arguments, Source

Array = np.ndarray[Any, Any]

FLOAT64 = ROUNDOFF["float64"]

ROUNDINGS, MOST = 1e3, 0.1
"""Values that differ by so many roundings, but no more than by so much, are those of one function."""

BESIDE = 2.0**-6
"""How far beside the point, relatively, the values are compared as well."""


def with_float64_form(function: Function) -> Function:
    """The function with its float64 form, where it computes in less and has one, and with the roundoff of what it does.

    The form is compared with the function's own values, at the point and beside it: what computes something else in
    float64 is not used.
    """
    inner = _inner_roundoff(function)
    if max(function.precision, inner) <= FLOAT64:
        return function
    copied = _copied(function)
    if copied is not None and _same(function, copied) and _inner_roundoff(copied) <= FLOAT64:
        return replace(function, wide=replace(copied, noisy=_Retracing(function).noisy(wide=True)))
    function = replace(function, inner=inner)
    try:
        retracing = _Retracing(function)
        wide, narrow = retracing.wide
        if max(function.precision, narrow) <= FLOAT64 or narrow == 0.0:
            return replace(function, inner=0.0)
        function = replace(function, inner=narrow)
        if _same(function, wide) and _differentiable(wide):
            return replace(function, wide=replace(wide, noisy=retracing.noisy(wide=True)))
    except Exception:  # what cannot be traced, or has no kernel in float64, stays what it is
        return function
    return function


def _inner_roundoff(function: Function) -> float:
    """The unit roundoff of the coarsest arithmetic that a call of the function runs, relevant or not."""
    found = {0.0}

    def note(name: Any, inputs: Any, attributes: Any, outputs: Any, *_: Any, **__: Any) -> None:
        found.update(ROUNDOFF.get(output.dtype.name, 0.0) for output in outputs)
        kind = name.decode() if isinstance(name, bytes) else name
        if op_def_registry.get(kind) is None:
            found.update(_types_in(kind))

    op_callbacks.add_op_callback(note)
    try:
        function.value(function.point)
    finally:
        op_callbacks.remove_op_callback(note)
    return max(found)


def _types_in(name: str) -> set[float]:
    """The roundoffs of what the operations of a function that TensorFlow knows by this name work on."""
    found: set[float] = set()
    for node in context.context().get_function_def(name).node_def:
        for given in node.attr.values():
            found.add(ROUNDOFF.get(tf.as_dtype(given.type).name, 0.0) if given.type else 0.0)
            if given.HasField("func"):
                found |= _types_in(given.func.name)
    return found


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
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=function.point.size)
    for point in (function.point, function.point * (1 + BESIDE * signs)):
        rounded = function.rounded(point)
        if not function.contains(rounded):
            continue
        low, high = function.value(rounded), wide.value(rounded)
        slack = min(ROUNDINGS * function.precision, MOST) * max(1.0, float(np.max(np.abs(high), initial=0.0)))
        if low.shape != high.shape or not np.all(np.abs(low - high) <= slack):
            return False
    return True


def _differentiable(wide: Function) -> bool:
    """Whether the form has a gradient at all: some kernels' gradients do not exist in float64, or run in XLA only."""
    pullbacks(wide.call, wide.tensors(wide.point), [wide.cotangent(np.ones(wide.outputs))])
    return True


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
    def wide(self) -> tuple[Function, float]:
        """The float64 form, and the coarsest roundoff that was left out."""
        retraced = Retraced(wide=True)
        sources = tuple(map(_widened, self.function.sources))
        form = _built(sources, lambda *tensors: retraced.outputs(self.graph, tensors))
        return _function_of(sources, form), retraced.narrow

    def noisy(self, *, wide: bool) -> Callable[[int], Function]:
        """The function for a number that chooses the perturbation of inner values; as it is where it is not traced."""
        sources = tuple(map(_widened, self.function.sources))
        seed = Source("seed", np.zeros(2, np.int32))
        built: list[Any] = []

        def chosen(draw: int) -> Function:
            if not built:
                try:
                    built.append(
                        _built(
                            (*sources, seed),
                            lambda *tensors: Retraced(wide=wide, seed=tensors[-1]).outputs(self.graph, tensors[:-1]),
                        )
                    )
                except Exception:
                    built.append(None)
            if built[0] is None:
                return self.wide[0]
            return _function_of(sources, lambda *tensors: built[0](*tensors, tf.constant([draw, 0])))

        return chosen


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
