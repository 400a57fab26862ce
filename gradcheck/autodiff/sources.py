"""The sources of derivatives: the floating and complex leaves of a call's arguments, and variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.constraints import UNCONSTRAINED, Constrained, Constraint
from gradcheck.autodiff.coordinates import coordinate_count, element_of, from_coordinates, to_coordinates
from gradcheck.typing import Array

UNBUILT = "A Keras model has no variables before it is built: call it on its inputs once, then take its variables"
"""The most frequent reason for an empty list of variables."""
SPARSE = (
    (tf.SparseTensor, "values", "tf.SparseTensor({0}.indices, v, {0}.dense_shape)"),
    (tf.RaggedTensor, "flat_values", "{0}.with_flat_values(v)"),
)
"""Types without an array of their own, the part of them that is one, and how to rebuild them from it."""


@dataclass(frozen=True)
class Source:
    """A tensor or variable, with its name for messages and its value, in its own dtype.

    Its coordinates are the real ones that its constraint leaves free; arrays made of them are float64 or complex128.
    """

    name: str
    value: Array
    variable: Any = None
    constraint: Constraint = UNCONSTRAINED

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> str:
        """The name of the value's dtype, which is also TensorFlow's."""
        return str(self.value.dtype.name)

    @property
    def constrained(self) -> bool:
        """Whether the function may not be called with every tensor near the value."""
        return self.constraint is not UNCONSTRAINED

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._free.size) if self.constrained else coordinate_count(self.shape, self.value.dtype)

    def coordinates(self, tensor: Array) -> Array:
        """The coordinates (count,) of a tensor of the source's shape."""
        flat = to_coordinates(tensor)
        return flat[self._free] if self.constrained else flat

    def tensor(self, array: Array) -> Any:
        """Convert an array to a tensor of the source's dtype."""
        return tf.constant(array.astype(self.value.dtype, copy=False))

    def at(self, point: Array) -> Array:
        """The array with coordinates (count,)."""
        if not self.constrained:  # exactly, to the last bit
            return self._array(point)
        return self._start + self.displacement(point - self.coordinates(self._start))

    def stacked(self, points: Array) -> Array:
        """The arrays with coordinates (p, count), in the source's dtype and stacked along a leading dimension."""
        dtype = self.value.dtype
        if not self.constrained:
            return from_coordinates(points, self.shape, dtype)
        return np.stack([self.at(point) for point in points]).astype(dtype)

    def displacement(self, step: Array) -> Array:
        """The displacement of the array for a step of its coordinates (count,)."""
        if not self.constrained:
            return self._array(step)
        padded = np.zeros(coordinate_count(self.value.shape, self.value.dtype))
        padded[self._free] = step
        return self.constraint.tangent(self._start, self._array(padded))

    def derivatives(self, gradient: Array) -> Array:
        """The derivatives (count,) with respect to the coordinates, from a gradient of the source's shape."""
        return self.coordinates(self.constraint.adjoint(self._start, gradient))

    def contains(self, point: Array) -> bool:
        """Whether the array with coordinates (count,) satisfies the constraint."""
        return not self.constrained or self.constraint.contains(self.at(point))

    def place(self, coordinate: int) -> tuple[str, tuple[int, ...], str]:
        """The name (with the part of a complex number) and element of a coordinate, and what moves with it."""
        index, part = element_of(int(self._free[coordinate]), self.shape, self.value.dtype)
        return self.name + part, index, self.constraint.companions(self.name, index)

    def _array(self, coordinates: Array) -> Array:
        return from_coordinates(coordinates, self.shape, np.complex128 if np.iscomplexobj(self.value) else np.float64)

    @cached_property
    def _start(self) -> Array:
        return self._array(to_coordinates(self.value))

    @cached_property
    def _free(self) -> Array:
        return np.flatnonzero(to_coordinates(self.constraint.free(self._start)))


