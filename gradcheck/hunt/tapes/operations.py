"""The operations of programs: TensorFlow's text, NumPy's value, and the tensors that the gradient is computed from.

The gradients follow tensorflow/python/ops/math_grad.py and array_grad.py. A test compares their values with finite
differences of `forward`. The model needs to know what they depend on, which decides what an outer tape sees; so they
use the same tensors as TensorFlow's: a recomputed tensor and a kept one are not the same to a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gradcheck.typing import Array


@dataclass(frozen=True, eq=False)
class ModelTensor:
    """A value with an identity of its own, as tapes know them: two equal values are two tensors.

    A variable's handle is a tensor, too; its value is the variable's initial value. `opaque` marks derivatives whose
    own derivative the model does not predict.
    """

    value: Array
    opaque: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.value.shape)

    @property
    def followed(self) -> ModelTensor:
        """The tensor that tapes follow: this one (of a variable, its handle)."""
        return self

    @property
    def floating(self) -> bool:
        """Whether the tensor is floating, so that derivatives pass through it."""
        return bool(self.value.dtype.kind == "f")


@dataclass(eq=False)
class ModelVariable:
    """A variable: a handle that tapes follow, and a value that changes."""

    followed: ModelTensor
    trainable: bool
    value: Array
    opaque: ClassVar[bool] = False


Value: TypeAlias = ModelTensor | ModelVariable
RunOperation: TypeAlias = Callable[..., ModelTensor]
Cotangents: TypeAlias = "tuple[ModelTensor | None, ...]"


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation; `forward` takes and returns arrays with a leading axis of points.

    gradient(compute, inputs, outputs, cotangents of the outputs), one after another, gives the inputs' cotangents; None
    stands for an operation that is registered as not differentiable. `text` is the Python source, None for an operation
    that only gradients use. `fixed`: its value is constant for finite differences, as it is for the tape.
    `recorded=False`: no tape sees it (NumPy, stop_gradient); `reads=False`: nor does any see that a variable is read
    for it. `matrix`: the arguments are matrices.
    """

    name: str
    forward: Callable[..., Any]
    gradient: Callable[..., ModelTensor | Cotangents] | None = None
    text: str | None = None
    arity: int = 1
    fixed: bool = False
    recorded: bool = True
    reads: bool = True
    matrix: bool = False

    def results(self, *arrays: Array) -> tuple[Array, ...]:
        """The results of `forward` as a tuple, even of one array."""
        results = self.forward(*arrays)
        return results if isinstance(results, tuple) else (results,)

    def cotangents(self, compute: RunOperation, entry: TapeEntry, ups: Sequence[ModelTensor]) -> Cotangents:
        """The cotangents that `gradient` gives for each input."""
        if self.gradient is None:
            return (None,) * len(entry.inputs)
        found = self.gradient(compute, *entry.inputs, *entry.outputs, *ups)
        return found if isinstance(found, tuple) else (found,)


@dataclass(frozen=True, eq=False)
class TapeEntry:
    """One operation as a tape records it (OpTapeEntry in tape.h)."""

    operation: Operation
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]


class NoGradientError(LookupError):
    """An operation has no registered gradient."""


def _padded(array: Array, rank: int) -> Array:
    return array.reshape(array.shape[:1] + (1,) * (rank - array.ndim) + array.shape[1:])


