"""Changes of a step besides variables: Python's state, which is put back, and side effects, which are refused."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import io
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.tracing import hooks
from gradcheck.tracing.hooks import Wrapper, patched
from gradcheck.tracing.kernels import CHANGING_TABLES, WRITING_FILES
from gradcheck.tracing.user_code import file_owner
from gradcheck.training.optimizers import optimizer_methods

DEPTH = 4
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
CONTAINERS = (list, dict, set, bytearray, np.ndarray)
LIBRARIES = {"tensorflow", "keras", "tf_keras", "numpy"}
LARGEST = 100_000
"""A container with more items is compared by its identity only."""
PLAIN = (bool, int, float, complex, str, bytes, type(None), tuple, frozenset, np.generic)
STATE = (*PLAIN, *GENERATORS, *CONTAINERS, tf.Tensor, Iterator, io.IOBase)


TENSOR = " (a tensor of shape "
"""Follows the name of a tensor that the step changes."""
UNREADABLE = (tf.resource, tf.variant)
"""The dtypes of tensors without values."""


def _refill(value: Any, contents: Any) -> None:
    value.clear()
    value.update(contents)


KINDS: tuple[tuple[Any, Callable[[Any], Any], Callable[[Any, Any], Any]], ...] = (
    (random.Random, random.Random.getstate, random.Random.setstate),
    (np.random.Generator, lambda rng: rng.bit_generator.state, lambda rng, at: setattr(rng.bit_generator, "state", at)),
    (np.random.RandomState, lambda rng: rng.get_state(), lambda rng, at: rng.set_state(at)),
    (np.ndarray, np.copy, np.copyto),
    ((list, bytearray), lambda value: value.copy(), lambda value, kept: value.__setitem__(slice(None), kept)),
    ((dict, set), lambda value: value.copy(), _refill),
)
"""Types with state that changes in place, how to copy that state, and how to put it back."""


@dataclass(frozen=True)
class NamedValue:
    """A value with the step's name for it: the `entry` of a dictionary, or of a closure's cell, `home`."""

    name: str
    value: Any
    home: Any
    entry: str


def reachable(step: Any) -> dict[tuple[int, str], NamedValue]:
    """The values that a step reads by name: free variables, globals, attributes of its objects and of those they hold.

    The keys are (id of the home, entry).
    """
    found: dict[tuple[int, str], NamedValue] = {}
    seen: set[int] = set()
    queue = [(step, "", 0)]
    while queue:
        thing, prefix, depth = queue.pop(0)
        if id(thing) in seen or depth > DEPTH:
            continue
        seen.add(id(thing))
        for named in _names(thing, prefix):
            if isinstance(named.value, STATE):
                found.setdefault((id(named.home), named.entry), named)
            else:
                queue.append((named.value, named.name, depth + 1))
    return found


def _names(thing: Any, prefix: str) -> Iterator[NamedValue]:
    if isinstance(thing, functools.partial):
        yield from _names(thing.func, prefix)
    elif isinstance(thing, tf.types.experimental.PolymorphicFunction):
        yield from _names(thing.python_function, prefix)
    elif inspect.ismethod(thing):
        yield from _function_names(thing.__func__)
        yield from _attributes(thing.__self__, "self")
    elif inspect.isfunction(thing):
        yield from _function_names(thing)
    else:
        yield from _attributes(thing, prefix or type(thing).__name__)
        yield from _function_names(type(thing).__call__ if callable(thing) else None)


def _function_names(function: Any) -> Iterator[NamedValue]:
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) or file_owner(function.__code__.co_filename) != "user":
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell: the name is not bound yet
            yield NamedValue(name, cell.cell_contents, cell, "cell_contents")
    known = function.__globals__
    for name in filter(known.__contains__, _global_names(function.__code__)):
        yield NamedValue(name, known[name], known, name)


@functools.lru_cache(maxsize=1024)
def _global_names(code: Any) -> dict[str, None]:
    """The global names that a function and functions inside it look up."""
    names = [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "STORE_GLOBAL")]
    for constant in code.co_consts:
        names += _global_names(constant) if inspect.iscode(constant) else ()
    return dict.fromkeys(names)


def _attributes(thing: Any, prefix: str) -> Iterator[NamedValue]:
    """The attributes of an object of a user's own class, without those of a library; the layers of a model."""
    if isinstance(thing, type) or inspect.ismodule(thing) or not hasattr(thing, "__dict__"):
        return
    homes = {base: base.__module__.partition(".")[0] for base in type(thing).__mro__}
    if {"keras", "tf_keras"}.intersection(homes.values()) and hasattr(thing, "_flatten_layers"):
        for layer in thing._flatten_layers(include_self=False):
            yield NamedValue(f"{prefix}.{layer.name}", layer, None, layer.name)
    if homes[type(thing)] in LIBRARIES or set(homes.values()) <= {"typing", "abc", *sys.stdlib_module_names}:
        return
    inherited = [base for base, home in homes.items() if home in LIBRARIES]
    roots = [base for base in inherited if base.__name__ in ("Model", "Layer", "Module")]
    if inherited and not roots:
        return
    for name, value in list(vars(thing).items()):
        if not roots or name not in _library_names(roots[0]):
            yield NamedValue(f"{prefix}.{name}", value, vars(thing), name)


