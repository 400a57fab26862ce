"""Stand-ins for the tf.functions that a step calls, so that the functions themselves are left alone.

What we watch is Python code, which a traced function does not run any more. A stand-in of the same Python function is
traced while we watch, once for a check. It runs without XLA, which cannot call back.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

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
