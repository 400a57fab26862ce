"""Of the kernels whose gradients run, every value of a flag or an enumeration is drawn, or it is told why it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from gradcheck.hunt.census import gradient_functions
from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Choice, OpSpec
from gradcheck.tracing.hooks import gradients_looked_up
from tests import slices

Value = tuple[str, str, str]
"""A kernel, one of its attributes, and a value of it."""

UNDRAWN = Path(__file__).with_name("undrawn.tsv")
"""Rows of a kernel, an attribute, a value and a reason."""


def values_of(kernel: str) -> dict[str, tuple[str, ...]]:
    """The values that the flags and the enumerations among a kernel's attributes may have."""
    attributes = getattr(op_def_registry.get(kernel), "attr", ())
    flags = {one.name: ("False", "True") for one in attributes if one.type == "bool"}
    enumerations = {one.name: one.allowed_values.list.s for one in attributes if one.type == "string"}
    return flags | {name: tuple(text.decode() for text in texts) for name, texts in enumerations.items() if texts}


def examples(spec: OpSpec, sampler: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Points of all shapes; of the first, with the first choices and every value of each attribute beside them."""
    for count, example in enumerate(sampler.generic(spec)):
        arguments = list(map(tf.constant, example.arguments))
        yield arguments, example.attributes
        offered = {} if count else spec.attributes(*(one.shape for one in example.arguments))
        choices = {name: one.values for name, one in offered.items() if isinstance(one, Choice)}
        first = example.attributes | {name: values[0] for name, values in choices.items()}
        for name, values in choices.items():
            for value in values:
                yield arguments, {**first, name: value}


def drawn(operations: Iterable[str], sampler: Any) -> set[Value]:
    """The attributes seen by the gradient functions that the operations' examples run, and by those that these run."""
    seen: set[Value] = set()

    def looked_up(kernel: str, function: Any) -> Any:
        def seeing(op: Any, *grads: Any) -> Any:
            for name in values_of(kernel):
                value = op.get_attr(name)
                seen.add((kernel, name, value.decode() if isinstance(value, bytes) else str(bool(value))))
            return function(op, *grads)

        return function and seeing

    with gradients_looked_up(looked_up):
        for spec in map(CATALOGUE.__getitem__, operations):
            for arguments, attributes in examples(spec, sampler):
                differentiated_twice(spec, arguments, attributes)
    return seen


def differentiated_twice(spec: OpSpec, arguments: list[Any], attributes: dict[str, Any]) -> None:
    try:
        with tf.GradientTape() as outer:
            outer.watch(arguments)
            with tf.GradientTape() as inner:
                inner.watch(arguments)
                value = single(spec)(*arguments, **attributes)
                moving = tf.sin(value)
            gradients = inner.gradient(value, arguments, output_gradients=moving)
            dense = [tf.convert_to_tensor(one) for one in gradients if one is not None]
        outer.gradient(dense, arguments)
    except Exception:  # a derivative that raises is what other tests are about
        pass


def rows() -> dict[Value, str]:
    lines = [line.split("\t") for line in UNDRAWN.read_text().splitlines()]
    return {(kernel, name, value): why for kernel, name, value, why in lines}


SOME = {
    "ApproxTopK": ("approx_max_k",),
    "BandedTriangularSolve": ("banded_triangular_solve",),
    "BatchMatMul": ("batch_matmul",),
    "Cast": ("cast",),
    "Cumsum": ("cumsum",),
    "DepthToSpace": ("depth_to_space", "depth_to_space_channels_first"),
    "EagerPyFunc": ("py_function",),
    "FractionalAvgPool": ("fractional_avg_pool",),
    "Gather": ("legacy_gather",),
    "MatrixDiagV3": ("matrix_diag_band", "matrix_diag"),
    "MatrixInverse": ("inverse",),
    "MatrixSolveLs": ("matrix_solve_ls", "matrix_solve_ls_of_full_rank"),
    "Max": ("reduce_max",),
    "MaxPoolGradGrad": ("max_pool_grad_grad",),
    "MirrorPad": ("pad_symmetric", "pad_reflect"),
    "NthElement": ("nth_element",),
    "QuantizeAndDequantize": ("quantize_and_dequantize_v1",),
    "QuantizeAndDequantizeV2": ("quantize_and_dequantize_v2", "quantize_and_dequantize_v2_of_own_range"),
    "ResizeBilinear": ("resize_bilinear", "resize_bilinear_corners", "resize_bilinear_v1"),
    "ResourceGather": ("resource_gather",),
    "SparseMatMul": ("sparse_matmul",),
    "TopKV2": ("top_k", "top_k_unsorted"),
}
"""Kernels that few operations go through: those that draw all values which the whole catalogue draws of them."""


def test_every_row_is_a_value_of_a_kernel_with_a_gradient_stands_once_and_has_a_reason() -> None:
    told = rows()
    assert len(told) == len(UNDRAWN.read_text().splitlines())
    assert [one for one, why in told.items() if not why] == []
    assert [(kernel, name, value) for kernel, name, value in told if value not in values_of(kernel).get(name, ())] == []
    assert {kernel for kernel, _, _ in told if gradient_functions().get(kernel) is None} == set()


@pytest.mark.sliced
def test_every_value_is_drawn_or_has_a_reason(sampler: Any) -> None:
    seen = drawn(slices.sliced(CATALOGUE, lambda _: chain.from_iterable(SOME.values())), sampler)
    kernels = {kernel for kernel, _, _ in seen} if slices.exhaustively else set(SOME)
    known = {(kernel, name, value) for kernel in kernels for name, all_ in values_of(kernel).items() for value in all_}
    told = {row for row in rows() if slices.exhaustively or row[0] in kernels}
    for problem, wrong in (
        ("is never drawn, and undrawn.tsv does not tell why", known - seen - told),
        ("stands in undrawn.tsv and is drawn, or is none of such a kernel", told - (known - seen)),
    ):
        assert not wrong, "\n".join(f"{kernel} {name}={value} {problem}" for kernel, name, value in sorted(wrong))


@pytest.mark.parametrize("kernel", ["Gather", "ResourceGather"])
def test_indices_are_validated_whatever_is_asked_for(kernel: str) -> None:
    rows = tf.Variable([1.0, 2.0])
    given = {"resource": rows.handle, "dtype": tf.float32} if kernel == "ResourceGather" else {"params": rows}
    with pytest.raises(tf.errors.InvalidArgumentError):
        getattr(tf.raw_ops, kernel)(**given, indices=[2], validate_indices=False)


@pytest.mark.parametrize("gradient", [False, True])
def test_matrix_products_do_not_read_for_what_they_are_used(gradient: bool) -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    for kernel, of in (("MatMul", "ab"), ("BatchMatMul", "xy"), ("BatchMatMulV3", "xy")):
        given = dict(zip(of, (x, x), strict=True)) | {f"grad_{name}": gradient for name in of}
        given |= {"Tout": tf.float32} if kernel == "BatchMatMulV3" else {}
        np.testing.assert_array_equal(getattr(tf.raw_ops, kernel)(**given), x @ x)


@pytest.mark.parametrize("kernel", ["MaxPool", "DepthToSpace", "SpaceToDepth"])
def test_vectors_of_channels_are_integers_of_eight_bits(kernel: str) -> None:
    sizes = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 1, 1], "padding": "VALID"} if kernel == "MaxPool" else {}
    blocks = {} if sizes else {"block_size": 2}
    with pytest.raises((ValueError, tf.errors.OpError), match=r"qint8|NHWC|No OpKernel"):
        getattr(tf.raw_ops, kernel)(input=tf.zeros([1, 4, 2, 2, 4]), data_format="NCHW_VECT_C", **sizes, **blocks)


