"""Operations of real tensors that move, add up or multiply elements, or factor matrices, as those of complex ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gradcheck.hunt.catalogue.arrays import ARRAYS
from gradcheck.hunt.catalogue.complex_signal import over_plane
from gradcheck.hunt.catalogue.contractions import CONTRACTIONS
from gradcheck.hunt.catalogue.convolution import CONVOLUTIONS
from gradcheck.hunt.catalogue.convolution_forms import CONVOLUTION_FORMS
from gradcheck.hunt.catalogue.diagonals import DIAGONALS
from gradcheck.hunt.catalogue.elementwise import ACTIVATIONS
from gradcheck.hunt.catalogue.gather_scatter import GATHERING, SEGMENTS
from gradcheck.hunt.catalogue.images import BLOCKS
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.linalg import LINALG, bounded
from gradcheck.hunt.catalogue.matrix_functions import MATRIX_FUNCTIONS, each_permuted
from gradcheck.hunt.catalogue.moments import MOMENTS
from gradcheck.hunt.catalogue.ragged import RAGGED
from gradcheck.hunt.catalogue.rearrangements import REARRANGEMENTS
from gradcheck.hunt.catalogue.shapes import square
from gradcheck.hunt.catalogue.sparse import SPARSE
from gradcheck.hunt.opspec import Formula, OpSpec

REAL_FORMS = {
    spec.name: spec
    for group in (
        *(ARRAYS, GATHERING, DIAGONALS, BLOCKS, ACTIVATIONS, CONVOLUTIONS, CONVOLUTION_FORMS, SEGMENTS, LINALG),
        *(CONTRACTIONS, MOMENTS, MATRIX_FUNCTIONS, REARRANGEMENTS, SPARSE, RAGGED),
    )
    for spec in group
}

SMOOTH = (
    *("expand_dims", "reshape", "transpose", "concat", "legacy_concat", "stack", "unstack", "split", "split_v"),
    *("squeeze", "slice", "slice_from", "strided_slice", "strided_slice_shrink", "pad", "pad_constant"),
    *("pad_symmetric", "pad_reflect", "broadcast_to", "broadcast_to_rank", "reverse", "reverse_sequence", "tile"),
    *("roll", "gather", "gather_rows", "gather_each_row", "legacy_gather", "gather_nd", "scatter_nd"),
    *("tensor_scatter_nd_add", "tensor_scatter_nd_sub", "tensor_scatter_nd_update", "scatter_nd_non_aliasing_add"),
    *("tensor_strided_slice_update", "dynamic_partition", "dynamic_stitch", "parallel_dynamic_stitch"),
    *("legacy_reverse", "matrix_diag", "matrix_diag_offset", "matrix_diag_part", "matrix_set_diag"),
    *("matrix_set_diag_below", "matrix_diag_part_band", "matrix_band_part", "legacy_matrix_diag"),
    *("legacy_matrix_diag_part", "legacy_matrix_set_diag", "legacy_matrix_diag_offset"),
    *("legacy_matrix_set_diag_offset", "legacy_matrix_diag_part_band", "legacy_matrix_diag_part_band_tall"),
    *("legacy_matrix_set_diag_band",),
    *("tensor_diag", "tensor_diag_part", "space_to_depth", "depth_to_space", "extract_patches", "silu"),
    *("bias_add", "bias_add_channels_first", "bias_add_v1", "bias_add_grad", "bias_add_grad_channels_first"),
    *("segment_sum", "segment_mean", "segment_prod", "unsorted_segment_sum", "unsorted_segment_prod"),
    *("determinant", "log_determinant", "inverse", "cholesky", "solve", "triangular_solve", "matrix_solve_ls"),
    *("matrix_square_root", "matrix_exponential", "tridiagonal_matmul", "tridiagonal_solve"),
    *("banded_triangular_solve", "einsum", "einsum_trace", "einsum_diagonal", "einsum_pair"),
    *("moments", "moments_shifted"),
    *("trace", "matvec", "matvec_transposed", "tensordot", "logdet", "cholesky_solve", "lu_solve"),
    *("lu_matrix_inverse", "lu_reconstruct", "repeat", "boolean_mask", "polyval"),
    *("sparse_to_dense", "sparse_reduce_sum", "sparse_slice", "sparse_fill_empty_rows", "sparse_dense_add"),
    *("sparse_dense_matmul", "sparse_reorder", "sparse_transpose", "sparse_add", "csr_matrix_matmul"),
    *("ragged_to_tensor", "ragged_gather", "ragged_to_sparse", "ragged_fill_empty_rows"),
)
"""Those that have a kernel, and a gradient, of complex numbers, and are smooth in the whole plane."""

AS_OF_REAL = (
    *("qr", "singular_values", "singular_vectors", "eigenvalues", "eigenvectors", "largest_eigenvector"),
    "spectral_abscissa",
)
"""Those that are singular without full rank, or at equal values, as of real matrices."""
REAL_RESULTS = (
    *("logdet", "singular_values", "singular_vectors", "eigenvectors", "largest_eigenvector"),
    "spectral_abscissa",
)


bounded_dominant: Formula = lambda x: bounded(x) + (1 + x.shape[-1]) * tf.eye(x.shape[-1], dtype=x.dtype)
bounded_regular: Formula = lambda x: bounded(x) + x.shape[-1] * tf.eye(x.shape[-1], dtype=x.dtype)
OF_REGULAR: dict[str, Formula] = {
    "log_determinant": lambda x: tf.linalg.slogdet(bounded_dominant(x))[1],
    "inverse": lambda x, *, adjoint: tf.linalg.inv(bounded_dominant(x), adjoint=adjoint),
    "solve": lambda x, y, *, adjoint: tf.linalg.solve(bounded_dominant(x), y, adjoint=adjoint),
    "triangular_solve": lambda x, y, *, lower, adjoint: tf.linalg.triangular_solve(
        bounded_dominant(x), y, lower=lower, adjoint=adjoint
    ),
    "cholesky_solve": lambda x, y: tf.linalg.cholesky_solve(bounded_regular(x), y),
    "lu_solve": lambda x, y, *, permutation: tf.linalg.lu_solve(bounded_regular(x), each_permuted(x, permutation), y),
    "lu_matrix_inverse": lambda x, *, permutation: tf.linalg.lu_matrix_inverse(
        bounded_regular(x), each_permuted(x, permutation)
    ),
}
"""Of matrices that are regular in the whole plane: a sine grows along the imaginary axis, and tanh has poles there."""


def _form(name: str) -> OpSpec:
    spec = REAL_FORMS[name]
    spec = replace(spec, source=OF_REGULAR.get(name, spec.source))
    form = over_plane(spec, (spec.kinks or spec.singular) if name in AS_OF_REAL else None)
    return replace(form, result="float64") if name in REAL_RESULTS else form


_square = partial(
    operation, "linalg", dtypes=("complex128",), shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2))
)

COMPLEX_FORMS = (
    *map(_form, (*SMOOTH, *AS_OF_REAL)),
    _square(
        "real_log_determinant",
        lambda x: tf.math.real(tf.linalg.slogdet(bounded_dominant(x))[1]),
        "LogMatrixDeterminant Real",
    ),
    _square(
        "determinant_phase",
        lambda x: tf.linalg.slogdet(bounded_dominant(x))[0],
        "LogMatrixDeterminant",
        result="complex128",
    ),
)
