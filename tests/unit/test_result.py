"""How a result shows itself: in a short line, as JSON, and as the tables of a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import tensorflow as tf

import gradcheck
from gradcheck import Result


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
    assert head == ["derivative", "verdict", "TensorFlow", "estimate", "cause", "where", "remedy"]
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
