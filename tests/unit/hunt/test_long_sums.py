"""Gradients in 16 bits that add up many terms, compared with the exact terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import BRAIN, HALF, Mode
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import trial
from gradcheck.result import Kind, OrderResult, Verdict
from gradcheck.tracing.hooks import gradients_looked_up


def checked(op: str, *arguments: Any, mode: str = BRAIN, cotangent: Any = 1.0, **attributes: Any) -> OrderResult:
    """The result for an operation by itself, under a cotangent that is broadcast to its output."""
    graph = Graph(tuple(map(literal, arguments)), (Node.of(op, *range(len(arguments)), **attributes),))
    weights = np.broadcast_to(cotangent, trial.run(graph, ()).problem.output.shape)
    return trial.run(graph, (1,), mode=Mode(mode=mode), weights=weights.ravel()).result.orders[1]


ROWS, BIAS = np.ones((600, 2)), np.zeros(2)


def test_a_sum_that_stops_is_a_mismatch_at_the_entries_that_it_loses() -> None:
    """In bfloat16, 600 ones are 256."""
    found = checked("bias_add", ROWS, BIAS)
    assert [(one.kind, one.input, one.autodiff, one.difference) for one in found.findings] == [
        (Kind.MODES, "input 1", 256.0, 600.0)
    ]


@pytest.mark.parametrize(("op", "mode"), [("add", BRAIN), ("bias_add", HALF)])
def test_a_sum_in_float32_agrees(op: str, mode: str) -> None:
    found = checked(op, ROWS, BIAS, mode=mode)
    assert found.verdict == Verdict.AGREE
    assert found.relative_resolution < 0.2


def test_a_few_ones_behind_a_large_number_show_it() -> None:
    """Of 100 rows, 99 are lost: half of what is added to 256 is rounded away, each time."""
    large_first = np.ones((100, 2))
    large_first[0] = 256.0
    assert checked("bias_add", ROWS[:100], BIAS, cotangent=large_first).verdict == Verdict.MISMATCH
    assert checked("bias_add", ROWS[:100], BIAS, cotangent=large_first[::-1]).verdict == Verdict.AGREE


@pytest.mark.parametrize(("kept", "verdict"), [(0.85, Verdict.MISMATCH), (0.98, Verdict.AGREE)])
def test_a_planted_loss_of_more_than_a_tenth_is_found(kept: float, verdict: Verdict) -> None:
    def planted(name: str, function: Any) -> Any:
        def gradient(op: Any, upstream: Any) -> Any:
            first, second = function(op, upstream)
            return first, second * tf.cast(kept if second.dtype == tf.float16 else 1.0, second.dtype)

        return gradient if name == "AddV2" else function

    with gradients_looked_up(planted):
        assert checked("add", ROWS, BIAS, mode=HALF).verdict == verdict


def test_what_cancels_inside_of_a_term_is_no_lost_sum() -> None:
    """At y = 1 the derivative of y - log(y + 1e-7) is 1e-7, the difference of two ones that bfloat16 rounds alike."""
    ones = np.ones(600)
    assert checked("keras_poisson", ones, ones).verdict == Verdict.INCONCLUSIVE


def test_a_sum_beyond_the_largest_number_is_no_lost_sum() -> None:
    """In float16 that is 65,504."""
    assert checked("add", ROWS, BIAS, mode=HALF, cotangent=1000.0).verdict == Verdict.INCONCLUSIVE


def test_a_backward_kernel_that_is_missing_raises() -> None:
    """The gradient of a QR decomposition solves triangular systems, for which there is no kernel in float16."""
    found = checked("qr_of_full_matrices", np.linspace(1.0, 2.0, 1300).reshape(2, 650), mode=HALF, which=1)
    assert [one.kind for one in found.findings] == [Kind.RAISES]
