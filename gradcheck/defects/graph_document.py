"""Graphs and tensors as JSON documents: names of operations and numbers, nothing that could be executed."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from msgspec import Meta

from gradcheck.documents import MAX_ITEMS, Count, Description, Document, DocumentError, Real

MAX_NODES = 64
MAX_RANK = 8
LARGEST_FLOAT32 = 3.4028235e38
DType = Literal["float64", "float32", "complex128"]


class ComputedTensor(Document, frozen=True):
    """A tensor that was computed: its elements in row-major order, complex ones as [real part, imaginary part]."""

    dtype: DType
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, le=MAX_ITEMS)], ...], Meta(max_length=MAX_RANK)]
    values: Annotated[tuple[Real | tuple[Real, Real], ...], Meta(max_length=MAX_ITEMS)]

    def __post_init__(self) -> None:
        check_values(self.dtype, self.shape, self.values)


class Tensor(ComputedTensor, frozen=True):
    """A literal tensor: all of its elements are finite."""

    values: Annotated[tuple[float | tuple[float, float], ...], Meta(max_length=MAX_ITEMS)]


class NodeDocument(Document, frozen=True):
    """An operation applied to earlier positions; `attrs` are literals by name."""

    op: str
    parents: Annotated[tuple[Count, ...], Meta(max_length=MAX_NODES)]
    attrs: dict[str, Any]


class GraphDocument(Document, frozen=True, tag_field="format", tag="gradcheck graph", kw_only=True):
    """A graph: positions 0 to len(inputs) - 1 are the inputs, the nodes follow, the output is the last position."""

    version: Literal[1] = 1
    inputs: Annotated[tuple[Tensor, ...], Meta(min_length=1, max_length=MAX_NODES)]
    nodes: Annotated[tuple[NodeDocument, ...], Meta(max_length=MAX_NODES)]

    def __post_init__(self) -> None:
        if self.size > MAX_NODES:
            raise DocumentError("$", self.size, f"at most {MAX_NODES} inputs and nodes together")
        if sum(len(value.values) for value in self.inputs) > MAX_ITEMS:
            raise DocumentError("$.inputs", Description("more"), f"at most {MAX_ITEMS} elements in all inputs together")
        for place, node in enumerate(self.nodes):
            before = len(self.inputs) + place
            for i, parent in enumerate(node.parents):
                if parent >= before:
                    raise DocumentError(f"$.nodes[{place}].parents[{i}]", parent, f"an integer from 0 to {before - 1}")

    @property
    def size(self) -> int:
        """The number of positions: inputs and nodes."""
        return len(self.inputs) + len(self.nodes)


def check_values(dtype: str, shape: tuple[int, ...], values: tuple[Any, ...]) -> None:
    """Raises DocumentError unless the elements of a tensor are as many as its shape holds, and of its dtype."""
    if math.prod(shape) != len(values):
        held = f"{math.prod(shape)}, as shape {shape} holds"
        raise DocumentError("$.values", Description(f"{len(values)} values"), held)
    for i, value in enumerate(values):
        if isinstance(value, tuple) != (dtype == "complex128"):
            expected = "[real part, imaginary part]" if dtype == "complex128" else "a finite number"
            raise DocumentError(f"$.values[{i}]", list(value) if isinstance(value, tuple) else value, expected)
        if dtype == "float32" and LARGEST_FLOAT32 < abs(float(value)) < math.inf:
            raise DocumentError("$.values", Description("a value beyond float32"), "values that float32 can hold")
