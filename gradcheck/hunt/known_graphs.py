"""Known defects and the hunt's graphs: validated against the catalogue, turned into graphs, matched with findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from gradcheck.autodiff.errors import numerics_checked
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects import known
from gradcheck.defects.records import Defect, Known
from gradcheck.defects.region import ANY, COMPLEX, Ancestry, Arrival, Region, names
from gradcheck.documents import DocumentError
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.finding import Example, GraphFinding
from gradcheck.hunt.graph_json import check_operation, from_document, to_input
from gradcheck.hunt.tapes import program_forms
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import attribute_names
from gradcheck.result import Kind
from gradcheck.typing import Array

if TYPE_CHECKING:
    from gradcheck.hunt.graph_problem import GraphProblem

Given = tuple[str, Mapping[str, Any], list[Array], int, Ancestry]
"""A node as a region is asked about it: operation, attributes, arguments, order, and the nodes before it."""
LOST = (Kind.WRONG_VALUE, Kind.NON_FINITE)
"""Kinds in which an arriving zero may end, depending on what follows."""
FORWARDING = frozenset(
    (
        *("identity", "ensure_shape", "print", "debug_identity", "placeholder_with_default", "cast", "cast_to_real"),
        *("negative", "bias_add", "bias_add_channels_first", "bias_add_v1"),
        *("concat", "legacy_concat"),
        *("tensor_scatter_nd_add", "tensor_scatter_nd_sub", "scatter_nd_non_aliasing_add", "sparse_dense_add"),
        *("quantize_and_dequantize_v2", "quantize_and_dequantize_v3"),
    )
)
"""The operations whose gradient passes IndexedSlices on unchanged, as do their complex forms."""


HANDLES = ("resource variable", "variant containers (TensorList/Map/Optional)")
"""Families drawn in no number type but their own: in another, some kernels abort the process (TensorFlow 2.21)."""


def ways(op: str, modes: Iterable[Mode]) -> tuple[tuple[Mode, int], ...]:
    """The modes in which an operation has examples, each with an order: claimed, and not excluded by known defects."""
    spec = CATALOGUE[op]
    real = all(dtype == "float64" for dtype in spec.dtypes)
    narrowed = set(spec.dtypes) <= {"float64", "complex128"} and spec.family not in HANDLES
    return tuple(
        (mode, order)
        for mode in modes
        for order in mode.orders
        if order in spec.orders
        and drawn_in(op, mode)
        and (mode.number_type is None or (narrowed and (real or mode.number_type == "float32")))
        and known.everywhere(op, order, mode=mode) is None
    )


def drawn_in(op: str, mode: Mode) -> bool:
    """Whether an operation is drawn in a mode, by its catalogue entry."""
    modes = CATALOGUE[op].modes
    return modes is None or mode == PLAIN or mode in modes


def left_out_in(mode: Mode, op: str, *given: Any, defects: Sequence[Defect] | None = None) -> str | None:
    """Why a use of an operation is not drawn in a mode: the name of a known defect, or that the mode is not claimed."""
    return known.excludes(op, *given, mode=mode, defects=defects) if drawn_in(op, mode) else "another mode"


def load(folder: Path | str | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives in a folder, as loaded by `known.load`, each file validated by `check`."""
    return known.load(folder, check)


def check(record: Known) -> None:
    """Raises DocumentError for what only the catalogue can tell: unknown operations, attributes and arguments."""
    record.by_kind(_check_defect, lambda tape: program_forms.checked(tape.program, "$.program"))


def _check_defect(record: Defect) -> None:
    check_operation(record.signature.operation, "$.signature.operation")
    from_document(record.graph, "$.graph")
    for i, region in enumerate(record.regions):
        place = f"$.regions[{i}]"
        if region.op != ANY:
            check_operation(region.op, f"{place}.op")
        for field in ("producers", "neighbours"):
            for name in getattr(region, field):
                check_operation(name, f"{place}.{field}")
        real = region.op.removeprefix(COMPLEX)
        if real != region.op and {**asdict(region), "op": real} in map(asdict, record.regions):
            expected = f"no region but that of {real!r}, which holds for its complex form"
            raise DocumentError(f"{place}.op", region.op, expected)
        _check_names(region, place)


