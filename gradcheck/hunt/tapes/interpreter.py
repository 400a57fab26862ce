"""Runs a program with TensorFlow, and compares the results with the predictions of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.errors import not_vectorized
from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import Program
from gradcheck.hunt import monitor
from gradcheck.hunt.tapes import model
from gradcheck.hunt.tapes.operations import OPERATIONS
from gradcheck.hunt.tapes.program_forms import to_python
from gradcheck.hunt.tapes.program_run import ProgramRun
from gradcheck.hunt.tapes.recording import VALUE, Prediction
from gradcheck.hunt.tapes.tape import RaisedError
from gradcheck.numerics.sampling import CONFIRM
from gradcheck.typing import Array

MARGIN = 10.0
"""Factor by which a wrong value lies outside of both intervals, as everywhere in this project."""

INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Observed:
    """TensorFlow's results: the parts of each derivative (None, or an array), and the exception at the end, if any."""

    derivatives: tuple[dict[str, Array | None], ...]
    raised: BaseException | None

    def part(self, path: str) -> Array | None:
        """The last value of a part of a derivative; raises KeyError where the program did not get that far."""
        return {name: part for parts in self.derivatives for name, part in parts.items()}[path]


@cache
def callable_of(operation: str) -> Callable[..., Any]:
    """The TensorFlow function of an operation of the table."""
    text = OPERATIONS[operation].text
    if text is None:
        raise ValueError(f"{operation} has no text; only gradients use it")
    names = "ab"[: OPERATIONS[operation].arity]
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text.format(*names)}", {"tf": tf, "np": np})
    return made


def run(program: Program) -> Observed:
    """Runs a program on variables of its own, eagerly or as one tf.function."""
    execution, raised = TensorFlowRun(program.traced), list[BaseException]()
    for variable in program.variables:
        execution.values[variable.name] = tf.Variable(variable.literal.array(), trainable=variable.trainable)

    def everything() -> list[list[Any]]:
        try:
            execution.run_all(program.body)
        except Exception as error:  # any exception of TensorFlow is the program's outcome
            raised[:] = [error]
        return [list(parts.values()) for parts in execution.derivatives]

    with np.errstate(all="ignore"):
        results = (tf.function(everything, autograph=False) if program.traced else everything)()
    derivatives = tuple(
        {path: None if part is None else np.asarray(part) for path, part in zip(parts, values, strict=True)}
        for parts, values in zip(execution.derivatives, results, strict=True)
    )
    return Observed(derivatives, raised[0] if raised else None)


class TensorFlowRun(ProgramRun):
    """A program that TensorFlow runs."""

    def __init__(self, traced: bool) -> None:
        super().__init__(
            traced, lambda one: tf.GradientTape(persistent=one.persistent, watch_accessed_variables=one.accessed)
        )

    def run(self, statement: form.Statement) -> None:
        match statement:
            case form.Constant(name, literal):
                self.values[name] = tf.constant(literal.array())
            case form.Apply():
                _apply(statement, self.values)
            case form.Assign(name, method, value):
                getattr(self.values[name], method)(self.values[value])
            case form.Derive(name, tape, method, targets, sources, zeros):
                unconnected = tf.UnconnectedGradients.ZERO if zeros else tf.UnconnectedGradients.NONE
                derive, ends, starts = getattr(self.tapes[tape], method), self._nested(targets), self._nested(sources)
                result = tf.nest.flatten(derive(ends, starts, unconnected_gradients=unconnected))
                self.derivatives.append(dict(zip(sources.paths(name), result, strict=True)))
                self.values.update(self.derivatives[-1])
            case form.Branch(name, condition, threshold, then, otherwise):
                test = tf.reduce_sum(self.values[condition]) > threshold
                if self.traced:
                    branches = [self._function(body, (name,)) for body in (then, otherwise)]
                    (self.values[name],) = tf.cond(test, *branches)
                else:
                    self.run_all(then if test else otherwise)
            case form.Call(_, names, arguments, body):
                function = tf.function(self._function(body, names, arguments), autograph=False)
                results = function(*(self.values[argument] for argument in arguments))
                self.values.update(zip(names, results, strict=True))
            case _:
                super().run(statement)

    def _nested(self, structure: form.Structure) -> Any:
        values = [self.values[name] for name in structure.names]
        if structure.form == "dict":
            return dict(zip(form.KEYS, values, strict=False))
        return values if structure.form == "list" else values[0]

    def _function(
        self, body: Sequence[form.Apply], names: Sequence[str], arguments: Sequence[str] = ()
    ) -> Callable[..., list[Any]]:
        def function(*given: Any) -> list[Any]:
            local = {**self.values, **dict(zip(arguments, given, strict=True))}
            for statement in body:
                _apply(statement, local)
            return [local[name] for name in names]

        return function


