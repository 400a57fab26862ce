"""The catalogue of operations by family, the simplest first: draws and shrinking go by this order."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck.hunt.catalogue import (
    arrays,
    channels_first,
    colours,
    complex_forms,
    complex_signal,
    containers,
    contractions,
    control_flow,
    convolution,
    convolution_forms,
    croppings,
    diagonals,
    elementwise,
    embeddings,
    frames,
    gather_scatter,
    image_quality,
    images,
    keras_images,
    keras_layers,
    keras_linalg,
    keras_losses,
    keras_nn,
    keras_ops,
    keras_probabilities,
    keras_signal,
    keras_spectrograms,
    keras_statistics,
    layers,
    linalg,
    linear_operators,
    losses,
    mapping,
    matrix_functions,
    moments,
    norms,
    numpy_ops,
    operator_methods,
    pooling,
    pooling_gradients,
    quantization,
    ragged,
    random,
    rearrangements,
    recurrent,
    reductions,
    sparse,
    sparse_forms,
    tensorflow_1,
)
from gradcheck.hunt.opspec import OpSpec

GROUPS: tuple[tuple[OpSpec, ...], ...] = (
    *(elementwise.ELEMENTARY, elementwise.BINARY, reductions.REDUCTIONS, arrays.ARRAYS, gather_scatter.GATHERING),
    *(diagonals.DIAGONALS, images.BLOCKS, elementwise.ACTIVATIONS, losses.LOSSES, reductions.ORDERING),
    *(
        pooling.POOLING,
        pooling_gradients.POOLING_GRADIENTS,
        pooling.POOLING_FORMS,
        convolution.CONVOLUTIONS,
        channels_first.CHANNELS_FIRST,
        layers.NORMALIZATIONS,
        recurrent.RECURRENT,
    ),
    *(gather_scatter.SEGMENTS, elementwise.SPECIAL, complex_signal.COMPLEX, linalg.LINALG),
    *(contractions.CONTRACTIONS, complex_signal.SIGNAL),
    complex_forms.COMPLEX_FORMS,
    *(images.IMAGE, control_flow.IDENTITY, control_flow.CONTROL_FLOW, sparse.SPARSE, ragged.RAGGED),
    *(control_flow.RESOURCES, containers.VARIANTS, quantization.QUANTIZATION, random.RANDOM),
    *(norms.NORMS, moments.MOMENTS),
    *(matrix_functions.MATRIX_FUNCTIONS, frames.FRAMES),
    *(colours.COLOURS, croppings.CROPPINGS, image_quality.IMAGE_QUALITY),
    *(
        convolution_forms.CONVOLUTION_FORMS,
        embeddings.EMBEDDINGS,
        linear_operators.LINEAR_OPERATORS,
        operator_methods.OPERATOR_METHODS,
    ),
    *(rearrangements.REARRANGEMENTS, mapping.MAPPING),
    *(sparse_forms.SPARSE_FORMS, sparse_forms.RAGGED_FORMS),
    *(keras_ops.KERAS_ELEMENTWISE, keras_ops.KERAS_BINARY, keras_ops.KERAS_ACTIVATIONS),
    *(keras_losses.KERAS_ERRORS, keras_probabilities.KERAS_PROBABILITIES, keras_losses.KERAS_PAIRS),
    keras_statistics.KERAS_STATISTICS,
    *(keras_linalg.KERAS_LINALG, keras_linalg.KERAS_SEQUENCES),
    *(keras_nn.KERAS_NN, keras_signal.KERAS_SIGNAL, keras_layers.KERAS_LAYERS),
    *(keras_spectrograms.KERAS_SPECTROGRAMS, keras_layers.KERAS_UP_SAMPLING),
    keras_images.KERAS_IMAGES,
    *(numpy_ops.NUMPY_ELEMENTWISE, numpy_ops.NUMPY_STATISTICS, numpy_ops.NUMPY_ARRAYS),
    tensorflow_1.TENSORFLOW_1,
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
