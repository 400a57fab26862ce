"""The public function of TensorFlow or Keras in which an operation runs, as it is written in somebody's code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, ModuleType

import tensorflow as tf
from tensorflow.python.util import tf_decorator

from gradcheck.explanation.record import RecordedOperation

NOT_WALKED = {"compat", "raw_ops", "v1", "v2", "src"}
"""Modules with other names for the same functions."""


def called(operation: RecordedOperation) -> str:
    """What the code calls to run an operation, with the operation inside of it: `tf.math.log`, `tf.norm (Sqrt)`."""
    names = _names("keras" in sys.modules)
    public = next((names[code] for code in reversed(operation.codes) if code in names), None)
    if public is None or operation.inside:
        return operation.name
    same = public.split(".")[-1].replace("_", "") == operation.name.lower()
    return public if same else f"{public} ({operation.name})"


@lru_cache(maxsize=2)
def _names(keras_too: bool) -> Mapping[CodeType, str]:
    """The shortest names of the public functions, by their code."""
    found: dict[CodeType, str] = {}
    modules = {"tf": tf, **({"keras": sys.modules["keras"]} if keras_too else {})}
    for name, code in (pair for library, module in modules.items() for pair in _functions(library, module)):
        found[code] = min(found.get(code, name), name, key=lambda one: (len(one), one))
    return found


def _functions(name: str, module: ModuleType) -> Iterator[tuple[str, CodeType]]:
    for attribute, one in vars(module).items():
        if isinstance(one, ModuleType):
            inside = one.__name__.startswith(("tensorflow._api.", "keras."))
            if inside and attribute not in NOT_WALKED and not attribute.startswith("_"):
                yield from _functions(f"{name}.{attribute}", one)
        elif callable(one) and not isinstance(one, type) and not attribute.startswith("_"):
            code = getattr(inspect.unwrap(tf_decorator.unwrap(one)[1]), "__code__", None)
            if code is not None:
                yield f"{name}.{attribute}", code
