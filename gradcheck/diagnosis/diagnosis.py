"""Diagnose why a source lost its gradient, from the record, the replays and the rules."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.errors import tape_used_up, unregistered_operation
from gradcheck.autodiff.reverse import dense
from gradcheck.diagnosis import rules
from gradcheck.diagnosis.blame import (
    NOTHING,
    Blame,
    blame,
    blame_diagnosis,
    composed,
    ended,
    recognised_cut,
)
from gradcheck.diagnosis.call_problem import CallProblem
from gradcheck.diagnosis.chain import NoChainError
from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.known_defect import known_to_raise
from gradcheck.diagnosis.not_finite import not_finite_diagnosis
from gradcheck.diagnosis.paths import dependency_path, differentiable, path_breaks
from gradcheck.diagnosis.unconnected import dependence, kept_between_calls
from gradcheck.diagnosis.wrong_gradient import LostPart, WrongGradient
from gradcheck.numerics.difference import first_difference
from gradcheck.result import Cause, Diagnosis, Finding, Kind
from gradcheck.tracing.kernels import OF_SHAPES, STOPPING
from gradcheck.tracing.record import (
    CallSource,
    CodeRecord,
    DerivativeCall,
    HostRead,
    RecordedOperation,
    WatchEvent,
    key,
)
from gradcheck.tracing.replay import FAR_MOVES, Influence, influence
from gradcheck.tracing.user_code import at, file_owner, place_of
from gradcheck.verdict.lines import sample_values
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.summary import broken, element_of, estimate_text

CLOSE = 1e-3
"""Relative distance to the finite-difference estimate within which a covering tape counts as the remedy."""
STEP = 2.0**-10
"""The relative step by which the element with the largest derivative is found."""
AS_BEFORE = "; as for another input, where no other operation is wrong by itself"
NUMBERS = (int, float, complex, np.generic, np.ndarray)
"""Types that Python and NumPy compute, where a tensor is needed."""
STEPWISE = "small perturbations do not change the target, larger ones do"


def diagnose(
    source: CallSource, finding: Finding, place: tuple[int, int] | None = None, moved: Influence | None = None
) -> Diagnosis | None:
    """Diagnose a finding about a source: the operation whose derivative is wrong, or else the break of its path.

    None where neither is found. `place` is the finding's row and coordinate, where a covering tape knows them; `moved`
    is the influence of the source, if it is known already.
    """
    row = None if place is None else place[0]
    if finding.autodiff is not None and not np.isfinite(finding.autodiff):
        origin = diagnose_not_finite(source, row)
        if origin is not None:
            return origin
    lost, restored = _lost_part(source, finding, place)

    @cache
    def wrong() -> WrongGradient:
        return _wrong_gradient(source, lost, restored, moved or influence(source))

    causes = source.record.causes
    cause = rules.first_diagnosis(wrong()) if causes else None
    if cause is not None and (cause.cause, cause.place) in causes:
        known = recognised_cut(cause, wrong())
        return replace(known, evidence=known.evidence + AS_BEFORE)
    found = NOTHING if restored else blamed(source, row)
    if found.culprit is not None:
        return blame_diagnosis(found, lost.size)
    cause = rules.first_diagnosis(wrong())
    if cause is None and restored:
        found = blamed(source, row)
        cause = blame_diagnosis(found, lost.size)
    if wrong().wider_tape_helps:
        return cause
    if cause is not None and found.looked_at and not found.left:
        causes.add((cause.cause, cause.place))
    return composed(found, cause, wrong(), finding.kind)


def diagnose_operations(source: CallSource, finding: Finding) -> Diagnosis | None:
    """Diagnose a wrong, or not finite, derivative of an operation, without other evidence; or a search out of time."""
    origin = None if finding.autodiff is None or np.isfinite(finding.autodiff) else diagnose_not_finite(source)
    if origin is not None:
        return origin
    found = blamed(source)
    return ended(found) if found.left else blame_diagnosis(found)


def diagnose_not_finite(source: CallSource, row: int | None = None) -> Diagnosis | None:
    """Find the origin of NaN or infinity in a gradient; `row` is that of a Jacobian."""
    with suppress(NoChainError):
        return not_finite_diagnosis(source.record, source.call, source.tensor, _weights(source.call, row))
    return None


def blamed(source: CallSource, row: int | None = None) -> Blame:
    """Find the operation whose own derivative is wrong; `row` is that of a Jacobian."""
    with suppress(NoChainError):
        return blame(source.record, source.call, source.tensor, _weights(source.call, row))
    return NOTHING


def _lost_part(source: CallSource, finding: Finding, place: tuple[int, int] | None) -> tuple[LostPart, bool]:
    """The lost part, and whether a tape around everything comes nearer to the estimate."""
    given, expected = finding.autodiff, finding.difference
    covering, restored = None if place is None else covering_gradient(source, *place), False
    if covering is not None and expected is not None:
        off = abs(expected - covering)
        if off <= CLOSE * abs(expected):
            # A tape around everything gives the estimate's value, more exactly.
            expected, off = covering, 0.0
        restored = abs(covering - (given or 0.0)) > off
    element = finding.element if finding.index else ""
    return LostPart(given, expected, covering, stepwise=expected is None, element=element), restored


def _wrong_gradient(source: CallSource, lost: LostPart, restored: bool, moved: Influence) -> WrongGradient:
    """The source with its path and the breaks of that."""
    events = source.record.before(source.call)
    path = dependency_path(events, source.call.targets, source.tensor, moved.changed)
    of_tape, of_any = path_breaks(events, path, source.call.tape), path_breaks(events, path, None)
    wider_tape_helps = bool(of_tape) and (restored or not of_any)
    return WrongGradient(source, lost, path, of_tape if wider_tape_helps else of_any, wider_tape_helps)


def diagnose_error(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Diagnose a derivative that raised an exception; None where its message is sufficient."""
    number = _number_given(record, call)
    if number is not None:
        return number
    if tape_used_up(call.error):
        return rules.used_tape(record, call)
    if (operation := unregistered_operation(call.error)) is not None:
        return rules.unregistered(record, call, operation)
    return known_to_raise(record) or rules.raising(record, call)


