from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from gradcheck.documents import Document, DocumentError, Real, convert, matching, parse, plain, read, to_text
from gradcheck.result import Verdict


class Inner(Document, frozen=True):
    number: Real
    verdict: Verdict = Verdict.AGREE


class Outer(Document, frozen=True, tag_field="format", tag="a test"):
    words: str
    count: Annotated[int, Meta(ge=0)]
    sure: bool
    many: Annotated[tuple[Inner, ...], Meta(max_length=3)]
    counts: dict[str, int]


class Named(Document, frozen=True):
    name: Annotated[str, matching("[a-z]{1,3}")]
    exact: float = 0.0


numbers = st.floats(allow_nan=False) | st.sampled_from(["nan", "inf", "-inf"])
inner = st.builds(Inner, numbers.filter(lambda x: x not in (float("inf"), -float("inf"))), st.sampled_from(Verdict))
exact = st.integers(0, 2**53)
outer = st.builds(
    Outer,
    st.text(st.characters(exclude_categories=["Cs"])),
    exact,
    st.booleans(),
    st.lists(inner, max_size=3).map(tuple),
    st.dictionaries(st.text("abc"), exact),
)


@given(outer)
def test_a_document_survives_json(document: Outer) -> None:
    assert convert(parse(json.dumps(plain(document), allow_nan=False)), Outer) == document


letters = st.text('a"\\[]{},\n ')
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | letters,
    lambda inner: st.lists(inner) | st.dictionaries(letters, inner),
)


@given(values)
def test_the_text_of_a_document_is_the_same_json(data: Any) -> None:
    assert json.dumps(json.loads(to_text(data))) == json.dumps(data)


def test_a_list_of_numbers_and_texts_is_written_on_one_line() -> None:
    data = {"one": [1.0, -2, None, "a, [b]\n"], "lists": [[1], [], {}]}
    lines = ['  "one": [1.0, -2, null, "a, [b]\\n"],', '  "lists": [', "    [1],", "    [],", "    {}", "  ]"]
    assert to_text(data).split("\n") == ["{", *lines, "}", ""]


def test_numbers_that_json_does_not_know_are_texts() -> None:
    assert plain((float("nan"), float("-inf"), 0.1)) == ["nan", "-inf", 0.1]


