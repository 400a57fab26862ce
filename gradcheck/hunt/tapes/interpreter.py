"""Running a program with TensorFlow, and comparing what it gives with what the model predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import Program
from gradcheck.hunt.tapes import model
from gradcheck.hunt.tapes.operations import OPERATIONS
from gradcheck.hunt.tapes.program_forms import to_python
from gradcheck.hunt.tapes.recording import VALUE, Prediction
from gradcheck.hunt.tapes.tape import RaisedError
from gradcheck.numerics.sampling import CONFIRM

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Observed:
    """What TensorFlow gave: for each derivative its parts (None, or an array), and what was raised in the end."""

    derivatives: tuple[dict[str, Array | None], ...]
    raised: BaseException | None

    def part(self, path: str) -> Array | None:
        """What a part of a derivative came to in the end; raises KeyError where the program did not get so far."""
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


def run(program: form.Program) -> Observed:
    """Run a program on variables of its own, eagerly or as one tf.function."""
    state = _State(program.traced)
    for variable in program.variables:
        state.values[variable.name] = tf.Variable(variable.literal.array(), trainable=variable.trainable)

    def everything() -> list[list[Any]]:
        try:
            state.run_all(program.body)
        except Exception as error:  # whatever TensorFlow raises is what the program came to
            state.raised = error
        return [list(parts.values()) for parts in state.derivatives]

    with np.errstate(all="ignore"):
        results = (tf.function(everything, autograph=False) if program.traced else everything)()
    derivatives = tuple(
        {path: None if part is None else np.asarray(part) for path, part in zip(parts, values, strict=True)}
        for parts, values in zip(state.derivatives, results, strict=True)
    )
    return Observed(derivatives, state.raised)


@dataclass(eq=False)
class _State:
    traced: bool
    values: dict[str, Any] = field(default_factory=dict)
    tapes: dict[str, Any] = field(default_factory=dict)
    derivatives: list[dict[str, Any]] = field(default_factory=list)
    raised: BaseException | None = None

    def run_all(self, body: tuple[form.Statement, ...]) -> None:
        for statement in body:
            self._run(statement)

    def _run(self, statement: form.Statement) -> None:
        match statement:
            case form.Open() | form.Resume() | form.Stop():
                with self._block(statement):
                    self.run_all(statement.body)
            case form.Loop(count, body):
                for _ in range(count):
                    self.run_all(body)
            case form.Constant(name, literal):
                self.values[name] = tf.constant(literal.array())
            case form.Apply():
                self.values[statement.name] = _applied(statement, self.values)
            case form.Assign(name, method, value):
                getattr(self.values[name], method)(self.values[value])
            case form.Watch(tape, name):
                self.tapes[tape].watch(self.values[name])
            case form.Reset(tape):
                self.tapes[tape].reset()
            case form.Derive():
                self._derive(statement)
            case form.Branch():
                self._branch(statement)
            case form.Call():
                self._call(statement)

    @contextmanager
    def _block(self, statement: form.Open | form.Resume | form.Stop) -> Iterator[None]:
        with ExitStack() as stack:
            if isinstance(statement, form.Stop):
                stack.enter_context(self.tapes[statement.tape].stop_recording())
            elif isinstance(statement, form.Resume):
                stack.enter_context(self.tapes[statement.tape])
            else:
                for tape in statement.tapes:
                    made = tf.GradientTape(persistent=tape.persistent, watch_accessed_variables=tape.accessed)
                    self.tapes[tape.name] = stack.enter_context(made)
            yield

    def _derive(self, statement: form.Derive) -> None:
        derive = getattr(self.tapes[statement.tape], statement.method)
        unconnected = tf.UnconnectedGradients.ZERO if statement.zeros else tf.UnconnectedGradients.NONE
        targets, sources = (self._handed(one) for one in (statement.targets, statement.sources))
        result = derive(targets, sources, unconnected_gradients=unconnected)
        parts = dict(zip(statement.sources.paths(statement.name), _taken(result, statement.sources), strict=True))
        self.values.update(parts)
        self.derivatives.append(parts)

    def _handed(self, structure: form.Structure) -> Any:
        values = [self.values[name] for name in structure.names]
        if structure.form == "dict":
            return dict(zip(form.KEYS, values, strict=False))
        return values if structure.form == "list" else values[0]

    def _branch(self, statement: form.Branch) -> None:
        if not self.traced:
            chosen = tf.reduce_sum(self.values[statement.condition]) > statement.threshold
            self.run_all(statement.then if chosen else statement.otherwise)
            return
        test = tf.reduce_sum(self.values[statement.condition]) > statement.threshold
        branches = [self._body(body, (statement.name,)) for body in (statement.then, statement.otherwise)]
        (self.values[statement.name],) = tf.cond(test, *branches)

    def _call(self, statement: form.Call) -> None:
        body = self._body(statement.body, statement.names, statement.arguments)
        arguments = [self.values[name] for name in statement.arguments]
        results = tf.function(body, autograph=False)(*arguments)
        self.values.update(zip(statement.names, results, strict=True))

    def _body(
        self, statements: tuple[form.Apply, ...], names: tuple[str, ...], arguments: tuple[str, ...] = ()
    ) -> Callable[..., list[Any]]:
        def body(*given: Any) -> list[Any]:
            local = {**self.values, **dict(zip(arguments, given, strict=True))}
            for inner in statements:
                local[inner.name] = _applied(inner, local)
            return [local[name] for name in names]

        return body


def _applied(statement: form.Apply, values: dict[str, Any]) -> Any:
    return callable_of(statement.operation)(*(values[name] for name in statement.arguments))


def _taken(result: Any, structure: form.Structure) -> list[Any]:
    if structure.form == "dict":
        return [result[key] for key, _ in zip(form.KEYS, structure.names, strict=False)]
    return list(result) if structure.form == "list" else [result]


MARGIN = 10.0
"""A wrong value lies outside of both intervals by this factor, as everywhere in this project."""

NOT_VECTORIZED = "Encountered an exception while vectorizing the"
"""Jacobians document a ValueError where pfor cannot vectorize them, which the model does not predict; one case is a
tf.cond in a graph that a persistent tape records as well."""

INCONCLUSIVE = "inconclusive"


@dataclass
class PredictionComparison:
    """The differences from the model's predictions, in words, and how many derivatives ended how."""

    differences: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


