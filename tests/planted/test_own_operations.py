"""Faults planted into operations that a project registers, and the results of its tests.

One at second order only is in tests/thirdparty, which tests/packaging runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from gradcheck.strategies import operation_tests, profiles
from gradcheck.strategies.graphs import graphs
from hypothesis import Phase, find, settings
from hypothesis.database import InMemoryExampleDatabase

import gradcheck
from gradcheck.autodiff.mode import FUNCTION, PLAIN, Mode
from gradcheck.defects import known as known_defects
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import blame, monitor, trial
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph_json import from_json, to_json
from gradcheck.hunt.known_graphs import match
from gradcheck.hunt.monitor import Monitor
from gradcheck.operations.acceptance import accept
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import REGISTERED, forget
from gradcheck.result import Kind, Verdict
from tests import slices

DRAWN = settings(derandomize=True, database=None, deadline=None, max_examples=500)


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """Removes all registrations afterwards, and lets a failure shrink for two seconds at most."""
    before = monitor.install(Monitor(shrink_seconds=2.0))
    yield
    monitor.install(before)
    forget(list(REGISTERED))


MANY = 4 * operation_tests.TIMES
FEW = MANY if slices.whole else 2
"""Multiples of a profile's examples: the test command draws few for an operation that is right."""

PHASES = profiles.PHASES if slices.whole else (Phase.generate,)
"""The test command does not shrink failures, since Hypothesis would run them again and again."""


def hunted(name: str, order: int, mode: Mode = PLAIN, *, times: int = MANY) -> list[GraphFinding]:
    """The findings of a project's own test of an operation; TensorFlow's own defects are left to other tests.

    It has four times as many examples, since it is chance whether a project's few examples reach a part of the numbers.
    """
    accept(REGISTERED[name])
    profile = settings(profiles.made("ci", InMemoryExampleDatabase(), times), phases=PHASES)
    made = operation_tests.tests([name], [], lambda _: profile, budgeted=False)
    given: dict[str, Any] = {"gradcheck_coverage": Coverage(), "operation": name, "order": order}
    failures: tuple[Exception, ...] = ()
    try:
        if mode == PLAIN:
            made["test_operation"](**given)
        else:
            made["test_operation_in_a_mode"](mode=mode, **given)
    except Exception as error:
        failures = getattr(error, "exceptions", (error,))  # a group of several
        if not all(isinstance(one, Found) for one in failures):
            raise
    found = [one.finding for one in failures if isinstance(one, Found)]
    return [one for one in found if one.culprit == name]


def scaled(factor: Any) -> Any:
    """The cube, with a gradient that is wrong by a factor that depends on its input."""

    @tf.custom_gradient
    def cube(x: Any) -> Any:
        # A gather after it passes IndexedSlices back.
        return x**3, lambda upstream: tf.convert_to_tensor(upstream) * 3 * x**2 * factor(x)

    return cube


def one(x: Any) -> Any:
    return tf.ones_like(x)


def wrong_in_a_function(x: Any) -> Any:
    return one(x) if tf.executing_eagerly() else 2 * one(x)


def right_in_a_function(x: Any) -> Any:
    return 2 * one(x) if tf.executing_eagerly() else one(x)


def wrong_above_two(x: Any) -> Any:
    return tf.where(x > 2, 2 * one(x), one(x))


@pytest.mark.sliced
def test_what_is_right_passes_at_both_orders_and_in_a_mode() -> None:
    gradcheck.operation(name="own_cube", domain=(-9, 9))(scaled(one))
    eager, traced = ((1, 2), (1, 2)) if slices.whole else ((2,), (1,))
    for order in eager:
        assert hunted("own_cube", order, times=FEW) == []
    for order in traced:
        assert hunted("own_cube", order, Mode("reverse", FUNCTION), times=FEW) == []


@pytest.mark.parametrize(
    ("factor", "order", "mode", "kind"),
    [
        (wrong_above_two, 1, PLAIN, Kind.WRONG_VALUE),
        (right_in_a_function, 1, PLAIN, Kind.WRONG_VALUE),
        (wrong_in_a_function, 1, Mode("reverse", FUNCTION), Kind.MODES),
    ],
)
def test_a_planted_fault_is_found_and_blamed(factor: Any, order: int, mode: Mode, kind: Kind) -> None:
    gradcheck.operation(name="own_cube", domain=(-9, 9), kinks=1.0)(scaled(factor))
    found = hunted("own_cube", order, mode)
    assert (order, kind, mode) in [(one.order, one.kind, one.taken) for one in found]


