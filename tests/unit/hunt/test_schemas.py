"""The published schemas are those of the code, and what is written, here and in reports/known, can be read back."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from gradcheck import documents
from gradcheck.defects.causes import KnownCause, records_of
from gradcheck.defects.graph_document import GraphDocument
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.graph_json import to_json
from gradcheck.hunt.json_report import FindingDocument, Report, document_type
from gradcheck.result import Finding, Kind
from tests import schemas

REPORTS = Path(__file__).parents[3] / "reports"


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_a_published_schema_is_current(name: str) -> None:
    published = (REPORTS / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    assert published == schemas.schema_text(name), "run python -m tests.schemas"


def test_schemas_are_the_same_where_python_strips_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = schemas.schema_text("report")
    for document in (FindingDocument, Report):
        assert "\n    " in (document.__doc__ or "") or sys.version_info >= (3, 13)
        monkeypatch.setattr(document, "__doc__", inspect.cleandoc(document.__doc__ or ""))
    assert schemas.schema_text("report") == before


def test_no_other_schema_is_published_and_the_readme_links_to_each(tmp_path: Path) -> None:
    schemas.write(tmp_path)
    published = sorted(path.name for path in (REPORTS / "schemas").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == published
    readme = (REPORTS / "README.md").read_text(encoding="utf-8")
    assert all(f"](schemas/{name})" in readme for name in published)


def test_every_known_cause_is_a_document_and_nothing_is_lost(subtests: pytest.Subtests) -> None:
    for path in sorted((REPORTS / "known").glob("*.json")):
        with subtests.test(path.stem):
            data = json.loads(path.read_text(encoding="utf-8"))
            cause = documents.convert(data, KnownCause)
            assert repr(documents.plain(cause)) == repr(data)
            for own, record in zip(data["examples"], records_of(cause), strict=True):
                whole = {**data["shared"], **own, "version": 1, "group": data["cause"]}
                assert json.dumps(documents.plain(record), sort_keys=True) == json.dumps(whole, sort_keys=True)


def test_a_graph_as_it_was_written_before_the_schemas_is_read() -> None:
    graph = Graph((Input((1,), (0.5,)),), (Node.of("sin", 0),))
    data = {"format": "gradcheck graph", "version": 1, **{name: to_json(graph)[name] for name in ("inputs", "nodes")}}
    assert documents.plain(documents.convert(data, GraphDocument)) == data == to_json(graph)


def test_the_document_of_a_record_has_its_fields_with_strict_types() -> None:
    made = document_type(Finding)
    assert list(made.__struct_fields__) == [field.name for field in dataclasses.fields(Finding)]
    data = documents.plain(Finding(Kind.NON_FINITE, 1, "x", (0,), None, math.nan, 9.0, 1e-12, math.inf, "NaN"))
    document: Any = documents.convert(data, made)
    assert (document.autodiff, document.allowed, document.diagnosis) == ("nan", "inf", None)
    for name, value, complaint in (
        ("autodiff", "1e3", "one of -inf, inf, nan"),
        ("index", ["0"], "an integer"),
        ("reason", "x" * 60_000, "at most 50000"),
        ("surprise", 1, "the name 'surprise'"),
    ):
        with pytest.raises(ValueError, match=complaint):
            documents.convert({**data, name: value}, made)
