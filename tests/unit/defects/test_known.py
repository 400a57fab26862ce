from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from gradcheck import runtime
from gradcheck.autodiff.mode import Mode
from gradcheck.defects.known import KnownDefectError, everywhere, excludes, find, load, records
from gradcheck.defects.records import Defect, Releases
from gradcheck.defects.region import Ancestry, Arrival, Region
from gradcheck.documents import plain
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import known_graphs, trial
from gradcheck.hunt.blame import finding_of
from gradcheck.hunt.finding import GraphFinding
from gradcheck.result import Finding, Kind
from tests import forging
from tests.records import COMMITTED, RECORDS, document, from_json

DOCUMENT = document("cumprod-zero-order1")
FORWARD = {"exclusive": False, "reverse": False}


@pytest.fixture
def cumprod() -> Defect:
    return next(defect for defect in load(COMMITTED) if defect.name == "cumprod-zero-order1")


def test_the_committed_files_load(cumprod: Defect) -> None:
    about = cumprod.signature
    assert (about.operation, about.order, about.kind) == ("cumprod", 1, Kind.WRONG_VALUE)
    assert (cumprod.right, cumprod.given) == (((9.0, 0.0, 0.0),), ((0.0, 0.0, 0.0),))


def test_every_record_is_the_same_after_a_round_trip(subtests: pytest.Subtests) -> None:
    for record in records(COMMITTED):
        with subtests.test(record.name):
            assert from_json(json.loads(json.dumps(plain(record), allow_nan=False))) == record


def test_records_of_one_cause_are_of_one_class() -> None:
    classes: dict[str, set[str]] = {}
    for record in records(COMMITTED):
        classes.setdefault(record.cause, set()).add(record.category)
    assert {cause: found for cause, found in classes.items() if len(found) > 1} == {}


def test_how_bad_a_record_is_follows_from_what_is_given() -> None:
    severity = {one.name: str(one.severity) for one in records(COMMITTED)}
    for name, expected in (
        ("cumprod-zero-order1", "silently wrong"),
        ("power-zero-exponent-0-order1", "not finite"),
        ("batch_norm_inference-order1", "None"),
        ("determinant-singular-order1", "raises"),
        ("silu-beta-order1", "raises"),
        ("pfor-roll-order1", "silently wrong"),
        ("forward-sparse_add-order1", "None"),
        ("tape-batch-jacobian-unconnected", "silently wrong"),
    ):
        assert severity[name] == expected, name
    ranked = sorted(records(COMMITTED), key=lambda one: one.rank)
    assert [one.rank[0] for one in ranked] == sorted(one.rank[0] for one in ranked)


def test_a_record_without_a_class_is_a_defect_and_its_own_cause() -> None:
    bare = {name: value for name, value in DOCUMENT.items() if name not in ("class", "group", "remedy")}
    assert (from_json(bare).category, from_json(bare).cause) == ("defect", "cumprod-zero-order1")


def test_a_folder_of_nothing_has_none_and_a_missing_one_is_named(tmp_path: Path) -> None:
    assert load(tmp_path) == ()
    with pytest.raises(KnownDefectError, match="no such folder"):
        load(tmp_path / "missing")


def test_a_project_s_own_are_found_in_the_nearest_folder_above_and_stand_before_those_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reports" / "known").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find(tmp_path / "a" / "b") == tmp_path / "reports" / "known"
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.delenv("GRADCHECK_KNOWN", raising=False)
    monkeypatch.setattr(runtime, "_known", [])
    assert load() == load(COMMITTED)
    (tmp_path / "reports" / "known" / f"{DOCUMENT['name']}.json").write_text(forged("title", value="ours"))
    assert load()[0].title == "ours"
    assert {one.name for one in load()} == {one.name for one in load(COMMITTED)}
    assert len(load()) == len(load(COMMITTED))
    runtime.set_known(COMMITTED)
    assert load() == load(COMMITTED)
    runtime.set_known(tmp_path)
    monkeypatch.setenv("GRADCHECK_KNOWN", str(COMMITTED))
    assert load() == load(COMMITTED)


