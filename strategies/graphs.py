"""Graphs drawn newest parent first: as long as a flag is drawn, the newest value goes into one more operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from math import gcd, prod
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import event, reject
from hypothesis import strategies as st

from gradcheck.defects.graph_document import MAX_RANK
from gradcheck.defects.region import Ancestry
from gradcheck.graph import Graph, Input, Node, Shape
from gradcheck.hunt import monitor
from gradcheck.hunt.evaluation import single
from gradcheck.hunt.known_graphs import ancestry
from gradcheck.hunt.nonsmooth import count_on
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS, Choice, Interval, OpSpec
from gradcheck.tracing import hooks
from gradcheck.typing import Array

from .values import Draw, alternatives, attributes, choice, index, large, literal, offered, smooth, without_zeros

RegionOf = Callable[[str, Mapping[str, Any], Sequence[Array], int, Ancestry], str | None]

MOST_OF_LARGE = 4096
"""The most elements of a value in a large graph."""
LARGEST, SMALLEST = 1e10, 1e-10


@dataclass(frozen=True, eq=False)
class Position:
    """A literal or a node, with its value.

    `ancestors` and `kinks` are the positions it depends on, itself included: all of them, and those at a kink;
    `singular`: one of them has an infinite derivative.
    """

    number: int
    source: Input | Node
    value: Array
    tensor: Any
    ancestors: frozenset[int]
    kinks: frozenset[int] = frozenset()
    singular: bool = False

    @property
    def composed(self) -> bool:
        """Whether more than one node up to this position is at a kink, or one at a singular point."""
        return self.singular or len(self.kinks) > 1


@dataclass(eq=False)
class Draft:
    """The positions so far, in order of creation; unused ones stay until `graph` leaves them out.

    `known` names the known defect in whose region a node would lie; `order` is that of the derivative to be checked;
    `composed` admits a second node at a kink; `most` is the largest number of elements of a value.
    """

    order: int = 1
    known: RegionOf | None = None
    composed: bool = False
    most: int = MOST_ELEMENTS
    positions: list[Position] = field(default_factory=list)

    def literal(self, literal: Input) -> Position:
        """Adds an input."""
        number, value = len(self.positions), literal.array()
        self.positions.append(Position(number, literal, value, tf.constant(value), frozenset((number,))))
        return self.positions[-1]

    def node(self, op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Position | None:
        """Adds a node, or returns None if its value is unfit for differences or if it lies in an excluded region."""
        spec, number, values = CATALOGUE[op], len(self.positions), [argument.value for argument in arguments]
        behind = frozenset[int]().union(*(argument.ancestors for argument in arguments))
        if self.known is not None:
            before = ancestry(self._sources(behind), [argument.number for argument in arguments])
            if self.known(op, attributes, values, self.order, before):
                return None
        node = Node(op, tuple(argument.number for argument in arguments), tuple(sorted(attributes.items())))
        monitor.current().before(lambda: _graph({**self._sources(behind), number: node}))
        try:
            tensor = single(spec)(*(argument.tensor for argument in arguments), **attributes)
        except (tf.errors.OpError, ValueError):
            return None
        value = tensor.numpy()
        if not is_fit(value, self.most):
            return None
        own = frozenset((number,))
        kinks = frozenset[int]().union(*(argument.kinks for argument in arguments))
        kinks |= own if count_on(spec.kinks, values, attributes) else frozenset()
        singular = any(argument.singular for argument in arguments) or count_on(spec.singular, values, attributes) > 0
        position = Position(number, node, value, tensor, behind | own, kinks, singular)
        if position.composed and not self.composed and not any(argument.composed for argument in arguments):
            return None
        self.positions.append(position)
        return position

    def _sources(self, numbers: Iterable[int]) -> dict[int, Input | Node]:
        return {number: self.positions[number].source for number in sorted(numbers)}

    def nodes_of(self, output: Position) -> int:
        """The number of nodes in the graph of an output."""
        return sum(isinstance(source, Node) for source in self._sources(output.ancestors).values())

    def graph(self, output: Position) -> Graph:
        """The positions that `output` depends on, as immutable data."""
        return _graph(self._sources(output.ancestors))


def _graph(sources: Mapping[int, Input | Node]) -> Graph:
    inputs = {number: source for number, source in sources.items() if isinstance(source, Input)}
    nodes = {number: source for number, source in sources.items() if isinstance(source, Node)}
    places = {number: place for place, number in enumerate([*inputs, *nodes])}
    renumbered = (Node(one.op, tuple(places[parent] for parent in one.parents), one.attrs) for one in nodes.values())
    return Graph(tuple(inputs.values()), tuple(renumbered))


def is_fit(value: Array, most: int = MOST_ELEMENTS) -> bool:
    """Whether a value fits into a report, and differences can be taken of it: all finite, no overflow, no underflow."""
    magnitudes = np.abs(value)
    fits = (magnitudes <= LARGEST) & ((magnitudes >= SMALLEST) | (magnitudes == 0))
    return _has_place(value.shape, most) and bool(fits.all())


def _has_place(shape: Shape, most: int) -> bool:
    return prod(shape) <= most and len(shape) <= MAX_RANK


ArgumentShapes = tuple[Shape, ...]


@cache
def signatures(op: str, shape: Shape, most: int = MOST_ELEMENTS) -> tuple[ArgumentShapes, ...]:
    """The shapes of all arguments of an operation whose first argument has this shape; none if it cannot have it.

    None of them has more elements than a value of a drawn graph may have (`most`), or more dimensions than a report.
    """
    offered = (tuple(shapes) for shapes in CATALOGUE[op].shapes(shape))
    return tuple(shapes for shapes in offered if all(_has_place(one, most) for one in shapes))


@cache
def accepts(op: str, shape: Shape, dtype: str) -> bool:
    """Whether the operation takes a value of this shape and dtype as its first argument."""
    return CATALOGUE[op].dtype(0) == dtype and bool(signatures(op, shape))


@cache
def starts(op: str) -> tuple[Shape, ...]:
    """The shapes that a fresh first argument of the operation may have, the simplest first."""
    admitted = tuple(shape for shape in CATALOGUE[op].starts if signatures(op, shape))
    if not admitted:
        raise ValueError(f"{op}: none of its starts {CATALOGUE[op].starts} is admitted by its own shapes")
    return admitted


SIZES, ROWS = (MOST_OF_LARGE, 1000, 513, 130, 67), (130, 67)
"""Approximate numbers of elements of a large tensor: whole blocks of a vectorised kernel, and some with a remainder.
Fewer where there are more rows, or steps of a sequence, instead of longer ones."""
SIDE = 3
"""Alternatively, every dimension is this many times as long."""


@cache
def large_starts(op: str) -> tuple[Shape, ...]:
    """The shapes with many elements that a fresh first argument may have: longer rows, more rows, or all sides longer.

    Empty for operations that are looped over their points, and where an attribute would be drawn for each element.
    """
    if CATALOGUE[op].looped:
        return ()
    shapes: dict[Shape, None] = {}
    for shape in (one for one in starts(op) if one and 0 not in one):
        shapes |= dict.fromkeys((*shape[:-1], size * shape[-1] // prod(shape)) for size in SIZES)
        shapes |= dict.fromkeys((size * shape[0] // prod(shape), *shape[1:]) for size in ROWS)
        shapes[tuple(SIDE * length for length in shape)] = None
    large = (shape for shape in shapes if MOST_ELEMENTS < prod(shape) <= MOST_OF_LARGE)
    return tuple(shape for shape in large if large_signatures(op, shape))


def large_signatures(op: str, shape: Shape) -> list[ArgumentShapes]:
    """The shapes of all arguments with a large first one; all inputs together fit into a report."""
    offered_here = signatures(op, shape, MOST_OF_LARGE)
    return [one for one in offered_here if sum(map(prod, one)) <= MOST_OF_LARGE and _few_drawn(op, one)]


WIDEST, LONGEST = 4 * MOST_OF_LARGE, 300
LOOPS = frozenset(("While", "StatelessWhile"))


class TooLongError(Exception):
    """A graph has more operations than LONGEST."""


@cache
def is_modest(op: str, shapes: ArgumentShapes, attributes: tuple[tuple[str, Any], ...]) -> bool:
    """Whether an operation on large tensors makes no intermediate value much larger than these, and runs no loop.

    Otherwise hundreds of points take gigabytes, or minutes. False for an operation that cannot be traced.
    """
    spec = CATALOGUE[op]
    given = [tf.TensorSpec(shape, spec.dtype(argument)) for argument, shape in enumerate(shapes)]

    def function(*arguments: Any) -> Any:
        outer = tf.compat.v1.get_default_graph()

        def add(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if len(outer.get_operations()) > LONGEST:  # a loop of Python's over 1,300 steps is traced for minutes
                raise TooLongError
            return original(*args, **kwargs)

        with hooks.patched((*hooks.GRAPH_OPERATION, add)):
            return single(spec)(*arguments, **dict(attributes))

    try:
        traced = tf.function(function, autograph=False).get_concrete_function(*given)
    except Exception:
        return False
    operations = traced.graph.get_operations()
    kinds = {node.op for function in traced.graph.as_graph_def().library.function for node in function.node_def}
    kinds |= {one.type for one in operations}
    sizes = [tensor.shape.num_elements() for one in operations for tensor in one.outputs]
    small = all(size is None or size <= WIDEST for size in sizes)  # dimensions that only the values determine are small
    return small and len(operations) <= LONGEST and LOOPS.isdisjoint(kinds)


def _few_drawn(op: str, shapes: ArgumentShapes) -> bool:
    counts = (attribute.count for attribute in offered(op, shapes).values() if not isinstance(attribute, Choice))
    return max(counts, default=0) <= MOST_ELEMENTS


SMOOTH_MAPS = ("sigmoid", "softplus", "tanh", "exp", "sin", "cos", "cosh", "atan", "erf", "reciprocal")
TRIED = np.array([-20.0, -3.0, -1.0, -0.5, 0.0, 0.1, 1.0, 2.0, 20.0])


@cache
def adapters(interval: Interval) -> tuple[str, ...]:
    """The smooth operations of the catalogue that map the reals (as far as they are drawn) into an interval."""
    return tuple(name for name in SMOOTH_MAPS if name in CATALOGUE and _maps_into(name, interval))


def _maps_into(name: str, interval: Interval) -> bool:
    spec = CATALOGUE[name]
    if spec.arity != 1 or spec.attributes(TRIED.shape) or spec.dtype(0) != "float64" or spec.result != "float64":
        return False
    return spec.domain(0).contains(TRIED) and interval.contains(single(spec)(tf.constant(TRIED)).numpy())


MORE, MORE_BEFORE = 24, 3
FARTHEST = 5
SIMPLEST_COPIES = 4
TRIES = 4
SWARMS = 64
PREFIX = 3
LARGE = 37
"""The number of the swarm whose tensors are large: only one, since large tensors are expensive."""


def graphs(
    *,
    containing: str | None = None,
    operations: Sequence[str] | None = None,
    order: int = 1,
    max_nodes: int = 8,
    known: RegionOf | None = None,
    number_type: str = "float64",
    large: bool = True,
) -> st.SearchStrategy[Graph]:
    """Graphs of 1 to `max_nodes` nodes, all of whose values are finite and have at most 64 elements.

    `containing` names an operation that every graph has; it is what a graph shrinks to. One graph in 64 is this
    operation alone on up to 4,096 elements, if `large`. `operations` are those that may be drawn (all of the catalogue
    that have a derivative of this `order`, if None). `known` is called for every node, as `known(op, attributes,
    argument values, order, the Ancestry before them)`; a node for which it returns a name is not generated.
    `number_type` is one that holds all literals exactly.

    Raises ValueError for names that the catalogue does not have, and for `max_nodes` below 1.

    >>> from hypothesis import find
    >>> find(graphs(containing="mul"), lambda graph: True).nodes
    (Node(op='mul', parents=(0, 0), attrs=()),)
    """
    names = tuple(CATALOGUE) if operations is None else tuple(operations)
    unknown = sorted({*names, *([containing] if containing else [])} - set(CATALOGUE))
    if unknown:
        raise ValueError(f"operations were {', '.join(unknown)}; the catalogue does not have them")
    if max_nodes < 1:
        raise ValueError(f"max_nodes was {max_nodes}; a graph has at least one node")
    names = tuple(name for name in names if order in CATALOGUE[name].orders)
    if not names and containing is None:
        raise ValueError(f"no operation is left that has a derivative of order {order}")
    joins = tuple(name for name in names if CATALOGUE[name].arity > 1)
    return _drawn(containing, names + joins, order, max_nodes, known, number_type, large and number_type == "float64")


def limits(*most: int, least: bool = False) -> st.SearchStrategy[int]:
    """A limit for `max_nodes`, one of several; with `least` it is always the smallest of them.

    It is drawn even so: an example that fails where graphs are small is the same example where any limit may be drawn.

    >>> from hypothesis import find
    >>> find(limits(8, 3, least=True), lambda limit: True)
    3
    """
    drawn = st.sampled_from(most)
    return drawn.filter(lambda one: one == min(most)) if least else drawn


@st.composite
def _drawn(
    draw: Draw,
    containing: str | None,
    names: tuple[str, ...],
    order: int,
    max_nodes: int,
    known: RegionOf | None,
    number_type: str,
    large: bool,
) -> Graph:
    swarm = index(draw, SWARMS)
    if containing and swarm == LARGE and large and large_starts(containing):
        large_one = _large_graph(draw, containing, Draft(order, known, most=MOST_OF_LARGE))
        if large_one is not None:
            _noted(large_one, order)
            return large_one
    growth = Growth(draw, names, banned(names, swarm), Draft(order, known, composed=swarm % 16 == 15), number_type)
    newest = growth.prefix(containing, max_nodes) if containing else None
    newest = growth.rooted(containing, newest) if containing else growth.started()
    if newest is None:
        event("rejected", containing or "free")
        reject()
    graph = growth.draft.graph(growth.suffix(newest, max_nodes))
    _noted(graph, order)
    return graph


def _large_graph(draw: Draw, op: str, draft: Draft) -> Graph | None:
    """One operation on tensors of many elements; None if a known defect, or the cost, rules that out."""
    spec, start = CATALOGUE[op], choice(draw, large_starts(op))
    shapes = choice(draw, large_signatures(op, start))
    attrs = attributes(draw, op, shapes)
    if not is_modest(op, shapes, tuple(attrs.items())):
        return None
    literals = (large(draw, shape, spec.dtype(i), spec.domain(i), i) for i, shape in enumerate(shapes))
    newest = draft.node(op, [draft.literal(one) for one in literals], attrs)
    return None if newest is None else draft.graph(newest)


def _noted(graph: Graph, order: int) -> None:
    before = {position: node.op for position, node in graph.positions()}
    event("order", str(order))
    for _, node in graph.positions():
        event("operation", node.op)
        for parent in node.parents:
            event("edge", f"{before.get(parent, 'input')} -> {node.op}")


@cache
def banned(names: tuple[str, ...], swarm: int) -> frozenset[str]:
    """The operations that a swarm leaves out: none for number 0, else half of all for three quarters of the numbers.

    Those that are looped over their points, each as expensive as all others together, are only kept for an eighth of
    the numbers.
    """
    if swarm == 0:
        return frozenset()
    halved = enumerate(dict.fromkeys(names)) if swarm % 4 else ()
    out = {name for place, name in halved if (place * 2654435761 + swarm * 40503) >> 9 & 1}
    return frozenset(out | {name for name in names if CATALOGUE[name].looped and swarm % 8 != 5})


@dataclass(frozen=True)
class Growth:
    """A draft that grows by draws."""

    draw: Draw
    names: tuple[str, ...]
    banned: frozenset[str]
    draft: Draft
    number_type: str = "float64"

    def prefix(self, containing: str, max_nodes: int) -> Position | None:
        """A few nodes whose values the operation to come accepts, or None."""
        newest = None
        for _ in range(min(PREFIX, max_nodes - 2)):
            if index(self.draw, MORE_BEFORE) == 0:
                break
            shape = newest.value.shape if newest else choice(self.draw, starts(containing))
            node = self.step(shape, CATALOGUE[containing].dtype(0), newest, towards=containing)
            if node is None:
                break
            newest = node
        return newest

    def started(self) -> Position | None:
        """The first node of a free graph, on a fresh input of a shape that the operation takes."""
        return next((node for op in self.probed() if (node := self.rooted(op, None))), None)

    def rooted(self, op: str, newest: Position | None) -> Position | None:
        """The operation on the newest value, or else on fresh inputs, or else on fresh ones without special values."""
        node = self.grown(op, newest) if newest else None
        if node:
            return node
        fresh = self.fresh(op, choice(self.draw, starts(op)), 0)
        return self.grown(op, fresh) or self._plain(op, fresh)

    def suffix(self, newest: Position, max_nodes: int) -> Position:
        """Adds nodes after the newest one, and returns the last of them."""
        while (room := max_nodes - self.draft.nodes_of(newest)) > 0 and index(self.draw, MORE) > 0:
            node = self.step(newest.value.shape, str(newest.value.dtype), newest, adapting=room > 1)
            # Another argument may be a value that was made earlier and not used, with the nodes that it depends on.
            if node is None or self.draft.nodes_of(node) > max_nodes:
                break
            newest = node
        return newest

    def step(
        self, shape: Shape, dtype: str, newest: Position | None, *, adapting: bool = False, towards: str | None = None
    ) -> Position | None:
        """Adds a node of the operation drawn, or of another one if that is unfit; `towards` has to accept its value."""
        for op in islice((op for op in self.probed() if accepts(op, shape, dtype)), TRIES):
            node = self.grown(op, newest or self.fresh(op, shape, 0), adapting=adapting)
            if node and (towards is None or accepts(towards, node.value.shape, str(node.value.dtype))):
                return node
        return None

    def probed(self) -> Iterator[str]:
        """All names, from a drawn one on in long strides, so that no operation gets the share of its neighbour."""
        count = len(self.names)
        place, stride = index(self.draw, count) if count else 0, _stride(count)
        probed = (self.names[(place + step * stride) % count] for step in range(count))
        yield from (name for name in probed if name not in self.banned)

    def fresh(self, op: str, shape: Shape, argument: int) -> Position:
        """A new input in the domain of an operation's argument."""
        spec = CATALOGUE[op]
        dtype, domain = spec.dtype(argument), spec.domain(argument)
        return self.draft.literal(literal(self.draw, shape, dtype, domain, self.number_type))

    def grown(self, op: str, first: Position, *, adapting: bool = True) -> Position | None:
        """Adds a node on `first` (through an adapter, if need be) and on other values."""
        spec = CATALOGUE[op]
        if not spec.domain(0).contains(first.value):
            adapted = self._adapted(spec, first) if adapting else None
            if adapted is None:
                return None
            first = adapted
        options = signatures(op, first.value.shape)
        shapes = choice(self.draw, options + options[:1] * SIMPLEST_COPIES if len(options) > 1 else options)
        attrs = attributes(self.draw, op, shapes)
        arguments = [first, *(self._other(spec, shapes, argument) for argument in range(1, spec.arity))]
        return self.draft.node(op, arguments, attrs)

    def _adapted(self, spec: OpSpec, first: Position) -> Position | None:
        permitted = [op for op in adapters(spec.domain(0)) if op in self.names] if spec.dtype(0) == "float64" else []
        node = self.draft.node(choice(self.draw, permitted), [first], {}) if permitted else None
        return node if node and spec.domain(0).contains(node.value) else None

    def _other(self, spec: OpSpec, shapes: ArgumentShapes, argument: int) -> Position:
        """An existing value of the right shape, dtype and domain, drawn by how far back it lies; or a fresh input."""
        shape, dtype, domain = shapes[argument], spec.dtype(argument), spec.domain(argument)
        back = index(self.draw, FARTHEST)
        fitting = [
            position
            for position in reversed(self.draft.positions)
            if position.value.shape == shape and position.value.dtype == dtype and domain.contains(position.value)
        ]
        if fitting and back < FARTHEST - 1:
            return fitting[back % len(fitting)]
        return self.fresh(spec.name, shape, argument)

    def _plain(self, op: str, first: Position) -> Position | None:
        """The operation on fresh inputs with fewer special values, for where a kink or a known defect rules the first
        out."""
        spec, shapes = CATALOGUE[op], signatures(op, first.value.shape)[0]
        plain = [
            smooth(shape, spec.dtype(i), spec.domain(i), 11 * i, self.number_type) for i, shape in enumerate(shapes)
        ]
        assert isinstance(first.source, Input)
        for start in (without_zeros(first.source, spec.domain(0), self.number_type), plain[0]):
            arguments = [self.draft.literal(one) for one in (start, *plain[1:])]
            nodes = (self.draft.node(op, arguments, attrs) for attrs in alternatives(op, shapes))
            node = next(filter(None, nodes), None)
            if node:
                return node
        return None


@cache
def _stride(count: int) -> int:
    """A stride near the golden section of `count` that visits every place."""
    return next(stride for stride in range(max(1, round(0.618 * count)), 2 * count + 2) if gcd(stride, count) == 1)
