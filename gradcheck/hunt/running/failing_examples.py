"""The examples of a Hypothesis database that failed, by themselves."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis.database import ExampleDatabase

SEARCHED = b".pareto"
"""The end of the keys under which Hypothesis keeps examples that passed, from which it searches for larger targets."""


class FailingExamples(ExampleDatabase):
    """A database without the examples that passed.

    A test that may draw no new examples would try as many of them as a profile has examples. There is no setting for
    it; where the name of the key is another, a test says so.
    """

    def __init__(self, kept: ExampleDatabase) -> None:
        super().__init__()
        self._kept = kept

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return () if key.endswith(SEARCHED) else self._kept.fetch(key)

    def save(self, key: bytes, value: bytes) -> None:
        self._kept.save(key, value)

    def delete(self, key: bytes, value: bytes) -> None:
        self._kept.delete(key, value)

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        self._kept.move(src, dest, value)
