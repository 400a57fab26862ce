"""Values that are held on purpose: targets, advantages and samples, and a sample that should be.

A loss that multiplies the log-probability of a sample by its reward is that of a score function (REINFORCE): its
gradient is right only while the sample is constant. A target of TD learning and an advantage are constants, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from typing import Any

from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.unconnected import source_names
from gradcheck.tracing.kernels import DENSITIES, DIFFERENCES, EVEN, QUOTIENTS, STOPPING
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall, RecordedOperation, key
from gradcheck.tracing.state import is_random
from gradcheck.tracing.user_code import at, listed, quoted, short

ON_PURPOSE = "; if that holds "
TARGET = "a target on purpose, as in TD learning"
FACTOR = "an advantage, a reward or a baseline on purpose"
SCORE = "if the loss is that of a score function (REINFORCE)"
SAMPLE = "the sample of a score function on purpose, as in REINFORCE"


class _Flow:
    """The operations before a derivative, and what depends on what in them."""

    def __init__(self, record: CodeRecord, call: DerivativeCall) -> None:
        self.operations = [one for one in record.before(call) if isinstance(one, RecordedOperation)]
        self._names: dict[int, int] = {}
        first: dict[object, int] = {}
        for one in self.operations:
            if one.name == "ReadVariableOp":
                self._names[key(one.outputs[0])] = key(one.inputs[0])
            elif one.inputs and one.backward is None and not is_random(one.name):
                same = (one.name, *map(self.name, one.inputs), str(one.attrs))
                self._names |= {
                    key(tensor): first.setdefault((place, same), key(tensor))
                    for place, tensor in enumerate(one.outputs)
                }

    def name(self, tensor: object) -> int:
        """The key of a value: that of a variable's handle, or of the first tensor of a computation that is repeated."""
        return self._names.get(key(tensor), key(tensor))

    def reached(self, start: Iterable[int], without: Collection[int] = ()) -> set[int]:
        """The tensors that depend on some, through operations other than those `without` (by number)."""
        found = set(start)
        for one in self.operations:
            if one.number not in without and any(self.name(tensor) in found for tensor in one.inputs):
                found |= {key(output) for output in one.outputs}
        return found

    def behind(self, tensor: object) -> set[int]:
        """The names of a tensor and of all that it depends on."""
        found = {key(tensor), self.name(tensor)}
        for one in reversed(self.operations):
            if any(key(output) in found for output in one.outputs):
                found |= {each for tensor in one.inputs for each in (key(tensor), self.name(tensor))}
        return found

    def is_density(self, tensor: object, moving: Set[int]) -> bool:
        """Whether a tensor that moves with the source may be a log-probability, or a ratio of probabilities."""
        behind = self.behind(tensor) & moving
        made = (one for one in self.operations if any(key(output) in behind for output in one.outputs))
        return any(one.name in DENSITIES for one in made)

    def drawn(self, without: Collection[int] = ()) -> set[int]:
        """The tensors that depend on random numbers, through operations other than those `without`."""
        start = [key(output) for one in self.operations if is_random(one.name) for output in one.outputs]
        return self.reached(start, without)

    def meetings(self, some: Set[int], others: Set[int]) -> Iterable[tuple[RecordedOperation, object, object]]:
        """Yield the operations of a tensor among some and of one among others, with both."""
        for one in self.operations:
            first = [tensor for tensor in one.inputs if self.name(tensor) in some]
            second = [tensor for tensor in one.inputs if self.name(tensor) in others]
            if first and second:
                yield one, first[0], second[0]


def purpose(source: CallSource, stop: RecordedOperation) -> str:
    """The kind of value that a tf.stop_gradient holds on purpose, by its use in the code; empty if that is unclear."""
    flow, own = _Flow(source.record, source.call), key(source.tensor)
    held = flow.reached(map(key, stop.outputs))
    # A target may depend on other variables than the prediction that it is compared with.
    moving = flow.reached(map(key, source.call.sources), [n.number for n in flow.operations if n.name in STOPPING])
    behind = flow.behind(stop.inputs[0])
    drawn = not flow.drawn().isdisjoint(behind) and own in behind
    for one, _, other in flow.meetings(held - moving, moving - held):
        if flow.name(other) in behind:  # straight-through estimators add to what they round
            return SAMPLE if drawn and one.name in DIFFERENCES | QUOTIENTS else ""
        if one.name == "Mul":
            return FACTOR if flow.is_density(other, moving) else ""
        even = one.name == "SquaredDifference" or (one.name == "Sub" and _even_follows(flow, one))
        return TARGET if even else ""
    return ""


