"""Everything that a step changes is restored, even if it fails; what cannot be restored is refused, by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import assert_step
from tests import slices

Step = Callable[..., Any]


class Everything:
    """A model in training with everything that a step changes: batch normalisation, dropout, Adam's slots, metrics."""

    def __init__(self) -> None:
        keras.utils.set_random_seed(5)
        layers = [keras.layers.Dense(1), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=3)]
        self.model = keras.Sequential([keras.layers.Input((2,), dtype="float64"), *layers])
        self.optimizer = keras.optimizers.Adam(0.1)
        self.metric = keras.metrics.Mean()
        self.generator = tf.random.Generator.from_seed(3)
        self.rng = np.random.default_rng(3)
        self.bias = self.model.trainable_variables[-1].value
        self.x = tf.constant(np.random.default_rng(1).normal(size=(4, 2)))

    def step(self) -> Any:
        """Draws from every generator and changes every variable."""
        noise = random.random() + np.random.uniform() + self.rng.uniform()
        noise += float(tf.random.normal(())) + float(self.generator.normal(()))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.cast(self.model(self.x, training=True), tf.float64) - noise) ** 2)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.metric.update_state(loss)
        return loss

    def state(self) -> list[Any]:
        """All of the state, without changing it."""
        held = [*self.model.variables, *self.optimizer.variables, *self.metric.variables, self.generator.state]
        numbers = [variable.numpy() for variable in held]
        drawing: Any = np.random.get_state()
        return [*numbers, *drawing[1:], np.array(random.getstate()[1]), self.rng.bit_generator.state]


@pytest.fixture
def everything() -> Everything:
    made = Everything()
    tf.random.set_seed(3)
    random.seed(3)
    made.step()
    return made


def assert_same(one: list[Any], two: list[Any]) -> None:
    assert len(one) == len(two)
    for before, after in zip(one, two, strict=True):
        np.testing.assert_array_equal(before, after)


def seed() -> None:
    tf.random.set_seed(9)
    random.seed(9)
    np.random.seed(9)


def drawn() -> list[float]:
    return [random.random(), float(np.random.uniform()), float(tf.random.normal(()))]


def test_all_that_a_step_changes(everything: Everything) -> None:
    before = everything.state()
    assert_step(everything.step, variables=[everything.bias], rtol=1e-2, atol=1e-3)
    assert_same(before, everything.state())
    everything.step()
    changed = [not np.array_equal(a, b) for a, b in zip(before, everything.state(), strict=True)]
    # All but the learning rate, and three of the four parts of NumPy's generator, of which only the position advances.
    assert sum(changed) == len(before) - 4


@slices.parametrized(
    ("late", "error"),
    product((False, True), (ZeroDivisionError, KeyboardInterrupt, SystemExit)),
    lambda cases: cases[::2],
)
def test_whatever_happens(everything: Everything, error: type[BaseException], late: bool) -> None:
    patched = [
        tf.GradientTape.gradient,
        keras.optimizers.Optimizer.apply,
        tf.clip_by_norm,
        open,
        np.clip,
        tf.Variable.assign,
    ]

    class Counter:  # classes are not searched, so that it keeps counting
        count = 0

    def step() -> Any:
        loss = everything.step()
        Counter.count += 1
        if Counter.count > 5 * late:
            raise error
        return loss

    seed()
    first = drawn()
    seed()
    before = everything.state()
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        assert_step(step, variables=[everything.bias])
    assert isinstance(caught.value, error) or isinstance(caught.value.__cause__, error) or late
    assert_same(before, everything.state())
    assert drawn() == first
    assert patched == [
        *(tf.GradientTape.gradient, keras.optimizers.Optimizer.apply, tf.clip_by_norm, open, np.clip),
        tf.Variable.assign,
    ]


def test_an_optimizer_that_was_never_used() -> None:
    x = tf.Variable(3.0)
    optimizer = keras.optimizers.Adam(0.1)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        optimizer.apply_gradients([(tape.gradient(loss, x), x)])
        return loss

    assert_step(step)
    assert [float(np.sum(variable.numpy())) for variable in optimizer.variables] == [0.0, pytest.approx(0.1), 0.0, 0.0]
    step()
    fresh, other = tf.Variable(3.0), keras.optimizers.Adam(0.1)
    other.apply_gradients([(tf.constant(6.0), fresh)])
    assert float(x) == float(fresh)


