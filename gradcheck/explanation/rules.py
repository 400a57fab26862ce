"""Causes that no tape can mend: a step on the path through which no gradient comes, or a wrong one."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient as tf_custom_gradient

from gradcheck.autodiff.function import open_function
from gradcheck.autodiff.state import state_restored
from gradcheck.comparison.probes import first_order
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.explanation.paths import differentiable, registered
from gradcheck.explanation.record import (
    CodeRecord,
    CustomGradientCall,
    DerivativeCall,
    RecordedOperation,
    SourceOrigin,
    WatchEvent,
    key,
)
from gradcheck.explanation.user_code import Line, at, definition_of, place_of, quoted, start_of_function
from gradcheck.explanation.wrong_gradient import WrongGradient, number, place
from gradcheck.result import Cause, Diagnosis, Finding, Place, Verdict

Words = tuple[str, str, Place | None]
"""Evidence, remedy, and the line at which the path is cut (None: that of the first break)."""

HOLDERS = ("Iterator", "Queue", "Stack", "Barrier", "LookupTable", "TensorArray", "Dataset")
"""How the names of operations begin that keep what they are given."""
HOST_CODE = re.compile(r"(?<![\w.])(np|numpy|math|float|int|bool|complex|round)\b")
"""What a line says that computes with NumPy or Python numbers."""


def numpy(wrong: WrongGradient) -> Words | None:
    """A value that left TensorFlow and came back as a constant."""
    if wrong.first.number not in wrong.path.round_trips:
        return None
    read = wrong.path.round_trips[wrong.first.number]
    line = _numpy_line(wrong) if read is None else read.line
    how = f", taken out by {read.method.strip('_')}{at(line)}" if read is not None else ""
    evidence = (
        f"{wrong.lost.summary}: a value that depends on {wrong.name} comes back{at(wrong.first.line)} as a constant "
        f"that NumPy or Python computed{how}"
    )
    remedy = f"write {quoted(line)} with TensorFlow's operations, so that the value stays a tensor"
    return evidence, remedy, place_of(line, read.method if read else None)


def _numpy_line(wrong: WrongGradient) -> Line | None:
    """The line that mentions NumPy, between the value's making and its return: NumPy reads a tensor's memory unseen."""
    back = wrong.first.line
    if back is None:
        return None
    made = [
        operation.line[1]
        for operation in wrong.record.operations[: wrong.first.number]
        if operation.line is not None
        and operation.line[0] == back[0]
        and any(key(output) in wrong.path.dependent for output in operation.outputs)
    ]
    start = max([start_of_function(back), *(line for line in made if line < back[1])])
    for line in range(start, back[1]):
        if HOST_CODE.search(linecache.getline(back[0], line)):
            return back[0], line
    return back


def stop_gradient(wrong: WrongGradient) -> Words | None:
    """tf.stop_gradient."""
    line = wrong.first.line
    if wrong.first.name not in ("StopGradient", "PreventGradient"):
        return None
    evidence = f"{wrong.lost.summary}: tf.stop_gradient{at(line)} lets the value through, not the gradient"
    remedy = f"leave tf.stop_gradient out of {quoted(line)}; if that was its purpose, nothing is wrong"
    return evidence, remedy, None


def state(wrong: WrongGradient) -> Words | None:
    """A value that goes through the state of a variable, an iterator or a queue."""
    name, line = wrong.first.name, wrong.first.line
    if not wrong.first.states_written and not name.startswith(HOLDERS) and "Dataset" not in name:
        return None
    holder = "a variable" if name.startswith("Assign") else "something that keeps it"
    evidence = (
        f"{wrong.lost.summary}: {name}{at(line)} puts a value that depends on {wrong.name} into {holder}; "
        "tapes follow tensors, not state"
    )
    remedy = f"compute with the tensor itself instead of {quoted(line)}, and store it afterwards"
    return evidence, remedy, None


def no_gradient(wrong: WrongGradient) -> Words | None:
    """An operation for which nobody registered a gradient."""
    operation = wrong.first
    if operation.backward is not None or registered(operation.name) is not None:
        return None
    if not any(differentiable(tensor) for tensor in operation.outputs):
        return None
    evidence = f"TensorFlow has no gradient for {operation.name}, which{at(operation.line)} is on the path"
    return evidence, _rewrite(operation.line), None


def _rewrite(line: Line | None) -> str:
    return f"write {quoted(line)} with other operations, or give it a gradient with tf.custom_gradient"


def dtype(wrong: WrongGradient) -> Words | None:
    """A comparison, a string, an integer that is computed with."""
    operation, line = wrong.first, wrong.first.line
    if operation.backward is not None or not operation.outputs:
        return None
    if any(differentiable(tensor) for tensor in operation.outputs):
        return None
    integer = any(tensor.dtype.is_integer for tensor in operation.outputs)
    if integer and any(differentiable(tensor) for tensor in operation.inputs):
        return None
    kinds = " and ".join(dict.fromkeys(tensor.dtype.name for tensor in operation.outputs))
    evidence = f"{wrong.lost.summary}: {operation.name}{at(line)} gives {kinds}, which carries no gradient"
    remedy = f"keep the path in floating point: write {quoted(line)} without {kinds}"
    return evidence, remedy, None


def custom_gradient(wrong: WrongGradient) -> Words | None:
    """A tf.custom_gradient that gives None, or that uses a tensor which is not among its arguments."""
    call = wrong.first.custom_gradient
    if call is None:
        return None
    name = call.function.__name__
    evidence = (
        f"{wrong.lost.summary}: the function {name} under tf.custom_gradient, called{at(wrong.first.line)}, gives no "
        f"gradient for a value that depends on {wrong.name} (None, or a tensor that is not among its arguments)"
    )
    remedy = f"let the gradient of {name} return one for each of its arguments, and pass it what it uses"
    return evidence, remedy, None


def not_differentiable(wrong: WrongGradient) -> Words:
    """An operation that is registered as not differentiable, or whose gradient is None."""
    name, line = wrong.first.name, wrong.first.line
    if name == "Cast":
        name = f"the cast to {wrong.first.outputs[0].dtype.name}"
    steps = "; the target moves only in steps" if wrong.lost.stepwise else ""
    evidence = f"{wrong.lost.summary}: {name}{at(line)} is registered as not differentiable{steps}"
    remedy = f"replace {quoted(line)} by something smooth, or give it a gradient with tf.custom_gradient"
    return evidence, remedy, None


def unregistered(record: CodeRecord, call: DerivativeCall, name: str) -> Diagnosis:
    """The tape raised an exception because an operation of this name has no gradient."""
    used = [event for event in record.before(call) if isinstance(event, RecordedOperation) and event.name == name]
    operation = next((one for one in used if call.tape in one.tapes), used[0] if used else None)
    line = None if operation is None else operation.line
    evidence = f"TensorFlow has no gradient for {name}{', which ran' + at(line) if line else ''}"
    return Diagnosis(Cause.NO_GRADIENT, evidence, _rewrite(line), None if operation is None else place(operation))


def integer_source(record: CodeRecord, name: str, origin: SourceOrigin) -> Diagnosis:
    """A source that is no floating tensor to begin with."""
    kind = tf.as_dtype(origin.tensor.dtype).name
    line = None if origin.output is None else record.operations[origin.output[0]].line
    made = f", made{at(line)}" if line else ""
    evidence = f"{name} is of dtype {kind}{made}; only floating and complex tensors have gradients"
    remedy = f"make {name} a floating tensor: a constant such as 10.0, or tf.cast({name}, tf.float32)"
    return Diagnosis(Cause.DTYPE, evidence, remedy, place_of(line))


def wrong_formula(wrong: WrongGradient) -> Diagnosis | None:
    """The first tf.custom_gradient on the path whose own derivative is wrong, where the path is not broken."""
    for step in wrong.path.operations:
        operation = wrong.record.operations[step]
        call = operation.custom_gradient
        table = None if call is None else _mismatches(call)
        if call is None or table is None:
            continue
        name, defined = call.function.__name__, definition_of(call.function)
        worst = np.unravel_index(np.argmax(table.excess()), table.verdict.shape)
        evidence = (
            f"called alone{at(operation.line)}, the function {name} under tf.custom_gradient gives the derivative "
            f"{table.autodiff[worst]:.6g} where the finite-difference estimate is {table.difference[worst]:.6g}"
        )
        remedy = f"correct the gradient that {name}{at(defined)} returns"
        return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), wrong.lost.size)
    return None


def _mismatches(call: CustomGradientCall) -> Comparison | None:
    """The table with wrong entries of the function under tf.custom_gradient at the arguments of the call."""

    def again(*args: Any) -> Any:
        return tf_custom_gradient._eager_mode_decorator(call.function, args, call.kwargs)

    try:
        with state_restored():
            tables = first_order(open_function(again, call.args, None), Tolerance(), 8)
    except Exception:  # a function that cannot be called by itself cannot be blamed
        return None
    return next((table for table in tables if table.any(Verdict.MISMATCH)), None)


def changed_afterwards(record: CodeRecord, given: Any, finding: Finding) -> Diagnosis | None:
    """The first operation between what a tape gave and the gradient that was used; None if there is none."""
    taken = {key(one): call for call in record.derivatives for one in call.results or () if one is not None}
    for operation in _ancestors(record, given):
        calls = [taken[key(tensor)] for tensor in operation.inputs if key(tensor) in taken]
        if calls and operation.derivative is None:
            lost = None if finding.difference is None else finding.difference - (finding.autodiff or 0.0)
            off = "" if lost is None else f"; the gradient that was used is off by {number(abs(lost))}"
            line = operation.line
            evidence = f"the gradient was taken{at(calls[0].line)}, and {operation.name}{at(line)} changed it{off}"
            remedy = f"compare the gradient from before {quoted(line)}; if the change is meant, nothing is wrong"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, remedy, place(operation), lost)
    return None


def _ancestors(record: CodeRecord, tensor: Any) -> list[RecordedOperation]:
    """The operations that a tensor was computed by, in order."""
    needed, found = {key(tensor)}, []
    for operation in reversed(record.operations):
        if any(key(output) in needed for output in operation.outputs):
            needed |= {key(one) for one in operation.inputs}
            found.append(operation)
    return found[::-1]


def taken_outside(wrong: WrongGradient) -> Words | None:
    """A derivative of a derivative, where the first one was taken while the second one's tape did not record."""
    steps = [wrong.record.operations[number] for number in wrong.path.operations]
    outside = [step for step in steps if step.derivative is not None and wrong.call.tape not in step.tapes]
    if not outside:
        return None
    first = wrong.record.derivatives[outside[0].derivative or 0]
    evidence = (
        f"{wrong.lost.summary}: the first derivative was taken{at(first.line)}, outside the tape that had to record it "
        f"({_opening(wrong)}){wrong.lost.remedied}"
    )
    remedy = (
        f"take the first derivative, {quoted(first.line)}, inside the block of the tape that differentiates it; "
        "the inner tape gives the first derivative, the outer one the second"
    )
    return evidence, remedy, place_of(first.line, first.method)


