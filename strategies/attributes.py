"""An operation's attributes: each drawn as literals, the simplest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice, product
from typing import Any

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Shape
from gradcheck.graphs.opspec import Attribute, Choice, Indices

from .choices import Draw, index


@cache
def offered(op: str, shapes: tuple[Shape, ...]) -> Mapping[str, Attribute]:
    """What an operation's attributes may be, for arguments of these shapes."""
    return CATALOGUE[op].attributes(*shapes)


def attributes(draw: Draw, op: str, shapes: tuple[Shape, ...]) -> dict[str, Any]:
    """One literal for each attribute of the operation."""
    return {name: _literal(draw, attribute) for name, attribute in offered(op, shapes).items()}


def _literal(draw: Draw, attribute: Attribute) -> Any:
    if isinstance(attribute, Choice):
        return attribute.values[index(draw, len(attribute.values))]
    indices: list[int] = []
    for _ in range(attribute.count):
        drawn = index(draw, attribute.below)
        while attribute.distinct and drawn in indices:
            drawn = (drawn + 1) % attribute.below
        indices.append(drawn)
    return tuple(sorted(indices)) if attribute.sorted else tuple(indices)


def alternatives(op: str, shapes: tuple[Shape, ...], count: int = 8) -> Iterator[dict[str, Any]]:
    """The first few combinations of an operation's attributes, the simplest first, without any draw."""
    attributes_of = offered(op, shapes)
    literals = [_simplest(attribute) for attribute in attributes_of.values()]
    for combination in islice(product(*literals), count):
        yield dict(zip(attributes_of, combination, strict=True))


def _simplest(attribute: Attribute) -> tuple[Any, ...]:
    if isinstance(attribute, Choice):
        return attribute.values
    return (tuple(range(attribute.count)),) if _ascending(attribute) else ((0,) * attribute.count,)


def _ascending(attribute: Indices) -> bool:
    return attribute.count <= attribute.below
