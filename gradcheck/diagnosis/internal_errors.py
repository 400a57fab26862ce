"""The boundary around a search for a cause: an internal error, or a time limit, costs the cause, never the verdict."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from gradcheck.progress import TimeUpError, time_limit
from gradcheck.verdict.summary import more_time

NOT_FOUND = "the cause was not found: internal error "
NOT_REACHED = "the cause was not looked for to the end: "
OWN = Path(__file__).resolve().parents[1]

raised = False
"""Whether internal errors are raised, as they are in our own tests."""

_told: ContextVar[list[str] | None] = ContextVar("_told", default=None)


@contextmanager
def internal_errors_told() -> Iterator[list[str]]:
    """Collect notes on the internal errors in the block, each once; the list fills as they occur."""
    notes: list[str] = []
    token = _told.set(notes)
    try:
        yield notes
    finally:
        _told.reset(token)


@contextmanager
def cause_searched() -> Iterator[None]:
    """End the block, a search for a cause, at an exception in it, which is noted, or at the check's time limit.

    A function that is decorated with it returns None then.

    Exceptions of the user's code, or of TensorFlow, have to be caught inside, where the search calls it.
    """
    try:
        yield
    except TimeUpError:
        if (limit := time_limit()) is None:
            raise
        _tell(f"{NOT_REACHED}seconds={limit:g} were over; {more_time(limit)}")
    except Exception as error:  # ours
        if raised:
            raise
        _tell(note_on(error))


def _tell(note: str) -> None:
    notes = _told.get()
    if notes is not None and note not in notes:
        notes.append(note)


def note_on(error: Exception) -> str:
    """The note on an internal error: its type, its message and the innermost line of gradcheck."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(OWN)] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "an unknown line"
    message = " ".join(str(error).split())
    return f"{NOT_FOUND}{type(error).__name__}{f': {message}' if message else ''} at {place}, please report"
