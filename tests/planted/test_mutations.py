"""The tool that changes TensorFlow's gradient functions: its changes are noticed, and undone again."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

pytestmark = pytest.mark.exhaustive  # a benchmark is not a test, and this is one of its tools


@pytest.fixture(scope="module")
def mutation(instrument: Callable[[str], Any]) -> Any:
    return instrument("mutation")


@pytest.fixture(scope="module")
def changes(mutation: Any) -> dict[str, list[Any]]:
    """All changes, by function."""
    found: dict[str, list[Any]] = {}
    for change in mutation.changes():
        found.setdefault(change.code.name, []).append(change)
    return found


HUNDRED = (
    *("_SinGrad", "_TanhGrad", "_SquaredDifferenceGrad", "_DivGrad", "_SoftmaxGrad", "_L2LossGrad", "_SigmoidGrad"),
    *("_LogGrad", "_SqrtGrad", "_RsqrtGrad", "_AtanhGrad", "_ErfGrad", "_AcoshGrad"),
)
"""Functions with a hundred places to change, which take seconds."""


def test_they_are_a_hundred(changes: dict[str, list[Any]]) -> None:
    assert sum(len(changes[function]) for function in HUNDRED) >= 100


@pytest.mark.parametrize("function", HUNDRED)
def test_every_change_that_has_an_effect_is_noticed(
    mutation: Any, changes: dict[str, list[Any]], function: str
) -> None:
    before = {name: entry["type"] for name, entry in ops.gradient_registry._registry.items()}
    for change in changes[function]:
        row = mutation.outcome(change, 5)
        assert row["outcome"] in ("noticed", "no effect", "never run"), (change.name, change.text, row)
    after = {name: entry["type"] for name, entry in ops.gradient_registry._registry.items()}
    assert {name: after[name] for name in before} == before
    assert all(name.startswith("CustomGradient-") for name in after.keys() - before.keys())  # graphs add theirs


def test_nothing_is_changed_in_branches_that_no_program_takes(changes: dict[str, list[Any]]) -> None:
    """Programs from before 2021 gathered and summed, which a kernel does now."""
    lines = [linecache.getline(each.code.file, each.line) for each in changes["_SparseSegmentSumWithNumSegmentsGrad"]]
    assert any("sparse_segment_sum_grad" in line for line in lines)
    assert not any("gather" in line for line in lines)


@pytest.mark.skipif(not tf.__version__.startswith("2.21"), reason="the lines are those of TensorFlow 2.21")
def test_every_row_of_the_table_of_equivalent_changes_is_of_a_change(
    mutation: Any, changes: dict[str, list[Any]]
) -> None:
    assert set(mutation.equivalent()) <= {one.key for each in changes.values() for one in each}
    assert all(mutation.equivalent().values())


def test_equivalent_changes_have_no_effect(mutation: Any, changes: dict[str, list[Any]]) -> None:
    """Changes of functions that take seconds: run like others, none of them is noticed."""
    quick = ("_SubGrad", "_XLogyGrad", "_SquareGrad", "_CholeskyGrad", "_SoftmaxCrossEntropyWithLogitsGrad")
    proved = [change for name in quick for change in changes[name] if change.proof]
    assert len(proved) >= 5
    for change in proved:
        assert mutation.outcome(change, 5)["outcome"] == "equivalent"
        assert mutation.effect_of(change, 2)["outcome"] in ("no effect", "never run"), change.name


@pytest.mark.parametrize(
    ("text", "expression", "equivalent"),
    [
        ("two arguments swapped", "math_ops.multiply(grad, x)", True),
        ("two arguments swapped", "math_ops.equal(x, 1.0)", False),  # a number in the first place has its own type
        ("two arguments swapped", "math_ops.subtract(grad, x)", False),
        ("another operator", "x * -1", True),
        ("another operator", "x * 2", False),
        ("the right operand dropped", "x * -1", False),
        ("the result scaled", "(None, None)", True),
        ("the result scaled", "None", True),
        ("the result scaled", "[None, grad]", False),
    ],
)
def test_what_is_equivalent_by_its_form(mutation: Any, text: str, expression: str, equivalent: bool) -> None:
    assert bool(mutation.by_form(ast.parse(expression, mode="eval").body, text)) is equivalent


def test_rows_of_a_gradient_are_the_gradient(mutation: Any) -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([0, 2, 0]), tf.constant([3, 1]))
    assert mutation.same(rows, tf.constant([[4.0], [0.0], [2.0]]))
    assert not mutation.same(rows, tf.constant([[4.0], [0.0], [2.5]]))


def test_a_change_that_ends_two_runs_without_a_word_is_noticed(
    instrument: Callable[[str], Any], tmp_path: Path
) -> None:
    resumed, into, fatal = instrument("resumed"), tmp_path / "rows.jsonl", {"outcome": "noticed"}

    def ends(error: BaseException) -> Callable[[], Any]:
        def run() -> Any:
            raise error

        return run

    def asked(change: str, run: Callable[[], Any]) -> Any:
        return resumed.Rows(into, "change").get((change,), run, fatal=fatal)

    assert asked("a", lambda: {"outcome": "no effect"}) == {"change": "a", "outcome": "no effect"}
    assert asked("a", ends(SystemExit()))["outcome"] == "no effect"
    for _ in range(2):
        with pytest.raises(SystemExit):
            asked("b", ends(SystemExit()))
    assert asked("b", ends(SystemExit())) == {"change": "b", **fatal}
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            asked("c", ends(KeyboardInterrupt()))
    assert asked("c", lambda: {"outcome": "no effect"})["outcome"] == "no effect"


def test_changes_are_of_every_sort(changes: dict[str, list[Any]]) -> None:
    sorts = {change.text for each in changes.values() for change in each}
    assert len(sorts) == 10
    assert sum(map(len, changes.values())) > 1000