GOOD = {"format": "a test", "words": "w", "count": 1, "sure": True, "many": [{"number": 1.0}], "counts": {"a": 1}}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"words": 1}, "$.words: 1 was given; expected a text"),
        ({"count": True}, "$.count: True was given; expected an integer"),
        ({"count": 1.0}, "$.count: 1.0 was given; expected an integer"),
        ({"count": -1}, "$.count: -1 was given; expected an integer of at least 0"),
        ({"count": 2**53 + 1}, "$.count: 9007199254740993 was given; expected an integer that float64 holds exactly"),
        ({"sure": 1}, "$.sure: 1 was given; expected true or false"),
        ({"many": {}}, "$.many: a dict of 0 was given; expected a list"),
        ({"many": [{"number": 1.0}] * 4}, "$.many: a list of 4 was given; expected at most 3"),
        ({"many": [{"number": "NaN"}]}, "'NaN' was given; expected a finite number, or one of -inf, inf, nan"),
        ({"many": [{"number": float("nan")}]}, "$.many[0].number: nan was given; expected a finite number"),
        ({"many": [{"number": 10**400}]}, "$.many[0].number"),
        ({"many": [{"number": 1.0, "verdict": "fine"}]}, "'fine' was given; expected one of agree, inconclusive"),
        ({"many": [{"number": 1.0, "verdict": None}]}, "$.many[0].verdict: None was given; expected one of agree, "),
        ({"many": [{}]}, "$.many[0]: an object without 'number' was given; expected all of number"),
        ({"many": [[1.0]]}, "$.many[0]: a list of 1 was given; expected an object"),
        ({"many": [{"number": 1.0, "x": 0}]}, "$.many[0]: the name 'x' was given; expected only number, verdict"),
        ({"counts": {"a": "b"}}, "$.counts[...]: something else was given; expected an integer"),
        ({"counts": []}, "$.counts: a list of 0 was given; expected an object"),
        ({"words": "\ud800"}, "valid Unicode (no lone surrogates)"),
        ({"words": "x" * 60_000}, "$.words: a text of 60000 characters was given; expected at most 50000"),
        ({"counts": {"x" * 60_000: 1}}, "a text of 60000 characters"),
        ({"counts": {str(i): 1 for i in range(5000)}}, "$.counts: a list of 5000 was given; expected at most 4096"),
        ({"format": "other"}, "$.format: 'other' was given; expected one of a test"),
        ({"format": ["a test"]}, "$.format: a list of 1 was given; expected one of a test"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_its_place(change: dict[str, Any], complaint: str) -> None:
    assert convert(GOOD, Outer).words == "w"
    with pytest.raises(DocumentError) as caught:
        convert(GOOD | change, Outer)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_document_without_its_format_is_refused() -> None:
    with pytest.raises(DocumentError, match="an object without 'format' was given; expected all of format, words"):
        convert({name: value for name, value in GOOD.items() if name != "format"}, Outer)


@pytest.mark.parametrize("name", ["", "A", "abcd", "ab\n", "\nab", "a b"])
def test_a_pattern_matches_the_whole_text(name: str) -> None:
    assert convert({"name": "abc"}, Named) == Named("abc")
    with pytest.raises(DocumentError, match=r"\$\.name: .* was given; expected a text like '\[a-z\]\{1,3\}'"):
        convert({"name": name}, Named)


def test_an_integer_stands_for_a_number() -> None:
    assert repr(convert({"name": "a", "exact": 3}, Named).exact) == "3.0"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ('{"a": NaN}', "finite numbers only"),
        ('{"a": -Infinity}', "finite numbers only"),
        ('{"a": 1, "a": 1}', "an object that names a list of 2 was given; expected each name once"),
        ("[" * 100_000, "deep nesting"),
        ('{"a":' * 100_000, "deep nesting"),
        ('"' + "x" * 2_000_000 + '"', "at most 1000000"),
        ("1" * 10_000, "JSON"),
    ],
)
def test_texts_that_are_not_strict_json_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint):
        parse(text)


def test_data_that_is_too_deep_is_refused() -> None:
    deep: Any = 0
    for _ in range(100):
        deep = [deep]
    with pytest.raises(DocumentError, match="nested at most 64 deep"):
        convert(deep, object)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "a"}')
    assert read(tmp_path / "a.json", Named, "a name") == Named("a")
    (tmp_path / "b.json").write_text('{"name": 1}')
    with pytest.raises(ValueError, match=r"b\.json: not a name: \$\.name: 1 was given; expected a text"):
        read(tmp_path / "b.json", Named, "a name")
    (tmp_path / "c.json").symlink_to(tmp_path / "a.json")
    with pytest.raises(ValueError, match=r"c\.json: not a name: is a symbolic link"):
        read(tmp_path / "c.json", Named, "a name")


def test_reading_corrupts_no_memory_and_loads_no_tensorflow() -> None:
    """msgspec 0.22 crashes at the end of a process, one time in ten, after it has read some unions."""
    code = (
        "import sys; from gradcheck.defects import known; from gradcheck.hunt import known_graphs, events; "
        "assert known.records('reports/known', known_graphs.check); "
        "events.from_line(events.to_line(events.KnownReplayed('a', events.State.STILL, '2.21.0'))); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env=environment)


def test_numbers_of_numpy_are_written_as_those_of_python() -> None:
    data = plain({"real": np.float64(1.5), "count": np.int64(3), "infinite": np.float64(math.inf)})
    assert [(value, type(value)) for value in data.values()] == [(1.5, float), (3, int), ("inf", str)]
    with pytest.raises(TypeError, match="ndarray has no form in JSON"):
        plain([np.zeros(2)])
