"""Which modules the package loads in a fresh interpreter, and when."""

from __future__ import annotations

import subprocess
import sys

import gradcheck


def run(source: str) -> str:
    """The output of a source text in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dir_lists_the_names_loaded_or_not() -> None:
    for line in run("import gradcheck; print(*dir(gradcheck)); gradcheck.Finding; print(*dir(gradcheck))").splitlines():
        names = line.split()
        assert set(gradcheck.__all__) <= set(names)
        assert len(names) == len(set(names))


WITHOUT_TENSORFLOW = (
    "import gradcheck",
    "import gradcheck.pytest_plugin",
    "import gradcheck.hunt.coverage",
    "import gradcheck.defects.known",
    "dir(gradcheck); gradcheck.Finding; gradcheck.GradientMismatch",
    "from gradcheck.__main__ import parser; parser()",
)


def test_tensorflow_waits() -> None:
    """In one process, one after the other: the first import that loads it is named, and those after it."""
    loaded = "print({*sys.modules} & {'tensorflow', 'keras'} or 'neither')"
    told = run("\n".join(["import sys", *(f"{source}\n{loaded}" for source in WITHOUT_TENSORFLOW)])).splitlines()
    assert dict(zip(WITHOUT_TENSORFLOW, told, strict=True)) == dict.fromkeys(WITHOUT_TENSORFLOW, "neither")


SCRIPT = """
import sys
import gradcheck
import gradcheck.check

gradcheck.assert_close
assert type(gradcheck.check).__name__ == "function", "a module of this name stands beside it"
assert "tensorflow" in sys.modules
import tensorflow as tf

x = tf.Variable([1.5, 2.0])


@tf.custom_gradient
def half(a):
    return a**2, lambda upstream: upstream * a


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x**2)
    gradient = tape.gradient(loss, x)
    tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, x)])
    return loss


assert gradcheck.check(tf.sin, 0.5, order=2).verdict == "agree"
assert gradcheck.check(half, 0.5).findings[0].diagnosis is not None
gradcheck.assert_close(tf.linalg.det, gradcheck.symmetric([[2.0, 1.0], [1.0, 3.0]]))
print(gradcheck.explain(lambda: x * tf.stop_gradient(x)), gradcheck.assert_step(step), file=sys.stderr)
print(*sys.modules, sep="\\n")
"""
ABOVE = ("gradcheck.hunt", "gradcheck.strategies", "gradcheck.pytest_plugin", "gradcheck.__main__")
TOOLS = ("hypothesis", "pytest", "_pytest", "jinja2", "msgspec")


def test_check_brings_tensorflow_and_nothing_of_the_hunt() -> None:
    """A check, an explanation and a training step load neither the hunt nor its tools."""
    # -P: only what is installed, not what lies in the current directory.
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert {"gradcheck.explain", "gradcheck.step", "executing"} <= set(loaded)
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{module}." for module in (*ABOVE, *TOOLS)))] == []
