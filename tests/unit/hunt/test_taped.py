from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import evaluation, trial
from gradcheck.hunt.evaluation import TapedEvaluation, values_of
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec

GRAPH = Graph((Input((2,), (0.5, 2.0)), Input((), (3.0,))), (Node.of("mul", 0, 0), Node.of("sin", 2)))


def test_the_values_are_those_of_a_plain_evaluation() -> None:
    for value, expected in zip(TapedEvaluation(GRAPH).values, values_of(GRAPH), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_it_gives_one_gradient() -> None:
    recorded = TapedEvaluation(GRAPH)
    gradient = recorded.gradient(tf.constant([1.0, 10.0], tf.float64))
    assert gradient is not None
    np.testing.assert_allclose(gradient[0].numpy(), [np.cos(0.25), 10 * 4 * np.cos(4.0)], rtol=1e-15)
    assert gradient[1] is None
    assert recorded.gradient(tf.constant([1.0, 10.0], tf.float64)) is None


def test_a_backward_pass_that_throws(monkeypatch: pytest.MonkeyPatch) -> None:
    @tf.custom_gradient
    def thrower(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda dy: tf.raise_here

    monkeypatch.setitem(CATALOGUE, "thrower", OpSpec("thrower", thrower, ("Identity",), "planted"))
    recorded = TapedEvaluation(Graph((Input((), (1.0,)),), (Node.of("thrower", 0),)))
    with pytest.raises(DerivativeRaisedError, match="raise_here"):
        recorded.gradient(tf.constant(1.0, tf.float64))


def test_a_check_of_first_order_evaluates_the_point_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(*given: object, **options: object) -> object:
        if not options.get("points"):
            seen.append(given)
        return forward(*given, **options)  # type: ignore[arg-type]

    forward = evaluation.forward
    for module in ("gradcheck.hunt.evaluation", "gradcheck.hunt.graph_problem"):
        monkeypatch.setattr(f"{module}.forward", counted)
    assert trial.run(GRAPH, (1,)).result.verdict == "agree"
    assert len(seen) == 1
