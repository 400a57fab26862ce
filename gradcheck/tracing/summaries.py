"""Keep code that runs repeatedly from writing summaries, the points in TensorBoard's logs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from gradcheck.tracing.hooks import GRAPH_CALL, SUMMARY_DECISION, SUMMARY_EVENT, Wrapper, patched

NOT_TRACED: tuple[Any, str, Wrapper] = (*SUMMARY_DECISION, lambda original, default_state: False)
"""A patch for tracing a function that nobody else uses: it never records summaries."""


class _Silence:
    """Replaces the writing of summaries inside one block."""

    active = False

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._writer: Any = None

    def record(self, original: Any, default_state: bool) -> Any:
        """Return whether to record: not in eager code. A function that is being traced may be run by others later."""
        return original(default_state) if tf.inside_function() else False

    def call(self, original: Any, function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        """Call a function with other writers in place of those that its graph holds."""
        return original(function, self._without_writers(tensor_inputs), self._without_writers(captured_inputs))

    def _without_writers(self, tensors: Sequence[Any]) -> Sequence[Any]:
        if not any(map(_is_writer, tensors)):
            return tensors
        return type(tensors)(self._silent() if _is_writer(tensor) else tensor for tensor in tensors)  # type: ignore[call-arg]

    def _silent(self) -> Any:
        if self._writer is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory())
            with tf.init_scope():
                self._writer = tf.summary.create_file_writer(folder)
            self._stack.callback(self._writer.close)
        return self._writer._resource


@contextmanager
def summaries_left_out() -> Iterator[None]:
    """Keep everything inside the block from writing summaries to a log.

    A graph holds its writer, and may have been traced before: it gets a writer whose folder is removed after the block.
    """
    if _Silence.active:
        yield
        return
    with ExitStack() as stack:
        silence = _Silence(stack)
        stack.callback(setattr, _Silence, "active", False)
        _Silence.active = True
        patches: list[tuple[Any, str, Wrapper]] = [(*SUMMARY_DECISION, silence.record)]
        patches += [(*GRAPH_CALL, silence.call), (*SUMMARY_EVENT, _leave_out)]
        with patched(*patches):
            yield


def _leave_out(original: Any, writer: Any, event: Any) -> None:
    pass


def _is_writer(tensor: Any) -> bool:
    """Whether a tensor is the handle of a summary writer, recognisable only by its repr."""
    if not isinstance(tensor, ops.EagerTensor) or tensor.dtype != tf.resource:
        return False
    data = getattr(tensor, "_handle_data", None)
    return not (data is not None and data.is_set) and "SummaryWriterInterface" in repr(tensor)
