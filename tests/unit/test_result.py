"""How a result shows itself: in a short line, as JSON, and as the tables of a notebook."""

from __future__ import annotations

import gc
import json
import weakref
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Result
from gradcheck.progress import RUNNING, LongCheck
from gradcheck.result import EntryCurve
from gradcheck.typing import Array

check_module = import_module("gradcheck.check")


class _Cells(HTMLParser):
    """Collects the text of each cell, row by row."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def wrong() -> Result:
    return gradcheck.check(lambda x: tf.stop_gradient(x) * x * (1 < 2), [1.0, 2.0], order=2)


def explained() -> Result:
    w, v = tf.Variable([1.0, 2.0], name="w"), tf.Variable(1.0, name="v")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = v * tf.reduce_sum(tf.stop_gradient(w) * w)
        return tape.gradient(loss, [w, v])

    return gradcheck.explain(step)


def test_the_short_form_names_each_order() -> None:
    assert repr(wrong()) == "<gradcheck.Result: order 1 mismatch, 4 compared; order 2 mismatch, 8 compared>"


def test_json_has_every_field_and_null_for_what_is_no_number() -> None:
    result = wrong()
    document = json.loads(result.to_json())
    assert document["verdict"] == "mismatch"
    (finding,) = document["orders"]["1"]["findings"]
    assert finding["kind"] == "wrong value"
    assert finding["difference"] == result.orders[1].findings[0].difference
    assert finding["diagnosis"]["place"]["code"].startswith("return gradcheck.check(")
    nothing = json.loads(gradcheck.check(lambda x: x, tf.zeros((0,))).to_json())
    assert nothing["orders"]["1"]["resolution"] is None
    assert [one["name"] for one in json.loads(explained().to_json())["sources"]] == ["w", "v"]


def test_a_notebook_shows_findings_with_their_causes() -> None:
    page = wrong()._repr_html_()
    head, first, second = _Cells(page).rows
    assert head == ["derivative", "verdict", "gradient", "estimate", "cause", "where", "remedy"]
    assert first[:4] == ["order 1, x[0]", "wrong value", "1", "2"]
    assert first[4].startswith("stop_gradient: 1 of 2 is lost")
    assert "(1 < 2)" in first[5]
    assert second[:4] == ["order 2, x[0]", "missing", "None", "1"]
    assert "1 &lt; 2" in page


def test_a_notebook_shows_sources_right_and_wrong() -> None:
    _, first, second = _Cells(explained()._repr_html_()).rows
    assert first[:4] == ["w", "wrong value", "[1, 2]", "4 at w[1]"]
    assert second == ["v", "right", "5", "", "", "", ""]


def test_a_result_without_findings_has_no_table() -> None:
    page = gradcheck.check(tf.sin, 1.0)._repr_html_()
    assert page.startswith("<p><b>gradcheck: agree</b></p>")
    assert "<table" not in page


def half(x: Any) -> Any:
    """A sine with half of its gradient."""

    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) / 2

    return sine(x)


def distances(curve: EntryCurve) -> tuple[Array, Array]:
    """How far the differences of a curve lie from autodiff's value and from the estimate, between 1e-3 and 1e-6."""
    steps, quotients = np.array(curve.curve.steps), np.array(curve.curve.quotients)
    some = (steps < 1e-3) & (steps > 1e-6)
    assert (np.diff(steps) < 0).all()
    return abs(quotients - curve.autodiff)[some], abs(quotients - curve.difference)[some]


def test_the_curve_is_that_of_the_worst_entry() -> None:
    def f(x: Any) -> Any:
        return tf.stack([tf.sin(x[0]) + x[1] ** 2, half(x[1]) + tf.exp(x[0])])

    result = gradcheck.check(f, [0.5, 1.0])
    curve = result.orders[1].curve
    (finding,) = result.findings
    assert curve is not None
    assert (curve.input, curve.index, curve.output) == ("x", (1,), 1) == (finding.input, finding.index, finding.output)
    numbers = (curve.autodiff, curve.difference, curve.bound, curve.allowed)
    assert numbers == (finding.autodiff, finding.difference, finding.bound, finding.allowed)
    wrong, right = distances(curve)
    assert len(wrong) > 5
    assert np.allclose(wrong, np.cos(1.0) / 2, rtol=1e-5)
    assert right.max() < 1e-6
    assert result.plot().name == "output element 1 with respect to x[1]"
    assert '<g class="allowed">' in result.plot().svg