@pytest.mark.parametrize(("kernel", "space"), [("MaxPoolGradGrad", "HW"), ("MaxPool3DGradGrad", "DHW")])
def test_the_gradient_of_a_gradients_gradient_is_that_of_channels_last(kernel: str, space: str) -> None:
    dimensions, rng = len(space), np.random.default_rng(1)
    x, given, back = (rng.normal(size=(1, 2, *[size] * dimensions)).astype(np.float32) for size in (3, 3, 2))

    def at(layout: str) -> Any:
        def laid_out(value: Any) -> Any:
            return tf.constant(value if layout.startswith("NC") else np.moveaxis(value, 1, -1))

        one, two = ([size if each in space else 1 for each in layout] for size in (1, 2))
        windows = {"ksize": two, "strides": one, "padding": "VALID", "data_format": layout}

        @tf.function(jit_compile=True)
        def derivative() -> Any:
            image, passed = laid_out(x), laid_out(given)
            pooled = getattr(tf.raw_ops, kernel.removesuffix("GradGrad"))(input=image, **windows)
            with tf.GradientTape() as tape:
                tape.watch(passed)
                y = getattr(tf.raw_ops, kernel)(orig_input=image, orig_output=pooled, grad=passed, **windows)
            return tape.gradient(y, passed, output_gradients=laid_out(back))

        return derivative().numpy()

    last = at(f"N{space}C")
    assert np.any(last)
    np.testing.assert_array_equal(np.moveaxis(at(f"NC{space}"), 1, -1), last)


def test_a_cast_truncates_nothing_between_types_of_one_precision() -> None:
    x = np.array([1.0 + 2.0**-52, -np.pi])
    np.testing.assert_array_equal(tf.raw_ops.Cast(x=x, DstT=tf.float64, Truncate=True), x)


@pytest.mark.parametrize("kernel", ["FractionalAvgPool", "FractionalMaxPool"])
def test_cells_that_are_not_deterministic_are_others_every_time(kernel: str) -> None:
    image = np.random.default_rng(1).normal(size=(1, 40, 1, 1))

    def pooled() -> tuple[float, ...]:
        cells = getattr(tf.raw_ops, kernel)(value=image, pooling_ratio=[1.0, 1.5, 1.0, 1.0], pseudo_random=True)
        return tuple(cells.output.numpy().ravel())

    assert len({pooled() for _ in range(8)}) > 1


def test_candidates_that_are_not_put_together_are_fewer_on_a_cpu_than_a_graph_expects() -> None:
    expected = []

    @tf.function(input_signature=[tf.TensorSpec([1, 2])])
    def candidates(x: Any) -> Any:
        found = tf.nn.approx_max_k(x, 1, aggregate_to_topk=False)[0]
        expected.append(found.shape.as_list())
        return found

    assert candidates(tf.constant([[1.0, 2.0]])).shape == [1, 1]
    assert expected == [[1, 2]]


def test_the_smallest_are_not_looked_for_on_a_cpu() -> None:
    with pytest.raises(tf.errors.NotFoundError):
        tf.nn.approx_min_k(tf.constant([1.0, 2.0]), 1)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: tf.linalg.lstsq(x, x, fast=False), ValueError, "fast=False"),
        (lambda x: tf.linalg.qr(x, full_matrices=True).q, NotImplementedError, "full_matrices"),
    ],
    ids=["least squares by a complete decomposition", "all of Q of a tall matrix"],
)
def test_what_is_left_out_has_no_gradient(function: Any, error: type[Exception], text: str) -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 5.0], [0.5, 0.25]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    with pytest.raises(error, match=text):
        tape.gradient(y, x)
