"""Derivatives that the one in question does not depend on: a replay need not take them again."""

from __future__ import annotations

from gradcheck.diagnosis.paths import written
from gradcheck.diagnosis.record import Derivative, Exit, Operation, Record, key


def idle(record: Record, call: Derivative) -> dict[int, Derivative]:
    """The calls before this one, by number, whose answers go into nothing that its targets could see.

    Whatever leaves TensorFlow, or goes into a variable, could be seen.
    """
    needed = {key(target) for target in call.targets}
    used: set[int] = set()
    for event in reversed(record.events[: call.position]):
        if isinstance(event, Exit):
            needed.add(key(event.tensor))
        elif isinstance(event, Operation) and (written(event) or any(key(one) in needed for one in event.outputs)):
            needed |= {key(tensor) for tensor in event.inputs}
            used |= set() if event.call is None else {event.call}
        elif isinstance(event, Derivative) and any(key(part) in needed for part in event.results or ()):
            used.add(event.number)
    earlier = record.derivatives[: call.number]
    return {one.number: one for one in earlier if one.error is None and one.number not in used}
