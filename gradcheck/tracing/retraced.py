"""Rebuild a traced computation operation by operation: in float64 in place of less, or with inner values perturbed.

Whatever depends on the inputs is computed in float64: casts to less are left out, and kernels that exist in single
precision only are replaced by the same function in float64. Constants and random numbers keep their values. The formula
is the same, so that its differences show what the rounding of a lower precision hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry, ops
from tensorflow.python.ops import control_flow_util_v2

from gradcheck.autodiff.coordinates import ROUNDOFF, WIDE
from gradcheck.tracing.float64_kernels import IN_FLOAT64
from gradcheck.tracing.kernels import ASSIGNING, BITWISE, BRANCHES, CALLS, EXACT, LOOPS, READING_VALUES
from gradcheck.tracing.single_operation import AS_THEY_ARE, run_alone
from gradcheck.tracing.state import advances_random_state

WIDER = {tf.as_dtype(low): tf.as_dtype(wide) for low, wide in WIDE.items()}
ENUMS = {low.as_datatype_enum: wide.as_datatype_enum for low, wide in WIDER.items()}


MARK = "rounded_by_gradcheck"
GRADIENT = "CustomGradient-of-rounded"
"""The name of the gradient of operations whose results are perturbed."""


CUSTOM = "CustomGradient-"
"""Prefix of the names of gradients under tf.custom_gradient; TensorFlow attaches them to an IdentityN."""


class CannotRetraceError(Exception):
    """The computation cannot be rebuilt; the message names the operation at fault."""


@dataclass(frozen=True)
class TraceTensor:
    """The rebuilt form of a tensor of the trace: its value, and whether that depends on the inputs."""

    value: Any
    moved: bool

    @property
    def wide(self) -> Any:
        """The value in float64 (complex128) if it is in less, else unchanged."""
        return tf.cast(self.value, WIDER[self.value.dtype]) if self.value.dtype in WIDER else self.value


class Retraced:
    """A traced graph rebuilt in float64 inside the current graph, or run eagerly.

    With a `seed` (2,) every inner value moves up or down by a unit in the last place of the precision in which it was
    traced. `narrow` is the coarsest roundoff among the operations that depend on the inputs, once it was built;
    `same_gradients`: all functions under tf.custom_gradient kept theirs. `drawn` are the random numbers that the
    operations of the graph itself draw, with the names of these, in order.
    """

    def __init__(self, seed: Any = None, drawn: Sequence[tuple[str, Any]] = ()) -> None:
        self._drawn = drawn
        self.narrow = 0.0
        self.same_gradients = True
        self._seed = seed
        self._variables: dict[int, TraceTensor] = {}
        self._given: set[int] = set()
        self._inside = 0
        self._draws = 0

    def outputs(self, graph: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for tensors in place of the graph's inputs; captured tensors keep their values."""
        self._variables = {}
        known = {inner.ref(): TraceTensor(outer, moved=False) for outer, inner in graph.captures}
        explicit = [tensor for tensor in graph.inputs if tensor.ref() not in known]
        given = [TraceTensor(value, moved=True) for value in inputs]
        self._given = {id(one) for one in given}
        known |= {tensor.ref(): one for tensor, one in zip(explicit, given, strict=True)}
        known |= self._random_numbers(graph)
        return [one.wide for one in self._run(graph, known)]

    def _random_numbers(self, graph: Any) -> dict[Any, TraceTensor]:
        """The drawn numbers, by the tensors of the operations that draw; empty if the operations do not match."""
        operations = filter(lambda op: advances_random_state(op.type), graph.get_operations())
        drawing = [tensor for op in operations for tensor in op.outputs]
        pairs = list(zip(drawing, self._drawn, strict=False))
        if len(drawing) != len(self._drawn) or any(
            (tensor.op.type, tensor.dtype) != (name, value.dtype) or not tensor.shape.is_compatible_with(value.shape)
            for tensor, (name, value) in pairs
        ):
            return {}
        return {tensor.ref(): TraceTensor(value, moved=False) for tensor, (_, value) in pairs}

    def _run(self, graph: Any, known: dict[Any, TraceTensor]) -> list[TraceTensor]:
        assigning = [op for op in graph.get_operations() if op.type in ASSIGNING]
        return self._values(graph, graph.outputs, known, assigning)

    def _values(
        self, graph: Any, targets: Sequence[Any], known: dict[Any, TraceTensor], assigning: Sequence[Any] = ()
    ) -> list[TraceTensor]:
        """Compute tensors of the graph from the known ones, and add everything between to `known`."""
        for op in needed(graph, targets, known, assigning):
            inputs = [known[tensor.ref()] for tensor in op.inputs]
            results = self._redefined(op, inputs, known) if _is_custom(op) else self._operation(op, inputs)
            known |= {tensor.ref(): one for tensor, one in zip(op.outputs, results, strict=True)}
        return [known[tensor.ref()] for tensor in targets]

    def _redefined(self, op: Any, inputs: list[TraceTensor], known: dict[Any, TraceTensor]) -> list[TraceTensor]:
        """Rebuild the results of a function under tf.custom_gradient together with its gradient function.

        The gradient is left behind where it cannot be traced, and for perturbed values.
        """
        moved = any(one.moved for one in inputs)
        backward = _backward(op) if moved and self._seed is None else None
        if backward is None:
            self.same_gradients &= not moved
            return self._operation(op, inputs)
        placeholders, gradients = backward

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def redefined(*values: Any) -> Any:
            def gradient(*cotangents: Any) -> list[Any]:
                given = {
                    one.ref(): TraceTensor(value, moved=True)
                    for one, value in zip(placeholders, cotangents, strict=True)
                }
                taken = [one for one in gradients if one is not None]
                found = iter(self._values(op.graph, taken, {**known, **given}))
                return [None if one is None else next(found).wide for one in gradients]

            return [tf.identity(value) for value in values], gradient

        values = redefined(*(one.wide for one in inputs))
        return [TraceTensor(value, one.moved) for value, one in zip(values, inputs, strict=True)]

    def _operation(self, op: Any, inputs: list[TraceTensor]) -> list[TraceTensor]:
        if op.type in READING_VALUES or op.type in ASSIGNING:
            return self._variable(op, *inputs)
        if op.type in CALLS:
            return self._called(called_graph(op, op.get_attr("f")), inputs)
        if op.type in LOOPS:
            return self._loop(op, inputs)
        if op.type in BRANCHES:
            return self._branches(op, inputs)
        # A list is empty when it is made; its elements come to depend on the inputs later.
        moved = op.type.startswith(("TensorList", "EmptyTensorList")) or any(one.moved for one in inputs)
        if moved and any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in op.inputs):
            self.narrow = max([self.narrow, *(ROUNDOFF.get(tensor.dtype.name, 0.0) for tensor in op.outputs)])
        rounds = moved and self._seed is not None and op.type not in EXACT
        values = self._widely(op, inputs, rounds) if moved else _created(op, [one.value for one in inputs])
        if rounds:
            values = [self._rounded(value, tensor.dtype) for value, tensor in zip(values, op.outputs, strict=True)]
        return [TraceTensor(value, moved) for value in values]

    def _widely(self, op: Any, inputs: list[TraceTensor], rounds: bool) -> list[Any]:
        definition = op_def_registry.get(op.type)
        if op.type in BITWISE or definition is None or definition.is_stateful:
            raise CannotRetraceError(op.type)
        if op.type == "Cast" and op.inputs[0].dtype.is_floating and op.outputs[0].dtype.is_floating:
            return [inputs[0].wide]
        fixed = _fixed(op, definition)
        if any(one.moved and narrow for one, narrow in zip(inputs, fixed, strict=True)):
            raise CannotRetraceError(op.type)
        if op.type in IN_FLOAT64:
            return IN_FLOAT64[op.type](op, [one.wide for one in inputs])
        pairs = zip(inputs, fixed, strict=True)
        values = _created(op, [one.value if narrow else one.wide for one, narrow in pairs], wide=True, rounds=rounds)
        if any(value.dtype in WIDER for value in values):
            raise CannotRetraceError(op.type)
        return values

    def _variable(self, op: Any, handle: TraceTensor, *operands: TraceTensor) -> list[TraceTensor]:
        """Read or assign values that are kept here: outside, nothing is changed, or read twice."""
        resource = handle.value
        if not isinstance(resource, ops.EagerTensor) or (self._inside and op.type in ASSIGNING):
            raise CannotRetraceError(op.type)
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

    def _called(self, body: Any, inputs: Sequence[TraceTensor]) -> list[TraceTensor]:
        return self._run(body, dict(zip((tensor.ref() for tensor in body.inputs), inputs, strict=True)))

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

    def _loop(self, op: Any, inputs: list[TraceTensor]) -> list[TraceTensor]:
        condition, body = (called_graph(op, op.get_attr(name)) for name in ("cond", "body"))
        shapes = [tensor.shape for tensor in body.inputs if tensor.dtype != tf.resource]
        self._inside += 1
        results = tf.while_loop(
            lambda *values: self._called(condition, self._bound(inputs, values))[0].value,
            lambda *values: self._carried(self._called(body, self._bound(inputs, values))),
            self._carried(inputs),
            shape_invariants=shapes,
        )
        self._inside -= 1
        return self._bound(inputs, tf.nest.flatten(results))

    def _branches(self, op: Any, inputs: list[TraceTensor]) -> list[TraceTensor]:
        chosen, *rest = inputs
        names = BRANCHES[op.type]
        graphs = [called_graph(op, one) for name in names for one in tf.nest.flatten(op.get_attr(name))]
        branches = [lambda graph=graph: tuple(self._carried(self._called(graph, rest))) for graph in graphs]
        self._inside += 1
        if len(names) > 1:
            results = tf.cond(tf.cast(chosen.value, tf.bool), *branches)
        else:
            results = tf.switch_case(chosen.value, branches)
        self._inside -= 1
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


