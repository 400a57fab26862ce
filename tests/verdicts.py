"""Checks of which only the verdict matters: they search for no cause, which takes most of the time of a mismatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck.check import result_of
from gradcheck.options import options_from
from gradcheck.result import Result
from gradcheck.verdict.probes import PROBES
from tests import slices


def check(
    f: Callable[..., Any], *inputs: Any, order: int = 1, variables: Any = None, gradient: Any = None, **options: Any
) -> Result:
    """The result of `gradcheck.check`, without causes in the test command, and with them in a whole run."""
    asked = options_from(order, **{"rtol": None, "atol": None, "probes": PROBES, **options})
    return result_of(f, inputs, asked, variables, gradient, causes=slices.whole)
