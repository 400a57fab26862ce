"""What derivatives are taken with respect to: the floating and complex leaves of a call's arguments, and variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.constraints import UNCONSTRAINED, Constrained, Constraint
from gradcheck.autodiff.coordinates import coordinate_count, element_of, from_coordinates, to_coordinates

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Source:
    """A tensor or variable with its name for messages, its value and its dtype (TensorFlow's name for it).

    Its coordinates are the real ones that its constraint leaves free; tensors made of them are float64 or complex128.
    """

    name: str
    value: Array
    dtype: str
    variable: Any = None
    constraint: Constraint = UNCONSTRAINED

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    @property
    def constrained(self) -> bool:
        """Whether not every tensor near the value is one that the function may be called with."""
        return self.constraint is not UNCONSTRAINED

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._free.size)

    def coordinates(self, tensor: Array) -> Array:
        """The coordinates (count,) of a tensor of the source's shape."""
        return to_coordinates(tensor)[self._free]

    def at(self, point: Array) -> Array:
        """The tensor with coordinates (count,)."""
        if not self.constrained:  # exactly, to the last bit
            return self._tensor(point)
        return self._start + self.displacement(point - self.coordinates(self._start))

    def displacement(self, step: Array) -> Array:
        """How the tensor moves for a step of its coordinates (count,)."""
        padded = np.zeros(coordinate_count(self.value.shape, self.value.dtype))
        padded[self._free] = step
        return self.constraint.tangent(self._start, self._tensor(padded))

    def derivatives(self, gradient: Array) -> Array:
        """The derivatives (count,) with respect to the coordinates, from a gradient of the source's shape."""
        return self.coordinates(self.constraint.adjoint(self._start, gradient))

    def contains(self, point: Array) -> bool:
        """Whether the tensor with coordinates (count,) keeps the constraint."""
        return not self.constrained or self.constraint.contains(self.at(point))

    def place(self, coordinate: int) -> tuple[str, tuple[int, ...], str]:
        """The name (with the part of a complex number), the element behind a coordinate, and what moves with it."""
        index, part = element_of(int(self._free[coordinate]), self.shape, self.value.dtype)
        return self.name + part, index, self.constraint.companions(self.name, index)

    def _tensor(self, coordinates: Array) -> Array:
        return from_coordinates(coordinates, self.shape, np.complex128 if np.iscomplexobj(self.value) else np.float64)

    @cached_property
    def _start(self) -> Array:
        return self._tensor(to_coordinates(self.value))

    @cached_property
    def _free(self) -> Array:
        return np.flatnonzero(to_coordinates(self.constraint.free(self._start)))


@dataclass(frozen=True)
class Arguments:
    """A call's arguments by their leaves, and the sources among those leaves and the variables listed beside them.

    `positions` (one a source) count the leaves first and then the listed variables, `total` of them together.
    """

    structure: tuple[Any, ...]
    leaves: tuple[Any, ...]
    sources: tuple[Source, ...]
    positions: tuple[int, ...]
    total: int

    def listed(self) -> list[bool]:
        """Whether each source was named in `variables`, and not given as an input."""
        return [position >= len(self.leaves) for position in self.positions]

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with those sources replaced that are no variables."""
        leaves = list(self.leaves)
        pairs = zip(self.positions, self.sources, strict=True)
        replaced = [position for position, source in pairs if source.variable is None]
        for position, tensor in zip(replaced, tensors, strict=True):
            leaves[position] = tensor
        if not any(isinstance(item, (dict, list, tuple)) for item in self.structure):
            return tuple(leaves)
        packed: tuple[Any, ...] = tf.nest.pack_sequence_as(self.structure, leaves)
        return packed


def parse_arguments(inputs: tuple[Any, ...], variables: Any, names: Sequence[str] = ()) -> Arguments:
    """Find the sources in the inputs (called `names`, or inputs[0], …) and variables.

    Python floats, and lists of nothing but numbers, become float64 tensors; NumPy arrays and tensors keep their dtype;
    integer, boolean and string leaves stay as tensors. Raises TypeError for a leaf that is no tensor and for a variable
    that is not one, ValueError for NaN or Inf in a source, for a violated constraint, and where nothing is floating.
    """
    inputs = tuple(_numbers(value) for value in inputs)
    leaves: list[Any] = []
    found: list[tuple[int, Source]] = []
    held: dict[int, tuple[int, Source]] = {}
    for name, given in (pair for pairs in _named_leaves(inputs, names) for pair in pairs):
        leaf, constraint = _unwrapped(given)
        if isinstance(leaf, tf.Variable):
            held.setdefault(id(leaf), (len(leaves), _variable_source(name, leaf, constraint)))
        else:
            leaf = _tensor(name, leaf)
            if _differentiable(name, leaf, constraint):
                found.append((len(leaves), _source(name, leaf.numpy(), leaf.dtype.name, None, constraint)))
        leaves.append(leaf)
    listed = _variable_sources(variables)
    for position, source in enumerate(listed, len(leaves)):
        held.setdefault(id(source.variable), (position, source))
    pairs = [*found, *held.values()]
    if not pairs:
        raise _nothing_floating(leaves)
    positions, sources = zip(*pairs, strict=True)
    return Arguments(inputs, tuple(leaves), sources, positions, len(leaves) + len(listed))


def as_tensors(inputs: tuple[Any, ...], names: Sequence[str] = ()) -> tuple[Any, ...]:
    """The inputs with every leaf a tensor, a variable or None, as in `parse_arguments`. Raises TypeError."""
    inputs = tuple(_numbers(value) for value in inputs)
    found = []
    for value, named in zip(inputs, _named_leaves(inputs, names), strict=True):
        leaves = [leaf if variable_of(leaf) is not None else _tensor(name, _unwrapped(leaf)[0]) for name, leaf in named]
        found.append(tf.nest.pack_sequence_as(value, leaves) if isinstance(value, (dict, list, tuple)) else leaves[0])
    return tuple(found)


def _named_leaves(inputs: Sequence[Any], names: Sequence[str]) -> list[list[tuple[str, Any]]]:
    """The leaves of each input with their names."""
    names = [*names[: len(inputs)], *(f"inputs[{position}]" for position in range(len(names), len(inputs)))]
    return [paths(name, value) for name, value in zip(names, inputs, strict=True)]


def paths(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of a nested structure in TensorFlow's order, each with its place, such as `x['a'][0]`."""
    if isinstance(value, dict):
        return [pair for key in sorted(value) for pair in paths(f"{prefix}[{key!r}]", value[key])]
    if isinstance(value, (list, tuple)):
        return [pair for index, item in enumerate(value) for pair in paths(f"{prefix}[{index}]", item)]
    return [(prefix, value)]


def _nothing_floating(leaves: Sequence[Any]) -> ValueError:
    kinds = ", ".join(sorted({_kind(leaf) for leaf in leaves})) or "nothing"
    return ValueError(
        f"inputs hold {kinds}, nothing floating to differentiate with respect to; "
        "give at least one float or complex input (for example 2.0, not 2), or variables=[...]"
    )


def _unwrapped(leaf: Any) -> tuple[Any, Constraint]:
    return (_numbers(leaf.value), leaf.constraint) if isinstance(leaf, Constrained) else (leaf, UNCONSTRAINED)


def _differentiable(name: str, tensor: Any, constraint: Constraint) -> bool:
    floating = tensor is not None and (tensor.dtype.is_floating or tensor.dtype.is_complex)
    if constraint is not UNCONSTRAINED and not floating:
        kind = "None" if tensor is None else tensor.dtype.name
        raise TypeError(f"{name} holds {kind}; a constrained input has to be floating or complex (2.0, not 2)")
    return floating


def _numbers(value: Any) -> Any:
    """A (nested) list of numbers, not all of them integers, as an array; anything else as it is."""
    if not isinstance(value, list):
        return value
    leaves = [leaf for _, leaf in paths("", value)]
    numbers = all(isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool) for leaf in leaves)
    if not numbers or all(isinstance(leaf, int) for leaf in leaves):
        return value
    try:
        return np.array(value)
    except ValueError:
        return value  # ragged: a structure of scalars