ops.RegisterGradient(GRADIENT)(_gradient_of_rounded)


def _has_gradient(kind: str) -> bool:
    try:
        return ops.gradient_registry.lookup(kind) is not None
    except LookupError:
        return False


def needed(
    graph: Any, targets: Sequence[Any], known: Mapping[Any, Any], also: Sequence[Any] = (), *, control: bool = False
) -> list[Any]:
    """The operations between known tensors and the targets, and `also` others, in the order of the trace.

    With `control`, those that have to run before them as well.
    """
    waiting = [tensor.op for tensor in targets if tensor.ref() not in known] + list(also)
    found = set()
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs if tensor.ref() not in known]
            waiting += op.control_inputs if control else []
    return [op for op in graph.get_operations() if op in found and op.type != "Placeholder"]


def straight(graph: Any) -> bool:
    """Whether a graph runs the same operations at all inputs, on tensors of the same shapes, each by itself.

    It has no functions that it calls, no loops, no branches and no custom gradients.
    """
    others = {*CALLS, *LOOPS, *BRANCHES}
    return all(
        op.type not in others
        and not _is_custom(op)
        and all(tensor.shape.is_fully_defined() for tensor in op.outputs if tensor.dtype != tf.resource)
        for op in graph.get_operations()
    )


def _is_custom(op: Any) -> bool:
    """Whether an operation attaches the gradient of a function under tf.custom_gradient."""
    given = op.node_def.attr.get("_gradient_op_type")
    return given is not None and given.s.decode().startswith(CUSTOM)


