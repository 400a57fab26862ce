"""Interpret a traced graph, operation by operation, through calls, loops, branches and custom gradients.

So functions run that have no Python code, such as those of a saved model; `retraced` runs others in float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry, ops
from tensorflow.python.ops import control_flow_util_v2

from gradcheck.tracing.kernels import BRANCHES, CALLING, CALLS, CONDITIONALS, GIVEN, LOOPS
from gradcheck.tracing.operation import run_node

CUSTOM = "CustomGradient-"
"""Prefix of the names of gradients under tf.custom_gradient; TensorFlow attaches them to an IdentityN."""

OF_GRAPH = "a custom gradient of the saved function"
"""The name of a function under tf.custom_gradient that exists only as a graph."""


Inside = Callable[[str], AbstractContextManager[Any]]
"""Notes that the block runs this node of a graph, described in words."""


class GraphInterpreter:
    """Runs graphs eagerly, as they are, on tensors and handles of variables; `inside` gets the name of each operation.

    A subclass may run operations, loops, branches and custom gradients in another way, on values of another kind. Known
    values are in a dictionary, by the references of the graph's tensors.
    """

    ordered = True
    """Whether operations run that others have to wait for although they need no output of them."""

    def __init__(self, inside: Inside = nullcontext) -> None:
        self._inside = inside

    def run(self, graph: Any, inputs: Sequence[Any], count: int | None = None) -> list[Any]:
        """Return all outputs of a graph, or `count`, for values in place of its inputs."""
        return self._values(graph, graph.outputs[:count], by_tensor(graph.inputs, inputs), self._effects(graph))

    def structured_outputs(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """Return the outputs in the structure that the function returns. Raises what the operations raise."""
        structured = graph.structured_outputs
        leaves = tf.nest.flatten(structured, expand_composites=True)
        # The returned tensors are followed by tensors for the gradient.
        values = iter(self.run(graph, inputs, sum(leaf is not None for leaf in leaves)))
        return tf.nest.pack_sequence_as(
            structured, [None if leaf is None else next(values) for leaf in leaves], expand_composites=True
        )

    def _values(self, graph: Any, targets: Sequence[Any], known: dict[Any, Any], also: Sequence[Any] = ()) -> list[Any]:
        """Compute tensors of a graph, and run `also` other operations; everything between is added to `known`."""
        for op in needed(graph, targets, known, also, ordered=self.ordered):
            inputs = [known[tensor.ref()] for tensor in op.inputs]
            if op.type in CALLS:
                (body,) = called_graphs(op)
                results = self.run(body, inputs)
            elif op.type in LOOPS:
                condition, body = called_graphs(op)
                results = self._loop(condition, body, inputs)
            elif op.type in BRANCHES:
                results = self._branch(op, *inputs)
            else:
                results = self._custom(op, inputs, known) if is_custom(op) else self._single(op, inputs)
            known |= by_tensor(op.outputs, results)
        return [known[tensor.ref()] for tensor in targets]

    def _gradients(self, op: Any, gradients: Sequence[Any], known: dict[Any, Any]) -> list[Any]:
        """Compute tensors in the graph of an operation; None for None."""
        found = iter(self._values(op.graph, [one for one in gradients if one is not None], known))
        return [None if one is None else next(found) for one in gradients]

    def _effects(self, graph: Any) -> Sequence[Any]:
        """The operations that run although no output needs them."""
        return list(graph.control_outputs)

    def _single(self, op: Any, inputs: list[Any]) -> list[Any]:
        with self._inside(_named(op)):
            return run_node(op, inputs)

    def _loop(self, condition: Any, body: Any, inputs: list[Any]) -> list[Any]:
        while tf.cast(self.run(condition, inputs)[0], tf.bool):
            inputs = self.run(body, inputs)
        return inputs

    def _branch(self, op: Any, chosen: Any, *inputs: Any) -> list[Any]:
        (graph,) = called_graphs(op, "then_branch" if tf.cast(chosen, tf.bool) else "else_branch")
        return self.run(graph, inputs)

    def _custom(self, op: Any, inputs: list[Any], known: dict[Any, Any]) -> list[Any]:
        """Run a function under tf.custom_gradient, whose operation takes its results first, then its arguments.

        The function is the part of the graph between the two; its gradient is the one in the graph, which is None for
        the results.
        """
        with self._inside(_named(op)):
            graph, (placeholders, gradients, captured) = op.graph, gradient_in_graph(op)
            count = next((number for number, one in enumerate(gradients) if one is not None), len(gradients))
            results, arguments = op.inputs[:count], op.inputs[count:]
            between = needed(graph, results, by_tensor(arguments, arguments), ordered=True)
            made = {output.ref() for one in between for output in one.outputs}
            outside = {ref: value for ref, value in known.items() if ref not in made}

            def function(*values: Any) -> Any:
                own = outside | by_tensor(arguments, values)
                found = self._values(graph, results, own)
                copied = self._values(graph, [_counterpart(graph, outer) for outer, _ in captured], own)
                own |= by_tensor((inner for _, inner in captured), copied)

                def gradient(*cotangents: Any) -> list[Any]:
                    rest = (tf.zeros(one.shape, one.dtype) for one in placeholders[count:])
                    return self._gradients(op, gradients[count:], own | by_tensor(placeholders, (*cotangents, *rest)))

                return found, gradient

            function.__name__ = function.__qualname__ = OF_GRAPH
            return [*tf.custom_gradient(function)(*inputs[count:]), *([None] * len(arguments))]


def by_tensor(tensors: Iterable[Any], values: Iterable[Any]) -> dict[Any, Any]:
    """Return values by the references of tensors."""
    return {tensor.ref(): value for tensor, value in zip(tensors, values, strict=True)}


def needed(
    graph: Any, targets: Sequence[Any], known: Mapping[Any, Any], also: Sequence[Any] = (), *, ordered: bool = False
) -> list[Any]:
    """The operations between known tensors and the targets, and `also` others, in the order of the trace.

    If `ordered`, those that have to run before them as well.
    """
    waiting = [tensor.op for tensor in targets if tensor.ref() not in known] + list(also)
    found = set()
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs if tensor.ref() not in known]
            waiting += op.control_inputs if ordered else []
    return [op for op in graph.get_operations() if op in found and op.type != "Placeholder"]


def called_graphs(op: Any, *attributes: str) -> list[Any]:
    """Make the graphs of the functions that an operation calls, or of those in some of its attributes, in order."""
    return [control_flow_util_v2.get_func_graph(op, None, name) for name in _called_names(op, *attributes)]


def graphs_with_lines(op: Any) -> list[Any]:
    """The graphs of the functions that an operation calls, as they were traced, with the lines of their operations."""
    traced = [op.graph._get_function(name) for name in _called_names(op)]
    return [one.graph for one in traced] if all(hasattr(one, "graph") for one in traced) else called_graphs(op)


def _called_names(op: Any, *attributes: str) -> list[str]:
    """The names of the functions that an operation calls, or of those in some of its attributes, in order."""
    attributes = attributes or tuple(CALLING.get(op.type, ()))
    return [one.name for attribute in attributes for one in tf.nest.flatten(op.get_attr(attribute))]


def is_custom(op: Any) -> bool:
    """Whether an operation attaches the gradient of a function under tf.custom_gradient."""
    given = op.node_def.attr.get("_gradient_op_type") if op.type == "IdentityN" else None
    return given is not None and given.s.decode().startswith(CUSTOM)


def gradient_in_graph(op: Any) -> tuple[list[Any], list[Any], list[tuple[Any, Any]]]:
    """Return placeholders for the cotangents of such an operation, and the gradients (or None) of its inputs.

    Both are added to its graph. The third value pairs tensors from outside that the gradient captured with placeholders
    for them, which do not become inputs of the graph. Raises what the gradient function raises when it is traced.
    """
    graph, count, before = op.graph, len(op.graph.inputs), {id(inner) for _, inner in op.graph.captures}
    with graph.as_default():
        cotangents = [tf.compat.v1.placeholder(tensor.dtype, tensor.shape) for tensor in op.outputs]
        taken = ops.gradient_registry.lookup(op.get_attr("_gradient_op_type").decode())(op, *cotangents)
        gradients = [None if one is None else tf.convert_to_tensor(one) for one in taken]
    captured = [(outer, inner) for outer, inner in graph.captures if id(inner) not in before]
    for outer, _ in captured:
        graph.function_captures.pop(id(outer), False)
    del graph.inputs[count:]
    return cotangents, gradients, captured


def straight(graph: Any) -> bool:
    """Whether a graph runs the same operations at all inputs, on tensors of the same shapes, each by itself.

    It has no functions that it calls, no loops, no branches and no custom gradients.
    """
    return all(
        op.type not in CALLING
        and not is_custom(op)
        and all(tensor.shape.is_fully_defined() for tensor in op.outputs if tensor.dtype != tf.resource)
        for op in graph.get_operations()
    )


def walkable(graph: Any) -> bool:
    """Whether every operation of a graph, and of the graphs that it calls, can run by itself."""
    looked_into = CALLS | LOOPS | CONDITIONALS
    return all(
        all(map(walkable, called_graphs(op))) if op.type in looked_into else op.type in GIVEN or _is_single(op)
        for op in graph.get_operations()
    )


def _is_single(op: Any) -> bool:
    """Whether it is an operation of TensorFlow that calls no function, with its own gradient or a custom one."""
    definition = op_def_registry.get(op.type)
    plain = definition is not None and not any("func" in one.type for one in definition.attr)
    return plain and ("_gradient_op_type" not in op.node_def.attr or is_custom(op))


def _counterpart(graph: Any, tensor: Any) -> Any:
    """The tensor of a graph that corresponds to this one of a copy of it."""
    for own, other in zip(graph.inputs, tensor.graph.inputs, strict=False):
        if other is tensor:
            return own
    return graph.get_tensor_by_name(tensor.name)


def _named(op: Any) -> str:
    """A node and the function that it belongs to, in words."""
    traced = re.fullmatch(r"(?:__(?:forward|inference)_)?(.+?)(?:_\d+)?", op.graph.name)
    name = traced[1] if traced else op.graph.name
    return f"the node {op.name} of the function {name}, whose own lines are not in its graph"
