"""The catalogue of operations by family, the simplest first: draws and shrinking go by this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gradcheck.hunt.catalogue import (
    arrays,
    complex_signal,
    control_flow,
    convolution,
    elementwise,
    gather_scatter,
    images,
    keras_ops,
    language,
    layers,
    linalg,
    moments,
    norms,
    pooling,
    quantization,
    random,
    reductions,
    sparse,
)
from gradcheck.hunt.opspec import OpSpec

GROUPS: tuple[tuple[OpSpec, ...], ...] = (
    *(elementwise.ELEMENTARY, elementwise.BINARY, reductions.REDUCTIONS, arrays.ARRAYS, gather_scatter.GATHERING),
    *(linalg.DIAGONALS, images.BLOCKS, elementwise.ACTIVATIONS, layers.LOSSES, reductions.ORDERING),
    *(pooling.POOLING, convolution.CONVOLUTIONS, layers.NORMALIZATIONS, layers.RECURRENT),
    *(gather_scatter.SEGMENTS, elementwise.SPECIAL, complex_signal.COMPLEX, linalg.LINALG, complex_signal.SIGNAL),
    *(images.IMAGE, control_flow.IDENTITY, control_flow.CONTROL_FLOW, sparse.SPARSE, sparse.RAGGED),
    *(control_flow.RESOURCES, control_flow.VARIANTS, quantization.QUANTIZATION, random.RANDOM),
    *(norms.NORMS, moments.MOMENTS),
    *(keras_ops.KERAS_ELEMENTWISE, keras_ops.KERAS_BINARY, keras_ops.KERAS_ACTIVATIONS),
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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: value
    for module in (
        control_flow,
        convolution,
        images,
        language,
        layers,
        linalg,
        pooling,
        quantization,
        random,
        sparse,
    )
    for name, value in vars(module).items()
    if callable(value) and value.__module__ == module.__name__ and not name.startswith("_")
}
"""What the texts of operations may call, besides `tf` and `np`."""