def test_away_from_any_folder_those_that_came_with_the_package_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADCHECK_KNOWN", raising=False)
    monkeypatch.setattr(runtime, "_known", [])
    assert records() == RECORDS
    monkeypatch.setenv("GRADCHECK_KNOWN", str(tmp_path))
    assert records() == ()


def forged(*path: Any, value: Any) -> str:
    return json.dumps(forging.forged(DOCUMENT, *path, value=value))


BROKEN = [
    ("", "$:", "JSON"),
    ("[]", "$:", "an object"),
    ('{"name": "package", "version": "1.0.0"}', "$:", "all of format"),
    (
        forged("format", value="gradcheck graph"),
        "$.format:",
        "one of gradcheck known defect, ",
    ),
    (forged("version", value=2), "$.version:", "one of 1"),
    (forged("name", value="../escape"), "$.name:", "a text like"),
    (forged("title", value=7), "$.title:", "a text"),
    (forged("signature", "operation", value="no_such_operation"), "$.signature.operation:", "of the catalogue"),
    (forged("signature", "order", value=True), "$.signature.order:", "one of 1, 2"),
    (forged("signature", "kind", value="bad"), "$.signature.kind:", "one of missing, modes disagree"),
    (forged("graph", "nodes", 0, "op", value="eval"), "$.graph.nodes[0].op:", "of the catalogue"),
    (forged("cotangent", "values", value=[1.0]), "$.cotangent.values:", "3, as shape"),
    (forged("right", value=[]), "$.right:", "one list for each"),
    (forged("right", 0, value=[9.0]), "$.right[0]:", "3 numbers"),
    (forged("right", 0, 0, value="nan"), "$.right[0][0]:", "a finite number"),
    (forged("given", 0, 0, value="zero"), "$.given[0][0]:", "a finite number, or one of -inf, inf, nan"),
    (forged("regions", 0, "set", value="lambda x: True"), "$.regions[0].set:", "one of 'zero factor', "),
    (forged("regions", 0, "set", value="zero in argument 1"), "$.regions[0].set:", "a set of arguments from 0 to 0"),
    (forged("regions", 0, "set", value="zero in argument 10"), "$.regions[0].set:", "'zero in argument 0'"),
    (forged("regions", 0, "set", value=["zero factor"]), "$.regions[0].set:", "a text or null"),
    (
        forged("regions", 0, "attrs", value={"exclusiv": True}),
        "$.regions[0].attrs: 'exclusiv'",
        "an attribute of cumprod: exclusive, reverse",
    ),
    (forged("regions", 0, "orders", value=[3]), "$.regions[0].orders[0]:", "one of 1, 2"),
    (forged("regions", 0, "condition", value="minute"), "$.regions[0].condition: minute", "`set`, the name of a"),
    (forged("regions", 0, "op", value="?"), "$.regions[0].op:", "of the catalogue"),
    (
        forged("regions", 1, value={**DOCUMENT["regions"][0], "op": "complex_cumprod"}),
        "$.regions[1].op: 'complex_cumprod'",
        "no region but that of 'cumprod', which holds for its complex form",
    ),
    (
        forged("regions", 0, value={"op": "*", "orders": [1]}),
        "$.regions[0]: every operation, always",
        "a set, attrs, ranks, producers, neighbours or error",
    ),
    (forged("class", value="bug"), "$.class:", "one of convention, defect"),
    (forged("group", value="Two words"), "$.group:", "a text like"),
    (forged("releases", value={"from": "2.18"}), "$.releases:", "all of from, until"),
    (forged("releases", "from", value="latest"), "$.releases.from:", "a text like"),
    (forged("upstream", value="javascript:alert(1)"), "$.upstream:", "a text like"),
]


