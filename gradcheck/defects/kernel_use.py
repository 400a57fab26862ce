"""Uses of kernels in code or a graph: their known defects, and the derivatives that they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

from gradcheck.autodiff.errors import not_registered
from gradcheck.defects.kernel_defects import KernelCall, applies, defects_of
from gradcheck.defects.records import Defect
from gradcheck.result import Place
from gradcheck.tracing.kernels import GRADIENT_ZERO

NOT_SAVED = (
    "the gradient that it has under tf.custom_gradient was not saved with it (experimental_custom_gradients=False)"
)
SMALL = 64
"""The most elements of an input whose value a gradient function may need."""


@dataclass(frozen=True)
class LostDerivative:
    """A derivative that a kernel does not have at an order: it "is None", or "raises", and why."""

    order: int
    outcome: str
    why: str


@dataclass(frozen=True)
class KernelUse:
    """A kernel with its input tensors, or what is known of them in a graph, and attributes as protocol buffers.

    `outputs` are those that are used. `place` is the line of the user's code, `where` says in words where the kernel is
    if there is none. `brought`: for a function under tf.custom_gradient in a graph, whether its gradient is there.
    `layer` and `kind` are the name and the public class of the layer of Keras that runs it.
    `wrong`: the derivative is known to be wrong here, so that a region explains it even where most of what lies inside
    is right.
    """

    kernel: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    outputs: frozenset[int]
    place: Place | None
    where: str = ""
    brought: bool | None = None
    wrong: bool = False
    layer: str = ""
    kind: str = ""

    @property
    def call(self) -> KernelCall:
        """The kernel with all values that are known."""
        settings = {name: _python(value) for name, value in self.attributes.items()}
        is_complex = any(one.dtype.is_complex for one in self.inputs)
        return KernelCall(self.kernel, [value_of(one) for one in self.inputs], settings, self.outputs, is_complex)

    @property
    def differentiable(self) -> bool:
        """Whether it has a floating or complex input."""
        return any(one.dtype.is_floating or one.dtype.is_complex for one in self.inputs)

    def defects(self) -> Iterator[tuple[Defect, int, bool | None]]:
        """The known defects of the kernel with their orders, and whether they apply here (None: not known).

        Defects that apply at no values, because the attributes, shapes or outputs differ, are left out.
        """
        found = [(defect, order) for order in (1, 2) for defect in defects_of(self.kernel, order)]
        if found:
            call = self.call
            anywhere = replace(call, values=False)
            for defect, order in found:
                if applies(defect, anywhere, order) is not False:
                    yield defect, order, applies(defect, call, order, drawn=self.wrong)

    def lost(self) -> tuple[LostDerivative, ...]:
        """The derivatives that the kernel does not have, according to TensorFlow's symbolic gradients."""
        if (
            self.kernel in GRADIENT_ZERO
            or not self.differentiable
            or any(one.HasField("func") for one in self._settings)
        ):
            return ()
        if self.brought is not None:
            return () if self.brought else (LostDerivative(1, "raises", NOT_SAVED),)
        serialized = tuple(sorted((name, one.SerializeToString()) for name, one in self.attributes.items()))
        given = tuple((one.dtype, _shape(one), _small(one)) for one in self.inputs)
        return _lost(self.kernel, serialized, given)

    @property
    def _settings(self) -> list[Any]:
        return list(self.attributes.values())


def attribute_values(kernel: str, flat: Sequence[Any]) -> dict[str, Any]:
    """The attributes of an eager operation, names and values in turn, as TensorFlow's protocol buffers."""
    definition = op_def_registry.get(kernel)
    types = {} if definition is None else {one.name: one.type for one in definition.attr}
    given = zip(flat[::2], flat[1::2], strict=True)
    found = {}
    for name, value in given:
        if name in types and types[name] != "func" and value is not None:
            with suppress(TypeError, ValueError):
                found[name] = op_def_library.value_to_attr_value(value, types[name], name)
    return found


