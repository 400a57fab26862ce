from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcheck import documents
from gradcheck.hunt.json_report import Report, read
from gradcheck.hunt.report.writer import write


def changed(data: Any, path: str, value: Any) -> Any:
    """The document with the value at a path such as `graph.nodes.0.op` replaced; `...` removes it."""
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inner = data
    for part in way:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


def test_what_is_written_is_read_back(report: Report, tmp_path: Path) -> None:
    path = write(report.finding, tmp_path)[0]
    back = read(path)
    assert documents.to_text(Report.of(back)) == path.read_text() == documents.to_text(report)
    assert back.graph == report.finding.graph
    assert back.findings[0].diagnosis == report.finding.findings[0].diagnosis
    assert back.confirmation == report.finding.confirmation
    assert back.script == report.finding.script


FORGED: list[tuple[str, Any, str]] = [
    ("format", "other", "$.format: 'other' was given"),
    ("version", 2, "$.version: 2 was given; expected one of 1"),
    ("version", True, "$.version: True was given; expected one of 1"),
    ("name", "../../etc/passwd", "$.name: '../../etc/passwd' was given"),
    ("name", "<img src=x onerror=alert(1)>", "$.name: '<img src=x onerror=alert(1)>' was given"),
    ("name", ..., "an object without 'name'"),
    ("surprise", 1, "the name 'surprise'"),
    ("graph.nodes.0.op", "os.system", "'os.system' was given; expected the name of an operation of the catalogue"),
    ("graph.nodes.0.op", ["sin"], "$.graph.nodes[0].op: a list of 1 was given; expected a text"),
    ("graph.nodes.0.parents", [7], "expected an integer from 0 to 0"),
    ("graph.nodes.1.attrs.exclusive", "__import__('os')", "plain word"),
    ("graph.nodes.1.attrs.exclusive", [[[[[[[0]]]]]]], "was given"),
    ("graph.nodes", [{"op": "sin", "parents": [0], "attrs": {}}] * 1_000_000, "a list of 1000000"),
    ("graph.inputs.0.values.0", "nan", "expected a finite number"),
    ("graph.inputs.0.values.0", float("nan"), "expected a finite number"),
    ("graph.inputs.0.shape", [-2], "an integer of at least 0"),
    ("signature.operation", "sin", "expected the operation at the position"),
    ("signature.kind", "wrong value", "$.signature"),
    ("signature.kind", "murder", "expected one of missing, modes disagree"),
    ("description", 3, "$.description: 3 was given; expected a text"),
    ("position", 0, "expected a node, from 1 to 2"),
    ("position", 9**20, "expected a node, from 1 to 2"),
    ("signature.order", 3, "expected one of 1, 2"),
    ("signature.order", True, "was given"),
    ("cotangent.values.0", "inf", "expected a finite number or a list"),
    ("cotangent.dtype", "object", "expected one of complex128, float32, float64"),
    ("direction", [{"dtype": "float64", "shape": [1], "values": [1.0]}], "one like each input at order 2"),
    ("findings", [], "expected at least 1"),
    ("findings", {"0": 1}, "expected a list"),
    ("findings.0.autodiff", "1e3", "expected a finite number, or one of -inf, inf, nan"),
    ("findings.0.autodiff", [1.0], "expected a finite number"),
    ("findings.0.index", [0.5], "an integer"),
    ("findings.0.reason", "\ud800", "no lone surrogates"),
    ("findings.0.reason", "x" * 60_000, "a text of 60000 characters"),
    ("findings.0.diagnosis.cause", "bad luck", "expected one of NaN or infinity came in"),
    ("findings.0.diagnosis.place.line", "3", "an integer"),
    ("values", [{"dtype": "float64", "shape": [], "values": [0.0]}], "expected none, or 3"),
    ("nodes.0.position", 77, "a position that is no node"),
    ("environment.intra_op_threads", "1; rm", "an integer"),
    ("environment.host", "x", "the name 'host'"),
    ("confirmation.returncode", "1", "an integer"),
    ("confirmation", 1, "expected an object"),
]


def test_a_forged_report_is_refused(report: Report, subtests: pytest.Subtests) -> None:
    text = documents.to_text(report)
    for path, value, complaint in FORGED:
        with subtests.test(f"{path}: {complaint}"), pytest.raises(ValueError, match=re.escape(complaint)):
            documents.convert(changed(json.loads(text), path, value), Report)


@pytest.mark.parametrize(
    ("forge", "complaint"),
    [
        (lambda text: "[" * 100_000 + text, "deep nesting"),
        (lambda text: text.replace("9.0", "NaN"), "finite numbers only"),
        (lambda text: text.replace('"order": 1', '"order": 1, "order": 1', 1), "each name once"),
        (lambda text: text.replace("9.0", "9" * 5000), "not JSON"),
        (lambda text: text + " " * 1_000_000, "bytes; expected at most 1000000"),
        (lambda text: text[:-9], "not JSON"),
        (lambda text: "", "not JSON"),
    ],
)
def test_a_damaged_file_is_refused_and_named(
    report: Report, tmp_path: Path, forge: Callable[[str], str], complaint: str
) -> None:
    path = tmp_path / "report.json"
    path.write_text(forge(documents.to_text(report)))
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: not a report of this project: ")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(b"\x80\x04\x95pickle")
    with pytest.raises(ValueError, match="not a report of this project"):
        read(tmp_path / "report.json")


def test_a_refused_report_has_no_effect(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("something was executed")

    data = json.loads(documents.to_text(report))
    data["graph"]["nodes"][1]["attrs"]["exclusive"] = "__import__('os').system('touch /tmp/forged')"
    before = set(sys.modules)
    for name in ("builtins.eval", "builtins.exec", "os.system", "subprocess.Popen"):
        monkeypatch.setattr(name, forbidden)
    with pytest.raises(ValueError, match="plain word"):
        documents.convert(data, Report)
    assert set(sys.modules) == before


def test_values_of_many_elements_are_left_out(report: Report) -> None:
    import dataclasses

    from gradcheck.graph import literal

    large = dataclasses.replace(report.finding, values=(*report.finding.values[:2], literal([0.5] * 5000)))
    data = documents.plain(Report.of(large))
    assert data["values"] == []
    assert documents.convert(data, Report).finding.values == ()
