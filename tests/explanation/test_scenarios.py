"""Every scenario, as users wrote it, and the exact text that explains it.

The texts stand in scenarios.txt, where `file.py:«code»` means the line of this file on which the code stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Kind, Result, explain
from tests import slices

HERE = Path(__file__)
Code = Callable[[], Any]


def xy() -> tuple[tf.Variable, tf.Variable]:
    return tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")


def a1() -> Code:
    x = tf.Variable(1.0, name="x")
    optimizer = keras.optimizers.SGD(learning_rate=0.1)
    optimizer.build([x])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        gradient = tape.gradient(loss, x)
        optimizer.apply_gradients([(gradient, x)])
        return gradient

    return step


def a2() -> Code:
    x, _ = xy()

    def step() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            loss = s
        return tape.gradient(loss, x)

    return step


def a3() -> Code:
    x, y = xy()

    def step() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            s = s + 0 * x
            q = y**2
            loss = s + q
        return tape.gradient(loss, [x, y])

    return step


def a4() -> Code:
    x, y = xy()

    def step() -> Any:
        s = x**2
        with tf.GradientTape() as tape:
            q = y**2
            loss = s + q
        return tape.gradient(loss, [x, y])

    return step


def a5() -> Code:
    x, y = xy()

    def step() -> Any:
        with tf.GradientTape() as tape:
            s = x**2
            s = s + 0 * x
            q = y**2
            loss = s + q
        return tape.gradient(loss, [x, y])

    return step


def b1() -> Code:
    def code() -> Any:
        found = []
        for i in (1.0, 2.0, 3.0):
            x = tf.constant([i, i], tf.float64)
            with tf.GradientTape() as tape1, tf.GradientTape() as tape2:
                tape1.watch(x)
                tape2.watch(x)
                y1 = x**2
                y2 = tf.math.log(y1)
            found += [tape1.gradient(y1, x), tape2.gradient(y2, x)]
        return found

    return code


def b2() -> Code:
    def code() -> Any:
        found = []
        for i in (1.0, 2.0, 3.0):
            x = tf.constant([i, i], tf.float64)
            with tf.GradientTape() as tape2:
                tape2.watch(x)
                with tf.GradientTape() as tape1:
                    tape1.watch(x)
                    y1 = x**2
                y2 = tf.math.log(y1)
            found += [tape1.gradient(y1, x), tape2.gradient(y2, x)]
        return found

    return code


def b3() -> Code:
    x, _ = xy()

    def code() -> Any:
        with tf.GradientTape() as tape:
            y = x**2
        first = tape.gradient(y, x)
        return first, tape.gradient(y, x)

    return code


def b4() -> Code:
    def code() -> Any:
        x = tf.constant([2.0, 2.0], tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.math.log(x**2)
            dy = inner.gradient(y, x)
        return dy, outer.gradient(dy, x)

    return code


def b5() -> Code:
    def code() -> Any:
        x = tf.constant([2.0, 2.0], tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.math.log(x**2)
            dy = outer.gradient(y, x)
        return dy, inner.gradient(dy, x)

    return code


def d1() -> Code:
    x = tf.Variable(3.0, name="x")

    def code() -> Any:
        with tf.GradientTape() as tape:
            y = x**2
        return tape.gradient(y, x)

    return code


def d2() -> Code:
    w = tf.Variable([[0.5, -1.0], [2.0, 1.5], [1.0, 0.25]], dtype=tf.float64, name="w")
    b = tf.Variable([0.0, 1.0], dtype=tf.float64, name="b")
    x = tf.constant([[1.0, 2.0, 3.0]], tf.float64)

    def code() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = x @ w + b
            loss = tf.reduce_mean(y**2)
        return tape.gradient(loss, [w, b]), tape.gradient(loss, {"w": w, "b": b}), tape.gradient(loss, [{"b": b}, (w,)])

    return code


def d3() -> Code:
    keras.utils.set_random_seed(0)
    layer = keras.layers.Dense(2, activation="relu", dtype="float64", name="dense")
    x = tf.constant([[1.0, 2.0, 3.0]], tf.float64)
    layer(x)
    layer.set_weights([np.array([[0.5, -1.0], [2.0, 1.5], [1.0, 0.25]]), np.array([0.0, 1.0])])

    def code() -> Any:
        with tf.GradientTape() as tape:
            y = layer(x)
            loss = tf.reduce_mean(y**2)
        return tape.gradient(loss, layer.trainable_variables)

    return code


def d4() -> Code:
    x0 = tf.Variable(3.0, name="x0")
    x1 = tf.Variable(3.0, name="x1", trainable=False)
    x2 = tf.Variable(2.0, name="x2")
    x3 = tf.constant(3.0)

    def code() -> Any:
        total = x2 + 1.0
        with tf.GradientTape() as tape:
            y = (x0**2) + (x1**2) + (total**2)
        return tape.gradient(y, [x0, x1, total, x3])

    return code


def d5() -> Code:
    x = tf.constant(3.0)

    def code() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, x)

    return code


def d6() -> Code:
    x0, x1 = tf.Variable(0.0, name="x0"), tf.Variable(10.0, name="x1")

    def code() -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x1)
            y0 = tf.math.sin(x0)
            y1 = tf.nn.softplus(x1)
            ys = tf.reduce_sum(y0 + y1)
        return tape.gradient(ys, {"x0": x0, "x1": x1})

    return code


def d7() -> Code:
    def code() -> Any:
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            z = y * y
        return tape.gradient(z, y)

    return code


def d8() -> Code:
    x = tf.constant([1.0, 3.0])

    def code() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = y * y
        return tape.gradient(z, x), tape.gradient(y, x)

    return code


def d9() -> Code:
    x = tf.Variable(2.0, name="x")

    def code() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y0 = x**2
            y1 = 1 / x
            y = x * [3.0, 4.0]
        return tape.gradient({"y0": y0, "y1": y1}, x), tape.gradient(y, x)

    return code


def d10() -> Code:
    x = tf.constant(np.linspace(-10.0, 10.0, 201))

    def code() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.sigmoid(x)
        return tape.gradient(y, x)

    return code


def d11() -> Code:
    x = tf.constant(1.0)
    v0, v1 = tf.Variable(2.0, name="v0"), tf.Variable(2.0, name="v1")

    def code() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            if x > 0.0:  # noqa: SIM108
                result = tf.identity(v0)
            else:
                result = v1**2
        return tape.gradient(result, [x, v0, v1])

    return code


def d12() -> Code:
    variable = tf.Variable(2.0, name="x")

    def code() -> Any:
        found = []
        x = variable
        for _ in range(2):
            with tf.GradientTape() as tape:
                y = x + 1
            found.append(tape.gradient(y, x))
            x = x + 1
        return found

    return code


def d13() -> Code:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="x")

    def code() -> Any:
        with tf.GradientTape() as tape:
            x2 = x**2
            y = np.mean(x2, axis=0)
            y = tf.reduce_mean(y, axis=0)
        return tape.gradient(y, x)

    return code


def d14() -> Code:
    def code() -> Any:
        x = tf.constant(10)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    return code


def d15() -> Code:
    x0, x1 = tf.Variable(3.0, name="x0"), tf.Variable(0.0, name="x1")

    def code() -> Any:
        with tf.GradientTape() as tape:
            x1.assign_add(x0)
            y = x1**2
        return tape.gradient(y, x0)

    return code


def d15_queue() -> Code:
    x = tf.Variable(3.0, name="x")
    queue = tf.queue.FIFOQueue(1, [tf.float32], shapes=[()])

    def code() -> Any:
        with tf.GradientTape() as tape:
            queue.enqueue(x**2)
            y = 2 * queue.dequeue()
        return tape.gradient(y, x)

    return code


def d15_iterator() -> Code:
    x = tf.Variable(3.0, name="x")

    def code() -> Any:
        with tf.GradientTape() as tape:
            values = tf.data.Dataset.from_tensors(x**2)
            y = 2 * next(iter(values))
        return tape.gradient(y, x)

    return code


def d16() -> Code:
    image = tf.Variable([[[0.5, 0.0, 0.0]]], name="image")
    delta = tf.Variable(0.1, name="delta")

    def code() -> Any:
        with tf.GradientTape() as tape:
            new_image = tf.image.adjust_contrast(image, delta)
        return tape.gradient(new_image, [image, delta])

    return code


def d17() -> Code:
    x, y = tf.Variable([2.0, 2.0], name="x"), tf.Variable(3.0, name="y")

    def code() -> Any:
        with tf.GradientTape() as tape:
            z = y**2
        return tape.gradient(z, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return code


SCENARIOS = [a1, a2, a3, a4, a5, b1, b2, b3, b4, b5, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13, d14, d15]
PROGRAMS = {program.__name__: program for program in (*SCENARIOS, d15_queue, d15_iterator, d16, d17)}
TEXTS = {
    name: text.strip()
    for name, _, text in (
        part.partition("\n") for part in HERE.with_name("scenarios.txt").read_text(encoding="utf-8").split("=== ")[1:]
    )
}


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are shown relative to the current directory."""
    monkeypatch.chdir(HERE.parents[2])