def value_of(tensor: Any) -> Any:
    """The value of a tensor, or of an input in a graph, as an array; None where it has none, or none that is known."""
    if tensor.dtype in (tf.resource, tf.variant):
        return None
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor.constant


def _python(value: Any) -> Any:
    """The Python value of an attribute's protocol buffer; a type is its name."""
    field = value.WhichOneof("value")
    held: Any = None if field is None else getattr(value, field)
    if field == "type":
        return tf.as_dtype(held).name
    if field == "list":
        return [part for _, parts in held.ListFields() for part in parts]
    return held


def _shape(tensor: Any) -> tuple[int | None, ...] | None:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def _small(tensor: Any) -> Any:
    """The value of an integer input, hashable, where a gradient function may need it."""
    if not tensor.dtype.is_integer or (tensor.shape.num_elements() or SMALL + 1) > SMALL:
        return None
    value = value_of(tensor)
    return None if value is None else (value.shape, tuple(value.ravel().tolist()))


@cache
def _lost(kernel: str, attributes: Any, inputs: Any) -> tuple[LostDerivative, ...]:
    """The derivatives that a kernel does not have, in a graph of its own; nothing is run."""
    gradients_registered()
    with tf.Graph().as_default():
        try:
            targets, sources = _alone(kernel, dict(attributes), inputs)
        except Exception:  # a kernel that this TensorFlow does not make says nothing about its derivatives
            return ()
        if not targets or not sources:
            return ()
        arriving = [tf.compat.v1.placeholder(one.dtype, one.shape) for one in targets]
        known = all(one.shape.is_fully_defined() for one in sources)
        first = _gradients(targets, sources, arriving)
        if isinstance(first, Exception):
            return _raised(1, first, known)
        parts = [tf.convert_to_tensor(one) for one in first if one is not None]
        if not parts:
            return (LostDerivative(1, "is None", "TensorFlow registers no gradient for it, on purpose"),)
        second = _gradients(parts, [*arriving, *sources], None)
        if isinstance(second, Exception):
            return _raised(2, second, known)
        if all(one is None for one in second[: len(arriving)]):
            # The gradient depends on the cotangent: None with respect to it cuts every path.
            return (LostDerivative(2, "is None", "a kernel of its gradient has none"),)
    return ()


def _alone(kernel: str, attributes: Mapping[str, bytes], inputs: Any) -> tuple[list[Any], list[Any]]:
    """Adds a kernel to the current graph; returns its differentiable outputs and inputs."""
    from tensorflow.core.framework import attr_value_pb2

    given = []
    for dtype, shape, value in inputs:
        if value is None:
            given.append(tf.compat.v1.placeholder(dtype, shape))
        else:
            given.append(tf.constant(value[1], dtype, value[0]))
    protos = {name: attr_value_pb2.AttrValue.FromString(text) for name, text in attributes.items()}
    made = tf.compat.v1.get_default_graph()._create_op_internal(kernel, given, attrs=protos)
    kinds = ([one for one in row if one.dtype.is_floating or one.dtype.is_complex] for row in (made.outputs, given))
    outputs, sources = kinds
    return outputs, sources


def _gradients(targets: Any, sources: Any, arriving: Any) -> Any:
    """The symbolic gradients, or the exception that was raised."""
    try:
        return tf.gradients(targets, sources, grad_ys=arriving)
    except Exception as error:  # gradient functions may raise anything
        return error


def _raised(order: int, error: Exception, shapes_known: bool) -> tuple[LostDerivative, ...]:
    """The exception of a gradient function, in one line; empty if it may be due to unknown shapes."""
    if not (shapes_known or not_registered(error)):
        return ()
    return (LostDerivative(order, "raises", " ".join(str(error).split())[:200] or type(error).__name__),)


@cache
def gradients_registered() -> None:
    """Registers the gradients of modules that TensorFlow loads when their operations are first made."""
    from tensorflow.python.ops import map_ops  # noqa: F401
    from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_grad  # noqa: F401
