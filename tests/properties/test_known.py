"""Every known defect of TensorFlow, replayed: passes while it is there, says so when a release has fixed it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects.known import excludes
from gradcheck.defects.records import Defect, DerivativeValues
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.finding import Example
from gradcheck.hunt.graph import Graph, Node, literal
from gradcheck.hunt.known_graphs import ancestry, arrivals, example_of, load, sources_of
from gradcheck.hunt.recheck import close, derivative, differences, values
from gradcheck.result import Kind

FOLDER = Path(__file__).parents[2] / "reports" / "known"
DEFECTS = [pytest.param(defect, id=defect.name) for defect in load(FOLDER)]


def replayed(defect: Defect) -> DerivativeValues:
    taken = outcome(defect)
    return () if isinstance(taken, str) else taken


def outcome(defect: Defect) -> DerivativeValues | str:
    """The derivative of the example, or what is raised."""
    try:
        return values(derivative(example_of(defect)))
    except (DerivativeRaisedError, WrongShapeError) as error:
        return str(error)


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_defect_is_still_there(gradcheck_event: Callable[[Event], None], defect: Defect) -> None:
    now = replayed(defect)
    # Kernels of single precision round differently from release to release.
    rtol = max([1e-9, *(CATALOGUE[node.op].rtol for node in defect.graph.nodes)])
    fixed = close(now, defect.right, rtol)
    gradcheck_event(
        KnownReplayed(defect.name, State.FIXED if fixed else State.STILL, tf.__version__, category=defect.category)
    )
    if not defect.covers(tf.__version__):
        assert fixed, f"{defect.name}: back in TensorFlow {tf.__version__}: {now}"
        return
    assert not fixed, (
        f"TensorFlow {tf.__version__} gives the right derivative, {defect.right}: {defect.title!r} is FIXED. "
        f'Set "until" to "{tf.__version__}" in reports/known/{defect.name}.json.'
    )
    assert close(now, defect.wrong, rtol), (
        f"TensorFlow {tf.__version__} gives {now}, neither the wrong {defect.given} nor the right {defect.right}: "
        f"{defect.title!r} has changed; look at it again and correct reports/known/{defect.name}.json."
    )


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_is_called_right_agrees_with_differences_of_the_function(defect: Defect) -> None:
    assert close(values(differences(example_of(defect))), defect.right, 1e-5)


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_example_lies_in_its_own_region(defect: Defect) -> None:
    example = example_of(defect)
    graph = example.graph
    at = [value.numpy() for value in forward(graph, [tf.constant(i.array()) for i in graph.inputs])]
    comes = any(region.arriving for region in defect.regions)
    arriving = arrivals(graph, example.cotangent.array()) if comes else [None] * graph.size
    sources = sources_of(graph)
    error = outcome(defect) if any(region.error for region in defect.regions) else ""
    assert isinstance(error, str)
    found = [
        excludes(
            node.op,
            node.attributes,
            [at[parent] for parent in node.parents],
            defect.signature.order,
            ancestry(sources, node.parents),
            arrival=arriving[place],
            error=error,
            defects=[defect],
        )
        for place, node in graph.positions()
        if node.op == defect.signature.operation
    ]
    assert defect.name in found


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_raises_or_has_a_wrong_shape_gives_nothing(defect: Defect) -> None:
    assert bool(defect.given) is (defect.kind not in (Kind.RAISES, Kind.SHAPE)), (
        "a derivative that raises or has a wrong shape gives nothing, others give something"
    )


CASES = [
    *(
        ("cumprod", {"exclusive": exclusive, "reverse": reverse})
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    *(("reduce_prod", {"axis": -1, "keepdims": keepdims}) for keepdims in (False, True)),
]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("op", "attrs"), CASES)
def test_the_regions_of_products_are_exactly_where_they_are_wrong(op: str, attrs: dict[str, Any], order: int) -> None:
    defects = [defect for defect in load(FOLDER) if defect.covers(tf.__version__)]
    weights = literal([3.0, 1.0, 2.0] if op == "cumprod" else [1.5] if attrs["keepdims"] else 1.5)
    for zeros in product([1.0, 0.0], repeat=3):
        point = np.array([2.0, 3.0, 5.0]) * zeros
        graph = Graph((literal(point),), (Node.of(op, 0, **attrs),))
        example = Example(graph, order, weights, (literal([1.0, 4.0, 7.0]),))
        taken, truth = values(derivative(example)), values(differences(example))
        wrong = not close(tuple(part or (0.0,) * 3 for part in taken), truth, 1e-5)
        assert wrong == (excludes(op, attrs, [point], order, defects=defects) is not None), (
            f"at {point}: {taken}, {truth}"
        )
