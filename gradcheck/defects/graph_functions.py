"""The kernels in the functions of a graph, read from their definitions: nothing is imported, made or run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry, tensor_util

from gradcheck.defects.kernel_use import KernelUse
from gradcheck.result import Place
from gradcheck.tracing.operation import Operation

LARGEST = 4096
"""The most elements of a constant whose value is read."""


@dataclass(frozen=True)
class GraphInput:
    """An input in a graph: its dtype, and its value if it is a constant."""

    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the constant, or an unknown one."""
        return tf.TensorShape(None if self.constant is None else self.constant.shape)


@dataclass
class FunctionKernels:
    """The kernels of functions and of those that they call: `uses`, and the operations that could not be read.

    `definition` finds a function's definition by its name, or None; `gradients` are the names of the available
    gradients of functions under tf.custom_gradient.
    """

    definition: Callable[[str], Any]
    gradients: Collection[str] = ()
    uses: list[KernelUse] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    custom: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def read(self, names: Iterable[str], place: Place | None = None, where: str = "") -> None:
        """Reads functions, each once; `place` is the line that calls them, `where` more about it."""
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self._seen:
                continue
            self._seen.add(name)
            function = self.definition(name)
            if function is None:
                self.unread.add(f"the function {name}")
                continue
            waiting += self._read(function, place, where)

    def _read(self, function: Any, place: Place | None, where: str) -> list[str]:
        """Reads the kernels of one function, and returns the names of the functions that it calls."""
        constants = {node.name: node for node in function.node_def if node.op == "Const"}
        consumed = {one for node in function.node_def for one in node.input} | set(function.ret.values())
        called: list[str] = []
        for node in function.node_def:
            called += called_by(node)
            brought = None
            if "_gradient_op_type" in node.attr:
                self.custom.add(node.name)
                brought = node.attr["_gradient_op_type"].s.decode() in self.gradients
            if op_def_registry.get(node.op) is None:
                self.unread.add(f"the operation {node.op}")
                continue
            at = f"{node.name} in {function.signature.name}{where}"
            operation = Operation.of(node)
            inputs = tuple(_inputs(node.input, (one.dtype for one in operation.arguments), constants))
            names = (f"{node.name}:{one.definition.name}:{one.place or 0}" for one in operation.results)
            outputs = frozenset(number for number, name in enumerate(names) if name in consumed)
            self.uses.append(KernelUse(node.op, inputs, dict(node.attr), outputs, place, at, brought))
        return called


def called_by(node: Any) -> list[str]:
    """The functions that a node of a graph calls."""
    values = node.attr.values()
    listed = [one.name for value in values for one in value.list.func]
    return [value.func.name for value in values if value.HasField("func")] + listed


def _inputs(names: Iterable[str], dtypes: Iterable[int], constants: dict[str, Any]) -> Iterator[GraphInput]:
    for name, dtype in zip((one for one in names if not one.startswith("^")), dtypes, strict=False):
        source = constants.get(name.partition(":")[0])
        yield GraphInput(tf.as_dtype(dtype), None if source is None else _constant(source))


def _constant(node: Any) -> np.ndarray[Any, Any] | None:
    tensor = node.attr["value"].tensor
    size = int(np.prod([one.size for one in tensor.tensor_shape.dim], dtype=np.int64))
    return np.asarray(tensor_util.MakeNdarray(tensor)) if size <= LARGEST else None
