"""Whether a check runs inside of Hypothesis's search for a failing example, where nobody reads what it says."""

from __future__ import annotations

import sys
from contextlib import suppress


def example_under_way() -> object | None:
    """What identifies the example that Hypothesis is trying out; None where somebody reads what a failure says.

    That is so outside of Hypothesis, in the minimal failing example, which it runs once more in order to report it, in
    an explicit one, and if it prints all (`Verbosity.verbose`). A release of Hypothesis that does not tell gets None.
    """
    hypothesis, control = sys.modules.get("hypothesis"), sys.modules.get("hypothesis.control")
    if hypothesis is None or control is None:
        return None
    with suppress(Exception):  # outside of an example it raises; what this asks is no public interface
        context: object = control.current_build_context()
        printed = hypothesis.settings.default.verbosity >= hypothesis.Verbosity.verbose
        return context if context.is_final is False and not printed else None  # type: ignore[attr-defined]
    return None