def _even_follows(flow: _Flow, operation: RecordedOperation) -> bool:
    """Whether the next operation on a result is a square, an absolute value or a power."""
    result = key(operation.outputs[0])
    users = [one for one in flow.operations if any(key(tensor) == result for tensor in one.inputs)]
    return any(one.name in EVEN or (one.name == "Mul" and len(set(map(key, one.inputs))) == 1) for one in users)


def sample_to_hold(
    record: CodeRecord, call: DerivativeCall, sources: Sequence[Any], constants: Iterable[int] = ()
) -> str:
    """Say which sample a score function would have to hold, but does not; empty if there is none.

    The log-probability is known by a difference between a sample and the mean that it was drawn around, or a quotient
    by its scale; the reward, which it is multiplied by, depends on the sample. `constants` are values that depend on
    the sources although no tape knows it, by number.
    """
    if not any(isinstance(one, RecordedOperation) and is_random(one.name) for one in record.before(call)):
        return ""
    flow = _Flow(record, call)
    stops, random = [one.number for one in flow.operations if one.name in STOPPING], flow.drawn()
    moving = flow.reached(map(key, sources), stops)
    samples = moving & flow.drawn(stops)
    returned = {key(output) for one in flow.operations if one.number in set(constants) for output in one.outputs}
    rewards = flow.reached(samples | returned)
    for one, sample, other in flow.meetings(samples, moving - random):
        if one.name not in DIFFERENCES | QUOTIENTS or flow.name(other) not in (behind := flow.behind(sample)):
            continue
        density, of_density = (flow.reached(map(key, one.outputs), without) for without in (stops, ()))
        if not any(product.name == "Mul" for product, _, _ in flow.meetings(density, rewards - of_density)):
            continue
        drawn = next(n for n in flow.operations if any(key(output) in behind & samples for output in n.outputs))
        names = listed(
            [name for name, source in zip(source_names(call), call.sources, strict=True) if key(source) in behind]
        )
        return (
            f"{SCORE}, hold the sample: {quoted(drawn.line)} depends on {names}, and the "
            f"log-probability{at(one.line)} is differentiated through it; write tf.stop_gradient around it"
        )
    return ""


def notes_on_samples(record: CodeRecord) -> list[str]:
    """A note on a sample that a score function would have to hold, for the derivatives that the code takes."""
    with cause_searched():
        found = (sample_to_hold(record, call, call.sources) for call in record.derivatives)
        return list(filter(None, found))[:1]
    return []


def kept_on_purpose(source: CallSource, stop: RecordedOperation) -> str:
    """The remedy for what may be held on purpose, with another value to hold then; empty if nothing shows that."""
    kind = purpose(source, stop)
    if not kind:
        return ""
    also = sample_to_hold(source.record, source.call, [source.tensor]) if kind == FACTOR else ""
    held = f"{ON_PURPOSE}{kind}, nothing is wrong{mark_of(stop)}"
    return f"leave tf.stop_gradient out of {quoted(stop.line)}{held}" + (f"; {also}" if also else "")


def marks(*names: str) -> str:
    """Say how to mark what is meant with names, of functions or of lines; empty without any."""
    shown = [f'"{name}"' for name in dict.fromkeys(names)]
    given = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    return f", and intended={given} compares the rest" if shown else ""


def mark_of(stop: RecordedOperation) -> str:
    """Say how to mark a tf.stop_gradient; empty for one without a line, or without a value, as in a graph."""
    return marks(short(stop.line)) if stop.line is not None and hasattr(stop.outputs[0], "_numpy") else ""