def _tensor(name: str, leaf: Any) -> Any:
    if isinstance(leaf, (bool, int, str, bytes)):
        return tf.constant(leaf)
    if isinstance(leaf, float):
        return tf.constant(leaf, tf.float64)
    if isinstance(leaf, complex):
        return tf.constant(leaf, tf.complex128)
    if leaf is None:
        return None
    try:
        return tf.convert_to_tensor(leaf)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is of type {type(leaf).__name__}, which is no tensor; give numbers, NumPy arrays, tensors, "
            "variables, or lists and dicts of them"
        ) from error


def _variable_sources(variables: Any) -> list[Source]:
    if variables is None:
        return []
    if isinstance(variables, (tf.Variable, Constrained)) or variable_of(variables) is not None:
        variables = [variables]
    sources = []
    for position, given in enumerate(tf.nest.flatten(variables)):
        item, constraint = _unwrapped(given)
        variable = variable_of(item)
        if variable is None:
            raise TypeError(
                f"variables[{position}] is of type {type(item).__name__}; a tf.Variable was expected "
                "(tensors go in as inputs: gradcheck.check(f, tensor))"
            )
        sources.append(_variable_source(f"variables[{position}] ({_label(item)})", variable, constraint))
    return sources


def variable_of(item: Any) -> Any:
    """The tf.Variable itself, or the one inside a Keras variable; None for anything else."""
    if isinstance(item, tf.Variable):
        return item
    inner = getattr(item, "value", None)
    return inner if isinstance(inner, tf.Variable) else None


def _label(item: Any) -> str:
    return str(getattr(item, "path", None) or item.name)


def _variable_source(name: str, variable: Any, constraint: Constraint) -> Source:
    if not (variable.dtype.is_floating or variable.dtype.is_complex):
        raise TypeError(f"{name} has dtype {variable.dtype.name}; only floating and complex variables have derivatives")
    return _source(name, variable.numpy(), variable.dtype.name, variable, constraint)


def _source(name: str, value: Array, dtype: str, variable: Any, constraint: Constraint) -> Source:
    bad = ~np.isfinite(to_coordinates(value))
    if bad.any():
        raise ValueError(
            f"{name} holds {int(bad.sum())} NaN or Inf of {bad.size} coordinates; "
            "derivatives are checked at finite points only, give a finite one"
        )
    violation = constraint.violation(name, value)
    if violation is not None:
        raise ValueError(violation)
    return Source(name, value, dtype, variable, constraint)


def _kind(leaf: Any) -> str:
    return str(leaf.dtype.name) if hasattr(leaf, "dtype") and hasattr(leaf.dtype, "name") else type(leaf).__name__
