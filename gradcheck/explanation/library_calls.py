"""Which calls of public functions are under way, seen in the frames of Python's stack, and with which parameters."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import tensorflow as tf

from gradcheck.defects.library_functions import LibraryCall, LibraryForm, library_forms
from gradcheck.explanation.record import key
from gradcheck.explanation.user_code import frames_of


class LibraryCalls:
    """The calls of a run, by the frames in which they run, which are kept so that no other takes their place."""

    def __init__(self) -> None:
        self._known: dict[FrameType, LibraryCall] = {}

    def innermost(self) -> LibraryCall | None:
        """The call under way that was begun last; variables are read, so that nothing should be observed."""
        forms, call = library_forms("keras" in sys.modules), None
        for frame in reversed(frames_of(forms)):
            if frame not in self._known:
                self._known[frame] = _call(forms[id(frame.f_code)], frame.f_locals, call)
            call = self._known[frame]
        return call


def _call(forms: tuple[LibraryForm, ...], variables: Mapping[str, Any], outer: LibraryCall | None) -> LibraryCall:
    names = {name for form in forms for name in (*form.parameters, *form.sources)}
    given = {name: variables.get(name) for name in names}
    keys = {name: frozenset(map(key, filter(_is_tensor, _parts(one)))) for name, one in given.items()}
    read = {name: _held(one) for name, one in given.items()}
    return LibraryCall(forms, read, keys, outer)


def _held(given: Any) -> Any:
    """A variable as the array that it holds now; an argument that is none as it is."""
    return given.numpy() if hasattr(given, "handle") and hasattr(given, "numpy") else given


def _parts(given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given]


def _is_tensor(one: Any) -> bool:
    return bool(tf.is_tensor(one) or hasattr(one, "handle"))
