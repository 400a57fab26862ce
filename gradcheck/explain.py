"""Why is my gradient None, zero or only a part? `explain` answers for code that is not under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck.diagnosis.explained_call import explained_call, merged
from gradcheck.diagnosis.recorder import recorded
from gradcheck.diagnosis.replay import Code
from gradcheck.finding import Result
from gradcheck.verdict.entries import Tolerance


def explain(
    f: Callable[..., Any],
    *inputs: Any,
    variables: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    probes: int = 8,
) -> Result:
    """Say of each derivative that `f` takes, source by source, whether it is right, and if not, why."""
    record = recorded(f, inputs)
    code = Code(f, inputs, record)
    tolerance = Tolerance(rtol, atol)
    calls = [explained_call(code, call, tolerance, probes) for call in record.derivatives]
    return Result({1: merged([call.order for call in calls])}, tuple(s for call in calls for s in call.sources))