def test_a_broken_or_foreign_file_is_named_with_the_place_and_the_fix(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    path = tmp_path / "broken.json"
    for text, place, expected in BROKEN:
        path.write_text(text)
        with subtests.test(f"{place} {expected}"):
            with pytest.raises(KnownDefectError) as caught:
                known_graphs.load(tmp_path)
            message = str(caught.value)
            assert message.startswith(f"{path}: not a known defect of this format: ")
            assert place in message
            assert expected in message
            assert "Correct the file or take it out" in message


def test_a_file_is_called_as_its_record(tmp_path: Path) -> None:
    (tmp_path / "another.json").write_text(json.dumps(DOCUMENT))
    with pytest.raises(KnownDefectError, match=rf"another\.json: holds {DOCUMENT['name']}; the file has to be"):
        load(tmp_path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "image.json").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(KnownDefectError, match=r"image\.json"):
        load(tmp_path)


def test_a_region_may_hold_arguments_of_any_operation(tmp_path: Path) -> None:
    region = {"op": "*", "orders": [2], "set": "no element in argument 1", "producers": ["sin"]}
    (tmp_path / f"{DOCUMENT['name']}.json").write_text(forged("regions", value=[region]))
    defects = load(tmp_path)
    for op, arguments, order, producers, expected in (
        ("add", [[1.0], []], 2, ["sin"], "cumprod-zero-order1"),
        ("mul", [[1.0], []], 2, ["exp", "sin"], "cumprod-zero-order1"),
        ("mul", [[1.0], []], 2, ["exp"], None),
        ("mul", [[], [1.0]], 2, ["sin"], None),
        ("mul", [[1.0], []], 1, ["sin"], None),
        ("square", [[]], 2, ["sin"], None),
    ):
        at = [np.array(argument) for argument in arguments]
        assert excludes(op, {}, at, order, Ancestry(producers), defects=defects) == expected, (op, arguments)


def test_what_tensorflow_gives_may_be_none_or_not_finite_or_nothing(tmp_path: Path) -> None:
    for text, expected in (
        (forged("given", value=[None]), (None,)),
        (forged("given", value=[["inf", "-inf", 0.0]]), ((float("inf"), float("-inf"), 0.0),)),
        (forged("given", value=[]), ()),
    ):
        (tmp_path / f"{DOCUMENT['name']}.json").write_text(text)
        assert load(tmp_path)[0].wrong == expected


@pytest.mark.parametrize(
    ("since", "until", "release", "covered"),
    [
        ("2.18", None, "2.21.0", True),
        ("2.18", None, "2.17.1", False),
        ("2.18", "2.22", "2.21.3", True),
        ("2.18", "2.22", "2.22.0", False),
        ("2.18", "2.22", "2.22.0-rc1", False),
        ("2.9", None, "2.10.0", True),
        ("2.21.1", None, "2.21.0", False),
        ("2.18", "2.22", "2.23.0-dev20260901", False),
    ],
)
def test_releases(cumprod: Defect, since: str, until: str | None, release: str, covered: bool) -> None:
    assert structs.replace(cumprod, releases=Releases(since, until)).covers(release) is covered


PLACES: list[tuple[str, dict[str, Any], Any, int, bool]] = [
    ("cumprod", FORWARD, [0.0, 2.0], 1, True),
    ("cumprod", FORWARD, [-0.0, 2.0], 1, True),
    ("cumprod", FORWARD, [1.0, 2.0], 1, False),
    ("cumprod", FORWARD, [[1.0, 2.0], [3.0, 0.0]], 1, True),
    ("cumprod", FORWARD, [1e-300, 2.0], 1, False),
    ("cumprod", {**FORWARD, "exclusive": True}, [2.0, 0.0], 1, False),
    ("cumprod", {**FORWARD, "exclusive": True}, [0.0, 2.0], 1, True),
    ("cumprod", {"exclusive": True, "reverse": True}, [0.0, 2.0], 1, False),
    ("cumprod", FORWARD, [0.0], 2, True),
    ("cumprod", FORWARD, [1.0], 2, False),
    ("reduce_sum", {}, [0.0, 2.0], 1, False),
    ("reduce_prod", {"axis": -1}, [0.0, 2.0, 3.0], 1, False),
    ("reduce_prod", {"axis": -1}, [0.0, 2.0, 3.0], 2, True),
    ("reduce_prod", {"axis": -1}, [0.0, 0.0, 0.0], 2, False),
    ("reduce_prod", {"axis": -1}, [[0.0], [2.0]], 2, False),
    ("reduce_prod", {"axis": -2}, [[0.0], [2.0]], 2, True),
    ("segment_prod", {"ids": (0, 0, 1)}, [0.0, 0.0, 2.0], 2, True),
    ("segment_prod", {"ids": (0, 1, 1)}, [0.0, 0.0, 2.0], 2, False),
    ("segment_prod", {"ids": (0, 0)}, [[0.0, 1.0], [0.0, 0.0]], 2, True),
    ("segment_prod", {"ids": (0, 0)}, [[0.0, 1.0], [2.0, 0.0]], 2, False),
    ("dynamic_stitch", {"first": (0, 1), "second": (1, 2)}, [1.0, 1.0], 1, True),
    ("dynamic_stitch", {"first": (0, 1), "second": (2, 3)}, [1.0, 1.0], 1, False),
    ("determinant", {}, [[1.0, 2.0], [2.0, 4.0]], 1, True),
    ("determinant", {}, [[1.0, 2.0], [2.0, 5.0]], 1, False),
    ("determinant", {}, [[[1.0, 2.0], [2.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]]], 1, True),
    ("reduce_euclidean_norm", {"axis": -1}, [[0.0, 1.0], [0.0, 0.0]], 1, True),
    ("reduce_euclidean_norm", {"axis": -2}, [[0.0, 1.0], [0.0, 0.0]], 1, True),
    ("reduce_euclidean_norm", {"axis": -1}, [[0.0, 1.0], [1.0, 0.0]], 1, False),
]


def test_regions_are_narrow(subtests: pytest.Subtests) -> None:
    defects = load(COMMITTED)
    for op, attrs, argument, order, excluded in PLACES:
        with subtests.test(f"{op} with {attrs} of {argument} at order {order}"):
            found = excludes(op, attrs, [np.array(argument)], order, defects=defects)
            assert (found is not None) is excluded


def test_a_region_may_ask_for_what_stands_right_before_or_comes_from_behind() -> None:
    near, behind = Region("sin", (1,), neighbours=("exp",)), Region("sin", (2,), arriving="zero")
    varying, lost = (Region("sin", (2,), arriving=kind) for kind in ("varying", "varying zero"))
    at, constant, moved = [np.ones(2)], Arrival(np.zeros(2), False), Arrival(np.zeros(2), True)
    assert near.contains("sin", {}, at, 1, Ancestry(("exp", "mul"), ("exp",)))
    assert not near.contains("sin", {}, at, 1, Ancestry(("exp", "mul"), ("mul",)))
    assert not any(region.contains("sin", {}, at, 2) for region in (behind, varying, lost))
    assert behind.contains("sin", {}, at, 2, arrival=constant)
    assert not behind.contains("sin", {}, at, 2, arrival=Arrival(np.ones(2), True))
    assert not any(region.contains("sin", {}, at, 2, arrival=constant) for region in (varying, lost))
    assert all(region.contains("sin", {}, at, 2, arrival=moved) for region in (varying, lost))
    assert varying.contains("sin", {}, at, 2, arrival=Arrival(np.ones(2), True))
    assert not lost.contains("sin", {}, at, 2, arrival=Arrival(np.ones(2), True))


def test_what_arrives_is_known_with_whether_it_depends_on_the_inputs() -> None:
    sine = Graph((literal(np.zeros(2)),), (Node.of("exp", 0), Node.of("negative", 1), Node.of("square", 2)))
    arriving = known_graphs.arrivals(sine, np.array([1.0, 0.0]))
    assert [one and one.varies for one in arriving] == [True, True, True, False]
    assert [one and one.value.tolist() for one in arriving[1:]] == [[2.0, 0.0], [-2.0, 0.0], [1.0, 0.0]]


def test_what_raises_since_nan_arrives_is_known_as_what_gives_it() -> None:
    norm = Node.of("reduce_euclidean_norm", 1, axis=-1, keepdims=False)
    largest = Node.of("reduce_max", 2, axis=-1, keepdims=False)
    rows = literal(np.array([[3.0, 4.0], [1.0, 2.0]]))
    found = finding_of(trial.run(Graph((rows,), (Node.of("check_numerics", 0), norm, largest)), (2,)), 2)
    assert (found.kind, found.culprit) == (Kind.RAISES, "reduce_max")
    known_as = known_graphs.match(found)
    assert known_as is not None
    assert known_as.name == "reduce_euclidean_norm-order2"


def test_a_region_may_ask_for_what_is_raised_which_generation_does_not_know() -> None:
    raising = Region("*", (1,), producers=("exp",), error="'IndexedSlices' and 'float'")
    at, before = [np.ones(2)], Ancestry(("exp",), ("exp",))
    raised = "TypeError: unsupported operand type(s) for *: 'IndexedSlices' and 'float'"
    assert raising.contains("sin", {}, at, 1, before, error=raised)
    assert not raising.contains("sin", {}, at, 1, before, error="TypeError: another")
    assert not raising.contains("sin", {}, at, 1, error=raised)
    assert not raising.contains("sin", {}, at, 1, before)
    assert not Region("sin", (1,), error="another").everywhere


def test_what_hands_gradients_on_is_passed_over() -> None:
    graph = Graph((literal([1.0]),), (Node.of("exp", 0), Node.of("identity", 1), Node.of("mul", 1, 2)))
    sources = known_graphs.sources_of(graph)
    assert set(known_graphs.ancestry(sources, (2,)).neighbours) == {"identity", "exp"}
    assert known_graphs.ancestry(sources, (3,)).neighbours == ("mul",)
    assert set(known_graphs.ancestry(sources, (3,)).producers) == {"mul", "identity", "exp"}


def test_a_region_may_ask_for_arguments_that_are_different_values() -> None:
    apart, graph = Region("mul", (2,), apart=True), Graph((literal([1.0]),), (Node.of("exp", 0),))
    sources = known_graphs.sources_of(graph)
    for parents, expected in (((0, 1), True), ((1, 1), False), ((0, 0), False)):
        before = known_graphs.ancestry(sources, parents)
        assert apart.contains("mul", {}, [np.ones(1)] * 2, 2, before) is expected
    assert not apart.everywhere


def found_at(point: list[float]) -> GraphFinding:
    wrong = Finding(Kind.WRONG_VALUE, 1, "x", (1,), None, 0.0, 2.0, 1e-12, 1e-11, "")
    graph = Graph((literal(point),), (Node.of("cumprod", 0, **FORWARD),))
    values = (literal(point), literal(np.cumprod(point)))
    return GraphFinding(graph, 1, (wrong,), "cumprod", 1, "tie in argument 0", literal([1.0, 1.0]), values=values)


def test_match(cumprod: Defect) -> None:
    found = found_at([2.0, 0.0])
    missing = (dataclasses.replace(found.findings[0], kind=Kind.MISSING),)
    assert known_graphs.match(found, defects=[cumprod]) is cumprod
    for other in (
        {"order": 2},
        {"culprit": "cumsum"},
        {"findings": missing},
        {"taken": Mode("forward")},
        {"values": ()},
    ):
        assert known_graphs.match(dataclasses.replace(found, **other), defects=[cumprod]) is None  # type: ignore[arg-type]


def test_what_is_raised_may_be_what_is_known_whatever_raises_it(cumprod: Defect) -> None:
    raising = Region("*", (1, 2), error="'IndexedSlices' and 'float'")
    signature = structs.replace(cumprod.signature, operation="sin", kind=Kind.RAISES)
    defect = structs.replace(cumprod, signature=signature, regions=(raising,))
    found = found_at([2.0, 3.0])
    for text, order, known_as in (
        ("TypeError: unsupported operand type(s) for *: 'IndexedSlices' and 'float'", 1, defect),
        ("TypeError: unsupported operand type(s) for *: 'IndexedSlices' and 'float'", 2, defect),
        ("TypeError: something else", 1, None),
    ):
        raised = (dataclasses.replace(found.findings[0], kind=Kind.RAISES, reason=text),)
        now = dataclasses.replace(found, findings=raised, order=order)  # type: ignore[arg-type]
        assert known_graphs.match(now, defects=[defect]) is known_as


@pytest.mark.parametrize(("producer", "known_as"), [("square", True), ("cumprod", True), ("exp", False)])
def test_what_is_raised_behind_the_culprit_may_be_what_is_known(cumprod: Defect, producer: str, known_as: bool) -> None:
    """The operation that makes a gradient raise comes before the operation that is blamed, or is it."""
    raising = Region("*", (1,), producers=(producer,), error="not subscriptable")
    signature = structs.replace(cumprod.signature, operation="sin", kind=Kind.RAISES)
    defect = structs.replace(cumprod, signature=signature, regions=(raising,))
    graph = Graph((literal([2.0, 3.0]),), (Node.of("cumprod", 0, **FORWARD), Node.of("square", 1)))
    found = found_at([2.0, 3.0])
    raised = (dataclasses.replace(found.findings[0], kind=Kind.RAISES, reason="TypeError: not subscriptable"),)
    behind = dataclasses.replace(found, graph=graph, findings=raised, values=(*found.values, literal([4.0, 36.0])))
    assert known_graphs.match(behind, defects=[defect]) is (defect if known_as else None)


def test_identity_and_values_decide_and_no_description(cumprod: Defect) -> None:
    assert known_graphs.match(found_at([2.0, 3.0]), defects=[cumprod]) is None
    renamed = dataclasses.replace(found_at([2.0, 0.0]), description="none")
    assert known_graphs.match(renamed, defects=[cumprod]) is cumprod


def test_a_region_of_an_operation_holds_for_its_complex_form_and_not_the_other_way_round() -> None:
    at = [np.ones(2)]
    real, plane = (Region(op, (1,)) for op in ("gather", "complex_gather"))
    assert real.contains("gather", {}, at, 1)
    assert real.contains("complex_gather", {}, at, 1)
    assert plane.contains("complex_gather", {}, at, 1)
    assert not plane.contains("gather", {}, at, 1)
    assert not real.contains("complex_scatter_nd", {}, at, 1)
    for before in ({"producers": ("gather",)}, {"neighbours": ("gather",)}):
        behind = Region("exp", (1,), **before)  # type: ignore[arg-type]
        for op, expected in (("gather", True), ("complex_gather", True), ("complex_scatter_nd", False)):
            assert behind.contains("exp", {}, at, 1, Ancestry((op,), (op,))) is expected


def test_what_leaves_an_operation_no_use_leaves_its_complex_form_none(cumprod: Defect) -> None:
    everything = structs.replace(cumprod, regions=(Region("cumprod", (1,)),))
    only = structs.replace(cumprod, regions=(Region("complex_cumprod", (1,)),))
    mostly = structs.replace(cumprod, regions=(Region("cumprod", (1,), drawn=True),))
    for defect, op, order, expected in (
        (everything, "cumprod", 1, True),
        (everything, "complex_cumprod", 1, True),
        (everything, "complex_cumprod", 2, False),
        (only, "cumprod", 1, False),
        (only, "complex_cumprod", 1, True),
        (mostly, "cumprod", 1, False),  # most of it is right, and is drawn
    ):
        assert (everywhere(op, order, defects=[defect]) is not None) is expected, (op, order)
