"""The census of registered gradients is that of the installed TensorFlow, and the catalogue claims nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_array_ops

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.census import Judgement, census, gradient_functions

OURS = ("CustomGradient-",)
"""What tf.custom_gradient registers for a function, and so do we."""


def test_it_names_every_gradient_that_is_registered_and_no_other() -> None:
    functions = gradient_functions().items()
    found = {name for name, function in functions if function is not None and not name.startswith(OURS)}
    assert sorted(found - set(census())) == [], "a release of TensorFlow brings gradients that the census does not name"
    assert sorted(set(census()) - found) == []


def test_its_functions_are_those_that_are_registered() -> None:
    functions = gradient_functions()
    wrong = {
        name: row.function
        for name, row in census().items()
        if row.function.rpartition(".")[2] != functions[name].__name__ and functions[name].__name__ != "<lambda>"
    }
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_what_the_catalogue_claims_is_there_and_can_be_reached(name: str) -> None:
    for gradient in CATALOGUE[name].gradients:
        assert census()[gradient].reachable


def test_what_differences_do_not_judge_has_a_reason() -> None:
    for row in census().values():
        assert row.note or row.judgement is Judgement.DIFFERENCES


def calls_of(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operations that a registered gradient function is called with from now on."""
    registered, calls = ops.gradient_registry._registry[name], list[Any]()
    function = registered["type"]

    def counted(operation: Any, *gradients: Any) -> Any:
        calls.append(operation)
        return function(operation, *gradients)

    monkeypatch.setitem(registered, "type", counted)
    return calls


def by_tape(f: Callable[[Any], Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def in_a_graph(f: Callable[[Any], Any], x: Any) -> Any:
    return tf.function(lambda x: (tf.gradients(f(x), x)[0],))(x)[0]


X = tf.constant([1.5, -2.5, 4.5], tf.float64)


@pytest.mark.parametrize("derivative", [by_tape, in_a_graph])
@pytest.mark.parametrize("extreme", [tf.argmax, tf.argmin])
def test_nothing_calls_the_gradient_of_a_place_since_integers_have_none(
    derivative: Callable[..., Any], extreme: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [calls_of(name, monkeypatch) for name in ("ArgMax", "ArgMin")]
    found = derivative(lambda x: tf.cast(extreme(x), tf.float64) * x, X)
    assert found.numpy() == pytest.approx(np.full(3, extreme(X)))
    assert derivative(lambda x: tf.cast(extreme(x), tf.float64), X) is None
    assert calls == [[], []]


def test_no_function_of_tensorflow_makes_the_constants_whose_gradient_refuses() -> None:
    assert not hasattr(tf.raw_ops, "EagerConst")
    assert not hasattr(gen_array_ops, "_eager_const")
    with pytest.raises(AssertionError, match="should never interact with gradient APIs"):
        gradient_functions()["_EagerConst"](None, X)


def test_the_gradient_of_a_truncated_quotient_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of("TruncateDiv", monkeypatch)
    assert by_tape(lambda x: tf.truncatediv(x, tf.constant(2.0, tf.float64)), X) is None
    assert len(calls) == 1


def test_a_gamma_sample_moves_so_that_its_share_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018): dz/da = -(dF/da) / (dF/dz).

    Each call draws other samples, so that differences of them say nothing.
    """
    calls, shapes = calls_of("RandomGamma", monkeypatch), tf.constant([0.6, 2.5, 30.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(shapes)
        z = tf.random.gamma([], shapes, dtype=tf.float64, seed=1)
    found = tape.gradient(z, shapes)
    assert len(calls) == 1

    def share(shape: Any, sample: Any) -> Any:
        return mpmath.gammainc(shape, 0, sample, regularized=True)

    with mpmath.workdps(40):
        places = [(mpmath.mpf(float(a)), mpmath.mpf(float(at))) for a, at in zip(shapes, z, strict=True)]
        right = [float(-mpmath.diff(share, place, (1, 0)) / mpmath.diff(share, place, (0, 1))) for place in places]
    assert found.numpy() == pytest.approx(right, rel=1e-9)
