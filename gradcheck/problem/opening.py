"""The first call of the user's function: its inputs and results are recorded, or refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates
from gradcheck.autodiff.errors import about_floating_types, sentence_of
from gradcheck.autodiff.sources import UNBUILT, Arguments, named_leaves, parameter_names, parse_arguments
from gradcheck.problem.function import Function, flat, tensors_of
from gradcheck.problem.mapped import as_array
from gradcheck.progress import run_noted

WANTED = "f has to return a floating or complex tensor, or a nested structure of them"
DENSE = (
    (tf.SparseTensor, "return tf.sparse.to_dense(y)"),
    (tf.RaggedTensor, "return y.to_tensor(), or y.flat_values"),
    (tf.IndexedSlices, "return tf.convert_to_tensor(y)"),
)
"""Composite tensors, which have no array of their own, and how to convert each."""


class NotFiniteValueError(ValueError):
    """The function is NaN or infinite at the given inputs."""


def open_function(
    f: Callable[..., Any], inputs: tuple[Any, ...], variables: Any, only: Sequence[int] | None = None
) -> Function:
    """Call `f` once and record its inputs and results; its sources are `only` those with these numbers, if given.

    Raises TypeError for an `f` that is not callable or returns something other than floating tensors, ValueError for
    inputs that cannot be differentiated or a result that is not finite, RuntimeError where `f` itself raises.
    """
    if not callable(f):
        raise TypeError(
            f"f is of type {type(f).__name__}, a callable was expected: gradcheck.check(f, x) checks the gradient "
            "of f at x; to compare two arrays use numpy.testing.assert_allclose"
        )
    if not inputs and variables is None:
        raise ValueError(
            "no inputs were given; pass the tensors to differentiate with respect to, gradcheck.check(f, x), "
            "or variables=[...]"
        )
    arguments = parse_arguments(inputs, variables, parameter_names(f))
    arguments = arguments if only is None else arguments.only(only)
    given = arguments.rebuilt([source.tensor(source.value) for source in arguments.sources])
    try:
        with run_noted():
            result = f(*given)
    except Exception as error:  # the function's own
        shapes = ", ".join(map(_shapes, given)) or "no arguments"
        raise RuntimeError(
            f"f raised {type(error).__name__} when called with {shapes}: "
            f"{sentence_of(error).rstrip('.')}; f has to run before its gradient can be checked"
            f"{_handed_over(inputs, arguments, error)}{_one_by_one(f, given)}"
        ) from error
    if variables is not None and arguments.total == len(arguments.leaves):
        _refuse_unlisted(f, given, arguments)
    specs = specs_of(result)
    return Function(f, arguments, specs, opened=flat(list(map(as_array, tensors_of(result)))))


def _shapes(argument: Any) -> str:
    """The dtypes and shapes of an argument; those of a list or tuple say that they are one argument."""
    found = ", ".join(
        f"{item.dtype.name}{tuple(item.shape)}" if hasattr(item, "shape") else type(item).__name__
        for item in tf.nest.flatten(argument)
    )
    return f"a {type(argument).__name__} of {found}" if isinstance(argument, (tuple, list)) else found


def _one_by_one(f: Callable[..., Any], given: tuple[Any, ...]) -> str:
    """The advice on a list or tuple whose parts fit the parameters of `f`, where it does not by itself."""
    if len(given) != 1 or not isinstance(given[0], (tuple, list)) or _named(f, given):
        return ""
    names = _named(f, given[0])
    kind = type(given[0]).__name__
    return f"; the {kind} is one argument of f: to pass several, write gradcheck.check(f, {names})" if names else ""


def _named(f: Callable[..., Any], given: Sequence[Any]) -> str:
    """The names of the parameters of `f` that take these arguments; empty if they do not fit."""
    try:
        return ", ".join(inspect.signature(f).bind(*given).arguments)
    except (TypeError, ValueError):  # a C++ function may have no signature
        return ""


def with_keywords(f: Any, gradient: Any, inputs: tuple[Any, ...], keywords: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return `f`, and a `gradient` that is called, as functions that take the keyword arguments last, by position.

    The third value holds the inputs and then those arguments. Raises TypeError for keywords that are no dict of names.
    """
    if keywords is None:
        return f, gradient, inputs
    if not isinstance(keywords, Mapping) or not all(isinstance(name, str) for name in keywords):
        raise TypeError(f"kwargs was {keywords!r}; a dict of f's keyword arguments was expected, as in {{'rate': 0.1}}")
    called, given = (_by_position(one, len(inputs), tuple(keywords)) if callable(one) else one for one in (f, gradient))
    return called, given, (*inputs, *keywords.values())


