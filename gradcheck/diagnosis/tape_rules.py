"""The causes of a lost gradient that a wider tape fixes: steps that the tape did not record, or did not follow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from gradcheck.diagnosis.wrong_gradient import WrongGradient
from gradcheck.result import Place
from gradcheck.tracing.record import RecordedOperation, TapeChange, WatchEvent, key
from gradcheck.tracing.user_code import Line, at, listed, parting, place_of, quoted

Explained = tuple[str, str, Place | None]
"""Evidence, remedy, and the line of the break (None: that of the first break)."""
TapeRule = Callable[[WrongGradient, RecordedOperation], Explained | None]
"""Also takes the operation at the first break; returns None where the rule does not apply."""

SHOWN = 4
"""The number of lines outside of a tape, and of further breaks of a path, that are named."""
MEANT = "meant as a constant (a target, an advantage)"


def taken_outside(wrong: WrongGradient, step: RecordedOperation) -> Explained | None:
    """A derivative of a derivative, where the first one was taken while the second one's tape did not record."""
    steps = [wrong.source.record.operations[number] for number in wrong.path.operations]
    outside = (
        one.derivative for one in steps if one.derivative is not None and wrong.source.call.tape not in one.tapes
    )
    number = next(outside, None)
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
