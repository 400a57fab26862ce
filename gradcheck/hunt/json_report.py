"""The JSON report of a finding: written, and read back strictly; nothing in it is ever executed."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator
from functools import cached_property, reduce
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from gradcheck import documents
from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import Mode
from gradcheck.defects.graph_document import MAX_NODES, ComputedTensor, GraphDocument, Tensor
from gradcheck.defects.records import Signature
from gradcheck.documents import MAX_ITEMS, Count, Description, Document, DocumentError, Real, Words
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck
from gradcheck.hunt.graph_json import from_document, to_computed, to_document, to_input, to_tensor
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Finding
from gradcheck.step_curve import StepCurve

T = TypeVar("T")


def document_type(hint: Any) -> Any:
    """The strict document of a dataclass: the same fields, with numbers that may be "nan" or "inf", and short texts."""
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        fields = [
            (one.name, document_type(hints[one.name]), *([] if one.default is dataclasses.MISSING else [one.default]))
            for one in dataclasses.fields(hint)
        ]
        name = f"{hint.__name__}Document"  # type: ignore[union-attr]  # a class, not an instance
        return msgspec.defstruct(name, fields, bases=(Document,), namespace={"__doc__": hint.__doc__}, frozen=True)
    parts = [document_type(part) for part in get_args(hint)]
    if isinstance(hint, UnionType):
        return reduce(operator.or_, parts)
    if get_origin(hint) is tuple:
        return tuple.__class_getitem__(tuple(parts))
    return {float: Real, str: Words}.get(hint, hint)


if TYPE_CHECKING:
    FindingDocument = Finding
    NodeCheckDocument = NodeCheck
    ElementDocument = ElementCheck
    CurveDocument = StepCurve
else:
    FindingDocument, NodeCheckDocument = document_type(Finding), document_type(NodeCheck)
    ElementDocument, CurveDocument = document_type(ElementCheck), document_type(StepCurve)


class Report(Document, frozen=True, tag_field="format", tag="gradcheck report", kw_only=True, dict=True):
    """A finding as its JSON report holds it.

    `values` are left out (empty) where they have more than 4,096 elements together. Raises DocumentError where its
    parts do not fit one another.
    """

    version: Literal[1] = 1
    name: Words
    signature: Signature
    description: Words
    position: Count
    graph: GraphDocument
    cotangent: Tensor
    direction: Annotated[tuple[Tensor, ...], Meta(max_length=MAX_NODES)]
    findings: Annotated[tuple[FindingDocument, ...], Meta(min_length=1)]
    values: tuple[ComputedTensor, ...]
    nodes: tuple[NodeCheckDocument, ...]
    elements: tuple[ElementDocument, ...]
    curve: CurveDocument | None
    environment: Environment | None
    confirmation: Confirmation | None

    @staticmethod
    def of(found: GraphFinding) -> Report:
        """The report of a finding; raises DocumentError for one that could not be read back."""
        few = sum(len(value.values) for value in found.values) <= MAX_ITEMS
        same = ("name", "signature", "description", "position", "findings", "nodes", "elements", "curve")
        data = {
            "format": "gradcheck report",
            "graph": to_document(found.graph),
            "cotangent": to_tensor(found.cotangent),
            "direction": tuple(map(to_tensor, found.direction)),
            "values": tuple(map(to_computed, found.values)) if few else (),
            **{name: getattr(found, name) for name in (*same, "environment", "confirmation")},
        }
        return documents.convert(documents.plain(data), Report)

    def __post_init__(self) -> None:
        for right, place, given, expected in self._conditions():
            if not right:
                raise DocumentError(f"$.{place}", given, expected)

    def _conditions(self) -> Iterator[tuple[bool, str, object, str]]:
        """Conditions on the parts, each with place, given and expected; a condition may rely on those before it."""
        graph, signature, first, last = self.graph, self.signature, len(self.graph.inputs), self.graph.size - 1
        yield first <= self.position <= last, "position", self.position, f"a node, from {first} to {last}"
        culprit = graph.nodes[self.position - first].op
        yield (
            signature.operation == culprit,
            "signature.operation",
            signature.operation,
            "the operation at the position",
        )
        yield signature.kind == self.findings[0].kind, "signature.kind", signature.kind, "the first finding's kind"
        orders = {wrong.order for wrong in self.findings}
        yield orders <= {1, 2}, "findings", Description("another order"), "one of 1, 2"
        given = [(vector.shape, vector.dtype) for vector in self.direction]
        shapes = [(value.shape, value.dtype) for value in graph.inputs] if signature.order == 2 else []
        other = Description("another number, shape or dtype")
        yield given == shapes, "direction", other, "one like each input at order 2"
        count = Description(f"{len(self.values)} values")
        yield len(self.values) in (0, graph.size), "values", count, f"none, or {graph.size}"
        nodes = all(first <= node.position <= last for node in self.nodes)
        yield nodes, "nodes", Description("a position that is no node"), f"{first} to {last}"
        size = sum(coordinate_count(value.shape, value.dtype) for value in graph.inputs)
        compared = [element.coordinate for element in self.elements]
        in_order = compared == sorted(set(compared) & set(range(size)))
        yield in_order, "elements", Description("other coordinates"), f"some of 0 to {size - 1}, in order"
        curve = self.curve
        whole = curve is None or (curve.coordinate in compared and 0 < len(curve.steps) == len(curve.quotients))
        yield whole, "curve", Description("something else"), "one quotient a step, of an element"
        result = getattr(CATALOGUE.get(graph.nodes[-1].op), "result", "complex128")
        fits = result.startswith("complex") or not self.cotangent.dtype.startswith("complex")
        yield fits, "cotangent.dtype", self.cotangent.dtype, f"the output's, {result}"
        name = self.finding.name
        yield self.name == name, "name", self.name, f"{name!r}, as the signature gives it"

    @cached_property
    def finding(self) -> GraphFinding:
        """The finding itself."""
        return GraphFinding(
            graph=from_document(self.graph, "$.graph"),
            order=self.signature.order,
            findings=_records(self.findings, tuple[Finding, ...]),
            culprit=self.signature.operation,
            position=self.position,
            description=self.description,
            cotangent=to_input(self.cotangent),
            direction=tuple(map(to_input, self.direction)),
            taken=Mode(self.signature.path, self.signature.mode),
            environment=self.environment,
            values=tuple(map(to_input, self.values)),
            nodes=_records(self.nodes, tuple[NodeCheck, ...]),
            elements=_records(self.elements, tuple[ElementCheck, ...]),
            curve=None if self.curve is None else _records(self.curve, StepCurve),
            confirmation=self.confirmation,
        )


def read(path: Path) -> GraphFinding:
    """The finding in a file that `writer.write` wrote.

    Raises OSError where the file cannot be read, and ValueError, which names the file, the place in it, what was given
    and what is expected, for anything but a report.
    """
    return documents.read(path, Report, "a report of this project").finding


def _records(document: Any, kind: type[T]) -> T:
    """The records of these documents; the conversion is not strict, so that "nan" becomes a number."""
    return msgspec.convert(msgspec.to_builtins(document), kind, strict=False)
