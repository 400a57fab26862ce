"""TensorFlow's functions are replaced inside a block, what happens is observed, and all is put back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager import core

from gradcheck.tracing import hooks
from gradcheck.tracing.hooks import derivatives_observed, gradients_looked_up, patched
from gradcheck.tracing.record import HostRead, RecordedOperation, TapeChange
from gradcheck.tracing.recorder import CodeRecorder


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
    """Lets Python read ten times a tensor's value."""

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


def test_functions_of_datasets_are_traced_under_the_setting_of_their_user() -> None:
    settings: list[bool] = []

    def noted(n: Any) -> Any:
        settings.append(tf.config.functions_run_eagerly())
        return n

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hooks.functions_run_eagerly(), hooks.functions_run_eagerly():
            list(mapped().map(noted))
            assert tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        with hooks.functions_run_eagerly(False), pytest.warns(UserWarning, match="does not apply to tf.data functions"):
            mapped().map(noted)
        assert tf.config.functions_run_eagerly()
    finally:
        tf.config.run_functions_eagerly(False)
    assert settings == [False, True]


def test_vectorised_loops_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logger = tf.get_logger()
    logger.addHandler(caplog.handler)
    try:
        with hooks.functions_run_eagerly():
            jacobians()
            tf.vectorized_map(tf.square, tf.constant([1.0, 2.0]))
            assert tf.config.functions_run_eagerly()
        assert "function behavior was disabled" not in caplog.text
        tf.config.run_functions_eagerly(True)
        jacobians()
    finally:
        tf.config.run_functions_eagerly(False)
        logger.removeHandler(caplog.handler)
    assert "function behavior was disabled" in caplog.text


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


def traced() -> Any:
    return tf.function(lambda x: x * 2.0, autograph=False)(tf.constant(1.0))


def differentiated() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.reset()
        tape.watch(x)
        y = x**2
    tape.gradient(y, x)


def jacobians() -> None:
    x = tf.constant([[1.0, 2.0]])
    for method in ("jacobian", "batch_jacobian"):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        getattr(tape, method)(y, x)


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return x * 2.0, lambda upstream: upstream * 2.0


def custom() -> Any:
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = doubled(x)
    return tape.gradient(y, x)


def retraced() -> None:
    function = tf.function(lambda x: x)
    for number in range(6):
        function(number)


def in_session() -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.constant(1.0))


def queued() -> None:
    queue = tf.queue.FIFOQueue(9, tf.float32, shapes=[[]])
    for value in (1.0, 2.0, 3.0):
        queue.enqueue(value)
    queue.enqueue_many([[4.0, 5.0]])
    queue.dequeue(), queue.dequeue_many(1), queue.dequeue_up_to(1)


def iterated() -> None:
    for read in (next, lambda iterator: iterator.get_next_as_optional()):
        read(iter(tf.data.Dataset.range(2)))


def mapped() -> tf.data.Dataset:
    return tf.data.Dataset.range(2).map(lambda n: n + 1).filter(lambda n: n > 0)


def written() -> None:
    with tf.io.gfile.GFile("a.txt", "w") as file:
        file.write("a")
    tf.io.TFRecordWriter("b.tfrecord").close()


def summarised() -> None:
    with tf.summary.create_file_writer(".").as_default():
        tf.summary.write("a", 1.0, step=1)
    with tf.Graph().as_default(), tf.compat.v1.summary.FileWriter(".") as writer:
        writer.add_summary(tf.compat.v1.Summary(), 1)


DRAWS: dict[str, Callable[[], Any]] = {
    "random_standard_normal": lambda: tf.random.normal([2]),
    "random_uniform": lambda: tf.random.uniform([2]),
    "truncated_normal": lambda: tf.random.truncated_normal([2]),
    "random_uniform_int": lambda: tf.random.uniform([2], maxval=3, dtype=tf.int32),
    "multinomial": lambda: tf.random.categorical([[0.0, 1.0]], 2),
    "random_shuffle": lambda: tf.random.shuffle([1, 2]),
}
READS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: tf.constant(1.0).numpy(),
    "__array__": lambda: tf.constant(1.0).__array__(),
    "__float__": lambda: float(tf.constant(1.0)),
    "__int__": lambda: int(tf.constant(1)),
    "__bool__": lambda: bool(tf.constant(True)),
    "__index__": lambda: [0, 1][tf.constant(1)],
    "__complex__": lambda: complex(tf.constant(1.0)),
}

