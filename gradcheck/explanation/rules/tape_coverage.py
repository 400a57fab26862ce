"""Causes that lie in what a tape covered: a wider tape, or one that watches more, would give the derivative."""

from __future__ import annotations

from typing import Any

from gradcheck.explanation.case import Case, at, code_at, place
from gradcheck.explanation.paths import Cut
from gradcheck.explanation.places import place_of
from gradcheck.explanation.record import RecordedOperation, WatchEvent, key
from gradcheck.result import Cause, Diagnosis


def taken_outside(case: Case) -> Diagnosis | None:
    """A derivative of a derivative, where the first one was taken while the second one's tape did not record."""
    steps = [case.record.operations[number] for number in case.path.operations]
    outside = [step for step in steps if step.call is not None and case.call.tape not in step.tapes]
    if not outside:
        return None
    first = case.record.derivatives[outside[0].call or 0]
    evidence = (
        f"{case.loss.words}: the first derivative was taken{at(first.line)}, outside the tape that had to record it "
        f"({_opening(case)}){case.loss.covering}"
    )
    remedy = (
        f"take the first derivative, {code_at(first.line)}, inside the block of the tape that differentiates it; "
        "the inner tape gives the first derivative, the outer one the second"
    )
    return case.diagnosis(Cause.TAKEN_OUTSIDE, evidence, remedy, place_of(first.line, first.method))


def replaced(case: Case) -> Diagnosis | None:
    """The source is a tensor that took a variable's place, as `x = x + 1` does."""
    if case.origin.output is None or not case.first.unseen:
        return None
    number, index = case.origin.output
    maker = case.record.operations[number]
    tensor = maker.outputs[index]
    variable = _variable_behind(case, maker)
    if variable is None or variable.shape != tensor.shape or variable.dtype != tensor.dtype:
        return None
    evidence = (
        f"{case.loss.words}: {case.name} is no longer a variable but the result of {maker.name}{at(maker.line)}, "
        "a tensor, which tapes do not watch by themselves"
    )
    remedy = (
        f"change the variable in place, with assign, assign_add or assign_sub instead of {code_at(maker.line)}, "
        f"or call tape.watch({case.name}) as soon as the tape is open"
    )
    return case.diagnosis(Cause.REPLACED, evidence, remedy, place(maker))


def non_trainable(case: Case) -> Diagnosis | None:
    """A variable that was made with trainable=False and that nobody watches."""
    variable = case.origin.variable
    seen = _seen(case)
    if variable is None or variable.trainable or seen is None:
        return None
    evidence = (
        f"{case.loss.words}: {case.name} was made with trainable=False, which tapes do not watch by themselves"
        f"{case.loss.covering}"
    )
    remedy = f"make it trainable, or call tape.watch({case.name}) before {code_at(seen.operation.line)}"
    return case.diagnosis(Cause.NON_TRAINABLE, evidence, remedy, place(seen.operation))


def not_watched(case: Case) -> Diagnosis | None:
    """The tape recorded what was done with the source, but did not watch it."""
    seen = _seen(case)
    if seen is None:
        return None
    watches = [event.line for event in case.events if isinstance(event, WatchEvent) and _watches(case, event)]
    resets = [line for count, line in case.turns("reset") if count <= seen.number]
    if case.origin.variable is not None:
        why = f"the tape ({_opening(case)}) was opened with watch_accessed_variables=False and not told to watch it"
    else:
        why = "it is a tensor, and tapes watch tensors only when they are told to"
    if resets and watches:
        why = f"the tape was reset{at(resets[-1])} and forgot what it watched"
    elif watches:
        why = f"the tape was told to watch it only{at(watches[0])}, after it had been used"
    evidence = (
        f"{case.loss.words}: the tape did not follow {case.name} when {seen.operation.name} used it"
        f"{at(seen.operation.line)}; {why}{case.loss.covering}"
    )
    remedy = f"call tape.watch({case.name}) inside the tape, before {code_at(seen.operation.line)}"
    return case.diagnosis(Cause.NOT_WATCHED, evidence, remedy, place(seen.operation))


def outside_tape(case: Case) -> Diagnosis | None:
    """A step that ran while the tape did not record."""
    outside = [cut for cut in case.cuts if not cut.recorded]
    cut = outside[0] if outside else case.first
    resets = [line for count, line in case.turns("reset") if count > cut.number]
    if not outside and not resets:
        return None
    when = f"before the tape was reset{at(resets[-1])}" if not outside else _when(case, cut.number)
    evidence = f"{case.loss.words}: {cut.operation.name}{at(cut.operation.line)} ran {when}{case.loss.covering}"
    opened = case.turns("opened")
    block = f"the block of the tape that is opened{at(opened[0][1])}" if opened else "the tape's block"
    remedy = f"move {code_at(cut.operation.line)} into {block}"
    if not outside:
        remedy = f"move the reset before {code_at(cut.operation.line)}, or leave it out"
    return case.diagnosis(Cause.OUTSIDE_TAPE, evidence, remedy, place(cut.operation))


def _when(case: Case, number: int) -> str:
    opened, closed = case.turns("opened"), case.turns("closed")
    if not opened or number < opened[0][0]:
        return "before the tape was opened" + (at(opened[0][1]) if opened else "")
    if number >= opened[-1][0]:
        return "after the tape was closed"
    stopped = [line for count, line in closed if count <= number]
    return f"while the tape's recording was stopped{at(stopped[-1])}" if stopped else "while no tape recorded"


def _opening(case: Case) -> str:
    opened = case.turns("opened")
    return "opened" + at(opened[0][1]) if opened else "never opened"


def _seen(case: Case) -> Cut | None:
    """The first use of the source that the tape recorded without following the source."""
    cuts = [cut for cut in case.cuts if cut.unseen and cut.recorded]
    resets = [count for count, _ in case.turns("reset")]
    return next((cut for cut in cuts if not any(count > cut.number for count in resets)), None)


def _watches(case: Case, event: WatchEvent) -> bool:
    return event.tape == case.call.tape and key(event.tensor) == case.path.source


def _variable_behind(case: Case, maker: RecordedOperation) -> Any:
    """The variable from whose value the tensor was computed, if there is one."""
    made = {key(output): operation for operation in case.record.operations for output in operation.outputs}
    waiting, seen = [maker], set()
    while waiting:
        operation = waiting.pop()
        for tensor in operation.inputs:
            if key(tensor) in case.record.variables:
                return case.record.variables[key(tensor)]
            if key(tensor) in made and key(tensor) not in seen:
                seen.add(key(tensor))
                waiting.append(made[key(tensor)])
    return None


RULES = (taken_outside, replaced, non_trainable, not_watched, outside_tape)
"""In the order in which they are asked."""

CAUSES = (Cause.TAKEN_OUTSIDE, Cause.REPLACED, Cause.NON_TRAINABLE, Cause.NOT_WATCHED, Cause.OUTSIDE_TAPE)
"""What they can answer."""
