"""Diagnose a wrong derivative that `check` took, or was given: the code runs once more, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError, all_shaped, dense, shaped
from gradcheck.diagnosis.blame import TOGETHER
from gradcheck.diagnosis.diagnosis import (
    diagnose,
    diagnose_error,
    diagnose_not_finite,
    diagnose_operations,
    diagnosed,
)
from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.known_defect import known_to_raise
from gradcheck.diagnosis.not_finite_value import finite
from gradcheck.diagnosis.rules import changed_afterwards
from gradcheck.diagnosis.surrogates import surrogate_on_path
from gradcheck.numerics.probing import probe_directions
from gradcheck.problem.function import UPSTREAM, Function
from gradcheck.problem.given import given_gradient
from gradcheck.result import Cause, Diagnosis, Finding, Kind, OrderResult, Reason, Verdict
from gradcheck.tracing.blame_time import BlameTime
from gradcheck.tracing.call_source import call_source
from gradcheck.tracing.record import CodeRecord, DerivativeCall, RecordedOperation, key
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.user_code import at, definition_of, place_of
from gradcheck.typing import Array

Tensors = list[Any]


UNSEEN = "; f may do something that no tape records, or change below the finest step or its own rounding"
LOOK = (
    "look for side effects in f; if there are none, autodiff is probably correct: set rtol= to say which errors matter"
)
"""For a tape of `check`, which changes nothing between operations that are correct by themselves."""


@dataclass(frozen=True)
class CheckDiagnosis:
    """Diagnoses the findings of a check of the user's function at one order.

    `gradient` is the user's: None (TensorFlow's own is checked), a callable, or values. The time of the check begins
    now. Without `causes` nothing is looked for, and no finding has a diagnosis. `first` is the result of the first
    order, whose causes are those of a second derivative whose operations are correct.
    """

    function: Function
    gradient: Any
    order: int
    causes: bool = True
    first: OrderResult | None = None
    time: BlameTime = field(default_factory=BlameTime, compare=False, repr=False)

    def explained(self, finding: Finding, coordinate: int | None) -> Finding:
        """Return a finding about the derivative at a coordinate (None for a probe), with its diagnosis."""
        given = self.gradient is not None and self.order == 1
        if given:
            # The given gradient is that of the sum of all outputs.
            reason = finding.reason.replace("autodiff gives", "the gradient given is", 1)
            finding = replace(finding, output=None, reason=reason)
        if not self.causes:
            return finding
        diagnosis = None
        with cause_searched():
            if coordinate is None:
                diagnosis = self._blamed(finding)
            else:
                diagnosis = self._of_upstream(finding, coordinate) or self._diagnosis(finding, coordinate)
        if diagnosis is not None and diagnosis.cause is Cause.COMPOSITION and self.gradient is None:
            diagnosis = replace(diagnosis, evidence=diagnosis.evidence.removesuffix(TOGETHER) + UNSEEN, remedy=LOOK)
        if diagnosis is None or diagnosis.cause is Cause.COMPOSITION:
            diagnosis = self._of_first_order() or diagnosis
        if given and diagnosis is None and coordinate is not None:
            return replace(finding, reason=finding.reason + self._right_gradient(finding, coordinate))
        return diagnosed(finding, diagnosis)

    def _of_first_order(self) -> Diagnosis | None:
        found = [one.diagnosis for one in self.first.findings if one.diagnosis] if self.first is not None else []
        return (
            replace(found[0], evidence=f"the first derivative is wrong already: {found[0].evidence}") if found else None
        )

    @cause_searched()
    def error(self) -> Diagnosis | None:
        """Diagnose a derivative that raised an exception."""
        if not self.causes:
            return None
        record = self._record(None)
        failed = [call for call in record.derivatives if call.error is not None]
        return diagnose_error(record, failed[-1]) if failed else known_to_raise(record)

    @cause_searched()
    def wrong_shape(self) -> Diagnosis | None:
        """Diagnose a derivative that has another shape or dtype than its source."""
        taken = self.gradient is None or self.order == 2
        return known_to_raise(self._record(None)) if self.causes and taken else None

    def noted(self, order: OrderResult) -> OrderResult:
        """Add a note on NaN or infinity in a derivative, or else on a surrogate, to an inconclusive result, if any."""
        if order.verdict is not Verdict.INCONCLUSIVE or (self.gradient is not None and not callable(self.gradient)):
            return order
        with cause_searched():
            note = self._not_finite() or self._surrogate(order.reasons)
            return order if note is None else replace(order, notes=(*order.notes, note))
        return order

    def _not_finite(self) -> str | None:
        record = self._record(None)
        for position, source in enumerate(self.function.sources):
            taken = _taken_by(record, _given(record, position), self._tensor(record, position))
            if taken is None or finite(shaped(_given(record, position), source)):
                continue
            origin = diagnose_not_finite(call_source(record, *taken, source.name))
            if origin is not None:
                return f"the derivative with respect to {source.name} is not finite: {origin.evidence}; {origin.remedy}"
        return None

    def _surrogate(self, reasons: Sequence[Reason]) -> str | None:
        """Name the surrogates on the path from a source, where steps, or their noise, may be why nothing is decided."""
        if not {Reason.STAIRCASE, Reason.ILL_CONDITIONED}.intersection(reasons):
            return None
        record, where = self._record(None), "the staircase in" if Reason.STAIRCASE in reasons else "on the path from"
        for position, source in enumerate(self.function.sources):
            taken = _taken_by(record, _given(record, position), self._tensor(record, position))
            if taken is not None and (found := surrogate_on_path(call_source(record, *taken, source.name))):
                return f"{where} {source.name}: {found}"
        return None

    def record(self) -> CodeRecord:
        """Return the record of a run that takes the derivative of the sum of the outputs."""
        return self._record(None)

    def _diagnosis(self, finding: Finding, coordinate: int) -> Diagnosis | None:
        if self.gradient is not None and not callable(self.gradient):
            return None
        position = int(np.searchsorted([part.stop for part in self.function.parts], coordinate, side="right"))
        source, record = self.function.sources[position], self._record(finding.output)
        given = _given(record, position)
        taken = _taken_by(record, given, self._tensor(record, position))
        if taken is None:
            return None if given is None else changed_afterwards(record, given, finding)
        coverable = self.order == 1 and not source.constrained
        place = (0, coordinate - self.function.parts[position].start) if coverable else None
        return diagnose(call_source(record, *taken, source.name), finding, place)

    def _of_upstream(self, finding: Finding, coordinate: int) -> Diagnosis | None:
        """Diagnose a derivative that is correct only for an incoming cotangent of 1."""
        if self.gradient is not None or self.order == 2 or finding.kind not in (Kind.WRONG_VALUE, Kind.SUBDIFFERENTIAL):
            return None
        weights = self._weights(finding.output)
        return not_linear(self.function, self._record(finding.output), finding, weights, coordinate)

    def _blamed(self, finding: Finding) -> Diagnosis | None:
        """Diagnose the wrong operation behind a probe, which is about all sources together."""
        record = self._record(finding.output)
        for position, source in enumerate(self.function.sources):
            if self.gradient is None and record.derivatives:
                tensor = self._tensor(record, position)
                one = call_source(record, record.derivatives[-1], tensor, source.name)
                diagnosis = diagnose_operations(one, finding)
                if diagnosis is not None:
                    return diagnosis
        return None

    def _tensor(self, record: CodeRecord, position: int) -> Any:
        """A source in a record."""
        variable = self.function.sources[position].variable
        free = [source.variable is None for source in self.function.sources]
        return record.inputs[sum(free[:position])] if variable is None else variable

    def _record(self, output: int | None) -> CodeRecord:
        """Records d(output)/d(inputs); None stands for the sum of all outputs."""
        if output not in self._records:
            self._records[output] = self._recorded(output)
        return self._records[output]

    @cached_property
    def _records(self) -> dict[int | None, CodeRecord]:
        return {}

    def _recorded(self, output: int | None) -> CodeRecord:
        sources = self.function.sources
        tensors = self.function.tensors(self.function.point)
        free = tuple(tensor for tensor, source in zip(tensors, sources, strict=True) if source.variable is None)
        held = [source.variable for source in sources if source.variable is not None]

        def first(tensors: Tensors) -> Tensors:
            if self.gradient is None:
                return _gradient(self.function.call, tensors, self.function.cotangent(self._weights(output)))
            return given_gradient(self.function, self.gradient)(tensors)

        def of_known_shapes(tensors: Tensors) -> Tensors:
            return all_shaped(first(tensors), tensors)

        def f(*inputs: Any) -> Tensors:
            tensors = [*inputs, *held]
            return first(tensors) if self.order == 1 else _gradient(of_known_shapes, tensors, None)

        return replace(recorded(f, free), time=self.time)

    def _weights(self, output: int | None) -> Array:
        """The cotangent of an output, or of all.

        Outputs with a constant sum, such as those of a normalization, have a sum without a second derivative.
        """
        count = self.function.outputs
        if output is not None:
            return np.asarray(np.eye(1, count, output)[0])
        return np.ones(count) if self.order == 1 or count == 1 else _unlike_weights(count)

    def _right_gradient(self, finding: Finding, coordinate: int) -> str:
        """Quote TensorFlow's own gradient of the function, if it is correct where the given one is not."""
        if finding.kind not in (Kind.MISSING, Kind.WRONG_VALUE):
            return ""
        try:
            gradients = self.function.gradients(self.function.ones[None]).values
        except (DerivativeRaisedError, WrongShapeError):
            return ""
        value = float(gradients[0, coordinate])
        agrees = abs(value - (finding.difference or 0.0)) <= (finding.allowed or 0.0)
        return f"; TensorFlow's own gradient of f is {value:.10g}" if agrees else ""


