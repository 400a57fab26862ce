"""The public surface of TensorFlow and Keras: which callables the catalogue reaches, and why it lacks the others.

The table beside this file has one row a callable that no operation of the catalogue names, of TensorFlow 2.18 to 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.printed_calls import texts_of


@dataclass(frozen=True)
class Namespace:
    """A module whose public callables are walked, and whether its classes are among them."""

    name: str
    classes: bool = False


OF_TENSORFLOW = (
    Namespace("tf.nn"),
    Namespace("tf.nn.experimental"),
    Namespace("tf.math"),
    Namespace("tf.math.special"),
    Namespace("tf.linalg", classes=True),
    Namespace("tf.linalg.experimental"),
    Namespace("tf.image"),
    Namespace("tf.signal"),
    Namespace("tf.sparse"),
    Namespace("tf.ragged"),
    Namespace("tf.quantization"),
    Namespace("tf.random"),
    Namespace("tf.random.experimental"),
    Namespace("tf"),
    Namespace("tf.keras.ops"),
    Namespace("tf.keras.ops.image"),
    Namespace("tf.keras.ops.linalg"),
    Namespace("tf.keras.ops.nn"),
    Namespace("tf.keras.ops.numpy"),
    Namespace("tf.keras.activations"),
    Namespace("tf.keras.losses", classes=True),
    Namespace("tf.keras.layers", classes=True),
    Namespace("tf.keras.metrics", classes=True),
    Namespace("tf.keras.quantizers", classes=True),
    Namespace("tf.keras.random"),
    Namespace("tf.keras.regularizers", classes=True),
    Namespace("tf.keras"),
    Namespace("tf.experimental.numpy"),
    Namespace("tf.experimental.numpy.random"),
    Namespace("tf.dtypes"),
)
OF_KERAS = tuple(
    Namespace(space.name.removeprefix("tf."), space.classes)
    for space in OF_TENSORFLOW
    if space.name.startswith("tf.keras")
)
"""Keras itself, which may have names that TensorFlow's does not pass on."""
NAMESPACES = OF_TENSORFLOW + OF_KERAS
"""A function that has several names is known by that in the first of these."""

NOT_WALKED = {
    name: why
    for why, names in {
        "integers, text, bytes or tables of these": (
            *("tf.audio", "tf.bitwise", "tf.io", "tf.lookup", "tf.sets", "tf.strings"),
        ),
        "how a program is traced, placed, compiled, saved, watched or tested, its types and errors": (
            *("tf.autodiff", "tf.autograph", "tf.compat", "tf.config", "tf.debugging", "tf.distribute", "tf.dtensor"),
            *("tf.errors", "tf.experimental", "tf.graph_util", "tf.lite", "tf.mlir", "tf.nest", "tf.profiler"),
            *("tf.queue", "tf.saved_model", "tf.security", "tf.summary", "tf.sysconfig", "tf.test", "tf.tools"),
            *("tf.tpu", "tf.train", "tf.types", "tf.version", "tf.xla"),
            *("tf.experimental.dlpack", "tf.experimental.dtensor", "tf.experimental.extension_type"),
            *("tf.experimental.tensorrt", "tf.keras.callbacks", "tf.keras.config", "tf.keras.distribution"),
            *("tf.keras.dtype_policies", "tf.keras.export", "tf.keras.mixed_precision", "tf.keras.tree"),
            *("tf.dtypes.experimental", "tf.quantization.experimental", "tf.keras.visualization"),
        ),
        "where data come from": ("tf.data", "tf.feature_column", "tf.keras.datasets", "tf.keras.preprocessing"),
        "the kernels by themselves, whose gradients the census counts": ("tf.raw_ops",),
        "another name of a module of tf.keras": ("tf.initializers", "tf.losses", "tf.metrics", "tf.optimizers"),
        "whole models": ("tf.keras.applications", "tf.keras.distillation", "tf.keras.models", "tf.keras.wrappers"),
        "the first values of variables, or what becomes of them after a step, outside of a derivative": (
            *("tf.keras.constraints", "tf.keras.initializers", "tf.keras.optimizers"),
        ),
        "of Keras 2, deprecated": ("tf.keras.backend", "tf.keras.legacy"),
        "files, models, arrays of NumPy, and boxes of images, which are not written yet": ("tf.keras.utils",),
        "files of models, and everything once more": ("keras.saving", "keras.src"),
    }.items()
    for name in names
}
"""The public modules beside and below those that are walked, and why they are not."""

