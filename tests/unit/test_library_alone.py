"""The library stands alone: a check, an explanation and a training step load neither the hunt nor its tools."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import gradcheck
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


def test_the_library_loads_nothing_of_the_hunt() -> None:
    # -P: only what is installed, not what lies in the current directory.
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert {"gradcheck.explain", "gradcheck.step", "executing"} <= set(loaded)
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{module}." for module in (*ABOVE, *TOOLS)))] == []
