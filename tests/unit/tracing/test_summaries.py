"""Code that is run repeatedly writes no points to TensorBoard's logs while it is, and does so again afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import check, explain, spot_check
from gradcheck.tracing.summaries import summaries_left_out

Loss = Callable[[], Any]


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable([1.0, 2.0])


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    return tf.summary.create_file_writer(str(tmp_path))


@pytest.fixture
def written(writer: Any, tmp_path: Path) -> Callable[[], int]:
    """The size of the log in bytes."""

    def size() -> int:
        writer.flush()
        (file,) = tmp_path.iterdir()
        return file.stat().st_size

    return size


@pytest.fixture
def loss(writer: Any, x: tf.Variable) -> Loss:
    def summed() -> Any:
        value = tf.reduce_sum(x**2)
        with writer.as_default(step=0), tf.summary.record_if(True):
            tf.summary.write("loss", value)
        return value

    return summed


HOW: dict[str, Callable[[Loss], Loss]] = {"eager": lambda loss: loss, "tf.function": tf.function}
CALLS: dict[str, Callable[[Loss, tf.Variable], Any]] = {
    "check": lambda loss, x: check(loss, variables=[x]),
    "explain": lambda loss, x: explain(loss),
    "spot_check": lambda loss, x: spot_check(loss, [x]),
}


@pytest.mark.parametrize("traced_before", [False, True], ids=["fresh", "run before"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("call", CALLS)
def test_no_point_is_written(
    call: str, how: str, traced_before: bool, loss: Loss, x: tf.Variable, written: Callable[[], int]
) -> None:
    run = HOW[how](loss)
    if traced_before:
        run()
    before = written()
    assert CALLS[call](run, x).verdict == "agree"
    assert written() == before
    run()
    assert written() > before


def test_blocks_may_lie_in_one_another(loss: Loss, written: Callable[[], int]) -> None:
    traced, before = tf.function(loss), written()
    with summaries_left_out():
        with summaries_left_out():
            traced()
        loss()
        traced()
    assert written() == before
    with pytest.raises(KeyError), summaries_left_out():
        raise KeyError
    loss()
    assert written() > before


def test_event_files_of_tensorflow_1(tmp_path: Path) -> None:
    def size() -> int:
        log.flush()
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    with tf.Graph().as_default():
        log = tf.compat.v1.summary.FileWriter(str(tmp_path))
        summary = tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag="loss", simple_value=1.0)])
        log.add_summary(summary, 0)
        before = size()
        with summaries_left_out():
            log.add_summary(summary, 0)
        assert size() == before
        log.add_summary(summary, 0)
        assert size() > before
        log.close()
