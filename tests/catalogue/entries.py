"""An operation of the catalogue at sampled points: its values there, alone and in a batch, and what is declared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.evaluation import forward, single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Choice, Distances, Indices, OpSpec

Array = np.ndarray[Any, Any]

SPECS = tuple(CATALOGUE.values())
EPS = float(np.finfo(np.float64).eps)


def named(specs: Sequence[OpSpec]) -> Any:
    return pytest.mark.parametrize("spec", specs, ids=[spec.name for spec in specs])


def alone(spec: OpSpec, example: Any, arguments: Any = None) -> Array:
    tensors = [tf.constant(value) for value in (arguments or example.arguments)]
    return np.asarray(single(spec)(*tensors, **example.attributes).numpy())


def graph_of(spec: OpSpec, example: Any) -> Graph:
    inputs = tuple(
        Input(value.shape, tuple(value.ravel().tolist()), spec.dtype(position))
        for position, value in enumerate(example.arguments)
    )
    return Graph(inputs, (Node.of(spec.name, *range(spec.arity), **example.attributes),))


def over(spec: OpSpec, example: Any, points: list[Array], *, reference: bool) -> Array:
    graph = graph_of(spec, example)
    return np.asarray(forward(graph, [tf.constant(p) for p in points], points=True, reference=reference)[-1].numpy())


def largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0))


def distance(spec: OpSpec, example: Any, *declared: Distances | None) -> float:
    """The distance to the nearest declared point: kinks and singular ones, unless what is declared is given."""
    found = [d for d in declared or (spec.kinks, spec.singular) if d]
    smallest = (np.min(d(*example.arguments, **example.attributes), initial=np.inf) for d in found)
    return float(min(smallest, default=np.inf))


def plain_graph(name: str, *, last: bool = True) -> Graph:
    """A graph of one operation: its first shapes, plain values, the last or first of what its attributes may be."""
    spec = CATALOGUE[name]
    shapes = next(found[0] for found in map(spec.shapes, spec.starts) if found)
    attributes = {name: _literal(what, last) for name, what in spec.attributes(*shapes).items()}
    inputs = tuple(Input(s, _plain(spec, i, math.prod(s)), spec.dtype(i)) for i, s in enumerate(shapes))
    return Graph(inputs, (Node.of(name, *range(spec.arity), **attributes),))


def _literal(what: Choice | Indices, last: bool) -> Any:
    if isinstance(what, Choice):
        return what.values[-1 if last else 0]
    return tuple(sorted(place % what.below for place in range(what.count)))


def _plain(spec: OpSpec, argument: int, count: int) -> tuple[float, ...]:
    """Different numbers inside of an argument's domain, away from kinks."""
    domain = spec.domain(argument)
    low, high = max(domain.low, -1.0), min(domain.high, max(domain.low, -1.0) + 2.0)
    return tuple(low + (high - low) * ((0.31 + 0.17 * argument + 0.618 * place) % 1.0) for place in range(count))


def defined(text: str) -> dict[str, Any]:
    """The names that a script defines before it takes the derivative."""
    namespace: dict[str, Any] = {"__name__": "script"}
    exec(compile(text.partition("\ntry:\n    objective(function, ")[0], "script", "exec"), namespace)
    return namespace
