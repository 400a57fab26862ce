"""Faults planted into operations that a project registers, and what its tests of them say.

One at second order alone stands in tests/thirdparty, which tests/packaging runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from gradcheck.strategies import operation_tests, profiles
from hypothesis.database import InMemoryExampleDatabase

import gradcheck
from gradcheck.autodiff.mode import FUNCTION, PLAIN, Mode
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.acceptance import accept
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph import Graph, Node, literal
from gradcheck.hunt.monitor import Monitor
from gradcheck.hunt.registry import REGISTERED, forget
from gradcheck.result import Kind


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """Nothing that is registered stays, and a failure shrinks for a few seconds."""
    before = monitor.install(Monitor(shrink_seconds=2.0))
    yield
    monitor.install(before)
    forget(list(REGISTERED))


def hunted(name: str, order: int, mode: Mode = PLAIN) -> list[GraphFinding]:
    """What a project's own test of an operation finds wrong with it; what is TensorFlow's is for other tests."""
    accept(REGISTERED[name])
    profile = profiles.made("ci", InMemoryExampleDatabase(), operation_tests.TIMES)
    made = operation_tests.tests([name], [], lambda _: profile)
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
    """The cube, with a gradient that is right but for a factor of its input."""

    @tf.custom_gradient
    def cube(x: Any) -> Any:
        return x**3, lambda upstream: upstream * 3 * x**2 * factor(x)

    return cube


def one(x: Any) -> Any:
    return tf.ones_like(x)


def wrong_in_a_function(x: Any) -> Any:
    return one(x) if tf.executing_eagerly() else 2 * one(x)


def right_in_a_function(x: Any) -> Any:
    return 2 * one(x) if tf.executing_eagerly() else one(x)


def wrong_above_two(x: Any) -> Any:
    return tf.where(x > 2, 2 * one(x), one(x))


def test_what_is_right_passes_at_both_orders_and_in_a_mode() -> None:
    gradcheck.operation(name="own_cube", domain=(-9, 9))(scaled(one))
    for order in (1, 2):
        assert hunted("own_cube", order) == []
        assert hunted("own_cube", order, Mode("reverse", FUNCTION)) == []


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


def test_the_script_of_a_finding_takes_the_function_from_where_it_is_registered() -> None:
    gradcheck.operation(name="own_cube", domain=(-9, 9))(scaled(wrong_above_two))
    found = hunted("own_cube", 1)[0]
    assert f'Origin("{__name__}", ' in found.script
    assert '    own_cube = registered("own_cube")\n' in found.script
    assert "def cube" not in found.script
    compile(found.script, "script", "exec")


def test_a_kink_that_is_declared_excuses_the_kink_alone() -> None:
    """The gradient at a kink is between the slopes; where it is not, or elsewhere, it is wrong."""

    def clipped(at_kink: float) -> Any:
        @tf.custom_gradient
        def ramp(x: Any) -> Any:
            slope = tf.where(x == 1, at_kink * one(x), tf.cast(x < 1, x.dtype))
            return tf.minimum(x, 1.0), lambda upstream: upstream * slope

        return ramp

    gradcheck.operation(name="own_ramp", domain=(-9, 9), kinks=1.0)(clipped(0.5))
    assert hunted("own_ramp", 1) == []
    gradcheck.operation(name="own_steep_ramp", domain=(-9, 9), kinks=1.0)(clipped(3.0))
    result = trial.run(Graph((literal([2.0, 1.0]),), (Node.of("own_steep_ramp", 0),)), (1,)).result
    assert [one.kind for one in result.findings] == [Kind.SUBDIFFERENTIAL]
