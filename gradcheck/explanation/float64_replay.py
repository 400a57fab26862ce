"""A derivative that somebody's code took, beside differences of the float64 form of its replays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.float64_form import with_float64_form
from gradcheck.autodiff.given import GivenGradient
from gradcheck.autodiff.opening import open_function
from gradcheck.comparison.probes import first_order
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.explanation.call_problem import UntraceableError
from gradcheck.explanation.record import CallSource
from gradcheck.explanation.replay import replayed


def first_order_in_float64(one: CallSource, tolerance: Tolerance, probes: int) -> list[Comparison] | None:
    """The first derivatives with respect to a source, as `check` compares them; None where there is no float64 form.

    For gradients that are not finite: what rounding does to the others is not measured here.
    """
    if one.call.method != "gradient" or one.moved_by_operations:
        return None
    try:
        function = with_float64_form(open_function(partial(_target, one), (tf.constant(one.value),), None))
    except (RuntimeError, ValueError):  # the code did not come to the call, or it gives no finite number there
        return None
    given = tf.convert_to_tensor(one.given)
    problem = GivenGradient.of(function, lambda tensors: [given])
    return None if function.wide is None else first_order(problem, tolerance, probes)


def _target(one: CallSource, tensor: Any) -> Any:
    """The targets of the call, weighted and summed, with the source at a tensor."""
    replay = replayed(one.record, one.call, [(one, tensor - one.value)])
    if replay.target is None:
        raise UntraceableError("the code did not come to the call") from replay.error
    weights: Sequence[Any] = one.call.weights or [None] * len(replay.target)
    pairs = zip(replay.target, weights, strict=True)
    return tf.add_n([tf.reduce_sum(part if weight is None else weight * part) for part, weight in pairs])
