"""Operations of the census's family `nn`."""

from __future__ import annotations

from gradcheck.hunt.catalogue import activations, convolution, losses, normalization, ordering, pooling, recurrent

OPERATIONS = (
    *activations.OPERATIONS,
    *losses.OPERATIONS,
    *ordering.OPERATIONS,
    *pooling.OPERATIONS,
    *convolution.OPERATIONS,
    *normalization.OPERATIONS,
    *recurrent.OPERATIONS,
)
