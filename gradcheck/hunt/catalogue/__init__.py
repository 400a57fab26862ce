"""The catalogue of operations, a few files a family, the simplest first; a family is added by naming its module."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from gradcheck.hunt.catalogue import (
    array,
    binary,
    complex,
    control_flow,
    diagonals,
    elementwise,
    gathering,
    identity,
    image,
    linalg,
    nn,
    quantization,
    ragged,
    random,
    reductions,
    resource,
    segments,
    signal,
    sparse,
    special,
    variant,
)
from gradcheck.hunt.opspec import OpSpec

FAMILIES: tuple[ModuleType, ...] = (
    elementwise,
    binary,
    reductions,
    array,
    gathering,
    diagonals,
    nn,
    segments,
    special,
    complex,
    linalg,
    signal,
    image,
    identity,
    control_flow,
    sparse,
    ragged,
    resource,
    variant,
    quantization,
    random,
)


def gathered(families: Iterable[ModuleType]) -> dict[str, OpSpec]:
    """The operations of all modules by name, in order; ValueError where two have one name."""
    catalogue: dict[str, OpSpec] = {}
    for family in families:
        for spec in family.OPERATIONS:
            if spec.name in catalogue:
                raise ValueError(f"the catalogue names {spec.name!r} twice")
            catalogue[spec.name] = spec
    return catalogue


CATALOGUE: dict[str, OpSpec] = gathered(FAMILIES)
