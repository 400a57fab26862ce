"""A small seeded sampler of arguments for any operation of the catalogue, NumPy only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gradcheck.operations.spec import Choice, Indices, Interval, OpSpec

Array = np.ndarray[Any, Any]
SPECIAL = (0.0, 1.0, -1.0, 0.5, 2.0, 6.0, 4.0, -8.0)


@dataclass(frozen=True)
class Example:
    """An operation's arguments at one point, and its attributes."""

    arguments: tuple[Array, ...]
    attributes: dict[str, Any]


class Sampler:
    """Examples of an operation's arguments: generic ones, and ones with special values."""

    @staticmethod
    def generic(spec: OpSpec, seed: int = 0, each: int = 1) -> Iterator[Example]:
        """`each` points for all argument shapes that the operation's starts lead to."""
        rng = np.random.default_rng(seed)
        for start in spec.starts:
            for shapes in spec.shapes(start):
                for _ in range(each):
                    attributes = {name: _literal(value, rng) for name, value in spec.attributes(*shapes).items()}
                    arguments = (_values(spec, argument, shape, rng) for argument, shape in enumerate(shapes))
                    yield Example(tuple(arguments), attributes)

    @classmethod
    def special(cls, spec: OpSpec, seed: int = 0) -> Iterator[Example]:
        """The generic points with all arguments, or just one, set to a special value wherever the domain has it."""
        imaginary = tuple(1j * value for value in SPECIAL) if spec.dtype(0).startswith("complex") else ()
        for example in cls.generic(spec, seed):
            for constant in (*SPECIAL, *imaginary):
                flat = [
                    np.full_like(value, constant)
                    if spec.domain(position).contains(np.full_like(value, constant))
                    else value
                    for position, value in enumerate(example.arguments)
                ]
                for chosen in dict.fromkeys([tuple(range(spec.arity)), *((only,) for only in range(spec.arity))]):
                    mixed = (flat[k] if k in chosen else value for k, value in enumerate(example.arguments))
                    yield replace(example, arguments=tuple(mixed))


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


@pytest.fixture(scope="session")
def sampler() -> Sampler:
    """The sampler: `sampler.generic(spec, seed=0, each=1)` and `sampler.special(spec, seed=0)`."""
    return Sampler()