@functools.lru_cache(maxsize=16)
def _library_names(root: Any) -> frozenset[str]:
    """The attributes that the libraries' own models, layers or modules have."""
    return frozenset(vars(root(name="any")))  # named, since Keras counts the names that it generates


class PythonState:
    """The current named state of a step; only of its random generators if requested."""

    def __init__(self, step: Any, *, generators_only: bool = False) -> None:
        self._step = step
        self._kept = {
            key: (named, _contents(named.value))
            for key, named in reachable(step).items()
            if not generators_only or isinstance(named.value, GENERATORS)
        }

    def changes(self) -> dict[str, str]:
        """The changes since then by their names, such as {"count": "count (was 1, is 2)"}."""
        now = {key: _contents(named.value) for key, named in reachable(self._step).items()}
        kept = [(named.name, before, now.get(key)) for key, (named, before) in self._kept.items()]
        return {name: f"{name}{_difference(before, after)}" for name, before, after in kept if not _same(before, after)}

    def restore(self, only: str | None = None) -> None:
        """Rebind the names to their earlier objects, and restore the contents of those; `only` one name if given.

        What a first call built for later ones (variables, layers, functions) is kept.
        """
        now = reachable(self._step)
        for key, (named, contents) in self._kept.items():
            if only is not None and named.name != only:
                continue
            if key in now and now[key].value is not named.value:
                if isinstance(named.home, dict):
                    named.home[named.entry] = named.value
                else:
                    setattr(named.home, named.entry, named.value)
            if not _same(_contents(named.value), contents) and not _holds_objects(named.value):
                next(put for kind, _, put in KINDS if isinstance(named.value, kind))(named.value, contents)