def test_the_users_functions_are_not_traced() -> None:
    x = tf.Variable(3.0)
    traces: list[int] = []

    @tf.function
    def step(factor: Any) -> Any:
        traces.append(1)
        with tf.GradientTape() as tape:
            loss = factor * x**2
        return loss, [tape.gradient(loss, x)]

    step(tf.constant(2.0))
    assert step.experimental_get_tracing_count() == 1
    assert_step(step, tf.constant(2.0))
    assert step.experimental_get_tracing_count() == 1
    assert traces == [1]


def test_variables_that_a_function_makes_in_its_first_call() -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x: Any = None

        @tf.function
        def step(self) -> Any:
            if self.x is None:
                self.x = tf.Variable(3.0)
            with tf.GradientTape() as tape:
                loss = self.x**2
            gradient = tape.gradient(loss, self.x)
            self.x.assign_sub(0.1 * gradient)
            return loss, [gradient]

    model = Model()
    assert assert_step(model.step).verdict == "agree"
    assert float(model.x) == 3.0


def test_records_that_a_step_keeps_are_put_back() -> None:
    x = tf.Variable(3.0)
    losses: list[float] = []
    state: dict[str, Any] = {"runs": 0, "best": None}

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = x**2
        losses.append(float(loss))
        state["runs"] += 1
        state["best"] = loss
        return loss, [tape.gradient(loss, x)]

    assert assert_step(step).verdict == "agree"
    assert losses == []
    assert state == {"runs": 0, "best": None}


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable(3.0, name="x")


def square(x: tf.Variable, factor: Any = 1.0) -> Any:
    with tf.GradientTape() as tape:
        loss = factor * x**2
    return loss, [tape.gradient(loss, x)]


def refusal(step: Step, *inputs: Any) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        assert_step(step, *inputs)
    return str(caught.value)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("named", [False, True], ids=["hidden", "named"])
def test_a_datasets_iterator(x: tf.Variable, traced: bool, named: bool) -> None:
    iterator = iter(tf.data.Dataset.range(1, 9))
    held = keras.layers.Layer()
    held.batches = iterator

    def takes() -> Any:
        return square(x, tf.cast(next(iterator), tf.float32))

    def hides() -> Any:
        return square(x, tf.cast(next(held.batches), tf.float32))

    step = takes if named else hides
    what = "iterator, an iterator (OwnedIterator)" if named else "a dataset's iterator (of TensorSpec(shape=()"
    message = refusal(tf.function(step) if traced else step)
    assert message.startswith(f"the step reads from {what}")
    assert message.endswith("take one batch first and pass it: assert_step(step, next(iterator))")
    assert int(next(iterator)) == 1


def test_an_iterator_of_the_steps_own(
    x: tf.Variable,
) -> None:
    data = tf.data.Dataset.range(1, 4)

    def step() -> Any:
        return square(x, tf.add_n([tf.cast(number, tf.float32) for number in data]))

    assert assert_step(step).verdict == "agree"


def test_python_iterators(x: tf.Variable) -> None:
    numbers = (float(number) for number in range(1, 9))
    assert refusal(lambda: square(x, next(numbers))).startswith("the step reads from numbers, an iterator (generator)")
    assert next(numbers) == 1.0
    assert refusal(lambda i: square(x, next(i)), numbers).startswith("the step reads from inputs[0], an iterator")
    assert next(numbers) == 2.0


def test_a_queue(x: tf.Variable) -> None:
    queue = tf.queue.FIFOQueue(9, [tf.float32])
    queue.enqueue_many([[1.0, 2.0]])
    assert "the step uses a queue (FIFOQueue)" in refusal(lambda: square(x, queue.dequeue()))
    assert float(queue.dequeue()) == 1.0


def counting() -> Iterator[tuple[str, Step]]:
    x = tf.Variable(3.0, name="x")
    count = 0

    def nonlocally() -> Any:
        nonlocal count
        count += 1
        return square(x, float(count))

    yield "count (was 1, is 2)", nonlocally

    class Trainer:
        def __init__(self) -> None:
            self.calls = 0

        def step(self) -> Any:
            self.calls += 1
            return square(x, float(self.calls))

    yield "self.calls (was 1, is 2)", Trainer().step
    history: list[int] = []

    def appending() -> Any:
        history.append(1)
        return square(x, float(len(history)))

    yield "history (held 1 items, holds 2)", appending