def detached(y: Any, slope: Any) -> Any:
    """A function with a right gradient that has no derivative itself."""

    @tf.custom_gradient
    def function(x: Any) -> Any:
        return y(x), lambda upstream: tf.stop_gradient(upstream * slope(x))

    return function


@pytest.mark.parametrize(("y", "slope"), [(tf.sin, tf.cos), (tf.identity, one)], ids=["nonlinear", "linear"])
def test_a_known_defect_that_blame_alone_arrives_at_is_not_the_culprit(y: Any, slope: Any) -> None:
    """The running sum begins with 0: its square would send back a zero that varies, which nothing in the graph does."""
    gradcheck.operation(name="own_detached", domain=(-9, 9), modes=())(detached(y, slope))
    behind = (Node.of("own_detached", 1), Node.of("asinh", 2))
    graph = Graph((literal([0.0, 0.5]),), (Node.of("cumulative_logsumexp", 0, reverse=False), *behind))
    checked = trial.run(graph, (2,))
    assert checked.result.verdict == Verdict.MISMATCH
    found = blame.completed(blame.finding_of(checked, 2))
    assert (found.culprit, match(found)) == ("own_detached", None)
    assert [str(node.verdict) for node in found.nodes] == ["agree", "mismatch", "agree"]


def test_a_known_defect_that_the_graph_arrives_at_is_the_culprit() -> None:
    nodes = (Node.of("cumulative_logsumexp", 0, reverse=False), Node.of("square", 1), Node.of("asinh", 2))
    found = blame.finding_of(trial.run(Graph((literal([0.0, 0.5]),), nodes), (2,)), 2)
    known = match(found)
    assert known is not None
    assert (found.culprit, known.name) == ("cumulative_logsumexp", "cumulative_logsumexp-order2")


def test_the_script_of_a_finding_takes_the_function_from_where_it_is_registered() -> None:
    gradcheck.operation(name="own_cube", domain=(-9, 9))(scaled(wrong_above_two))
    found = hunted("own_cube", 1)[0]
    assert f"Origin({__name__!r}, " in found.script
    assert '    own_cube = registered("own_cube")\n' in found.script
    assert "def cube" not in found.script
    compile(found.script, "script", "exec")


@pytest.mark.sliced
def test_a_kink_that_is_declared_excuses_the_kink_alone() -> None:
    """The gradient at a kink lies between the slopes; where it does not, or elsewhere, it is wrong."""

    def clipped(at_kink: float) -> Any:
        @tf.custom_gradient
        def ramp(x: Any) -> Any:
            slope = tf.where(x == 1, at_kink * one(x), tf.cast(x < 1, x.dtype))
            return tf.minimum(x, 1.0), lambda upstream: upstream * slope

        return ramp

    gradcheck.operation(name="own_ramp", domain=(-9, 9), kinks=1.0)(clipped(0.5))
    assert hunted("own_ramp", 1, times=FEW) == []
    gradcheck.operation(name="own_steep_ramp", domain=(-9, 9), kinks=1.0)(clipped(3.0))
    result = trial.run(Graph((literal([2.0, 1.0]),), (Node.of("own_steep_ramp", 0),)), (1,)).result
    assert [one.kind for one in result.findings] == [Kind.SUBDIFFERENTIAL]


@tf.custom_gradient
def exponential(z: Any) -> Any:
    value = tf.exp(z)
    return value, lambda upstream: upstream * tf.math.conj(value)


@tf.custom_gradient
def exponential_without_conjugate(z: Any) -> Any:
    value = tf.exp(z)
    return value, lambda upstream: upstream * value


@tf.custom_gradient
def power(z: Any) -> Any:
    return tf.math.real(z * tf.math.conj(z)), lambda upstream: 2 * tf.cast(upstream, z.dtype) * z


@tf.custom_gradient
def power_by_wirtinger(z: Any) -> Any:
    """The derivative by z with conj(z) held fixed, which is not what TensorFlow's tapes pass on."""
    return tf.math.real(z * tf.math.conj(z)), lambda upstream: tf.cast(upstream, z.dtype) * tf.math.conj(z)


def turned(conjugate: Any) -> Any:
    @tf.custom_gradient
    def turn(z: Any, angle: Any) -> Any:
        factor = tf.complex(tf.cos(angle), tf.sin(angle))
        value = z * factor

        def gradient(upstream: Any) -> Any:
            return upstream * conjugate(factor), tf.math.real(upstream * tf.math.conj(1j * value))

        return value, gradient

    return turn


@tf.custom_gradient
def circle(x: Any) -> Any:
    value = tf.complex(tf.cos(x), tf.sin(x))
    return value, lambda upstream: tf.math.real(upstream * tf.math.conj(1j * value))


