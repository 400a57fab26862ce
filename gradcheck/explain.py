"""Why is my gradient None, zero or only a part? `explain` answers for code that is not under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.function import parameter_names
from gradcheck.autodiff.sources import as_tensors, variable_of
from gradcheck.autodiff.state import state_restored
from gradcheck.check import tolerance_from
from gradcheck.comparison.tables import Tolerance
from gradcheck.explanation.calls import Explained, explained_call, merged, own_call
from gradcheck.explanation.record import CodeRecord
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.replay import Code
from gradcheck.explanation.traced import as_traced
from gradcheck.result import OrderResult, Result, Verdict


def explain(
    f: Callable[..., Any],
    *inputs: Any,
    variables: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    probes: int = 8,
) -> Result:
    """Say of every derivative that `f` takes, source by source, whether it is right, and if not, why.

    `f` may open its own tapes: every call of gradient, jacobian and batch_jacobian that it makes is held against
    differences of the call's target, and what is lost is traced to the line that lost it. It may be a training step,
    such as a Keras model's train_step. If it takes no derivative it has to return a tensor (or a nested structure of
    them); then the gradient of the sum of what it returns is explained, with respect to the floating inputs and
    `variables`, or, where it takes no floating inputs, to the trainable variables that it reads. Inputs are those of
    `check`. `rtol`, `atol` and `probes` are those of `check`, too.

    `f` is run many times; variables that it assigns, and the generators of Python, NumPy and TensorFlow, are left as
    they were. Printing the result is meant for people; `result.sources` holds one SourceResult a source and call, with
    `gradient`, `right` and `diagnosis` (cause, evidence, remedy, place, and `lost`, the size of the lost part).

    Raises TypeError, ValueError or RuntimeError, naming the argument, where there is nothing to explain.

    >>> import tensorflow as tf
    >>> x = tf.Variable(1.0)
    >>> def gradient():
    ...     square = x**2
    ...     with tf.GradientTape() as tape:
    ...         loss = 3 * square
    ...     return tape.gradient(loss, x)
    >>> (source,) = explain(gradient).sources
    >>> source.right, source.diagnosis.cause.value
    (False, 'computed outside the tape')
    """
    if not callable(f):
        raise TypeError(
            f"f is of type {type(f).__name__}, a callable was expected: gradcheck.explain(f, x) runs f(x) and explains "
            "the derivatives that it takes"
        )
    tolerance = tolerance_from(1, rtol, atol, probes)
    held = _variables(variables)
    with state_restored():
        return _explained(f, inputs, held, tolerance, probes)


def _explained(
    f: Callable[..., Any], inputs: tuple[Any, ...], variables: list[Any], tolerance: Tolerance, probes: int
) -> Result:
    parameters = parameter_names(f)
    given = as_tensors(inputs, parameters)
    code, names = Code(f, given, recorded(f, given)), None
    _refuse_raised(code.record)
    if not code.record.derivatives:
        code, names = own_call(code, variables, parameters)
    code, complaint = as_traced(code)
    calls = code.record.derivatives if names is None else code.record.derivatives[-1:]
    found = [explained_call(code, call, tolerance, probes, names) for call in calls]
    if complaint is not None and complaint.finding is not None:
        found.append(Explained(OrderResult(1, Verdict.MISMATCH, (complaint.finding,)), (complaint,)))
    return Result({1: merged([one.order for one in found])}, tuple(source for one in found for source in one.sources))


def _variables(variables: Any) -> list[Any]:
    """The variables that were listed, flat. Raises TypeError for anything else."""
    if variables is None:
        return []
    given = [variables] if variable_of(variables) is not None else tf.nest.flatten(variables)
    for position, item in enumerate(given):
        if variable_of(item) is None:
            raise TypeError(
                f"variables[{position}] is of type {type(item).__name__}; a tf.Variable was expected "
                "(tensors go in as inputs: gradcheck.explain(f, tensor))"
            )
    return [variable_of(item) for item in given]


def _refuse_raised(record: CodeRecord) -> None:
    """What `f` raises by itself is no derivative that failed."""
    asked = [call.error for call in record.derivatives]
    if record.error is not None and not any(record.error is error for error in asked):
        raise RuntimeError(
            f"f raised {type(record.error).__name__}: {record.error}; "
            "it has to run before its gradients can be explained"
        ) from record.error
