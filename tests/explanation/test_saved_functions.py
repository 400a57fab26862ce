"""An error inside a function of a saved model is named, with the line that calls the function."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import audit, check, explain
from gradcheck.result import Cause, Diagnosis, Verdict

VECTOR = [tf.TensorSpec([3], tf.float64)]
CALL = "y = read(restored(tf.sin(source)))"


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)


class Functions(tf.Module):
    """Correct and wrong functions."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = tf.Variable([1.0, 0.5, 2.0], dtype=tf.float64)

    @tf.function(input_signature=VECTOR)
    def right(self, x: Any) -> Any:
        return {"y": tf.reduce_sum(tf.tanh(x * self.weights)), "none": None}

    @tf.function(input_signature=VECTOR)
    def product(self, x: Any) -> Any:
        return tf.reduce_sum(tf.sin(tf.math.cumprod(x * self.weights)))

    @tf.function(input_signature=VECTOR)
    def logarithm(self, x: Any) -> Any:
        return tf.reduce_sum(tf.where(x > 0.5, tf.math.log(x), 0.0))

    @tf.function(input_signature=VECTOR)
    def custom(self, x: Any) -> Any:
        return tf.reduce_sum(tf.exp(doubled(x)))

    @tf.function(input_signature=VECTOR)
    def controlled(self, x: Any) -> Any:
        for _ in tf.range(2):
            x = tf.math.cumprod(x) if x[0] > 0.0 else tf.sin(x)
        return tf.reduce_sum(x)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The functions after loading."""
    folder = str(tmp_path_factory.mktemp("saved"))
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    functions = Functions()
    tf.saved_model.save(functions, folder, signatures={"product": functions.product}, options=options)
    return tf.saved_model.load(folder)


def explained(restored: Any, read: Any = tf.identity) -> Diagnosis:
    """The diagnosis of explain for a training step with a loaded function, at a zero."""
    source = tf.Variable([1.0, 0.0, 1.25], dtype=tf.float64, name="source")

    def step() -> Any:
        with tf.GradientTape() as tape:
            y = read(restored(tf.sin(source)))
        return tape.gradient(y, source)

    (one,) = explain(step).sources
    assert one.diagnosis is not None
    assert one.diagnosis.place is not None
    assert (Path(one.diagnosis.place.file).name, one.diagnosis.place.code) == (Path(__file__).name, CALL)
    return one.diagnosis


def test_a_known_defect_is_named_with_its_node(loaded: Any) -> None:
    found = explained(loaded.product)
    assert found.cause is Cause.KNOWN_DEFECT
    assert "cumprod-zero-order1" in found.evidence
    assert "(the node Cumprod of the function product, whose own lines are not in its graph)" in found.evidence


def test_a_signature_is_looked_into(loaded: Any) -> None:
    found = explained(loaded.signatures["product"], lambda results: results["output_0"])
    assert "cumprod-zero-order1" in found.evidence


def test_nan_is_traced_to_the_node(loaded: Any) -> None:
    found = explained(loaded.logarithm)
    assert found.cause is Cause.NOT_FINITE
    assert "(the node Log of the function logarithm" in found.evidence
    assert found.remedy.startswith(
        "give the node Log of the function logarithm, whose own lines are not in its graph, an"
    )


def test_a_custom_gradient_that_was_saved_is_blamed_each_time(loaded: Any) -> None:
    for _ in range(2):
        found = explained(loaded.custom)
        assert found.cause is Cause.CUSTOM_GRADIENT
        numbers = r"derivative (\S+) with respect to inputs\[0\]\[\d\], which is \S+, where the .* estimate is (\S+) "
        gives, right = map(float, re.search(numbers, found.evidence).groups())  # type: ignore[union-attr]
        assert gives == pytest.approx(2 * right, rel=1e-4)
        assert found.remedy.endswith("and save the function again")


def test_loops_and_branches_are_looked_into(loaded: Any) -> None:
    assert "cumprod-zero-order1" in explained(loaded.controlled).evidence


def test_check_and_audit_see_the_same(loaded: Any) -> None:
    (finding,) = check(loaded.product, tf.constant([1.0, 0.0, 3.0], tf.float64)).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.cause is Cause.KNOWN_DEFECT
    (found,) = audit(loaded.product, tf.constant([1.0, 0.0, 3.0], tf.float64)).inside
    assert found.kernel == "Cumprod"


def test_what_is_right_stays_right_and_keeps_its_structure(loaded: Any) -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            result = loaded.right(tf.constant([0.5, 0.25, -1.0], tf.float64))
            assert result["none"] is None
        return tape.gradient(result["y"], loaded.weights)

    assert explain(step).verdict is Verdict.AGREE
