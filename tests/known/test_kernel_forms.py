"""The kernel of an operation of the catalogue: found by running it, and left out where no single kernel is at fault."""

from __future__ import annotations

import pytest
from msgspec import structs

from gradcheck.defects.records import KernelForm
from gradcheck.documents import plain
from gradcheck.hunt.kernel_forms import drawn_samples, own_samples, with_kernels, wrong_alone
from gradcheck.operations.catalogue import CATALOGUE
from tests import records, slices

DEFECTS = {one.name: one for one in records.DEFECTS}


def found(name: str) -> tuple[KernelForm, ...]:
    """The kernels that are found for a record without any."""
    return with_kernels(structs.replace(DEFECTS[name], kernels=())).kernels


def test_attributes_and_inputs_are_told_apart_from_what_is_fixed() -> None:
    last, any_axis = found("cumprod-zero-order1")
    attrs: dict[str, str | int] = {"exclusive": "exclusive", "reverse": "reverse"}
    assert last == KernelForm("cumprod", "Cumprod", (0,), attrs, {"1": -1})
    assert any_axis == KernelForm("cumprod_over_axis", "Cumprod", (0,), {"axis": 1, **attrs})


def test_outputs_and_rows_are_told_apart() -> None:
    assert [form.output for form in found("singular_vectors-small-order1")] == [1, 2]
    (pooled,) = found("max_pool2d_padded-order2")
    assert (pooled.kernel, pooled.rows) == ("MaxPool", True)


@slices.parametrized(
    "name",
    [
        "norm_euclidean-zero-order1",  # Square, Sum and Sqrt
        "moments-variance-order2",  # StopGradient, where it should not be
        "convolution_of_image-order2",  # raises in Python, and not by itself
        "scatter_nd-nested-slices-order2",  # asks for certain operations before it
        "rfft_truncated-raises",  # the length that is wrong depends on the shape
        "function-keras_inner-order1",  # a mode
        "gather-of-tanh_grad",  # any operation
        "conv2d_grouped-order1",  # the shapes of two arguments: all other convolutions are right
    ],
    lambda names: names[:-1],
)
def test_what_is_no_single_kernels_fault_has_none(name: str) -> None:
    assert found(name) == ()


@pytest.mark.parametrize("name", ["xlogy-zero-order1", "determinant-singular-order1", "tile-rank3-order2"])
def test_what_the_committed_records_say_is_found_again(name: str) -> None:
    assert plain(found(name)) == plain(DEFECTS[name].kernels)
    assert DEFECTS[name].kernels


def test_a_kernel_by_itself_is_compared() -> None:
    (determinant,) = own_samples(DEFECTS["determinant-singular-order1"], "determinant")
    assert wrong_alone(determinant.kernel, 1)
    (convolution,) = own_samples(DEFECTS["convolution_of_image-order2"], "convolution_of_image")
    assert not wrong_alone(convolution.kernel, 2)


def test_samples_are_the_same_every_time() -> None:
    first, again = (
        [[one.tolist() for one in sample.arguments] for sample in drawn_samples(CATALOGUE["cumprod"])] for _ in range(2)
    )
    assert first == again
    assert len(first) > 20
