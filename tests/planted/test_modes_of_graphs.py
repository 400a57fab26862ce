"""Faults planted in one mode alone are found there, named, and not attributed to the plain derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops.parallel_for import control_flow_ops

from gradcheck.autodiff.mode import ALONE, FUNCTION, LOOP, MODES, PFOR, PLAIN, VARIABLES, XLA, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import blame, trial
from gradcheck.hunt.coverage import CANNOT_RUN, Coverage
from gradcheck.hunt.examine import Found, examine
from gradcheck.hunt.report.finding_page import markdown
from gradcheck.hunt.script import to_python
from gradcheck.result import Kind, Reason, Verdict
from tests import slices
from tests.planting import planted
from tests.reproduction import ran

SINE = Graph((Input((2,), (0.5, -1.25)),), (Node.of("square", 0), Node.of("sin", 1)))


Case = tuple[Mode, int]
CASES = [(mode, order) for mode in MODES for order in mode.orders]
UNTRACED = (LOOP, ALONE, VARIABLES)
TRACED = [(mode, order) for mode, order in CASES if mode.path not in UNTRACED]


def in_turn(first: int) -> Callable[[Sequence[Case]], list[Case]]:
    """Each mode at one order, in turn: with 0 and 1 together all orders are covered."""
    return lambda cases: [
        (mode, order) for mode, order in cases if order == mode.orders[(MODES.index(mode) + first) % len(mode.orders)]
    ]


def wrong_where_traced(factor: float = 2.0, *, traced: bool = True) -> AbstractContextManager[None]:
    """The gradients of sine and cosine are wrong in traced functions (as those of pushforwards and of pfor are).

    With `traced=False`, they are wrong everywhere else instead.
    """

    def faulty(right: Any) -> Any:
        def gradient(node: Any, *cotangents: Any) -> Any:
            part = right(node, *cotangents)
            return part if tf.executing_eagerly() == traced else factor * part

        return gradient

    return planted(("Sin", "Cos"), faulty)


@pytest.mark.sliced
def test_a_right_derivative_agrees_and_says_what_would_have_been_noticed(subtests: pytest.Subtests) -> None:
    for mode, order in slices.sliced(CASES, in_turn(1)):
        with subtests.test(mode=str(mode), order=order):
            result = trial.run(SINE, (order,), mode=mode).result.orders[order]
            assert result.verdict == Verdict.AGREE
            assert 0 < result.relative_resolution < 1e-12
            assert result.compared == 2


@pytest.mark.parametrize("order", [1, 2])
def test_the_plain_derivative_is_right_where_another_is_wrong(order: int) -> None:
    with wrong_where_traced():
        assert trial.run(SINE, (order,)).result.verdict == Verdict.AGREE


@slices.parametrized(("mode", "order"), TRACED, lambda cases: in_turn(1)(cases)[::2], ids=str)
def test_a_wrong_derivative_in_one_mode_is_found(mode: Mode, order: int) -> None:
    with wrong_where_traced():
        checked = trial.run(SINE, (order,), mode=mode)
        assert blame.culprit(SINE, order, partial(trial.run, mode=mode)) == 2
    assert (checked.result.verdict, checked.problem.mode) == (Verdict.MISMATCH, mode)
    finding = checked.result.findings[0]
    assert finding.kind is Kind.MODES
    assert str(mode) in finding.reason
    assert finding.reason.endswith("; an eager tape is right")


DISTANCE = Graph((Input((2,), (0.5, -1.25)), Input((2,), (2.0, 3.0))), (Node.of("subtract", 0, 1), Node.of("sin", 2)))


@pytest.mark.parametrize(
    ("path", "operation", "wrong"),
    [
        (ALONE, "Sub", lambda op: bool(op.skip_input_indices)),
        (VARIABLES, "ReadVariableOp", lambda op: True),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_a_gradient_that_is_wrong_for_constants_or_for_variables_is_found(
    path: str, operation: str, wrong: Any, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ops.gradient_registry._registry[operation]["type"]

    def planted(op: Any, *cotangents: Any) -> Any:
        factor = 2.0 if wrong(op) else 1.0
        return tf.nest.map_structure(lambda part: part if part is None else factor * part, right(op, *cotangents))

    monkeypatch.setitem(ops.gradient_registry._registry[operation], "type", planted)
    assert trial.run(DISTANCE, (order,)).result.verdict == Verdict.AGREE
    checked = trial.run(DISTANCE, (order,), mode=Mode(path))
    assert [finding.kind for finding in checked.result.findings[:1]] == [Kind.MODES]
    weights, direction = np.array([1.0, -0.5]), [np.array([2.0, 0.5]), np.array([1.0, -1.0])]
    script = to_python(DISTANCE, order, weights, direction if order == 2 else None, mode=Mode(path))
    assert ran(script) == (1, "WRONG")


@pytest.mark.parametrize("order", [1, 2])
def test_a_wrong_loop_is_found(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = control_flow_ops.for_loop
    monkeypatch.setattr(control_flow_ops, "for_loop", lambda *given, **more: [-part for part in right(*given, **more)])
    checked = trial.run(SINE, (order,), mode=Mode(LOOP))
    assert [finding.kind for finding in checked.result.findings] == [Kind.MODES]


def test_an_error_of_a_few_roundings_times_a_thousand_is_noticed() -> None:
    with wrong_where_traced(1 + 1e-10):
        assert trial.run(SINE, (1,), mode=Mode("forward")).result.verdict == Verdict.MISMATCH


def test_where_the_plain_derivative_is_wrong_it_is_the_finding() -> None:
    with wrong_where_traced(traced=False):
        checked = trial.run(SINE, (1,), mode=Mode("forward"))
        assert blame.finding_of(checked, 1).beside == ""
    assert checked.problem.mode == PLAIN
    assert checked.result.findings[0].kind is Kind.WRONG_VALUE
    assert checked.result.findings[0].reason.endswith("; taken as forward, eager, it is right")


def test_a_derivative_that_is_wrong_in_both_modes_is_said_to_be() -> None:
    def faulty(right: Any) -> Any:
        return lambda node, *cotangents: (3.0 if tf.executing_eagerly() else 2.0) * right(node, *cotangents)

    with planted(("Sin", "Cos"), faulty):
        finding = trial.run(SINE, (1,), mode=Mode("reverse", "tf.function")).result.findings[0]
    assert finding.reason.endswith("; taken as reverse, tf.function, it is wrong, too")


def test_the_report_of_a_finding_in_a_mode_says_that_an_eager_tape_is_right() -> None:
    mode = Mode("reverse", "tf.function")
    with wrong_where_traced():
        found = blame.finding_of(trial.run(SINE, (1,), mode=mode), 1, partial(trial.run, mode=mode))
    assert found.beside == "an eager tape is right"
    assert "; an eager tape is right." in markdown(found).splitlines()[2]


def test_what_raises_in_one_mode_keeps_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_given: Any, **_more: Any) -> Any:
        raise RuntimeError("no loops today")

    monkeypatch.setattr(control_flow_ops, "for_loop", broken)
    (finding,) = trial.run(SINE, (1,), mode=Mode(LOOP)).result.findings
    assert finding.kind is Kind.RAISES
    assert "RuntimeError: no loops today" in finding.reason


@pytest.mark.exhaustive
def test_one_mode_knows_nothing_of_another() -> None:
    """A pushforward makes tf.cond return more outputs, which pfor cannot stack."""
    graph = Graph((Input((2,), (1.0, 2.0)),), (Node.of("cond_with_effect", 0, flag=True),))
    trial.run(graph, (2,), mode=Mode("reverse over forward"))
    assert trial.run(graph, (1,), mode=Mode(PFOR)).result.verdict == Verdict.AGREE


def test_what_cannot_run_is_counted_apart_and_named() -> None:
    graph = Graph((Input((2,), (0.5, 1.5)),), (Node.of("segment_max", 0, ids=(0, 1)),))
    result = trial.run(graph, (1,), mode=Mode("reverse", XLA)).result.orders[1]
    assert (result.verdict, result.reasons) == (Verdict.INCONCLUSIVE, (Reason.CANNOT_RUN,))
    assert result.notes == ("no XLA kernel for SegmentMax",)


def test_another_function_is_not_compared() -> None:
    graph = Graph(
        (Input((2,), (-2.0, -2.0)), Input((2,), (2.0, 2.0))), (Node.of("stateless_truncated_normal_of_bounds", 0, 1),)
    )
    result = trial.run(graph, (1,), mode=Mode("reverse", XLA)).result.orders[1]
    assert result.notes == ("the function has other values in this mode",)


def test_nor_is_one_whose_other_factors_are_hidden_by_zeros() -> None:
    """Dropout drops other elements in float32 than in float64."""
    graph = Graph((Input((8,), (0.0,) * 8),), (Node.of("stateless_dropout", 0, rate=0.5),))
    result = trial.run(graph, (1,), mode=Mode("reverse", "in float32")).result.orders[1]
    assert result.reasons == (Reason.CANNOT_RUN,)
    assert result.notes == ("the function has other values in this mode",)


def test_nothing_to_compare_agrees() -> None:
    graph = Graph((Input((0,), ()),), (Node.of("sin", 0),))
    assert trial.run(graph, (1,), mode=Mode("forward")).result.verdict == Verdict.AGREE


@contextmanager
def counted(graph: Graph, order: int, mode: Mode) -> Iterator[Coverage]:
    from hypothesis import given, settings
    from hypothesis import strategies as st

    coverage = Coverage()

    @settings(max_examples=1, database=None, deadline=None)
    @given(st.just(graph))
    def run(drawn: Graph) -> None:
        examine(drawn, order, coverage, operation=f"({mode})", defects=(), mode=mode)

    run()
    yield coverage


def test_a_finding_of_a_hunt_carries_the_mode_and_a_script_that_shows_it() -> None:
    with wrong_where_traced(), pytest.raises(Found) as caught, counted(SINE, 1, Mode("forward")):
        pass
    found = caught.value.finding
    assert (found.taken, found.culprit) == (Mode("forward"), "sin")
    assert "forward, eager" in type(caught.value).__name__
    with wrong_where_traced():
        assert ran(found.script) == (1, "WRONG")
    assert ran(found.script) == (0, "RIGHT")


def test_a_hunt_counts_what_cannot_run_with_the_operation_that_cannot() -> None:
    graph = Graph((Input((2,), (0.5, 1.5)),), (Node.of("segment_max", 0, ids=(0, 1)),))
    with counted(graph, 1, Mode("reverse", XLA)) as coverage:
        assert coverage.at("(reverse, XLA)", 1, CANNOT_RUN) == coverage.examples() == 1
        assert coverage.valid() == 0
        assert not coverage.modes
    with counted(SINE, 1, Mode("forward")) as coverage:
        assert coverage.modes == {("(forward, eager)", 1, "forward, eager"): 1}
    notes = trial.run(graph, (1,), mode=Mode("reverse", XLA)).result.orders[1].notes
    assert notes == ("no XLA kernel for SegmentMax",)


@pytest.mark.parametrize("mode", [PLAIN, Mode("reverse", FUNCTION), Mode("forward over reverse")])
def test_a_script_shows_derivatives_that_are_all_none(mode: Mode, capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph((Input((1,), (2.5,)),), (Node.of("zeta_of_exponent", 0, q=1.0),))
    with pytest.raises(SystemExit) as ending:
        exec(compile(to_python(graph, 2, mode=mode), "script", "exec"), {"__name__": "__main__"})
    assert ending.value.code == 1
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["x[0]", "None"]


@slices.parametrized(("mode", "order"), CASES, in_turn(0), ids=str)
def test_scripts_take_the_derivative_in_the_mode(mode: Mode, order: int) -> None:
    weights, direction = np.array([1.0, -0.5]), [np.array([2.0, 0.5])]
    script = to_python(SINE, order, weights, direction if order == 2 else None, mode=mode)
    assert ran(script) == (0, "RIGHT")
    if mode.path not in UNTRACED:
        with wrong_where_traced():
            assert ran(script) == (1, "WRONG")


@slices.parametrized(("mode", "order"), [case for case in CASES if case[0].mode == "eager"], in_turn(1), ids=str)
def test_scripts_of_complex_graphs(mode: Mode, order: int) -> None:
    graph = Graph((Input((2,), (0.5 + 1j, 1 - 2j), "complex128"),), (Node.of("complex_square", 0), Node.of("fft", 1)))
    weights, direction = np.array([1.0 + 1j, -0.5j]), [np.array([2.0 - 1j, 0.5j])]
    script = to_python(graph, order, weights, direction if order == 2 else None, mode=mode)
    assert ran(script) == (0, "RIGHT")
