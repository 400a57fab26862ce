"""Running a graph with TensorFlow: at one point, or at many points in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.perturbation import UNIT, perturbed
from gradcheck.autodiff.reverse import Tensors, pulled_back, watched
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import Graph, Node
from gradcheck.hunt.opspec import FIELD, Form, OpSpec, attribute_names

Array = np.ndarray[Any, Any]


@cache
def compiled(form: Form, arity: int) -> Callable[..., Any]:
    """The callable of a text, arguments by position, attributes by keyword; a function as it is."""
    if not isinstance(form, str):
        return form
    names = attribute_names(form)
    arguments = [f"_{position}" for position in range(arity)]
    signature = ", ".join([*arguments, "*", *names] if names else arguments)
    body = FIELD.sub(lambda match: f"_{match[1]}" if match[1].isdigit() else match[1], form)
    function: Callable[..., Any] = eval(f"lambda {signature}: {body}", {"tf": tf, "np": np})
    return function


def single(spec: OpSpec, *, reference: bool = False) -> Callable[..., Any]:
    """The operation itself (or its reference) on one point."""
    return compiled(spec.reference if reference and spec.reference else spec.source, spec.arity)


def over_points(spec: OpSpec, *, reference: bool = False) -> Callable[..., Any]:
    """The operation on arguments with a leading dimension of points."""
    if reference and spec.reference:
        return compiled(spec.reference, spec.arity)
    if spec.looped:
        return _loop(compiled(spec.source, spec.arity))
    return compiled(spec.batched or spec.source, spec.arity)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **attributes: Any) -> Any:
        rows = [tf.unstack(argument) for argument in arguments]
        return tf.stack([function(*row, **attributes) for row in zip(*rows, strict=True)])

    return run


@dataclass(frozen=True)
class RandomPerturbation:
    """Random-rounding perturbation (CESTAC; Vignes 1993) of the values and cotangents that pass between nodes.

    Each moves by one unit in the last place, up or down, as `seed` draws it. Digits that an inner value has lost show
    up, which perturbed inputs do not show (asin(sigmoid(31))), and so do terms that cancel where a value is used twice.
    What a node does inside stays as it is: a formula that loses digits by itself is under test. Zeros stay zeros; so do
    the values at `exempt` positions, on which a tie may rest.
    """

    seed: int
    exempt: frozenset[int] = frozenset()

    def of(self, position: int, value: Any, unit: float) -> Any:
        """The value of a node, whose kernel rounds by `unit`; points of a leading dimension all round alike."""
        return value if position in self.exempt else perturbed(value, self._generator(position), max(UNIT, unit))

    def argument(self, position: int, parent: int, value: Any) -> Any:
        """A value as the argument of a node: the same, but the cotangent that comes back is perturbed."""

        def passed(tensor: Any) -> Any:
            return tf.identity(tensor), lambda cotangent: perturbed(cotangent, self._generator(position, 1 + parent))

        return tf.custom_gradient(passed)(value)

    def _generator(self, *place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *place))


def forward(
    graph: Graph, inputs: Sequence[Any], *, reference: bool = False, perturbation: RandomPerturbation | None = None
) -> list[Any]:
    """The tensors at all positions of the graph, the inputs first; `reference` takes the catalogue's references.

    The inputs are tensors of the shapes and dtypes that the graph's literals have. What an operation raises is raised.
    """
    return _evaluated(graph, inputs, single, reference, perturbation)


def forward_points(
    graph: Graph, inputs: Sequence[Any], *, reference: bool = True, perturbation: RandomPerturbation | None = None
) -> list[Any]:
    """The same for inputs that carry a leading dimension of points; row 0 is the unperturbed point."""
    return _evaluated(graph, inputs, over_points, reference, perturbation)


def values_of(graph: Graph) -> list[Array]:
    """The values at all positions of the graph, at its literal inputs."""
    return [value.numpy() for value in forward(graph, [tf.constant(literal.array()) for literal in graph.inputs])]


def _evaluated(
    graph: Graph,
    inputs: Sequence[Any],
    callable_of: Callable[..., Callable[..., Any]],
    reference: bool,
    perturbation: RandomPerturbation | None,
) -> list[Any]:
    values = list(inputs)
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        arguments = _arguments(values, position, node, perturbation)
        if callable_of is over_points and spec.broadcasts:
            arguments = _aligned(arguments)
        value = callable_of(spec, reference=reference)(*arguments, **node.attributes)
        values.append(value if perturbation is None else perturbation.of(position, value, _unit(spec, reference)))
    return values


def _arguments(values: list[Any], position: int, node: Node, perturbation: RandomPerturbation | None) -> list[Any]:
    arguments = [values[parent] for parent in node.parents]
    if perturbation is None:
        return arguments
    # A value that a node takes twice stays one tensor, which its gradient may ask for.
    passed = {parent: perturbation.argument(position, parent, values[parent]) for parent in node.parents}
    return [passed[parent] for parent in node.parents]


def _unit(spec: OpSpec, reference: bool) -> float:
    """The relative rounding of the kernel that runs; references run in float64."""
    return 0.0 if reference and spec.reference else spec.rtol


def _aligned(arguments: list[Any]) -> list[Any]:
    rank = max(len(argument.shape) for argument in arguments)
    return [
        argument
        if len(argument.shape) == rank
        else tf.reshape(argument, [argument.shape[0], *[1] * (rank - len(argument.shape)), *argument.shape[1:]])
        for argument in arguments
    ]


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