NAME = re.compile(r"\btf(?:\.\w+)+")


class Why(str, Enum):
    """Why no operation of the catalogue names a callable."""

    NOT_DIFFERENTIABLE = "not_differentiable"
    NO_GRADIENT = "no_gradient"
    ANOTHER_FORM = "another_form"
    LEFT_OUT = "left_out"
    NOT_WRITTEN = "not_written"


@dataclass(frozen=True)
class SurfaceRow:
    """A row: the callable, why no operation names it, the reason, and an expression that shows it, or nothing.

    Of another form the reason is the operation that it is a form of, and behind commas what else it is made of. The
    expression is one of `tf`, `np`, `keras` and the tensors `vector`, `matrix` and `image`.
    """

    name: str
    why: Why
    note: str
    proof: str

    @property
    def operations(self) -> tuple[str, ...]:
        """Of another form, the operations that it is made of, the first that which it is a form of."""
        return tuple(self.note.split(", "))


@dataclass(frozen=True)
class Walk:
    """The public callables by their first name, the other names of each, and the classes that are not asked for."""

    names: Mapping[str, Any]
    aliases: Mapping[str, str]
    classes: tuple[str, ...]


@cache
def lines() -> Mapping[str, SurfaceRow]:
    """The rows by callable.

    >>> lines()["tf.shape"].why.value
    'not_differentiable'
    """
    rows = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {row[0]: SurfaceRow(row[0], Why(row[1]), row[2], row[3]) for row in (line.split("\t") for line in rows)}


def resolved(name: str) -> Any:
    """The object of a dotted name that begins with `tf` or `keras`; AttributeError where the release has none."""
    root, *parts = name.split(".")
    value: Any = import_module({"tf": "tensorflow"}.get(root, root))
    for part in parts:
        value = getattr(value, part)
    return value


def met(namespaces: Iterable[Namespace] = NAMESPACES) -> set[str]:
    """The public modules that stand in one that is walked, or on the way to one; Keras' own where TensorFlow has none.

    >>> "tf.keras.ops.image" in met()
    True
    """
    paths = [space.name.split(".") for space in namespaces]
    ways = {".".join(path[:length]) for path in paths for length in range(1, 1 + len(path))}
    found = {
        f"{way}.{name}"
        for way in ways
        for name in dir(resolved(way))
        if not name.startswith("_") and isinstance(getattr(resolved(way), name), ModuleType)
    }
    return {name for name in found if f"tf.{name}" not in found}


@cache
def walk() -> Walk:
    """The public callables of the namespaces in the installed release."""
    return walked()


def walked() -> Walk:
    """The public callables of the namespaces as they are now."""
    names: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    classes: list[str] = []
    first: dict[int, str] = {}
    for space in NAMESPACES:
        module = resolved(space.name)
        for attribute in sorted(one for one in dir(module) if not one.startswith("_")):
            name, value = f"{space.name}.{attribute}", getattr(module, attribute)
            if isinstance(value, ModuleType) or not callable(value):
                continue
            if isinstance(value, type) and not space.classes:
                classes.append(name)
            elif id(value) in first:
                aliases[name] = first[id(value)]
            else:
                first[id(value)] = name
                names[name] = value
    return Walk(names, aliases, tuple(classes))


@cache
def covered() -> Mapping[str, tuple[str, ...]]:
    """The callables that the catalogue names, each with the operations whose functions name it."""
    operations: dict[int, dict[str, None]] = {}
    for spec in CATALOGUE.values():
        for text in texts_of(spec.source):
            for name in NAME.findall(text):
                for value in _along(name):
                    operations.setdefault(id(value), {})[spec.name] = None
    return {name: tuple(operations[id(value)]) for name, value in walk().names.items() if id(value) in operations}


def _along(name: str) -> Iterator[Any]:
    """What the name stands for, part by part, as far as the release has it."""
    value: Any = import_module("tensorflow")
    for part in name.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            return
        if callable(value):
            yield value