@dataclass(frozen=True)
class Arguments:
    """The leaves of a call's arguments, and the sources among those leaves and the variables listed separately.

    `positions` (one per source) count the leaves first and then the listed variables, `total` of them together; those
    of sources that are held fixed are `fixed`.
    """

    structure: tuple[Any, ...]
    leaves: tuple[Any, ...]
    sources: tuple[Source, ...]
    positions: tuple[int, ...]
    total: int
    fixed: tuple[int, ...] = ()

    def only(self, chosen: Sequence[int]) -> Arguments:
        """The arguments with some of the sources, by their numbers; the others are held fixed."""
        kept = sorted(chosen)
        sources, positions = tuple(self.sources[one] for one in kept), tuple(self.positions[one] for one in kept)
        fixed = tuple(one for one in self.positions if one not in positions)
        return replace(self, sources=sources, positions=positions, fixed=(*self.fixed, *fixed))

    def listed(self) -> list[bool]:
        """For each source, whether it was listed in `variables` rather than given as an input."""
        return [position >= len(self.leaves) for position in self.positions]

    def ordered(self, items: Sequence[Any]) -> list[Any] | None:
        """Put one item per argument, or per source, fixed ones included, in the order of the sources.

        Returns None for other numbers of items.
        """
        if len(items) == self.total:
            return [items[position] for position in self.positions]
        places = sorted((*self.positions, *self.fixed))
        if len(items) == len(places):
            return [items[places.index(position)] for position in self.positions]
        return None

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments with these tensors in place of the sources; variables are not replaced."""
        leaves = list(self.leaves)
        for position, source, tensor in zip(self.positions, self.sources, tensors, strict=True):
            if source.variable is None:
                leaves[position] = tensor
        if not any(isinstance(item, (dict, list, tuple)) for item in self.structure):
            return tuple(leaves)  # packing takes as long as many functions do
        packed: tuple[Any, ...] = tf.nest.pack_sequence_as(self.structure, leaves)
        return packed


def parse_arguments(inputs: tuple[Any, ...], variables: Any, names: Sequence[str] = ()) -> Arguments:
    """Find the sources in the inputs (called `names`, or inputs[0], …) and variables.

    Python floats, and lists and tuples of nothing but numbers, become float64 tensors; NumPy arrays and tensors keep
    their dtype; integer, boolean and string leaves stay as tensors. Raises TypeError for a leaf that is no tensor and
    for a variable that is not one, ValueError for NaN or Inf in a source, for a violated constraint, and where nothing
    is floating.
    """
    inputs = tuple(with_arrays(value) for value in inputs)
    given = [
        (name, _tensor(name, leaf), constraint)
        for name, wrapped in chain.from_iterable(named_leaves(inputs, names))
        for leaf, constraint in [_unwrapped(wrapped)]
    ]
    listed = _listed(variables)
    tensors: dict[int, Source] = {}
    held: dict[int, tuple[int, Source]] = {}
    for position, (name, leaf, constraint) in enumerate([*given, *listed]):
        source = _source(name, leaf, constraint)
        if source is not None and source.variable is None:
            tensors[position] = source
        elif source is not None:
            held.setdefault(id(leaf), (position, source))
    found = [*tensors.items(), *held.values()]
    if not found and not given and variables is not None:
        raise ValueError(f"variables= is empty; at least one tf.Variable was expected. {UNBUILT}")
    if not found:
        kinds = ", ".join(sorted({type(leaf).__name__ if leaf is None else leaf.dtype.name for _, leaf, _ in given}))
        raise ValueError(
            f"inputs hold {kinds or 'nothing'}, nothing floating to differentiate with respect to; "
            "give at least one float or complex input (for example 2.0, not 2), or variables=[...]"
        )
    positions, sources = zip(*found, strict=True)
    return Arguments(inputs, tuple(leaf for _, leaf, _ in given), sources, positions, len(given) + len(listed))


def parameter_names(f: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def as_tensors(inputs: tuple[Any, ...], names: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return the inputs with every leaf a tensor, a variable or None, as in `parse_arguments`. Raises TypeError."""
    inputs = tuple(with_arrays(value) for value in inputs)
    found = []
    for value, named in zip(inputs, named_leaves(inputs, names), strict=True):
        bare = [(name, _unwrapped(leaf)[0]) for name, leaf in named]
        leaves = [leaf if variable_of(leaf) is not None else _tensor(name, leaf) for name, leaf in bare]
        found.append(tf.nest.pack_sequence_as(value, leaves) if isinstance(value, (dict, list, tuple)) else leaves[0])
    return tuple(found)


def named_leaves(inputs: Sequence[Any], names: Sequence[str]) -> list[list[tuple[str, Any]]]:
    """The leaves of each input with their names: the parameter's, or inputs[0], …, and their place in it."""
    names = [*names[: len(inputs)], *(f"inputs[{position}]" for position in range(len(names), len(inputs)))]
    return [paths(name, value) for name, value in zip(names, inputs, strict=True)]


