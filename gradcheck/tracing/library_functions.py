"""Public functions made of several kernels, mapped to the operations that regions of known defects are about.

A table beside the records, for functions whose kernels are right by themselves; `tests/catalogue/test_library_forms.py`
compares it with what the operations of the catalogue call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.util import tf_decorator

from gradcheck.typing import Array

EUCLIDEAN = ("euclidean", "fro", 2)
SMOOTH = (1, np.inf, -np.inf)
"""The orders of norms that take no root."""


@dataclass(frozen=True)
class OperationCall:
    """A call in terms of a region: the arguments of its operation, and its attributes."""

    arguments: Sequence[Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class LibraryForm:
    """An operation of the regions that is a call of a public `function`.

    `read` takes parameters of the function by name, and returns the call of the operation; None if it is not this
    operation. The derivative has to be taken with respect to one of the parameters `by` (default: those that are read).
    With `kernel`, the function has to run a kernel of that name whose `output` (None: any) is used. The form is about
    derivatives of these `orders`.
    """

    op: str
    function: str
    read: Callable[..., OperationCall | None]
    by: tuple[str, ...] = ()
    kernel: str = ""
    output: int | None = None
    orders: tuple[int, ...] = (1, 2)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that are read."""
        return tuple(inspect.signature(self.read).parameters)

    @property
    def sources(self) -> tuple[str, ...]:
        """The parameters with respect to which derivatives are wrong."""
        return self.by or self.parameters


@dataclass(frozen=True, eq=False)
class LibraryCall:
    """A call of a public function, as one of several `forms`, inside of the call `outer`.

    `given` are its parameters by name, with variables as the arrays that they held; `keys` identify the tensors and
    variables in each.
    """

    forms: tuple[LibraryForm, ...]
    given: Mapping[str, Any]
    keys: Mapping[str, frozenset[int]]
    outer: LibraryCall | None = None


