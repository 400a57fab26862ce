"""The reasons why lines of TensorFlow's gradients never run: the table's lines exist, and its reasons hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.ops import control_flow_util_v2

from gradcheck.hunt.gradient_code import FunctionCode, helpers_of, reachable_code
from gradcheck.hunt.report.gradient_reach import DEAD, RAISES, WHOLE, reasons, unreached
from gradcheck.tracing.hooks import gradients_looked_up


@pytest.fixture(scope="module")
def codes() -> dict[str, list[FunctionCode]]:
    """The functions of the gradients and their helpers, by name; several may share one."""
    found: dict[str, list[FunctionCode]] = {}
    for code in sorted(helpers_of(set(reachable_code().values()))):
        found.setdefault(code.full_name, []).append(code)
    return found


@pytest.mark.skipif(not tf.__version__.startswith("2.21"), reason="the lines are those of TensorFlow 2.21")
def test_every_row_is_of_a_line_that_is_there(codes: dict[str, list[FunctionCode]]) -> None:
    for row in unreached():
        lines = [one.text(at) for one in codes[row.function] for at in range(one.first, one.last + 1)]
        assert row.text == WHOLE or row.text in lines, row
        assert row.why


def test_rows_are_sorted_and_none_stands_twice() -> None:
    keys = [(row.function, row.text) for row in unreached()]
    assert keys == sorted(set(keys))


def test_what_raises_and_what_leads_there_is_told(codes: dict[str, list[FunctionCode]]) -> None:
    (code,) = codes["array_grad._GatherV2Grad"]
    texts = {code.text(line): why for line, why in reasons(code).items()}
    assert texts["if indices.shape.ndims is None:"] == texts["raise ValueError("] == RAISES
    assert "params = op.inputs[0]" not in texts


def test_branches_of_another_day_are_told(codes: dict[str, list[FunctionCode]]) -> None:
    (code,) = codes["math_grad._SparseSegmentSumGrad"]
    texts = {code.text(line): why for line, why in reasons(code).items()}
    assert texts["return (math_ops.unsorted_segment_sum("] == DEAD
    assert not any("sparse_segment_sum_grad" in text for text in texts)


def test_what_stands_behind_a_line_that_does_not_run_is_told_with_it(codes: dict[str, list[FunctionCode]]) -> None:
    (code,) = codes["cond_v2._build_cond"]
    whys = {code.text(line): why for line, why in reasons(code).items()}
    assert (
        whys["true_graph.outputs.extend(extra_true_outputs)"]
        == whys["true_intermediates = _get_intermediates(true_graph)"]
    )
    assert "# Create the If op." not in whys


def test_a_whole_function_is_told(codes: dict[str, list[FunctionCode]]) -> None:
    (code,) = codes["cond_v2._get_intermediates"]
    assert set(reasons(code)) == set(range(code.first, code.last + 1))


REFUSED: dict[str, Callable[[], Any]] = {
    "a concatenation of one value": lambda: tf.raw_ops.ConcatV2(values=[[1.0]], axis=0),
    "transforms of rank 1": lambda: tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.ones([1, 2, 2, 1]),
        transforms=[1.0, 0, 0, 0, 1, 0, 0, 0],
        output_shape=[2, 2],
        fill_value=0.0,
        interpolation="BILINEAR",
    ),
    "the largest along the first dimension": lambda: tf.math.approx_max_k([[1.0, 2.0]], 1, 0),
}


@pytest.mark.parametrize("what", REFUSED)
def test_kernels_refuse(what: str) -> None:
    with pytest.raises((tf.errors.OpError, ValueError)):
        REFUSED[what]()


@pytest.mark.parametrize("compiled", [False, True])
def test_no_function_hands_out_all_that_its_branches_compute(compiled: bool) -> None:
    seen = []

    @tf.function(jit_compile=compiled)
    def look(x: tf.Tensor) -> tf.Tensor:
        seen.append(control_flow_util_v2.output_all_intermediates())
        return x

    look(tf.constant(1.0))
    assert seen
    assert not any(seen)
    assert not control_flow_util_v2.output_all_intermediates()


@pytest.mark.parametrize("lists", [False, True])
def test_rows_that_were_made_a_variant_have_a_known_rank(lists: bool) -> None:
    ranks = []

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64)])
    def look(values: tf.Tensor) -> tf.Tensor:
        rows = tf.RaggedTensor.from_row_splits(values, [0, 2, 3])
        ranks.append(rows._to_variant(lists).shape.rank)
        return values

    look(tf.ones([3], tf.float64))
    assert ranks == [int(lists)]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_list_s_gradient_function_gets_zeros_for_an_output_without_a_gradient(kept: int) -> None:
    x = tf.constant([1.0, 2.0])
    seen: list[Any] = []

    def looked_up(name: str, function: Any) -> Any:
        def watched(op: Any, *cotangents: Any) -> Any:
            seen.extend(cotangents)
            return function(op, *cotangents)

        return watched if name == "TensorListPopBack" else function

    with gradients_looked_up(looked_up):
        with tf.GradientTape() as tape:
            tape.watch(x)
            empty = tf.raw_ops.EmptyTensorList(element_shape=[2], max_num_elements=2, element_dtype=tf.float32)
            two = tf.raw_ops.TensorListPushBack(
                input_handle=tf.raw_ops.TensorListPushBack(input_handle=empty, tensor=x), tensor=2 * x
            )
            rest, item = tf.raw_ops.TensorListPopBack(input_handle=two, element_shape=[2], element_dtype=tf.float32)
            left = tf.raw_ops.TensorListGetItem(input_handle=rest, index=0, element_shape=[2], element_dtype=tf.float32)
            y = [left, item][kept]
        tape.gradient(y, x)
    assert len(seen) == 2
    assert all(cotangent is not None for cotangent in seen)
