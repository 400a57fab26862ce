"""No method raises NotImplementedError: variation is data, or a method that every class has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gradcheck

SOURCES = [*Path(gradcheck.__file__).parent.rglob("*.py"), *(Path(__file__).parents[2] / "strategies").rglob("*.py")]


def unimplemented(text: str) -> Iterator[str]:
    """The methods of classes that raise NotImplementedError."""
    for made in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)):
        for method in made.body:
            for node in ast.walk(method):
                if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node):
                    yield f"{made.name}.{getattr(method, 'name', '?')}"


def test_no_method_is_left_to_a_subclass() -> None:
    assert len(SOURCES) > 50
    assert [(path.name, name) for path in SOURCES for name in unimplemented(path.read_text("utf-8"))] == []


def test_one_that_is_left_is_found() -> None:
    text = "class A:\n    def f(self):\n        raise NotImplementedError\n    def g(self):\n        return 1\n"
    assert list(unimplemented(text)) == ["A.f"]