def test_a_right_check_has_the_few_differences_that_it_took() -> None:
    curve = gradcheck.check(tf.sin, 1.0).orders[1].curve
    assert curve is not None
    assert curve.name == "x"
    assert len(curve.curve.steps) == 8
    for far in distances(curve):
        assert far.max() < 1e-6


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [tf.sin, half])
def test_a_curve_costs_no_evaluation(f: Any, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, during = [0], []
    drawn = check_module.worst_curve

    def counted(x: Any) -> Any:
        calls[0] += 1
        return f(x)

    def watched(*arguments: Any) -> Any:
        before, limit = calls[0], LongCheck("counts")
        token = RUNNING.set(limit)
        try:
            curve = drawn(*arguments)
        finally:
            RUNNING.reset(token)
        during.append(calls[0] - before + limit.evaluations)
        return curve

    monkeypatch.setattr(check_module, "worst_curve", watched)
    gradcheck.check(counted, [0.5, 1.0], order=order)
    assert during == [0] * order
    assert calls[0] > 2


def test_a_result_keeps_no_function_alive() -> None:
    def f(x: Any) -> Any:
        return half(x) ** 2

    result, known = gradcheck.check(f, [0.5], order=2), weakref.ref(f)
    del f
    gc.collect()
    assert known() is None
    assert result.plot().svg


def test_orders_have_their_own_curves_and_the_first_wrong_one_is_shown() -> None:
    @tf.custom_gradient
    def bent(x: Any) -> Any:
        return x**3, lambda upstream: upstream * (3 * tf.stop_gradient(x) * x)

    result = gradcheck.check(bent, [2.0], order=2)
    assert [order.verdict for order in result.orders.values()] == ["agree", "mismatch"]
    assert result.plot() == result.plot(2) != result.plot(1)
    curve = result.orders[2].curve
    assert curve is not None
    wrong, right = distances(curve)
    assert np.allclose(wrong, 6.0, rtol=1e-3)
    assert right.max() < 1e-3
    with pytest.raises(KeyError, match="order 2 was not checked; known are 1"):
        gradcheck.check(tf.sin, 1.0).plot(2)


def test_the_wrong_entry_among_many_has_a_curve_and_entries_compared_together_have_none() -> None:
    x = np.linspace(0.1, 1.0, 300)
    scale = np.where(np.arange(300) == 77, 1.5, 1.0)

    @tf.custom_gradient
    def spoilt(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(x)), lambda upstream: upstream * tf.cos(x) * scale

    curve = gradcheck.check(spoilt, x).orders[1].curve
    assert curve is not None
    assert (curve.name, curve.output) == ("x[77]", None)
    result = gradcheck.check(lambda x: tf.reduce_sum(tf.sin(x)), x)
    assert result.orders[1].curve is None
    with pytest.raises(ValueError, match="no derivative was compared by itself"):
        result.plot()
    assert "<svg" not in result._repr_html_()


def test_a_given_gradient_has_the_curve_of_the_sum_of_the_outputs() -> None:
    curve = gradcheck.check(tf.sin, [0.5, 1.0], gradient=[1.0, 2.0]).orders[1].curve
    assert curve is not None
    assert curve.name == "x[1]"
    wrong, right = distances(curve)
    assert np.allclose(wrong, 2 - np.cos(1.0), rtol=1e-5)
    assert right.max() < 1e-6


def test_explain_and_assert_step_have_curves() -> None:
    curve = explained().orders[1].curve
    assert curve is not None
    assert curve.name == "w[1]"
    w = tf.Variable([0.5, 1.0], name="w")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(half(w))
        return loss, [tape.gradient(loss, w)]

    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        gradcheck.assert_step(step, variables=[w])
    assert caught.value.result is not None
    assert caught.value.result.plot().name.startswith("variables[0] (w:0)[")


def test_json_and_the_notebook_have_the_curve() -> None:
    for result, opened in ((wrong(), True), (gradcheck.check(tf.sin, 1.0), False)):
        page = result._repr_html_()
        assert page.count("<svg") == page.count("</svg>") == 1
        assert ("<details open>" in page) == opened
        curve = json.loads(result.to_json())["orders"]["1"]["curve"]
        assert len(curve["curve"]["steps"]) == len(curve["curve"]["quotients"])