def _given(record: CodeRecord, position: int) -> Any:
    """The derivative that was taken with respect to a source."""
    result = record.result
    return result[position] if isinstance(result, Sequence) and len(result) > position else None


def _gradient(f: Callable[[Tensors], Tensors], tensors: Tensors, weights: Tensors | None) -> Tensors:
    """Return the gradient of the weighted sum of the values of `f`; by default no two weights are alike."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        parts = f(tensors)
        weighted = zip(parts, weights or map(_unlike, parts), strict=True)
        pairs = [(tf.convert_to_tensor(part), weight) for part, weight in weighted if part is not None]
    if not pairs:
        return [None] * len(tensors)
    outputs, cotangents = map(list, zip(*pairs, strict=True))
    return list(tape.gradient(outputs, tensors, output_gradients=cotangents))


def _unlike(part: Any) -> Any:
    """Weights of magnitude 1/2 to 1, of both signs, so that errors do not cancel."""
    if part is None:
        return None
    tensor = tf.convert_to_tensor(part)
    weights = _unlike_weights(int(np.prod(tensor.shape)))
    return tf.cast(tf.constant(np.reshape(weights, tensor.shape)), tensor.dtype)


def _unlike_weights(count: int) -> Array:
    drawn = probe_directions(np.random.default_rng(0), 1, np.ones(max(count, 1)))
    return np.asarray(drawn[0, :count])


def _taken_by(record: CodeRecord, given: Any, tensor: Any) -> tuple[DerivativeCall, Any] | None:
    """The last call that returned this gradient, or None for this tensor or variable, and its source."""
    for call in reversed(record.derivatives):
        for source, result in zip(call.sources, call.results or (), strict=False):
            if _same(result, given) and (given is not None or key(source) == key(tensor)):
                return call, source
    return None


def _same(result: Any, given: Any) -> bool:
    """Whether a derivative is the given one; IndexedSlices are passed on as a tensor."""
    if result is given or not isinstance(result, tf.IndexedSlices) or given is None:
        return result is given
    return np.array_equal(dense(result, given).numpy(), given.numpy(), equal_nan=True)


ALIKE = 1e-3
"""Results for two incoming cotangents are not proportional if they differ by more than this relative error."""


def not_linear(
    function: Function, record: CodeRecord, finding: Finding, row: Array, coordinate: int
) -> Diagnosis | None:
    """Diagnose a first derivative at a coordinate that is correct for a cotangent (m,), but not for its multiple."""
    try:
        one, other = (function.gradients_of(factor * row[None]).values[0, coordinate] for factor in (1.0, UPSTREAM))
    except DerivativeRaisedError:  # for one of both alone
        return None
    if not abs(UPSTREAM * one - other) > abs(UPSTREAM) * (finding.allowed or 0.0):
        return None
    culprit = next((event for event in record.operations if _forgets(event)), None)
    given = (
        f"for an upstream gradient of 1 it is {one:.6g}, and {other:.6g} for one of {UPSTREAM:g}, which the check "
        f"passes, dividing the result by {UPSTREAM:g}"
    )
    remedy = "multiply by the upstream gradient"
    if culprit is None or culprit.custom_gradient is None:
        return Diagnosis(
            Cause.CUSTOM_GRADIENT, f"{given}; it is not proportional to it", f"{remedy}, and use it only as a factor"
        )
    name, defined = culprit.custom_gradient.func.__name__, definition_of(culprit.custom_gradient.func)
    evidence = (
        f"{given}: the gradient of the function {name} under tf.custom_gradient{at(culprit.line)} is not "
        "proportional to the upstream gradient that it is given"
    )
    return Diagnosis(
        Cause.CUSTOM_GRADIENT,
        evidence,
        f"{remedy} in the gradient that {name}{at(defined)} returns, and use it only as a factor",
        place_of(defined, name),
    )


def _forgets(event: RecordedOperation) -> bool:
    """Whether the gradient that an operation brought along is not proportional to the incoming cotangent."""
    if event.custom_gradient is None or event.backward is None:
        return False
    ones = [tf.ones_like(one) for one in event.outputs]
    try:
        both = [tf.nest.flatten(event.backward(*[factor * one for one in ones])) for factor in (1.0, UPSTREAM)]
    except Exception:  # whatever the user's gradient function raises
        return False
    given = ([np.asarray(dense(part).numpy()) for part in parts if part is not None] for parts in both)
    pairs = zip(*given, strict=True)
    return any(np.max(np.abs(UPSTREAM * a - b), initial=0) > ALIKE * np.max(np.abs(b), initial=0) for a, b in pairs)
