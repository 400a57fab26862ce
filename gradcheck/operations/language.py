"""The vocabulary of the catalogue's entries and functions.

An operation is a function, with arguments by position and attributes as keywords: linters, type checkers and "go to
definition" see it, and it is called as it is. It is a lambda where one expression says it, also if that only calls a
public function, for reading the catalogue must not load TensorFlow.

Its form for points stands beside it, or is made of it by a function such as `along_axis`, which calls it with other
arguments and cannot depend on how it is written. What takes batches is given as that, `in_batch`: a form for one point
can be made of one for batches, but not the other way round.

Scripts print operations, and must not depend on the project. A lambda is written out there, with variables and literals
in the places of its parameters and of the constants that it names, and so are lambdas that it calls. A `def` is printed
and called: it may use `tf`, `np`, `functools`, builtins and other such functions, and nothing else.
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from gradcheck.graph import Shape
from gradcheck.operations.printed_calls import source_of
from gradcheck.operations.shapes import only_if
from gradcheck.operations.spec import (
    Attribute,
    Choice,
    Formula,
    Indices,
    Interval,
    OpSpec,
    Rule,
    attribute_names,
    parameters,
    unary,
)

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _TensorFlow:
        """TensorFlow, loaded when an operation first runs: reading the catalogue must not load it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("tensorflow"), name)

    tf = _TensorFlow()

__all__ = [
    "MADE_ONCE",
    "added_up",
    "along_axis",
    "behind_points",
    "compiled_by_xla",
    "float32",
    "multiples",
    "of_ranks",
    "of_unknown_dimensions",
    "operation",
    "points_last",
    "reduces_points",
    "rows_first",
    "sum_of_squares",
    "tf",
    "traced",
]

Offer: TypeAlias = Attribute | Iterable[Any]


def operation(
    family: str,
    name: str,
    source: Formula,
    gradients: str = "",
    *domains: Interval,
    shapes: Rule = unary,
    when: Callable[[Shape], object] | None = None,
    others: Rule | None = None,
    batching: Callable[[Formula], Formula] | None = None,
    **fields: Any,
) -> OpSpec:
    """An entry of the catalogue: an `OpSpec` whose arity is that of its source.

    `gradients` are names with blanks between; where there are none, those of the raw operations that the source calls.
    Without `domains` the arguments are real. An attribute that the source takes is declared under that name: literals,
    the simplest first, `Indices`, or a function of the arguments' shapes that yields either. `when` is what a first
    shape has to meet besides `shapes`; `others` gives the possible shapes of the other arguments, where they do not
    follow from `shapes`. `batching` makes `batched` from the source, unless `batched` is given.

    >>> power = operation("math", "power", lambda x, *, exponent: x**exponent, "Pow", exponent=(2.0, 3.0))
    >>> power.attributes((2,))
    {'exponent': Choice(values=(2.0, 3.0))}
    """
    source_of(source.__code__.co_filename)  # read before the file is edited
    offers = {key: fields.pop(key) for key in [*fields] if key in attribute_names(source)}
    if offers:
        fields["attributes"] = _attributes(offers)
    if batching:
        fields.setdefault("batched", batching(source))
    if domains:
        fields["domains"] = domains
    rule = only_if(lambda shape: shapes(shape) and when(shape), shapes) if when else shapes
    if others:
        rule = only_if(rule, lambda shape: [(shape, *rest) for rest in others(shape)])
    registered = gradients.split() or _raw_operations(source)
    arity = len(parameters(source)) - len(attribute_names(source))
    return OpSpec(name, source, tuple(registered), family, arity=arity, shapes=rule, **fields)


def _raw_operations(source: Formula) -> list[str]:
    """The names behind `tf.raw_ops` in a function itself, in order."""
    names = [step.argval for step in dis.get_instructions(source)]
    return [name for before, name in itertools.pairwise(names) if before == "raw_ops"]


def _attributes(offers: Mapping[str, Offer | Callable[..., Offer]]) -> Callable[..., Mapping[str, Attribute]]:
    def attributes(*shapes: Shape) -> Mapping[str, Attribute]:
        offered = {name: offer(*shapes) if callable(offer) else offer for name, offer in offers.items()}
        return {name: o if isinstance(o, Choice | Indices) else Choice(tuple(o)) for name, o in offered.items()}

    return attributes


