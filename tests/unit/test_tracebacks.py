"""The frames of an error that leaves the public API: the user's, and none of gradcheck's but that of the call."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_close, assert_step, audit, check, explain, spot_check
from gradcheck.keras import GradientMonitor
from gradcheck.tracing.tracebacks import is_internal, told_plainly
from gradcheck.tracing.user_code import OWN

check_module = import_module("gradcheck.check")


def frames(error: BaseException) -> list[str]:
    """The functions on an error's traceback, from this test's call on; those of gradcheck in angle brackets."""
    walked = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [f"<{code.co_name}>" if code.co_filename.startswith(OWN) else code.co_name for code in walked]


def inner(x: Any = None) -> Any:
    raise LookupError("mine")


def outer(x: Any = None) -> Any:
    return inner(x)


def step() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(WEIGHTS**2)
    return inner(tape.gradient(loss, WEIGHTS))


def fine() -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(WEIGHTS**2)
    return loss, [tape.gradient(loss, WEIGHTS)]


def halved(x: Any) -> Any:
    return x * tf.stop_gradient(x)


WEIGHTS = tf.Variable([1.0, 2.0])
USAGE: dict[str, tuple[Callable[[], Any], str]] = {
    "no input": (lambda: check(tf.sin), "check"),
    "an integer": (lambda: check(tf.sin, 2), "check"),
    "no tensor": (lambda: check(tf.sin, object()), "check"),
    "an option": (lambda: check(tf.sin, 1.0, order=3), "check"),
    "a name": (lambda: check(tf.sin, 1.0, skip=["y"]), "check"),
    "a given gradient": (lambda: check(tf.sin, 1.0, gradient=[1.0, 2.0]), "check"),
    "no finite value": (lambda: check(tf.math.log, 0.0), "check"),
    "assert_close": (lambda: assert_close(tf.sin, 1.0, inconclusive="never"), "assert_close"),
    "a mismatch": (lambda: assert_close(halved, 1.0), "assert_close"),
    "a doubt": (lambda: assert_close(tf.floor, 1.0), "assert_close"),
    "explain": (lambda: explain(3), "explain"),  # type: ignore[arg-type]
    "explain's variables": (lambda: explain(halved, variables=[1.0]), "explain"),
    "assert_step": (lambda: assert_step(lambda: 1.0), "assert_step"),
    "a learning rate": (lambda: assert_step(fine, learning_rate="fast"), "assert_step"),  # type: ignore[arg-type]
    "a wrong step": (lambda: assert_step(fine, variables=[WEIGHTS], learning_rate=0.1), "assert_step"),
    "audit": (lambda: audit(3), "audit"),  # type: ignore[arg-type]
    "spot_check": (lambda: spot_check(3, [WEIGHTS]), "spot_check"),  # type: ignore[arg-type]
    "GradientMonitor": (lambda: GradientMonitor(directions=0), "__init__"),
}
OWN_ERRORS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "check": (lambda: check(outer, 1.0), ["outer", "inner"]),
    "assert_close": (lambda: assert_close(outer, 1.0), ["outer", "inner"]),
    "explain": (lambda: explain(outer), ["outer", "inner"]),
    "audit": (lambda: audit(outer), ["outer", "inner"]),
    "assert_step": (lambda: assert_step(step), ["step", "inner"]),
}


@pytest.mark.parametrize("name", USAGE)
def test_an_error_of_usage_shows_the_users_frame_and_the_call(name: str) -> None:
    call, door = USAGE[name]
    with pytest.raises((TypeError, ValueError, AssertionError)) as caught:
        call()
    assert frames(caught.value)[1:] == ["<lambda>", f"<{door}>"]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert [Path(entry.path) for entry in caught.traceback.filter(caught)] == [Path(__file__)] * 2


@pytest.mark.parametrize("name", OWN_ERRORS)
def test_an_error_of_the_users_code_keeps_its_frames(name: str) -> None:
    call, own = OWN_ERRORS[name]
    with pytest.raises(RuntimeError, match="raised LookupError") as caught:
        call()
    assert frames(caught.value)[1:] == ["<lambda>", f"<{name}>"]
    assert isinstance(caught.value.__cause__, LookupError)
    assert frames(caught.value.__cause__) == own


def test_an_error_inside_of_tensorflow_has_no_frames_of_the_recorder() -> None:
    def f(x: Any) -> Any:
        return tf.reshape(x, [5])

    with pytest.raises(RuntimeError, match="it has to run before its gradients") as caught:
        explain(f, [1.0, 2.0])
    assert caught.value.__cause__ is not None
    first, *others = frames(caught.value.__cause__)
    assert first == "f"
    assert not [name for name in others if name.startswith("<")]


def ours(function: Any) -> Any:
    """The function as if it stood in a file of gradcheck."""
    return FunctionType(function.__code__.replace(co_filename=f"{OWN}planted.py"), globals())


@pytest.mark.parametrize("order", [1, 2])
def test_a_bug_of_ours_keeps_all_frames(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_: Any) -> Any:
        return {"name": 1}["planted"]

    def broken(*_: Any) -> Any:
        return np.zeros(2).reshape(3)

    for part, error in ((lookup, KeyError), (broken, ValueError)):
        monkeypatch.setattr(check_module, "first_order" if order == 1 else "second_order", ours(part))
        with pytest.raises(error) as caught:
            check(tf.sin, 1.0, order=order)
        assert is_internal(caught.value)
        assert {"<check>", "<result_of>", "<_checked>", f"<{part.__name__}>"} <= set(frames(caught.value))


def test_an_assertion_of_ours_is_internal_and_one_of_the_users_is_not() -> None:
    def fails() -> None:
        raise AssertionError

    for function, inside in ((fails, "fails"), (ours(fails), "<fails>")):
        with pytest.raises(AssertionError) as caught:
            told_plainly(function)()
        assert frames(caught.value)[1:] == ["<fails>", inside]


def test_an_error_that_was_being_handled_by_gradcheck_is_not_shown_and_one_of_the_user_is() -> None:
    try:
        inner()
    except LookupError:
        with pytest.raises(ValueError, match="order was 3") as caught:
            check(tf.sin, 1.0, order=3)
    assert isinstance(caught.value.__context__, LookupError)
    assert not caught.value.__suppress_context__


def test_the_functions_keep_their_names_signatures_and_docstrings() -> None:
    for door in (check, assert_close, explain, assert_step, audit, spot_check):
        assert door.__doc__
        assert "variables" in inspect.signature(door).parameters or door is audit
        assert getattr(gradcheck, door.__name__) is door


SCRIPT = """
import gradcheck
import tensorflow as tf

gradcheck.check(tf.sin, 2)
"""


def test_a_script_prints_its_own_line_and_that_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    told = done.stderr[done.stderr.index("Traceback") :].splitlines()
    places = [line.split('"')[1] for line in told if line.startswith("  File ")]
    assert [Path(place).name for place in places] == ["script.py", "tracebacks.py"]
    assert "    gradcheck.check(tf.sin, 2)" in told
    assert told[-1].startswith("ValueError: inputs hold int32")