PROGRAMS: dict[str, Callable[[], Any]] = {
    "FAST_EXECUTION": lambda: tf.sin(tf.constant(1.0)),
    **dict.fromkeys(("KERNEL", "GRAPH_OPERATION", "FUNCTION_CALL", "GRAPH_CALL"), traced),
    "CONSTANT": lambda: tf.constant(1.0),
    **dict.fromkeys(("TAPE_PUSH", "TAPE_POP", "TAPE_RESET", "TAPE_WATCH", "TAPE_ENTER"), differentiated),
    **dict.fromkeys(("GRADIENT_LOOKUP", "DERIVATIVES[gradient]"), differentiated),
    **{f"DERIVATIVES[{name}]": jacobians for name in ("jacobian", "batch_jacobian")},
    **dict.fromkeys(("GRADIENT_DEFINITION", "CUSTOM_GRADIENT", "VARIABLE_ACCESS"), custom),
    "CUSTOM_GRADIENT_IN_GRAPHS": lambda: tf.function(doubled)(tf.constant(1.0)),
    "STOP_GRADIENT": lambda: tf.stop_gradient(tf.constant(1.0)),
    "PYTHON_FUNCTION": lambda: tf.py_function(lambda x: x, [tf.constant(1.0)], tf.float32),
    "VECTORISED": jacobians,
    "RETRACING_WARNING": retraced,
    "SESSION_RUN": in_session,
    "DATASET_FUNCTION": mapped,
    "ITERATOR_MADE": iterated,
    **{f"ITERATOR_READS[{number}]": iterated for number in range(len(hooks.ITERATOR_READS))},
    **{f"QUEUE_CALLS[{number}]": queued for number in range(len(hooks.QUEUE_CALLS))},
    **dict.fromkeys(("FILE_WRITE", "RECORD_WRITE"), written),
    **dict.fromkeys(("SUMMARY_DECISION", "SUMMARY_EVENT"), summarised),
    **{f"RANDOM_OPERATIONS[{name}]": draw for name, draw in DRAWS.items()},
    **{f"HOST_READS[{name}]": read for name, read in READS.items()},
}
"""For each hook a program in which TensorFlow calls it."""


def all_hooks() -> dict[str, hooks.Hook]:
    found = {}
    for name, value in vars(hooks).items():
        if isinstance(value, tuple) and name.isupper() and isinstance(value[1], str):
            found[name] = value
        elif isinstance(value, (tuple, dict)) and name.isupper() and name != "SIGNATURES":
            several = value if isinstance(value, dict) else dict(enumerate(value))
            found |= {f"{name}[{key}]": hook for key, hook in several.items()}
    return found


@pytest.mark.parametrize("name", [name for name in all_hooks() if name != "EXECUTION"])
def test_tensorflow_comes_by_each_hook(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = []

    def counted(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(*args, **kwargs)

    with patched((*all_hooks()[name], counted)):
        PROGRAMS[name]()
    assert calls


def test_operations_come_by_the_slow_path_where_the_fast_one_is_refused() -> None:
    seen = []

    def refuse(original: Any, *_: Any) -> Any:
        raise core._FallbackException  # as TensorFlow does itself

    def noted(original: Any, op_name: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(op_name)
        return original(op_name, *args, **kwargs)

    with patched((*hooks.FAST_EXECUTION, refuse), (*hooks.EXECUTION, noted)):
        tf.sin(tf.constant(1.0))
    assert [tf.compat.as_str(one) for one in seen] == ["Sin"]
