"""Moves of variables beside what their gradients, or the optimizer, require."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck.result import Kind
from gradcheck.training.update import HowClipped, UpdateCheck, VariableMove, check_manual_update, optimizer_findings

BEFORE, GRADIENT = np.array([1.0, -2.0]), np.array([3.0, 4.0])


def move(change: np.ndarray, name: str = "w") -> VariableMove:
    return VariableMove(name, BEFORE, BEFORE + change)


def clipped_by(clips: tuple[str, ...]) -> HowClipped:
    return lambda change: None if (found := change.clipping(clips)) is None else found.note


def manual(*changes: np.ndarray, rate: float | None = None, clips: tuple[str, ...] = ()) -> UpdateCheck:
    moves = [move(change, name) for change, name in zip(changes, "abc", strict=False)]
    return check_manual_update(moves, [GRADIENT] * len(moves), rate, clips, clipped_by(clips))


def test_a_rate_is_estimated_from_the_moves() -> None:
    assert manual(-0.1 * GRADIENT) == ([], ["each variable moves by -0.1 times its gradient"])
    _, (note,) = manual(-0.1 * GRADIENT, -0.25 * GRADIENT)
    assert note == "each variable moves by -0.1 or 0.25 times its gradient"


def test_an_update_that_is_no_multiple_is_not_checked() -> None:
    findings, (note,) = manual(np.array([-0.3, -0.1]))
    assert findings == []
    assert "momentum" in note


def test_uphill_moves_and_a_variable_that_stays_are_wrong() -> None:
    (uphill,), _ = manual(0.1 * GRADIENT)
    assert (uphill.kind, uphill.input, uphill.index) == (Kind.UPDATE, "a", (1,))
    assert "uphill: -0.4 was expected; the opposite direction" in uphill.reason
    (still,), _ = manual(-0.1 * GRADIENT, np.zeros(2))
    assert (still.input, still.autodiff) == ("b", 0.0)


def test_a_learning_rate_is_held_to_the_last_digits() -> None:
    assert manual(-0.1 * GRADIENT, rate=0.1)[0] == []
    (finding,), _ = manual(-0.1 * (1 + 1e-6) * GRADIENT, rate=0.1)
    assert finding.reason.startswith("the step moves it by -0.40000")
    findings, (note,) = manual(-0.1 * GRADIENT / 5, rate=0.1, clips=("clip_by_norm",))
    assert findings == []
    assert "clipped to the norm 1 for each variable" in note


def test_what_does_not_move_at_all_is_not_an_update() -> None:
    assert manual(np.zeros(2)) == ([], [])


@pytest.mark.parametrize("clips", [(), ("clip_by_value",), ("clip_by_norm",)])
def test_but_it_is_a_forgotten_one_where_a_learning_rate_is_given(clips: tuple[str, ...]) -> None:
    (finding,), _ = manual(np.zeros(2), rate=0.1, clips=clips)
    assert (finding.kind, finding.index, finding.autodiff, finding.difference) == (Kind.UPDATE, (1,), 0.0, -0.4)
    (finding,), _ = manual(-0.1 * GRADIENT, np.zeros(2), rate=0.1, clips=clips)
    assert finding.input == "b"


def test_a_variable_that_stays_beside_others_was_not_clipped_to_zero() -> None:
    moves = [VariableMove("a", BEFORE, BEFORE + 0.1 * GRADIENT), VariableMove("b", BEFORE, BEFORE)]
    (finding,), notes = check_manual_update(moves, [-GRADIENT, GRADIENT], 0.1, (), clipped_by(()))
    assert (finding.input, notes) == ("b", [])


@pytest.mark.parametrize("gradient", [None, np.zeros(2)])
def test_without_a_gradient_no_move_is_the_right_one(gradient: Any) -> None:
    note = "each variable moves by -0.1 times its gradient"
    assert check_manual_update([move(np.zeros(2))], [gradient], 0.1, (), clipped_by(())) == ([], [note])
    (finding,), _ = check_manual_update([move(GRADIENT)], [gradient], 0.1, (), clipped_by(()))
    assert (finding.autodiff, finding.difference) == (4.0, 0.0)


def test_a_complex_variable_without_a_gradient() -> None:
    still = VariableMove("z", BEFORE + 1j * GRADIENT, BEFORE + 1j * GRADIENT)
    assert check_manual_update([still], [None], 0.1, (), clipped_by(()))[0] == []
    moved = VariableMove("z", still.before, still.before + 0.5j)
    (finding,), _ = check_manual_update([moved], [None], 0.1, (), clipped_by(()))
    assert (finding.input, finding.autodiff, finding.difference) == ("z (imaginary part)", 0.5, 0.0)


def test_an_optimizer_moves_its_variables_where_it_says() -> None:
    right = move(-0.1 * GRADIENT)
    assert optimizer_findings([right], [right.after], "SGD") == []
    (finding,) = optimizer_findings([right], [BEFORE - 0.2 * GRADIENT], "SGD")
    assert "SGD, given the same gradients in the same state, moves it by -0.8" in finding.reason
    assert finding.reason.endswith("that is 0.5 times as much")
