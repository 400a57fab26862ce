"""The options of the public functions: checked once, with messages that say what was given and what was expected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck.verdict.probes import PROBES
from gradcheck.verdict.tables import Tolerance

MODES = ("raise", "warn", "ignore")
"""The values of `inconclusive` and `unconnected`, which say what happens on a result that is no agreement."""


@dataclass(frozen=True)
class Options:
    """The highest order of a check, its tolerance, its number of random probes on each side, and its time limit."""

    order: int = 1
    tolerance: Tolerance = field(default_factory=Tolerance)
    probes: int = PROBES
    seconds: float | None = None


def options_from(
    order: int, rtol: float | None, atol: float | None, probes: int, seconds: float | None = None
) -> Options:
    """Validate the options of a check. Raises ValueError."""
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order not in (1, 2):
        raise ValueError(f"order was {order!r}; 1 (first derivatives) or 2 (first and second derivatives) was expected")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (_is_number(value) and 0 <= value < np.inf):
            raise ValueError(f"{name} was {value!r}; a finite number, zero or positive, was expected")
    if seconds is not None and not (_is_number(seconds) and seconds > 0):
        raise ValueError(f"seconds was {seconds!r}; a positive number, or None for no limit, was expected")
    if not isinstance(probes, int) or isinstance(probes, bool) or probes < 8:
        raise ValueError(
            f"probes was {probes!r}; an integer of at least 8 was expected (among fewer, errors may cancel unseen)"
        )
    return Options(order, Tolerance(rtol, atol), probes, seconds)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def refuse_modes(inconclusive: str | None, unconnected: str) -> None:
    """Raise ValueError for an `inconclusive` or `unconnected` that is none of the modes."""
    modes = ", ".join(map(repr, MODES))
    if inconclusive not in (None, *MODES):
        raise ValueError(f"inconclusive was {inconclusive!r}; expected one of {modes}")
    if unconnected not in MODES:
        raise ValueError(f"unconnected was {unconnected!r}; expected one of {modes}")


def refuse_directions(directions: Any) -> None:
    """Raise ValueError for an invalid number of directions."""
    if not isinstance(directions, int) or isinstance(directions, bool) or directions < 1:
        raise ValueError(f"directions was {directions!r}; an integer of at least 1 was expected")


def refuse_uncallable(loss: Any, gradient: Any) -> None:
    """Raise TypeError for a loss, or a gradient that was given, that cannot be called."""
    for name, given in (("loss", loss), ("gradient", gradient)):
        if not callable(given) and (name == "loss" or given is not None):
            raise TypeError(
                f"{name} is of type {type(given).__name__}; a function without arguments was expected: "
                f"spot_check(lambda: loss_of(batch), variables, lambda: gradients_of(batch))"
            )


def name_of(f: Any) -> str:
    """The name of the user's function in messages."""
    return str(getattr(f, "__name__", None) or getattr(f, "_name", None) or type(f).__name__)
