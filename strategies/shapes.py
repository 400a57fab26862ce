"""Which operations a value's shape and dtype admit, in the catalogue's order."""

from __future__ import annotations

from functools import cache

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Shape

Shapes = tuple[Shape, ...]


@cache
def signatures(op: str, shape: Shape) -> tuple[Shapes, ...]:
    """The shapes of all arguments of an operation whose first argument has this shape; none if it cannot have it."""
    return tuple(tuple(shapes) for shapes in CATALOGUE[op].shapes(shape))


@cache
def accepts(op: str, shape: Shape, dtype: str) -> bool:
    """Whether the operation takes a value of this shape and dtype as its first argument."""
    return CATALOGUE[op].dtype(0) == dtype and bool(signatures(op, shape))


@cache
def starts(op: str) -> tuple[Shape, ...]:
    """The shapes that a fresh first argument of the operation may have, the simplest first."""
    admitted = tuple(shape for shape in CATALOGUE[op].starts if signatures(op, shape))
    if not admitted:
        raise ValueError(f"{op}: none of its starts {CATALOGUE[op].starts} is admitted by its own shapes")
    return admitted
