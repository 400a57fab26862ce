"""The JSON report of a finding: written, and read back strictly; nothing in it is ever executed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from gradcheck import documents
from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.defects.graph_document import MAX_NODES, ComputedTensor, GraphDocument, Tensor
from gradcheck.defects.records import Signature
from gradcheck.documents import MAX_ITEMS, MAX_WORDS, Count, Description, Document, DocumentError, Order, Real
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck, StepCurve
from gradcheck.hunt.graph_json import from_document, to_computed, to_document, to_input, to_tensor
from gradcheck.hunt.report.confirmation import Confirmation
from gradcheck.hunt.report.environment import Environment
from gradcheck.result import Cause, Diagnosis, Finding, Kind, Place, Verdict

FORMAT = "gradcheck report"
Words = Annotated[str, Meta(max_length=MAX_WORDS)]


class PlaceDocument(Document, frozen=True):
    """A `Place`: a line of somebody's code, and the operation that it runs."""

    file: Words
    line: int
    code: Words
    operation: Words | None = None


class DiagnosisDocument(Document, frozen=True):
    """A `Diagnosis`: why a gradient was lost."""

    cause: Cause
    evidence: Words
    remedy: Words
    place: PlaceDocument | None = None
    lost: Real | None = None


class FindingDocument(Document, frozen=True):
    """A `Finding`: one derivative that is wrong, at its worst element."""

    kind: Kind
    order: Order
    input: Words
    index: tuple[int, ...] | None
    output: int | None
    autodiff: Real | None
    difference: Real | None
    bound: Real | None
    allowed: Real | None
    reason: Words
    diagnosis: DiagnosisDocument | None = None
    also: Words = ""


class NodeCheckDocument(Document, frozen=True):
    """A `NodeCheck`: a node's own derivative, at its worst element."""

    position: Count
    verdict: Words
    autodiff: Real | None = None
    difference: Real | None = None
    bound: Real | None = None


class ElementDocument(Document, frozen=True):
    """An `ElementCheck`: one coordinate of the derivative as the trial compared it."""

    coordinate: Count
    verdict: Verdict
    autodiff: Real
    difference: Real
    bound: Real
    allowed: Real


class CurveDocument(Document, frozen=True):
    """A `StepCurve`: difference quotients of one coordinate of the derivative."""

    coordinate: Count
    steps: tuple[Real, ...]
    quotients: tuple[Real, ...]


RECORDS: dict[type[Document], type[Any]] = {
    PlaceDocument: Place,
    DiagnosisDocument: Diagnosis,
    FindingDocument: Finding,
    NodeCheckDocument: NodeCheck,
    ElementDocument: ElementCheck,
    CurveDocument: StepCurve,
}
NUMBERS = ("lost", "autodiff", "difference", "bound", "allowed", "steps", "quotients")