def paired(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A function of two arrays that broadcasts their shapes after the axis of points."""

    def call(a: Array, b: Array) -> Array:
        rank = max(a.ndim, b.ndim)
        return function(_padded(a, rank), _padded(b, rank))

    return call


@cache
def sum_to(shape: tuple[int, ...]) -> Operation:
    """The sum over the axes along which a tensor of this shape was broadcast."""

    def forward(a: Array) -> Array:
        extra = a.ndim - 1 - len(shape)
        reduced = a.sum(axis=tuple(range(1, 1 + extra)))
        ones = tuple(i + 1 for i, size in enumerate(shape) if size == 1 and reduced.shape[i + 1] != 1)
        return np.asarray(reduced.sum(axis=ones, keepdims=True) if ones else reduced)

    return Operation("sum_to", forward, lambda compute, x, y, up: compute(broadcast_to(x.shape), up))


@cache
def broadcast_to(shape: tuple[int, ...]) -> Operation:
    """A tensor broadcast to this shape."""

    def forward(a: Array) -> Array:
        return np.broadcast_to(_padded(a, len(shape) + 1), (len(a), *shape))

    return Operation("broadcast_to", forward, lambda compute, x, y, up: compute(sum_to(x.shape), up))


def first_row(rank: int, batch: bool) -> Operation:
    """The first row of a Jacobian's target: its first element, or that of every member of the batch."""
    place: tuple[Any, ...] = (slice(None), *([slice(None)] if batch else []), *([0] * (rank - batch)))

    def gradient(compute: RunOperation, x: ModelTensor, y: ModelTensor, up: ModelTensor) -> ModelTensor:
        whole = np.zeros(x.shape)
        whole[place[1:]] = up.value
        return ModelTensor(whole)

    return Operation("first_row", lambda a: a[place], gradient)


def zeros_like(tensor: ModelTensor) -> ModelTensor:
    """The gradient of an output that no cotangent reached."""
    return ModelTensor(np.zeros_like(tensor.value))


def _summed_like(compute: RunOperation, gradient: ModelTensor, source: ModelTensor) -> ModelTensor:
    return gradient if gradient.shape == source.shape else compute(sum_to(source.shape), gradient)


def _tanh_grad(compute: RunOperation, *tensors: ModelTensor) -> Cotangents:
    y, above, _, up = tensors
    twice = compute(MUL, compute(MUL, compute(MUL, up, MINUS_TWO), above), y)
    return twice, compute(TANH_GRAD, y, up)


def _sigmoid_grad(compute: RunOperation, *tensors: ModelTensor) -> Cotangents:
    y, above, _, up = tensors
    both = compute(MUL, up, above)
    twice = compute(MUL, compute(MUL, TWO, both), y)
    return compute(SUB, both, twice), compute(SIGMOID_GRAD, y, up)


def _sub(compute: RunOperation, a: ModelTensor, b: ModelTensor, y: ModelTensor, up: ModelTensor) -> Cotangents:
    return _summed_like(compute, up, a), _summed_like(compute, compute(NEG, up), b)


def _mul(compute: RunOperation, a: ModelTensor, b: ModelTensor, y: ModelTensor, up: ModelTensor) -> Cotangents:
    return _summed_like(compute, compute(MUL, up, b), a), _summed_like(compute, compute(MUL, up, a), b)


@cache
def matmul(first: bool, second: bool) -> Operation:
    """The product of two matrices, the first or the second of them transposed."""

    def forward(a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(_swapped(a) if first else a, _swapped(b) if second else b))

    def gradient(compute: RunOperation, a: ModelTensor, b: ModelTensor, y: ModelTensor, up: ModelTensor) -> Cotangents:
        of_a = compute(matmul(second, True), b, up) if first else compute(matmul(False, not second), up, b)
        of_b = compute(matmul(True, first), up, a) if second else compute(matmul(not first, False), a, up)
        return of_a, of_b

    return Operation("matmul", forward, gradient, "tf.linalg.matmul({0}, {1})", arity=2, matrix=True)


def _unregistered(compute: RunOperation, *tensors: ModelTensor) -> Cotangents:
    raise NoGradientError("gradient registry has no entry for: TruncateMod")


def _swapped(a: Array) -> Array:
    return np.swapaxes(a, -1, -2) if a.ndim > 2 else a


TWO, MINUS_TWO = ModelTensor(np.array(2.0)), ModelTensor(np.array(-2.0))
IDENTITY = Operation("identity", np.copy, lambda compute, x, y, up: up, "tf.identity({0})")
NEG: Operation = Operation("neg", np.negative, lambda compute, x, y, up: compute(NEG, up), "-{0}")
SIN: Operation = Operation("sin", np.sin, lambda compute, x, y, up: compute(MUL, up, compute(COS, x)), "tf.sin({0})")
COS: Operation = Operation(
    "cos", np.cos, lambda compute, x, y, up: compute(MUL, compute(NEG, up), compute(SIN, x)), "tf.cos({0})"
)
SQUARE = Operation(
    "square", np.square, lambda compute, x, y, up: compute(MUL, up, compute(MUL, TWO, x)), "tf.square({0})"
)
TANH = Operation("tanh", np.tanh, lambda compute, x, y, up: compute(TANH_GRAD, y, up), "tf.tanh({0})")
SIGMOID = Operation(
    "sigmoid", lambda a: 1 / (1 + np.exp(-a)), lambda compute, x, y, up: compute(SIGMOID_GRAD, y, up), "tf.sigmoid({0})"
)
EXP = Operation("exp", np.exp, lambda compute, x, y, up: compute(MUL, up, y), "tf.exp({0})")
SUM = Operation(
    "sum",
    lambda a: a.sum(axis=tuple(range(1, a.ndim))),
    lambda compute, x, y, up: compute(broadcast_to(x.shape), up),
    "tf.reduce_sum({0})",
)
TRANSPOSE: Operation = Operation(
    "transpose",
    _swapped,
    lambda compute, x, y, up: compute(TRANSPOSE, up),
    "tf.linalg.matrix_transpose({0})",
    matrix=True,
)
ADD = Operation(
    "add",
    paired(np.add),
    lambda compute, a, b, y, up: (_summed_like(compute, up, a), _summed_like(compute, up, b)),
    "{0} + {1}",
    arity=2,
)
SUB = Operation("sub", paired(np.subtract), _sub, "{0} - {1}", arity=2)
MUL: Operation = Operation("mul", paired(np.multiply), _mul, "{0} * {1}", arity=2)
MATMUL = matmul(False, False)
# tf.stop_gradient runs inside of record.stop_recording().
STOP = Operation("stop_gradient", np.copy, None, "tf.stop_gradient({0})", fixed=True, recorded=False, reads=False)
FLOOR = Operation("floor", np.floor, None, "tf.floor({0})", fixed=True)
ROUND = Operation("round", np.round, None, "tf.round({0})", fixed=True)
ZEROS_LIKE = Operation("zeros_like", np.zeros_like, None, fixed=True)
SIGN = Operation("sign", np.sign, lambda compute, x, y, up: compute(ZEROS_LIKE, x), "tf.sign({0})", fixed=True)
REMAINDER = Operation("remainder", lambda a: np.fmod(a, 3.0), _unregistered, "tf.truncatemod({0}, 3.0)")
TO_INTEGER = Operation("to_integer", lambda a: a.astype(np.int64), None, "tf.cast({0}, tf.int64)", fixed=True)
NUMPY = Operation("numpy", np.sin, None, "tf.constant(np.sin({0}.numpy()))", fixed=True, recorded=False)
TO_FLOAT = Operation("to_float", lambda a: a.astype(np.float64), None, "tf.cast({0}, tf.float64)", fixed=True)
INTEGER_SUM = Operation("integer_sum", paired(np.add), None, "{0} + {1}", arity=2, fixed=True)
TANH_GRAD: Operation = Operation("tanh_grad", lambda y, up: up * (1 - y * y), _tanh_grad)
SIGMOID_GRAD: Operation = Operation("sigmoid_grad", lambda y, up: up * y * (1 - y), _sigmoid_grad)
ADD_N = Operation(
    "add_n", lambda *arrays: sum(arrays[1:], arrays[0]), lambda compute, *tensors: tensors[-1:] * (len(tensors) - 2)
)
READ = Operation("read", np.copy, lambda compute, handle, y, up: up)

_FLOATING = (
    *(SQUARE, SIN, MUL, ADD, IDENTITY, SUB, NEG, TANH, SUM, SIGMOID, COS, EXP, MATMUL, TRANSPOSE),
    *(STOP, FLOOR, ROUND, SIGN, TO_INTEGER, NUMPY, REMAINDER),
)
FLOATING = {operation.name: operation for operation in _FLOATING}
"""The operations on floating tensors, the simplest first."""

INTEGER = {operation.name: operation for operation in (TO_FLOAT, INTEGER_SUM)}
"""The operations on integer tensors."""

OPERATIONS = {**FLOATING, **INTEGER}