def value(given: Any) -> Array | None:
    """A parameter as an array, several tensors as one; None where it has no value that is known.

    >>> value([tf.constant([1.0]), tf.constant([[2.0, 3.0]])])
    array([1., 2., 3.], dtype=float32)
    """
    if isinstance(given, (list, tuple)) and any(tf.is_tensor(one) or hasattr(one, "handle") for one in given):
        parts = [value(one) for one in given if one is not None]
        known = [part.ravel() for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None
    if tf.is_tensor(given) or hasattr(given, "handle"):
        return np.asarray(given.numpy()) if hasattr(given, "numpy") else None
    try:
        return np.asarray(given) if given is not None and np.asarray(given).dtype.kind in "biufcV" else None
    except (TypeError, ValueError):  # no numbers, or rows of different lengths
        return None


@lru_cache(maxsize=2)
def library_forms(keras_too: bool) -> Mapping[int, tuple[LibraryForm, ...]]:
    """The forms by the ids of their functions' code; those of Keras, which is slow to import, only if it is
    imported."""
    found: dict[int, tuple[LibraryForm, ...]] = {}
    for form in FORMS:
        if keras_too or not form.function.startswith("keras."):
            code = code_of(form.function)
            found[id(code)] = (*found.get(id(code), ()), form)
    found.pop(id(None), None)
    return found


def code_of(function: str) -> Any:
    """The code of a public function below its decorators; None where the installed release has none of this name."""
    library, *names = function.split(".")
    found: Any = tf if library == "tf" else sys.modules[library]
    for name in names:
        found = getattr(found, name, None)
    if found is None:
        return None
    return inspect.unwrap(tf_decorator.unwrap(found)[1]).__code__


def _is(*arguments: Any, **attributes: Any) -> OperationCall:
    return OperationCall(arguments, attributes)


def _numbers(given: Any) -> list[int]:
    """Axes or sizes as a list; empty where there are none, or none that are known."""
    known = value(given)
    return [] if known is None else [int(one) for one in known.ravel()]


def _axis(given: Any) -> Any:
    """An axis as attributes have it: None, a number, or several."""
    known = value(given)
    return None if known is None else int(known.item()) if known.size == 1 else tuple(_numbers(given))


def _is_real(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


def _norm(tensor: Any, ord: Any, axis: Any) -> OperationCall | None:
    matrix = len(_numbers(axis)) > 1
    if ord in ("euclidean", "fro") or (ord == 2 and not matrix):
        return _is(tensor, axis=_axis(axis))
    # Whatever the order, it is the root of a sum of powers, as for 3.
    return _is(tensor, axis=_axis(axis), power=3) if _is_real(ord) and ord not in SMOOTH and not matrix else None


def _euclidean(tensor: Any, ord: Any, axis: Any) -> OperationCall | None:
    return _norm(tensor, ord, axis) if ord in EUCLIDEAN else None


def _with_root(tensor: Any, ord: Any, axis: Any) -> OperationCall | None:
    return None if ord in EUCLIDEAN else _norm(tensor, ord, axis)


def _keras_norm(x: Any, ord: Any, axis: Any) -> OperationCall | None:
    return _is(x, axis=_axis(axis), power=3) if _is_real(ord) and ord > 2 and len(_numbers(axis)) < 2 else None


def _keras_nuclear(x: Any, ord: Any, axis: Any) -> OperationCall | None:
    rank = len(getattr(x, "shape", ()))
    of_last = rank >= 2 and (axis is None or {one % rank for one in _numbers(axis)} == {rank - 2, rank - 1})
    return _is(x, power="nuc") if isinstance(ord, str) and ord == "nuc" and of_last else None


def _of_pairs(x: Any, y: Any) -> OperationCall | None:
    one, other = value(x), value(y)
    return None if one is None or other is None else _is(one[..., :, None, :], other[..., None, :, :])


def _deviation(given: Any, axis: Any) -> OperationCall:
    return _is(given, axis=_axis(axis))


def _truncated(rank: int, row: int = -1, *, halved: bool = False) -> Callable[..., OperationCall | None]:
    """A reader of transforms that truncate their input; `halved`: spectra, whose last axis has half of the elements."""

    def read(input_tensor: Any, fft_length: Any, fft_rank: int) -> OperationCall | None:
        sizes, shape = _numbers(fft_length), getattr(input_tensor, "shape", ())
        if fft_rank != rank or len(sizes) != rank or len(shape) < rank:
            return None
        return _is(input_tensor) if (sizes[row] // 2 + 1 if halved else sizes[row]) < shape[row] else None

    return read


def _pinv(a: Any, rcond: Any) -> OperationCall:
    cut = value(rcond)
    return _is(a, rcond=0.25 if cut is not None and np.any(cut >= 0.01) else None)


def _bounded_relu(x: Any, negative_slope: float, max_value: Any, threshold: float) -> OperationCall | None:
    bounded = negative_slope > 0 and max_value is not None and not threshold
    return _is(x, slope=0.25, threshold=0.0) if bounded else None


def _of_column(x1: Any, x2: Any) -> OperationCall | None:
    """Nothing that is long along its last axis, as the bias of nearly every layer is."""
    shape: Sequence[Any] = getattr(x2, "shape", ())
    column = len(shape) > 1 and shape[-1] == 1 and [*shape].count(1) == len(shape) - 1
    return _is(x1, x2) if column else None


def _of_last_axis(x: Any, axis: Any) -> OperationCall | None:
    known = value(x)
    return _is(x) if _axis(axis) == -1 or (known is not None and _axis(axis) == known.ndim - 1) else None


def _circle(y_true: Any, ref_labels: Any, remove_diagonal: bool) -> OperationCall | None:
    labels = _numbers(y_true)
    if ref_labels is not None or not labels:
        return None
    alone = remove_diagonal and min(labels.count(one) for one in labels) == 1
    return _is(y_true, labels=(0, 1) if alone else tuple(labels), removed=remove_diagonal)


def _focal(y_true: Any, y_pred: Any, gamma: Any, from_logits: bool, label_smoothing: Any) -> OperationCall | None:
    """For gamma below 2 and a hard label, the second derivative of the power is infinite, as for 1."""
    labels = value(y_true)
    if labels is None or not from_logits or label_smoothing or not _is_real(gamma) or gamma >= 2:
        return None
    hard = [label for label in (1.0, 0.0) if np.any(labels == label)]
    return _is(y_pred, label=hard[0], gamma=0.5 if gamma < 1 else 1.0) if hard else None


def _volume_pooled(inputs: Any, output_size: Any) -> OperationCall | None:
    return _is(inputs) if len(getattr(inputs, "shape", ())) == 5 and 1 not in _numbers(output_size) else None


def _smoothed(y_true: Any, y_pred: Any, from_logits: bool, label_smoothing: Any, axis: int) -> OperationCall | None:
    """Smoothing divides by the size of the last axis, whichever has the classes."""
    if not from_logits or not label_smoothing or y_pred.shape[axis] == y_pred.shape[-1]:
        return None
    return _is(y_pred, y_true, axis=0, smoothing=0.25)


def _training(self: Any, inputs: Any, training: bool, mask: Any) -> OperationCall | None:
    return _is(inputs, masked=False) if training and self.trainable and mask is None else None


def _cropped(image: Any, boxes: Any, box_indices: Any, crop_size: Any) -> OperationCall | None:
    """Applies to a single image of which nothing is sampled but the corners of the boxes."""
    given = value(image)
    corners = given is not None and len(given) == 1 and _numbers(crop_size) == [2, 2]
    return _is(given[0], boxes) if given is not None and corners and set(_numbers(box_indices)) == {0} else None


def _resized(images: Any, antialias: bool) -> OperationCall | None:
    return _is(images) if antialias and getattr(images, "dtype", None) in (tf.float64, np.float64) else None


def _dense(labels: Any, logits: Any) -> OperationCall | None:
    return None if isinstance(labels, tf.SparseTensor) else _is(logits)


def _complex(input: Any) -> OperationCall | None:
    return _is(input) if input.dtype.is_complex else None


def _of_image(input: Any, filters: Any, data_format: Any, dilations: Any) -> OperationCall | None:
    plain = data_format is None and all(one == 1 for one in _numbers(dilations))
    return _is(input, filters) if plain and len(filters.shape) == 4 else None


def _labelled(y_true: Any, y_pred: Any, from_logits: bool) -> OperationCall | None:
    return _is(y_pred, y_true, axis=-1, smoothing=0.0) if from_logits else None


FORMS = (
    LibraryForm("norm_euclidean", "tf.norm", _euclidean, ("tensor",)),
    LibraryForm("norm", "tf.norm", _with_root, ("tensor",)),
    LibraryForm("norm_euclidean", "tf.compat.v1.norm", _euclidean, ("tensor",)),
    LibraryForm("norm", "tf.compat.v1.norm", _with_root, ("tensor",)),
    LibraryForm("global_norm", "tf.linalg.global_norm", lambda t_list: _is(t_list)),
    LibraryForm("clip_by_global_norm", "tf.clip_by_global_norm", lambda t_list: _is(t_list)),
    LibraryForm("keras_norm", "keras.ops.norm", _keras_norm, ("x",)),
    LibraryForm("keras_norm_nuclear", "keras.ops.norm", _keras_nuclear, ("x",)),
    LibraryForm("keras_cdist", "keras.ops.cdist", _of_pairs),
    LibraryForm(
        "keras_normalize",
        "keras.ops.normalize",
        lambda x, axis, order: _is(x, axis=_axis(axis), order=min(order, 3)),
        ("x",),
    ),
    LibraryForm(
        "reduce_std", "tf.math.reduce_std", lambda input_tensor, axis: _deviation(input_tensor, axis), ("input_tensor",)
    ),
    LibraryForm("keras_nanstd", "keras.ops.nanstd", lambda x, axis: _deviation(x, axis), ("x",)),
    LibraryForm("moments", "tf.nn.moments", lambda x: _is(x, which=1), kernel="SquaredDifference"),
    LibraryForm("moments_shifted", "tf.compat.v1.nn.moments", lambda x: _is(x, which=1), kernel="SquaredDifference"),
    LibraryForm(
        "keras_layer_normalization", "keras.ops.layer_normalization", lambda x: _is(x), kernel="SquaredDifference"
    ),
    LibraryForm("keras_batch_normalization", "keras.layers.BatchNormalization.call", _training, ("inputs",)),
    LibraryForm("keras_group_normalization", "keras.layers.GroupNormalization.call", lambda inputs: _is(inputs)),
    LibraryForm(
        "batch_norm_mean", "tf.compat.v1.nn.fused_batch_norm", lambda x: _is(x), kernel="FusedBatchNormV3", output=1
    ),
    LibraryForm(
        "batch_norm_variance", "tf.compat.v1.nn.fused_batch_norm", lambda x: _is(x), kernel="FusedBatchNormV3", output=2
    ),
    LibraryForm("per_image_standardization", "tf.image.per_image_standardization", lambda image: _is(image)),
    LibraryForm("resize_antialiased", "tf.image.resize", _resized, ("images",)),
    LibraryForm("convolution_of_image", "tf.nn.convolution", _of_image, ("input", "filters")),
    LibraryForm("silu", "tf.nn.silu", lambda features, beta: _is(features, beta)),
    LibraryForm("keras_celu", "keras.ops.celu", lambda x: _is(x)),
    LibraryForm("keras_fmod", "keras.ops.fmod", lambda x1, x2: _is(x1, x2), ("x1",)),
    LibraryForm("keras_hypot", "keras.ops.hypot", lambda x1, x2: _is(x1, x2)),
    LibraryForm("keras_ldexp", "keras.ops.ldexp", lambda x1: _is(x1)),
    LibraryForm("keras_logaddexp", "keras.ops.logaddexp", lambda x1, x2: _is(x1, x2)),
    LibraryForm("keras_logaddexp2", "keras.ops.logaddexp2", lambda x1, x2: _is(x1, x2)),
    LibraryForm("keras_sinc", "keras.ops.sinc", lambda x: _is(x)),
    LibraryForm("numpy_hypot", "tf.experimental.numpy.hypot", lambda x1, x2: _is(x1, x2)),
    LibraryForm("numpy_logaddexp", "tf.experimental.numpy.logaddexp", lambda x1, x2: _is(x1, x2)),
    LibraryForm("numpy_logaddexp2", "tf.experimental.numpy.logaddexp2", lambda x1, x2: _is(x1, x2)),
    LibraryForm("numpy_sinc", "tf.experimental.numpy.sinc", lambda x: _is(x)),
    LibraryForm("keras_relu", "keras.activations.relu", _bounded_relu, ("x",)),
    LibraryForm("keras_prelu", "keras.layers.PReLU.call", lambda self, inputs: _is(inputs, self.alpha), ("inputs",)),
    LibraryForm("keras_mel_spectrogram", "keras.layers.MelSpectrogram.call", lambda inputs: _is(inputs)),
    LibraryForm(
        "weighted_cross_entropy",
        "tf.nn.weighted_cross_entropy_with_logits",
        lambda labels, logits: _is(labels, logits),
        ("logits",),
    ),
    LibraryForm(
        "softmax_cross_entropy",
        "tf.nn.softmax_cross_entropy_with_logits",
        lambda labels, logits: _is(labels, logits),
        ("labels",),
    ),
    LibraryForm(
        "keras_categorical_crossentropy_of_logits",
        "keras.losses.categorical_crossentropy",
        _smoothed,
        ("y_pred",),
        kernel="SoftmaxCrossEntropyWithLogits",
        orders=(1,),
    ),
    LibraryForm(
        "keras_categorical_crossentropy_of_logits",
        "keras.losses.categorical_crossentropy",
        _labelled,
        ("y_true",),
        orders=(2,),
    ),
    LibraryForm(
        "keras_binary_focal_crossentropy_of_hard_labels",
        "keras.losses.binary_focal_crossentropy",
        _focal,
        ("y_pred",),
    ),
    LibraryForm("keras_adaptive_max_pool3d", "keras.ops.adaptive_max_pool", _volume_pooled, ("inputs",)),
    LibraryForm("keras_add", "keras.ops.add", _of_column, ("x2",)),
    LibraryForm("keras_sparsemax", "keras.ops.sparsemax", _of_last_axis, ("x",)),
    LibraryForm(
        "keras_tversky",
        "keras.losses.tversky",
        lambda y_true, y_pred, alpha, beta: _is(y_pred, y_true, alpha=alpha, beta=beta),
        ("y_true", "y_pred"),
    ),
    LibraryForm("keras_circle", "keras.losses.circle", _circle, ("y_pred",)),
    LibraryForm("ctc_loss_dense", "tf.nn.ctc_loss", _dense, ("logits",)),
    LibraryForm("isotonic_regression", "tf.nn.isotonic_regression", lambda inputs: _is(inputs)),
    LibraryForm("sparse_from_dense", "tf.sparse.from_dense", lambda tensor: _is(tensor)),
    LibraryForm("crop_and_resize", "tf.image.crop_and_resize", _cropped, ("boxes",), orders=(1,)),
    LibraryForm("keras_lstsq", "keras.ops.lstsq", lambda a, b: _is(a, b), ("a",)),
    LibraryForm("pinv", "tf.linalg.pinv", _pinv, ("a",)),
    LibraryForm("eigh_tridiagonal", "tf.linalg.eigh_tridiagonal", lambda alpha, beta: _is(alpha, beta)),
    LibraryForm("tridiagonal_solve", "tf.linalg.tridiagonal_solve", lambda diagonals, rhs: _is(diagonals, rhs)),
    LibraryForm("matrix_square_root", "tf.linalg.sqrtm", lambda input: _is(input)),
    LibraryForm(
        "log_determinant", "tf.linalg.slogdet", lambda input: _is(input), kernel="LogMatrixDeterminant", output=1
    ),
    LibraryForm("determinant_phase", "tf.linalg.slogdet", _complex, kernel="LogMatrixDeterminant", output=0),
    LibraryForm("rfft_truncated", "tf.signal.rfft", _truncated(1), ("input_tensor",)),
    LibraryForm("rfft2d_truncated", "tf.signal.rfft2d", _truncated(2), ("input_tensor",)),
    LibraryForm("irfft_truncated", "tf.signal.irfft", _truncated(1, halved=True), ("input_tensor",)),
    LibraryForm("irfft2d_truncated", "tf.signal.irfft2d", _truncated(2, row=-2), ("input_tensor",)),
    LibraryForm(
        "stateless_truncated_normal",
        "tf.random.stateless_parameterized_truncated_normal",
        lambda means, stddevs: _is(means, stddevs),
    ),
)
OPERATIONS = frozenset(form.op for form in FORMS)
"""The operations that calls are mapped to."""
FUNCTIONS = {form.op: form.function for form in reversed(FORMS)}
"""The first public function of each of them."""