class Report(Document, frozen=True, tag_field="format", tag=FORMAT, kw_only=True, dict=True):
    """A finding as its JSON report holds it, with what its script did in a fresh process if it was run.

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
    def of(found: GraphFinding, confirmation: Confirmation | None = None) -> Report:
        """The report of a finding; raises DocumentError for one that could not be read back."""
        few = sum(len(value.values) for value in found.values) <= MAX_ITEMS
        findings = documents.convert(documents.plain(found.findings), tuple[FindingDocument, ...])
        return Report(
            name=found.name,
            signature=found.signature,
            description=found.description,
            position=found.position,
            graph=to_document(found.graph),
            cotangent=to_tensor(found.cotangent),
            direction=tuple(map(to_tensor, found.direction)),
            findings=findings,
            values=tuple(map(to_computed, found.values)) if few else (),
            nodes=documents.convert(documents.plain(found.nodes), tuple[NodeCheckDocument, ...]),
            elements=documents.convert(documents.plain(found.elements), tuple[ElementDocument, ...]),
            curve=None if found.curve is None else documents.convert(documents.plain(found.curve), CurveDocument),
            environment=found.environment,
            confirmation=confirmation,
        )

    def __post_init__(self) -> None:
        graph, first, last = self.graph, len(self.graph.inputs), self.graph.size - 1
        if not first <= self.position <= last:
            raise DocumentError("$.position", self.position, f"a node, from {first} to {last}")
        if self.signature.operation != graph.nodes[self.position - first].op:
            raise DocumentError("$.signature.operation", self.signature.operation, "the operation at the position")
        if self.signature.kind != self.findings[0].kind:
            raise DocumentError("$.signature.kind", self.signature.kind, "the first finding's kind")
        shapes = [(value.shape, value.dtype) for value in graph.inputs] if self.signature.order == 2 else []
        if [(vector.shape, vector.dtype) for vector in self.direction] != shapes:
            given = Description("another number, shape or dtype")
            raise DocumentError("$.direction", given, "one like each input at order 2")
        if len(self.values) not in (0, graph.size):
            raise DocumentError("$.values", Description(f"{len(self.values)} values"), f"none, or {graph.size}")
        if any(not first <= node.position <= last for node in self.nodes):
            raise DocumentError("$.nodes", Description("a position that is no node"), f"{first} to {last}")
        count = sum(coordinate_count(value.shape, value.dtype) for value in graph.inputs)
        compared = [element.coordinate for element in self.elements]
        if compared != sorted(set(compared) & set(range(count))):
            raise DocumentError("$.elements", Description("other coordinates"), f"some of 0 to {count - 1}, in order")
        curve = self.curve
        if curve is not None and not (curve.coordinate in compared and 0 < len(curve.steps) == len(curve.quotients)):
            raise DocumentError("$.curve", Description("something else"), "one quotient a step, of an element")
        result = getattr(CATALOGUE.get(graph.nodes[-1].op), "result", "complex128")
        if self.cotangent.dtype.startswith("complex") and not result.startswith("complex"):
            raise DocumentError("$.cotangent.dtype", self.cotangent.dtype, f"the output's, {result}")
        if self.name != self.finding.name:
            raise DocumentError("$.name", self.name, f"{self.finding.name!r}, as the signature gives it")

    @cached_property
    def finding(self) -> GraphFinding:
        """The finding itself."""
        return GraphFinding(
            from_document(self.graph, "$.graph"),
            self.signature.order,
            _records(self.findings),
            self.signature.operation,
            self.position,
            self.description,
            to_input(self.cotangent),
            tuple(map(to_input, self.direction)),
            self.environment,
            tuple(map(to_input, self.values)),
            _records(self.nodes),
            _records(self.elements),
            _records(self.curve),
            self.signature.path,
            self.signature.mode,
        )


def json_text(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The report as strict JSON; numbers that JSON does not know are the texts "nan", "inf" and "-inf"."""
    return documents.to_text(Report.of(found, confirmation))


def to_json(found: GraphFinding, confirmation: Confirmation | None = None) -> dict[str, Any]:
    """The same as plain dictionaries, lists, numbers and texts."""
    data: dict[str, Any] = documents.plain(Report.of(found, confirmation))
    return data


def from_json(data: Any) -> Report:
    """The report of parsed JSON; raises DocumentError for whatever is not exactly one."""
    return documents.convert(data, Report)


def read(path: Path) -> Report:
    """The report in a file that `writer.write` wrote.

    Raises OSError where the file cannot be read, and ValueError, which names the file, the place in it, what was given
    and what is expected, for anything but a report.
    """
    return documents.read(path, Report, "a report of this project")


def _records(document: Any, name: str = "") -> Any:
    """The records that documents of them stand for, with numbers for those that JSON does not know."""
    if isinstance(document, tuple):
        return tuple(_records(part, name) for part in document)
    if type(document) in RECORDS:
        names = type(document).__struct_fields__
        return RECORDS[type(document)](**{each: _records(getattr(document, each), each) for each in names})
    return float(document) if name in NUMBERS and document is not None else document
