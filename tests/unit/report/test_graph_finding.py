from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from gradcheck.autodiff.mode import Mode
from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt.finding import GraphFinding
from gradcheck.operations.special_sets import describe
from gradcheck.result import Finding, Kind

GRAPH = Graph((Input((3,), (0.0, 2.0, 3.0)),), (Node.of("cumprod", 0, exclusive=False, reverse=False),))
WRONG = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 0.0, 9.0, 1e-12, 1e-11, "0 instead of 9")
FOUND = GraphFinding(GRAPH, 1, (WRONG,), "cumprod", 1, "zero in argument 0", literal(np.ones(3)))


def test_the_name_depends_on_the_signature_only() -> None:
    other = Graph((Input((1,), (0.0,)),), GRAPH.nodes)
    worse = dataclasses.replace(WRONG, autodiff=7.0, index=(2,), reason="something else")
    again = dataclasses.replace(FOUND, graph=other, findings=(worse,), cotangent=literal([1.0]))
    assert again.name == FOUND.name == dataclasses.replace(FOUND, description="none").name
    assert re.fullmatch(r"cumprod-order1-wrong-value-[0-9a-f]{6}", FOUND.name)


@pytest.mark.parametrize(
    "change",
    [
        {"culprit": "reduce_prod"},
        {"order": 2},
        {"taken": Mode("forward")},
        {"taken": Mode(mode="tf.function")},
        {"findings": (dataclasses.replace(WRONG, kind=Kind.MISSING),)},
    ],
)
def test_every_part_of_the_signature_changes_the_name(change: dict[str, object]) -> None:
    assert dataclasses.replace(FOUND, **change).name != FOUND.name  # type: ignore[arg-type]


def test_the_name_is_safe_for_files() -> None:
    name = dataclasses.replace(FOUND, culprit="../../etc/passwd", description="<a> " * 100).name
    assert re.fullmatch(r"[a-z0-9_-]{1,100}", name)


def test_a_finding_needs_a_wrong_element() -> None:
    with pytest.raises(ValueError, match="needs at least one"):
        dataclasses.replace(FOUND, findings=())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([np.array([1.5, 0.0])], "zero in argument 0"),
        ([np.array([1.5, 2.5]), np.array(-0.0)], "zero in argument 1"),
        ([np.array([0.0, 0.0])], "zero in argument 0"),
        ([np.array([2.5, 2.5])], "tie in argument 0"),
        ([np.array([1.0, 3.5])], "one in argument 0"),
        ([np.array([2.5])], "a single element in argument 0"),
        ([np.zeros((0, 2))], "no element in argument 0"),
        ([np.array([2.5 + 1j, 0j])], "zero in argument 0"),
        ([np.array([2.5, 3.5]), np.array([0.5, 1.5])], "none"),
        ([], "none"),
    ],
)
def test_descriptions(arguments: list[np.ndarray], expected: str) -> None:  # type: ignore[type-arg]
    assert describe(arguments) == expected


def test_literals_keep_shape_dtype_and_bits() -> None:
    for array in (np.array(0.1), np.zeros((0, 3)), np.array([[1.5]], np.float32), np.array([1j, -0.0])):
        back = literal(array).array()
        assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert literal([1, 2]) == Input((2,), (1.0, 2.0))
