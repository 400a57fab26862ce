"""A small seeded sampler of arguments for any operation of the catalogue, NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradcheck.graphs.opspec import Choice, Indices, Interval, OpSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """An operation's arguments at one point, and its attributes."""

    arguments: tuple[Array, ...]
    attributes: dict[str, Any]


def _inside(interval: Interval, normal: Array) -> Array:
    low, high = interval.low, interval.high
    if np.isfinite(low) and np.isfinite(high):
        return np.asarray(low + (high - low) / (1 + np.exp(-normal)))
    if np.isfinite(low):
        return np.asarray(low + np.exp(normal / 2))
    if np.isfinite(high):
        return np.asarray(high - np.exp(normal / 2))
    return normal


def _values(spec: OpSpec, argument: int, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    values = _inside(spec.domain(argument), rng.standard_normal(shape))
    if spec.dtype(argument).startswith("complex"):
        values = values + 1j * _inside(spec.domain(argument), rng.standard_normal(shape))
    return np.asarray(values, dtype=spec.dtype(argument))


def _literal(attribute: Choice | Indices, rng: np.random.Generator) -> Any:
    if isinstance(attribute, Choice):
        return attribute.values[rng.integers(len(attribute.values))]
    drawn = rng.choice(attribute.below, size=attribute.count, replace=not attribute.distinct)
    return tuple(int(value) for value in (np.sort(drawn) if attribute.sorted else drawn))


def examples(spec: OpSpec, seed: int = 0, each: int = 3) -> Iterator[Example]:
    """`each` points for all argument shapes that the operation's starts lead to."""
    rng = np.random.default_rng(seed)
    for start in spec.starts:
        for shapes in spec.shapes(start):
            for _ in range(each):
                attributes = {name: _literal(value, rng) for name, value in spec.attributes(*shapes).items()}
                yield Example(
                    tuple(_values(spec, argument, shape, rng) for argument, shape in enumerate(shapes)), attributes
                )


@pytest.fixture(scope="session")
def sampled() -> Callable[..., Iterator[Example]]:
    """The sampler: `sampled(spec, seed=0, each=3)`."""
    return examples
