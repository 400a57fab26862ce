"""The causes of a lost gradient: steps on the path that the tape missed, and steps that no tape can fix."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.diagnosis.chain import operation_of
from gradcheck.diagnosis.custom_gradients import not_used
from gradcheck.diagnosis.held_values import ON_PURPOSE, kept_on_purpose, mark_of, sample_to_hold
from gradcheck.diagnosis.paths import differentiable, has_gradient, host_line
from gradcheck.diagnosis.wrong_gradient import WrongGradient
from gradcheck.result import Cause, Diagnosis, Finding, Place
from gradcheck.tracing.kernels import ADDING, HOLDERS, INSTEAD, REFERENCE_UPDATES, STOPPING
from gradcheck.tracing.record import (
    CallSource,
    CodeRecord,
    DerivativeCall,
    RecordedOperation,
    RecordedPullback,
    TapeChange,
    WatchEvent,
    key,
)
from gradcheck.tracing.user_code import Line, at, file_owner, listed, parting, place_of, quoted, says

Explained = tuple[str, str, Place | None]
"""Evidence, remedy, and the line of the break (None: that of the first break)."""
TapeRule = Callable[[WrongGradient, RecordedOperation], Explained | None]
"""Also takes the operation at the first break; returns None where the rule does not apply."""

SHOWN = 4
"""The number of lines outside of a tape, and of further breaks of a path, that are named."""
MEANT = "meant as a constant (a target, an advantage)"


def taken_outside(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A derivative of a derivative, where the first one was taken while the second one's tape did not record."""
    tape, steps = wrong.source.call.tape, wrong.operations
    number = next((one.derivative for one in steps if one.derivative is not None and tape not in one.tapes), None)
    if number is None:
        return None
    first = wrong.source.record.derivatives[number]
    evidence = (
        f"{wrong.lost.summary}: the first derivative was taken{at(first.line)}, outside the tape that had to record it "
        f"({wrong.opening}){wrong.lost.remedied}"
    )
    remedy = (
        f"take the first derivative, {quoted(first.line)}, inside the block of the tape that differentiates it; "
        "the inner tape gives the first derivative, the outer one the second"
    )
    return evidence, remedy, place_of(first.line, first.method)


