"""TensorFlow's functions are replaced inside a block, what happens is observed, and everything is put back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import tensorflow as tf

from gradcheck.autodiff.interception import derivatives_observed, gradients_looked_up, patched
from gradcheck.explanation.record import HostRead, RecordedOperation, TapeChange
from gradcheck.explanation.recorder import CodeRecorder


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


class Notes(CodeRecorder):
    """Makes Python read ten times a tensor's value."""

    def read(self, tensor: Any, method: str) -> Any:
        return 10.0 * super().read(tensor, method)


def test_tapes_are_observed_and_their_answers_may_be_changed() -> None:
    notes, x = CodeRecorder(), tf.Variable(2.0)
    heard: list[Any] = []

    def hook(tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
        heard.append((method, sorted(arguments)))
        return 3.0 * compute()

    with notes.observing(operations=False), derivatives_observed(hook):
        with tf.GradientTape() as tape:
            y = x**2
        assert float(tape.gradient(y, sources=x)) == 12.0
        with pytest.raises(TypeError, match="nothing"):
            tape.gradient(y, x, nothing=1)
    assert [event.change for event in notes.events if isinstance(event, TapeChange)] == ["opened", "closed"]
    assert heard == [("gradient", ["sources", "target"])]
    assert [(call.method, call.sources) for call in notes.events[2:]] == [("gradient", (x,))]  # type: ignore[union-attr]


def test_operations_and_host_reads_are_observed() -> None:
    notes, x = Notes(), tf.Variable(2.0)
    with notes.observing():
        assert float(tf.function(lambda: x * 2.0)()) == 40.0
    operations = [event.name for event in notes.events if isinstance(event, RecordedOperation) and not event.backward]
    assert operations[:3] == ["ReadVariableOp", "Const", "Mul"]
    assert "__float__" in [event.method for event in notes.events if isinstance(event, HostRead)]
    assert notes.calls_functions


@pytest.fixture
def functions() -> list[Any]:
    return [tf.GradientTape.gradient, tf.GradientTape._push_tape, tf.config.functions_run_eagerly()]


def unchanged(tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
    return compute()


OBSERVED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "everything": lambda: CodeRecorder().observing(),
    "tapes": lambda: CodeRecorder().observing(operations=False),
    "derivatives": lambda: derivatives_observed(unchanged),
}


@pytest.mark.parametrize("observed", OBSERVED.values(), ids=OBSERVED)
def test_observing_changes_nothing(observed: Callable[[], AbstractContextManager[None]], functions: list[Any]) -> None:
    x = tf.Variable(2.0)
    with observed():
        with tf.GradientTape() as tape:
            y = tf.square(x) + float(x)
        assert float(tape.gradient(y, x)) == 4.0
    assert [tf.GradientTape.gradient, tf.GradientTape._push_tape, tf.config.functions_run_eagerly()] == functions


def test_gradients_are_named_in_text_in_a_graph_too() -> None:
    names: list[Any] = []

    def looked_up(name: str, function: Any) -> Any:
        names.append(name)
        return function

    @tf.custom_gradient
    def halved(x: tf.Tensor) -> Any:
        return x / 2.0, lambda dy: dy / 2.0

    @tf.function
    def slope(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(halved(x))
        return tape.gradient(y, x)

    @tf.function
    def of_the_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.gradients(tf.sin(halved(x)), x)[0]

    with gradients_looked_up(looked_up):
        slope(tf.constant(1.0))
        of_the_graph(tf.constant(1.0))
    assert "Sin" in names
    assert any(name.startswith("CustomGradient") for name in map(str, names)), names
    assert all(isinstance(name, str) for name in names), names