def _apply(statement: form.Apply, values: dict[str, Any]) -> None:
    function = callable_of(statement.operation)
    values[statement.name] = function(*(values[name] for name in statement.arguments))


@dataclass
class PredictionComparison:
    """The differences from the model's predictions, in words, and the number of derivatives with each outcome."""

    differences: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


class UnexplainedDifference(AssertionError):
    """TensorFlow does not do what the model predicts; the message ends with the program."""


def examine(program: Program) -> None:
    """Raises UnexplainedDifference where TensorFlow does not do what the model predicts.

    As with graphs, does nothing for a program that the monitor skips because the time is over.
    """
    now = monitor.current()
    differences = [] if now.passes_over(program) else compare(program).differences
    if differences:
        failure = UnexplainedDifference("\n".join([*differences, "", to_python(program)]))
        now.fail(program, failure)
        raise failure from None


def compare(program: Program) -> PredictionComparison:
    """Runs a program with the model and with TensorFlow, and compares every derivative and the exception."""
    predicted, observed = model.run(program), run(program)
    found = PredictionComparison()
    # One case is a tf.cond in a graph that a persistent tape records as well; the model predicts none.
    if program.traced and predicted.raised is None and not_vectorized(observed.raised):
        found.outcomes["raises ValueError, not vectorized"] += 1
        return found
    if predicted.raised is not None and observed.raised is not None:
        found.outcomes[f"raises {predicted.raised.kind}"] += 1
    if not _as_predicted(predicted.raised, observed.raised):
        text = "nothing" if observed.raised is None else f"{type(observed.raised).__name__}: {observed.raised}"
        found.differences.append(f"raised {text}; predicted {predicted.raised or 'nothing'}")
    if len(predicted.derivatives) != len(observed.derivatives):
        found.differences.append(f"{len(observed.derivatives)} derivatives, {len(predicted.derivatives)} predicted")
    for predictions, values in zip(predicted.derivatives, observed.derivatives, strict=False):
        for path, prediction in predictions.items():
            outcome, difference = _compare(prediction, values[path])
            found.outcomes[f"{prediction.method}: {outcome}"] += 1
            found.differences += [f"{path}: {difference}"] if difference else []
    return found


def _as_predicted(predicted: RaisedError | None, observed: BaseException | None) -> bool:
    if predicted is None or observed is None:
        return predicted is observed
    return type(observed).__name__ == predicted.kind and predicted.message in str(observed)


def _compare(prediction: Prediction, given: Array | None) -> tuple[str, str | None]:
    """The outcome of one derivative, and what is wrong with it, if anything."""
    kind, tensor = prediction.kind, prediction.tensor
    if given is None or tensor is None:
        agrees = given is None and tensor is None
        return kind, None if agrees else f"is {None if given is None else given.tolist()}; {kind} was predicted"
    expected = tensor.shape, tensor.value.dtype
    if kind == VALUE:
        expected = prediction.shape, prediction.source.value.dtype
    if (given.shape, given.dtype) != expected:
        return kind, f"has shape {given.shape} and dtype {given.dtype}; {expected} was predicted"
    if kind == VALUE:
        return _compare_value(prediction, given)
    return kind, f"is {given.tolist()}; zeros were predicted" if np.any(given) else None


def _compare_value(prediction: Prediction, given: Array) -> tuple[str, str | None]:
    first = prediction.estimate()
    outcome = VALUE if np.all(first.conclusive) else INCONCLUSIVE
    if np.all(np.abs(given - first.value) <= first.bound):
        return outcome, None
    second = prediction.estimate(CONFIRM)
    apart = [~(np.abs(given - one.value) <= MARGIN * one.bound) & one.conclusive for one in (first, second)]
    if np.any(apart[0] & apart[1]) or not np.all(np.isfinite(given)):
        bound = f"error at most {first.bound.max():.1e}"
        return VALUE, f"is {given.tolist()}; the finite-difference estimate is {first.value.tolist()} ({bound})"
    return outcome, None
