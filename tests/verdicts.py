"""Checks of which only the verdict matters: they search for no cause, which takes most of the time of a mismatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck.check import result_of
from gradcheck.result import Result
from tests import slices


def check(
    f: Callable[..., Any], *inputs: Any, order: int = 1, variables: Any = None, gradient: Any = None, **options: Any
) -> Result:
    """The result of `gradcheck.check`, without causes in the test command, and with them in a whole run."""
    return result_of(f, inputs, order, variables, gradient, **options, causes=slices.whole)
