"""The catalogue of operations by family, the simplest first: draws and shrinking go by this order."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck.hunt.catalogue.arrays import ARRAYS
from gradcheck.hunt.catalogue.complex_signal import COMPLEX, SIGNAL
from gradcheck.hunt.catalogue.control_flow import CONTROL_FLOW, IDENTITY, RESOURCES, VARIANTS
from gradcheck.hunt.catalogue.convolution import CONVOLUTIONS, POOLING
from gradcheck.hunt.catalogue.elementwise import ACTIVATIONS, BINARY, ELEMENTARY, SPECIAL
from gradcheck.hunt.catalogue.gather_scatter import GATHERING, SEGMENTS
from gradcheck.hunt.catalogue.images import BLOCKS, IMAGE
from gradcheck.hunt.catalogue.layers import LOSSES, NORMALIZATIONS, RECURRENT
from gradcheck.hunt.catalogue.linalg import DIAGONALS, LINALG
from gradcheck.hunt.catalogue.quantization import QUANTIZATION
from gradcheck.hunt.catalogue.random import RANDOM
from gradcheck.hunt.catalogue.reductions import ORDERING, REDUCTIONS
from gradcheck.hunt.catalogue.sparse import RAGGED, SPARSE
from gradcheck.hunt.opspec import OpSpec

GROUPS: tuple[tuple[OpSpec, ...], ...] = (
    *(ELEMENTARY, BINARY, REDUCTIONS, ARRAYS, GATHERING, DIAGONALS, BLOCKS),
    *(ACTIVATIONS, LOSSES, ORDERING, POOLING, CONVOLUTIONS, NORMALIZATIONS, RECURRENT),
    *(SEGMENTS, SPECIAL, COMPLEX, LINALG, SIGNAL, IMAGE, IDENTITY, CONTROL_FLOW),
    *(SPARSE, RAGGED, RESOURCES, VARIANTS, QUANTIZATION, RANDOM),
)


def by_name(groups: Iterable[Iterable[OpSpec]]) -> dict[str, OpSpec]:
    """The operations of all groups by name, in order; ValueError where two have one name."""
    catalogue: dict[str, OpSpec] = {}
    for spec in (spec for group in groups for spec in group):
        if spec.name in catalogue:
            raise ValueError(f"the catalogue names {spec.name!r} twice")
        catalogue[spec.name] = spec
    return catalogue


CATALOGUE: dict[str, OpSpec] = by_name(GROUPS)
