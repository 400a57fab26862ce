"""Drawn attributes are literals within what the operation offers."""

from __future__ import annotations

from typing import Any

import pytest
from gradcheck.strategies.graphs import signatures, starts
from gradcheck.strategies.values import alternatives, attributes, offered
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.opspec import Choice, Indices

OPERATIONS = [(op, shapes) for op in CATALOGUE for shapes in signatures(op, starts(op)[0])[:2] if offered(op, shapes)]


def _admitted(attribute: Any, value: Any) -> bool:
    if isinstance(attribute, Choice):
        return value in attribute.values
    assert isinstance(attribute, Indices)
    return (
        len(value) == attribute.count
        and all(0 <= element < attribute.below for element in value)
        and (not attribute.distinct or len(set(value)) == attribute.count)
        and (not attribute.sorted or list(value) == sorted(value))
    )


@pytest.mark.parametrize(("op", "shapes"), OPERATIONS, ids=lambda case: str(case))
def test_attributes_are_what_the_operation_offers(op: str, shapes: Any) -> None:
    @settings(max_examples=25, database=None, derandomize=True, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        drawn = attributes(data.draw, op, shapes)
        assert drawn.keys() == offered(op, shapes).keys()
        assert all(_admitted(offered(op, shapes)[name], value) for name, value in drawn.items())

    run()
    others = list(alternatives(op, shapes))
    assert others
    assert all(_admitted(offered(op, shapes)[name], value) for other in others for name, value in other.items())
