"""tf.GradientTape in plain Python: entering, leaving, stopping, resetting, and the three derivatives.

Rules of tensorflow/python/eager/backprop.py (class GradientTape) and tensorflow/c/eager/tape.h (ComputeGradient).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from gradcheck.hunt.tapes.operations import (
    ADD_N,
    IDENTITY,
    ZEROS_LIKE,
    ModelTensor,
    NoGradientError,
    RunOperation,
    Value,
    first_row,
    zeros_like,
)
from gradcheck.hunt.tapes.recording import NONE, VALUE, ZEROS, ActiveTapes, Prediction, TapeRecord


class RaisedError(Exception):
    """TensorFlow raises an exception of the type `kind` whose message contains `message`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def gradient(
    record: TapeRecord, targets: Sequence[ModelTensor], sources: Sequence[ModelTensor], compute: RunOperation
) -> list[ModelTensor | None]:
    """The gradients of the sum of `targets`, one (or None) per source; `compute` applies an operation to tensors.

    A target's cotangent starts with ones if the tape recorded its operation, or if it is a source itself. Raises
    NoGradientError.
    """
    cotangents: dict[ModelTensor, list[ModelTensor]] = {}

    def total(tensor: ModelTensor) -> ModelTensor | None:
        parts = cotangents.get(tensor, [])
        if len(parts) > 1:
            cotangents[tensor] = parts = [compute(ADD_N, *parts)]
        return parts[0] if parts else None

    for target in targets:
        if record.entries.get(target) is not None or target in sources:
            cotangents.setdefault(target, []).append(ModelTensor(np.ones_like(target.value)))
    for entry in reversed(record.entries_behind(targets)):
        if not any(output in cotangents for output in entry.outputs):
            continue
        ups = [total(output) or zeros_like(output) for output in entry.outputs]
        for tensor, part in zip(entry.inputs, entry.operation.cotangents(compute, entry, ups), strict=True):
            if tensor not in record.entries:
                # An operand that the tape does not follow loses even its initial cotangent of ones as a target.
                cotangents.pop(tensor, None)
            elif part is not None:
                cotangents.setdefault(tensor, []).append(part)
    return [total(source) for source in sources]


class ModelTape:
    """One tape; `record` is None before the first `with` and after a non-persistent tape has given its derivative."""

    def __init__(self, active: ActiveTapes, persistent: bool, accessed: bool) -> None:
        self.active, self.persistent, self.accessed = active, persistent, accessed
        self.record: TapeRecord | None = None
        self.recording = False

    def __enter__(self) -> ModelTape:
        self._push()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.recording:
            self._pop()

    def _push(self) -> None:
        """Start, or go on recording. Raises RaisedError while it records."""
        if self.recording:
            raise RaisedError("ValueError", "Tape is still recording")
        self.record = self.record or TapeRecord(self.accessed)
        self.active.records.append(self.record)
        self.recording = True

    def _pop(self) -> None:
        """Pause. Raises RaisedError unless it records."""
        if not self.recording or self.record is None:
            raise RaisedError("ValueError", "Tape is not recording.")
        self.active.records.remove(self.record)
        self.recording = False

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A paused block; a tape that gave its derivative inside starts a new record after it."""
        if self.record is None:
            raise RaisedError("RuntimeError", "Trying to stop recording a tape which is not recording.")
        self._pop()
        yield
        self._push()

    def reset(self) -> None:
        """Forget everything."""
        self._pop()
        self.record = None
        self._push()

    def watch(self, value: Value) -> None:
        """Follow a tensor, or every read of a variable; TensorFlow ignores it while no tape at all records."""
        if self.record is None:
            raise RaisedError("AttributeError", "'NoneType' object has no attribute '_tape'")
        if self.active.records:
            self.record.watch(value.followed)

    def derive(self, method: str, targets: Sequence[Value], sources: Sequence[Value], zeros: bool) -> list[Prediction]:
        """The results of gradient, jacobian or batch_jacobian for each source. Raises RaisedError."""
        if self.record is None:
            # batch_jacobian has a message of its own, "used tocompute".
            verb = "used tocompute" if method == "batch_jacobian" else "used to compute"
            raise RaisedError("RuntimeError", f"A non-persistent GradientTape can only be {verb} one set of gradients")
        try:
            if method == "gradient":
                return self._gradient(self.record, targets, sources, zeros)
            return self._jacobian(self.record, method, targets[0], sources, zeros)
        except NoGradientError as error:
            # An eager Jacobian traces the operation, which wraps the exception.
            traces = method != "gradient" and not self.active.traced
            raise RaisedError("StagingError" if traces else "LookupError", str(error)) from error

    def _gradient(
        self, record: TapeRecord, targets: Sequence[Value], sources: Sequence[Value], zeros: bool
    ) -> list[Prediction]:
        ends, starts = tuple(one.followed for one in targets), [one.followed for one in sources]
        predictions = []
        for part, source in zip(self._reverse(record, ends, starts), sources, strict=True):
            kind = VALUE if part is not None else ZEROS if zeros else NONE
            if kind == ZEROS:
                part = self.active.apply(ZEROS_LIKE, self.active.read(source))
            predictions.append(Prediction(kind, part, record, ends, source.followed, "gradient"))
        return predictions

    def _jacobian(
        self, record: TapeRecord, method: str, target: Value, sources: Sequence[Value], zeros: bool
    ) -> list[Prediction]:
        """The predictions of a Jacobian.

        The target is read, and its rows are taken, while the tape records; the first row stands for all.
        """
        starts, batch = [source.followed for source in sources], method == "batch_jacobian"
        if batch:
            _refuse_batches(target.followed.shape, starts[0].shape)
        # TensorFlow gets the shape of a variable by reading it, which other tapes record.
        self.active.read(sources[0] if batch else target)
        with nullcontext() if self.recording else self:
            flat = self.active.apply(IDENTITY, self.active.read(target))
            first = self.active.apply(first_row(len(flat.shape), batch), flat)
        predictions = []
        for part, start in zip(self._reverse(record, [first], starts), starts, strict=True):
            # An unconnected batch_jacobian is made of zeros, requested or not, and if not, of the target's dtype.
            kind = VALUE if part is not None else ZEROS if zeros or batch else NONE
            prediction = Prediction(kind, None, record, (flat,), start, method)
            if kind != NONE:
                dtype = np.float64 if kind == VALUE else start.value.dtype if zeros else flat.value.dtype
                tensor = ModelTensor(np.zeros(prediction.shape, dtype), opaque=True)
                prediction = replace(prediction, tensor=tensor)
            predictions.append(prediction)
        return predictions

    def _reverse(
        self, record: TapeRecord, targets: Sequence[ModelTensor], sources: Sequence[ModelTensor]
    ) -> list[ModelTensor | None]:
        """One backward sweep; a non-persistent tape stops recording for it, and is used up by it."""
        if self.recording and not self.persistent:
            self._pop()
        found = gradient(record, targets, sources, self.active.apply)
        if not self.persistent:
            self.record = None
        return found


def _refuse_batches(target: tuple[int, ...], source: tuple[int, ...]) -> None:
    if not target:  # TensorFlow looks up the batch dimension before it looks at the rank
        raise RaisedError("IndexError", "list index out of range")
    for shape in (target, source):
        if len(shape) < 2:
            raise RaisedError("ValueError", f"Shape {str(shape).replace(' ', '')} must have rank at least 2")
    if target[0] != source[0]:
        raise RaisedError("ValueError", "Need first dimension of target shape")