REFUSED = """
  the code with its tf.function traced: NotImplementedError, raises
      Cannot #"""
TRACED = {
    "d11": ("v1: None, unconnected (the target does not depend on it, but on v0)", "v1: 0, right"),
    "d13": ("", REFUSED),
}
"""The differences inside a tf.function: its conditional gives zeros for None, and it refuses NumPy."""


LOST = {
    "a3": ("x", Cause.OUTSIDE_TAPE, 2.0),
    "a4": ("x", Cause.OUTSIDE_TAPE, 2.0),
    "b5": ("x", Cause.TAKEN_OUTSIDE, -0.5),
}
"""The exact size of what is lost."""


def lost(result: Result) -> list[tuple[str, Cause, float | None]]:
    return [(one.name, one.diagnosis.cause, one.diagnosis.lost) for one in result.sources if one.diagnosis is not None]


ALIKE = {"a1", "b1", "d1", "d2", "d5", "d8", "d10"}
"""Programs that lose nothing, beside a5, b2, b4, d3, d7, d9, d11 and d17, which lose nothing either."""


@slices.parametrized(
    ("name", "traced"),
    product(PROGRAMS, (False, True)),
    lambda _: zip([name for name in PROGRAMS if name not in ALIKE], cycle((False, True))),
)
def test_what_the_person_sees(name: str, traced: bool, lines: Callable[..., str]) -> None:
    """In eager code and inside a tf.function, which take turns in the test command."""
    program = PROGRAMS[name]
    wanted = lines(program, TEXTS[name])
    if traced:
        text = re.sub(r"Cannot convert .*", "Cannot #", str(explain(tf.function(program()))))
        eager, other = TRACED.get(name, ("", ""))
        assert eager in wanted
        assert text == (wanted.replace(eager, other) if eager else wanted + other)
    else:
        result = explain(program())
        assert str(result) == wanted
        assert name not in LOST or lost(result) == [LOST[name]]


