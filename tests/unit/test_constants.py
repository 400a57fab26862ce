"""The tables of constants: each number of numerics and verdict has a row, with its value and a test that needs it."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("numerics", "verdict")
MOST = 110


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_table_has_a_row_for_each_constant_with_its_value(instrument: Callable[[str], Any], folder: str) -> None:
    written = {name: row.value for name, row in instrument("constants").rows(folder).items()}
    names = [one.place for one in instrument("constants").constants(folder)]
    assert list(written) == names
    for name in names:
        module, _, constant = name.partition(".")
        value = getattr(importlib.import_module(f"gradcheck.{folder}.{module}"), constant)
        assert eval(written[name], {"eps": 2.0**-53, "tiny": 2.0**-1022}) == value, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tests_that_the_table_names_exist(instrument: Callable[[str], Any], folder: str) -> None:
    for name, row in instrument("constants").rows(folder).items():
        path, _, test = row.test.partition("::")
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_constants_are_few_and_no_name_has_two_meanings(instrument: Callable[[str], Any]) -> None:
    names = [one.name for folder in FOLDERS for one in instrument("constants").constants(folder)]
    assert len(names) <= MOST
    assert [name for name, count in Counter(names).items() if count > 1] == []
