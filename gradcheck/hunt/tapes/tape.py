"""tf.GradientTape in plain Python: entering, leaving, stopping, resetting, and the three derivatives.

Rules of tensorflow/python/eager/backprop.py (class GradientTape).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.hunt.tapes import errors
from gradcheck.hunt.tapes.operations import (
    ADD_N,
    IDENTITY,
    MUL,
    ZEROS_LIKE,
    Application,
    Compute,
    ModelTensor,
    ModelVariable,
    NoGradientError,
    Operation,
    Parts,
    first_row,
    ones_like,
    zeros_like,
)
from gradcheck.hunt.tapes.recording import Part, Seen, Stage, TapeRecord, evaluate


def gradient(
    record: TapeRecord, targets: Sequence[ModelTensor], sources: Sequence[ModelTensor], compute: Compute
) -> list[ModelTensor | None]:
    """The gradients of the sum of `targets`, one (or None) a source; `compute` applies an operation to tensors.

    A target starts with ones if the tape recorded how it was made, or if it is a source itself. Raises NoGradientError.
    """
    flows: dict[ModelTensor, list[ModelTensor]] = {}
    for target in targets:
        if record.entries.get(target) is not None or target in sources:
            flows.setdefault(target, []).append(ones_like(target))
    for application in reversed(record.applications(targets)):
        if not any(output in flows for output in application.outputs):
            continue
        ups = tuple(_collected(flows, output, compute) or zeros_like(output) for output in application.outputs)
        backward = application.operation.backward
        parts = [None] * len(application.inputs) if backward is None else backward(compute, application, ups)
        for tensor, part in zip(application.inputs, parts, strict=True):
            if part is not None and tensor in record.entries:
                flows.setdefault(tensor, []).append(part)
            elif tensor not in record.entries:
                # An operand that is not followed loses even the ones that it starts with as a target.
                flows.pop(tensor, None)
    return [_collected(flows, source, compute) for source in sources]


def _collected(
    flows: dict[ModelTensor, list[ModelTensor]], tensor: ModelTensor, compute: Compute
) -> ModelTensor | None:
    parts = flows.get(tensor)
    if parts is None:
        return None
    if len(parts) > 1:
        flows[tensor] = parts = [compute(ADD_N, *parts)]
    return parts[0]


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Body:
    """What a function or one branch computes: everything is recorded; `inputs` are what it takes or captures."""

    record: TapeRecord
    outputs: tuple[ModelTensor, ...]

    @property
    def inputs(self) -> tuple[ModelTensor, ...]:
        """Arguments, captured tensors and captured handles."""
        return tuple(tensor for tensor, application in self.record.entries.items() if application is None)


def block(name: str, stage: Stage, bodies: tuple[Body, ...], taken: int) -> tuple[Operation, tuple[ModelTensor, ...]]:
    """The operation that computes the outputs of the body `taken`, and its inputs."""
    inputs = tuple(dict.fromkeys(tensor for body in bodies for tensor in body.inputs))
    body = bodies[taken]

    def forward(*arrays: Array) -> tuple[Array, ...]:
        moved = {tensor: array - tensor.value for tensor, array in zip(inputs, arrays, strict=True)}
        return tuple(evaluate(body.record, body.outputs, moved))

    def backward(compute: Compute, at: Application, ups: tuple[ModelTensor, ...]) -> Parts:
        stage.blocked += bool(stage.active)
        connected = [_connected(one, inputs) for one in bodies]
        flows = _pulled(body, inputs, ups)
        return tuple(
            (flow or zeros_like(tensor)) if any(one[position] for one in connected) else None
            for position, (tensor, flow) in enumerate(zip(inputs, flows, strict=True))
        )

    return Operation(name, forward, backward), inputs


def _connected(body: Body, inputs: tuple[ModelTensor, ...]) -> list[bool]:
    targets = [output for output in body.outputs if output.floating]
    return [part is not None for part in gradient(body.record, targets, inputs, Stage().apply)]


def _pulled(body: Body, inputs: tuple[ModelTensor, ...], ups: tuple[ModelTensor, ...]) -> list[ModelTensor | None]:
    """The gradients of the outputs weighted with `ups`."""
    stage = Stage(active=[body.record])
    pairs = [(output, up) for output, up in zip(body.outputs, ups, strict=True) if output.floating]
    weighted = [stage.apply(MUL, output, up) for output, up in pairs]
    return gradient(body.record, weighted, inputs, Stage().apply)


Value = ModelTensor | ModelVariable


class ModelTape:
    """One tape; `record` is None before the first `with` and after a non-persistent tape gave its derivative."""

    def __init__(self, stage: Stage, persistent: bool, accessed: bool) -> None:
        self.stage, self.persistent, self.accessed = stage, persistent, accessed
        self.record: TapeRecord | None = None
        self.recording = False

    def push(self) -> None:
        """Start, or go on recording. Raises RaisedError while it records."""
        if self.recording:
            raise errors.entered_twice()
        self.record = self.record or TapeRecord(self.accessed)
        self.stage.active.append(self.record)
        self.recording = True

    def pop(self) -> None:
        """Pause. Raises RaisedError unless it records."""
        if not self.recording or self.record is None:
            raise errors.not_recording()
        self.stage.active.remove(self.record)
        self.recording = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """`with tape:`"""
        self.push()
        yield
        if self.recording:
            self.pop()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """`with tape.stop_recording():`, after which a tape that gave its derivative inside records anew."""
        if self.record is None:
            raise errors.stopped_without_tape()
        self.pop()
        yield
        self.push()

    def reset(self) -> None:
        """Forget everything."""
        self.pop()
        self.record = None
        self.push()

    def watch(self, value: Value) -> None:
        """Follow a tensor, or every read of a variable; TensorFlow ignores it while no tape at all records."""
        if self.record is None:
            raise errors.watched_without_tape()
        if self.stage.active:
            self.record.watch(handle_or_self(value))

    def derive(self, method: str, targets: Sequence[Value], sources: Sequence[Value], zeros: bool) -> list[Part]:
        """What gradient, jacobian or batch_jacobian gives, one part a source. Raises RaisedError."""
        if self.record is None:
            raise errors.used(method)
        try:
            if method == "gradient":
                return self._gradient(targets, sources, zeros)
            return self._jacobian(method, targets[0], sources, zeros)
        except NoGradientError as error:
            raise errors.unregistered(error, method, self.stage.traced) from error

    def _gradient(self, targets: Sequence[Value], sources: Sequence[Value], zeros: bool) -> list[Part]:
        ends, starts = [handle_or_self(t) for t in targets], [handle_or_self(s) for s in sources]
        found, record = self._reverse(ends, starts)
        return [
            Part.of_gradient(
                tensor,
                self._zeros(source) if zeros and tensor is None else None,
                Seen(record, tuple(ends), start, "gradient"),
            )
            for tensor, source, start in zip(found, sources, starts, strict=True)
        ]

    def _zeros(self, source: Value) -> ModelTensor:
        """Zeros for an unconnected source: eagerly an operation on it, which other tapes see; a constant in a graph."""
        tensor = self.stage.tensor(source)
        return zeros_like(tensor) if self.stage.traced else self.stage.apply(ZEROS_LIKE, tensor)

    def _reverse(
        self, targets: list[ModelTensor], sources: list[ModelTensor]
    ) -> tuple[list[ModelTensor | None], TapeRecord]:
        """One reverse pass; a non-persistent tape stops recording for it, and is used up by it."""
        record = self.record
        if record is None:
            raise errors.used("gradient")
        if self.recording and not self.persistent:
            self.pop()
        found = gradient(record, targets, sources, self.stage.apply)
        if not self.persistent:
            self.record = None
        return found, record

    def _jacobian(self, method: str, target: Value, sources: Sequence[Value], zeros: bool) -> list[Part]:
        """The target is read, and its rows are taken, while the tape records; all rows are alike, one tells."""
        starts = [handle_or_self(source) for source in sources]
        batch = method == "batch_jacobian"
        if batch:
            _refuse_shapes(handle_or_self(target).shape, starts[0].shape)
        # TensorFlow asks the shape of a variable by reading it, which other tapes see.
        self.stage.tensor(sources[0] if batch else target)
        with self._recording():
            flat = self.stage.apply(IDENTITY, self.stage.tensor(target))
        with self._recording():
            one = self.stage.apply(first_row(len(flat.shape), batch), flat)
        found, record = self._reverse([one], starts)
        # An unconnected batch_jacobian is made of zeros, asked for or not, and then of the target's dtype.
        unasked = flat.value.dtype if batch else None
        return [
            Part.of_jacobian(tensor, start.value.dtype if zeros else unasked, Seen(record, (flat,), start, method))
            for tensor, start in zip(found, starts, strict=True)
        ]

    @contextmanager
    def _recording(self) -> Iterator[None]:
        if self.recording:
            yield
            return
        self.push()
        yield
        self.pop()


def handle_or_self(value: Value) -> ModelTensor:
    """What tapes follow: a variable's handle."""
    return value.handle if isinstance(value, ModelVariable) else value


def _refuse_shapes(target: tuple[int, ...], source: tuple[int, ...]) -> None:
    if not target:
        raise errors.scalar_batch()
    for shape in (target, source):
        if len(shape) < 2:
            raise errors.low_rank(shape)
    if target[0] != source[0]:
        raise errors.other_batch()
