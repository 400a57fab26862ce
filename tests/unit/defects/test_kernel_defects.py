"""Known defects of kernels at their inputs: every record with a kernel is found at its own example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from msgspec import structs

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import kernel_defects
from gradcheck.defects.kernel_defects import KernelCall, applies, defects_at, defects_of, differs, in_regions
from gradcheck.defects.kernel_use import KernelUse, attribute_values
from gradcheck.defects.records import Defect
from gradcheck.defects.region import Region
from gradcheck.diagnosis.known_defect import kernel_use, known_defects
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.graph_json import from_document
from gradcheck.tracing.kernels import GRADIENT_ZERO
from gradcheck.tracing.recorder import recorded
from tests import records

DEFECTS = {one.name: one for one in records.DEFECTS}
WITH_KERNELS = {name: one for name, one in DEFECTS.items() if one.kernels}
FORWARD = {"exclusive": False, "reverse": False}


def uses(defect: Defect) -> Iterator[KernelUse]:
    """The kernels that the graph of a record runs, in the record's number type."""
    graph, narrow = from_document(defect.graph, "$.graph"), defect.signature.taken.number_type
    inputs = [tf.constant(literal.array()) for literal in graph.inputs]
    inputs = inputs if narrow is None else [tf.cast(value, narrow) for value in inputs]
    yield from map(kernel_use, recorded(lambda *given: forward(graph, given)[-1], inputs).operations)


def test_a_record_is_found_at_the_kernel_of_its_own_graph(subtests: pytest.Subtests) -> None:
    for name, defect in WITH_KERNELS.items():
        with subtests.test(name):
            answers = [applies(defect, use.call, defect.signature.order) for use in uses(defect)]
            own = {form.op for form in defect.kernels}
            conditional = all(region.arriving or region.error for region in defect.regions if region.op in own)
            assert (None if conditional else True) in answers


def test_a_record_in_a_number_type_is_found_in_no_other() -> None:
    defect = WITH_KERNELS["bfloat16-bias_add-order1"]
    (use,) = (one for one in uses(defect) if one.kernel == "BiasAdd")
    for dtype in (tf.float32, tf.float16, tf.float64):
        type_alone = attribute_values("BiasAdd", ("T", dtype.as_datatype_enum))
        assert applies(defect, replace(use, attributes={**use.attributes, **type_alone}).call, 1) is False
    in_number_types = [one for one in WITH_KERNELS.values() if one.signature.taken != PLAIN]
    for one in in_number_types:
        assert {form.fixed.get("T") for form in one.kernels} == {one.signature.taken.number_type}, one.name


def test_most_records_of_plain_derivatives_of_one_kernel_have_it() -> None:
    assert len(WITH_KERNELS) >= 85
    assert {"cumprod-zero-order1", "singular_vectors-small-order1", "reduce_prod-zero-order2"} <= set(WITH_KERNELS)
    assert not any(DEFECTS[name].kernels for name in ("norm_euclidean-zero-order1", "moments-variance-order2"))


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "Cumsum"},
        {"arguments": (None,)},
        {"fixed": {"reverse": True}},
        {"output": 1},
        {"op": "cumprodd"},
    ],
    ids=str,
)
def test_a_record_with_a_wrong_kernel_is_not_found(change: Mapping[str, Any]) -> None:
    defect = DEFECTS["cumprod-zero-order1"]
    wrong = structs.replace(defect, kernels=tuple(structs.replace(form, **change) for form in defect.kernels))
    (right,), (found,) = (
        [applies(one, use.call, 1) for use in uses(defect) if use.kernel == "Cumprod"] for one in (defect, wrong)
    )
    assert right is True
    assert found is not True


