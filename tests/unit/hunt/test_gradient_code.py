"""Where gradients are written: a function's lines, those of the helpers that it calls, and which of them ran."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradcheck.hunt.gradient_code import code_of, helpers_of, registered_code

MODULE = """
def decorated(function):
    return function


@decorated
def gradient(op, grad):
    '''A sentence.'''
    if op:
        return _helper(grad)
    return shared(grad)


def _helper(grad):
    def inner():
        return deeper(grad)

    return inner()


def deeper(grad):
    return grad


def shared(grad):
    return 2 * grad


def never_called(grad):
    return gradient(grad, grad)


def make():
    def made(op, grad):
        return grad

    return made


by_text = lambda op, grad: grad
made = make()
"""


@pytest.fixture(params=["some_grad.py", "some_ops.py"])
def module(tmp_path: Path, request: pytest.FixtureRequest) -> SimpleNamespace:
    path = tmp_path / request.param
    path.write_text(MODULE)
    return SimpleNamespace(**runpy.run_path(str(path)))


def test_a_function_s_lines_are_those_of_its_body(module: SimpleNamespace) -> None:
    code = code_of(module.gradient)
    assert code is not None
    text = MODULE.splitlines()
    assert (text[code.start - 1], text[code.last - 1]) == ("@decorated", "    return shared(grad)")
    assert 7 not in code
    assert code.last in code


def test_a_function_that_another_one_makes(module: SimpleNamespace) -> None:
    code = code_of(module.made)
    assert code is not None
    assert code.name == "made"


@pytest.mark.parametrize("function", [len, "text", None])
def test_what_is_not_written_in_python_has_no_code(function: object) -> None:
    assert code_of(function) is None  # type: ignore[arg-type]
    assert registered_code({"Some": function}) == {}


def test_helpers_are_what_is_called_if_it_is_written_for_gradients(module: SimpleNamespace) -> None:
    """All functions of a file of gradients; elsewhere the private ones, since a public function is an operation."""
    codes = registered_code({"Some": module.gradient, "None": None})
    found = {code.name for code in helpers_of(codes.values())}
    private = {"gradient", "_helper"}
    assert found == (private | {"inner", "deeper", "shared"} if "grad" in str(module.__file__) else private)