def points_last(form: Formula) -> Formula:
    """The form with the points of every argument moved behind its other dimensions, and back to the front at the end.

    It serves operations that leave trailing dimensions alone.
    """

    def moved(*points: tf.Tensor, **attributes: Any) -> tf.Tensor:
        behind = [tf.experimental.numpy.moveaxis(each, 0, -1) for each in points]
        return tf.experimental.numpy.moveaxis(form(*behind, **attributes), -1, 0)

    return moved


def rows_first(form: Formula) -> Formula:
    """The form with the points and the first other dimension of every argument exchanged, and back at the end."""

    def exchanged(*points: tf.Tensor, **attributes: Any) -> tf.Tensor:
        rows = [tf.experimental.numpy.swapaxes(each, 0, 1) for each in points]
        return tf.experimental.numpy.swapaxes(form(*rows, **attributes), 0, 1)

    return exchanged


def multiples(x: tf.Tensor, count: int) -> tf.Tensor:
    """A batch, its double behind it, and so on, `count` times as much: what becomes of each is seen beside others."""
    return tf.concat([factor * x for factor in range(1, count + 1)], 0) if count > 1 else x


def added_up(results: tf.Tensor, count: int) -> tf.Tensor:
    """The results for a batch of `multiples`, each with a weight of its own, added up."""
    return sum(weight * part for weight, part in enumerate(tf.split(results, count), 1)) if count > 1 else results


def sum_of_squares(count: int) -> int:
    """How many times as large the weighted sum of the results for multiples is, where these are multiples, too."""
    return sum(weight**2 for weight in range(1, count + 1))


def behind_points(axis: int | tuple[int, ...] | None, points: tf.Tensor) -> list[int]:
    """The axes of each point, all if None, where the first dimension is that of the points."""
    rank = len(points.shape) - 1
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return [one + (one >= 0) for one in axes]


def reduces_points(form: Formula) -> Formula:
    """A reduction over `axis`, for points."""
    return lambda x, *others, axis, **attributes: form(x, *others, axis=behind_points(axis, x), **attributes)


def along_axis(form: Formula) -> Formula:
    """An operation along one `axis`, for points."""
    return lambda *points, axis, **attributes: form(*points, axis=axis + (axis >= 0), **attributes)


@functools.cache
def traced(function: Callable[..., tf.Tensor]) -> Any:
    """The function as a tf.function, made once: one that is made on every call is traced on every call."""
    return tf.function(function, autograph=False, reduce_retracing=True)


@functools.cache
def compiled_by_xla(function: Callable[..., tf.Tensor]) -> Any:
    """The function as a tf.function that XLA compiles, made once."""
    return tf.function(function, autograph=False, jit_compile=True)


@functools.cache
def of_ranks(
    function: Callable[..., tf.Tensor], specs: tuple[tuple[int, tf.DType], ...], attributes: tuple[tuple[str, Any], ...]
) -> Any:
    """The function of tensors of these ranks and dtypes as a tf.function that knows no dimension of theirs."""
    signature = [tf.TensorSpec([None] * rank, dtype) for rank, dtype in specs]
    return tf.function(functools.partial(function, **dict(attributes)), signature, autograph=False)


def of_unknown_dimensions(function: Callable[..., tf.Tensor], *tensors: tf.Tensor, **attributes: Any) -> tf.Tensor:
    """The value of a function that is traced without the dimensions of its arguments."""
    specs = tuple((len(tensor.shape), tensor.dtype) for tensor in tensors)
    return of_ranks(function, specs, tuple(attributes.items()))(*tensors)


MADE_ONCE: list[Any] = [traced, compiled_by_xla, of_ranks]
"""The caches of functions and sessions, which keep the gradients that they were made with."""


@contextmanager
def traced_anew() -> Iterator[None]:
    """No function keeps its traces of before in the block, or of the block afterwards.

    A derivative changes the graph that it is taken of: tf.cond hands out what its gradient needs, which another mode
    may not know how to take.
    """
    for kept in MADE_ONCE:
        kept.cache_clear()
    try:
        yield
    finally:
        for kept in MADE_ONCE:
            kept.cache_clear()


def float32(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """The tensors in single precision, for kernels that have no other."""
    return [tf.cast(tensor, tf.float32) for tensor in tensors]