def _by_position(f: Callable[..., Any], count: int, names: tuple[str, ...]) -> Callable[..., Any]:
    """Return `f` as a function of `count` arguments and then of keyword arguments with these names, by position."""

    @wraps(f, updated=())
    def called(*given: Any) -> Any:
        return f(*given[:count], **dict(zip(names, given[count:], strict=True)))

    known = parameter_names(f)[:count]
    known += [f"input_{place}" for place in range(len(known), count)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in (*known, *names)])
    vars(called)["__signature__"] = signature
    return called


def refuse_graph(name: str) -> None:
    """Raise ValueError while a graph is being built, in which nothing has a value."""
    if not tf.executing_eagerly():
        raise ValueError(
            f"a graph is being built (in a tf.function, or a tf.Graph), whose tensors have no values; call {name} "
            "outside of it, in eager code"
        )


def _handed_over(inputs: tuple[Any, ...], arguments: Arguments, error: Exception) -> str:
    """The advice on inputs that are Python values, for an error that `f` raised."""
    given, read = (
        [leaf for named in named_leaves(structure, ()) for _, leaf in named]
        for structure in (inputs, arguments.structure)
    )
    told = ""
    if any(isinstance(leaf, (float, complex)) for leaf in given) and about_floating_types(error):
        told = "; numbers and lists of them are passed to f as float64: for float32 pass tf.constant(x)"
    if any(isinstance(leaf, (int, str)) for leaf in read):
        told += (
            "; integers, booleans and strings are passed to f as tensors: to keep a Python value, close over it: "
            "lambda x: f(x, 'tanh')"
        )
    return told


def _refuse_unlisted(f: Callable[..., Any], given: tuple[Any, ...], arguments: Arguments) -> None:
    """Raise ValueError if the list of variables is empty but `f` uses some: their gradients would go unchecked."""
    with tf.GradientTape() as tape:
        f(*given)
    inputs = {id(source.variable) for source in arguments.sources}
    unlisted = [variable.name for variable in tape.watched_variables() if id(variable) not in inputs]
    if unlisted:
        raise ValueError(
            f"variables= is empty, but f uses the trainable variables {', '.join(unlisted[:3])}"
            f"{', …' if len(unlisted) > 3 else ''}. {UNBUILT}; to check the inputs alone, leave variables= out"
        )


def specs_of(result: Any) -> tuple[tf.TensorSpec, ...]:
    """The names, shapes and dtypes of what `f` returned. Raises TypeError and ValueError as `open_function` does."""
    leaves = tensors_of(result)
    if not leaves:
        raise TypeError(f"f returned {result!r}, which holds no tensor; {WANTED}")
    names = ["the result"] if len(leaves) == 1 else [f"output {position}" for position in range(len(leaves))]
    for name, value in zip(names, leaves, strict=True):
        if value is None:
            raise TypeError(f"{name} of f is None; {WANTED} (is a return statement missing?)")
        if not tf.is_tensor(value):
            raise TypeError(
                f"{name} of f is of type {type(value).__name__}, not a tensor; {WANTED} "
                "(NumPy and Python numbers cut the gradient)"
            )
        for kind, remedy in DENSE:
            if isinstance(value, kind):
                raise TypeError(f"{name} of f is of type {kind.__name__}, not a dense tensor; {WANTED} ({remedy})")
        if value.dtype.name not in ROUNDOFF:
            raise TypeError(
                f"{name} of f has dtype {value.dtype.name}; {WANTED} (cast it, or return the part that has a gradient)"
            )
        finite = np.isfinite(to_coordinates(value.numpy()))
        if not finite.all():
            raise NotFiniteValueError(
                f"{name} of f is NaN or Inf in {int(np.sum(~finite))} of {finite.size} coordinates at the inputs "
                "given; a derivative exists only where f is finite, give other inputs"
            )
    return tuple(tf.TensorSpec(value.shape, value.dtype, name) for name, value in zip(names, leaves, strict=True))
