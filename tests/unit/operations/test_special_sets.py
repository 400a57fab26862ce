"""The special sets of operations: what lies in each, and what does not."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gradcheck.defects.known import load
from gradcheck.defects.region import COMPLEX
from gradcheck.operations.catalogue import CATALOGUE, special_set
from gradcheck.operations.special_sets import describe
from tests.records import COMMITTED

EDGE = "edge of a box on a pixel of a slope"
N = 1024
HARD_LABELS = "keras_binary_focal_crossentropy_of_hard_labels"


def inside(op: str, name: str, *arguments: Any, **attributes: Any) -> bool:
    """Whether arguments lie in the special set of an operation that has a name."""
    found = special_set(op, name)
    assert found is not None
    return found.contains(attributes, arguments)


def of_planes(plane: Any) -> Any:
    """A volume with one channel, of a plane and another far below it."""
    return np.stack([plane, np.subtract(plane, 9.0)])[..., np.newaxis]


SETS: list[tuple[str, str, tuple[Any, ...], dict[str, Any], bool]] = [
    ("cumprod", "zero factor", ([[1.0, 0.0]],), {}, True),
    ("cumprod", "zero factor", ([[1.0, 0.0]],), {"exclusive": True}, False),
    ("cumprod", "zero factor", ([[1.0, 0.0]],), {"exclusive": True, "reverse": True}, True),
    ("cumprod_over_axis", "several factors", ([[1.0], [2.0]],), {"axis": 0}, True),
    ("cumprod_over_axis", "several factors", ([[1.0], [2.0]],), {"axis": -1}, False),
    ("complex_cumprod", "several factors, not real", ([1.0, 1j],), {"exclusive": False}, True),
    ("complex_cumprod", "several factors, not real", ([1.0, 1j],), {"exclusive": True}, False),
    ("reduce_prod", "one or two zeros among several", ([[0.0, 1.0, 2.0]],), {"axis": (0, 1)}, True),
    ("reduce_prod", "one or two zeros among several", ([[0.0, 1.0, 2.0]],), {"axis": 0}, False),
    ("reduce_prod", "one or two zeros among several", ([0.0, 0.0, 0.0],), {"axis": None}, False),
    ("banded_triangular_solve_of_rows", "a single band", ([[1.0, 2.0]], [[1.0], [1.0]]), {}, True),
    ("banded_triangular_solve_of_rows", "a single band", ([[1.0, 2.0], [0.0, 1.0]], [[1.0], [1.0]]), {}, False),
    ("norm", "zero vector", (0.0,), {"axis": -1}, True),
    ("norm", "zero vector", ([[0.0], [1.0]],), {"axis": 0}, False),
    ("max_pool3d", "largest twice in a window", (of_planes([[1.0, 2.0, 0.0], [2.0, 0.0, 0.0]]),), {}, True),
    ("max_pool3d", "largest twice in a window", (of_planes([[1.0, 1.0, 3.0], [2.0, 0.0, 1.0]]),), {}, False),
    ("max_pool3d", "largest twice in a window", (of_planes([[1.0, 1.0]]),), {"padding": "VALID"}, False),
    ("max_pool3d", "largest twice in a window", (of_planes([[1.0, 1.0]]),), {"padding": "SAME"}, True),
    ("max_pool3d_unequal", "largest twice in a window", (of_planes([[1.0, 1.0]]),), {"ksize": (1, 1, 2)}, True),
    ("tile", "several elements along each axis", (np.ones((2, 3)),), {}, True),
    ("tile", "several elements along each axis", (np.ones((2, 1)),), {}, False),
    ("cumulative_logsumexp", "running maximum of magnitude 1e4 or more", ([-1e5, 1.0],), {}, True),
    ("cumulative_logsumexp", "running maximum of magnitude 1e4 or more", ([1.0, -1e5],), {}, False),
    ("cumulative_logsumexp", "running maximum of magnitude 1e4 or more", ([1.0, -1e5],), {"reverse": True}, True),
    ("cumulative_logsumexp", "running maximum of magnitude 1e4 or more", ([-1e5, 1.0],), {"reverse": True}, False),
    ("keras_logaddexp", "equal arguments", ([1.0, 2.0], 2.0), {}, True),
    ("keras_logaddexp", "equal arguments", ([1.0, 2.0], [2.0, 1.0]), {}, False),
    ("keras_hypot", "equal magnitudes, not zero", ([2.0], [-2.0]), {}, True),
    ("keras_hypot", "equal magnitudes, not zero", ([0.0], [0.0]), {}, False),
    ("keras_hypot", "equal magnitudes, not zero", ([0.0, -2.0], [0.0, -2.0]), {}, True),
    ("numpy_hypot", "both arguments zero", ([0.0, 1.0], [1.0, 0.0]), {}, False),
    ("numpy_hypot", "both arguments zero", ([0.0, 3.0], 0.0), {}, True),
    ("keras_prelu", "zero beside a positive slope", ([0.0, 1.0], [0.5, -1.0]), {}, True),
    ("keras_prelu", "zero beside a positive slope", ([0.0, 1.0], [-1.0, 0.5]), {}, False),
    ("pinv", "vanishing singular values", ([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]],), {}, True),
    ("pinv", "vanishing singular values", ([[1.0, 1.0, 1.0], [1.0, 2.0, 2.0]],), {}, False),
    ("pinv", "vanishing singular values", ([1.0, 1.0],), {}, False),
    ("pinv", "vanishing singular values", (np.ones((0, 2)),), {}, False),
    ("pinv", "equal singular values", (np.eye(2),), {}, True),
    ("pinv", "equal singular values", ([[1.0, 0.0], [0.0, 2.0]],), {}, False),
    ("pinv", "close singular values", ([[1.0, 0.0], [0.0, 1.000001]],), {}, True),
    ("pinv", "all entries up to 1e-2", ([[0.0, 1e-3]],), {}, True),
    ("pinv", "all entries up to 1e-2", ([[0.0, 0.0]],), {}, False),
    ("singular_values", "singular values far apart", ([[1.0, 0.0], [0.0, 1e-7], [0.0, 0.0]],), {}, True),
    ("singular_values", "singular values far apart", ([[1.0, 0.0], [0.0, 1e-7]],), {}, False),
    ("singular_vectors", "constant row or column", ([[1.0, 2.0], [1.0, 3.0]],), {}, True),
    ("singular_vectors", "constant row or column", ([[1.0, 2.0], [2.0, 3.0]],), {}, False),
    ("spectral_abscissa", "equal eigenvalues", ([[1.0, 1.0], [0.0, 1.0]],), {}, True),
    ("segment_mean", "empty segment", ([1.0, 2.0],), {"ids": (0, 2)}, True),
    ("segment_mean", "empty segment", ([1.0, 2.0],), {"ids": (0, 1)}, False),
    ("complex_segment_prod", "several rows in a segment, not real", ([1.0, 1j],), {"ids": (0, 1)}, False),
    ("complex_segment_prod", "several rows in a segment, not real", ([1.0, 1j],), {"ids": (0, 0)}, True),
    ("dynamic_partition", "partitions of unequal size", ([1.0, 2.0],), {"partitions": (0, 1)}, False),
    ("dynamic_partition", "partitions of unequal size", ([1.0] * 3,), {"partitions": (0, 1, 1)}, True),
    ("keras_circle", "labels of one class", ([[0.5]] * 2,), {"labels": (1, 1)}, True),
    ("keras_circle", "labels of one class", ([[0.5]] * 2,), {"labels": (1, 0)}, False),
    ("per_image_standardization", "flat image in float32", (np.ones((2, 2, 1)) + 1e-9,), {}, True),
    ("per_image_standardization", "flat image in float32", (np.arange(4.0).reshape(2, 2, 1),), {}, False),
    (HARD_LABELS, "probability of the label rounds to 1", (40.0,), {"label": 1.0}, True),
    (HARD_LABELS, "probability of the label rounds to 1", (40.0,), {"label": 0.0}, False),
    ("keras_stft_spectrogram_of_angles", "four samples that cancel", ([[1.0], [2.0], [1.0], [-4.0]],), {}, True),
    ("keras_stft_spectrogram_of_angles", "four samples that cancel", ([[1.0], [2.0], [3.0], [5.0]],), {}, False),
    ("softplus_grad", "exp of argument 1 overflows in float32", ([0.0], [-89.0]), {}, True),
    ("softplus_grad", "exp of argument 1 overflows in float32", ([100.0], [88.0]), {}, False),
    ("softplus_grad", "exp of argument 1 overflows", ([0.0], [-710.0]), {}, True),
    ("softplus_grad", "exp of argument 1 overflows", ([0.0], [700.0]), {}, False),
    ("ctc_loss_dense", "exp overflows in float32", ([[1.0, -89.0]],), {}, True),
    ("ctc_loss_dense", "exp overflows in float32", ([[1.0, 88.0]],), {}, False),
    ("igamma", "magnitude over 5000", ([1.0, 5001.0], [1.0, 1.0]), {}, True),
    ("igamma", "magnitude over 5000", ([1.0, 5000.0], [1.0, 1.0]), {}, False),
    ("dawsn", "magnitude of 1e4 or more", ([-1e5],), {}, True),
    ("dawsn", "magnitude of 1e4 or more", ([999.0],), {}, False),
    ("eigenvalues", "all entries up to 1e-4", ([[1e-5, 0.0], [0.0, 0.0]],), {}, True),
    ("eigenvalues", "all entries up to 1e-4", ([[1e-5, -1e-3], [0.0, 0.0]],), {}, False),
    ("eigenvalues", "more than two rows and columns", (np.eye(3),), {}, True),
    ("singular_values", "more than two rows and columns", (np.ones((2, 3)),), {}, False),
    ("spectral_abscissa", "equal eigenvalues", ([[2.0, 0.0], [0.0, 3.0]],), {}, False),
    ("segment_prod", "two zeros in a segment", ([[0.0, 1.0], [0.0, 0.0]],), {"ids": (0, 0)}, True),
    ("segment_prod", "two zeros in a segment", ([0.0, 0.0, 0.0],), {"ids": (0, 0, 0)}, False),
    ("reduce_std", "all elements equal", ([[2.0, 2.0]],), {"axis": -1}, True),
    ("reduce_std", "all elements equal", ([[2.0, 2.0]],), {"axis": 0}, False),
    ("reduce_std", "one element along axis", ([[2.0, 2.0]],), {"axis": 0}, True),
    ("complex_reduce_prod", "more than two factors, not real", ([1j, 1.0, 2.0],), {"axis": -1}, True),
    ("complex_reduce_prod", "more than two factors, not real", ([1j, 1.0],), {"axis": -1}, False),
    ("circulant_2d_operator_measure", "more than two factors, not real", ([[1j, 1.0], [1.0, 2.0]],), {}, True),
    ("complex_squared_difference", "unequal arguments", ([1j, 0.0], [1j, 1.0]), {}, True),
    ("keras_cdist", "coinciding points", ([[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0]]), {}, True),
    ("keras_cdist", "coinciding points", ([[1.0, 2.0], [3.0, 4.0]], [[3.0, 2.0]]), {}, False),
    ("legacy_matrix_diag_band", "several elements along axis", ([[1.0, 2.0]],), {}, True),
    ("legacy_matrix_diag_band", "several elements along axis", ([[1.0], [2.0]],), {}, False),
    ("complex_segment_prod", "several rows in a segment", ([1.0, 2.0],), {"ids": (0, 0)}, True),
    ("complex_segment_prod", "several rows in a segment", ([1.0, 2.0],), {"ids": (0, 1)}, False),
    ("conv3d", "filter of width 1", (np.ones((2, 2, 2, 1)), np.ones((2, 2, 1, 1, 1))), {}, True),
    ("conv3d", "filter of width 1", (np.ones((2, 2, 2, 1)), np.ones((1, 1, 2, 1, 1))), {}, False),
    ("bias_add", "more than 256 rows", (np.ones((129, 2, 3)), np.ones(3)), {}, True),
    ("bias_add", "more than 256 rows", (np.ones((128, 2, 300)), np.ones(300)), {}, False),
    ("gather", "an index more than 256 times", ([1.0, 2.0],), {"indices": (1,) * 257}, True),
    ("gather", "an index more than 256 times", ([1.0, 2.0],), {"indices": (0, 1) * 256}, False),
    ("gather_nd", "an index more than 1024 times", (np.eye(2),), {"rows": (1, 1) * N, "columns": (0, 0) * N}, True),
    ("gather_nd", "an index more than 1024 times", (np.eye(2),), {"rows": (1, 1) * N, "columns": (0, 1) * N}, False),
    ("unsorted_segment_mean", "more than 256 rows in a segment", (np.ones(300),), {"ids": (0,) * 9 + (2,) * 291}, True),
    ("unsorted_segment_mean", "more than 256 rows in a segment", (np.ones(500),), {"ids": (0, 1) * 250}, False),
    ("unsorted_segment_mean", "more than 256 rows in a segment", (np.ones((2, 300)),), {"ids": (0, 0)}, False),
    ("unsorted_segment_mean", "more than 256 rows in a segment", (np.ones(300),), {"ids": (-1,) * 299 + (0,)}, False),
    ("unsorted_segment_mean", "more than 2048 rows in a segment", (np.ones(2049),), {"ids": (0,) * 2049}, True),
    ("unsorted_segment_mean", "more than 2048 rows in a segment", (np.ones(2048),), {"ids": (0,) * 2048}, False),
    ("complex_acos", "real number above 1, with -0 as imaginary part", (np.array([complex(2.0, -0.0)]),), {}, True),
    ("complex_acos", "real number above 1, with -0 as imaginary part", (np.array([2.0 + 0j]),), {}, False),
    ("cumsum", "more than 256 elements along axis", (np.ones(257),), {}, True),
    ("cumsum", "more than 256 elements along axis", (np.ones((257, 256)),), {}, False),
    ("cumsum_over_axis", "more than 1024 elements along axis", (np.ones((1025, 1)),), {"axis": 0}, True),
    ("cumsum_over_axis", "more than 1024 elements along axis", (np.ones((1025, 1)),), {"axis": 1}, False),
    ("bias_add_channels_first", "more than 256 images", (np.ones((257, 1, 1, 1)), np.ones(1)), {}, True),
    ("bias_add_channels_first", "more than 256 images", (np.ones((256, 1, 2, 2)), np.ones(1)), {}, False),
    ("conv2d", "more than 256 pixels", (np.ones((257, 1, 1)), np.ones((1, 1, 1, 1))), {}, True),
    ("conv2d", "more than 256 pixels", (np.ones((16, 16, 9)), np.ones((1, 1, 9, 1))), {}, False),
    ("einsum", "more than 1024 rows", (np.ones((5, 205, 1)), np.ones((1, 1))), {}, True),
    ("einsum", "more than 1024 rows", (np.ones((1024, 2)), np.ones((2, 2))), {}, False),
    ("rgb_to_hsv", "channels that differ by less than 2**-8", ([0.5, 0.25, 0.251],), {}, True),
    ("rgb_to_hsv", "channels that differ by less than 2**-8", ([0.5, 0.25, 0.25],), {}, False),
    ("keras_add", "a column that fits as a row", (np.ones((3, 3)), np.ones((3, 1))), {}, True),
    ("keras_add", "a column that fits as a row", (np.ones((3, 3)), np.ones((1, 3))), {}, False),
    ("keras_sparsemax", "several elements in the support", ([1.0, 0.5],), {}, True),
    ("keras_sparsemax", "several elements in the support", ([2.0, 0.5],), {}, False),
    ("keras_tversky", "unequal weights", ([0.5], [0.5]), {"alpha": 0.25, "beta": 0.5, "axis": -1}, True),
    ("keras_tversky", "unequal weights", ([0.5], [0.5]), {"alpha": 0.5, "beta": 0.5, "axis": -1}, False),
    ("depthwise_conv2d", "more than 1024 pixels", (np.ones((33, 32, 1)), np.ones((2, 2, 1, 1))), {}, True),
    ("depthwise_conv2d", "more than 1024 pixels", (np.ones((32, 32, 3)), np.ones((2, 2, 3, 1))), {}, False),
    ("add", "a row for more than 1024", (np.ones((1025, 2)), np.ones(2)), {}, True),
    ("add", "a row for more than 1024", (np.ones((1025, 2)), np.ones((1025, 1))), {}, False),
    ("sparse_dense_mul", "scalar in argument 1", ([1.0], 2.0), {}, True),
    ("sparse_dense_mul", "scalar in argument 1", ([1.0], [2.0]), {}, False),
    ("keras_cosine_similarity", "zero vector in argument 1", ([1.0], [0.0]), {"axis": -1}, True),
    ("keras_cosine_similarity", "zero vector in argument 1", ([0.0], [1.0]), {"axis": -1}, False),
    ("global_norm", "all elements zero", ([[0.0], [0.0]],), {}, True),
    ("global_norm", "all elements zero", ([[0.0], [1.0]],), {}, False),
    ("norm_frobenius", "zero matrix", ([[[0.0], [0.0]], [[0.0], [1.0]]],), {}, True),
    ("norm_frobenius", "zero matrix", ([[0.0], [1.0]],), {}, False),
    ("determinant", "singular", ([[1.0, 2.0], [2.0, 4.0]],), {}, True),
    ("determinant", "singular", ([[1.0, 2.0], [2.0, 5.0]],), {}, False),
    ("dynamic_stitch", "index given twice", ([1.0], [2.0]), {"first": (0,), "second": (0,)}, True),
    ("dynamic_stitch", "index given twice", ([1.0], [2.0]), {"first": (0,), "second": (1,)}, False),
    ("pinv", "close singular values", ([[1.0, 0.0], [0.0, 1.001]],), {}, False),
    ("complex_squared_difference", "unequal arguments", ([1j, 0.0], [1j, 0.0]), {}, False),
    ("reduce_std", "one element along axis", ([[2.0, 2.0]],), {"axis": -1}, False),
    ("complex_acos", "real number below -1", ([0.5, -1.5 + 0j],), {}, True),
    ("complex_acos", "real number below -1", ([-0.5, 1.5, -1.5 + 1e-9j],), {}, False),
    ("complex_tan", "exp of the imaginary part overflows", (1 + 800j,), {}, True),
    ("complex_tan", "exp of the imaginary part overflows", (800 + 1j,), {}, False),
]


def test_special_sets_of_operations(subtests: pytest.Subtests) -> None:
    for op, name, arguments, attributes, expected in SETS:
        with subtests.test(f"{op}: {name} {arguments} {attributes}"):
            assert inside(op, name, *arguments, **attributes) is expected
    names = {one.name for spec in CATALOGUE.values() for one in spec.special} - {EDGE}
    assert {(name, answer) for _, name, *_, answer in SETS} == {*product(names, (True, False))}


def test_each_special_set_is_of_use() -> None:
    """A record names each set that an operation declares; no two of one operation have one name."""
    declared = [(op, one.name) for op, spec in CATALOGUE.items() for one in spec.special]
    assert len(set(declared)) == len(declared)
    used = {(region.op.removeprefix(COMPLEX), region.set_name) for one in load(COMMITTED) for region in one.regions}
    assert {(op.removeprefix(COMPLEX), name) for op, name in declared} - used == set()


def test_an_edge_of_a_box_on_a_pixel_counts_where_the_image_rises_or_falls() -> None:
    image = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 0.0]])[..., np.newaxis]
    for box, expected in (
        ([0.3, 0.5, 0.7, 0.2], True),
        ([0.7, 0.5, 0.9, 0.2], False),  # a summit
        ([0.3, 0.4, 0.7, 0.2], False),  # between pixels
        ([0.3, 0.4, 0.7, 0.50000001], True),  # on one in float32
        ([0.3, 0.4, 0.7, 1.5], False),  # outside
        ([0.3, 0.0, 0.7, 0.2], True),  # on the first ones, before which there is nothing
        ([1.0, 0.6, 1.0, 0.7], True),  # beyond the last row there is nothing
    ):
        assert inside("crop_and_resize", EDGE, image, [box]) is expected, box


@pytest.mark.parametrize(
    ("value", "outside", "name"),
    [
        ([], [2.0], "no element in argument 0"),
        ([0.0, 2.0], [2.0], "zero in argument 0"),
        ([2.0, 2.0], [2.0, 3.0], "tie in argument 0"),
        ([1.0, 2.0], [2.0, 3.0], "one in argument 0"),
        ([2.0], [2.0, 3.0], "a single element in argument 0"),
    ],
)
def test_the_sets_that_every_operation_has_describe_findings(value: Any, outside: Any, name: str) -> None:
    assert describe([np.array(value)]) == name
    assert inside("sin", name, value)
    assert not inside("sin", name, outside)
