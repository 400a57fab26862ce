"""The vocabulary of shape rules: from the shape of an operation's first argument to the shapes of all of them.

A rule maps the first argument's shape to the possible shapes of all arguments, the simplest first, and to nothing if
the first argument cannot have that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import unary

Shapes: TypeAlias = Sequence[tuple[Shape, ...]]
Rule: TypeAlias = Callable[[Shape], Shapes]


def only_if(condition: Callable[[Shape], object], rule: Rule = unary) -> Rule:
    """The rule, for the first shapes that meet the condition, which may be a rule itself.

    >>> only_if(lambda shape: shape[-1:] == (3,))((2, 3))
    [((2, 3),)]
    """

    def restricted(shape: Shape) -> Shapes:
        return rule(shape) if condition(shape) else []

    return restricted


def alike(count: int) -> Rule:
    """`count` arguments of one shape."""

    def rule(shape: Shape) -> Shapes:
        return [(shape,) * count]

    return rule


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


def square(shape: Shape) -> Shapes:
    """One argument of rank 2 or more, without a dimension of size 0, whose last two dimensions agree."""
    return [(shape,)] if len(shape) >= 2 and all(shape) and shape[-1] == shape[-2] else []


def of_rank(*ranks: int) -> Rule:
    """One argument of one of these ranks, without a dimension of size 0."""

    def rule(shape: Shape) -> Shapes:
        return [(shape,)] if len(shape) in ranks and all(shape) else []

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
