from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec import structs

from gradcheck.defects.records import Defect, DerivativeValues
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph_json import to_document, to_tensor
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.recheck import Recheck, of_defect, of_report
from gradcheck.result import Finding, Kind
from tests import records

DEFECTS = {defect.name: defect for defect in records.DEFECTS}
SIN = Graph((literal([0.0]),), (Node.of("sin", 0),))
CUMPROD = DEFECTS["cumprod-zero-order1"]
LOST = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 0.0, 1.0, 1e-12, 1e-11, "")


def finding(graph: Graph, kind: Kind = Kind.WRONG_VALUE, **fields: Any) -> GraphFinding:
    output = {"cotangent": literal([1.0]), **fields}
    found = dataclasses.replace(LOST, kind=kind)
    return GraphFinding(graph, 1, (found,), graph.nodes[-1].op, graph.size - 1, "none", **output)


def of_graph(defect: Defect) -> GraphFinding:
    """The report that the hunt would have written about a known defect."""
    about = defect.signature
    found = dataclasses.replace(LOST, kind=defect.kind, order=about.order)
    example = example_of(defect)
    position = next(place for place, node in example.graph.positions() if node.op == about.operation)
    return GraphFinding(
        example.graph,
        about.order,
        (found,),
        about.operation,
        position,
        "none",
        example.cotangent,
        example.direction,
    )


def of_sin(right: DerivativeValues) -> Defect:
    """A record that calls 0 the wrong derivative of sin."""
    one = to_tensor(literal([1.0]))
    return structs.replace(CUMPROD, graph=to_document(SIN), cotangent=one, right=right, given=((0.0,),))


@pytest.mark.parametrize("name", ["cumprod-zero-order1", "cumprod-zero-order2", "determinant-singular-order1"])
def test_a_defect_of_the_installed_release_is_still_there(name: str) -> None:
    seen = of_defect(DEFECTS[name])
    assert seen == Recheck(State.STILL, f"{DEFECTS[name].kind}, as recorded")
    assert of_report(of_graph(DEFECTS[name])) == Recheck(State.STILL, DEFECTS[name].kind)


def test_the_report_s_own_cotangent_is_used() -> None:
    """This defect shows only for a cotangent of 0; for any other the second derivative of a norm is right."""
    found = of_graph(DEFECTS["reduce_euclidean_norm-order2"])
    assert of_report(found).state is State.STILL
    assert of_report(dataclasses.replace(found, cotangent=literal(1.0))).state is State.FIXED


def test_a_right_derivative_is_fixed() -> None:
    assert of_report(finding(SIN)) == Recheck(State.FIXED, "agrees with finite differences")
    fixed = structs.replace(
        CUMPROD, graph=to_document(SIN), cotangent=to_tensor(literal([1.0])), right=((1.0,),), given=((0.0,),)
    )
    assert of_defect(fixed) == Recheck(State.FIXED, "gives the right derivative")


def test_differences_decide_where_the_value_is_neither_the_wrong_nor_the_right_one() -> None:
    other = structs.replace(CUMPROD, given=((1.0, 0.0, 0.0),))
    assert of_defect(other) == Recheck(State.STILL, "wrong value; not the value that is recorded", changed=True)
    rough = structs.replace(
        CUMPROD, graph=to_document(SIN), cotangent=to_tensor(literal([1.0])), right=((1.0 + 1e-7,),), given=((0.0,),)
    )
    assert of_defect(rough) == Recheck(State.FIXED, "agrees with finite differences")


def test_another_kind_is_a_change() -> None:
    found = dataclasses.replace(of_graph(CUMPROD), findings=(dataclasses.replace(LOST, kind=Kind.MISSING),))
    assert of_report(found) == Recheck(State.STILL, "wrong value, was missing", changed=True)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph((literal([1e300]),), (Node.of("square", 0), Node.of("check_numerics", 1))), "InvalidArgumentError: "),
        (Graph((literal([1.0]),), (Node.of("tile", 0, multiples=(10**9,)),)), "AdmissionError: node 1 (tile)"),
        (Graph((literal([1.0, 2.0]),), (Node.of("sin", 0),)), "AdmissionError: the cotangent is of shape (1,)"),
        (
            Graph((literal([0.0]),), (Node.of("relu", 0), Node.of("abs", 1))),
            "inconclusive (convention at a composed kink)",
        ),
    ],
)
def test_what_cannot_be_run_says_why(graph: Graph, message: str) -> None:
    seen = of_report(finding(graph))
    assert seen.state is State.CANNOT_TELL
    assert seen.message.startswith(message)
