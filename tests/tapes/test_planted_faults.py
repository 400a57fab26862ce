"""A fault in the model or in TensorFlow does not pass: each is found within a few hundred programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tensorflow as tf
from gradcheck.strategies.tape_programs import tape_programs
from hypothesis import HealthCheck, Phase, given, seed, settings

from gradcheck.defects.tape_program import Program
from gradcheck.hunt.tapes import model, operations, recording, tape
from gradcheck.hunt.tapes.interpreter import UnexplainedDifference, examine
from tests import slices

PROGRAMS, SEEDS = 250, (7, 3, 4, 5)
"""Hypothesis varies what it drew before: several short runs see more than a long one."""


def hunt() -> None:
    """Runs programs of several seeds, up to the first difference."""
    for number in SEEDS:

        @seed(number)
        @settings(
            max_examples=PROGRAMS,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
            print_blob=False,
        )
        @given(tape_programs(traced=False))
        def run(program: Program) -> None:
            examine(program)

        run()


def _watch_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model forgets that watch_accessed_variables may be off."""
    original = recording.TapeRecord.__init__

    def made(self: Any, accessed: bool) -> None:
        original(self, True)

    monkeypatch.setattr(recording.TapeRecord, "__init__", made)


def _integers_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model lets the gradient pass casts to integers and back."""
    monkeypatch.setattr(operations.ModelTensor, "floating", True)
    for operation in (operations.TO_INTEGER, operations.TO_FLOAT):
        passing = replace(operation, gradient=operations.IDENTITY.gradient)
        monkeypatch.setitem(operations.OPERATIONS, operation.name, passing)


def _never_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model lets every tape give any number of derivatives."""
    original = tape.ModelTape.__init__

    def made(self: Any, active: Any, persistent: bool, accessed: bool) -> None:
        original(self, active, True, accessed)

    monkeypatch.setattr(tape.ModelTape, "__init__", made)


def _stop_gradient_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model treats tf.stop_gradient as tf.identity."""
    passing = replace(operations.IDENTITY, text=operations.STOP.text)  # TensorFlow still stops it
    monkeypatch.setitem(operations.OPERATIONS, "stop_gradient", passing)


def _no_ones_for_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model gives None for a target that is a source and was never recorded."""
    original = tape.gradient

    def without(record: Any, targets: Any, sources: Any, compute: Any) -> Any:
        found = original(record, targets, sources, compute)
        lost = [s in targets and s not in record.entries for s in sources]
        return [None if gone else part for gone, part in zip(lost, found, strict=True)]

    monkeypatch.setattr(tape, "gradient", without)


def _assignments_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model keeps the old value of a variable."""
    monkeypatch.setattr(model.Model, "_assign", lambda self, name, method, value: None)


def _gradients_unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model hides the first derivative from outer tapes, which only a second derivative shows."""

    gradient = tape.gradient

    def unseen(record: Any, targets: Any, sources: Any, compute: Any) -> Any:
        return gradient(record, targets, sources, recording.ActiveTapes().apply)

    monkeypatch.setattr(tape, "gradient", unseen)


def _wrong_sine(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's sine has a gradient that is wrong by a millionth."""
    from tensorflow.python.framework import ops

    entry = ops.gradient_registry._registry["Sin"]
    original = entry["type"]
    monkeypatch.setitem(entry, "type", lambda op, grad: original(op, grad) * (1 + 1e-6))


def _tapes_lose_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow gives zeros where the model says None."""
    original = tf.GradientTape.gradient

    def with_zeros(self: Any, target: Any, sources: Any, **options: Any) -> Any:
        return original(self, target, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    monkeypatch.setattr(tf.GradientTape, "gradient", with_zeros)


def _tapes_cannot_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's reset does nothing."""
    monkeypatch.setattr(tf.GradientTape, "reset", lambda self: None)


FAULTS = [
    *(
        _watch_all,
        _integers_followed,
        _never_used_up,
        _stop_gradient_passes,
        _no_ones_for_sources,
        _assignments_forgotten,
    ),
    *(_gradients_unrecorded, _wrong_sine, _tapes_lose_a_source, _tapes_cannot_be_reset),
]


RARE = {_stop_gradient_passes, _tapes_cannot_be_reset}
"""Hundreds of programs run before the first one that shows it, so they run with --exhaustive only."""


@slices.parametrized(
    "plant",
    FAULTS,
    lambda faults: [fault for fault in faults if fault not in RARE],
    ids=lambda plant: plant.__name__.strip("_"),
)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    plant(monkeypatch)
    with pytest.raises(UnexplainedDifference):
        hunt()
