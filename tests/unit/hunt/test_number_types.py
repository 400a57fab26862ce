"""Derivatives of graphs in float32, float16 and bfloat16, compared with differences of the function in float64."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import BRAIN, HALF, NARROW, SINGLE, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import trial
from gradcheck.hunt.script import to_python
from gradcheck.result import Kind, Reason, Verdict
from tests.planting import planted
from tests.reproduction import ran

CASES = [pytest.param(mode, order, id=f"{mode.number_type}, order {order}") for mode in NARROW for order in (1, 2)]
RESOLVED = {SINGLE: 1e-4, HALF: 0.5, BRAIN: 4.0}
SINE = Graph((Input((2,), (0.5, -1.25)),), (Node.of("sin", 0),))
OFF = {SINGLE: 1.01, HALF: 1.5, BRAIN: -2.0}


def off_in_low_precision(factor: float) -> AbstractContextManager[None]:
    """A context in which the gradients of sine and cosine are wrong by a factor in less than float64."""

    def faulty(right: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(node: Any, cotangent: Any) -> Any:
            part = right(node, cotangent)
            return part if part.dtype == tf.float64 else part * tf.cast(factor, part.dtype)

        return gradient

    return planted(("Sin", "Cos"), faulty)


@pytest.mark.parametrize(("mode", "order"), CASES)
def test_a_right_derivative_agrees_within_what_the_type_resolves(mode: Mode, order: int) -> None:
    result = trial.run(SINE, (order,), mode=mode).result.orders[order]
    assert result.verdict == Verdict.AGREE
    assert result.relative_resolution < RESOLVED[mode.mode]
    assert ran(to_python(SINE, order, mode=mode)) == (0, "RIGHT")


@pytest.mark.parametrize(("mode", "order"), CASES)
def test_a_derivative_that_is_wrong_in_the_type_alone_is_found(mode: Mode, order: int) -> None:
    with off_in_low_precision(OFF[mode.mode]):
        (finding,) = trial.run(SINE, (order,), mode=mode).result.findings
        assert ran(to_python(SINE, order, mode=mode)) == (1, "WRONG")
    assert finding.kind is Kind.MODES
    assert f"in {mode.number_type}: autodiff gives" in finding.reason


@pytest.mark.parametrize("mode", NARROW, ids=lambda mode: mode.number_type)
def test_what_the_type_loses_is_no_fault(mode: Mode) -> None:
    x = np.array([np.pi / 2, 3.0, 20.0], np.float16).astype(float)
    for op in ("cos", "tanh", "sigmoid", "softmax", "softplus", "expm1", "log1p"):
        graph = Graph((Input((3,), tuple(x / 8 if op == "expm1" else x)),), (Node.of(op, 0),))
        assert trial.run(graph, (1,), mode=mode).result.verdict != Verdict.MISMATCH


def test_complex_numbers_have_single_precision_alone() -> None:
    graph = Graph((Input((1,), (0.5 + 1j,), "complex128"),), (Node.of("complex_exp", 0),))
    single, half, brain = (trial.run(graph, (1,), mode=mode).result.orders[1] for mode in NARROW)
    assert (single.verdict, half.verdict, brain.verdict) == (Verdict.AGREE, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert half.reasons == brain.reasons == (Reason.CANNOT_RUN,)


def test_a_function_without_a_kernel_of_the_type_cannot_run() -> None:
    graph = Graph((Input((1,), (0.5,)),), (Node.of("erfinv", 0),))
    result = trial.run(graph, (1,), mode=Mode("reverse", HALF)).result.orders[1]
    assert result.reasons == (Reason.CANNOT_RUN,)
    assert "Erfinv[T=DT_HALF]" in result.notes[0]