def test_every_program_that_loses_nothing_gets_no_complaint() -> None:
    broken = {"a2", "a3", "a4", "b3", "b5", "d4", "d6", *(f"d{n}" for n in (12, 13, 14, 15, 16))}
    broken |= {"d15_queue", "d15_iterator"}
    assert {name for name, text in TEXTS.items() if text.startswith("gradcheck: mismatch")} == broken
    assert TEXTS.keys() == PROGRAMS.keys()


def test_a1_the_step_does_what_it_did_before() -> None:
    step = a1()
    explain(step)
    assert float(step()) == 2.0
    assert float(step()) == pytest.approx(1.6)


RETURNED: dict[str, Any] = {
    "a3": [0.0, 2.0],
    "a4": [None, 2.0],
    "a5": [2.0, 2.0],
    "d6": {"x0": None, "x1": 0.9999546},
    "d7": 18.0,
    "d8": ([4.0, 108.0], [2.0, 6.0]),
    "d9": (3.75, 7.0),
    "d12": [1.0, None],
    "d17": [0.0, 0.0],
}


def test_what_tensorflow_returns(subtests: pytest.Subtests) -> None:
    for name, values in RETURNED.items():
        with subtests.test(name):
            assert_returned(name, values)


def assert_returned(name: str, values: Any) -> None:
    for code in (PROGRAMS[name](), tf.function(PROGRAMS[name]())):
        given = tf.nest.map_structure(lambda part: None if part is None else part.numpy(), code())
        flat = [None if part is None else np.asarray(part).tolist() for part in tf.nest.flatten(given)]
        wanted = tf.nest.flatten(values)
        assert np.ravel([part for part in flat if part is not None]).tolist() == pytest.approx(
            [part for part in wanted if part is not None], rel=1e-6
        )
        assert sum(part is None for part in flat) == sum(part is None for part in wanted)


def test_a_call_that_raises_is_a_finding() -> None:
    (finding,) = explain(b3()).findings
    assert finding.kind is Kind.RAISES


def test_a_gradient_with_rows_that_a_variable_does_not_have_is_a_finding() -> None:
    variable = tf.Variable([2.0, 3.0])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather_nd(variable, [[0], [2]], bad_indices_policy="IGNORE"))
        return tape.gradient(loss, variable)

    (finding,) = explain(step).findings
    assert finding.kind is Kind.RAISES
    assert "out of range [0, 2)" in finding.reason