CALLS: list[tuple[str, list[Any], dict[str, Any], int, list[str]]] = [
    ("Cumprod", [[0.0, 2.0], 0], FORWARD, 1, ["cumprod-zero-order1"]),
    ("Cumprod", [[0.0, 2.0], -1], FORWARD, 2, ["cumprod-zero-order2"]),
    ("Cumprod", [[1.0, 2.0], 0], FORWARD, 1, []),
    ("Cumprod", [[2.0, 0.0], 0], {"exclusive": True, "reverse": False}, 1, []),
    ("Cumprod", [[[0.0], [2.0]], 0], FORWARD, 1, ["cumprod-zero-order1"]),
    ("Prod", [[0.0, 2.0], [0]], {"keep_dims": False}, 2, ["reduce_prod-zero-order2"]),
    ("Prod", [[0.0, 2.0], [0]], {"keep_dims": False}, 1, []),
    ("Svd", [1e-4 * np.eye(2)], {"compute_uv": True, "full_matrices": False}, 1, ["singular_vectors-small-order1"]),
    ("Svd", [1e-4 * np.eye(2)], {"compute_uv": False, "full_matrices": False}, 1, []),
    ("Xlogy", [[0.0], [2.0]], {}, 1, ["xlogy-zero-order1"]),
    ("Xlogy", [None, [2.0]], {}, 1, []),
    ("NoSuchKernel", [[0.0]], {}, 1, []),
]


def test_what_bites_where(subtests: pytest.Subtests) -> None:
    for kernel, inputs, attributes, order, expected in CALLS:
        with subtests.test(f"{kernel} of {inputs} with {attributes} at order {order}"):
            assert [one.name for one in defects_at(kernel, inputs, attributes, order)] == expected


def test_a_value_that_is_not_known_leaves_it_open() -> None:
    defect = DEFECTS["cumprod-zero-order1"]
    axis, other = np.array(0), {"exclusive": False, "reverse": False}
    assert applies(defect, KernelCall("Cumprod", [None, axis], other), 1) is None
    assert applies(defect, KernelCall("Cumprod", [np.zeros(2), None], other), 1) is None
    assert applies(defect, KernelCall("Cumprod", [np.zeros(2), axis], {}), 1) is None
    assert applies(defect, KernelCall("Cumsum", [None, axis], other), 1) is False
    assert applies(defect, KernelCall("Cumprod", [None, axis], other), 2) is False


def test_outputs_that_nothing_uses_do_not_count() -> None:
    defect = DEFECTS["singular_vectors-small-order1"]
    settings = {"compute_uv": True, "full_matrices": False}
    small = [1e-4 * np.array([[1.0, 2.0], [3.0, 5.0]])]
    answers = [applies(defect, KernelCall("Svd", small, settings, outputs), 1) for outputs in ({0}, {0, 2}, None)]
    assert answers == [False, True, True]


def test_records_of_complex_numbers_are_for_those() -> None:
    defect = DEFECTS["complex_squared_difference-order1"]
    real, turned = ([np.ones(1), np.ones(1)], [1j * np.ones(1), np.ones(1)])
    assert [applies(defect, KernelCall("SquaredDifference", one, {}), 1) for one in (real, turned)] == [False, True]
    assert "complex_squared_difference-order1" in {one.name for one in defects_of("SquaredDifference", 1)}


@pytest.mark.parametrize(
    ("name", "f", "inputs", "kernel", "inside"),
    [
        ("dawsn-negative-order1", tf.math.special.dawsn, [[1e5]], "Dawsn", None),
        ("dawsn-negative-order1", tf.math.special.dawsn, [[2.0]], "Dawsn", False),
        ("bessel_i0e-large-order2", tf.math.bessel_i0e, [[1e5]], "BesselI0e", None),
        ("bessel_k0e-large-order1", tf.math.special.bessel_k0e, [[1e5]], "BesselK0e", None),
        ("cumprod-zero-order1", tf.math.cumprod, [[0.0, 2.0]], "Cumprod", True),
    ],
)
def test_a_kernel_that_is_mostly_right_in_a_region_bites_where_it_is_known_to_be_wrong(
    name: str, f: Any, inputs: Any, kernel: str, inside: bool | None
) -> None:
    one = use(f, *inputs, kernel=kernel)
    for wrong, answer in ((False, inside), (True, inside is not False)):
        assert {defect.name: told for defect, _, told in replace(one, wrong=wrong).defects()}[name] is answer