def _backward(op: Any) -> tuple[list[Any], list[Any]] | None:
    """Placeholders for the cotangents of such an operation, and the gradients (or None) of its inputs, in its graph.

    None where the gradient function needs a variable, or tensors of another graph: of a function that was traced
    before.
    """
    if any(tensor.dtype == tf.resource for tensor in op.inputs):
        return None
    captured = len(op.graph.captures)
    try:
        taken = gradient_in_graph(op)
    except Exception:  # whatever a second trace raises
        return None
    return taken if len(op.graph.captures) == captured else None


def gradient_in_graph(op: Any) -> tuple[list[Any], list[Any]]:
    """Return placeholders for the cotangents of such an operation, and the gradients (or None) of its inputs.

    Both are added to its graph. Raises what the gradient function raises when it is traced.
    """
    with op.graph.as_default():
        cotangents = [tf.compat.v1.placeholder(tensor.dtype, tensor.shape) for tensor in op.outputs]
        taken = ops.gradient_registry.lookup(op.get_attr("_gradient_op_type").decode())(op, *cotangents)
        return cotangents, [None if one is None else tf.convert_to_tensor(one) for one in taken]


def called_graph(op: Any, called: Any) -> Any:
    """The graph of a function that an operation calls."""
    return control_flow_util_v2.get_func_graph(op, None, called.name)


def _fixed(op: Any, definition: Any) -> list[bool]:
    """For each input, whether it accepts single precision only."""
    fixed = []
    for argument in definition.input_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        fixed += [argument.type in ENUMS] * count
    return fixed


def _created(op: Any, values: Sequence[Any], *, wide: bool = False, rounds: bool = False) -> list[Any]:
    """Create the same operation on other inputs and return its results; a custom gradient is left behind."""
    if tf.executing_eagerly():
        return run_alone(op, values, ENUMS if wide else AS_THEY_ARE)
    attributes = {}
    if rounds and _has_gradient(op.type):
        attributes["_gradient_op_type"] = attr_value_pb2.AttrValue(s=GRADIENT.encode())
    for name, given in op.node_def.attr.items():
        if name.startswith("_"):
            continue
        if given.HasField("func") or given.list.func:
            raise CannotRetraceError(op.type)
        attributes[name] = own = type(given)()
        own.CopyFrom(given)
        if wide and own.HasField("type"):
            own.type = ENUMS.get(own.type, own.type)
        elif wide and own.HasField("list"):
            own.list.type[:] = [ENUMS.get(one, one) for one in own.list.type]
    # The public raw_ops give some inputs other names than the traced operation does.
    return list(ops.get_default_graph().create_op(op.type, list(values), attrs=attributes).outputs)
