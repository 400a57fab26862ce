"""Drawn attributes are literals among those that the operation offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from gradcheck.strategies.graphs import signatures, starts
from gradcheck.strategies.values import alternatives, attributes, offered
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Choice, Indices
from tests import slices

OPERATIONS = [(op, shapes) for op in CATALOGUE for shapes in signatures(op, starts(op)[0])[:2] if offered(op, shapes)]
DIFFERENT = {tuple(offered(op, shapes).items()): (op, shapes) for op, shapes in OPERATIONS}.values()


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


def _are_offered(op: str, shapes: Any, chosen: Mapping[str, Any]) -> bool:
    what = offered(op, shapes)
    return chosen.keys() == what.keys() and all(_admitted(what[name], value) for name, value in chosen.items())


@pytest.mark.sliced
@settings(max_examples=25 if slices.whole else 10, database=None, derandomize=True, deadline=None)
@given(st.data())
def test_attributes_are_what_the_operation_offers(data: st.DataObject) -> None:
    """One of several operations that offer the same: a draw depends on nothing else."""
    drawn = {(op, shapes): attributes(data.draw, op, shapes) for op, shapes in DIFFERENT}
    assert {case: values for case, values in drawn.items() if not _are_offered(*case, values)} == {}


def test_alternatives_are_what_the_operation_offers() -> None:
    found = {case: list(alternatives(*case)) for case in OPERATIONS}
    assert [case for case, others in found.items() if not others] == []
    wrong = {case: [one for one in others if not _are_offered(*case, one)] for case, others in found.items()}
    assert {case: others for case, others in wrong.items() if others} == {}