def _check_names(region: Region, place: str) -> None:
    """Raises DocumentError for an argument or an attribute that no operation of a region has."""
    own = CATALOGUE if region.op == ANY else {region.op, COMPLEX + region.op} & CATALOGUE.keys()
    specs = [CATALOGUE[name] for name in own]
    last = max(spec.arity for spec in specs) - 1
    if max(region.deciding, default=0) > last:
        raise DocumentError(f"{place}.set", region.set_name, f"a set of arguments from 0 to {last}")
    there = {name for spec in specs for name in attribute_names(spec.source)}
    if unknown := sorted(region.attrs.keys() - there):
        expected = f"an attribute of {region.op}: {', '.join(sorted(there)) or 'it has none'}"
        raise DocumentError(f"{place}.attrs", unknown[0], expected)


def example_of(defect: Defect) -> Example:
    """The derivative that a known defect is about; raises DocumentError if the catalogue does not admit its graph."""
    direction = tuple(map(to_input, defect.direction))
    graph, about = from_document(defect.graph, "$.graph"), defect.signature
    return Example(graph, about.order, to_input(defect.cotangent), direction, about.taken)


def match(found: GraphFinding, *, defects: Sequence[Defect] | None = None) -> Defect | None:
    """The known defect that a finding is an example of; None if it is new.

    Its operation, mode and kind are the same, and the `values` of the arguments lie in one of its regions, of the same
    order; a finding without values matches none.
    """
    if not found.values:
        return None
    values = [value.array() for value in found.values]
    given = _given(found.graph, found.position, values, found.order)
    _, attributes, arguments, _, before = given
    here = known.match(found.signature, attributes, arguments, before, error=found.error, defects=defects)
    return here or _match_of_what_is_raised(found, given, defects) or _match_of_what_arrives(found, defects)


def _match_of_what_is_raised(found: GraphFinding, given: Given, defects: Sequence[Defect] | None) -> Defect | None:
    """The known defect of any operation with this error: the node that raises and its cause may follow the culprit."""
    op, attributes, arguments, order, _ = given
    before = ancestry(sources_of(found.graph), [found.graph.size - 1])
    for defect in known.current(found.taken) if defects is None else defects:
        if (defect.signature.kind, defect.signature.taken) != (found.kind, found.taken):
            continue
        for region in defect.regions:
            raised = region.op == ANY and region.error
            if raised and region.contains(op, attributes, arguments, order, before, error=found.error):
                return defect
    return None


def _match_of_what_arrives(found: GraphFinding, defects: Sequence[Defect] | None) -> Defect | None:
    """The known defect of arriving cotangents: a node up to the culprit is in its region, later nodes trigger it."""
    alike = LOST if found.kind in LOST or numerics_checked(found.error) else (found.kind,)
    wanted = [
        (defect, region)
        for defect in (known.current(found.taken) if defects is None else defects)
        if (defect.signature.order, defect.signature.taken) == (found.order, found.taken) and defect.kind in alike
        for region in defect.regions
        if region.arriving
    ]
    nodes = dict(found.graph.positions())
    places = [place for place in found.graph.ancestors(found.position) if place in nodes]
    if not any(region.op in names(nodes[place].op) for place in places for _, region in wanted):
        return None
    arriving, values = arrivals(found.graph, found.cotangent.array()), [value.array() for value in found.values]
    for place in places:
        given = _given(found.graph, place, values, found.order)
        for defect, region in wanted:
            if region.contains(*given, arrival=arriving[place]):
                return defect
    return None


def _given(graph: Graph, place: int, values: Sequence[Array], order: int) -> Given:
    sources = sources_of(graph)
    node = sources[place]
    assert isinstance(node, Node)
    arguments = [values[parent] for parent in node.parents]
    return node.op, node.attributes, arguments, order, ancestry(sources, node.parents)


