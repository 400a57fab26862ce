"""Operations of real tensors that move, add up or multiply elements, as operations of complex ones."""

from __future__ import annotations

from gradcheck.hunt.catalogue.arrays import ARRAYS
from gradcheck.hunt.catalogue.complex_signal import over_plane
from gradcheck.hunt.catalogue.convolution import CONVOLUTIONS
from gradcheck.hunt.catalogue.images import BLOCKS
from gradcheck.hunt.catalogue.linalg import DIAGONALS, LINALG
from gradcheck.hunt.catalogue.matrix_functions import MATRIX_FUNCTIONS
from gradcheck.hunt.catalogue.rearrangements import REARRANGEMENTS
from gradcheck.hunt.catalogue.sparse import SPARSE

REAL_FORMS = {
    spec.name: spec
    for group in (ARRAYS, DIAGONALS, BLOCKS, CONVOLUTIONS, LINALG, MATRIX_FUNCTIONS, REARRANGEMENTS, SPARSE)
    for spec in group
}

NAMES = (
    *("expand_dims", "reshape", "transpose", "concat", "legacy_concat", "stack", "unstack", "split", "split_v"),
    *("squeeze", "slice", "slice_from", "strided_slice", "strided_slice_shrink", "pad", "pad_constant"),
    *("pad_symmetric", "pad_reflect", "broadcast_to", "broadcast_to_rank", "reverse", "reverse_sequence"),
    *("legacy_reverse", "matrix_diag", "matrix_diag_offset", "matrix_diag_part", "matrix_set_diag"),
    *("matrix_set_diag_below", "matrix_band_part", "legacy_matrix_diag", "legacy_matrix_diag_part"),
    *("legacy_matrix_set_diag", "tensor_diag", "tensor_diag_part", "tridiagonal_matmul", "einsum", "einsum_trace"),
    *("einsum_diagonal", "einsum_pair", "space_to_depth", "depth_to_space", "bias_add", "bias_add_grad", "trace"),
    *("matvec", "matvec_transposed", "repeat", "boolean_mask", "polyval", "sparse_to_dense", "sparse_reduce_sum"),
    *("sparse_slice", "sparse_fill_empty_rows", "sparse_dense_add"),
)
"""Those that have a kernel, and a gradient, of complex numbers, and that no record of the real ones is about."""

COMPLEX_FORMS = tuple(over_plane(REAL_FORMS[name]) for name in NAMES)