def test_what_is_found_wrong_in_such_a_region_is_the_known_defect() -> None:
    (operation,) = recorded(tf.math.special.dawsn, [tf.constant([1e5])]).operations
    assert {"dawsn-large-order1", "dawsn-negative-order1"} <= {one.name for one in known_defects(operation, (1,))}


def test_a_region_that_is_mostly_right_leaves_open_what_no_other_region_decides() -> None:
    """They say nothing about another order, or about an operation whose name has the same ending."""
    cumprod = DEFECTS["cumprod-zero-order1"]
    mostly = Region("cumprod", (1,), drawn=True)
    zero, elsewhere = Region("cumprod", (1,), "zero factor"), Region("cumprod", (2,), drawn=True)
    called_alike = Region("prod", (1,), drawn=True)

    def answer(*regions: Region, value: float = 0.0, drawn: bool = False) -> bool | None:
        defect = structs.replace(cumprod, regions=regions)
        attrs = {"axis": 0, "exclusive": False, "reverse": False}
        return in_regions(defect, "cumprod", attrs, [np.array([value, 2.0])], 1, drawn=drawn)

    assert answer(mostly) is None
    assert answer(mostly, drawn=True) is True
    assert answer(mostly, zero) is answer(zero, mostly) is True
    assert answer(mostly, zero, value=1.0) is None
    assert answer(zero, elsewhere, called_alike) is True
    assert answer(zero, elsewhere, called_alike, value=1.0) is False


def test_dimensions_may_be_counted_from_the_end() -> None:
    assert not differs((0, 1), [-2, -1], 2)
    assert differs(b"SAME", "VALID", 0)
    assert not differs(b"SAME", "SAME", 0)
    assert differs(-1, 1, 0)


def test_records_of_another_folder_count_where_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCHECK_KNOWN", str(tmp_path))
    monkeypatch.setattr(kernel_defects, "_by_kernel", kernel_defects._by_kernel.__wrapped__)
    assert defects_at("Cumprod", [[0.0, 2.0], 0], FORWARD, 1) == ()


def use(f: Any, *inputs: Any, kernel: str) -> KernelUse:
    record = recorded(f, [tf.constant(one) for one in inputs])
    assert record.error is None, record.error
    return kernel_use(next(one for one in record.operations if one.name == kernel))


def test_derivatives_that_a_kernel_does_not_have_are_told() -> None:
    def outcomes(f: Any, *inputs: Any, kernel: str) -> list[tuple[int, str]]:
        return [(one.order, one.outcome) for one in use(f, *inputs, kernel=kernel).lost()]

    quantized = outcomes(tf.quantization.fake_quant_with_min_max_args, [0.5], kernel="FakeQuantWithMinMaxArgs")
    assert quantized == [(2, "is None")]
    hue = outcomes(lambda x: tf.raw_ops.AdjustHue(images=x, delta=0.1), np.ones((1, 1, 3), "f"), kernel="AdjustHue")
    assert hue == [(1, "raises")]
    for f, kernel in ((tf.sin, "Sin"), (tf.nn.relu, "Relu"), (tf.math.cumprod, "Cumprod"), (tf.floor, "Floor")):
        assert outcomes(f, [0.5, 2.0], kernel=kernel) == []


def test_what_has_no_number_to_differentiate_by_has_no_derivative_to_lose() -> None:
    assert "Floor" in GRADIENT_ZERO
    assert use(lambda x: tf.cast(x, tf.float32), [1, 2], kernel="Cast").lost() == ()


def test_attributes_become_protocol_buffers() -> None:
    found = attribute_values("Cumprod", ("exclusive", True, "reverse", False, "T", tf.float32.as_datatype_enum))
    assert (found["exclusive"].b, found["T"].type) == (True, tf.float32.as_datatype_enum)
    assert attribute_values("no such kernel", ("a", 1)) == {}


def test_the_records_of_a_folder_are_those_of_that_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that names another folder uses that one, in the same process."""
    for folder, found in ((tmp_path, False), (records.COMMITTED, True), (tmp_path, False)):
        monkeypatch.setenv("GRADCHECK_KNOWN", str(folder))
        assert bool(defects_of("Cumprod", 1)) == found
