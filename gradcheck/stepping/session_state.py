"""The variables of a TensorFlow 1 session: their values, how to load others, and those from the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.session import BaseSession

Array = np.ndarray[Any, Any]


def session_of(session: Any) -> Any:
    """The session given, or else the default one where somebody builds graphs; None for eager code.

    Raises ValueError where a graph is being built and there is no session, TypeError for what is no session.
    """
    if session is None and not tf.executing_eagerly():
        session = tf.compat.v1.get_default_session()
        if session is None:
            raise ValueError(
                "a graph is being built, and there is no session to run the step in; "
                "give session=, or call assert_step inside of `with tf.compat.v1.Session() as session:`"
            )
    if session is not None and not isinstance(session, BaseSession):
        raise TypeError(f"session is of type {type(session).__name__}; a tf.compat.v1.Session was expected")
    return session


class SessionState:
    """All variables of a session's graph that have values; places count them."""

    def __init__(self, session: Any) -> None:
        self.session = session
        with session.graph.as_default():
            known = (*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables())
            self._trainable = list(tf.compat.v1.trainable_variables())
        distinct = list({id(variable): variable for variable in known}.values())
        values = [self._read(variable) for variable in distinct]
        self.variables = [variable for variable, value in zip(distinct, values, strict=True) if value is not None]
        self.kept = [value for value in values if value is not None]
        self._now: list[Array | None] = list(self.kept)
        self._loads = [self._loading(places) for places in _batches(self.variables)]

    def places(self, variables: Any) -> list[int]:
        """Where the variables given, or the trainable ones, stand. Raises ValueError for those without a value."""
        given = self._trainable if variables is None else tf.nest.flatten(variables)
        known = {id(variable): place for place, variable in enumerate(self.variables)}
        for variable in given:
            if id(variable) not in known:
                raise ValueError(
                    f"{getattr(variable, 'name', type(variable).__name__)} has no value in the session; give variables "
                    "of its graph, and run tf.compat.v1.global_variables_initializer() before"
                )
        return [known[id(variable)] for variable in given]

    def load(self, changed: Mapping[int, Array]) -> None:
        """Give the variables at these places these values, and all others those from the beginning."""
        wanted = [changed.get(place, value) for place, value in enumerate(self.kept)]
        for places, run in self._loads:
            if not all(_is(self._now[place], wanted[place]) for place in places):
                run(*(wanted[place] for place in places))
        self._now = list(wanted)

    def values(self, places: Sequence[int]) -> tuple[Array, ...]:
        """The values at these places now."""
        if all(self._now[place] is not None for place in places):
            return tuple(np.array(self._now[place]) for place in places)
        return tuple(np.asarray(value) for value in self.session.run([self.variables[place] for place in places]))

    def written(self) -> None:
        """Somebody may have changed any variable."""
        self._now = [None] * len(self.kept)

    def _read(self, variable: Any) -> Array | None:
        try:
            return np.asarray(self.session.run(variable))
        except tf.errors.FailedPreconditionError:  # nobody has initialized it
            return None

    def _loading(self, places: Sequence[int]) -> tuple[Sequence[int], Any]:
        operations = [self.variables[place].initializer for place in places]
        return places, self.session.make_callable(operations, [operation.inputs[1] for operation in operations])


def _batches(variables: Sequence[Any]) -> list[list[int]]:
    """The places in as few groups as can be, no two of a group with the same initial value: it is what is fed."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, variable in enumerate(variables):
        name = variable.initializer.inputs[1].name
        group = next((group for group in groups if name not in group[0]), None)
        if group is None:
            groups.append(group := (set(), []))
        group[0].add(name)
        group[1].append(place)
    return [places for _, places in groups]


def _is(one: Array | None, other: Array) -> bool:
    return one is other or (one is not None and one.shape == other.shape and one.tobytes() == other.tobytes())
