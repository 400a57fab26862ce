"""What the catalogue's entries and functions are written with.

Functions of the catalogue are printed into reproduction scripts: they may use `tf`, `np`, `functools`, builtins and one
another, and nothing else. The text of an operation may call them.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from gradcheck.hunt.catalogue.shapes import only_if
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Attribute, Choice, Formula, Indices, Interval, OpSpec, Rule, attribute_names, unary

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _TensorFlow:
        """TensorFlow, loaded when an operation first runs: reading the catalogue must not load it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("tensorflow"), name)

    tf = _TensorFlow()

__all__ = [
    "added_up",
    "along_axis",
    "behind_points",
    "compiled_by_xla",
    "float32",
    "in_batch",
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

ARGUMENT = re.compile(r"\{(\d+)\}")

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
    batching: Callable[[str], str] | None = None,
    **fields: Any,
) -> OpSpec:
    """An entry of the catalogue: an `OpSpec` whose arity is that of its source.

    `gradients` are names with blanks between; where there are none, those of the raw operations in the source. Without
    `domains` the arguments are real. An attribute that the source names is declared under that name: literals, the
    simplest first, `Indices`, or a function of the arguments' shapes that yields either. `when` is what a first shape
    has to meet besides `shapes`; `others` gives the possible shapes of the other arguments, where they do not follow
    from `shapes`. `batching` makes the text of `batched` from that of the source, unless `batched` is given.

    >>> power = operation("math", "power", "{0} ** {exponent}", "Pow", exponent=(2.0, 3.0))
    >>> power.attributes((2,))
    {'exponent': Choice(values=(2.0, 3.0))}
    """
    offers = {key: fields.pop(key) for key in [*fields] if key in attribute_names(source)}
    if offers:
        fields["attributes"] = _attributes(offers)
    if batching and callable(source) and not fields.get("in_batch"):
        fields.setdefault("batched", batching(source))
    elif batching and isinstance(source, str) and batching(source) != source:
        fields.setdefault("batched", batching(source))
    if domains:
        fields["domains"] = domains
    rule = only_if(lambda shape: shapes(shape) and when(shape), shapes) if when else shapes
    if others:
        rule = only_if(rule, lambda shape: [(shape, *rest) for rest in others(shape)])
    registered = gradients.split() or _raw_operations(source)
    return OpSpec(name, source, tuple(registered), family, arity=_arity(source), shapes=rule, **fields)


def _raw_operations(source: Formula) -> list[str]:
    if isinstance(source, str):
        return re.findall(r"tf\.raw_ops\.(\w+)", source)
    names = [step.argval for step in dis.get_instructions(source)]
    return [name for before, name in itertools.pairwise(names) if before == "raw_ops"]


def _arity(source: Formula) -> int:
    if isinstance(source, str):
        return 1 + max(map(int, ARGUMENT.findall(source)))
    return len(inspect.signature(source).parameters) - len(attribute_names(source))


def _attributes(offers: Mapping[str, Offer | Callable[..., Offer]]) -> Callable[..., Mapping[str, Attribute]]:
    def attributes(*shapes: Shape) -> Mapping[str, Attribute]:
        offered = {name: offer(*shapes) if callable(offer) else offer for name, offer in offers.items()}
        return {name: o if isinstance(o, Choice | Indices) else Choice(tuple(o)) for name, o in offered.items()}

    return attributes


def points_last(source):
    """The operation with the points of every argument moved behind its other dimensions, and back at the end.

    It serves operations that leave trailing dimensions alone.
    """
    if not isinstance(source, str):

        def moved(*points: tf.Tensor, **ways: Any) -> tf.Tensor:
            behind = [tf.experimental.numpy.moveaxis(each, 0, -1) for each in points]
            return tf.experimental.numpy.moveaxis(source(*behind, **ways), -1, 0)

        return moved
    moved = ARGUMENT.sub(r"tf.experimental.numpy.moveaxis({\1}, 0, -1)", source)
    return f"tf.experimental.numpy.moveaxis({moved}, -1, 0)"


def rows_first(source):
    """The operation with the points and the first other dimension of every argument exchanged, and back at the end."""
    if not isinstance(source, str):

        def exchanged(*points: tf.Tensor, **ways: Any) -> tf.Tensor:
            rows = [tf.experimental.numpy.swapaxes(each, 0, 1) for each in points]
            return tf.experimental.numpy.swapaxes(source(*rows, **ways), 0, 1)

        return exchanged
    exchanged = ARGUMENT.sub(r"tf.experimental.numpy.swapaxes({\1}, 0, 1)", source)
    return f"tf.experimental.numpy.swapaxes({exchanged}, 0, 1)"


def in_batch(source: str) -> str:
    before, _, after = source.replace("[tf.newaxis]", "").rpartition("[0]")
    return before + after


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


def reduces_points(source):
    """The reduction over `axis` for points."""
    if not isinstance(source, str):
        return lambda x, *others, axis, **ways: source(x, *others, axis=behind_points(axis, x), **ways)
    return source.replace("{axis}", "behind_points({axis}, {0})")


def along_axis(source):
    """The operation along one `axis` for points."""
    if not isinstance(source, str):
        return lambda *points, axis, **ways: source(*points, axis=axis + (axis >= 0), **ways)
    return source.replace("{axis}", "{axis} + ({axis} >= 0)")


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


@contextmanager
def traced_anew() -> Iterator[None]:
    """No function keeps its traces of before in the block, or of the block afterwards.

    A derivative changes the graph that it is taken of: tf.cond hands out what its gradient needs, which another mode
    may not know how to take.
    """
    for kept in (traced, compiled_by_xla, of_ranks):
        kept.cache_clear()
    try:
        yield
    finally:
        for kept in (traced, compiled_by_xla, of_ranks):
            kept.cache_clear()


def float32(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """The tensors in single precision, for kernels that have no other."""
    return [tf.cast(tensor, tf.float32) for tensor in tensors]
