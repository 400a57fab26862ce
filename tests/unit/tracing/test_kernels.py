"""The table of kernels: every name in it is one of TensorFlow's, and no other file of the library lists some."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from gradcheck.tracing import kernels

LIBRARY = Path(kernels.__file__).parents[1]
OTHERS = {"tracing/kernels.py", "tracing/float64_kernels.py", "diagnosis/not_finite_value.py"}
"""The files that may list kernels, beside the operations of the hunt."""
MADE_EAGERLY = {"_EagerConst"}


def is_kernel(name: object) -> bool:
    return isinstance(name, str) and hasattr(tf.raw_ops, name)


def test_every_name_is_one_of_tensorflows() -> None:
    tables = {name: table for name, table in vars(kernels).items() if name.isupper()}
    assert len(tables) > 25
    names = {kernel for name, table in tables.items() if name not in ("UPDATES", "HOLDERS") for kernel in table}
    assert {name for name in names if op_def_registry.get(name) is None} - MADE_EAGERLY == set()
    for beginning in kernels.UPDATES + kernels.HOLDERS:
        assert any(name.startswith(beginning) for name in dir(tf.raw_ops)), beginning


def lists(source: str) -> Iterator[int]:
    """The lines of the displays that name two kernels or more."""
    for node in ast.walk(ast.parse(source)):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        if (
            isinstance(node, ast.expr)
            and sum(isinstance(one, ast.Constant) and is_kernel(one.value) for one in parts) > 1
        ):
            yield node.lineno


def test_no_other_file_lists_kernels() -> None:
    paths = {path.relative_to(LIBRARY).as_posix(): path for path in LIBRARY.rglob("*.py")}
    found = {
        f"{name}:{line}"
        for name, path in paths.items()
        if name not in OTHERS and not name.startswith("operations/")
        for line in lists(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_a_planted_list_is_found() -> None:
    assert list(lists('A = 1\nB = {"Floor", "Ceil"}\nC = ("Floor", "floor")\nD = {"Floor": 1, "Ceil": 2}')) == [2, 4]
