"""Known defects beside the hunt's graphs: checked against the catalogue, turned into graphs, matched with findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradcheck.defects import known
from gradcheck.defects.records import Defect, Known, TapeDefect
from gradcheck.defects.region import ANY
from gradcheck.documents import DocumentError
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import Example, GraphFinding
from gradcheck.hunt.graph_json import check_operation, from_document, to_input
from gradcheck.hunt.tapes import program_forms


def load(folder: Path | str | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives in a folder, as `known.load` has them, once `check` has seen every file."""
    return known.load(folder, check)


def check(record: Known) -> None:
    """Raises DocumentError for what only the catalogue can tell: unknown operations, attributes and arguments."""
    if isinstance(record, TapeDefect):
        program_forms.checked(record.program, "$.program")
        return
    check_operation(record.signature.operation, "$.signature.operation")
    from_document(record.graph, "$.graph")
    for i, region in enumerate(record.regions):
        place = f"$.regions[{i}]"
        if region.op != ANY:
            check_operation(region.op, f"{place}.op")
        for name in region.producers:
            check_operation(name, f"{place}.producers")
        last = max(spec.arity for name, spec in CATALOGUE.items() if region.op in (ANY, name)) - 1
        if region.argument > last:
            raise DocumentError(f"{place}.argument", region.argument, f"an integer from 0 to {last}")


def example_of(defect: Defect) -> Example:
    """The derivative that a known defect is about; raises DocumentError where its graph is none of the catalogue's."""
    direction = tuple(map(to_input, defect.direction))
    graph, about = from_document(defect.graph, "$.graph"), defect.signature
    return Example(graph, about.order, to_input(defect.cotangent), direction, about.taken)


def match(found: GraphFinding, *, defects: Sequence[Defect] | None = None) -> Defect | None:
    """The known defect that a finding is an example of; None if it is new.

    Its operation, order, mode and kind are the same, and the `values` of the arguments lie in one of its regions; one
    without values matches none.
    """
    if not found.values:
        return None
    nodes = dict(found.graph.positions())
    node = nodes[found.position]
    arguments = [found.values[parent].array() for parent in node.parents]
    behind = found.graph.ancestors(found.position) - {found.position}
    producers = [nodes[position].op for position in behind if position in nodes]
    return known.match(found.signature, node.op, node.attributes, arguments, producers, defects=defects)


def left_out(*releases: str) -> dict[tuple[str, int], str]:
    """The operations and orders that a known defect of these releases of TensorFlow leaves no use, with its name."""
    here = [defect for defect in load() if any(defect.covers(release) for release in releases)]
    pairs = [(name, order) for name, spec in CATALOGUE.items() for order in spec.orders]
    return {pair: name for pair in pairs if (name := known.everywhere(*pair, defects=here)) is not None}
