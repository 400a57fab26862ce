"""Every known defect of TensorFlow, replayed: passes while it exists, and says so when a release has fixed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects.known import excludes
from gradcheck.defects.records import Defect, DerivativeValues
from gradcheck.graph import Graph, Node, literal, split_coordinates
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.finding import Example
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.known_graphs import ancestry, arrivals, example_of, sources_of
from gradcheck.hunt.recheck import close, derivative, differences, problem_of, values
from gradcheck.hunt.script import variables
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind
from tests.records import DEFECTS


@dataclass(frozen=True)
class Replay:
    """The example of a record, evaluated once for all that the record says."""

    defect: Defect

    @cached_property
    def example(self) -> Example:
        return example_of(self.defect)

    @cached_property
    def problem(self) -> GraphProblem:
        return problem_of(self.example)

    @cached_property
    def outcome(self) -> DerivativeValues | str:
        """The derivative of the example, or the message of the error that is raised."""
        try:
            return values(derivative(self.example))
        except (DerivativeRaisedError, WrongShapeError) as error:
            return str(error)

    @property
    def given(self) -> DerivativeValues:
        return () if isinstance(self.outcome, str) else self.outcome

    @property
    def rtol(self) -> float:
        """The relative difference that kernels of single precision may have from release to release."""
        return max([1e-9, *(CATALOGUE[node.op].rtol for node in self.defect.graph.nodes)])

    @property
    def fixed(self) -> bool:
        return close(self.given, self.defect.right, self.rtol)


@dataclass(frozen=True)
class RemediedProblem(GraphProblem):
    """The problem of a graph, with the operations of a remedy instead of its own."""

    remedy: str = ""

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        names = variables(self.graph)[: len(self.graph.inputs)]
        scope: dict[str, Any] = {"tf": tf, "np": np, **dict(zip(names, inputs, strict=True))}
        exec(self.remedy, scope)  # a committed text, which the library only prints
        return [scope["y"]]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_what_a_record_says_is_so(
    gradcheck_event: Callable[[Event], None], subtests: pytest.Subtests, defect: Defect
) -> None:
    replay = Replay(defect)
    with subtests.test("the defect is still there"):
        state = State.FIXED if replay.fixed else State.STILL
        gradcheck_event(KnownReplayed(defect.name, state, tf.__version__, category=defect.category))
        it_is_still_there(replay)
    with subtests.test("what is called right agrees with differences of the function"):
        assert close(values(differences(replay.example)), defect.right, 1e-5)
    with subtests.test("the example lies in its own region"):
        it_lies_in_its_own_region(replay)
    with subtests.test("what raises or has a wrong shape gives nothing, all else something"):
        assert bool(defect.given) is (defect.kind not in (Kind.RAISES, Kind.SHAPE))
    if defect.remedy is not None:
        with subtests.test("the remedy has the value and the right derivative"):
            the_remedy_is_right(replay, defect.remedy)


def it_is_still_there(replay: Replay) -> None:
    defect, now = replay.defect, replay.given
    if not defect.covers(tf.__version__):
        assert replay.fixed, f"{defect.name}: back in TensorFlow {tf.__version__}: {now}"
        return
    assert not replay.fixed, (
        f"TensorFlow {tf.__version__} gives the right derivative, {defect.right}: {defect.title!r} is FIXED. "
        f'Set "until" to "{tf.__version__}" in reports/known/{defect.cause}.json.'
    )
    assert close(now, defect.wrong, replay.rtol), (
        f"TensorFlow {tf.__version__} gives {now}, neither the wrong {defect.given} nor the right {defect.right}: "
        f"{defect.title!r} has changed; look at it again and correct reports/known/{defect.cause}.json."
    )


def it_lies_in_its_own_region(replay: Replay) -> None:
    defect, graph, at = replay.defect, replay.example.graph, replay.problem.intermediates
    comes = any(region.arriving for region in defect.regions)
    arriving = arrivals(graph, replay.example.cotangent.array()) if comes else [None] * graph.size
    sources = sources_of(graph)
    error = replay.outcome if any(region.error for region in defect.regions) else ""
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


def the_remedy_is_right(replay: Replay, remedy: str) -> None:
    """Its derivative is taken in the record's own mode."""
    example, given = replay.example, replace(replay.problem, taped=None)
    rtol = max(1e-7, 4 * ROUNDOFF[example.taken.number_type or "float64"], replay.rtol)
    problem = RemediedProblem(**vars(given), remedy=remedy)
    np.testing.assert_allclose(problem.forward(problem.tensors(None))[0], given.output, rtol=rtol, atol=rtol)
    one = np.ones(1)
    taken = problem.gradients(one[None, :]) if example.order == 1 else problem.products(one, problem.direction[None, :])
    parts: list[Any] = split_coordinates(taken.values[0], example.graph.inputs)
    assert close(values(parts), replay.defect.right, rtol)


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
    defects = [defect for defect in DEFECTS if defect.covers(tf.__version__)]
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
