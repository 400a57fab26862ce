"""Rebuild a traced computation operation by operation: in float64 in place of less, or with inner values perturbed.

Whatever depends on the inputs is computed in float64: casts to less are left out, and kernels that exist in single
precision only are replaced by the same function in float64. Constants and random numbers keep their values. The formula
is the same, so that its differences show what the rounding of a lower precision hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry, ops

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.tracing.float64_kernels import IN_FLOAT64
from gradcheck.tracing.graph_interpreter import GraphInterpreter, by_tensor, called_graphs, gradient_in_graph
from gradcheck.tracing.kernels import ASSIGNING, BITWISE, CONDITIONALS, EXACT, READING_VALUES
from gradcheck.tracing.operation import WIDER, CannotRunError, Operation, run_node, widened
from gradcheck.tracing.state import advances_random_state

MARK = "rounded_by_gradcheck"
GRADIENT = "CustomGradient-of-rounded"
"""The name of the gradient of operations whose results are perturbed."""

NARROW = {dtype.as_datatype_enum for dtype in WIDER}


@dataclass(frozen=True)
class TraceTensor:
    """The rebuilt form of a tensor of the trace: its value, and whether that depends on the inputs."""

    value: Any
    moved: bool

    @property
    def wide(self) -> Any:
        """The value in float64 (complex128) if it is in less, else unchanged."""
        return widened(self.value)


class Retraced(GraphInterpreter):
    """A traced graph rebuilt in float64 inside the current graph, or run eagerly.

    With a `seed` (2,) every inner value moves up or down by a unit in the last place of the precision in which it was
    traced. `narrow` is the coarsest roundoff among the operations that depend on the inputs, once it was built;
    `same_gradients`: all functions under tf.custom_gradient kept theirs. `drawn` are the random numbers that the
    operations of the graph itself draw, with the names of these, in order.
    """

    ordered = False

    def __init__(self, seed: Any = None, drawn: Sequence[tuple[str, Any]] = ()) -> None:
        super().__init__()
        self._drawn = drawn
        self.narrow = 0.0
        self.same_gradients = True
        self._seed = seed
        self._variables: dict[int, TraceTensor] = {}
        self._given: set[int] = set()
        self._nested = 0
        self._draws = 0

    def outputs(self, graph: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for tensors in place of the graph's inputs; captured tensors keep their values."""
        self._variables = {}
        known = {inner.ref(): TraceTensor(outer, moved=False) for outer, inner in graph.captures}
        explicit = [tensor for tensor in graph.inputs if tensor.ref() not in known]
        given = [TraceTensor(value, moved=True) for value in inputs]
        self._given = {id(one) for one in given}
        known |= by_tensor(explicit, given) | self._random_numbers(graph)
        return [one.wide for one in self._values(graph, graph.outputs, known, self._effects(graph))]

    def _random_numbers(self, graph: Any) -> dict[Any, TraceTensor]:
        """The drawn numbers, by the tensors of the operations that draw; empty if the operations do not match.

        A call that computes its value several times from one state draws the same numbers each time.
        """
        operations = filter(lambda op: advances_random_state(op.type), graph.get_operations())
        drawing = [tensor for op in operations for tensor in op.outputs]
        times = len(self._drawn) // max(len(drawing), 1)
        pairs = list(zip(drawing * times, self._drawn, strict=False))
        repeated = zip(self._drawn, self._drawn[len(drawing) :], strict=False)
        if len(pairs) != len(self._drawn) or not all(np.array_equal(one, other) for (_, one), (_, other) in repeated):
            return {}
        if any(
            (tensor.op.type, tensor.dtype) != (name, value.dtype) or not tensor.shape.is_compatible_with(value.shape)
            for tensor, (name, value) in pairs
        ):
            return {}
        return {tensor.ref(): TraceTensor(value, moved=False) for tensor, (_, value) in pairs}

    def _effects(self, graph: Any) -> Sequence[Any]:
        """The operations that assign variables, since others may read these."""
        return [op for op in graph.get_operations() if op.type in ASSIGNING]

    def _custom(self, op: Any, inputs: list[TraceTensor], known: dict[Any, TraceTensor]) -> list[TraceTensor]:
        """Rebuild the results of a function under tf.custom_gradient together with its gradient function.

        The gradient is left behind where it cannot be traced, or needs a variable, or tensors of another graph (of a
        function that was traced before), and for perturbed values.
        """
        moved = any(one.moved for one in inputs)
        try:
            if not moved or self._seed is not None or any(tensor.dtype == tf.resource for tensor in op.inputs):
                raise CannotRunError(op.type)
            placeholders, gradients, captured = gradient_in_graph(op)
            if captured:
                raise CannotRunError(op.type)
        except Exception:  # whatever a second trace raises
            self.same_gradients &= not moved
            return self._single(op, inputs)

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def redefined(*values: Any) -> Any:
            def gradient(*cotangents: Any) -> list[Any]:
                given = by_tensor(placeholders, (TraceTensor(value, moved=True) for value in cotangents))
                found = self._gradients(op, gradients, known | given)
                return [None if one is None else one.wide for one in found]

            return [tf.identity(value) for value in values], gradient

        values = redefined(*(one.wide for one in inputs))
        return [TraceTensor(value, one.moved) for value, one in zip(values, inputs, strict=True)]

    def _single(self, op: Any, inputs: list[TraceTensor]) -> list[TraceTensor]:
        """Rebuild an operation, in float64 if it depends on the inputs."""
        if op.type in READING_VALUES or op.type in ASSIGNING:
            return self._variable(op, *inputs)
        # A list is empty when it is made; its elements come to depend on the inputs later.
        moved = op.type.startswith(("TensorList", "EmptyTensorList")) or any(one.moved for one in inputs)
        if moved and any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in op.inputs):
            self.narrow = max([self.narrow, *(ROUNDOFF.get(tensor.dtype.name, 0.0) for tensor in op.outputs)])
        rounds = moved and self._seed is not None and op.type not in EXACT
        values = self._widely(op, inputs, rounds) if moved else run_node(op, [one.value for one in inputs])
        if rounds:
            values = [self._rounded(value, tensor.dtype) for value, tensor in zip(values, op.outputs, strict=True)]
        return [TraceTensor(value, moved) for value in values]

    def _widely(self, op: Any, inputs: list[TraceTensor], rounds: bool) -> list[Any]:
        definition = op_def_registry.get(op.type)
        if op.type in BITWISE or definition is None or definition.is_stateful:
            raise CannotRunError(op.type)
        if op.type == "Cast" and op.inputs[0].dtype.is_floating and op.outputs[0].dtype.is_floating:
            return [inputs[0].wide]
        operation = Operation.of(op.node_def)
        narrow = [one.definition.type in NARROW for one in operation.arguments]
        pairs = list(zip(inputs, narrow, strict=True))
        if any(one.moved and fixed for one, fixed in pairs):
            raise CannotRunError(op.type)
        if op.type in IN_FLOAT64:
            return IN_FLOAT64[op.type](op, [one.wide for one in inputs])
        gradient = GRADIENT if rounds and _has_gradient(op.type) else ""
        values = operation.in_float64([one.value if fixed else one.wide for one, fixed in pairs], gradient)
        if any(value.dtype in WIDER for value in values):
            raise CannotRunError(op.type)
        return values

    def _variable(self, op: Any, handle: TraceTensor, *operands: TraceTensor) -> list[TraceTensor]:
        """Read or assign values that are kept here: outside, nothing is changed, or read twice."""
        resource = handle.value
        if not isinstance(resource, ops.EagerTensor) or (self._nested and op.type in ASSIGNING):
            raise CannotRunError(op.type)
        if op.type == "AssignVariableOp":
            # Assigned values are disconnected, except for the variables that stand for inputs.
            (new,) = operands
            own = new if id(new) in self._given else TraceTensor(tf.stop_gradient(new.value), new.moved)
            self._variables[resource._id] = own
            return []
        if resource._id not in self._variables:
            with tf.init_scope():
                value = tf.raw_ops.ReadVariableOp(resource=resource, dtype=op.get_attr("dtype"))
            self._variables[resource._id] = TraceTensor(value, moved=False)
        kept = self._variables[resource._id]
        if op.type == "ReadVariableOp":
            return [kept]
        moved = kept.moved or operands[0].moved
        old, new = (one.wide if moved else one.value for one in (kept, operands[0]))
        if op.type == "ResourceGather":
            return [TraceTensor(tf.gather(old, new, batch_dims=op.get_attr("batch_dims")), moved)]
        new = tf.stop_gradient(new)  # no tape goes through what is added to a variable
        self._variables[resource._id] = TraceTensor(old + new if "Add" in op.type else old - new, moved)
        return []

    def _carried(self, results: Sequence[TraceTensor]) -> list[Any]:
        """The tensors that a branch or a step passes on, in one precision where they may depend on the inputs."""
        return [one.wide for one in results if one.value.dtype != tf.resource]

    def _bound(self, inputs: Sequence[TraceTensor], values: Sequence[Any]) -> list[TraceTensor]:
        """The inputs with these values; floating ones and lists count as dependent on the inputs."""
        rest = iter(values)
        return [
            one
            if one.value.dtype == tf.resource
            else TraceTensor(value := next(rest), one.moved or not value.dtype.is_integer)
            for one in inputs
        ]

    def _loop(self, condition: Any, body: Any, inputs: list[TraceTensor]) -> list[TraceTensor]:
        shapes = [tensor.shape for tensor in body.inputs if tensor.dtype != tf.resource]
        self._nested += 1
        results = tf.while_loop(
            lambda *values: self.run(condition, self._bound(inputs, values))[0].value,
            lambda *values: self._carried(self.run(body, self._bound(inputs, values))),
            self._carried(inputs),
            shape_invariants=shapes,
        )
        self._nested -= 1
        return self._bound(inputs, tf.nest.flatten(results))

    def _branch(self, op: Any, chosen: TraceTensor, *inputs: TraceTensor) -> list[TraceTensor]:
        branches = [lambda graph=graph: tuple(self._carried(self.run(graph, inputs))) for graph in called_graphs(op)]
        self._nested += 1
        if op.type in CONDITIONALS:
            results = tf.cond(tf.cast(chosen.value, tf.bool), *branches)
        else:
            results = tf.switch_case(chosen.value, branches)
        self._nested -= 1
        return [TraceTensor(value, moved=True) for value in tf.nest.flatten(results)]

    def _rounded(self, value: Any, traced: Any) -> Any:
        """Move a value up or down by a unit in the last place of its dtype in the trace."""
        if traced not in WIDER or value is None:
            return value
        self._draws += 1
        signs = tf.sign(tf.random.stateless_uniform(tf.shape(value), self._seed + self._draws, -1.0, 1.0))
        factor = 1 + 2 * ROUNDOFF[traced.name] * tf.cast(signs, tf.float64)
        return tf.multiply(value, tf.cast(factor, value.dtype), name=MARK)


class _Rounded:
    """An operation with its results rounded, for its gradient function, which may read them, as y * (1 - y)."""

    def __init__(self, op: Any) -> None:
        self._op = op

    @property
    def outputs(self) -> list[Any]:
        return [
            next((user.outputs[0] for user in output.consumers() if MARK in user.name), output)
            for output in self._op.outputs
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)


def _gradient_of_rounded(op: Any, *cotangents: Any) -> Any:
    return ops.gradient_registry.lookup(op.type)(_Rounded(op), *cotangents)


def _has_gradient(kind: str) -> bool:
    try:
        return ops.gradient_registry.lookup(kind) is not None
    except LookupError:
        return False


if not _has_gradient(GRADIENT):  # a module that is loaded again finds its own
    ops.RegisterGradient(GRADIENT)(_gradient_of_rounded)
