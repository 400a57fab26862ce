"""One operation of TensorFlow: its name and attributes, to be run on any inputs, in its own precision or in float64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context, execute, record
from tensorflow.python.framework import op_def_library, op_def_registry, ops, tensor_util

from gradcheck.autodiff.coordinates import WIDE

WIDER = {tf.as_dtype(low): tf.as_dtype(wide) for low, wide in WIDE.items()}
"""The dtypes of less precision than float64, and those that take their place."""


class CannotRunError(Exception):
    """An operation cannot run by itself, or not in float64; the message names it."""


class Argument(NamedTuple):
    """A tensor that an operation takes or returns: its argument, its place there if that is a list, and its dtype."""

    definition: Any
    place: int | None
    dtype: Any

    @property
    def name(self) -> str:
        """TensorFlow's name of the argument, with the place in a list."""
        return self.definition.name if self.place is None else f"{self.definition.name}[{self.place}]"


@dataclass(frozen=True)
class Operation:
    """An operation's name, number of outputs, and attributes, names and values in turn, as eager operations take them.

    An attribute may be None, which is a shape of unknown rank, or else the default.
    """

    name: str
    count: int
    attributes: Sequence[Any] = ()

    @staticmethod
    def of(node: Any) -> Operation:
        """Return the operation of a node, as it stands in the definition of a graph or a function.

        Raises CannotRunError if TensorFlow has no definition of it.
        """
        definition, kinds, given = op_def_registry.get(node.op), attribute_kinds(node.op), node.attr
        if definition is None:
            raise CannotRunError(node.op)
        unwritten = any(name not in given for name in kinds)
        usual = {one.name: one.default_value for one in definition.attr} if unwritten else {}
        settings = {name: _value(given.get(name) or usual[name], kind) for name, kind in kinds.items()}
        count = sum(1 for _ in arguments(definition.output_arg, settings))
        return Operation(node.op, count, tuple(part for pair in settings.items() for part in pair))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The attributes by their names."""
        return dict(zip(self.attributes[::2], self.attributes[1::2], strict=True))

    @property
    def arguments(self) -> list[Argument]:
        """The inputs; none for what TensorFlow has no definition of, such as a function."""
        definition = op_def_registry.get(self.name)
        return [] if definition is None else list(arguments(definition.input_arg, self.settings))

    @property
    def results(self) -> list[Argument]:
        """The outputs of an operation that TensorFlow has a definition of."""
        return list(arguments(op_def_registry.get(self.name).output_arg, self.settings))

    @property
    def in_float64(self) -> Operation:
        """The same with float64 (complex128) for every dtype of less precision in the attributes."""
        kinds = attribute_kinds(self.name)
        pairs = ((name, _wide(one) if "type" in kinds.get(name, "") else one) for name, one in self.settings.items())
        return Operation(self.name, self.count, tuple(part for pair in pairs for part in pair))

    def run(self, inputs: list[Any]) -> list[Any]:
        """Run it eagerly on these inputs, recorded by the open tapes. Raises what it raises."""
        outputs: list[Any] = execute.execute(self.name, self.count, inputs, self._given, context.context())
        if self.count and record.could_possibly_record():
            execute.record_gradient(self.name, inputs, self.attributes, outputs)
        return outputs

    def __call__(self, inputs: Sequence[Any], gradient: str = "") -> list[Any]:
        """Run it eagerly, or add it to the graph that is being traced, there with the gradient of this name if any.

        Raises CannotRunError if it calls functions, or what it raises itself.
        """
        kinds = attribute_kinds(self.name)
        if any("func" in kind for kind in kinds.values()):
            raise CannotRunError(self.name)
        if tf.executing_eagerly():
            return self.run(list(inputs))
        encoded = op_def_library.value_to_attr_value
        attributes = {name: encoded(value, kinds[name], name) for name, value in self.settings.items()}
        if gradient:
            attributes["_gradient_op_type"] = attr_value_pb2.AttrValue(s=gradient.encode())
        # The public raw_ops give some inputs other names than the traced operation does.
        return list(ops.get_default_graph().create_op(self.name, list(inputs), attrs=attributes).outputs)

    @cached_property
    def _given(self) -> Sequence[Any]:
        """The attributes to run it with; tapes get those that are None as well."""
        if all(value is not None for value in self.attributes):
            return self.attributes
        kinds = attribute_kinds(self.name)
        given = ((name, one) for name, one in self.settings.items() if one is not None or kinds[name] == "shape")
        return tuple(part for pair in given for part in pair)


def run_node(op: Any, inputs: Sequence[Any]) -> list[Any]:
    """Run an operation of a graph on other inputs, eagerly or in the graph that is being traced.

    A custom gradient is left behind. Raises CannotRunError if it calls functions, or what it raises itself.
    """
    if op.type == "Const" and tf.executing_eagerly():
        return [tf.constant(tensor_util.MakeNdarray(op.get_attr("value")), op.outputs[0].dtype)]
    return [] if op.type == "NoOp" else Operation.of(op.node_def)(inputs)


@lru_cache(maxsize=512)
def attribute_kinds(name: str) -> dict[str, str]:
    """The types of an operation's attributes, by their names."""
    definition = op_def_registry.get(name)
    return {} if definition is None else {one.name: one.type for one in definition.attr}


def arguments(definitions: Iterable[Any], attributes: Mapping[str, Any]) -> Iterator[Argument]:
    """Yield the tensors that an operation with these attributes takes, or returns, according to its definition."""
    for one in definitions:
        dtype = one.type or attributes.get(one.type_attr)
        if one.type_list_attr:
            yield from (Argument(one, place, each) for place, each in enumerate(attributes.get(one.type_list_attr, ())))
        elif one.number_attr:
            yield from (Argument(one, place, dtype) for place in range(attributes.get(one.number_attr, 1)))
        else:
            yield Argument(one, None, dtype)


def widened(tensor: Any) -> Any:
    """Cast a tensor of less precision to float64 (complex128); return others unchanged.

    >>> widened(tf.constant(1.0)).dtype.name, widened(tf.constant(1)).dtype.name, widened("text")
    ('float64', 'int32', 'text')
    """
    dtype = getattr(tensor, "dtype", None)
    return tf.cast(tensor, WIDER[dtype]) if dtype in WIDER else tensor


def _wide(dtype: Any) -> Any:
    """The enum of a dtype, or of each in a list, in float64 for less."""
    if isinstance(dtype, (list, tuple)):
        return [_wide(one) for one in dtype]
    given = tf.as_dtype(dtype)
    return WIDER.get(given, given).as_datatype_enum


def _value(proto: Any, kind: str) -> Any:
    """The value of an attribute as eager operations take it."""
    if kind.startswith("list("):
        values = [one for _, parts in proto.list.ListFields() for one in parts]
        return [execute.make_shape(one, "shape") for one in values] if kind == "list(shape)" else values
    field = proto.WhichOneof("value")
    value = None if field is None else getattr(proto, field)
    return execute.make_shape(value, "shape") if kind == "shape" else value
