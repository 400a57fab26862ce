"""Sums of products by an equation (`linalg`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, matmul, nonempty_matrix, restacked, square
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Formula

_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2)))
_square = partial(operation, "linalg", shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2)))


def of_points(equation: str) -> str:
    """The equation for operands that all carry one more leading dimension, as has the result.

    What is implied of the result is said, for the points would be summed over: the labels that occur once, sorted.
    """
    operands, arrow, result = equation.partition("->")
    if not arrow:
        labels = "".join(sorted(label for label in operands if label.isalpha() and operands.count(label) == 1))
        result = "..." * ("..." in operands) + labels
    return ",".join("P" + operand for operand in operands.split(",")) + "->P" + result


def _admits(equation: str, *shapes: Shape) -> bool:
    """Whether operands of these shapes fit: the ranks, the sizes of labels, and what the ellipses stand for."""
    sizes: dict[str, int] = {}
    stacks = []
    for operand, shape in zip(equation.partition("->")[0].split(","), shapes, strict=True):
        before, ellipsis, behind = operand.partition("...")
        left = len(shape) - len(before + behind)
        if left < 0 or (left > 0 and not ellipsis):
            return False
        stacks.append(shape[len(before) : len(before) + left])
        labelled = (*shape[: len(before)], *shape[len(before) + left :])
        if any(sizes.setdefault(label, size) != size for label, size in zip(before + behind, labelled, strict=True)):
            return False
    return all(len({1, *column}) <= 2 for column in _columns(stacks))


def _columns(stacks: list[Shape]) -> list[tuple[int, ...]]:
    rank = max(map(len, stacks))
    return list(zip(*((1,) * (rank - len(stack)) + stack for stack in stacks), strict=True))


def _that_fit(*equations: str) -> Callable[..., list[str]]:
    return lambda *shapes: [equation for equation in equations if _admits(equation, *shapes)]


def _with_points(form: Formula) -> Formula:
    return lambda *operands, equation: form(*operands, equation=of_points(equation))


# The gradient takes an ellipsis, whose dots repeat, for repeated labels, and has another way for equations without.
CONTRACTIONS = (
    _matrix("einsum", lambda x, y: tf.einsum("...ij,...jk->...ik", x, y), "Einsum", broadcasts=True, shapes=matmul),
    _square("einsum_trace", lambda x: tf.einsum("...ii->...", x), "Einsum"),
    _square("einsum_diagonal", lambda x: tf.einsum("...ii->...i", x), "Einsum"),
    _matrix(
        "einsum_reduced",
        lambda x, *, equation: tf.einsum(equation, x),
        "Einsum",
        batching=_with_points,
        starts=((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2), (1, 2, 3), (2, 3, 3)),
        equation=_that_fit(
            *("...ij->...i", "ij->i", "ij->j", "...ij->...j", "ij->", "ij", "ji", "ij->ji", "...ij->...", "i...->..."),
            *("i...j->j...", "i...j->...", "...i->...", "ii->", "...ii", "ijk->ik", "ijk->ki", "ijk->j", "ijj->i"),
            *("ijj->ji", "iji->j", "iij->ji", "iij->", "ij...->...j"),
        ),
    ),
    _matrix(
        "einsum_pair",
        lambda x, y, *, equation: tf.einsum(equation, x, y),
        "Einsum",
        batching=_with_points,
        others=lambda shape: [(shape,), *restacked(shape[-2:], shape)],
        equation=_that_fit(
            *("...ij,...ij->...", "...ij,...ij->...i", "...ij,...kj->...ik", "...ij,...ik->...kj"),
            *("...ij,...ik->...j", "...ij,...kl->...lj", "...ij,kj->...ik", "ij,...kj->k...i", "i...j,kj->...ik"),
            *("ij,ij->i", "ij,ij->", "ij,ik", "ij,kj->", "ij,kl->j", "ij,kl->li", "...ii,...jk->...ij"),
            *("ii,ij->j", "...ii,...jj->...", "...ii,...ij->...ij", "i...j,i...k->kj...", "ij,...k->...jik"),
        ),
    ),
    _square(
        "einsum_chain",
        lambda x, y, *, equation: tf.einsum(equation, x, y, x),
        "Einsum",
        batching=_with_points,
        others=alike,
        equation=lambda shape, other: _that_fit(
            *("...ij,...jk,...kl->...il", "ij,jk,kl->il", "...ij,...jk,...ki->...", "ij,jk,kl", "ij,ij,ij->i"),
            *("...ij,...kl,...jl->...k", "ii,ij,kj->k"),
        )(shape, other, shape),
    ),
)
