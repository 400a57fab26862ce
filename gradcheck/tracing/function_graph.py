"""Run a traced function without Python code, such as one of a saved model, operation by operation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from gradcheck.tracing.kernels import CALLS, CONDITIONALS, GIVEN, LOOPS
from gradcheck.tracing.retraced import called_graph, gradient_in_graph, needed
from gradcheck.tracing.single_operation import run_alone


class Inside(Protocol):
    """Notes that the block runs this node of a graph, described in words."""

    def __call__(self, node: str, /) -> AbstractContextManager[None]: ...


def walkable(graph: Any) -> bool:
    """Whether every operation of a graph, and of the graphs that it calls, can run by itself."""
    return all(
        all(map(walkable, _called(op))) if _called(op) else op.type in GIVEN or _simple(op)
        for op in graph.get_operations()
    )


def _simple(op: Any) -> bool:
    """Whether it is an operation of TensorFlow that calls no function."""
    definition = op_def_registry.get(op.type)
    return definition is not None and not any("func" in one.type for one in definition.attr)


class EagerGraph:
    """Runs a graph eagerly on tensors in place of its inputs; `inside` gets the name of each operation."""

    def __init__(self, graph: Any, inside: Inside) -> None:
        self.graph, self._inside = graph, inside

    def outputs(self, inputs: Sequence[Any], count: int | None = None) -> list[Any]:
        """Return all outputs, or `count`, for tensors and handles of variables. Raises what the operations raise."""
        known = {tensor.ref(): value for tensor, value in zip(self.graph.inputs, inputs, strict=True)}
        return self._values(self.graph.outputs[:count], known, self.graph.control_outputs)

    def structured_outputs(self, inputs: Sequence[Any]) -> Any:
        """Return the outputs in the structure that the function returns."""
        structured = self.graph.structured_outputs
        leaves = tf.nest.flatten(structured, expand_composites=True)
        # The returned tensors are followed by tensors for the gradient.
        values = iter(self.outputs(inputs, sum(leaf is not None for leaf in leaves)))
        return tf.nest.pack_sequence_as(
            structured, [None if leaf is None else next(values) for leaf in leaves], expand_composites=True
        )

    def _values(self, targets: Sequence[Any], known: dict[Any, Any], also: Sequence[Any] = ()) -> list[Any]:
        for op in needed(self.graph, targets, known, also, control=True):
            values = self._run(op, known)
            known |= {output.ref(): value for output, value in zip(op.outputs, values, strict=False)}
        return [known[target.ref()] for target in targets]

    def _run(self, op: Any, known: dict[Any, Any]) -> list[Any]:
        inputs = [known[tensor.ref()] for tensor in op.inputs]
        if op.type in CALLS:
            return self._within(op, "f", inputs)
        if op.type in CONDITIONALS:
            chosen, *rest = inputs
            return self._within(op, "then_branch" if tf.cast(chosen, tf.bool) else "else_branch", rest)
        if op.type in LOOPS:
            while tf.cast(self._within(op, "cond", inputs)[0], tf.bool):
                inputs = self._within(op, "body", inputs)
            return inputs
        with self._inside(_named(op)):
            if "_gradient_op_type" in op.node_def.attr:
                return self._custom(op, known)
            return run_alone(op, inputs)

    def _within(self, op: Any, attribute: str, inputs: Sequence[Any]) -> list[Any]:
        return EagerGraph(_function(op, attribute), self._inside).outputs(inputs, len(op.outputs) or None)

    def _custom(self, op: Any, known: dict[Any, Any]) -> list[Any]:
        """Run a function under tf.custom_gradient, whose operation takes its results first, then its arguments.

        The function is the part of the graph between the two; its gradient is the one in the graph, which is None for
        the results.
        """
        placeholders, gradients, captured = _backward(op)
        count = next((number for number, one in enumerate(gradients) if one is not None), len(gradients))
        arguments = op.inputs[count:]
        between = needed(self.graph, op.inputs[:count], {one.ref(): None for one in arguments}, control=True)
        made = {output.ref() for one in between for output in one.outputs}
        outside = {ref: value for ref, value in known.items() if ref not in made}

        def function(*values: Any) -> Any:
            own = {**outside, **{one.ref(): value for one, value in zip(arguments, values, strict=True)}}
            results = self._values(op.inputs[:count], own)
            held = self._values([tensor for tensor, _ in captured], own)
            own |= {inner.ref(): value for (_, inner), value in zip(captured, held, strict=True)}

            def gradient(*cotangents: Any) -> list[Any]:
                pairs = zip(placeholders, cotangents, strict=False)
                rest = [tf.zeros(one.shape, one.dtype) for one in placeholders[count:]]
                reached = {one.ref(): value for one, value in (*pairs, *zip(placeholders[count:], rest, strict=True))}
                found = [None if one is None else self._values([one], {**own, **reached})[0] for one in gradients]
                return found[count:]

            return results, gradient

        function.__name__ = function.__qualname__ = OF_GRAPH
        return [*tf.custom_gradient(function)(*(known[one.ref()] for one in arguments)), *([None] * len(arguments))]


OF_GRAPH = "a custom gradient of the saved function"
"""The name of a function under tf.custom_gradient that exists only as a graph."""


def _backward(op: Any) -> tuple[list[Any], list[Any], list[tuple[Any, Any]]]:
    """Return placeholders for the cotangents of an operation, and the gradients (or None) of its inputs, in its graph.

    The third value pairs tensors of the graph that the gradient captured from a copy of it with their placeholders.
    """
    graph, before = op.graph, {id(inner) for _, inner in op.graph.captures}
    cotangents, gradients = gradient_in_graph(op)
    found = [(outer, inner) for outer, inner in graph.captures if id(inner) not in before]
    for outer, _ in found:
        graph.function_captures.pop(id(outer), False)
    return cotangents, gradients, [(_counterpart(graph, outer), inner) for outer, inner in found]


def _counterpart(graph: Any, tensor: Any) -> Any:
    """The tensor of a graph that corresponds to this one of a copy of it."""
    for own, other in zip(graph.inputs, tensor.graph.inputs, strict=False):
        if other is tensor:
            return own
    return graph.get_tensor_by_name(tensor.name)


def _called(op: Any) -> list[Any]:
    """The graphs that an operation calls."""
    return [_function(op, name) for name in _attributes(op)]


def _attributes(op: Any) -> Iterator[str]:
    if op.type in CALLS:
        yield "f"
    elif op.type in CONDITIONALS:
        yield from ("then_branch", "else_branch")
    elif op.type in LOOPS:
        yield from ("cond", "body")


def _function(op: Any, attribute: str) -> Any:
    return called_graph(op, op.get_attr(attribute))


def _named(op: Any) -> str:
    """A node and the function that it belongs to, in words."""
    traced = re.fullmatch(r"(?:__(?:forward|inference)_)?(.+?)(?:_\d+)?", op.graph.name)
    name = traced[1] if traced else op.graph.name
    return f"the node {op.name} of the function {name}, whose own lines are not in its graph"
