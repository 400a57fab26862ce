"""Arguments and attributes with which an operation is tried: the same every time, from its own shapes and domains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from gradcheck.operations.spec import Attribute, Choice, OpSpec
from gradcheck.typing import Array

SHAPES, SETTINGS = 8, 6
"""The number of shapes with which an operation is tried, and of settings of its attributes for each."""


def drawn_arguments(spec: OpSpec) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    """Arguments of some shapes, drawn from the operation's domains without special values, and attributes for them."""
    generator = np.random.default_rng(0)
    shapes = (each for start in spec.starts for each in list(spec.shapes(start))[:2] if all(map(np.prod, each)))
    for each in islice(shapes, SHAPES):
        for _ in range(SETTINGS):
            arguments = [_drawn(generator, spec, place, shape) for place, shape in enumerate(each)]
            offered = spec.attributes(*each)
            yield arguments, {name: _picked(generator, kind) for name, kind in offered.items()}


def _drawn(generator: np.random.Generator, spec: OpSpec, place: int, shape: Sequence[int]) -> Array:
    """An argument in its domain; square matrices are symmetric, for the kernels that take symmetric ones."""
    domain, dtype = spec.domain(place), spec.dtype(place)
    low, high = max(domain.low, -2.0), min(domain.high, 2.0)
    if low >= high:
        above = domain.low > 0
        low, high = (domain.low, min(domain.low + 2.0, domain.high)) if above else (max(domain.low, high - 2.0), high)
    value = generator.uniform(low, high, shape)
    if len(shape) >= 2 and shape[-1] == shape[-2]:
        value = (value + np.swapaxes(value, -1, -2)) / 2
    return (value + 1j * generator.uniform(low, high, shape) if dtype.startswith("complex") else value).astype(dtype)


def _picked(generator: np.random.Generator, kind: Attribute) -> Any:
    if isinstance(kind, Choice):
        return kind.values[generator.integers(len(kind.values))]
    picked = generator.choice(kind.below, kind.count, replace=not kind.distinct).tolist()
    return tuple(sorted(picked) if kind.sorted else picked)
