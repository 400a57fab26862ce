"""Stand-ins for the tf.functions that a step calls, so that the functions themselves are left alone.

What we watch is Python code, which a traced function does not run any more. A stand-in of the same Python function is
traced while we watch, once for a check. It runs without XLA, which cannot call back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from gradcheck.explanation.interception import Wrapper, patched
from gradcheck.training.optimizers import METHODS, applied_again, loss_scale, owners, pairs_of

FUNCTION = polymorphic_function.Function


class StandIns:
    """One stand-in for each tf.function that was called."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def call(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Answers a call of `function` by its stand-in; `original` calls a tf.function."""
        if not tf.inside_function() and tf.config.functions_run_eagerly():
            return original(function, *args, **kwargs)
        if id(function) not in self._known:
            self._known[id(function)] = (function, _stand_in(function))
        stand_in = self._known[id(function)][1]
        return original(stand_in, *args, **kwargs)


def _stand_in(function: Any) -> Any:
    if getattr(function, "_stands_in", False):
        return function
    stand_in = function._clone(None)
    stand_in._jit_compile = None
    stand_in._omit_frequent_tracing_warning = True
    stand_in._stands_in = True
    return stand_in


Array = np.ndarray[Any, Any]
CLIPS = (
    *((module, name) for module in (tf, tf.compat.v1) for name in ("clip_by_value", "clip_by_norm", "norm")),
    *((module, "clip_by_global_norm") for module in (tf, tf.compat.v1)),
    *((tf.linalg, name) for name in ("norm", "global_norm")),
    *((np, "clip"), (np.linalg, "norm")),
)
"""Where gradients are clipped, or measured to be clipped by hand."""
WITNESSES = {"clip": "clip_by_value"}


@dataclass(frozen=True)
class Handover:
    """The gradients (tensors, IndexedSlices or None) that an optimizer was given for its variables.

    `name` is the optimizer's; `again` gives it other pairs of a gradient and a variable in the same way. They are the
    gradients of the loss times `scale`, where the optimizer scales losses against underflow.
    """

    name: str
    optimizer: Any
    variables: tuple[Any, ...]
    gradients: tuple[Any, ...]
    again: Callable[[Sequence[Any]], Any]
    scale: float = 1.0


@dataclass(frozen=True)
class Taken:
    """What a tape gave: the gradients (tensors, IndexedSlices or None) of a scalar with respect to sources."""

    loss: Any
    sources: tuple[Any, ...]
    gradients: tuple[Any, ...]


@dataclass(frozen=True)
class StepRecording:
    """What one run did; `clips` names the functions that gradients went through, such as clip_by_norm.

    `numbers` are the scalars, with their values, that it fetched from a graph.
    """

    handovers: list[Handover] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    clips: list[str] = field(default_factory=list)
    numbers: list[tuple[Any, float]] = field(default_factory=list)


class StepRecorder:
    """Watches runs of a step, each of which fills a Recording."""

    def __init__(self) -> None:
        self.now = StepRecording()
        self._stand_ins = StandIns()
        self._depth = 0
        self._taken: list[Any] = []
        self._clipped: list[tuple[str, list[Any]]] = []

    @contextmanager
    def recording(self) -> Iterator[StepRecording]:
        """Write down what happens inside the block."""
        self.now, self._depth = StepRecording(), 0
        self._taken, self._clipped = [], []
        patches: list[tuple[Any, str, Wrapper]] = [(FUNCTION, "__call__", self._stand_ins.call)]
        patches += [(owner, method, self._applying(method)) for method in METHODS for owner in owners(method)]
        patches += [(module, name, self._clipping(name)) for module, name in CLIPS]
        with patched(*patches, (tf.GradientTape, "gradient", self._differentiating)):
            yield self.now

    def gave(self, result: Any) -> None:
        """Notes what a derivative, or a session, gave: what is clipped is held against it."""
        self._taken += _tensors(result)

    def _applying(self, method: str) -> Wrapper:
        def apply(original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return original(optimizer, *args, **kwargs)
            pairs, args, kwargs = pairs_of(optimizer, method, args, kwargs)
            self._hand_over(optimizer, pairs, applied_again(optimizer, original, method, args, kwargs))
            self._depth += 1
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                self._depth -= 1

        return apply

    def _hand_over(self, optimizer: Any, pairs: Sequence[tuple[Any, Any]], again: Callable[..., Any]) -> None:
        gradients = [pair[0] for pair in pairs]
        variables = tuple(pair[1] for pair in pairs)
        clips = sorted({name for name, outputs in self._clipped if _share(gradients, outputs)})

        def note(scale: Any, *found: Any) -> None:
            name = type(optimizer).__name__
            self.now.handovers.append(Handover(name, optimizer, variables, found, again, float(scale)))
            self.now.clips.extend(clips)

        _noted(note, [loss_scale(optimizer), *gradients])

    def _differentiating(self, original: Any, tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tape, target, sources, *args, **kwargs)
        self.gave(result)
        parts = [part for part in tf.nest.flatten(target) if tf.is_tensor(part) and part.dtype.is_floating]
        if parts:
            flat = tuple(tf.nest.flatten(sources))
            loss = tf.add_n([tf.reduce_sum(part) for part in parts]) if len(parts) > 1 else tf.reduce_sum(parts[0])

            def note(loss: Any, *gradients: Any) -> None:
                self.now.taken.append(Taken(loss, flat, gradients))

            _noted(note, [loss, *tf.nest.flatten(result)])
        return result

    def _clipping(self, name: str) -> Wrapper:
        def clip(original: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._clipped.append((WITNESSES.get(name, name), _tensors(result)))
            if _share(_tensors((args, kwargs)), self._taken):
                _noted(lambda: self.now.clips.append(WITNESSES.get(name, name)), [])
            return result

        return clip


def _noted(note: Callable[..., None], values: Sequence[Any]) -> None:
    """Calls `note` with the values (tensors, IndexedSlices, None) whenever this code runs, in a tf.function or not."""
    if not tf.inside_function():
        note(*values)
        return
    parts = [_parts(value) for value in values]

    def unpacked(*arrays: Array) -> None:
        rest = iter(arrays)
        note(*(_rebuilt(value, [next(rest) for _ in own]) for value, own in zip(values, parts, strict=True)))

    tf.numpy_function(unpacked, [part for own in parts for part in own], [])


def _parts(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, tf.IndexedSlices):
        return [part for part in (value.values, value.indices, value.dense_shape) if part is not None]
    return [tf.convert_to_tensor(value)]


def _rebuilt(value: Any, arrays: list[Array]) -> Any:
    tensors = [tf.constant(array) for array in arrays]
    if value is None:
        return None
    return tf.IndexedSlices(*tensors) if isinstance(value, tf.IndexedSlices) else tensors[0]


def _tensors(structure: Any) -> list[Any]:
    """The tensors and arrays in a nested structure, those inside of IndexedSlices too."""
    flat = tf.nest.flatten(structure, expand_composites=True)
    return [part for part in flat if tf.is_tensor(part) or isinstance(part, (np.ndarray, np.generic))]


def _share(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return bool({id(part) for part in _tensors(list(some))} & {id(part) for part in others})
