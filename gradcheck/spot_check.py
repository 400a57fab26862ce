"""The public API for a check during a training: `spot_check` compares a gradient with a few differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gradcheck.autodiff.sources import variables_in
from gradcheck.check import result_of
from gradcheck.diagnosis.unconnected import tell_unconnected
from gradcheck.options import Options, name_of, refuse_directions, refuse_modes, refuse_uncallable
from gradcheck.result import Reason, Verdict
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.training.spot_walk import SpotCheck, SpotWalk, not_finite, nothing_compared


@told_plainly
def spot_check(
    loss: Callable[[], Any],
    variables: Any,
    gradient: Callable[[], Any] | None = None,
    *,
    directions: int = 2,
    unconnected: str = "warn",
) -> SpotCheck:
    """Compare the current gradient of a training's loss with differences of the loss along a few directions.

    `loss` takes no arguments and returns the loss of the current batch, a scalar; make it a tf.function if it is called
    often. `gradient` takes no arguments and returns a tensor or None for each of `variables`, as the training's own
    code computes them; by default TensorFlow's gradient of `loss` is taken. It is a function, so that it draws the
    random numbers that the loss draws. The first direction follows the signs of the gradient, so that no entries
    cancel; the others are random. Each takes 16 values of the loss, 4 more if they do not agree. A mismatch is then
    confirmed by `check`, which takes the time it needs, and comes with its cause; if `check` finds nothing, the verdict
    is inconclusive.

    `unconnected`, "warn", "raise" or "ignore", is for variables without a gradient that do not change the loss, as in
    `assert_close`; if all of them are such, the verdict is inconclusive, which raises nothing.

    The variables, other state that the loss changes, and all generators are left as they were; randomness is held
    fixed. The verdict is inconclusive if the loss or a variable is not finite. Raises TypeError and ValueError, naming
    the argument, for what cannot be compared at any point, such as complex variables.

    >>> import tensorflow as tf
    >>> weights = tf.Variable([0.5, -1.0])
    >>> print(spot_check(lambda: tf.reduce_sum(tf.sin(weights) ** 2), [weights]).verdict)
    agree
    """
    refuse_directions(directions)
    refuse_modes(None, unconnected)
    refuse_uncallable(loss, gradient)
    variables = list(variables) if isinstance(variables, Iterator) else variables
    listed = variables_in(variables)
    try:
        walk = SpotWalk.of(loss, variables, gradient)
    except ValueError:
        if not (endless := not_finite(listed)):
            raise
        note = f"{endless}, so that there is nothing to compare; start again from finite values"
        return nothing_compared(Reason.NOT_FINITE, note, listed, finite=False)
    found = walk.along(directions).noted(walk.named, partial(recorded, walk.own))
    if found.verdict == Verdict.MISMATCH:
        return found.looked_into(result_of(loss, (), Options(), variables, gradient, unused=True))
    tell_unconnected(name_of(loss), found.result, unconnected, "warn", stacklevel=3)
    return found
