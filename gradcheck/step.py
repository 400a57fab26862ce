"""The public API for training steps: `assert_step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.sources import parse_arguments
from gradcheck.check import raise_unless_good
from gradcheck.diagnosis.unconnected import variable_name
from gradcheck.options import name_of, notes_on_frozen, options_from, refuse_misread_model, refuse_modes
from gradcheck.progress import TimeUpError, shown
from gradcheck.result import Result, Verdict
from gradcheck.tracing.intended import Intended
from gradcheck.tracing.state import seeded
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.training.runner import DifferingRunsError, StepRunner, prepare
from gradcheck.training.sessions import SessionRunner, session_of
from gradcheck.training.step_check import StepCheck
from gradcheck.verdict.asked import Allowed, Asked, Named
from gradcheck.verdict.probes import PROBES
from gradcheck.verdict.summary import out_of_time

ASK = "gradcheck.explain, which takes the same arguments, may decide more: it looks at the operations of the step alone"


def _number(learning_rate: Any) -> float | None:
    """The learning rate as a float. Raises TypeError for anything but a number."""
    if learning_rate is None:
        return None
    if isinstance(learning_rate, (int, float, np.integer, np.floating)):
        return float(learning_rate)
    kind = type(learning_rate).__name__
    raise TypeError(
        f"learning_rate is of type {kind}, a number was expected: the factor of the gradients in the step's update, "
        "such as learning_rate=0.1"
    )


def _unskipped(runner: StepRunner, found: Sequence[Any], asked: Asked) -> tuple[Sequence[Any], Asked, Sequence[str]]:
    """Leave skipped variables out of those that the runner checks.

    Returns the others, what is asked of them by the names that they have by themselves, and a note. Raises ValueError
    for a name of none of them, and if all of them are skipped.
    """
    if not asked.by_name:
        return found, asked, []
    named = _named(found)
    unconnected = [(variable_name(one) or "a variable", one) for one in runner.unconnected]
    notes = asked.notes_on([*named, *unconnected])
    places = [place for place, one in enumerate(named) if asked.of(*one) is not None]
    kept = [found[place] for place in places]
    runner.keep(places)
    runner.unconnected = tuple(one for name, one in unconnected if asked.of(name, one) is not None)
    names = {own: named[place][0] for (own, _), place in zip(_named(kept), places, strict=True)}
    return kept, asked.under_other_names(names), notes


def _named(variables: Sequence[Any]) -> list[Named]:
    return [(source.name, source.variable) for source in parse_arguments((), variables).sources] if variables else []


@told_plainly
def assert_step(
    step: Callable[..., Any],
    *inputs: Any,
    variables: Any = None,
    learning_rate: float | None = None,
    session: Any = None,
    rtol: Allowed = None,
    atol: Allowed = None,
    skip: Sequence[str] = (),
    probes: int = PROBES,
    seconds: float | None = None,
    intended: Any = (),
    inconclusive: str | None = None,
    unconnected: str = "warn",
) -> Result:
    """Raise a GradientMismatch unless a training step's gradients and update are those of its loss.

    `step` is called as step(*inputs), eagerly or as a tf.function. It returns the loss (a scalar) and its gradients,
    one for each of `variables`, or passes the gradients to an optimizer of Keras or TensorFlow 1; then it may return
    the loss alone, or (loss, anything). A Keras model's train_step is a step: assert_step(model.train_step, (x, y)).
    Without `variables`, all trainable variables that the step uses are checked. The gradients are compared with finite
    differences of the loss, as in `assert_close`, and the variables have to move as the optimizer moves them for these
    gradients, or, without an optimizer, by -`learning_rate` times the gradient. If a step with several losses, such as
    a GAN's, returns one of them, or a dict, each variable is compared with the loss that its own tape differentiated,
    with updates from before that tape held fixed. The notes of the returned Result mention that, clipping and
    averaging. `rtol`, `atol`, `skip`, `probes`, `seconds`, `intended` and `inconclusive` are those of `assert_close`,
    and so is `unconnected`, for variables that are listed, or that a tape or an optimizer of the step got and that are
    to be trained, and for those of them that never are, since the loss changes with them in jumps alone.

    Every variable that the step accesses, and the generators of Python, NumPy and TensorFlow, are left as they were;
    summaries are not written. Raises ValueError, naming it, for what cannot be put back (a dataset's iterator, Python
    state that makes two calls differ, files) and for an optimizer inside strategy.run, TypeError for a step without a
    loss or gradients, RuntimeError if the step raises.

    >>> import tensorflow as tf
    >>> x = tf.Variable(3.0)
    >>> def step():
    ...     with tf.GradientTape() as tape:
    ...         loss = x**2
    ...     return loss, [tape.gradient(loss, x)]
    >>> print(assert_step(step, variables=[x]).verdict)
    agree
    """
    refuse_modes(inconclusive, unconnected)
    if not callable(step):
        raise TypeError(
            f"step is of type {type(step).__name__}, a callable was expected: gradcheck.assert_step(step, batch) calls "
            "step(batch), which returns (loss, gradients) or passes the gradients to an optimizer"
        )
    refuse_misread_model("assert_step", step, inputs)
    rate = _number(learning_rate)
    session = session_of(session)
    runner = StepRunner(step, inputs) if session is None else SessionRunner(step, inputs, session)
    runner.intended = Intended(intended)
    if runner.intended and session is not None:
        raise ValueError("intended= is for steps of TensorFlow 2: a session does not show what its graph calls")
    options = options_from(1, rtol, atol, probes, seconds, skip)
    with shown(name_of(step), seconds), runner.mode(), ExitStack() as stack:
        try:
            try:
                found = prepare(runner, variables)
            except DifferingRunsError:  # without a seed, eager operations may draw other numbers at every call
                stack.enter_context(seeded())
                found = prepare(runner, variables)
            runner.hold()
            kept, asked, notes = _unskipped(runner, found, options.asked)
            result = StepCheck(runner, kept, replace(options, asked=asked), rate).result()
            order = result.orders[1]
            more = [*notes, *notes_on_frozen(step), *([ASK] if order.verdict is Verdict.INCONCLUSIVE else [])]
            result = replace(result, orders={1: replace(order, notes=(*order.notes, *more))})
        except TimeUpError:
            result = Result({1: out_of_time(1)})
    raise_unless_good(name_of(step), result, "given", inconclusive, unconnected)
    return result
