"""`python -m gradcheck audit`: functions by name, saved models by folder, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import gradcheck
from gradcheck.__main__ import IN_PYTHON

COMMITTED = Path(__file__).parents[2] / "reports" / "known"
CODE = """
import tensorflow as tf

weight = tf.Variable([0.0, 2.0])
ones = tf.Variable([1.0, 2.0])
number = 3


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.math.cumprod(weight))
    weight.assign_sub(tape.gradient(loss, weight))
    return loss


def right():
    return tf.reduce_sum(tf.sin(ones))


def trained():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.sin(ones))
    return loss, [tape.gradient(loss, ones)]


def once():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.math.special.bessel_j1(weight))
    return tape.gradient(loss, weight)


def twice():
    with tf.GradientTape() as tape:
        penalty = tf.reduce_sum(once() ** 2)
    return tape.gradient(penalty, weight)


def of(x, y=1):
    return x


def silent():
    tf.math.cumprod(weight)


def broken():
    raise ValueError("no data")


def ending():
    raise SystemExit(0)


def lazy():
    from {name}_data import value

    return tf.math.cumprod(weight * value)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A user's module with a name of its own in the working directory, and the installed records."""
    monkeypatch.setattr("gradcheck.defects.known.installed", lambda: COMMITTED)
    name = f"audited_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(CODE.replace("{name}", name))
    (tmp_path / f"{name}_data.py").write_text("value = 1.0\n")
    (tmp_path / f"{name}_script.py").write_text("def step(): pass\n\n\nraise SystemExit(0)\n")
    return name


def test_a_step_in_a_region_exits_with_1(call: Any, module: str) -> None:
    said = call("audit", f"{module}:step")
    assert (said.code, said.next) == (1, "python -m gradcheck known show cumprod-zero-order1")
    assert said.out.startswith("gradcheck audit of step: 1 in the region of a known defect\n")
    assert f"{module}.py:11: loss = tf.reduce_sum(tf.math.cumprod(weight))\n" in said.out
    assert "in its region with these values" in said.out
    data = call("audit", f"{module}:step", "--json").json
    assert (data["format"], data["exit_code"]) == ("gradcheck audit", 1)
    assert [one["name"] for one in data["operations"][0]["defects"]] == ["cumprod-zero-order1", "cumprod-zero-order2"]
    assert data["operations"][0]["defects"][0]["inside"] is True
    assert any("known defects that no kernel and no call identifies" in one for one in data["not_seen"])


def test_second_derivatives_that_are_wrong_count_if_the_code_takes_them(call: Any, module: str) -> None:
    once, twice = call("audit", f"{module}:once"), call("audit", f"{module}:twice")
    assert (once.code, twice.code) == (0, 1)
    assert "the code takes first derivatives alone, of which none is wrong here" in once.out.partition("\n")[0]
    assert "first derivatives alone" not in twice.out
    assert [call("audit", f"{module}:{name}", "--json").json["order"] for name in ("once", "twice")] == [1, 2]


def test_the_code_is_left_as_it_was(call: Any, module: str) -> None:
    call("audit", f"{module}:step")
    assert sys.modules[module].weight.numpy().tolist() == [0.0, 2.0]


def test_what_the_function_imports_from_here_when_it_is_called_is_there(
    call: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The console script, unlike python -m, does not have the working directory on its path."""
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(Path.cwd()))])
    before = [*sys.path]
    said = call("audit", f"{module}:lazy")
    assert said.code == 1, said.err
    assert sys.path == before


def test_the_version_is_printed(call: Any) -> None:
    said = call("--version")
    assert (said.code, said.out) == (0, f"gradcheck {gradcheck.__version__}\n")


def test_what_is_no_command_but_a_function_is_answered_with_its_call(call: Any) -> None:
    said = call("explain", "train:step")
    assert (said.code, said.out) == (2, "")
    assert said.err == "python -m gradcheck: error: explain is called in Python: print(gradcheck.explain(step))\n"
    for name, written in IN_PYTHON.items():
        assert f"gradcheck.{name}(" in written
        assert name in gradcheck.__all__
        assert call(name).code == 2


def test_right_code_exits_with_0(call: Any, module: str) -> None:
    said = call("audit", f"{module}:right")
    assert (said.code, said.next) == (0, "compare with gradcheck.check(f, x)")
    assert "no operation with a known defect" in said.out


def test_a_step_with_tapes_of_its_own_is_compared_as_a_step(call: Any, module: str) -> None:
    written = "compare with print(gradcheck.explain(trained)), or in a test gradcheck.assert_step(trained)"
    assert call("audit", f"{module}:trained").next == written
    trained = sys.modules[module].trained
    assert "agree" in str(gradcheck.explain(trained))
    assert gradcheck.assert_step(trained, variables=[sys.modules[module].ones]).verdict == "agree"


def test_a_saved_model_is_read_and_not_run(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.math.cumprod(y)), (0, x))[1]

    tf.saved_model.save(Model(), str(tmp_path / "model"))
    monkeypatch.setattr("gradcheck.defects.known.installed", lambda: COMMITTED)
    monkeypatch.setattr(tf.saved_model, "load", lambda *_: pytest.fail("the model was loaded"))
    said = call("audit", "model")
    assert said.code == 0, "whether it lies in the region depends on values"
    assert "gradcheck audit of model: 1 perhaps in one\nCumprod: while/Cumprod in while_body_" in said.out
    assert "what decides is not known here" in said.out


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("train", "TARGET was 'train'; expected module:function, or the folder of a SavedModel"),
        ("no_such_module:f", "no_such_module: cannot be imported (ModuleNotFoundError"),
        ("{}.py:step", "; write {}:step"),
        ("{}:nothing", "has no nothing; name a function of it as"),
        ("{}:number", "is of type int; a function was expected"),
        ("{}:of", "takes x; a function without arguments was expected"),
        ("{}:broken", "f raised ValueError: no data; it has to run before its operations can be audited"),
        ("{}:ending", "ended the process (SystemExit: 0) before its operations could be audited; let it return"),
        ("{}_script:step", "cannot be imported (SystemExit: 0); put what it runs below `if __name__ == "),
        ("{}:silent", "returns no tensor, of an operation: nothing was audited; let it return its loss"),
        ("{}.py", "a file; a folder written by tf.saved_model.save or model.export was expected"),
        (".", "cannot be read as a saved model"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(call: Any, module: str, target: str, complaint: str) -> None:
    said = call("audit", target.format(module))
    assert (said.code, said.out) == (2, "")
    assert complaint.format(module) in said.err