def replaced(wrong: WrongGradient) -> Words | None:
    """The source is a tensor that took a variable's place, as `x = x + 1` does."""
    if wrong.origin.output is None or not wrong.breaks[0].unwatched:
        return None
    number, index = wrong.origin.output
    maker = wrong.record.operations[number]
    tensor = maker.outputs[index]
    behind = (key(one) for operation in reversed(_ancestors(wrong.record, tensor)) for one in operation.inputs)
    variable = next((wrong.record.variables[name] for name in behind if name in wrong.record.variables), None)
    if variable is None or variable.shape != tensor.shape or variable.dtype != tensor.dtype:
        return None
    evidence = (
        f"{wrong.lost.summary}: {wrong.name} is no longer a variable but the result of {maker.name}{at(maker.line)}, "
        "a tensor, which tapes do not watch by themselves"
    )
    remedy = (
        f"change the variable in place, with assign, assign_add or assign_sub instead of {quoted(maker.line)}, "
        f"or call tape.watch({wrong.name}) as soon as the tape is open"
    )
    return evidence, remedy, place(maker)


def non_trainable(wrong: WrongGradient) -> Words | None:
    """A variable that was made with trainable=False and that nobody watches."""
    variable, use = wrong.origin.variable, _unwatched_use(wrong)
    if variable is None or variable.trainable or use is None:
        return None
    evidence = (
        f"{wrong.lost.summary}: {wrong.name} was made with trainable=False, which tapes do not watch by themselves"
        f"{wrong.lost.remedied}"
    )
    remedy = f"make it trainable, or call tape.watch({wrong.name}) before {quoted(use.line)}"
    return evidence, remedy, place(use)


