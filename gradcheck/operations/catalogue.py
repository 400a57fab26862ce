"""The catalogue of operations by family, the simplest first: draws and shrinking go by this order."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck.operations import (
    arrays,
    branches,
    channels_first,
    control_flow,
    convolution,
    cuts,
    elementwise,
    embeddings,
    gather_scatter,
    image_operations,
    images,
    keras_functions,
    keras_images,
    keras_losses,
    keras_nn,
    keras_ops,
    keras_quantization,
    linalg,
    linear_operators,
    nn,
    numpy_ops,
    pooling,
    quantization,
    ragged,
    random,
    reductions,
    signal,
    sparse,
    tensorflow_1,
)
from gradcheck.operations.spec import OpSpec, SpecialSet
from gradcheck.operations.special_sets import of_argument

GROUPS: tuple[tuple[OpSpec, ...], ...] = (
    *(elementwise.ELEMENTARY, elementwise.BINARY, reductions.REDUCTIONS, arrays.ARRAYS, gather_scatter.GATHERING),
    *(arrays.DIAGONALS, images.BLOCKS, elementwise.ACTIVATIONS, nn.LOSSES, reductions.ORDERING),
    *(
        pooling.POOLING,
        pooling.POOLING_GRADIENTS,
        pooling.POOLING_FORMS,
        convolution.CONVOLUTIONS,
        channels_first.CHANNELS_FIRST,
        nn.NORMALIZATIONS,
        nn.RECURRENT,
    ),
    *(gather_scatter.SEGMENTS, elementwise.SPECIAL, signal.COMPLEX, linalg.LINALG),
    *(linalg.CONTRACTIONS, signal.SIGNAL),
    *(signal.COMPLEX_FORMS, cuts.ON_CUTS, elementwise.UNCHOSEN),
    *(images.IMAGE, control_flow.IDENTITY, control_flow.CONTROL_FLOW, sparse.SPARSE, ragged.RAGGED),
    *(control_flow.RESOURCES, control_flow.VARIANTS, quantization.QUANTIZATION, random.RANDOM),
    *(reductions.NORMS, reductions.MOMENTS),
    *(linalg.MATRIX_FUNCTIONS, signal.FRAMES),
    *(image_operations.COLOURS, image_operations.CROPPINGS, image_operations.IMAGE_QUALITY),
    *(
        convolution.CONVOLUTION_FORMS,
        embeddings.EMBEDDINGS,
        linear_operators.LINEAR_OPERATORS,
        linear_operators.OPERATOR_METHODS,
    ),
    *(gather_scatter.REARRANGEMENTS, control_flow.MAPPING),
    *(sparse.SPARSE_FORMS, sparse.RAGGED_FORMS),
    *(keras_ops.KERAS_ELEMENTWISE, keras_ops.KERAS_BINARY, keras_ops.KERAS_ACTIVATIONS),
    *(keras_losses.KERAS_ERRORS, keras_losses.KERAS_PROBABILITIES, keras_losses.KERAS_PAIRS),
    keras_ops.KERAS_STATISTICS,
    *(keras_ops.KERAS_LINALG, keras_ops.KERAS_SEQUENCES),
    *(keras_nn.KERAS_NN, keras_images.KERAS_SIGNAL, keras_nn.KERAS_LAYERS),
    *(keras_images.KERAS_SPECTROGRAMS, keras_nn.KERAS_UP_SAMPLING),
    keras_images.KERAS_IMAGES,
    *(numpy_ops.NUMPY_ELEMENTWISE, numpy_ops.NUMPY_STATISTICS, numpy_ops.NUMPY_ARRAYS),
    tensorflow_1.TENSORFLOW_1,
    *(keras_functions.KERAS_FUNCTIONS, keras_quantization.KERAS_QUANTIZATION),
    branches.BRANCHES,
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


def special_set(op: str, name: str) -> SpecialSet | None:
    """The set of an operation's arguments with this name, its own or one that every operation has; None without one."""
    own = CATALOGUE[op].special if op in CATALOGUE else ()
    return next((one for one in own if one.name == name), of_argument(name))
