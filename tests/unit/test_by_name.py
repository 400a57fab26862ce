"""Tolerances of single sources, and skipped ones: rtol={"kernel": 1e-3}, skip=["embedding"]."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Finding, GradientMismatch, GradientWrongValue, assert_close, assert_step, check, explain

A, B = [1.0, 2.0], [3.0, -4.0]
ONE, OTHER = A[:1], B[:1]
"""For what takes many comparisons: the time is that of each element."""


@tf.custom_gradient
def off(x: Any) -> Any:
    """A square whose gradient is off by a part in ten thousand."""
    return x**2, lambda upstream: upstream * 2.0002 * x


@tf.custom_gradient
def halved(x: Any) -> Any:
    return x**2, lambda upstream: upstream * x


def product(a: Any, b: Any) -> Any:
    return tf.reduce_sum(off(a) * b)


def findings_of(error: GradientMismatch) -> tuple[Finding, ...]:
    assert error.result is not None
    return error.result.findings


def test_a_tolerance_is_for_the_source_that_it_names_alone() -> None:
    assert check(product, A, B, rtol={"a": 1e-3}).verdict == "agree"
    (finding,) = check(product, A, B, rtol={"b": 1e-3}).findings
    assert finding.input == "a"
    (finding,) = check(lambda a, b: product(a, off(b)), A, B, rtol={"a": 1e-3}).findings
    assert finding.input == "b"
    assert check(lambda a, b: product(a, off(b)), A, B, rtol={"a": 1e-3}, atol={"b": 0.1}).verdict == "agree"


def test_what_is_not_named_is_seen_as_by_default() -> None:
    result = check(product, A, B, rtol={"a": 1e-3})
    assert result.resolution_of("b") < 1e-9 < 1e-4 < result.resolution_of("a")
    assert [one.name for one in result.orders[1].by_source] == ["a", "b"]
    assert result.orders[1].compared == 4


def test_the_longest_key_counts_and_an_argument_stands_for_its_parts() -> None:
    def f(layers: Any) -> Any:
        return off(layers["one"]) + off(layers["two"])

    given = {"one": 1.0, "two": 2.0}
    assert check(f, given, rtol={"layers": 1e-3}).verdict == "agree"
    (finding,) = check(f, given, rtol={"layers": 1e-3, "layers['two']": 1e-6}).findings
    assert finding.input == "layers['two']"


def test_variables_are_named_by_their_paths_or_the_last_parts_of_these() -> None:
    kernels = [tf.Variable(ONE, name=f"{layer}/kernel") for layer in ("one", "two")]

    def f() -> Any:
        return off(kernels[0]) + off(kernels[1])

    for key in ("kernel", "variables"):
        assert check(f, variables=kernels, rtol={key: 1e-3}).verdict == "agree"
    for key in ("one/kernel", "one/kernel:0", "variables[0]", "variables[0] (one/kernel:0)"):
        (finding,) = check(f, variables=kernels, rtol={key: 1e-3}).findings
        assert finding.input.startswith("variables[1]"), key
    with pytest.raises(ValueError, match=r"'ernel', which is none of the sources .variables"):
        check(f, variables=kernels, rtol={"ernel": 1e-3})


def test_second_derivatives_have_the_tolerance_of_their_sources_and_mixed_ones_the_larger() -> None:
    def power(a: Any, b: Any) -> Any:
        return tf.reduce_sum(a**3 * b**3)

    def gradient(a: Any, b: Any, *, mixed: float, own: float) -> Any:
        # The derivative of each is off by these factors where it depends on the other, or on itself.
        upper = a**2 * (own * a - (own - 1) * tf.stop_gradient(a)) * tf.stop_gradient(b) ** 3 / a
        return [3 * upper + 3 * a**2 * (mixed * (b**3 - tf.stop_gradient(b) ** 3)), 3 * a**3 * b**2]

    def found(rtol: Any, **errors: float) -> Any:
        result = check(power, ONE, OTHER, order=2, rtol=rtol, gradient=lambda a, b: gradient(a, b, **errors))
        assert not result.orders[1].findings
        inputs = [finding.input for finding in result.orders[2].findings]
        assert len(set(inputs)) == len(inputs)
        return set(inputs)

    assert found({"a": 1e-3}, mixed=1.0, own=1.0) == set()
    assert found({"b": 1e-3}, mixed=1.0, own=1.0001) == {"a"}
    assert found({"a": 1e-3}, mixed=1.0, own=1.0001) == set()
    assert found({"a": 1e-3}, mixed=1.0001, own=1.0) == set()
    assert found({"a": 1e-6}, mixed=1.0001, own=1.0) != set()
    result = check(power, ONE, OTHER, order=2, rtol={"a": 1e-3})
    assert result.orders[2].compared == check(power, ONE, OTHER, order=2).orders[2].compared


def test_a_skipped_source_is_held_fixed_and_named_and_agree_does_not_speak_for_it() -> None:
    seen = []

    def f(a: Any, b: Any) -> Any:
        seen.append(a.numpy())
        return halved(a) * b

    result = check(f, A, B, skip=["a"])
    assert result.verdict == "agree"
    assert result.orders[1].notes == ("skipped, and not compared: a",)
    assert all(np.array_equal(value, A) for value in seen)
    assert result.orders[1].compared == 4
    with pytest.raises(KeyError, match="'a' names 0 sources"):
        result.resolution_of("a")
    with pytest.raises(GradientWrongValue) as caught:
        assert_close(f, A, B, skip=["b"])
    assert {finding.input for finding in findings_of(caught.value)} == {"a"}


def test_a_skipped_variable_keeps_its_value_and_its_place_among_the_others() -> None:
    table, kernel = tf.Variable(A, name="table"), tf.Variable(B, name="kernel")
    result = check(lambda: halved(table) * off(kernel), variables=[table, kernel], skip=["table"])
    (finding,) = result.findings
    assert finding.input == "variables[1] (kernel:0)"
    assert finding.diagnosis is not None
    assert finding.diagnosis.evidence.count("off")
    assert "skipped, and not compared: table" in result.orders[1].notes


def test_a_given_gradient_has_a_part_for_skipped_sources_too() -> None:
    def parts(a: Any, b: Any) -> list[Any]:
        return [a * b, a**2]  # the first is wrong

    for gradient in (parts, parts(np.array(A), np.array(B))):
        assert check(product, A, B, gradient=gradient, skip=["a"]).verdict == "agree"
        assert check(product, A, B, gradient=gradient, skip=["b"]).verdict == "mismatch"
    with pytest.raises(ValueError, match=r"gradient holds 1 tensor, 2 expected, one for each of b .* and the others"):
        check(product, A, B, gradient=lambda a, b: [a**2], skip=["a"])


def test_keyword_arguments_have_names_too() -> None:
    assert check(product, A, kwargs={"b": B}, rtol={"a": 1e-3}).verdict == "agree"
    assert check(product, A, kwargs={"b": B}, skip=["a"]).verdict == "agree"


@pytest.mark.parametrize("door", [check, assert_close, explain])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rtol": {"c": 1e-3}}, ["rtol names 'c'", "none of the sources (a, b"]),
        ({"atol": {"a": 1e-3, "": 1.0}}, ["atol names ''", "none of the sources (a, b"]),
        ({"skip": ["a", "kernel"]}, ["skip names 'kernel'", "none of the sources (a, b"]),
        ({"skip": ["a", "b"]}, ["skip=['a', 'b'] leaves nothing to compare", "a, b"]),
        ({"rtol": {"a": -1.0}}, ["rtol['a'] was -1.0", "zero or positive"]),
        ({"rtol": {"a": None}}, ["rtol['a'] was None"]),
        ({"atol": {"a": True}}, ["atol['a'] was True"]),
        ({"atol": {1: 1e-3}}, ["atol was {1: 0.001}", "names of inputs or variables"]),
        ({"skip": "a"}, ["skip was 'a'", "a list of names"]),
        ({"skip": [1]}, ["skip was [1]", "a list of names"]),
        ({"skip": None}, ["skip was None", "a list of names"]),
    ],
)
def test_a_name_of_nothing_and_a_bad_value_are_refused(door: Any, options: Any, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"expected|give|leaves") as caught:
        door(product, A, B, **options)
    assert [word for word in words if word not in str(caught.value)] == []


def test_many_sources_are_not_all_listed() -> None:
    with pytest.raises(ValueError, match=r"\(x\[0\], x\[1\], .* …\); give"):
        check(lambda x: tf.add_n(x), [tf.constant(1.0, tf.float64)] * 99, skip=["y"])


def test_an_unconnected_source_with_a_tolerance_of_its_own_leaves_the_others_their_verdict() -> None:
    used, unused = tf.Variable(A, name="used"), tf.Variable(B, name="unused")
    result = check(lambda: used**2, variables=[used, unused], rtol={"unused": 1e-3})
    assert result.verdict == "agree"
    assert result.unconnected == ("variables[1] (unused:0)",)
    with pytest.warns(
        gradcheck.UnconnectedWarning,
        match="unused:0. is unconnected: its gradient is None, and f does not depend on it, but on used",
    ):
        assert_close(lambda: used**2, variables=[used, unused], rtol={"unused": 1e-3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(lambda: used**2, variables=[used, unused], skip=["unused"])
    with pytest.raises(gradcheck.GradientUnconnected):
        assert_close(lambda: used**2, variables=[used, unused], skip=["used"])


def test_explain_skips_sources_in_every_derivative_and_has_their_tolerances() -> None:
    w, v = (
        tf.Variable(tf.constant(value, tf.float64), name=name) for value, name in ((ONE, "layer/w"), (OTHER, "layer/v"))
    )

    def step() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_sum(off(w) * v)
        return tape.gradient(loss, [w, v]), tape.gradient(loss, w)

    assert [one.right for one in explain(step).sources] == [False, True, False]
    result = explain(step, skip=["w"])
    assert [(one.name, one.right) for one in result.sources] == [("v", True)]
    assert result.orders[1].notes == ("skipped, and not compared: w",)
    assert [one.right for one in explain(step, rtol={"layer/w": 1e-3}).sources] == [True, True, True]
    assert [one.right for one in explain(step, rtol={"v": 1e-3}).sources] == [False, True, False]
    with pytest.raises(ValueError, match=r"rtol names 'layer', which is none of the sources .w, v"):
        explain(step, rtol={"layer": 1e-3})


def test_explain_skips_what_it_differentiates_itself() -> None:
    assert [one.name for one in explain(product, A, B, skip=["a"]).sources] == ["b"]


class Steps:
    """Two losses, each with a variable of its own, as a GAN has; both gradients are off."""

    def __init__(self) -> None:
        self.one = tf.Variable(tf.constant(ONE, tf.float64), name="first/kernel")
        self.two = tf.Variable(tf.constant(OTHER, tf.float64), name="second/kernel")
        self.optimizers = [tf.keras.optimizers.SGD(0.1) for _ in range(2)]

    def __call__(self) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            losses = {"one": tf.reduce_sum(off(self.one) * self.two), "two": tf.reduce_sum(off(self.two) + self.one)}
        pairs = zip(losses.values(), (self.one, self.two), strict=True)
        for optimizer, (loss, variable) in zip(self.optimizers, pairs, strict=True):
            optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
        return losses


def test_a_step_has_tolerances_by_variable_whichever_loss_it_belongs_to() -> None:
    step = Steps()

    def wrong(**options: Any) -> list[str]:
        with pytest.raises(GradientWrongValue) as caught:
            assert_step(step, **options)
        return [finding.input for finding in findings_of(caught.value)]

    assert wrong() == ["variables[0] (first/kernel:0)", "variables[1] (second/kernel:0)"]
    assert wrong(rtol={"second/kernel": 1e-3}) == ["variables[0] (first/kernel:0)"]
    assert wrong(rtol={"variables[0]": 1e-3}) == ["variables[1] (second/kernel:0)"]
    assert wrong(skip=["variables[0]"], atol={"first/kernel": 1.0}) == ["variables[0] (second/kernel:0)"]
    result = assert_step(step, skip=["first/kernel"], rtol={"variables[1]": 1e-3})
    assert "skipped, and not compared: first/kernel" in result.orders[1].notes
    with pytest.raises(ValueError, match=r"skip names 'third', which is none of the sources .variables"):
        assert_step(step, skip=["third"])
    with pytest.raises(ValueError, match="leaves nothing to compare"):
        assert_step(step, skip=["kernel"])


def test_a_step_does_not_check_the_update_of_a_skipped_variable_nor_name_it_as_unconnected() -> None:
    used, unused = tf.Variable(A, name="used"), tf.Variable(B, name="unused")
    moving = tf.Variable(A, name="moving")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(used**2 + moving**2)
        gradients = tape.gradient(loss, [used, moving, unused])
        used.assign_sub(0.1 * gradients[0])
        moving.assign_sub(0.2 * gradients[1])
        return loss, gradients

    variables = [used, moving, unused]
    with pytest.raises(gradcheck.GradientMismatch):
        assert_step(step, variables=variables, learning_rate=0.1, unconnected="ignore")
    with pytest.raises(gradcheck.GradientUnconnected):
        assert_step(step, variables=variables, learning_rate=0.1, unconnected="raise", skip=["moving"])
    result = assert_step(step, variables=variables, learning_rate=0.1, unconnected="raise", skip=["moving", "unused"])
    assert (result.verdict, result.unconnected, result.orders[1].compared) == ("agree", (), 2)
