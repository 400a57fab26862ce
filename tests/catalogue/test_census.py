"""The census of registered gradients is that of the installed TensorFlow, and the catalogue claims nothing else."""

from __future__ import annotations

import tensorflow as tf  # noqa: F401  # registers the gradients

from gradcheck.hunt.census import Judgement, census, gradient_functions
from gradcheck.operations.catalogue import CATALOGUE

OURS = ("CustomGradient-",)
"""What tf.custom_gradient registers for a function, and so do we."""


def test_it_names_every_gradient_that_is_registered_and_no_other() -> None:
    functions = gradient_functions().items()
    found = {name for name, function in functions if function is not None and not name.startswith(OURS)}
    assert sorted(found - set(census())) == [], "a release of TensorFlow brings gradients that the census does not name"
    assert sorted(set(census()) - found) == []


def test_its_functions_are_those_that_are_registered() -> None:
    functions = gradient_functions()
    wrong = {
        name: row.function
        for name, row in census().items()
        if row.function.rpartition(".")[2] != functions[name].__name__ and functions[name].__name__ != "<lambda>"
    }
    assert wrong == {}


def test_what_the_catalogue_claims_is_there_and_can_be_reached() -> None:
    reachable = {name for name, row in census().items() if row.reachable}
    offenders = {name: set(spec.gradients) - reachable for name, spec in CATALOGUE.items()}
    assert {name: claimed for name, claimed in offenders.items() if claimed} == {}


def test_what_differences_do_not_judge_has_a_reason() -> None:
    for row in census().values():
        assert row.note or row.judgement is Judgement.DIFFERENCES
