"""Every example in a docstring runs, and prints the output below it."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from gradcheck.operations.registry import REGISTERED, forget

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def _with_examples() -> list[str]:
    names = []
    for folder, package in (("gradcheck", "gradcheck"), ("strategies", "gradcheck.strategies")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>>" in path.read_text(encoding="utf-8"):
                parts = [part for part in path.relative_to(ROOT / folder).with_suffix("").parts if part != "__init__"]
                names.append(".".join([package, *parts]))
    return [*names, "tests.catalogue.surface"]


@pytest.mark.parametrize("name", _with_examples())
def test_the_examples_of_a_module_run(name: str) -> None:
    outcome = doctest.testmod(import_module(name), optionflags=FLAGS)
    forget(list(REGISTERED))  # other tests of this process would draw an operation that stays
    assert outcome.attempted
    assert not outcome.failed
