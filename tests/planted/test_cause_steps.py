"""Sixty planted errors of the kinds that people report: each is named as such, and what follows its remedy is right."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Result, assert_step, explain
from tests import slices
from tests.planted.cause_steps import PLANTS, Plant

OF_PYTHON = {
    *("NumPy", "float", "a branch in Python", "one of two by keyword", "keyword", "overflow"),
    *("straight-through nearest", "a variable that is replaced"),
}
"""Steps that cannot be traced, or compute something else then."""
TRACED = [name for name, plant in PLANTS.items() if not plant.variables and name not in OF_PYTHON]


def result_of(plant: Plant, step: Any, mark: str = "") -> Result:
    if plant.variables:
        return assert_step(step, variables=list(plant.variables))
    return explain(step, intended=mark or ())


def told(plant: Plant, step: Any) -> str:
    """The whole text about the wrong step."""
    if not plant.variables:
        result = result_of(plant, step)
        assert (result.verdict == "agree") is plant.agrees
        return str(result)
    with pytest.raises((AssertionError, ValueError)) as caught:
        result_of(plant, step)
    return str(caught.value)


@pytest.mark.parametrize("name", PLANTS)
def test_the_cause_is_named_and_the_mended_step_is_right(name: str) -> None:
    plant = PLANTS[name]
    text = told(plant, plant.wrong)
    for part in plant.said:
        assert part in text, text
    assert result_of(plant, plant.mended, plant.holds).verdict == "agree"
    if plant.marked:
        (mark, *_) = re.findall(r'intended="([^"]+)"', text)
        assert result_of(plant, plant.wrong, mark).verdict == "agree"


@slices.parametrized("name", TRACED, slices.every(8))
def test_it_is_named_in_a_tf_function_too(name: str) -> None:
    plant = PLANTS[name]
    text = told(plant, tf.function(plant.wrong))
    for part in plant.said:
        assert part in text, text
    assert result_of(plant, tf.function(plant.mended), plant.holds).verdict == "agree"


def test_there_are_sixty() -> None:
    assert len(PLANTS) >= 60
