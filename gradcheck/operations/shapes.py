"""Shapes that the arguments of an operation may have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from operator import ge

from gradcheck.graph import Shape
from gradcheck.operations.spec import Rule, Shapes, unary


def only_if(condition: Callable[[Shape], object], rule: Rule = unary) -> Rule:
    """The rule, for the first shapes that meet the condition, which may be a rule itself.

    >>> only_if(lambda shape: shape[-1:] == (3,))((2, 3))
    [((2, 3),)]
    """
    return lambda shape: rule(shape) if condition(shape) else []


def of_rank(most: int) -> Callable[[Shape], object]:
    """Whether a shape has at most this rank: that of what a kernel takes, without the dimension of points."""
    return lambda shape: len(shape) <= most


nonempty = only_if(all)
"""One argument without a dimension of size 0."""

ranked = only_if(len)
"""One argument of rank 1 or more."""

vector = only_if(ranked, nonempty)
"""One argument of rank 1 or more, without a dimension of size 0."""

nonempty_matrix = only_if(lambda shape: len(shape) >= 2, nonempty)
"""One argument of rank 2 or more, without a dimension of size 0."""

square = only_if(lambda shape: shape[-1:] == shape[-2:-1], nonempty_matrix)
"""One argument of rank 2 or more, without a dimension of size 0, whose last two dimensions agree."""


def at_least(*sizes: int) -> Rule:
    """One argument of as many dimensions as these, each at least as large.

    >>> at_least(2, 1)((2, 3)), at_least(2, 1)((1, 3))
    ([((2, 3),)], [])
    """
    return only_if(lambda shape: len(shape) == len(sizes) and all(map(ge, shape, sizes)))


def broadcasting(shape: Shape) -> Shapes:
    """Two arguments that broadcast: the same shape, one rank less, a dimension of one, a scalar, one rank more."""
    smaller = [shape[1:], (1, *shape[1:]), (), (*shape[:-1], 1)] if shape else []
    return [(shape, other) for other in dict.fromkeys([shape, *smaller, (2, *shape)])]


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


def reduced(shape: Shape, *_others: Shape) -> tuple[int | tuple[int, ...] | None, ...]:
    """Axes that may be reduced: one axis, the last first, all of them, the same ones counted from the front, two, none.

    >>> reduced((2, 3))
    (-1, -2, None, 0, 1, (0, -1), ())
    """
    rank = len(shape)
    pairs = [(first, last - rank) for first, last in combinations(range(rank), 2)]
    return *axes(shape), None, *range(rank), *pairs, ()


def alike(shape: Shape) -> Shapes:
    """One other argument, of the same shape."""
    return [(shape,)]


def several(shape: Shape) -> bool:
    """More than one element along the last dimension."""
    return shape[-1] > 1


def restacked(matrix: Shape, shape: Shape) -> Shapes:
    """This matrix alone and in a stack of one, or in a stack, as what broadcasts against one of this shape."""
    return [(matrix,), ((1, *matrix),)] if shape[:-2] else [((2, *matrix),)]


def transpositions(one: Shape, other: Shape) -> list[str]:
    """Which factors of a matrix product may be transposed: the second, the first, none, or both.

    >>> transpositions((2, 3), (2, 3)), transpositions((2, 2), (2, 2))
    (['b', 'a'], ['b', 'a', '', 'ab'])
    """
    return [text for text in ("b", "a", "", "ab") if one[-2 if "a" in text else -1] == other[-1 if "b" in text else -2]]
