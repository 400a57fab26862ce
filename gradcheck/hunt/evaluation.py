"""Running a graph with TensorFlow: at one point, or at many points in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import Tensors, pulled_back, watched
from gradcheck.graph import Attributes, Graph, Input, Node
from gradcheck.numerics.sampling import EPS64
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Formula, OpSpec
from gradcheck.problem.mapped import Mapped, as_array
from gradcheck.tracing.perturbation import UNIT, perturbed
from gradcheck.typing import Array


def single(spec: OpSpec) -> Formula:
    """The operation itself on one point."""
    if not spec.in_batch:
        return spec.source

    def of_one(*arguments: Any, **attributes: Any) -> Any:
        return spec.source(*(argument[tf.newaxis] for argument in arguments), **attributes)[0]

    return of_one


def point_by_point(spec: OpSpec, *, reference: bool = True) -> bool:
    """Whether an operation is evaluated at one point after the other; its `reference`, if it has one, is not."""
    return spec.looped and not (reference and spec.reference is not None)


def in_batches(graph: Graph) -> bool:
    """Whether no operation of the graph is evaluated at one point after the other."""
    return not any(point_by_point(CATALOGUE[node.op]) for node in graph.nodes)


def over_points(spec: OpSpec, *, reference: bool = False) -> Formula:
    """The operation, or its reference if it has one, on arguments with a leading dimension of points."""
    if not point_by_point(spec, reference=reference):
        return (spec.reference if reference else None) or spec.batched or spec.source
    function = single(spec)

    def looped(*arguments: Any, **attributes: Any) -> Any:
        rows = [tf.unstack(argument) for argument in arguments]
        return tf.stack([function(*row, **attributes) for row in zip(*rows, strict=True)])

    return looped


@lru_cache(maxsize=128)
def _mapped(spec: OpSpec, attrs: Attributes, shapes: tuple[tuple[int, ...], ...]) -> Mapped:
    """An operation that has no form for points, mapped over points whose tensors have these shapes."""
    return Mapped(lambda tensors: [single(spec)(*tensors, **dict(attrs))], max(EPS64, spec.rtol))


def _values_at_each(node: Node, arguments: Sequence[Any]) -> Any:
    """The stacked values of such an operation at points, one by one or, where that pays, by a graph.

    Raises InvalidArgumentError where there is none at some point, or where they differ in shape.
    """
    points = [as_array(argument) for argument in arguments]
    found = _mapped(CATALOGUE[node.op], node.attrs, tuple(array.shape[1:] for array in points))(points)
    values = [value[0] for value in found if value is not None]
    if len(values) < len(found) or len({value.shape for value in values}) > 1:
        raise tf.errors.InvalidArgumentError(None, None, f"{node.op} has no value of the same shape at all points")
    return tf.constant(np.stack(values))


SLOW = 0.005
"""The gradients of a graph that is evaluated at one point after the other are mapped once they take so many seconds a
point: an own operation in Python may take a thousand times as long as a kernel, and a closer look a thousand points."""


@dataclass
class GradientsAtEach:
    """The gradients of <w, y> of a graph at points, one by one or, where that pays, by a graph of TensorFlow.

    `slow` says whether they have been, in one batch.
    """

    mapped: Mapped
    slow: bool = False

    def __call__(self, inputs: Sequence[Any], weight: Any) -> list[Array] | None:
        """The stacked gradients of the inputs; None where there is none at some point, or unless they are slow."""
        if not self.slow:
            return None
        found = self.mapped([as_array(one) for one in inputs], [weight])
        values = [value for value in found if value is not None]
        return list(map(np.stack, zip(*values, strict=True))) if len(values) == len(found) else None

    def took(self, seconds: float, points: int) -> None:
        """Records how long the gradients at so many points took."""
        self.slow = self.slow or seconds > SLOW * points


def gradients_at_each(graph: Graph) -> GradientsAtEach | None:
    """Such gradients of graphs that differ in the elements of their inputs alone; None for one of batches."""
    specs = tuple(CATALOGUE[node.op] for node in graph.nodes)
    if not any(map(point_by_point, specs)) or any(spec.reference is not None for spec in specs):
        return None
    zeros = tuple(Input(one.shape, (0.0,) * len(one.values), one.dtype) for one in graph.inputs)
    return _gradients_at_each(Graph(zeros, graph.nodes), specs)


@lru_cache(maxsize=64)
def _gradients_at_each(graph: Graph, specs: tuple[OpSpec, ...]) -> GradientsAtEach:
    def gradients(inputs: list[Any], weight: Any) -> list[Any]:
        tape, values = watched(lambda given: forward(graph, given), inputs)
        parts = tape.gradient(values[-1], inputs, output_gradients=weight)
        pairs = zip(parts, inputs, strict=True)
        return [tf.zeros_like(one) if part is None else tf.convert_to_tensor(part) for part, one in pairs]

    return GradientsAtEach(Mapped(gradients, max(EPS64, *(spec.rtol for spec in specs))))


@dataclass(frozen=True)
class RandomPerturbation:
    """Random-rounding perturbation (CESTAC; Vignes 1993) of the values and cotangents that pass between nodes.

    Each moves by one unit in the last place, up or down, as `seed` draws it. Digits that an inner value has lost show
    up, which perturbed inputs do not show (asin(sigmoid(31))), and so do terms that cancel where a value is used twice.
    What a node does inside stays as it is: a formula that loses digits by itself is under test. Only values that are
    known to be what larger terms left move as these are rounded, and what a kernel has `lost`, by position, is lost by
    it again. Zeros stay zeros else; so do the values at `exempt` positions, on which a tie may rest. One unit is
    `unit`, or that of a coarser kernel.
    """

    seed: int
    exempt: frozenset[int] = frozenset()
    unit: float = UNIT
    lost: Mapping[int, Array] = field(default_factory=dict)

    def value(self, position: int, value: Any, spec: OpSpec, *, referenced: bool = False) -> Any:
        """The value of a node as its kernel rounds it, and the terms that left it; or as its reference does.

        Points of a leading dimension all round alike.
        """
        if position in self.exempt:
            return value
        unit = self.unit if referenced else max(self.unit, spec.rtol)
        moved = perturbed(value, self._generator(position), unit)
        if position in self.lost and not referenced:
            signs = self._generator(position).choice([-1.0, 1.0], size=self.lost[position].shape)
            moved += tf.cast(signs * self.lost[position], value.dtype)
        if not spec.terms:
            return moved
        ones = tf.ones_like(value)
        lost = spec.terms * (perturbed(ones, self._generator(position), unit) - ones)
        return moved + tf.where(value == 0, tf.zeros_like(value), lost)

    def arguments(self, position: int, parents: Sequence[int], values: Sequence[Any]) -> list[Any]:
        """The arguments of a node: values as they are, but the cotangents that come back are perturbed."""

        def passed(parent: int) -> Any:
            def identity(value: Any) -> Any:
                return tf.identity(value), lambda back: perturbed(
                    back, self._generator(position, 1 + parent), self.unit
                )

            return tf.custom_gradient(identity)(values[parent])

        # A value that a node takes twice stays one tensor, which its gradient may ask for.
        taken = {parent: passed(parent) for parent in parents}
        return [taken[parent] for parent in parents]

    def _generator(self, *place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *place))


def forward(
    graph: Graph,
    inputs: Sequence[Any],
    *,
    points: bool = False,
    reference: bool = True,
    perturbation: RandomPerturbation | None = None,
    recorded: bool = True,
) -> list[Any]:
    """The tensors at all positions of the graph, the inputs first.

    The inputs are tensors of the shapes and dtypes that the graph's literals have. With `points` they carry a leading
    dimension of points, of which row 0 is the unperturbed one, and the catalogue's references are taken (unless not
    `reference`) where there are any. What an operation raises is raised. Not `recorded`: only the values are wanted.
    """
    values = list(inputs)
    anchored = points and reference and any(CATALOGUE[node.op].reference is not None for node in graph.nodes)
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        arguments = [values[parent] for parent in node.parents]
        if perturbation is not None and recorded:
            arguments = perturbation.arguments(position, node.parents, values)
        if points and spec.broadcasts:
            arguments = _aligned(arguments)
        if points and not recorded and perturbation is None and point_by_point(spec, reference=reference):
            values.append(_values_at_each(node, arguments))
            continue
        operation = over_points(spec, reference=reference) if points else single(spec)
        value = operation(*arguments, **node.attributes)
        if perturbation is not None:
            referenced = points and reference and spec.reference is not None
            moved = perturbation.value(position, value, spec, referenced=referenced)
            # A reference says by how much a point differs from row 0: had that moved alike, it would say by nothing.
            value = tf.concat([value[:1], moved[1:]], axis=0) if anchored else moved
        values.append(value)
    return values


def _aligned(arguments: list[Any]) -> list[Any]:
    """Arguments of points, with dimensions of one behind the leading one where others have a higher rank."""
    rank = max(len(argument.shape) for argument in arguments)
    return [
        tf.reshape(argument, [argument.shape[0], *[1] * (rank - len(argument.shape)), *argument.shape[1:]])
        if len(argument.shape) < rank
        else argument
        for argument in arguments
    ]


def values_of(graph: Graph) -> tuple[Array, ...]:
    """The values at all positions of the graph, at its literal inputs."""
    return tuple(value.numpy() for value in forward(graph, [tf.constant(literal.array()) for literal in graph.inputs]))


class TapedEvaluation:
    """One evaluation under a tape. `values` are those at all positions, the inputs first.

    The tape is not persistent, as that of someone who wants one gradient: it gives one. What an operation raises is
    raised.
    """

    def __init__(self, graph: Graph) -> None:
        self._inputs = [tf.constant(literal.array()) for literal in graph.inputs]
        self._tape, tensors = watched(lambda inputs: forward(graph, inputs), self._inputs)
        self._output = tensors[-1]
        self.values: tuple[Array, ...] = tuple(tensor.numpy() for tensor in tensors)

    def gradient(self, cotangent: Any) -> Tensors | None:
        """The gradient of <cotangent, output>, a tensor or None an input; None if the tape is used up.

        Raises DerivativeRaisedError where the backward pass throws.
        """
        if self._tape is None:
            return None
        tape, self._tape = self._tape, None
        return pulled_back(tape, [self._output], self._inputs, [cotangent])
