"""Shapes that the arguments of an operation may have."""

from __future__ import annotations

from operator import ge

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Rule, Shapes


def alike(shape: Shape) -> Shapes:
    """One other argument, of the same shape."""
    return [(shape,)]


def broadcasting(shape: Shape) -> Shapes:
    """Two arguments that broadcast: the same shape, one rank less, a dimension of one, a scalar, one rank more."""
    smaller = [shape[1:], (1, *shape[1:]), (), (*shape[:-1], 1)] if shape else []
    return [(shape, other) for other in dict.fromkeys([shape, *smaller, (2, *shape)])]


def nonempty(shape: Shape) -> Shapes:
    """One argument without a dimension of size 0."""
    return [(shape,)] if all(shape) else []


def ranked(shape: Shape) -> Shapes:
    """One argument of rank 1 or more."""
    return [(shape,)] if shape else []


def vector(shape: Shape) -> Shapes:
    """One argument of rank 1 or more, without a dimension of size 0."""
    return [(shape,)] if shape and all(shape) else []


def nonempty_matrix(shape: Shape) -> Shapes:
    """One argument of rank 2 or more, without a dimension of size 0."""
    return [(shape,)] if len(shape) >= 2 and all(shape) else []


def several(shape: Shape) -> bool:
    """More than one element in the last dimension, of which there is one."""
    return shape[-1] > 1


def square(shape: Shape) -> Shapes:
    """One argument of rank 2 or more, without a dimension of size 0, whose last two dimensions agree."""
    return [(shape,)] if len(shape) >= 2 and all(shape) and shape[-1] == shape[-2] else []


def at_least(*sizes: int) -> Rule:
    """One argument of as many dimensions as these, each at least as large.

    >>> at_least(2, 1)((2, 3)), at_least(2, 1)((1, 3))
    ([((2, 3),)], [])
    """

    def rule(shape: Shape) -> Shapes:
        return [(shape,)] if len(shape) == len(sizes) and all(map(ge, shape, sizes)) else []

    return rule


def matmul(shape: Shape) -> Shapes:
    """Two matrices, or stacks of them, whose product exists; the second may have no, or another, leading dimension.

    >>> matmul((2, 3))
    [((2, 3), (3, 2)), ((2, 3), (3, 1)), ((2, 3), (2, 3, 2))]
    """
    if len(shape) < 2 or not all(shape):
        return []
    *stack, rows, inner = shape
    others = [(*stack, inner, rows), (*stack, inner, 1)]
    if stack:
        others += [(inner, 2), (1, inner, 1)]
    else:
        others.append((2, inner, 2))
    return [(shape, other) for other in dict.fromkeys(others)]


def axes(shape: Shape, *_others: Shape) -> range:
    """The axes of the first argument, the last first.

    >>> list(axes((2, 3)))
    [-1, -2]
    """
    return range(-1, -len(shape) - 1, -1)