class UnexplainedDifference(AssertionError):
    """TensorFlow does something that the model does not predict; the message ends with the program."""


def examine(program: Program) -> None:
    """Raise UnexplainedDifference where TensorFlow does not do what the model predicts."""
    differences = compare(program).differences
    if differences:
        raise UnexplainedDifference("\n".join([*differences, "", to_python(program)])) from None


def compare(program: Program) -> PredictionComparison:
    """Run a program with the model and with TensorFlow, and compare every derivative and the exception."""
    return compare_runs(model.run(program), run(program))


def compare_runs(predicted: model.Model, observed: Observed) -> PredictionComparison:
    """The same for runs that were made before."""
    found = PredictionComparison()
    if predicted.active.traced and predicted.raised is None and NOT_VECTORIZED in str(observed.raised):
        found.outcomes["raises ValueError, not vectorized"] += 1
        return found
    _compare_raised(predicted.raised, observed.raised, found)
    if len(predicted.derivatives) != len(observed.derivatives):
        found.differences.append(f"{len(observed.derivatives)} derivatives, {len(predicted.derivatives)} predicted")
    for predictions, values in zip(predicted.derivatives, observed.derivatives, strict=False):
        for path, prediction in predictions.items():
            outcome, difference = _compare(prediction, values[path])
            found.outcomes[f"{prediction.recorded.method}: {outcome}"] += 1
            found.differences += [f"{path}: {difference}"] if difference else []
    return found


def _compare_raised(predicted: RaisedError | None, observed: BaseException | None, found: PredictionComparison) -> None:
    if predicted is None and observed is None:
        return
    if predicted is None or observed is None:
        text = "" if observed is None else f"{type(observed).__name__}: {observed}"
        found.differences.append(f"raised {text or 'nothing'}; predicted {predicted or 'nothing'}")
        return
    found.outcomes[f"raises {predicted.kind}"] += 1
    if type(observed).__name__ != predicted.kind or predicted.message not in str(observed):
        found.differences.append(f"raised {type(observed).__name__}: {observed}; predicted {predicted}")


def _compare(prediction: Prediction, given: Array | None) -> tuple[str, str | None]:
    """How one derivative ended, and what is wrong with it, if anything."""
    kind, tensor = prediction.kind, prediction.tensor
    if (given is None) != (tensor is None):
        return kind, f"is {'None' if given is None else given.tolist()}; {kind} was predicted"
    if given is None or tensor is None:
        return kind, None
    expected = tensor.shape, tensor.value.dtype
    if kind == VALUE:
        expected = prediction.recorded.shape, prediction.recorded.source.value.dtype
    if (given.shape, given.dtype) != expected:
        return kind, f"has shape {given.shape} and dtype {given.dtype}; {expected} was predicted"
    if kind == VALUE:
        return _compare_value(prediction, given)
    return kind, f"is {given.tolist()}; zeros were predicted" if np.any(given) else None


def _compare_value(prediction: Prediction, given: Array) -> tuple[str, str | None]:
    first = prediction.recorded.estimate()
    outcome = VALUE if np.all(first.conclusive) else INCONCLUSIVE
    if np.all(np.abs(given - first.value) <= first.bound):
        return outcome, None
    second = prediction.recorded.estimate(CONFIRM)
    apart = [~(np.abs(given - one.value) <= MARGIN * one.bound) & one.conclusive for one in (first, second)]
    if np.any(apart[0] & apart[1]) or not np.all(np.isfinite(given)):
        bound = f"error at most {first.bound.max():.1e}"
        return VALUE, f"is {given.tolist()}; the finite-difference estimate is {first.value.tolist()} ({bound})"
    return outcome, None
