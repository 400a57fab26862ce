"""A finding in the region of a known defect says so: in check, assert_close and explain, at both orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck.defects import kernel_defects
from gradcheck.result import Cause
from tests import slices

ZERO = np.array([0.0, 2.0, 3.0])


def of_cumprod(x: Any) -> Any:
    return tf.reduce_sum(tf.math.cumprod(tf.sin(x)))


def diagnosis(f: Any, *inputs: Any, order: int = 1) -> Any:
    findings = [one for one in gradcheck.check(f, *inputs, order=order).findings if one.order == order]
    return findings[0].diagnosis


@pytest.mark.parametrize(
    ("f", "inputs", "name"),
    [
        (of_cumprod, (ZERO,), "cumprod-zero-order1"),
        (lambda x, y: tf.reduce_sum(tf.math.xlogy(x, y)), (ZERO, ZERO + 1.5), "xlogy-zero-order1"),
        (lambda x: tf.reduce_sum(x**0.0), (ZERO,), "power-zero-exponent-0-order1"),
        (tf.linalg.det, (np.array([[1.0, 2.0], [2.0, 4.0]]),), "determinant-singular-order1"),
    ],
)
def test_it_is_named_with_its_releases_and_the_code_that_is_right(f: Any, inputs: tuple[Any, ...], name: str) -> None:
    with pytest.raises(gradcheck.GradientMismatch, match="known defect of TensorFlow") as caught:
        gradcheck.assert_close(f, *inputs)
    assert caught.value.result is not None
    found = caught.value.result.findings[0].diagnosis
    assert found is not None
    assert found.cause is Cause.KNOWN_DEFECT
    assert found.evidence.startswith(f"{name}, in TensorFlow since 2.")
    assert "write, as for the example of the record" in found.remedy
    assert "y = " in found.remedy


def test_a_remedy_for_more_than_the_operation_at_fault_says_that_it_is_of_an_example() -> None:
    found = diagnosis(
        lambda x: tf.reduce_sum(tf.linalg.svd(x)[1] * ZERO[:2]), np.array([[2.0, 1.0], [0.5, 1.5]]) * 1e-6
    )
    assert found.evidence.startswith("singular_vectors-small-order1, ")
    first, *code = found.remedy.split("\n")
    assert first == (
        "write the operation at fault, which the record calls singular_vectors, otherwise; the example of the record "
        "is y = exp, then mul, then singular_vectors of "
        "x1, x2, …, and the code that is right for all of it:"
    )
    assert code[-1].strip() == "y = u * u"


def test_second_derivatives_have_records_of_their_own() -> None:
    found = diagnosis(lambda x: tf.reduce_sum(tf.math.special.bessel_i0(x) ** 2), np.array([0.0, 1.0]), order=2)
    assert (found.cause, found.evidence.partition(",")[0]) == (Cause.KNOWN_DEFECT, "bessel_i0-zero-order2")


def test_a_kernel_that_its_gradient_runs_anew_leaves_the_call_to_be_named() -> None:
    """The derivative of Svd runs another Svd; a single singular value has a kink where two are equal."""

    def nuclear(x: Any) -> Any:
        return tf.keras.ops.norm(x, ord="nuc", axis=(-2, -1))

    found = diagnosis(nuclear, 2 * np.eye(2), order=2)
    assert (found.cause, found.evidence.partition(",")[0]) == (Cause.KNOWN_DEFECT, "keras_norm_nuclear-equal-order2")
    assert gradcheck.check(nuclear, np.diag([2.0, 1.0]), order=2).verdict == "agree"


def test_a_second_derivative_whose_first_is_wrong_has_the_same_cause() -> None:
    layer = tf.keras.layers.SpectralNormalization(tf.keras.layers.Dense(2, dtype="float64"), dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 2))
    layer(x)
    variables = [variable.value for variable in layer.trainable_variables]
    result = gradcheck.check(lambda x: layer(x, training=True), x, order=2, variables=variables)
    causes = {one.order: one.diagnosis for one in result.findings if one.diagnosis is not None}
    assert [causes[order].cause for order in (1, 2)] == [Cause.STOP_GRADIENT] * 2
    assert causes[2].evidence.startswith("the first derivative is wrong already: ")


@slices.parametrized(
    "name", ["BatchNormalization", "LayerNormalization", "GroupNormalization"], lambda names: names[-1:]
)
def test_every_wrong_entry_of_a_layer_has_the_cause(name: str) -> None:
    """The outputs of a normalized batch have a constant sum, whose derivatives show nothing."""
    options = {"groups": 2} if name == "GroupNormalization" else {}
    layer = getattr(tf.keras.layers, name)(dtype="float64", **options)
    x = np.random.default_rng(0).normal(size=(3, 4))
    layer(x)
    scale = layer.gamma.value
    result = gradcheck.check(lambda x: layer(x, training=True), x, order=2, variables=[scale])
    wrong = [one for one in result.findings if one.order == 2]
    assert {one.input.partition("[")[0] for one in wrong} >= {"x"}
    for one in wrong:
        assert one.diagnosis is not None
        assert one.diagnosis.cause is Cause.KNOWN_DEFECT
        assert "a tf.stop_gradient inside of what is called at test_known_defect.py" in one.diagnosis.evidence
        assert f"layer {layer.name}" in one.diagnosis.evidence


def test_explain_names_it_on_the_line_of_the_code() -> None:
    x = tf.Variable(ZERO)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.math.cumprod(x))
        return tape.gradient(loss, x)

    (source,) = gradcheck.explain(step).sources
    assert source.diagnosis is not None
    assert source.diagnosis.cause is Cause.KNOWN_DEFECT
    assert source.diagnosis.place is not None
    assert source.diagnosis.place.code == "loss = tf.reduce_sum(tf.math.cumprod(x))"
    assert "https://github.com/tensorflow/tensorflow/issues/119430" in source.diagnosis.evidence


def test_a_gradient_of_another_shape_has_its_cause() -> None:
    (finding,) = gradcheck.check(lambda x: tf.nn.isotonic_regression(x)[0], [1.0, 3.0, 2.0]).findings
    assert finding.kind is gradcheck.Kind.SHAPE
    assert finding.diagnosis is not None
    assert finding.diagnosis.evidence.startswith("isotonic_regression-rank-order1, ")


def test_a_wrong_gradient_outside_of_every_region_is_not_called_known() -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * tf.sin(x)

    found = diagnosis(lambda x: tf.reduce_sum(tf.math.cumprod(wrong(x))), np.array([0.5, 2.0]))
    assert found.cause is Cause.CUSTOM_GRADIENT


def test_without_records_the_operation_is_named_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCHECK_KNOWN", str(tmp_path))
    monkeypatch.setattr(kernel_defects, "_by_kernel", kernel_defects._by_kernel.__wrapped__)
    assert diagnosis(of_cumprod, ZERO).cause is Cause.OPERATION
    (tmp_path / "broken.json").write_text("{}")
    assert diagnosis(of_cumprod, ZERO).cause is Cause.OPERATION, "a record that cannot be read costs no diagnosis"