def _number_given(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Diagnose a target or a source that is a number, or a NumPy array; None where there is none."""
    for what, given in (("target", call.targets), ("source", call.sources)):
        number = next((one for one in given if isinstance(one, NUMBERS)), None)
        if number is None:
            continue
        reads = (event for event in reversed(record.before(call)) if isinstance(event, HostRead))
        read = next((one for one in reads if np.array_equal(one.tensor._numpy(), number)), None)
        how = "" if read is None else f", which {read.method.strip('_')}{at(read.line)} took out of TensorFlow"
        remedies = {
            "target": "leave float() and .numpy() out of what computes it, so that the target stays a tensor",
            "source": "make it a tf.Variable, or a tensor that the tape watches, and compute the target with that",
        }
        line = call.line if read is None else read.line
        evidence = f"the {what} is of type {type(number).__name__}{how}; only tensors and variables have gradients"
        return Diagnosis(Cause.NUMPY, evidence, remedies[what], place_of(line, call.method))
    return None


def diagnosed(finding: Finding, diagnosis: Diagnosis | None) -> Finding:
    """Return the finding with its cause; a value that lacks a part outside of the tape is partial, not wrong."""
    partial = finding.kind is Kind.WRONG_VALUE and diagnosis is not None and diagnosis.cause in rules.TAPE_RULES
    return replace(finding, diagnosis=diagnosis, kind=Kind.PARTIAL if partial else finding.kind)


def covering_gradient(source: CallSource, row: int, coordinate: int) -> float | None:
    """One element of the derivative under the tape that covered everything; None where that has none, either."""
    call = source.call
    weights = _weights(call, row)
    try:
        given = source.record.covering.gradient(list(call.targets), source.tensor, output_gradients=weights)
    except Exception:  # whatever a gradient function raises, or TensorFlow where there is none
        return None
    result = dense(given, source.tensor)
    return None if result is None else float(to_coordinates(result.numpy())[coordinate])


def _weights(call: DerivativeCall, row: int | None) -> list[Any] | None:
    """The cotangents of the targets: those of a gradient, or, for a Jacobian, a unit vector for one element."""
    if call.method == "gradient" or row is None:
        return None if call.weights is None else list(call.weights)
    (target,) = call.targets
    unit = np.eye(1, math.prod(target.shape), row).reshape(target.shape)
    return [tf.constant(unit.astype(target.dtype.as_numpy_dtype))]


def diagnose_unconnected(source: CallSource) -> tuple[str, Finding | None, bool]:
    """Return a note on a source whose gradient is None, or a finding with its diagnosis; and whether it is unconnected.

    It is unconnected if no move of it changes the target, either: nothing is wrong, and nothing can be called correct.
    """
    if not differentiable(source):
        diagnosis = rules.integer_source(source)
        finding = broken(1, Kind.MISSING, source.name, f"autodiff gives None, {diagnosis.evidence}").findings[0]
        return "", replace(finding, diagnosis=diagnosis), False
    moved = influence(source)
    zeros = "zeros that stand for None: " if source.call.zeros else ""
    step = None if moved.large else _step_between(source)
    if step is not None:
        moved = influence(source, FAR_MOVES)
    if not moved.large:
        if zeros and _covered(source):
            return "", None, False
        if step is not None:
            unmoved = f"no perturbation that was tried changed the target: {step.name}{at(step.line)} lies between"
        elif made_of := _made_of(source):
            unmoved = f"the target does not depend on it{made_of}"
        else:
            unmoved = dependence(source)
        return f"{zeros}{unmoved}{kept_between_calls(source)}", None, True
    reason = f"autodiff gives {'zeros for None' if zeros else 'None'}, "
    found = _largest_derivative(CallProblem([source]), reason) if moved.small else None
    finding, place = found or (broken(1, Kind.MISSING, source.name, reason + STEPWISE).findings[0], None)
    cause = None
    with cause_searched():
        cause = diagnose(source, finding, place, moved)
    if cause is None and (zeros or not moved.small):
        seen = moved.small or (zeros and _covered(source))
        return ("" if seen else f"{zeros}it only controls branches"), None, False
    return "", replace(finding, diagnosis=cause), False


def _covered(source: CallSource) -> bool:
    """Whether the tape that covers everything finds a path from the targets to the source.

    If it does, zeros are actual derivatives, such as those of an inactive relu, and do not stand for None.
    """
    try:
        return source.record.covering.gradient(list(source.call.targets), source.tensor) is not None
    except Exception:  # from a gradient function on the path: it was reached
        return True


def _step_between(source: CallSource) -> RecordedOperation | None:
    """The first operation through which the value of a source reaches the targets, but no gradient comes back.

    This follows the structure of the code; moves of the source are not considered.
    """
    record, call = source.record, source.call
    events = record.before(call)

    def changed(number: int, output: int) -> bool | None:
        return False if record.operations[number].name in OF_SHAPES else None

    path = dependency_path(events, call.targets, source.tensor, changed)
    steps = (found.operation for found in path_breaks(events, path, None))
    return next((one for one in steps if not one.states_written and one.name not in STOPPING), None)


def _made_of(source: CallSource) -> str:
    """Describe a source that was computed from something that the tape watches and the target depends on; else empty.

    An example is the `x[0]` of `tape.gradient(loss, x[0])`, a new tensor.
    """
    record, call = source.record, source.call
    if source.output is None:
        return ""
    events, targets = record.before(call), {key(target) for target in call.targets}
    watches = (event for event in events if isinstance(event, WatchEvent) and event.tape == call.tape)
    watched = {key(event.tensor): event.tensor for event in watches}
    behind = (one for operation in reversed(record.ancestors(source.tensor)) for one in operation.inputs)
    for name in dict.fromkeys(key(one) for one in behind if key(one) in watched):
        path = dependency_path(events, call.targets, watched[name], lambda number, output: None)
        if path.operations or name in targets:
            what = "variable" if name in record.variables else "tensor"
            maker = record.operations[source.output[0]]
            return (
                f": {maker.name}{at(maker.line)} made it, a tensor of its own, from a {what} that the target does "
                f"depend on; ask for the gradient with respect to that {what}"
            )
    return ""


def _largest_derivative(problem: CallProblem, reason: str) -> tuple[Finding, tuple[int, int]] | None:
    """The finding at the element with the largest derivative, and its place; None where differences are inconclusive.

    One step along each of the first coordinates finds the element.
    """
    count = min(problem.point.size, SMALL)
    lines = np.eye(count, problem.point.size)
    steps = STEP * np.maximum(np.abs(problem.point[:count, None]), 0.5)
    changes = np.abs(problem.values(problem.point + steps * lines) - problem.values(problem.point[None, :])) / steps
    changes = np.where(np.isfinite(changes), changes, 0.0)
    line, row = map(int, np.unravel_index(np.argmax(changes), changes.shape))
    estimate = first_difference(sample_values(problem, lines[[line]], lambda points: problem.values(points)[:, [row]]))
    if not estimate.conclusive[0, 0]:
        return None
    value, bound = float(estimate.value[0, 0]), float(estimate.bound[0, 0])
    name, index, _ = element_of(problem.sources, line)
    output = None if problem.call.method == "gradient" else row
    reason += estimate_text(value, bound)
    return Finding(Kind.MISSING, 1, name, index, output, None, value, bound, None, reason), (row, line)


def graph_diagnosis(target: Any, source: Any, name: str, lost: LostPart) -> Diagnosis | None:
    """Diagnose why tf.gradients(target, source) lost a part; None where the graph has no path, or no break on it.

    `target` is a symbolic tensor, `source` one or a variable of its graph. Nothing is run and nothing is added to the
    graph: its structure shows which operations lie on the path.
    """
    record = graph_record(target.graph)
    if hasattr(source, "handle"):
        tensor = source.handle
    else:  # a reference variable's value is the output of its operation
        tensor = source.op.outputs[0] if hasattr(source, "initializer") else source
    path = dependency_path(record.events, [target], tensor, lambda number, output: None)
    breaks = path_breaks(record.events, path, None)
    if not breaks:
        return None
    call = DerivativeCall(0, len(record.events), 0, "gradients", (target,), (tensor,))
    return rules.first_diagnosis(WrongGradient(CallSource(record, call, tensor, name, None), lost, path, breaks, False))


def graph_record(graph: Any) -> CodeRecord:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    events = []
    for number, op in enumerate(graph.get_operations()):
        frames = [one for one in op.traceback if file_owner(one.filename) == "user"]
        line = (frames[-1].filename, frames[-1].lineno) if frames else None
        inputs, outputs = tuple(op.inputs), tuple(op.outputs)
        events.append(RecordedOperation(number, op.type, inputs, outputs, line=line, tapes=frozenset((0,))))
    return CodeRecord(events)