def not_watched(wrong: WrongGradient) -> Words | None:
    """The tape recorded what was done with the source, but did not watch it."""
    use = _unwatched_use(wrong)
    if use is None:
        return None
    evidence = (
        f"{wrong.lost.summary}: the tape did not follow {wrong.name} when {use.name} used it{at(use.line)}; "
        f"{_why_not_watched(wrong, use)}{wrong.lost.remedied}"
    )
    remedy = f"call tape.watch({wrong.name}) inside the tape, before {quoted(use.line)}"
    return evidence, remedy, place(use)


def _why_not_watched(wrong: WrongGradient, use: RecordedOperation) -> str:
    watches = [
        event
        for event in wrong.events
        if isinstance(event, WatchEvent) and event.tape == wrong.call.tape and key(event.tensor) == wrong.path.source
    ]
    resets = [reset for reset in wrong.tape_changes("reset") if reset.operations <= use.number]
    if resets and watches:
        return f"the tape was reset{at(resets[-1].line)} and forgot what it watched"
    if watches:
        return f"the tape was told to watch it only{at(watches[0].line)}, after it had been used"
    if wrong.origin.variable is not None:
        return f"the tape ({_opening(wrong)}) was opened with watch_accessed_variables=False and not told to watch it"
    return "it is a tensor, and tapes watch tensors only when they are told to"