def paths(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of a nested structure in TensorFlow's order, each with its place, such as `x['a'][0]`."""
    if isinstance(value, dict):
        try:
            keys = sorted(value)
        except TypeError:
            listed = ", ".join(map(repr, value))
            raise TypeError(
                f"{prefix} has the keys {listed}, which TensorFlow cannot sort; give keys of one type, such as texts"
            ) from None
        return [pair for key in keys for pair in paths(f"{prefix}[{key!r}]", value[key])]
    if isinstance(value, (list, tuple)):
        return [pair for index, item in enumerate(value) for pair in paths(f"{prefix}[{index}]", item)]
    return [(prefix, value)]


def _unwrapped(leaf: Any) -> tuple[Any, Constraint]:
    return (with_arrays(leaf.value), leaf.constraint) if isinstance(leaf, Constrained) else (leaf, UNCONSTRAINED)


def with_arrays(value: Any, kinds: str = "fc") -> Any:
    """Convert each list or tuple of numbers in a structure to an array, if it is of these kinds; no named tuples.

    >>> with_arrays({"a": [1.0, 2.0], "n": [1, 2]})
    {'a': array([1., 2.]), 'n': [1, 2]}
    """
    array = listed_numbers(value)
    if array is not None:
        return array if array.dtype.kind in kinds else value
    if isinstance(value, dict):
        parts: Any = {key: with_arrays(part, kinds) for key, part in value.items()}
        return parts if any(parts[key] is not value[key] for key in value) else value
    if not isinstance(value, (list, tuple)):
        return value
    parts = [with_arrays(part, kinds) for part in value]
    if all(part is one for part, one in zip(parts, value, strict=True)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def listed_numbers(value: Any) -> Array | None:
    """Convert a (nested) list or tuple of nothing but numbers to an array; None for anything else."""
    leaves = [leaf for _, leaf in paths("", value)] if type(value) in (list, tuple) else []
    if not leaves or not all(isinstance(one, (int, float, complex)) and not isinstance(one, bool) for one in leaves):
        return None
    try:
        return np.array(value)
    except ValueError:
        return None  # ragged: a structure of scalars


def _tensor(name: str, leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, tf.Variable):
        return leaf
    if isinstance(leaf, (float, complex)):
        leaf = np.asarray(leaf)
    try:
        return tf.convert_to_tensor(leaf)
    except (TypeError, ValueError):
        raise TypeError(_no_tensor(name, leaf)) from None


def _no_tensor(name: str, leaf: Any) -> str:
    """The error message for an input that is no tensor, with its remedy."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return f"{name} has dtype {leaf.dtype}, which TensorFlow does not support; give {name}.astype('float64')"
    for kind, values, rebuilt in SPARSE:
        if isinstance(leaf, kind):
            whole = rebuilt.format(name)
            return (
                f"{name} is of type {kind.__name__}, not a dense tensor; give {name}.{values} to lambda v: f({whole})"
            )
    kinds = "numbers, NumPy arrays, tensors, variables, or lists and dicts of them"
    return f"{name} is of type {type(leaf).__name__}, which is not a tensor; give {kinds}"


def _listed(variables: Any) -> list[tuple[str, Any, Constraint]]:
    """The variables listed in addition to the inputs, each with its name and its constraint."""
    found = []
    for position, given in enumerate([] if variables is None else variables_in(variables)):
        item, constraint = _unwrapped(given)
        variable = variable_of(item)
        if variable is None:
            raise TypeError(
                f"variables[{position}] is of type {type(item).__name__}; a tf.Variable was expected, or a model "
                "(pass tensors as inputs: gradcheck.check(f, tensor))"
            )
        name = f"variables[{position}] ({getattr(item, 'path', None) or item.name})"
        if not _has_derivatives(variable):
            raise TypeError(
                f"{name} has dtype {variable.dtype.name}; only floating and complex variables have derivatives: "
                "leave it out of variables=, f may use it all the same"
            )
        found.append((name, variable, constraint))
    return found


def variables_in(given: Any) -> list[Any]:
    """The leaves of nested variables, with the trainable variables of each model, layer or module in its place.

    >>> layer = tf.Module()
    >>> layer.rate = tf.Variable(1.0, name="rate")
    >>> [one.name for one in variables_in([layer, tf.Variable(2.0, name="other")])]
    ['rate:0', 'other:0']
    """
    if isinstance(given, Constrained) or variable_of(given) is not None:
        return [given]
    found: list[Any] = []
    for item in tf.nest.flatten(given):
        inner = getattr(item, "trainable_variables", None)
        found += inner if isinstance(inner, (list, tuple)) else [item]
    return found


def variable_of(item: Any) -> Any:
    """The tf.Variable itself, or the one inside a Keras variable; None for anything else."""
    if isinstance(item, tf.Variable):
        return item
    inner = getattr(item, "value", None)
    return inner if isinstance(inner, tf.Variable) else None


def frozen_variables(layers: Iterable[Any]) -> set[int]:
    """The ids of the variables of layers that are not among their trainable ones; TensorFlow itself does not know."""
    frozen = set[int]()
    for layer in layers:
        trained = {id(variable_of(variable)) for variable in layer.trainable_variables}
        frozen |= {id(variable_of(variable)) for variable in layer.variables} - trained
    return frozen


def _has_derivatives(leaf: Any) -> bool:
    return bool(leaf.dtype.is_floating or leaf.dtype.is_complex)


def _source(name: str, leaf: Any, constraint: Constraint) -> Source | None:
    """The source for a tensor or a variable; None where it has no derivatives."""
    if leaf is None or not _has_derivatives(leaf):
        if constraint is not UNCONSTRAINED:
            kind = "None" if leaf is None else leaf.dtype.name
            raise TypeError(f"{name} holds {kind}; a constrained input has to be floating or complex (2.0, not 2)")
        return None
    variable = leaf if isinstance(leaf, tf.Variable) else None
    value = leaf.numpy()
    bad = ~np.isfinite(to_coordinates(value))
    if bad.any():
        raise ValueError(
            f"{name} holds {int(bad.sum())} NaN or Inf of {bad.size} coordinates; "
            "derivatives are checked at finite points only, give a finite one"
        )
    violation = constraint.violation(name, value)
    if violation is not None:
        raise ValueError(violation)
    return Source(name, value, variable, constraint)
