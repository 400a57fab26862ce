"""Gradients that are meant not to be those of the values: what stops or replaces them is held, the rest is compared.

A tf.stop_gradient that is held gives the value that it has at the given inputs, wherever these are moved. A custom
gradient that is held gives the linear function that its own gradient stands for. Both have the same value and gradient
as before at the given inputs, and differences that fit.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate
from math import prod
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import dense
from gradcheck.autodiff.sources import variable_of
from gradcheck.tracing import hooks
from gradcheck.tracing.hooks import as_written, functions_run_eagerly, patched
from gradcheck.tracing.user_code import Line, at, file_owner, line_of, listed, running_frame

LARGEST = 2**22
"""A custom gradient that is not element by element is held while its Jacobian has at most this many entries."""
LINEAR = 1e-3
"""A gradient counts as linear in its upstream gradient up to this relative error."""
SHOWN = 8
"""The number of candidates that an error names."""

Label = tuple[str, Line | None]
"""The name of the function that stops or replaces a gradient, and the line that calls it."""


class Intended:
    """Holds what stops or replaces a gradient, if it is among the names of functions and the lines ("train.py:12").

    Each run of the code notes what is met; after `hold`, runs get the values that the last one noted.
    """

    def __init__(self, given: Any = ()) -> None:
        names = list(given) if isinstance(given, (list, tuple, set)) else [given]
        self.names = tuple(getattr(one, "__name__", one) for one in names)
        if not all(isinstance(name, str) for name in self.names):
            raise TypeError(
                f'intended was {given!r}; names of functions, or lines such as "train.py:12", were expected'
            )
        self._held, self._inside = False, False
        self._noted: dict[Label, list[Any]] = {}
        self._met: dict[Label, frozenset[str]] = {}
        self._turns: dict[Label, int] = {}

    def __bool__(self) -> bool:
        return bool(self.names)

    def around(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs with what is intended noted, or held; `f` itself if nothing is."""
        if not self:
            return f

        @wraps(f, updated=())
        def running(*args: Any, **kwargs: Any) -> Any:
            return self.call(f, *args, **kwargs)

        return running

    def call(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run `f` with what is intended noted, or held. A tf.function runs as Python, which shows lines and values."""
        if not self:
            return f(*args, **kwargs)
        self._turns = {}
        if not self._held:
            self._noted, self._met = {}, {}
        custom = ((*hook, self._replace) for hook in (hooks.CUSTOM_GRADIENT, hooks.CUSTOM_GRADIENT_IN_GRAPHS))
        stopped, written = (*hooks.STOP_GRADIENT, self._stop), (*hooks.FUNCTION_CALL, _as_written)
        with functions_run_eagerly(), patched(stopped, written, *custom):
            return f(*args, **kwargs)

    def hold(self) -> None:
        """Hold from now on. Raises ValueError for a name that nothing has, and for what cannot be held."""
        found = frozenset().union(*self._met.values())
        for name in self.names:
            if name not in found:
                raise ValueError(f"intended was {name!r}, {self._candidates}")
        if not self._noted:
            raise ValueError(
                f"intended was {', '.join(self.names)}, which runs in a graph alone, without values to hold"
            )
        for label, calls in self._noted.items():
            self._noted[label] = [call.linear() if isinstance(call, _CustomCall) else call for call in calls]
        self._held = True

    @property
    def note(self) -> str:
        """The note on what is held."""
        return f"intended: {listed([what + at(line) for what, line in self._noted])}; held, while the rest was compared"

    @property
    def _candidates(self) -> str:
        shown = [what + at(line) for what, line in list(self._met)[:SHOWN]]
        if not shown:
            return "but the code calls neither tf.stop_gradient nor a custom gradient"
        return (
            f"which none of these is, or is called in: {', '.join(shown)}; a function or a line of these was expected"
        )

    def _label(self, what: str, own: str = "") -> Label | None:
        """The label of what is called now, if it is intended."""
        frame: FrameType | None = sys._getframe(2)
        known = {own}
        while frame is not None and frame.f_code is not Intended.call.__code__:
            code, kind = frame.f_code, type(frame.f_locals.get("self")).__name__
            if file_owner(code.co_filename) == "user":
                known |= {name for name in self.names if _names(name, code.co_filename, frame.f_lineno)}
                known |= {code.co_name, kind}
            frame = frame.f_back
        label, matching = (what, line_of(running_frame())), known.intersection(self.names)
        if not self._held:
            self._met[label] = self._met.get(label, frozenset()) | matching
        return label if matching else None

    def _next(self, label: Label) -> Any:
        turn = self._turns[label] = self._turns.get(label, -1) + 1
        calls = self._noted.get(label, ())
        if turn >= len(calls):
            raise RuntimeError(f"{label[0]}{at(label[1])} is called more often than at the given inputs")
        return calls[turn]

    def _stop(self, original: Any, input: Any, name: Any = None) -> Any:
        label = None if self._inside else self._label("tf.stop_gradient")
        if label is None:
            return original(input, name=name)
        if self._held:
            return _like(self._next(label), tf.convert_to_tensor(input))
        value = original(input, name=name)
        if hasattr(value, "_numpy"):
            self._noted.setdefault(label, []).append(value)
        return value

    def _replace(self, original: Any, f: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(f, "__name__", "a custom gradient")
        code = getattr(inspect.unwrap(f), "__code__", None)
        of_library = code is not None and file_owner(code.co_filename) != "user" and name not in self.names
        label = None if self._inside or of_library else self._label(name, name)
        if label is None:
            return original(f, args, kwargs)
        if self._held:
            return self._next(label)(args)
        before, self._inside = self._inside, True
        try:
            call = _CustomCall.of(name + at(label[1]), lambda: original(f, args, kwargs), args)
        finally:
            self._inside = before
        if tf.executing_eagerly():
            self._noted.setdefault(label, []).append(call)
        return call.outputs


def _as_written(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    with as_written(function):
        return original(function, *args, **kwargs)


def _names(name: str, filename: str, number: int) -> bool:
    """Whether a name is that of a line."""
    path, _, line = name.rpartition(":")
    parts = Path(path).parts
    return bool(parts) and line == str(number) and Path(filename).parts[-len(parts) :] == parts


def _like(value: Any, tensor: Any) -> Any:
    """A value that was noted, in the place of a tensor."""
    if value.shape != tensor.shape:
        raise RuntimeError(
            f"what is intended is of shape {tensor.shape}, and of shape {value.shape} at the given inputs"
        )
    return value if value.dtype == tensor.dtype else tf.cast(value, tensor.dtype)


@dataclass(frozen=True)
class _CustomCall:
    """A call of a custom gradient: its outputs, the tensors and variables that it depends on, and their tape."""

    name: str
    outputs: Any
    given: tuple[Any, ...]
    values: tuple[Any, ...]
    tape: Any

    @staticmethod
    def of(name: str, call: Callable[[], Any], args: Any) -> _CustomCall:
        """Call it, with the positional arguments `args`."""
        given = _floating(args)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(given)
            outputs = call()
        own = {id(variable_of(one)) for one in given}
        given += [one for one in tape.watched_variables() if id(variable_of(one)) not in own]
        return _CustomCall(name, outputs, tuple(given), tuple(map(tf.identity, given)), tape)

    def linear(self) -> _Linear:
        """The linear function that its gradient stands for. Raises ValueError if there is none, or it is too large."""
        flat = [one for one in tf.nest.flatten(self.outputs) if one.dtype.is_floating]
        if not flat or not all(one.dtype.is_floating for one in (*flat, *self.values)):
            raise ValueError(f"intended: {self.name} takes or returns complex numbers, which cannot be held")
        sizes = [prod(one.shape) for one in flat]
        drawn = np.random.default_rng(0).uniform(0.5, 1.0, sum(sizes)) * np.resize([1.0, -1.0], sum(sizes))
        along = self._pulled(flat, sizes, drawn)
        ones = self._pulled(flat, sizes, np.ones(sum(sizes)))
        scale = max(np.max(np.abs(one), initial=0.0) for one in along)
        alone = len(flat) == 1
        slopes: list[Any] = []
        for value, one, total in zip(self.values, along, ones, strict=True):
            if alone and value.shape == flat[0].shape and _close(one, total * drawn, scale):
                slopes.append(tf.constant(np.reshape(total, value.shape), value.dtype))
            else:
                slopes.append(None)
        if None in slopes:
            if sum(sizes) * sum(one.size for one in along) > LARGEST:
                raise ValueError(f"intended: the gradient of {self.name} has too many entries to be held")
            rows = [self._pulled(flat, sizes, unit) for unit in np.eye(sum(sizes))]
            for place, parts in enumerate(zip(*rows, strict=True)):
                matrix = np.stack(parts)
                if not _close(drawn @ matrix, along[place], scale):
                    raise ValueError(
                        f"intended: the gradient of {self.name} is not proportional to its upstream gradient, which "
                        "that of no function is, so that it cannot be held: check the step without it"
                    )
                slopes[place] = tf.constant(matrix, self.values[place].dtype)
        return _Linear(self.outputs, self.given, self.values, tuple(slopes))

    def _pulled(self, flat: Sequence[Any], sizes: Sequence[int], row: Any) -> list[Any]:
        """The products of its gradient with a row, one vector for each value that it depends on."""
        pieces = np.split(row, list(accumulate(sizes))[:-1])
        pairs = zip(flat, pieces, strict=True)
        weights = [tf.constant(np.reshape(piece, one.shape), one.dtype) for one, piece in pairs]
        parts = self.tape.gradient(flat, list(self.given), output_gradients=weights)
        found = [dense(part, value) for part, value in zip(parts, self.values, strict=True)]
        pairs = zip(found, self.values, strict=True)
        return [
            np.ravel(np.zeros(value.shape) if one is None else np.asarray(one.numpy(), float)) for one, value in pairs
        ]


@dataclass(frozen=True)
class _Linear:
    """A linear function with the value and the gradient of a custom gradient at the given inputs.

    `given` are what it depends on, the positional arguments first, `values` their values there, and `slopes`, for each,
    those of the elements, or the Jacobian.
    """

    outputs: Any
    given: tuple[Any, ...]
    values: tuple[Any, ...]
    slopes: tuple[Any, ...]

    def __call__(self, args: Any) -> Any:
        given = _floating(args)
        flat = tf.nest.flatten(self.outputs)
        floating = [place for place, one in enumerate(flat) if one.dtype.is_floating]
        dtype = tf.convert_to_tensor(given[0]).dtype if given else flat[floating[0]].dtype
        found = {place: tf.cast(flat[place], dtype) for place in floating}
        for one, value, slope in zip((*given, *self.given[len(given) :]), self.values, self.slopes, strict=True):
            now = tf.convert_to_tensor(one)
            change = tf.cast(now - _like(value, now), dtype)
            slope = tf.cast(slope, dtype)
            if slope.shape == change.shape and found[floating[0]].shape == change.shape:
                moved = tf.reshape(slope * change, [-1])
            else:
                moved = tf.linalg.matvec(slope, tf.reshape(change, [-1]))
            pieces = tf.split(moved, [prod(flat[place].shape) for place in floating])
            for place, piece in zip(floating, pieces, strict=True):
                found[place] += tf.reshape(piece, flat[place].shape)
        return tf.nest.pack_sequence_as(self.outputs, [found.get(place, one) for place, one in enumerate(flat)])


def _floating(args: Any) -> list[Any]:
    """The tensors and variables among arguments that have a gradient."""
    flat = [one for one in tf.nest.flatten(args) if tf.is_tensor(one) or variable_of(one) is not None]
    return [one for one in flat if tf.as_dtype(one.dtype).is_floating or tf.as_dtype(one.dtype).is_complex]


def _close(one: Any, other: Any, scale: float) -> bool:
    return bool(np.all(np.abs(one - other) <= LINEAR * scale))