def _unwatched_use(wrong: WrongGradient) -> RecordedOperation | None:
    """The first use of the source that the tape recorded, and did not forget, without following the source."""
    uses = [found.operation for found in wrong.breaks if found.unwatched and found.recorded]
    forgotten = max((reset.operations for reset in wrong.tape_changes("reset")), default=0)
    return next((use for use in uses if use.number >= forgotten), None)


def outside_tape(wrong: WrongGradient) -> Words | None:
    """A step that ran while the tape did not record, or before it was reset."""
    outside = [found.operation for found in wrong.breaks if not found.recorded]
    step = outside[0] if outside else wrong.first
    resets = [reset for reset in wrong.tape_changes("reset") if reset.operations > step.number]
    if not outside and not resets:
        return None
    if outside:
        opened = wrong.tape_changes("opened")
        block = f"the block of the tape that is opened{at(opened[0].line)}" if opened else "the tape's block"
        when, remedy = _when(wrong, step), f"move {quoted(step.line)} into {block}"
    else:
        when = f"before the tape was reset{at(resets[-1].line)}"
        remedy = f"move the reset before {quoted(step.line)}, or leave it out"
    evidence = f"{wrong.lost.summary}: {step.name}{at(step.line)} ran {when}{wrong.lost.remedied}"
    return evidence, remedy, place(step)


def _when(wrong: WrongGradient, step: RecordedOperation) -> str:
    """When a step ran that the tape did not record."""
    opened, closed = wrong.tape_changes("opened"), wrong.tape_changes("closed")
    if not opened or step.number < opened[0].operations:
        return "before the tape was opened" + (at(opened[0].line) if opened else "")
    if step.number >= opened[-1].operations:
        return "after the tape was closed"
    stopped = [change for change in closed if change.operations <= step.number]
    return f"while the tape's recording was stopped{at(stopped[-1].line)}" if stopped else "while no tape recorded"


def _opening(wrong: WrongGradient) -> str:
    opened = wrong.tape_changes("opened")
    return "opened" + at(opened[0].line) if opened else "never opened"


def used_tape(record: CodeRecord, call: DerivativeCall) -> Diagnosis:
    """A tape that is not persistent was asked for a second derivative."""
    earlier = [one for one in record.derivatives[: call.number] if one.tape == call.tape]
    first = f", and was asked{at(earlier[0].line)} before" if earlier else ""
    evidence = f"a tape that is not persistent gives one derivative only{first}"
    remedy = (
        "ask for all derivatives in one call, open a second tape, or make this one persistent: "
        "tf.GradientTape(persistent=True)"
    )
    return Diagnosis(Cause.USED_TAPE, evidence, remedy, place_of(call.line, call.method))


Rule = Callable[[WrongGradient], Words | None]
TAPE_RULES: dict[Cause, Rule] = {
    Cause.TAKEN_OUTSIDE: taken_outside,
    Cause.REPLACED: replaced,
    Cause.NON_TRAINABLE: non_trainable,
    Cause.NOT_WATCHED: not_watched,
    Cause.OUTSIDE_TAPE: outside_tape,
}
"""Those that a wider tape mends, in the order in which they are tried."""
PATH_RULES: dict[Cause, Rule] = {
    Cause.NUMPY: numpy,
    Cause.STOP_GRADIENT: stop_gradient,
    Cause.STATE: state,
    Cause.NO_GRADIENT: no_gradient,
    Cause.DTYPE: dtype,
    Cause.CUSTOM_GRADIENT: custom_gradient,
    Cause.NOT_DIFFERENTIABLE: not_differentiable,
}
"""Those that no tape can mend; the last one always applies."""


def first(wrong: WrongGradient) -> Diagnosis | None:
    """The diagnosis of the first rule that applies; None where none does."""
    if not wrong.breaks:
        return wrong_formula(wrong)
    for cause, rule in (TAPE_RULES if wrong.wider_tape_helps else PATH_RULES).items():
        words = rule(wrong)
        if words is not None:
            evidence, remedy, where = words
            return Diagnosis(cause, evidence, remedy, where or place(wrong.first), wrong.lost.size)
    return None
