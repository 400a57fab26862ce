"""What a run of a TensorFlow 1 graph does: which gradients it applies, whether it writes, what state it uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

APPLY = re.compile(r"(Resource)?(Sparse)?Apply(?P<rule>\w+)$")
WRITE = re.compile(r"(Resource\w+|(Sparse)?Apply\w+|Assign\w*|Scatter(Nd)?(Update|Add|Sub|Mul|Div|Min|Max)|CountUpTo)$")
HIDDEN = re.compile(r"(StatefulPartitionedCall|While|If|Case|PyFunc|EagerPyFunc)$")
STATEFUL = re.compile(
    r"(Iterator(V2)?GetNext\w*|Queue\w*Dequeue\w*|Reader(Read|Restore)\w*|Random\w+|Multinomial)(V\d)?$"
)
GRADIENT, RATE = ("grad", "delta"), ("lr", "alpha")
CLIP = re.compile(r"clip_by_norm|clip_by_global_norm")


@dataclass(frozen=True)
class Apply:
    """An operation that applies a gradient: its variable's name, the tensors of the gradient and of the rate."""

    operation: Any
    variable: str
    gradient: Any
    indices: Any
    rate: Any

    @property
    def rule(self) -> str:
        """The optimizer, such as GradientDescent."""
        found = APPLY.match(self.operation.type)
        return found["rule"] if found else str(self.operation.type)


@dataclass(frozen=True)
class GraphRun:
    """The operations that run for `fetches` where the tensors `fed` are given."""

    graph: Any
    fetches: Any
    fed: Sequence[Any]

    @cached_property
    def operations(self) -> list[Any]:
        """All of them, in the order of their names."""
        cut = {self.graph.as_graph_element(tensor).name for tensor in self.fed}
        fetched = tf.nest.flatten(self.fetches, expand_composites=True)
        waiting = [self._operation(fetch) for fetch in fetched if fetch is not None]
        seen: dict[str, Any] = {}
        while waiting:
            operation = waiting.pop()
            if operation.name not in seen:
                seen[operation.name] = operation
                waiting += [tensor.op for tensor in operation.inputs if tensor.name not in cut]
                waiting += operation.control_inputs
        return [seen[name] for name in sorted(seen)]

    @cached_property
    def applies(self) -> list[Apply]:
        """Those that apply gradients."""
        return [apply for operation in self.operations if (apply := _apply(operation)) is not None]

    @cached_property
    def writes(self) -> bool:
        """Whether a variable may be changed."""
        return any(WRITE.match(operation.type) or HIDDEN.match(operation.type) for operation in self.operations)

    @cached_property
    def stateful(self) -> Any:
        """An operation whose state lies in the session, out of reach; None where there is none."""
        return next((operation for operation in self.operations if STATEFUL.match(operation.type)), None)

    @cached_property
    def clips(self) -> list[str]:
        """The functions that clip by a norm."""
        return sorted({found.group() for operation in self.operations if (found := CLIP.search(operation.name))})

    @cached_property
    def numbers(self) -> list[Any]:
        """The floating scalars that are fetched, one of which may be the loss."""
        fetched = tf.nest.flatten(self.fetches, expand_composites=True)
        elements = [self.graph.as_graph_element(fetch) for fetch in fetched if fetch is not None]
        return [each for each in elements if tf.is_tensor(each) and each.dtype.is_floating and each.shape == ()]

    def _operation(self, fetch: Any) -> Any:
        element = self.graph.as_graph_element(fetch)
        return getattr(element, "op", element)


def _apply(operation: Any) -> Apply | None:
    if not APPLY.match(operation.type):
        return None
    names = [argument.name for argument in operation.op_def.input_arg]
    inputs = dict(zip(names, operation.inputs, strict=True))
    gradient = next((inputs[name] for name in GRADIENT if name in inputs), None)
    if gradient is None:
        return None
    rate = next((inputs[name] for name in RATE if name in inputs), None)
    return Apply(operation, operation.inputs[0].op.name, gradient, inputs.get("indices"), rate)
