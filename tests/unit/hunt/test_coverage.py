from __future__ import annotations

import json

import pytest

from gradcheck.autodiff.mode import Mode
from gradcheck.documents import DocumentError, convert, plain
from gradcheck.hunt.coverage import COMPOSED, FEW, INVALID, KINK, OUTCOMES, Coverage, CoverageCounts, table


def example() -> Coverage:
    coverage = Coverage()
    for _ in range(30):
        coverage.count("sin", 1)
        coverage.count("sin", 2, verdict="inconclusive")
    coverage.count("maximum", 1, verdict=KINK)
    coverage.count("maximum", 1, verdict=INVALID)
    coverage.count("maximum", 2, verdict=COMPOSED)
    coverage.count("cumprod", 1, verdict="mismatch")
    return coverage


def test_counts() -> None:
    coverage = example()
    assert coverage.operations == ("cumprod", "maximum", "sin")
    assert (coverage.examples("maximum"), coverage.valid("maximum")) == (3, 2)
    assert (coverage.examples(), coverage.valid()) == (64, 63)
    assert coverage.at("sin", 2, "inconclusive") == 30
    assert coverage.at(None, 1, "agree") == 30


def test_empty_is_false() -> None:
    assert not Coverage()
    assert example()


def test_comparisons_in_a_mode_are_counted_by_it() -> None:
    coverage = Coverage()
    for verdict in OUTCOMES:
        coverage.count("sin", 1, verdict=verdict, mode=Mode("forward"))
        coverage.count("sin", 2, verdict=verdict)
    assert coverage.modes == {("sin", 1, "forward, eager"): 3}  # agree, agree at a kink, mismatch
    assert convert(coverage.to_json(), CoverageCounts).modes == (("sin", 1, "forward, eager", 3),)


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="verdict was 'fine'"):
        Coverage().count("sin", 1, verdict="fine")


def test_the_document_of_the_counts() -> None:
    data = json.loads(json.dumps(example().to_json()))
    found = convert(data, CoverageCounts)
    assert {row[:-1]: row[-1] for row in found.outcomes} == dict(example().outcomes)
    assert plain(found) == data


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"format": "other"}, "$.format"),
        ({"outcomes": [["sin", 1, "fine", 1]]}, "$.outcomes[0][2]"),
        ({"outcomes": [["sin", 1, "agree", -1]]}, "$.outcomes[0][3]"),
        ({"outcomes": [["sin", "1", "agree", 1]]}, "$.outcomes[0][1]"),
        ({"outcomes": [["sin", 1]]}, "$.outcomes[0]"),
        ({"modes": [["sin", 1, "backwards", 1]]}, "$.modes[0][2]"),
        ({"edges": []}, "$"),
        ({"surplus": 1}, "$"),
    ],
)
def test_other_json_is_refused(change: dict[str, object], place: str) -> None:
    with pytest.raises(DocumentError) as caught:
        convert(example().to_json() | change, CoverageCounts)
    assert caught.value.place == place


def test_one_row_an_operation_and_a_total() -> None:
    finding = {"operation": "cumprod", "order": 1, "kind": "wrong value", "files": ["reports/cumprod.md"]}
    lines = table(example(), [finding]).splitlines()
    rows = {line.split()[0]: line.replace("|", " ").split() for line in lines if line and line[0].isalpha()}
    assert rows["sin"] == ["sin", "60", "100", "%", "30", *"....", *"...", "30", "."]
    assert rows["maximum"] == ["maximum", "3", "67", "%", ".", "1", *"...", *"..", "1", *".."]
    assert rows["cumprod"] == ["cumprod", "1", "100", "%", *"....", "1", *".....", "1"]
    assert rows["total,"][:3] == ["total,", "3", "operations"]
    assert rows["total,"][3] == "64"
    assert lines[-1] == "new finding: cumprod, wrong value at order 1: reports/cumprod.md"
    assert "not written" in table(example(), [{**finding, "files": []}])


def test_a_line_below_the_table_says_what_the_columns_are() -> None:
    head, *_, legend = (line for line in table(example()).splitlines() if not line.startswith((" ", "-")))
    columns = [name for name in head.replace("|", " ").split()[3:8] if name != "agree"]
    assert [part.split(":")[0] for part in legend.split(", ")] == columns == ["kink", "comp", "inc", "mis"]
    assert legend.endswith("mis: mismatch (a known one passes)")


def test_of_many_operations_those_that_stand_out_have_a_row() -> None:
    coverage = example()
    for place in range(FEW):
        for _ in range(5):
            coverage.count(f"fine_{place}", 1)
        coverage.count(f"fine_{place}", 1, verdict="inconclusive")
    finding = {"operation": "fine_3", "order": 1, "kind": "wrong value", "files": []}
    lines = table(coverage, [finding]).splitlines()
    rows = [line.split("|")[0].split() for line in lines if "|" in line][2:]
    assert [row[:2] for row in rows] == [
        ["cumprod", "1"],
        ["fine_3", "6"],
        ["maximum", "3"],
        ["sin", "60"],
        [str(FEW - 1), "others"],
        ["total,", str(FEW + 3)],
    ]
    assert rows[-2][2] == str(6 * (FEW - 1))
    assert sum(line.startswith("fine_") for line in table(coverage, whole=True).splitlines()) == FEW


def test_it_fits_100_columns_with_long_names_and_large_counts() -> None:
    coverage = Coverage()
    for order in (1, 2):
        for outcome in OUTCOMES:
            coverage.outcomes["an_operation_with_a_very_long_name", order, outcome] = 9_999_999
    assert max(map(len, table(coverage).splitlines())) <= 100


def test_a_culprit_that_was_no_subject_has_its_row() -> None:
    finding = {"operation": "reduce_prod", "order": 2, "kind": "wrong value", "files": []}
    assert any(line.startswith("reduce_prod") for line in table(example(), [finding]).splitlines())
