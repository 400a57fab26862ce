"""Why one source of one derivative lost its gradient: the record, the replays and the rules brought together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import from_coordinates, to_coordinates
from gradcheck.diagnosis.case import Case, Loss
from gradcheck.diagnosis.cuts import Cut, cuts
from gradcheck.diagnosis.influence import Influence
from gradcheck.diagnosis.origins import Origin
from gradcheck.diagnosis.paths import paths
from gradcheck.diagnosis.record import Derivative
from gradcheck.diagnosis.replay import Code
from gradcheck.diagnosis.rules import breaks, coverage
from gradcheck.diagnosis.rules.formula import wrong_formula
from gradcheck.finding import Diagnosis

CLOSE = 1e-3
"""How near, relatively, a covering tape has to come to differences to count as the remedy."""


def diagnose(code: Code, call: Derivative, name: str, origin: Origin, seen: Influence, loss: Loss) -> Diagnosis | None:
    """The first answer to why the source's gradient is not what it should be; None where no rule knows.

    `seen` is the source's influence; `loss` the worst element: given, wanted, and what a tape around everything gives.
    """
    if _near(loss):
        loss = replace(loss, wanted=loss.covered)
    events = code.record.events[: call.position]
    path = paths(events, call.targets, origin.tensor, seen)
    own, none = cuts(events, path, call.tape), cuts(events, path, None)
    restored = bool(own) and (_restored(loss) or not none)
    chosen: Sequence[Cut] = own if restored else none
    case = Case(code.record, call, name, origin, loss, path, chosen, restored)
    if not chosen:
        return wrong_formula(case)
    rules = coverage.RULES if restored else breaks.RULES
    return next((answer for rule in rules if (answer := rule(case)) is not None), None)


def covered(code: Code, call: Derivative, origin: Origin, row: int, coordinate: int) -> float | None:
    """One element of the derivative under the tape that covered everything; None where it has none, either."""
    weights = _weights(call, row)
    try:
        result = code.record.covering.gradient(list(call.targets), origin.tensor, output_gradients=weights)
    except Exception:  # no second derivative, no registered gradient: then it gives nothing
        return None
    if result is None:
        return None
    return float(to_coordinates(np.asarray(tf.convert_to_tensor(result).numpy()))[coordinate])


def _weights(call: Derivative, row: int) -> Any:
    """The cotangent of one row: all targets together for a gradient, one element for a Jacobian."""
    if call.method == "gradient":
        return None if call.weights is None else list(call.weights)
    (target,) = call.targets
    count = to_coordinates(target.numpy()).size
    return [tf.constant(from_coordinates(np.eye(count)[row], target.shape, target.dtype.as_numpy_dtype))]


def _near(loss: Loss) -> bool:
    """Whether a tape around everything gives what differences say, which it says more exactly."""
    if loss.covered is None or loss.wanted is None:
        return False
    return abs(loss.wanted - loss.covered) <= CLOSE * abs(loss.wanted)


def _restored(loss: Loss) -> bool:
    """Whether a tape around everything gives more of what is lost than it still misses."""
    if loss.covered is None or loss.wanted is None:
        return False
    missing = abs(loss.wanted - loss.covered)
    gained = abs(loss.covered - (loss.given or 0.0))
    return gained > missing or (missing <= CLOSE * abs(loss.wanted) and gained > 0)
