"""Causes that lie in what a tape covered: a wider tape, or one that watches more, would give the derivative."""

from __future__ import annotations

from typing import Any

from gradcheck.explanation.record import CodeRecord, DerivativeCall, RecordedOperation, WatchEvent, key
from gradcheck.explanation.user_code import at, place_of, quoted
from gradcheck.explanation.wrong_gradient import WrongGradient, place
from gradcheck.result import Cause, Diagnosis


def taken_outside(wrong: WrongGradient) -> Diagnosis | None:
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
    return wrong.diagnosis(Cause.TAKEN_OUTSIDE, evidence, remedy, place_of(first.line, first.method))


def replaced(wrong: WrongGradient) -> Diagnosis | None:
    """The source is a tensor that took a variable's place, as `x = x + 1` does."""
    if wrong.origin.output is None or not wrong.breaks[0].unwatched:
        return None
    number, index = wrong.origin.output
    maker = wrong.record.operations[number]
    tensor = maker.outputs[index]
    variable = _variable_behind(wrong.record, maker)
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
    return wrong.diagnosis(Cause.REPLACED, evidence, remedy, place(maker))


def _variable_behind(record: CodeRecord, maker: RecordedOperation) -> Any:
    """The variable from whose value the tensor was computed, if there is one."""
    made = {key(output): operation for operation in record.operations for output in operation.outputs}
    waiting, seen = [maker], set()
    while waiting:
        operation = waiting.pop()
        for tensor in operation.inputs:
            if key(tensor) in record.variables:
                return record.variables[key(tensor)]
            if key(tensor) in made and key(tensor) not in seen:
                seen.add(key(tensor))
                waiting.append(made[key(tensor)])
    return None


def non_trainable(wrong: WrongGradient) -> Diagnosis | None:
    """A variable that was made with trainable=False and that nobody watches."""
    variable, use = wrong.origin.variable, _unwatched_use(wrong)
    if variable is None or variable.trainable or use is None:
        return None
    evidence = (
        f"{wrong.lost.summary}: {wrong.name} was made with trainable=False, which tapes do not watch by themselves"
        f"{wrong.lost.remedied}"
    )
    remedy = f"make it trainable, or call tape.watch({wrong.name}) before {quoted(use.line)}"
    return wrong.diagnosis(Cause.NON_TRAINABLE, evidence, remedy, place(use))


def not_watched(wrong: WrongGradient) -> Diagnosis | None:
    """The tape recorded what was done with the source, but did not watch it."""
    use = _unwatched_use(wrong)
    if use is None:
        return None
    evidence = (
        f"{wrong.lost.summary}: the tape did not follow {wrong.name} when {use.name} used it{at(use.line)}; "
        f"{_why_not_watched(wrong, use)}{wrong.lost.remedied}"
    )
    remedy = f"call tape.watch({wrong.name}) inside the tape, before {quoted(use.line)}"
    return wrong.diagnosis(Cause.NOT_WATCHED, evidence, remedy, place(use))


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


def outside_tape(wrong: WrongGradient) -> Diagnosis | None:
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
    return wrong.diagnosis(Cause.OUTSIDE_TAPE, evidence, remedy, place(step))


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


RULES = (taken_outside, replaced, non_trainable, not_watched, outside_tape)
"""In the order in which they are tried."""

CAUSES = (Cause.TAKEN_OUTSIDE, Cause.REPLACED, Cause.NON_TRAINABLE, Cause.NOT_WATCHED, Cause.OUTSIDE_TAPE)
"""What they can find."""


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
