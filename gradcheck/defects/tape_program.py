"""Small programs around GradientTapes as immutable data: what is computed, watched, recorded and asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeAlias
from typing import Literal as Choice

import numpy as np
from msgspec import Meta

from gradcheck.defects.graph_document import check_values
from gradcheck.documents import Description, Document, DocumentError, Identifier, Text

MAX_STATEMENTS = 64
MAX_TAPES = 8
MAX_RUNS = 256
MAX_ELEMENTS = 16
MAX_RANK = 2
Assignment = Choice["assign", "assign_add"]
Method = Choice["gradient", "jacobian", "batch_jacobian"]
Form = Choice["one", "list", "dict"]
KEYS = ("a", "b", "c", "d")
"""The keys of the dicts in which several tensors are passed."""


class Literal(Document, frozen=True):
    """A small tensor of float64 numbers, in row-major order."""

    shape: tuple[Annotated[int, Meta(ge=0)], ...]
    values: tuple[float, ...]
    dtype: Choice["float64"] = "float64"

    def __post_init__(self) -> None:
        check_values(self.dtype, self.shape, self.values)
        if len(self.shape) > MAX_RANK or len(self.values) > MAX_ELEMENTS:
            expected = f"at most {MAX_ELEMENTS} elements, rank {MAX_RANK}"
            raise DocumentError("$", Description(f"shape {self.shape}"), expected)

    def array(self) -> np.ndarray[Any, Any]:
        """The numbers as a float64 array."""
        return np.array(self.values, dtype=np.float64).reshape(self.shape)


class Step(Document, frozen=True, tag_field="statement"):
    """One step of a program."""


class Constant(Step, frozen=True, tag="constant"):
    """`name = tf.constant(...)`"""

    name: Identifier
    literal: Literal


class Variable(Document, frozen=True):
    """`name = tf.Variable(...)`; in a traced program it is made before the function."""

    name: Identifier
    literal: Literal
    trainable: bool = True


class Apply(Step, frozen=True, tag="apply"):
    """`name = operation(arguments)`; the name of a variable then stands for a tensor."""

    name: Identifier
    operation: Text
    arguments: tuple[str, ...]


class Assign(Step, frozen=True, tag="assign"):
    """`variable.assign(value)` or `variable.assign_add(value)`."""

    variable: str
    method: Assignment
    value: str


class Watch(Step, frozen=True, tag="watch"):
    """`tape.watch(name)`"""

    tape: str
    name: str


class Tape(Document, frozen=True):
    """`tf.GradientTape(persistent=..., watch_accessed_variables=...) as name`"""

    name: Identifier
    persistent: bool = False
    accessed: bool = True


class Open(Step, frozen=True, tag="open"):
    """`with` new tapes, several of them siblings."""

    tapes: Annotated[tuple[Tape, ...], Meta(max_length=MAX_TAPES)]
    body: Block


class Resume(Step, frozen=True, tag="resume"):
    """`with tape:` once more."""

    tape: str
    body: Block


class Stop(Step, frozen=True, tag="stop"):
    """`with tape.stop_recording():`"""

    tape: str
    body: Block


class Reset(Step, frozen=True, tag="reset"):
    """`tape.reset()`"""

    tape: str


class Structure(Document, frozen=True):
    """Names handed over as `one`, as a `list` or as a `dict`."""

    form: Form
    names: tuple[str, ...]

    def paths(self, name: str) -> tuple[str, ...]:
        """The names of the parts of a result of this structure: g, or g[0] and g[1], or g['a'] and g['b']."""
        if self.form == "one":
            return (name,)
        keys: Iterable[str | int] = KEYS if self.form == "dict" else range(len(self.names))
        return tuple(f"{name}[{key!r}]" for key, _ in zip(keys, self.names, strict=False))


class Derive(Step, frozen=True, tag="derive"):
    """`name = tape.method(targets, sources)`; `zeros` asks for zeros where a source is not connected."""

    name: Identifier
    tape: str
    method: Method
    targets: Structure
    sources: Structure
    zeros: bool = False


class Branch(Step, frozen=True, tag="branch"):
    """Python's `if` on whether the elements of a tensor add up to more than `threshold`, `tf.cond` where traced.

    Both branches bind `name` last, to tensors of one shape.
    """

    name: Identifier
    condition: str
    threshold: float
    then: tuple[Apply, ...]
    otherwise: tuple[Apply, ...]


class Loop(Step, frozen=True, tag="loop"):
    """`for _ in range(count):`"""

    count: Annotated[int, Meta(ge=1, le=MAX_RUNS)]
    body: Block


class Call(Step, frozen=True, tag="call"):
    """`names = function(arguments)`, a tf.function of its own, whose body binds `names`; it captures variables."""

    function: Identifier
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    body: tuple[Apply, ...]


class Program(Document, frozen=True, tag_field="format", tag="gradcheck tape program"):
    """Variables, and statements about them; `traced` puts the statements into a tf.function."""

    variables: Annotated[tuple[Variable, ...], Meta(max_length=MAX_STATEMENTS)]
    body: Block
    traced: bool = False
    version: Choice[1] = 1

    def statements(self) -> Iterator[Statement]:
        """All statements, those of inner blocks after the block's own."""
        return _walk(self.body)


Statement: TypeAlias = Constant | Apply | Assign | Watch | Open | Resume | Stop | Reset | Derive | Branch | Loop | Call
Block = Annotated[tuple[Statement, ...], Meta(max_length=MAX_STATEMENTS)]


def _walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        for block in ("body", "then", "otherwise"):
            yield from _walk(getattr(statement, block, ()))
