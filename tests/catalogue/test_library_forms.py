"""The table of public functions made of several kernels is held against the catalogue and against the records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects.region import ANY, COMPLEX, names
from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.drawn_arguments import drawn_arguments
from gradcheck.tracing.library_functions import FORMS, LibraryForm, OperationCall, code_of, value
from gradcheck.tracing.recorder import recorded
from tests import records, slices

RECORDS = [one for one in records.DEFECTS if one.signature.taken == PLAIN and not one.kernels]
REGIONS = [region for one in RECORDS for region in one.regions]

RAW = "operations of tf.raw_ops, of which one output is meant, or which take what only others of them make"
BEFORE = "one kernel, which is wrong with certain ones before it alone"
WITHOUT = "its derivative is None, which is said of the kernel without any record"
TRACED = "what a tf.function around it does"
ABSENT = "its second derivative raises, and the error names the operation that has no gradient"
REFUSED = "its gradient raises, for a form of its places that no special set can tell of a kernel's inputs"
OLD = "a graph of TensorFlow 1: its loops, tensor arrays and removed operations are looked at in no session"
UNSEEN = {
    **dict.fromkeys(("batch_norm_grad", "batch_norm_grad_v1", "batch_norm_grad_v2", "csr_matrix_matmul"), RAW),
    **dict.fromkeys(("batch_norm_grad_of_itself", "tensor_list_gather"), RAW),
    "fake_quant_per_channel": WITHOUT,
    **dict.fromkeys(("gather_nd_of_form", "gather_nd_ignoring", "scatter_nd_ignoring"), REFUSED),
    "tensor_scatter_nd_add_ignoring": REFUSED,
    **dict.fromkeys(
        ("sqrt_unchosen", "rsqrt_unchosen", "reciprocal_unchosen"), "what tf.where chooses, after the root"
    ),
    "block_lstm_clipped": "any limit that a state goes beyond, which no kernel's inputs tell",
    **dict.fromkeys(("conv2d_grouped", "conv3d"), "the shapes of two arguments, of which no special set speaks"),
    **dict.fromkeys(("scatter_nd_non_aliasing_add", "tensor_scatter_nd_add", "tensor_scatter_nd_sub"), BEFORE),
    **dict.fromkeys(("csr_matrix_product_in_function", "csr_matrix_product_in_function_complex"), TRACED),
    **dict.fromkeys(("cond_on_value", "py_function", "recompute_grad", "switch_case_of_rows"), TRACED),
    **dict.fromkeys(("ctc_loss", "ctc_loss_of_batch", "ctc_loss_of_sparse_labels"), ABSENT),
    **dict.fromkeys(("dilation2d", "erosion2d", "local_response_normalization"), ABSENT),
    **dict.fromkeys(("max_pool_with_argmax", "max_pool_grad_v2", "ragged_to_variant"), ABSENT),
    **dict.fromkeys(("fractional_max_pool", "fractional_avg_pool"), ABSENT),
    **dict.fromkeys(("resize_nearest", "resize_nearest_corners", "resize_bicubic", "resize_bicubic_corners"), ABSENT),
    **dict.fromkeys(("scale_and_translate", "resize_with_pad", "keras_up_sampling", "keras_resize_to_aspect"), ABSENT),
    **dict.fromkeys(("crop_and_resize_of_integers", "crops_of_given_boxes"), ABSENT),
    **dict.fromkeys(("stateless_gamma", "stateless_gamma_v2"), ABSENT),
    **dict.fromkeys(("gather_of_loop_of_tensorflow_1", "replaced_loop_variable_of_tensorflow_1"), OLD),
    **dict.fromkeys(("while_loop_of_tensorflow_1", "loop_of_gathers_of_tensorflow_1"), OLD),
    **dict.fromkeys(
        ("recurrence_of_tensorflow_1", "cond_in_loop_of_tensorflow_1", "batch_norm_with_global_normalization"), OLD
    ),
    **dict.fromkeys(("tensor_array", "tensor_array_gather", "tensor_array_concat", "tensor_array_in_loop"), OLD),
    "keras_affine_transform_of_matrix": WITHOUT,
    "keras_float8_dense": "its gradient raises, whatever it is given",
    "keras_int8_reversible_embedding": "a layer whose weights are quantized, which its call does not tell",
    **dict.fromkeys(
        ("keras_binary_crossentropy_of_activation", "keras_categorical_crossentropy_of_activation"),
        "what Keras keeps beside probabilities, of which no region speaks",
    ),
    "keras_scale_and_translate": "where samples lie, of which no special set speaks",
    "keras_stft_spectrogram_of_angles": "frames of four steps, the region's: a layer may have longer ones",
    "py_function_of_rows": "what the Python function takes and gives, which no kernel's inputs tell",
    "ssim_multiscale_of_opposites": "its images are made of the argument, the region does not speak of theirs",
    ANY: "any operation, with certain ones before it or with an error",
}
"""What of the regions no call of a public function is, and why."""
PART = {
    "ctc_loss_of_dense_labels": "ctc_loss_dense",
    "keras_cosine_similarity": "keras_normalize",
    "keras_mel_spectrogram_in_decibels": "keras_mel_spectrogram",
    "keras_layer_normalization_over_axis": "keras_layer_normalization",
    "softmax_cross_entropy_over_axis": "softmax_cross_entropy",
    "weighted_cross_entropy_of_weights": "weighted_cross_entropy",
    **dict.fromkeys(("norm_of_all", "norm_frobenius"), "norm_euclidean"),
}
"""Operations that are, or run, another of the same record with a form."""
MADE = {
    "clip_by_global_norm": "the parts of its argument",
    "global_norm": "the parts of its argument",
    "keras_adaptive_max_pool3d": "a batch of its argument",
    "keras_group_normalization": "a batch of its argument",
    "keras_nanstd": "its argument and NaN beside it",
    "keras_prelu": "a batch of its argument",
    "resize_antialiased": "the type decides",
    "weighted_cross_entropy": "labels and logits",
    "matrix_square_root": "a regular matrix",
    "ctc_loss_dense": "a batch of its argument",
    "keras_circle": "the labels alone decide",
    "keras_cdist": "all pairs",
}
"""Operations that call their function with something else than their arguments: what."""

STANDING = {"which", "power", "slope", "smoothing", "labels", "rcond"}
"""Attributes of which one value stands for all that are wrong, or that say which result is used."""


def calls(form: LibraryForm, arguments: list[Any], attributes: dict[str, Any]) -> list[OperationCall]:
    """What the calls of a form's function are, where its operation of the catalogue runs."""
    run = single(CATALOGUE[spec_of(form)])
    record = recorded(lambda *tensors: run(*tensors, **attributes), [tf.constant(one) for one in arguments])
    assert record.error is None
    seen = {id(call): call for one in record.operations for call in one.calls if form in call.forms}
    given = (form.read(**{name: call.given[name] for name in form.parameters}) for call in seen.values())
    return [one for one in given if one is not None]