@pytest.mark.parametrize(("name", "step"), list(counting()), ids=["nonlocal", "attribute", "list"])
def test_python_state_that_changes_between_two_calls(name: str, step: Step) -> None:
    assert refusal(step) == (
        f"two runs of the step from the same state differ (losses 18 and 27), and it changes {name}; pass that as an "
        "input, keep it in a tf.Variable, or change it outside of the step"
    )


def test_state_that_has_no_name(x: tf.Variable) -> None:
    @tf.function
    def step() -> Any:
        return square(x, tf.random.uniform(()))

    message = refusal(step)
    assert message.startswith("two runs of the step from the same state differ (losses ")
    assert "RandomUniform, whose state cannot be put back" in message


def test_files(x: tf.Variable, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"

    def opens() -> Any:
        path.write_text("a loss")
        return square(x)

    assert refusal(opens) == (
        f"the step opens {path!r} for writing, which cannot be put back; write it after the step, outside of it"
    )
    assert not path.exists()
    with path.open("w") as log:

        def writes() -> Any:
            log.write("a loss")
            return square(x)

        assert refusal(writes).startswith("the step uses the open file log, whose position cannot be put back")
    assert path.read_text() == ""


WRITERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "write_file": (lambda path: tf.io.write_file(str(path), "a loss"), "the step runs WriteFile, which writes files"),
    "checkpoint": (lambda path: tf.train.Checkpoint(kept=tf.Variable(1.0)).write(str(path)), "the step runs SaveV2"),
    "gfile": (lambda path: tf.io.gfile.GFile(str(path), "w").write("a loss"), "the step writes '"),
    "records": (lambda path: tf.io.TFRecordWriter(str(path)).write(b"a loss"), "the step writes records to '"),
    "weights": (
        lambda path: keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)]).save_weights(
            f"{path}.weights.h5"
        ),
        "the step opens '",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_tensorflow_writes(name: str, x: tf.Variable, tmp_path: Path) -> None:
    write, expected = WRITERS[name]

    def step() -> Any:
        write(tmp_path / "file")
        return square(x)

    message = refusal(step)
    assert message.startswith(expected)
    assert "cannot be put back" in message
    assert list(tmp_path.iterdir()) == []


def test_files_that_a_function_writes(x: tf.Variable, tmp_path: Path) -> None:
    @tf.function
    def step() -> Any:
        tf.io.write_file(str(tmp_path / "file"), "a loss")
        return square(x)

    assert refusal(step).startswith("the step runs WriteFile, which writes files")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_summaries_are_not_written_again(x: tf.Variable, traced: bool, tmp_path: Path) -> None:
    writer, optimizer = tf.summary.create_file_writer(str(tmp_path)), keras.optimizers.SGD(0.1)
    optimizer.build([x])

    def step() -> Any:
        loss, (gradient,) = square(x)
        with writer.as_default(step=0), tf.summary.record_if(True):
            tf.summary.write("loss", loss)
        optimizer.apply_gradients([(gradient, x)])
        return loss

    def written() -> int:
        writer.flush()
        (file,) = tmp_path.iterdir()
        return file.stat().st_size

    run, before = tf.function(step) if traced else step, written()
    assert assert_step(run).verdict == "agree"
    assert written() == before
    run()
    assert written() > before


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("operation", ["Insert", "Remove", "Import"])
def test_a_lookup_table_is_not_changed(x: tf.Variable, traced: bool, operation: str) -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.0)
    table.insert(tf.constant(["a"]), tf.constant([1.0]))

    def step() -> Any:
        key = tf.constant(["a"])
        if operation == "Insert":
            table.insert(key, table.lookup(key) + 1.0)
        elif operation == "Remove":
            table.remove(key)
        else:
            tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=key, values=[5.0])
        return square(x)

    message = refusal(tf.function(step) if traced else step)
    assert f"the step runs LookupTable{operation}V2, which changes a lookup table" in message
    assert table.lookup(tf.constant(["a"])).numpy().tolist() == [1.0]
