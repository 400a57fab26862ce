"""One operation on tensors of many elements, and a cotangent under which a sum in a narrow number type would stop.

Of 4,000 ones, a sum in bfloat16 counts 256, and one in float16 2,048: from there on, the next number is two more. In
float16 a larger number comes first, so that a tenth is lost of 1,300 ones.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradcheck.autodiff.mode import BRAIN, FUNCTION, HALF, XLA, Mode
from gradcheck.graph import Graph, Input, Shape
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS, Attribute, Choice, Interval, no_attributes, unary
from gradcheck.typing import Array

from .graphs import MOST_OF_LARGE, ArgumentShapes, Draft, RegionOf, is_modest, signatures, starts
from .inputs import numpy_dtype
from .values import PLACES, Draw, choice, index, large, offered, table

TOTALS = (1300, MOST_OF_LARGE - 96)
"""Approximate numbers of elements of a first argument; the larger one leaves room for a row beside it."""

SUMMED_IN = tuple(Mode(mode=mode) for mode in (BRAIN, HALF, FUNCTION, XLA))
"""The modes in which sums may stop, or be added up in another order than by eager code."""


@cache
def long_starts(op: str) -> tuple[Shape, ...]:
    """The shapes of a first argument one of whose dimensions is long.

    None for an operation that is looped over its points, and for a function of one argument without attributes, nearly
    all of which act on each element by itself.
    """
    spec = CATALOGUE[op]
    if spec.looped or (spec.shapes is unary and spec.attributes is no_attributes):
        return ()
    shapes = [
        (*shape[:axis], most * shape[axis] // prod(shape), *shape[axis + 1 :])
        for most in TOTALS
        for shape in starts(op)
        if 0 not in shape
        for axis in range(len(shape))
    ]
    return tuple(shape for shape in dict.fromkeys(shapes) if long_signatures(op, shape))


def long_signatures(op: str, shape: Shape) -> list[ArgumentShapes]:
    """The shapes of all arguments with such a first one that fit into a report together."""
    return [one for one in signatures(op, shape, MOST_OF_LARGE) if MOST_ELEMENTS < sum(map(prod, one)) <= MOST_OF_LARGE]


@st.composite
def long_sums(
    draw: Draw, operation: str, number_type: str, known: RegionOf | None = None
) -> tuple[Graph, Array] | None:
    """A graph of one operation at order 1, and a cotangent for all elements of its output; None if none is found.

    All values are alike, or spread over their domains; the cotangent is 1, but for the first element in float16.
    """
    spec, start = CATALOGUE[operation], choice(draw, long_starts(operation))
    shapes = choice(draw, long_signatures(operation, start))
    attrs = {name: _many(draw, one) for name, one in offered(operation, shapes).items()}
    if not is_modest(operation, shapes, tuple(attrs.items())):
        return None
    given = [(shape, spec.dtype(place), spec.domain(place)) for place, shape in enumerate(shapes)]
    spread = [large(draw, *one, place) for place, one in enumerate(given)]
    alike = [_filled(*one) for one in given]
    for literals in (spread, alike) if index(draw, 2) else (alike, spread):
        draft = Draft(1, known, most=MOST_OF_LARGE)
        held = [_held(one, domain, number_type) for one, (*_, domain) in zip(literals, given, strict=True)]
        node = draft.node(operation, [draft.literal(one) for one in held], attrs)
        if node and not node.kinks:
            cotangent = np.ones_like(node.value)
            if number_type == "float16" and index(draw, 2):
                cotangent.flat[:1] = 1024.0
            return draft.graph(node), cotangent
    return None


def _filled(shape: Shape, dtype: str, domain: Interval) -> Input:
    one = next((value for value in table(domain, "plain") if value), 0.0)
    return Input(shape, (complex(one) if dtype == "complex128" else one,) * prod(shape), dtype)


def _held(drawn: Input, domain: Interval, number_type: str) -> Input:
    """The values as a number type holds them; a plain one for those that rounding moves out of their domain."""
    values = drawn.array()
    if values.dtype != np.float64:
        return drawn
    held = values.astype(numpy_dtype(number_type)).astype(np.float64).ravel()
    plain = table(domain, "plain", number_type)[0]
    kept = (one if domain.contains(np.array([one])) else plain for one in held.tolist())
    return Input(drawn.shape, tuple(kept), drawn.dtype)


def _many(draw: Draw, attribute: Attribute) -> Any:
    """The value of an attribute; of many indices a few are drawn, the rest are the first, where they may repeat."""
    if isinstance(attribute, Choice):
        return choice(draw, attribute.values)
    count = choice(draw, TOTALS) if attribute.longer else attribute.count
    indices = list(range(count)) if attribute.distinct else [0] * count
    for _ in range(0 if attribute.distinct or not count else PLACES):
        indices[index(draw, count)] = index(draw, attribute.below)
    return tuple(sorted(indices)) if attribute.sorted else tuple(indices)