@tf.custom_gradient
def circle_in_the_wrong_sense(x: Any) -> Any:
    value = tf.complex(tf.cos(x), tf.sin(x))
    return value, lambda upstream: tf.math.real(upstream * 1j * value)


IN_PLANE: dict[str, Any] = {"dtype": "complex128", "domain": (-5, 5)}
TO_REAL: dict[str, Any] = {"dtype": "complex64", "result": "float32"}
TURN: dict[str, Any] = {"dtype": {"z": "complex128"}, "domain": {"angle": (-9, 9)}}
TO_PLANE: dict[str, Any] = {"result": "complex128", "domain": (-9, 9)}


@pytest.mark.sliced
@pytest.mark.parametrize(
    ("name", "function", "declared"),
    [
        ("own_exponential", exponential, IN_PLANE),
        ("own_power", power, TO_REAL),
        ("own_turn", turned(tf.math.conj), TURN),
        ("own_circle", circle, TO_PLANE),
    ],
)
def test_right_complex_functions_pass_at_both_orders_and_in_a_mode(
    name: str, function: Any, declared: dict[str, Any]
) -> None:
    gradcheck.operation(name=name, **declared)(function)
    for order in slices.sliced((1, 2), lambda orders: orders[1:]):
        assert hunted(name, order, times=FEW) == []
    assert hunted(name, 1, Mode("reverse", FUNCTION), times=FEW) == []


@pytest.mark.parametrize(
    ("name", "function", "declared", "order"),
    [
        ("own_exponential", exponential_without_conjugate, IN_PLANE, 1),
        ("own_exponential", exponential_without_conjugate, {**IN_PLANE, "dtype": "complex64"}, 2),
        ("own_circle", circle_in_the_wrong_sense, TO_PLANE, 1),
    ],
)
def test_a_lost_conjugate_is_found_and_blamed(name: str, function: Any, declared: dict[str, Any], order: int) -> None:
    gradcheck.operation(name=name, modes=(), **declared)(function)
    found = hunted(name, order)
    assert (order, Kind.WRONG_VALUE) in [(one.order, one.kind) for one in found]
    assert from_json(to_json(found[0].graph)) == found[0].graph
    assert f"Origin({__name__!r}, " in found[0].script
    compile(found[0].script, "script", "exec")


@pytest.mark.parametrize(
    ("right", "wrong", "declared"),
    [
        (power, power_by_wirtinger, {"dtype": "complex128", "result": "float64"}),
        (turned(tf.math.conj), turned(tf.identity), TURN),
    ],
    ids=["to real numbers", "of both kinds"],
)
def test_between_others_a_lost_conjugate_is_blamed_and_a_right_one_agrees(
    right: Any, wrong: Any, declared: dict[str, Any]
) -> None:
    for name, function in (("own_right", right), ("own_wrong", wrong)):
        gradcheck.operation(name=name, **declared)(function)
        z, angle = literal([0.5 + 0.25j, -0.75j]), literal([0.5, 2.0])
        given = (2, 1) if CATALOGUE[name].arity == 2 else (2,)
        behind = Node.of("square" if CATALOGUE[name].result == "float64" else "complex_tanh", 3)
        graph = Graph((z, angle), (Node.of("complex_exp", 0), Node.of(name, *given), behind))
        for order in (1, 2):
            verdict = trial.run(graph, (order,)).result.verdict
            assert verdict == (Verdict.AGREE if function is right else Verdict.MISMATCH)
            assert blame.culprit(graph, order) == (None if function is right else 3)
        mode = Mode("reverse", FUNCTION)
        # In a mode the derivative is compared with the plain one, wrong or not.
        assert trial.run(graph, (1,), mode=mode).result.verdict == Verdict.AGREE


def test_complex_functions_are_drawn_between_tensorflow_s_complex_operations() -> None:
    gradcheck.operation(name="own_exponential", **IN_PLANE)(exponential)

    def between(graph: Graph) -> bool:
        place = next(place for place, node in graph.positions() if node.op == "own_exponential")
        parents = graph.nodes[place - len(graph.inputs)].parents
        before = any(node.op.startswith("complex_") for at, node in graph.positions() if at in parents)
        return before and any(node.op.startswith("complex_") for node in graph.nodes if place in node.parents)

    def agrees(graph: Graph) -> bool:
        verdict = trial.run(graph).result.verdict
        assert verdict != Verdict.MISMATCH
        return verdict == Verdict.AGREE

    drawn = graphs(containing="own_exponential", order=2, known=known_defects.excludes)
    unshrunk = settings(DRAWN, phases=[Phase.generate])
    find(drawn, lambda graph: between(graph) and agrees(graph), settings=unshrunk)