def tells_of(
    graph: Graph, order: int, part: GraphProblem, places: Sequence[int], *, weights: Array | None = None
) -> bool:
    """Whether an error in a part of a graph, whose first nodes have the positions `places` there, is one of the graph.

    It is not where a node lies in a region of arriving cotangents in the part only, as the square of zero makes a zero
    that depends on the inputs. `weights` are the graph's cotangent.
    """
    from gradcheck.hunt.graph_problem import GraphProblem

    reached = dict(zip(places, _regions_reached(part, order), strict=False))
    if not any(reached.values()):
        return True
    whole = GraphProblem.evaluated(graph, weights, mode=part.mode)
    there = dict(zip((place for place, _ in graph.positions()), _regions_reached(whole, order), strict=True))
    return all(name in (None, there[place]) for place, name in reached.items())


def _regions_reached(problem: GraphProblem, order: int) -> list[str | None]:
    """For each node, the known defect that its cotangent triggers, or None.

    All are None if the first derivative raises.
    """
    graph, mode = problem.graph, problem.mode
    wanted = [one for one in known.current(mode) if any(region.arriving for region in one.regions)]
    ops = {region.op for one in wanted for region in one.regions if region.arriving and order in region.orders}
    nothing: list[str | None] = [None] * len(graph.nodes)
    if not any(names(node.op) & ops for node in graph.nodes):
        return nothing
    try:
        arriving = arrivals(graph, problem.upstream)
    except Exception:  # whatever a gradient function raises
        return nothing
    given = [(place, _given(graph, place, problem.intermediates, order)) for place, _ in graph.positions()]
    return [known.excludes(*one, arrival=arriving[place], mode=mode, defects=wanted) for place, one in given]


def arrivals(graph: Graph, cotangent: Array) -> list[Arrival | None]:
    """The cotangent at every position of a graph, by TensorFlow's first derivatives; None where none arrives."""
    import tensorflow as tf

    from gradcheck.hunt.evaluation import forward

    inputs = [tf.constant(value.array()) for value in graph.inputs]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values = forward(graph, inputs)
        parts = tape.gradient(values[-1], values, output_gradients=tf.cast(tf.constant(cotangent), values[-1].dtype))
        dense = [None if part is None else tf.convert_to_tensor(part) for part in parts]
    return [None if part is None else Arrival(part.numpy(), _depends(outer, part, inputs)) for part in dense]


def _depends(tape: Any, part: Any, inputs: Sequence[Any]) -> bool:
    try:
        return any(slope is not None for slope in tape.gradient(part, inputs))
    except Exception:  # what raises has something to differentiate
        return True


def sources_of(graph: Graph) -> dict[int, Input | Node]:
    """The input or node at every position of a graph."""
    return dict(enumerate([*graph.inputs, *graph.nodes]))


def ancestry(sources: Mapping[int, Input | Node], parents: Sequence[int]) -> Ancestry:
    """The operations before a node that has these parents, among the positions of its graph."""
    producers: dict[int, str] = {}
    waiting = list(parents)
    while waiting:
        source = sources[waiting.pop()]
        if isinstance(source, Node) and id(source) not in producers:
            producers[id(source)] = source.op
            waiting += source.parents
    return Ancestry(tuple(producers.values()), tuple(_neighbours(sources, parents)), len({*parents}) == len(parents))


def _neighbours(sources: Mapping[int, Input | Node], parents: Sequence[int]) -> Iterator[str]:
    for source in map(sources.__getitem__, parents):
        if isinstance(source, Node):
            yield source.op
            if names(source.op) & FORWARDING:
                yield from _neighbours(sources, source.parents)


def left_out(*releases: str) -> dict[tuple[str, int], str]:
    """Operations and orders that a known defect of these releases of TensorFlow excludes entirely, and its name."""
    here = known.regions_everywhere([one for one in load() if any(one.covers(release) for release in releases)])
    pairs = [(name, order) for name, spec in CATALOGUE.items() for order in spec.orders]
    return {pair: name for pair in pairs if (name := known.excluded_by(here, *pair)) is not None}