def replaced(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A source that is a tensor in place of a variable, as in `x = x + 1`."""
    if wrong.source.output is None or not wrong.breaks[0].unwatched:
        return None
    tensor, variables = wrong.source.tensor, wrong.source.record.variables
    behind = (key(one) for operation in reversed(wrong.source.record.ancestors(tensor)) for one in operation.inputs)
    variable = next((variables[name] for name in behind if name in variables), None)
    if variable is None or variable.shape != tensor.shape or variable.dtype != tensor.dtype:
        return None
    maker = wrong.source.record.operations[wrong.source.output[0]]
    evidence = (
        f"{wrong.lost.summary}: {wrong.source.name} is no longer a variable but the result of "
        f"{maker.name}{at(maker.line)}, a tensor, which tapes do not watch by themselves"
    )
    remedy = (
        f"change the variable in place, with assign, assign_add or assign_sub instead of {quoted(maker.line)}, "
        f"or call tape.watch({wrong.source.name}) as soon as the tape is open"
    )
    return evidence, remedy, maker.place


def non_trainable(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A variable that was made with trainable=False and that nothing watches."""
    variable, use = wrong.source.variable, _unwatched_use(wrong)
    if variable is None or variable.trainable or use is None:
        return None
    evidence = (
        f"{wrong.lost.summary}: {wrong.source.name} was made with trainable=False, which tapes do not watch "
        f"by themselves{wrong.lost.remedied}"
    )
    return evidence, f"make it trainable, or call tape.watch({wrong.source.name}) before {quoted(use.line)}", use.place


def not_watched(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A source that the tape did not watch, although it recorded its use."""
    use = _unwatched_use(wrong)
    if use is None:
        return None
    watches = [
        event
        for event in wrong.events
        if isinstance(event, WatchEvent)
        and event.tape == wrong.source.call.tape
        and key(event.tensor) == wrong.path.source
    ]
    resets = [reset for reset in wrong.tape_changes("reset") if reset.operations <= use.number]
    if resets and watches:
        why = f"the tape was reset{at(resets[-1].line)} and forgot what it watched"
    elif watches:
        why = f"tape.watch was called only{at(watches[0].line)}, after it had been used"
    elif wrong.source.variable is not None:
        why = f"the tape ({wrong.opening}) has watch_accessed_variables=False, and tape.watch was not called for it"
    else:
        why = "it is a tensor, and tapes watch tensors only after tape.watch"
    evidence = (
        f"{wrong.lost.summary}: the tape did not follow {wrong.source.name} when {use.name} used it{at(use.line)}; "
        f"{why}{wrong.lost.remedied}"
    )
    return evidence, f"call tape.watch({wrong.source.name}) inside the tape, before {quoted(use.line)}", use.place


def _unwatched_use(wrong: WrongGradient) -> RecordedOperation | None:
    """The first use of the source that the tape recorded, and did not forget, without following the source."""
    uses = [found.operation for found in wrong.breaks if found.unwatched and found.recorded]
    forgotten = max((reset.operations for reset in wrong.tape_changes("reset")), default=0)
    return next((use for use in uses if use.number >= forgotten), None)


def outside_tape(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A step that ran while the tape did not record, or before it was reset."""
    outside = [found.operation for found in wrong.breaks if not found.recorded]
    if not outside:
        return _before_a_reset(wrong, step)
    if (of_others := _of_other_tapes(wrong, outside)) is not None:
        return of_others
    lines: dict[Line | None, RecordedOperation] = {}
    for one in {(one.stack, one.line): one for one in reversed(outside)}.values():
        lines[_movable_line(wrong, one)] = one
    shown = sorted(lines.items(), key=lambda pair: pair[1].number)[:SHOWN]
    rest = len(lines) - SHOWN
    ran: dict[str, list[str]] = {}
    for line, one in shown:
        inside = "" if line == one.line else f" (inside of what is called there,{at(one.line)})"
        ran.setdefault(_when(wrong, one)[0], []).append(f"{one.name}{at(line)}{inside}")
    times = "; ".join(f"{listed(names)} ran {when}" for when, names in ran.items())
    times += f"; so did operations on {rest} more line{'s' * (rest > 1)}" if rest > 0 else ""
    block = f"the block of the tape that is {wrong.opening}" if wrong.tape_changes("opened") else "the tape's block"
    meant = f"; if that is {MEANT}, nothing is wrong" if _partly_connected(wrong) else ""
    remedy = f"move {listed([quoted(line) for line, _ in shown])} into {block}{meant}"
    first, step = shown[0]
    return f"{wrong.lost.summary}: {times}{wrong.lost.remedied}", remedy, place_of(first, step.name)


def _of_other_tapes(wrong: WrongGradient, steps: Sequence[RecordedOperation]) -> Explained | None:
    """Steps in the blocks of tapes that were closed before this one was opened, such as earlier passes of a loop."""
    own = next((one for one in wrong.tape_changes("opened")), None)
    before = list(takewhile(lambda event: event is not own, wrong.events))
    changes = [event for event in before if isinstance(event, TapeChange)]
    closed = {event.tape for event in changes if event.change == "closed"}
    tapes = frozenset().union(*(one.tapes for one in steps))
    if own is None or not tapes <= closed or not all(one.tapes for one in steps):
        return None
    lines = {event.tape: event.line for event in changes if event.change == "opened" and event.tape in tapes}
    if set(lines.values()) == {own.line}:
        passes = "an earlier pass" if len(lines) == 1 else f"{len(lines)} earlier passes"
        recorder, around = f"the tape{'s' * (len(lines) > 1)} of {passes}", "the loop"
        other = f"the last one, {wrong.opening}, whose gradient is taken"
    else:
        recorder = f"another tape, opened{' and'.join(map(at, dict.fromkeys(lines.values())))}"
        around, other = "all of it", f"the one whose gradient is taken, {wrong.opening}"
    first = steps[0]
    evidence = f"{wrong.lost.summary}: {first.name}{at(first.line)} was recorded by {recorder}, not by {other}"
    if (added := _added_up(wrong, tapes)) is not None:
        taken = listed([quoted(line) for line in dict.fromkeys(call.line for call in added[1])])
        remedy = f"nothing is wrong: {quoted(added[0].line)} adds this gradient to that of {taken}, which has the rest"
        return evidence + wrong.lost.remedied, remedy, first.place
    remedy = f"add up the gradients of each tape, each of its own loss, or open one tape around {around}"
    meant = f"; if that is {MEANT}, nothing is wrong" if _partly_connected(wrong) else ""
    return evidence + wrong.lost.remedied, remedy + meant, first.place


def _added_up(wrong: WrongGradient, tapes: Set[int]) -> tuple[RecordedOperation, list[DerivativeCall]] | None:
    """The operation that adds a gradient to those of other tapes, with the calls that took these; None without one."""
    record, source = wrong.source.record, wrong.source
    others = [one for one in record.derivatives if one.tape in tapes and _taken_of(one, source.tensor) is not None]
    if {one.tape for one in others} != tapes or source.given is None:
        return None
    own, rest = {key(_taken_of(source.call, source.tensor))}, {key(_taken_of(one, source.tensor)) for one in others}
    for one in record.operations:
        parts = {key(tensor) for tensor in one.inputs}
        if one.name in ADDING and one.derivative is None and parts & own - rest and parts & rest - own:
            return one, others
        for reached in (own, rest):
            if parts & reached:
                reached |= {key(tensor) for tensor in (*one.outputs, *one.states_written)}
    return None


def _taken_of(call: DerivativeCall, tensor: Any) -> Any:
    """The result of a derivative for a source; None if it has none."""
    pairs = zip(call.sources, call.results or (), strict=False)
    return next((result for source, result in pairs if key(source) == key(tensor)), None)


def _movable_line(wrong: WrongGradient, step: RecordedOperation) -> Line | None:
    """The line of a step to move into the tape, or, if both are in one statement, the line that ran it."""
    _, change = _when(wrong, step)
    return (change and parting(step.stack, change.stack)) or step.line


def _partly_connected(wrong: WrongGradient) -> bool:
    """Whether the tape gave any source a gradient: then a part outside of it may be intended."""
    results = wrong.source.call.results or ()
    return any(one is not None and np.any(tf.convert_to_tensor(one).numpy()) for one in results)


def _when(wrong: WrongGradient, step: RecordedOperation) -> tuple[str, TapeChange | None]:
    """Describe when a step ran that the tape did not record, with the change of the tape, or its opening."""
    opened, closed = map(wrong.tape_changes, ("opened", "closed"))
    stopped = [change for change in closed if change.operations <= step.number]
    if not opened:
        return "before the tape was opened", None
    if step.number < opened[0].operations:
        return f"before the tape was opened{at(opened[0].line)}", opened[0]
    if step.number >= opened[-1].operations:
        return "after the tape was closed", opened[0]
    if stopped:
        return f"while the tape's recording was stopped{at(stopped[-1].line)}", stopped[-1]
    return "while no tape recorded", opened[0]


def _before_a_reset(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    resets = [reset for reset in wrong.tape_changes("reset") if reset.operations > step.number]
    if not resets:
        return None
    when = f"before the tape was reset{at(resets[-1].line)}"
    evidence = f"{wrong.lost.summary}: {step.name}{at(step.line)} ran {when}{wrong.lost.remedied}"
    return evidence, f"move the reset before {quoted(step.line)}, or leave it out", step.place


STEPWISE = (Cause.DTYPE, Cause.NOT_DIFFERENTIABLE)
"""Causes of breaks with piecewise constant values."""


def first_diagnosis(wrong: WrongGradient) -> Diagnosis | None:
    """The diagnosis of the first rule that applies to the first break, with other breaks that no tape can fix."""
    if not wrong.breaks:
        return None
    if wrong.wider_tape_helps:
        return _diagnosis(wrong, wrong.first, TAPE_RULES)
    first = _diagnosis(wrong, wrong.first, PATH_RULES)
    # What follows a value that is held on purpose does not move while that is marked.
    others = [] if first is None or ON_PURPOSE in first.remedy else _other_cuts(wrong, first)
    if first is None or not others:
        return first
    shown, rest = others[:SHOWN], len(others) - SHOWN
    lost = f"{wrong.lost.summary}: "
    more = f"; and {rest} more" if rest > 0 else ""
    evidence = f"{first.evidence}; and also: {'; '.join(one.evidence.removeprefix(lost) for one in shown)}{more}"
    remedy = f"{first.remedy}; and also: {'; '.join(one.remedy for one in shown)}"
    return replace(first, evidence=evidence, remedy=remedy)


def _diagnosis(wrong: WrongGradient, step: RecordedOperation, rules: Mapping[Cause, TapeRule]) -> Diagnosis | None:
    for cause, rule in rules.items():
        words = rule(wrong, step)
        if words is not None:
            evidence, remedy, place = words
            found = Diagnosis(cause, evidence, remedy, place or step.place, wrong.lost.size)
            return not_used(wrong.source.record, step, found) if rules is PATH_RULES else found
    return None


def _other_cuts(wrong: WrongGradient, first: Diagnosis) -> list[Diagnosis]:
    """The other breaks that lose a part of the gradient.

    Piecewise constant values have no derivative to lose; a library stops a gradient where it is zero as a whole.
    """
    steps = {(one.operation.name, one.operation.line): one.operation for one in reversed(wrong.breaks[1:])}
    found = {(first.cause, first.place): first}
    for step in sorted(steps.values(), key=lambda one: one.number):
        cut = _diagnosis(wrong, step, PATH_RULES)
        of_a_library = step.name in STOPPING and not written(step)
        if cut is not None and cut.cause not in STEPWISE and not of_a_library:
            found.setdefault((cut.cause, cut.place), cut)
    return [cut for cut in found.values() if cut is not first]


def numpy(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A value that left TensorFlow and came back as a constant."""
    if step.number not in wrong.path.round_trips:
        return None
    reads = wrong.path.round_trips[step.number]
    lines = [read.line for read in reads] or [_numpy_line(wrong, step)]
    how = ", or ".join(f"by {read.method.strip('_')}{at(read.line)}" for read in reads)
    evidence = (
        f"{wrong.lost.summary}: a value that depends on {wrong.source.name} comes back{at(step.line)} as a constant "
        "that NumPy or Python computed" + (f", taken out {how}" if how else "")
    )
    what = " or ".join(map(quoted, lines))
    remedy = f"write {what} with TensorFlow's operations, so that the value stays a tensor"
    if sample := sample_to_hold(wrong.source.record, wrong.source.call, [wrong.source.tensor], wrong.path.round_trips):
        remedy = f"{sample}; otherwise {remedy}"
    return evidence, remedy, place_of(lines[0], reads[0].method if reads else None)


def _numpy_line(wrong: WrongGradient, step: RecordedOperation) -> Line | None:
    """The line on which NumPy took a value, which is not observed."""
    before = wrong.source.record.operations[: step.number]
    dependent = (one for one in before if any(key(output) in wrong.path.dependent for output in one.outputs))
    return host_line(step, dependent, wrong.source.name)


def stop_gradient(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A tf.stop_gradient."""
    if step.name not in STOPPING:
        return None
    passed = "lets the value through, not the gradient"
    if written(step):
        evidence = f"{wrong.lost.summary}: tf.stop_gradient{at(step.line)} {passed}"
        if kept := kept_on_purpose(wrong.source, step):
            return evidence, kept, None
        remedy = f"leave tf.stop_gradient out of {quoted(step.line)}; if that was its purpose, nothing is wrong"
        return evidence, remedy + mark_of(step), None
    called = f"what is called{at(step.line)}" + (f" ({step.within})" if step.within else "")
    evidence = f"{wrong.lost.summary}: a tf.stop_gradient inside of {called} {passed}"
    remedy = f"write what {quoted(step.line)} calls with other operations; if that is its purpose, nothing is wrong"
    return evidence, remedy, None


def written(step: RecordedOperation) -> bool:
    """Whether the code itself says stop_gradient, not a library that it calls."""
    code = step.stack[0][0] if step.stack else None
    return step.line is None or says(step.line, code, "stop_gradient")


def state(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A value that goes through the state of a variable, an iterator or a queue."""
    holds = step.name.startswith(HOLDERS) or ("Dataset" in step.name and step.name not in INSTEAD)
    reference = step.name in REFERENCE_UPDATES and bool(step.inputs) and step.inputs[0].dtype._is_ref_dtype
    if not step.states_written and not holds and not reference:
        return None
    holder = "a variable" if step.variables_written else "something that keeps it"
    holder = "a reference variable of TensorFlow 1" if reference else holder
    evidence = (
        f"{wrong.lost.summary}: {step.name}{at(step.line)} puts a value that depends on {wrong.source.name} into "
        f"{holder}; tapes follow tensors, not state"
    )
    return evidence, f"compute with the tensor itself instead of {quoted(step.line)}, and store it afterwards", None


def no_gradient(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """An operation without a registered gradient."""
    if not without_gradient(step) or not any(differentiable(tensor) for tensor in step.outputs):
        return None
    evidence = f"TensorFlow has no gradient for {step.name}, which{at(step.line)} is on the path"
    evidence = f"{evidence} ({INSTEAD[step.name][0]})" if step.name in INSTEAD else evidence
    return evidence, _rewrite(step.line, step.name), None


def without_gradient(step: RecordedOperation) -> bool:
    """Whether TensorFlow has no gradient for an operation, although it may need one."""
    known = has_gradient(step.name)
    return step.backward is None and (known is None or (not known and step.name in INSTEAD))


def _rewrite(line: Line | None, name: str) -> str:
    if name in INSTEAD:
        return f"instead of {quoted(line)}, {INSTEAD[name][1]}"
    return f"write {quoted(line)} with other operations, or give it a gradient with tf.custom_gradient"


def dtype(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A comparison, a string, or an integer that is computed with."""
    if step.backward is not None or not step.outputs or any(differentiable(tensor) for tensor in step.outputs):
        return None
    integer = any(tensor.dtype.is_integer for tensor in step.outputs)
    if integer and any(differentiable(tensor) for tensor in step.inputs):
        return None
    kinds = " and ".join(dict.fromkeys(tensor.dtype.name for tensor in step.outputs))
    evidence = f"{wrong.lost.summary}: {step.name}{at(step.line)} gives {kinds}, which carries no gradient"
    return evidence, f"keep the path in floating point: write {quoted(step.line)} without {kinds}", None


def custom_gradient(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A tf.custom_gradient that returns None, or that uses a tensor which is not among its arguments."""
    if step.custom_gradient is None:
        return None
    name = step.custom_gradient.func.__name__
    evidence = (
        f"{wrong.lost.summary}: the function {name} under tf.custom_gradient, called{at(step.line)}, gives no "
        f"gradient for a value that depends on {wrong.source.name} (None, or a tensor that is not among its arguments)"
    )
    return evidence, f"return a gradient for each argument of {name}, and pass it every tensor that it uses", None


def not_differentiable(wrong: WrongGradient, step: RecordedOperation) -> Explained:
    """An operation that is registered as not differentiable, or whose gradient is None."""
    name = f"the cast to {step.outputs[0].dtype.name}" if step.name == "Cast" else step.name
    steps = "; the target moves only in steps" if wrong.lost.stepwise else ""
    evidence = f"{wrong.lost.summary}: {name}{at(step.line)} is registered as not differentiable{steps}"
    remedy = f"replace {quoted(step.line)} by something smooth, or give it a gradient with tf.custom_gradient"
    return evidence, remedy, None


PATH_RULES: dict[Cause, TapeRule] = {
    Cause.NUMPY: numpy,
    Cause.STOP_GRADIENT: stop_gradient,
    Cause.STATE: state,
    Cause.NO_GRADIENT: no_gradient,
    Cause.DTYPE: dtype,
    Cause.CUSTOM_GRADIENT: custom_gradient,
    Cause.NOT_DIFFERENTIABLE: not_differentiable,
}
"""The rules for breaks that no tape can fix, in the order in which they are tried; the last one always applies."""


TAPE_RULES: dict[Cause, TapeRule] = {
    Cause.TAKEN_OUTSIDE: taken_outside,
    Cause.REPLACED: replaced,
    Cause.NON_TRAINABLE: non_trainable,
    Cause.NOT_WATCHED: not_watched,
    Cause.OUTSIDE_TAPE: outside_tape,
}
"""The rules for breaks that a wider tape fixes, in the order in which they are tried."""


def unregistered(record: CodeRecord, call: DerivativeCall, name: str) -> Diagnosis:
    """Diagnose a tape that raised because an operation of this name has no gradient."""
    used = [event for event in record.before(call) if isinstance(event, RecordedOperation) and event.name == name]
    first = min(used, key=lambda one: call.tape not in one.tapes) if used else None
    line, ran = (None, "") if first is None else _where_it_ran(record, first)
    return Diagnosis(
        Cause.NO_GRADIENT, f"TensorFlow has no gradient for {name}{ran}", _rewrite(line, name), place_of(line, name)
    )


def raising(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Diagnose an exception from the gradient function of an operation; None where none that was seen raised it."""
    failed = next((e for e in record.events if isinstance(e, RecordedPullback) and e.error is call.error), None)
    operation = None if failed is None else operation_of(failed, record, set())
    if operation is None or call.error is None:
        return None
    line, ran = _where_it_ran(record, operation)
    frames = traceback.extract_tb(call.error.__traceback__)
    own = [(frame.filename, frame.lineno) for frame in frames if file_owner(frame.filename) == "user" and frame.lineno]
    inside = own[-1] if own and own[-1] != call.line else None
    if (wrapped := operation.recomputed) is not None:
        name = getattr(wrapped, "__name__", None) or getattr(wrapped, "name", "")
        name = "what it wraps" if name in ("", "<lambda>") else name
        evidence = f"tf.recompute_grad, called{at(line)}, has no second derivative: TensorFlow, not your code, raises"
        evidence = f"{evidence} {type(call.error).__name__} there"
        remedy = f"leave tf.recompute_grad out where a second derivative is taken: call {name} itself"
        return Diagnosis(Cause.RAISES, evidence, remedy, place_of(line, "tf.recompute_grad"))
    kind = "gradient" if operation.custom_gradient is None else "custom gradient"
    evidence = f"the {kind} of {operation.name}{ran}, raises {type(call.error).__name__}{at(inside)}"
    remedy = _rewrite(line, operation.name) if operation.custom_gradient is None else f"fix that gradient{at(inside)}"
    return not_used(record, operation, Diagnosis(Cause.RAISES, evidence, remedy, place_of(line, operation.name)))


def _where_it_ran(record: CodeRecord, operation: RecordedOperation) -> tuple[Line | None, str]:
    """The line of the code that ran an operation, by itself or for its derivative, and a clause that says so."""
    words = []
    while (forward := _whose_gradient_runs(record, operation)) is not None:
        words.append(f"the gradient of {forward.name} runs")
        operation = forward
    if operation.line is not None:
        words.append(f"ran{at(operation.line)}")
    return operation.line, f", which {', and that '.join(words)}" if words else ""


def _whose_gradient_runs(record: CodeRecord, operation: RecordedOperation) -> RecordedOperation | None:
    """The operation whose gradient ran another one; None where no gradient did, or it was not seen."""
    if operation.derivative is None:
        return None
    # The gradient of an operation is noted after its own operations.
    later = dropwhile(lambda event: event is not operation, record.events)
    taken = next((e for e in later if isinstance(e, RecordedPullback) and e.derivative == operation.derivative), None)
    return None if taken is None else operation_of(taken, record, set())


def reference_variable(call: DerivativeCall) -> Diagnosis:
    """Diagnose a tape that was asked for a reference variable of TensorFlow 1."""
    evidence = "a source is a reference variable of TensorFlow 1, which tapes do not follow"
    remedy = (
        "make it a resource variable: tf.compat.v1.get_variable(..., use_resource=True), or call "
        "tf.compat.v1.enable_resource_variables() first; or take tf.gradients in its graph"
    )
    return Diagnosis(Cause.NOT_WATCHED, evidence, remedy, place_of(call.line, call.method))


def used_tape(record: CodeRecord, call: DerivativeCall) -> Diagnosis:
    """Diagnose a tape that is not persistent and was used for a second derivative."""
    earlier = [one for one in record.derivatives[: call.number] if one.tape == call.tape]
    first = f", and this one was already used{at(earlier[0].line)}" if earlier else ""
    evidence = f"a tape that is not persistent gives only one derivative{first}"
    remedy = (
        "ask for all derivatives in one call, open a second tape, or make this one persistent: "
        "tf.GradientTape(persistent=True)"
    )
    return Diagnosis(Cause.USED_TAPE, evidence, remedy, place_of(call.line, call.method))


def integer_source(source: CallSource) -> Diagnosis:
    """Diagnose a source that is no floating tensor to begin with."""
    kind, name = source.dtype.name, source.name
    line = None if source.output is None else source.record.operations[source.output[0]].line
    made = f", made{at(line)}" if line else ""
    evidence = f"{name} is of dtype {kind}{made}; only floating and complex tensors have gradients"
    remedy = f"make {name} a floating tensor: a constant such as 10.0, or tf.cast({name}, tf.float32)"
    return Diagnosis(Cause.DTYPE, evidence, remedy, place_of(line))


def changed_afterwards(record: CodeRecord, given: Any, finding: Finding) -> Diagnosis | None:
    """Diagnose the first operation between a tape's result and the gradient that was used; None if there is none."""
    taken = {key(one): call for call in record.derivatives for one in call.results or () if one is not None}
    for operation in record.ancestors(given):
        calls = [taken[key(tensor)] for tensor in operation.inputs if key(tensor) in taken]
        if calls and operation.derivative is None:
            lost = None if finding.difference is None else finding.difference - (finding.autodiff or 0.0)
            off = "" if lost is None else f"; the gradient that was used is off by {abs(lost):.4g}"
            line = operation.line
            evidence = f"the gradient was taken{at(calls[0].line)}, and {operation.name}{at(line)} changed it{off}"
            remedy = f"compare the gradient before {quoted(line)}; if the change is intended, nothing is wrong"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, remedy, operation.place, lost)
    return None