def _holds_objects(value: Any) -> bool:
    """Whether a container holds anything that is no state: a layer, a variable, a function."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, set)) else ()
    return any(not (isinstance(item, STATE) or tf.is_tensor(item)) for item in items)


def _contents(value: Any) -> Any:
    """A copy that shows changes; None for an iterator or file, which cannot be inspected."""
    if isinstance(value, (Iterator, io.IOBase)):
        return None
    if isinstance(value, CONTAINERS) and (value.size if isinstance(value, np.ndarray) else len(value)) > LARGEST:
        return value
    return next((get(value) for kind, get, _ in KINDS if isinstance(value, kind)), value)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tf.Tensor):
        eager = hasattr(one, "numpy") and hasattr(other, "numpy")
        return eager and one.dtype not in UNREADABLE and _same(one.numpy(), other.numpy())
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        one, other = list(one.items()), list(other.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, (*PLAIN, set, bytearray)):
        return bool(one == other or (one != one and other != other))
    return False


def _difference(before: Any, after: Any) -> str:
    if isinstance(after, tf.Tensor):
        return f"{TENSOR}{tuple(after.shape)})"
    numbers = (bool, int, float, str)
    if isinstance(before, numbers) and isinstance(after, numbers):
        return f" (was {before!r}, is {after!r})"
    if isinstance(before, (list, dict, set)) and isinstance(after, type(before)) and len(before) != len(after):
        return f" (held {len(before)} items, holds {len(after)})"
    return ""


class UnrepeatableStepError(ValueError):
    """The step does something that cannot be undone, or differs from run to run."""


def refuse_iterators(step: Any, inputs: Sequence[Any]) -> None:
    """Raise UnrepeatableStepError for iterators and files among the inputs, or that the step reads by name."""
    found = [(f"inputs[{position}]", value) for position, value in enumerate(inputs)]
    for name, value in found + [(named.name, named.value) for named in reachable(step).values()]:
        if isinstance(value, io.IOBase):
            if value not in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                raise UnrepeatableStepError(
                    f"the step uses the open file {name}, whose position cannot be put back; "
                    "read it before the step, or write to it after it, and check a step that does neither"
                )
        elif isinstance(value, Iterator):
            raise UnrepeatableStepError(
                f"the step reads from {name}, an iterator ({type(value).__name__}), which cannot be put back; "
                "take one batch first and pass it: assert_step(step, next(iterator))"
            )


class SideEffectGuard:
    """Stops a step before it reads iterators or queues, writes files or tables, or calls optimizers in replicas.

    Iterators that the step makes itself are allowed.
    """

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._error: UnrepeatableStepError | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Guard a run of a step. Raises UnrepeatableStepError, even if the step itself caught it."""
        self._own.clear()
        patches: list[tuple[Any, str, Wrapper]] = [(*hooks.ITERATOR_MADE, self._make)]
        patches += [(*hook, self._take) for hook in hooks.ITERATOR_READS]
        patches += [(*hook, self._dequeue) for hook in hooks.QUEUE_CALLS]
        patches += [(module, "open", self._open) for module in (builtins, io)]
        patches += [(*hooks.FAST_EXECUTION, self._execute)]
        patches += [(*hooks.GRAPH_OPERATION, self._add_operation)]
        patches += [(*hooks.FILE_WRITE, self._write), (*hooks.RECORD_WRITE, self._write_records)]
        patches += [(owner, method, self._optimize) for owner, method in optimizer_methods()]
        if (h5py := sys.modules.get("h5py")) is not None:  # Keras saves weights with it
            patches.append((h5py.File, "__init__", self._open_hdf5))
        try:
            with patched(*patches):
                yield
        finally:
            if self._error is not None:
                raise self._error from None

    def _make(self, original: Any, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        self._own.add(id(iterator))
        return original(iterator, *args, **kwargs)

    def _take(self, original: Any, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        if id(iterator) not in self._own:
            raise self.refuse(
                f"the step reads from a dataset's iterator (of {iterator.element_spec}), which cannot be put back; "
                "take one batch first and pass it: assert_step(step, next(iterator))"
            )
        return original(iterator, *args, **kwargs)

    def _dequeue(self, original: Any, queue: Any, *args: Any, **kwargs: Any) -> Any:
        raise self.refuse(
            f"the step uses a queue ({type(queue).__name__}), which cannot be put back; "
            "dequeue the elements first and pass them to the step"
        )

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        # tf.function writes its generated code to temporary files.
        caller = sys._getframe(2).f_globals.get("__name__", "").partition(".")[0]
        if set(mode) & set("wax+") and caller not in ("tempfile", "tensorflow"):
            raise self.refuse(
                f"the step opens {file!r} for writing, which cannot be put back; write it after the step, outside of it"
            )
        return original(file, mode, *args, **kwargs)

    def _execute(self, original: Any, running: Any, operation: str, *args: Any, **kwargs: Any) -> Any:
        self._refuse_lasting(operation)
        return original(running, operation, *args, **kwargs)

    def _add_operation(self, original: Any, operation: str, *args: Any, **kwargs: Any) -> Any:
        self._refuse_lasting(operation)
        return original(operation, *args, **kwargs)

    def _refuse_lasting(self, operation: str) -> None:
        if operation in WRITING_FILES:
            raise self.refuse(
                f"the step runs {operation}, which writes files, and that cannot be put back; write them (save the "
                "checkpoint) after the step, outside of it"
            )
        if operation in CHANGING_TABLES:
            raise self.refuse(
                f"the step runs {operation}, which changes a lookup table, and that cannot be put back; change the "
                "table before the step or after it, or keep what it holds in a tf.Variable"
            )

    def _optimize(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = tf.distribute.get_strategy()
        inside = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        if inside and not isinstance(strategy, tf.distribute.OneDeviceStrategy):
            raise self.refuse(
                f"the step calls {type(optimizer).__name__} inside of {type(strategy).__name__}.run, where each "
                "replica has its own copies of the variables and its own gradients; check what one replica runs, with "
                "a model that was made outside of the strategy, or let the step return (loss, gradients), both summed "
                "by strategy.reduce, without an optimizer"
            )
        return original(optimizer, *args, **kwargs)

    def _write(self, original: Any, file: Any) -> None:
        raise self.refuse(
            f"the step writes {file.name!r}, which cannot be put back; write it after the step, outside of it"
        )

    def _open_hdf5(self, original: Any, file: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode != "r" and isinstance(name, (str, os.PathLike)):
            raise self.refuse(
                f"the step opens {str(name)!r} for writing, which cannot be put back; write it after the step, outside "
                "of it"
            )
        return original(file, name, mode, *args, **kwargs)

    def _write_records(self, original: Any, writer: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        raise self.refuse(
            f"the step writes records to {path!r}, which cannot be put back; write them after the step, outside of it"
        )

    def refuse(self, message: str) -> UnrepeatableStepError:
        """Return an error to raise at once; it is raised again at the end of the run."""
        self._error = UnrepeatableStepError(message)
        return self._error
