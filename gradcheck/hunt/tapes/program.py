"""Small programs around GradientTapes as immutable data: what is computed, watched, recorded and asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

KEYS = ("a", "b", "c", "d")
"""The keys of the dicts in which several tensors are handed over."""


@dataclass(frozen=True)
class Literal:
    """A tensor of float64 numbers, in row-major order."""

    shape: tuple[int, ...]
    values: tuple[float, ...]

    def array(self) -> np.ndarray[Any, Any]:
        """The numbers as a float64 array."""
        return np.array(self.values, dtype=np.float64).reshape(self.shape)


@dataclass(frozen=True)
class Constant:
    """`name = tf.constant(...)`"""

    name: str
    literal: Literal


@dataclass(frozen=True)
class Variable:
    """`name = tf.Variable(...)`; in a traced program it is made before the function."""

    name: str
    literal: Literal
    trainable: bool = True


@dataclass(frozen=True)
class Apply:
    """`name = operation(arguments)`; the name of a variable then stands for a tensor (D12)."""

    name: str
    operation: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Assign:
    """`variable.assign(value)` or `variable.assign_add(value)`."""

    variable: str
    method: str
    value: str


@dataclass(frozen=True)
class Watch:
    """`tape.watch(name)`"""

    tape: str
    name: str


@dataclass(frozen=True)
class Tape:
    """`tf.GradientTape(persistent=..., watch_accessed_variables=...) as name`"""

    name: str
    persistent: bool = False
    accessed: bool = True


@dataclass(frozen=True)
class Open:
    """`with` new tapes, several of them siblings."""

    tapes: tuple[Tape, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Resume:
    """`with tape:` once more."""

    tape: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Stop:
    """`with tape.stop_recording():`"""

    tape: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Reset:
    """`tape.reset()`"""

    tape: str


@dataclass(frozen=True)
class Structure:
    """Names handed over as `one`, as a `list` or as a `dict`."""

    form: str
    names: tuple[str, ...]

    def paths(self, name: str) -> tuple[str, ...]:
        """What the parts of a result of this structure are called: g, or g[0] and g[1], or g['a'] and g['b']."""
        if self.form == "one":
            return (name,)
        keys = [repr(key) for key in KEYS] if self.form == "dict" else [str(i) for i in range(len(self.names))]
        return tuple(f"{name}[{key}]" for key, _ in zip(keys, self.names, strict=False))


@dataclass(frozen=True)
class Derive:
    """`name = tape.method(targets, sources)`; `zeros` asks for zeros where a source is not connected."""

    name: str
    tape: str
    method: str
    targets: Structure
    sources: Structure
    zeros: bool = False


@dataclass(frozen=True)
class Branch:
    """Python's `if` on whether the elements of a tensor add up to more than `threshold`, `tf.cond` where traced.

    Both branches bind `name` last, to tensors of one shape.
    """

    name: str
    condition: str
    threshold: float
    then: tuple[Apply, ...]
    otherwise: tuple[Apply, ...]


@dataclass(frozen=True)
class Loop:
    """`for _ in range(count):`"""

    count: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Call:
    """`names = function(arguments)`, a tf.function of its own, whose body binds `names`; it captures variables."""

    function: str
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    body: tuple[Apply, ...]


Statement: TypeAlias = (
    "Apply | Assign | Watch | Open | Resume | Stop | Reset | Derive | Branch | Loop | Call | Constant"
)


@dataclass(frozen=True)
class Program:
    """Variables, and statements about them; `traced` puts the statements into a tf.function."""

    variables: tuple[Variable, ...]
    body: tuple[Statement, ...]
    traced: bool = False

    def statements(self) -> Iterator[Statement]:
        """All statements, those of inner blocks after the block's own."""
        return _walk(self.body)

    @property
    def size(self) -> int:
        """How many statements there are."""
        return sum(1 for _ in self.statements())


def _walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, (Open, Resume, Stop, Loop, Call)):
            yield from _walk(statement.body)
        elif isinstance(statement, Branch):
            yield from _walk(statement.then + statement.otherwise)
