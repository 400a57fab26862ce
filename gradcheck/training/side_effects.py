"""Side effects of a step that cannot be undone, and are refused: taking from iterators and queues, writing files."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.ops.data_flow_ops import QueueBase

from gradcheck.explanation.interception import Wrapper, patched
from gradcheck.training.python_state import reachable

TAKING = ("_next_internal", "get_next_as_optional")
DEQUEUING = ("dequeue", "dequeue_many", "dequeue_up_to", "enqueue", "enqueue_many")


class UnrepeatableStepError(ValueError):
    """The step does something that cannot be undone, or differs from run to run."""


def refuse_iterators(step: Any, inputs: Sequence[Any]) -> None:
    """Raise UnrepeatableStepError for iterators and files among the inputs, or that the step knows by a name."""
    found = [(f"inputs[{position}]", value) for position, value in enumerate(inputs)]
    for name, value in found + [(named.name, named.value) for named in reachable(step)]:
        if isinstance(value, io.IOBase):
            if value not in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                raise UnrepeatableStepError(
                    f"the step uses the open file {name}, whose position cannot be put back; "
                    "read it before, or write to it after, and check a step that does neither"
                )
        elif isinstance(value, Iterator):
            raise UnrepeatableStepError(
                f"the step takes from {name}, an iterator ({type(value).__name__}), which cannot be put back; "
                "take one batch before and hand it over: assert_step(step, next(iterator))"
            )


class SideEffectGuard:
    """Stops a step before it takes from iterators and queues, or writes files; iterators that it makes are its own."""

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._error: UnrepeatableStepError | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Guard a run of a step. Raises UnrepeatableStepError, also where the step itself caught it."""
        self._own.clear()
        patches: list[tuple[Any, str, Wrapper]] = [(OwnedIterator, "__init__", self._make)]
        patches += [(OwnedIterator, name, self._take) for name in TAKING]
        patches += [(QueueBase, name, self._dequeue) for name in DEQUEUING]
        patches += [(module, "open", self._open) for module in (builtins, io)]
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
                f"the step takes from a dataset's iterator (of {iterator.element_spec}), which cannot be put back; "
                "take one batch before and hand it over: assert_step(step, next(iterator))"
            )
        return original(iterator, *args, **kwargs)

    def _dequeue(self, original: Any, queue: Any, *args: Any, **kwargs: Any) -> Any:
        raise self.refuse(
            f"the step uses a queue ({type(queue).__name__}), which cannot be put back; "
            "take from it before and hand the elements to the step"
        )

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        # tf.function writes the code that it generates to temporary files.
        caller = sys._getframe(2).f_globals.get("__name__", "").partition(".")[0]
        if set(mode) & set("wax+") and caller not in ("tempfile", "tensorflow"):
            raise self.refuse(
                f"the step opens {file!r} for writing, which cannot be put back; write it after the step, outside of it"
            )
        return original(file, mode, *args, **kwargs)

    def refuse(self, message: str) -> UnrepeatableStepError:
        """An error to raise at once, which is raised again at the end of the run."""
        self._error = UnrepeatableStepError(message)
        return self._error
