"""Wrong gradients planted in TensorFlow's registry: found, named, and shrunk to nearly nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import blame, trial
from gradcheck.result import Kind, Verdict
from tests import slices

SIMPLE = ("exp", "sin", "square", "add", "mul", "reduce_sum", "tanh", "matmul", "sigmoid")
TOGETHER = Graph((Input((3,), (0.5, 1.5, 2.5)),), (Node.of("square", 0), Node.of("gather_rows", 1, indices=(0, 2))))


def scaled(factor: float) -> Callable[..., Any]:
    def fault(right: Any, op: Any, *cotangents: Any) -> Any:
        parts = right(op, *cotangents)
        if isinstance(parts, (list, tuple)):
            return [None if part is None else factor * part for part in parts]
        return factor * parts

    return fault


def nothing(_right: Any, _op: Any, *_cotangents: Any) -> Any:
    return [None]


def unreduced(_right: Any, op: Any, cotangent: Any) -> Any:
    """Forgets to sum over the axes along which an argument was broadcast."""
    x, y = op.inputs
    return [cotangent * y, cotangent * x]


def transposed(right: Any, op: Any, cotangent: Any) -> Any:
    """Multiplies by the second matrix instead of its transpose; right for symmetric ones."""
    parts = right(op, cotangent)
    b = op.inputs[1]
    square = b.shape[-1] == b.shape[-2]
    return [tf.matmul(cotangent, b), parts[1]] if square else parts


def first_use_only(right: Any, op: Any, cotangent: Any) -> Any:
    """Forgets the second of two uses of a value."""
    parts = right(op, cotangent)
    return [parts[0], tf.zeros_like(parts[1])] if op.inputs[0] is op.inputs[1] else parts


FAULTS: dict[str, tuple[str, str, Any, Kind]] = {
    "sign": ("Sin", "sin", scaled(-1.0), Kind.WRONG_VALUE),
    "factor 1 + 1e-6": ("Exp", "exp", scaled(1 + 1e-6), Kind.WRONG_VALUE),
    "factor 2": ("Tanh", "tanh", scaled(2.0), Kind.WRONG_VALUE),
    "none": ("Sigmoid", "sigmoid", nothing, Kind.MISSING),
    "nan": ("Square", "square", scaled(np.nan), Kind.NON_FINITE),
    "missing reduction": ("Mul", "mul", unreduced, Kind.SHAPE),
    "transposed": ("MatMul", "matmul", transposed, Kind.WRONG_VALUE),
    "one of two uses dropped": ("Mul", "mul", first_use_only, Kind.WRONG_VALUE),
}


@slices.parametrized("name", FAULTS, lambda names: [name for name in names if name not in {"factor 2", "transposed"}])
def test_a_planted_fault_is_found_and_shrunk(name: str, plant: Any, hunted: Any) -> None:
    registered, operation, fault, kind = FAULTS[name]
    with plant(registered, fault):
        found = hunted(operation, operations=SIMPLE)
    assert found is not None
    assert found.findings[0].kind is kind
    assert found.culprit == operation
    assert len(found.graph.nodes) <= 2
    assert max(np.prod(literal.shape) for literal in found.graph.inputs) <= 4
    plain = {0.0, 1.0, 2.0, -1.0, 0.5, 3.0}
    assert {float(np.real(value)) for literal in found.graph.inputs for value in literal.values} <= plain


def test_without_a_fault_nothing_is_found(hunted: Any) -> None:
    assert hunted("mul", operations=SIMPLE) is None


def test_a_wrong_second_derivative_behind_a_right_first(plant: Any, hunted: Any) -> None:
    def frozen(right: Any, op: Any, cotangent: Any) -> Any:
        return cotangent * tf.stop_gradient(right(op, tf.ones_like(cotangent)))

    with plant("Sin", frozen):
        assert hunted("sin", operations=SIMPLE, order=1) is None
        found = hunted("sin", operations=SIMPLE, order=2)
    assert found is not None
    assert found.order == 2
    assert found.culprit == "sin"
    assert len(found.graph.nodes) <= 2


def test_a_tiny_error_of_a_tiny_gradient(plant: Any, hunted: Any) -> None:
    """An absolute error of 1e-9 in a gradient of 1e-7, which no absolute tolerance would have seen."""
    graph = Graph((Input((1,), (-16.118,)),), (Node.of("exp", 0),))
    assert trial.run(graph, (1,)).result.verdict != Verdict.MISMATCH

    def off(right: Any, op: Any, cotangent: Any) -> Any:
        return right(op, cotangent) + 1e-9

    with plant("Exp", off):
        result = trial.run(graph, (1,)).result
    assert result.verdict == Verdict.MISMATCH
    assert abs(result.findings[0].difference or 0.0) < 1.1e-7


def test_a_fault_that_no_node_has_by_itself(plant: Any) -> None:
    """A gradient that is wrong only for IndexedSlices, which it only gets from another operation's gradient."""

    def slices_doubled(right: Any, op: Any, cotangent: Any) -> Any:
        factor = 2.0 if isinstance(cotangent, tf.IndexedSlices) else 1.0
        return factor * right(op, tf.convert_to_tensor(cotangent))

    assert trial.run(TOGETHER, (1,)).result.verdict == Verdict.AGREE
    with plant("Square", slices_doubled):
        assert trial.run(TOGETHER, (1,)).result.verdict == Verdict.MISMATCH
        assert trial.run(TOGETHER).result.orders[1].verdict == Verdict.MISMATCH
        assert blame.culprit(TOGETHER, 1) == 2


def test_a_second_derivative_that_no_node_has_wrong_by_itself(plant: Any) -> None:
    def slices_frozen(right: Any, op: Any, cotangent: Any) -> Any:
        dense = tf.convert_to_tensor(cotangent)
        if isinstance(cotangent, tf.IndexedSlices):
            return 2.0 * dense * tf.stop_gradient(op.inputs[0])
        return right(op, dense)

    assert trial.run(TOGETHER, (2,)).result.verdict == Verdict.AGREE
    with plant("Square", slices_frozen):
        assert trial.run(TOGETHER, (1,)).result.verdict == Verdict.AGREE
        assert trial.run(TOGETHER, (2,)).result.verdict == Verdict.MISMATCH
        assert trial.run(TOGETHER).result.orders[2].verdict == Verdict.MISMATCH
