"""TensorFlow's functions are replaced inside a block, the observer hears of what happens, and all is put back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import tensorflow as tf

from gradcheck.explanation.interception import (
    Observer,
    host_reads_observed,
    operations_observed,
    patched,
    tapes_observed,
)


class Base:
    def value(self) -> int:
        return 1


class Derived(Base):
    pass


def plus_one(original: Any, *args: Any) -> Any:
    return original(*args) + 1


@pytest.mark.parametrize("owner", [Base, Derived])
def test_a_method_is_put_back_where_it_was(owner: type[Base]) -> None:
    def interrupted() -> None:
        with patched((owner, "value", plus_one), (owner, "value", plus_one)):
            assert owner().value() == 3
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Derived().value() == Base().value() == 1
    assert "value" not in vars(Derived)


class Notes(Observer):
    """Keeps the names of what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def after_operation(self, name: str, inputs: Any, outputs: list[Any], attrs: Any) -> list[Any]:
        self.heard.append(name)
        return outputs

    def host_read(self, tensor: Any, method: str) -> Any:
        self.heard.append(method)
        return 10.0 * tensor

    def tape_changed(self, tape: Any, change: str) -> None:
        self.heard.append(change)

    def derivative_requested(self, tape: Any, method: str, arguments: dict[str, Any], compute: Any) -> Any:
        self.heard.append((method, sorted(arguments)))
        return compute(output_gradients=tf.constant(3.0))


Observed = Callable[[Observer], AbstractContextManager[None]]


def test_tapes_are_observed_and_their_answers_may_be_changed() -> None:
    notes, x = Notes(), tf.Variable(2.0)
    with tapes_observed(notes):
        with tf.GradientTape() as tape:
            y = x**2
        assert float(tape.gradient(y, sources=x)) == 12.0
        with pytest.raises(TypeError, match="nothing"):
            tape.gradient(y, x, nothing=1)
    assert notes.heard == ["opened", "closed", ("gradient", ["sources", "target"])]


def test_operations_and_host_reads_are_observed() -> None:
    notes, x = Notes(), tf.Variable(2.0)
    with operations_observed(notes), host_reads_observed(notes):
        assert float(tf.function(lambda: x * 2.0)()) == 40.0
    assert notes.heard[:3] == ["ReadVariableOp", "Const", "Mul"]
    assert "__float__" in notes.heard


@pytest.fixture
def functions() -> list[Any]:
    return [tf.GradientTape.gradient, tf.GradientTape._push_tape, tf.config.functions_run_eagerly()]


@pytest.mark.parametrize("observed", [operations_observed, host_reads_observed, tapes_observed])
def test_an_observer_that_overrides_nothing_changes_nothing(observed: Observed, functions: list[Any]) -> None:
    x = tf.Variable(2.0)
    with observed(Observer()):
        with tf.GradientTape() as tape:
            y = tf.square(x) + float(x)
        assert float(tape.gradient(y, x)) == 4.0
    assert [tf.GradientTape.gradient, tf.GradientTape._push_tape, tf.config.functions_run_eagerly()] == functions
