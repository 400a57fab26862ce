from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.hunt.report.record_json import decode, encode


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    number: float
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Outer:
    words: str
    count: int
    sure: bool
    many: tuple[Inner, ...]
    maybe: float | None
    counts: Mapping[str, int]


inner = st.builds(Inner, st.floats(allow_nan=False, allow_subnormal=False), st.sampled_from(Colour))
outer = st.builds(
    Outer,
    st.text(),
    st.integers(-(2**53), 2**53),
    st.booleans(),
    st.lists(inner).map(tuple),
    st.none() | st.floats(allow_nan=False),
    st.dictionaries(st.text(), st.integers(0, 9)),
)


@given(outer)
def test_a_record_survives_json(record: Outer) -> None:
    assert decode(Outer, json.loads(json.dumps(encode(record), allow_nan=False)), "$") == record


def test_a_field_with_a_default_may_be_left_out() -> None:
    assert decode(Inner, {"number": "inf"}, "$") == Inner(float("inf"))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"number": True}, r"\$\.number: True was given"),
        ({"number": 10**400}, r"\$\.number"),
        ({"number": "NaN"}, r"\$\.number: 'NaN' was given"),
        ({"number": 1.0, "colour": "green"}, r"\$\.colour: 'green' was given; expected one of red, blue"),
        ({"number": 1.0, "colour": None}, r"\$\.colour: None was given"),
        ({}, "an object without 'number'"),
        ([1.0], "a list of 1 was given; expected an object"),
    ],
)
def test_other_types_are_refused_with_their_place(data: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode(Inner, data, "$")