def all_calls(form: LibraryForm) -> Iterator[tuple[list[Any], dict[str, Any], OperationCall]]:
    for arguments, attributes in drawn_arguments(CATALOGUE[spec_of(form)]):
        yield from ((arguments, attributes, call) for call in calls(form, arguments, attributes))


def spec_of(form: LibraryForm) -> str:
    return COMPLEX + form.op if COMPLEX + form.op in {region.op for region in REGIONS} else form.op


@pytest.mark.sliced
def test_an_operation_of_the_catalogue_calls_the_function_that_the_table_says(subtests: pytest.Subtests) -> None:
    """The test command stops at the second call of each form."""
    for form in FORMS:
        with subtests.test(f"{form.op} by {form.function}"):
            assert_called(form, most=None if slices.exhaustively else 2)


def assert_called(form: LibraryForm, most: int | None) -> None:
    """The first calls of a form's function tell the regions what they ask for, and there is one."""
    asked = [region for region in REGIONS if region.op in names(spec_of(form))]
    assert asked, f"{form.op}: no record speaks of it; take it out of the table"
    assert code_of(form.function) is not None, f"{form.function}: not in this release"
    needed = {name for one in asked for name in one.asked}
    found = False
    for arguments, attributes, call in islice(all_calls(form), most):
        found = True
        assert needed <= set(call.attributes), f"{form.op}: the regions ask for {needed}"
        for name in needed - (STANDING if form.orders != (2,) else STANDING | {"axis"}):
            assert np.ravel(call.attributes[name]).tolist() == np.ravel(attributes[name]).tolist()
        if form.op not in MADE:
            for place in {place for region in asked for place in region.deciding}:
                np.testing.assert_allclose(np.asarray(value(call.arguments[place])), arguments[place], rtol=1e-6)
    assert found, f"{form.op} never calls {form.function}; correct the table"


def test_a_record_without_kernels_is_of_a_function_in_the_table_or_it_is_said_why_not() -> None:
    listed = {form.op for form in FORMS}
    assert {
        (record.name, region.op)
        for record in RECORDS
        for region in record.regions
        if not (names(region.op) & listed or region.op in UNSEEN or PART.get(region.op) in listed)
    } == set()


def test_the_table_has_no_form_and_no_excuse_twice() -> None:
    ops = {region.op for region in REGIONS}
    assert set(UNSEEN) <= ops
    assert {form.op for form in FORMS} & set(UNSEEN) == set()
    assert len({(form.op, form.function, form.read, form.output) for form in FORMS}) == len(FORMS)
