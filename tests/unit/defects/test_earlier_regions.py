"""Regions in their earlier form, with a condition on groups of elements, are read as what they say in that of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradcheck.defects import known
from gradcheck.defects.earlier_regions import OF_OPERATION, in_this_form
from gradcheck.defects.records import Defect
from gradcheck.documents import DocumentError
from gradcheck.operations.catalogue import CATALOGUE, special_set
from tests.records import alone, document

BEHIND = {"orders": [2], "producers": ["sin"], "apart": True, "error": "raised"}
REGIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"condition": "always"}, {}),
    ({"condition": "always", "argument": 0, "along": None, "elements": "all", "ranks": [1]}, {"ranks": [1]}),
    ({"condition": "zero", "attrs": {"axis": 1}}, {"set": "zero in argument 0", "attrs": {"axis": 1}}),
    ({"condition": "empty", "argument": 1, "ranks": [2]}, {"set": "no element in argument 1", "ranks": [2]}),
    ({"condition": "single"}, {"set": "a single element in argument 0"}),
    ({"op": "cumprod", "condition": "zero", "along": -1, "elements": "all"}, {"set": "zero factor"}),
    ({"op": "complex_cumprod", "condition": "several", "along": -1}, {"set": "several factors"}),
    ({"op": "legacy_matrix_diag_band", "condition": "several", "along": -1}, {"set": "several elements along axis"}),
    ({"op": "tile", "condition": "always", "ranks": [3], "sides": 2}, {"set": "several elements along each axis"}),
    ({"op": "keras_prelu", "condition": "zero", "where": {"1": "positive"}}, {"set": "zero beside a positive slope"}),
]


@pytest.mark.parametrize(("earlier", "expected"), REGIONS)
def test_a_region_keeps_what_it_says(earlier: dict[str, Any], expected: dict[str, Any]) -> None:
    op = earlier.get("op", "sin")
    ranks = {"ranks": earlier["ranks"]} if "ranks" in earlier else {}
    now = {"op": op, **BEHIND, **expected, **ranks}
    assert in_this_form({"regions": [BEHIND | {"op": op} | earlier]}) == {"regions": [now]}
    assert in_this_form({"examples": [{"regions": [now]}]}) == {"examples": [{"regions": [now]}]}


def test_every_set_in_the_table_is_one_of_an_operation() -> None:
    for line in OF_OPERATION.splitlines():
        name = line.partition(" < ")[0]
        assert any(special_set(op, name) is not None for op in CATALOGUE) is bool(line), line


def test_a_file_is_read(tmp_path: Path) -> None:
    now = document("cumprod-zero-order1")
    earlier = [
        {"op": "cumprod", "condition": "zero", "orders": [1], "attrs": {"exclusive": False}, "along": -1},
        *({"op": op, "condition": "always", "orders": [2]} for op in ("sin", "cos")),
    ]
    for number, data in enumerate((now | {"regions": earlier}, alone(now | {"regions": earlier}))):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(data))
        (one,) = known.read(path)
        assert isinstance(one, Defect)
        names = [(region.op, region.set_name) for region in one.regions]
        assert names == [("cumprod", "zero factor"), ("sin", None), ("cos", None)]


def test_what_no_set_says_is_refused_with_its_place() -> None:
    for op, groups in (("sin", {"along": -1}), ("cumprod", {"along": 3}), (7, {"along": -1}), ("?", {"sides": 2})):
        with pytest.raises(DocumentError, match=r"\$\.examples\[1\]\.regions\[0\]\.condition: zero, .* expected `set`"):
            in_this_form({"examples": [{}, {"regions": [{"op": op, "condition": "zero", **groups}]}]})
    others: tuple[Any, ...] = (None, [], {"regions": 3}, {"examples": [3, {"regions": ["x"]}]})
    assert [in_this_form(other) for other in others] == [*others]
