"""Random-rounding perturbation (CESTAC): a derivative recomputed with its intermediate values one ulp up or down.

Digits that change are rounding error: J. Vignes, "A stochastic arithmetic for reliable scientific computation",
Mathematics and Computers in Simulation 35 (1993).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import ops

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.tracing.hooks import FAST_EXECUTION, KERNEL, functions_run_eagerly, gradients_looked_up, patched
from gradcheck.tracing.kernels import DECOMPOSING, EXACT, NORMWISE, OF_ROWS, POLAR, SELECTING, STEPS
from gradcheck.typing import Array

UNIT = 2 * ROUNDOFF["float64"]


PATTERNS, KEPT = 64, 1024
"""Number of random patterns of ups and downs per length; patterns of up to KEPT elements are cached."""


def perturbed(value: Any, generator: np.random.Generator, unit: float = 0.0, *, polar: bool = False) -> Any:
    """Move each element of a tensor at random by one relative `unit` up or down; by default one in the last place.

    The parts of a complex number move by a unit of their own, or, if it is `polar`, of its magnitude. Zeros keep their
    sign, which says on which side of a branch cut a number lies. Handles the values of IndexedSlices, too. Tensors that
    are not floating stay unchanged.
    """
    if isinstance(value, tf.IndexedSlices):  # not known to tapes
        return tf.IndexedSlices(perturbed(value.values, generator, unit, polar=polar), value.indices, value.dense_shape)
    # tf.is_tensor is slow to reject None, and a second derivative is perturbed hundreds of times.
    if value is None or not tf.is_tensor(value) or not (value.dtype.is_floating or value.dtype.is_complex):
        return value
    unit = unit or _unit(value)
    last, pattern = tuple(value.shape)[-1:], int(generator.integers(PATTERNS))
    with record.stop_recording():
        if value.dtype.is_complex and isinstance(value, ops.EagerTensor):
            moved = tf.constant(_moved_in_plane(value.numpy(), unit, pattern, polar))
        else:
            factors = (_factors if last <= (KEPT,) else _factors.__wrapped__)(value.dtype, unit, last, pattern)
            moved = tf.raw_ops.Mul(x=value, y=factors)
    return _as_rounding(value, moved)


def _moved_in_plane(value: Array, unit: float, pattern: int, polar: bool) -> Array:
    # A product of complex numbers would make +0 of the part -0, and add up both.
    parts, last = np.stack([value.real, value.imag], axis=-1), value.shape[-1:]
    signs = (_signs if last <= (KEPT,) else _signs.__wrapped__)((*last, 1 + polar), pattern)
    with np.errstate(invalid="ignore", over="ignore"):
        if polar:
            moved = np.where(parts == 0, parts, parts + unit * signs * np.abs(value)[..., None])
        else:
            moved = parts * (1 + unit * signs)
    found: Array = np.ascontiguousarray(moved, parts.dtype).view(value.dtype)[..., 0]
    return found


@lru_cache(maxsize=1024)
def _signs(shape: tuple[int, ...], pattern: int) -> Array:
    found: Array = 2.0 * np.random.default_rng(pattern).integers(0, 2, shape) - 1.0
    return found


def _as_rounding(value: Any, moved: Any) -> Any:
    # Rounding has slope 1. A recorded product would be one more operation to differentiate, and to perturb.
    record.record_operation("Identity", [moved], [value], lambda cotangent: [cotangent])
    return moved


def shaken(matrices: Any, generator: np.random.Generator) -> Any:
    """Move each element of matrices at random by a unit in the last place of the matrix's largest element."""
    with record.stop_recording():
        largest = tf.reduce_max(tf.abs(matrices), axis=(-2, -1), keepdims=True)
        signs = generator.choice([-1.0, 1.0], size=matrices.shape[-2:])
        moved = matrices + tf.cast(largest, matrices.dtype) * tf.cast(_unit(matrices) * signs, matrices.dtype)
    return _as_rounding(matrices, moved)


@lru_cache(maxsize=1024)
def _factors(dtype: tf.DType, unit: float, shape: tuple[int, ...], pattern: int) -> Any:
    """Return one of the `PATTERNS` of factors of a last dimension; making it takes longer than multiplying by it."""
    either = np.array([1 - unit, 1 + unit], dtype.as_numpy_dtype)
    with tf.init_scope():  # it outlives a graph that is being built
        return tf.constant(either[np.random.default_rng(pattern).integers(0, 2, shape)])


_active: list[int | None] = []


def perturbing() -> bool:
    """Whether gradient functions are being perturbed, which a graph that was traced before does not show."""
    return bool(_active)


@contextmanager
def _marked(seed: int | None) -> Iterator[None]:
    _active.append(seed)
    try:
        yield
    finally:
        _active.remove(seed)


@contextmanager
def perturbed_gradients(seed: int, *, outputs: Callable[[Any], bool] = tf.is_tensor) -> Iterator[None]:
    """Perturb the operands and the results of every gradient function that runs in the block.

    A gradient in terms of its operation's output, such as y * (1 - y), has lost the digits that y has lost, which
    perturbed inputs do not show: `outputs(tensor)` selects the outputs that are perturbed. Cancelling terms of a sum
    leave the rounding of each. Functions that are being traced are left alone: they would keep the perturbation.
    """
    generator = np.random.default_rng(seed)

    def looked_up(name: str, function: Any) -> Any:
        inside: Callable[[], AbstractContextManager[None]] = nullcontext
        if name in OF_ROWS:
            inside = partial(perturbed_operations, seed)
        elif name in DECOMPOSING:
            inside = _matrices_left_alone
        chosen = _none if name in SELECTING else outputs
        return function and _perturbed_gradient(function, generator, inside, outputs=chosen, polar=name in POLAR)

    with _marked(seed), gradients_looked_up(looked_up):
        yield


@contextmanager
def perturbed_operations(seed: int, unit: float = 0.0, choices: Sequence[Any] = ()) -> Iterator[None]:
    """Perturb the results of the operations that run eagerly in the block, each as its dtype rounds, or by a `unit`.

    The matrices of `NORMWISE` kernels are perturbed, too. The inside of a tf.function is reached, since its Python code
    runs. Operations on constants round alike at all points: once `computed_from` has named tensors, only what depends
    on them is perturbed. `choices` are those of an unperturbed run, from `choices_of`: another branch is no rounding.
    """
    generator, kept = np.random.default_rng(seed), iter(choices)

    def rounded(name: str, inputs: Iterable[Any], results: Any) -> Any:
        if not _any_floating(inputs):
            return results
        if _chooses(name, results):
            before = next(kept, results)
            return before if _shapes(before) == _shapes(results) else results
        if name in EXACT:
            return results
        return tf.nest.map_structure(
            lambda one: perturbed(one, generator, max(unit, _unit(one)), polar=name in POLAR), results
        )

    with _following() as known, functions_run_eagerly(), _calls_changed(seed, rounded, known):
        yield


def choices_of(run: Callable[[], Any]) -> list[Any]:
    """Return the results, in order, of comparisons and the like that depend on the inputs, in an eager run."""
    made: list[Any] = []

    def noted(name: str, inputs: Iterable[Any], results: Any) -> Any:
        made.extend([results] if _any_floating(inputs) and _chooses(name, results) else [])
        return results

    with _following() as known, functions_run_eagerly(), _calls_changed(None, noted, known):
        run()
    return made


def _any_floating(inputs: Iterable[Any]) -> bool:
    return any(one.dtype.name in ROUNDOFF for one in inputs if tf.is_tensor(one))


def _chooses(name: str, results: Any) -> bool:
    """Whether an operation on floating numbers has piecewise constant, integral or boolean results."""
    return name in STEPS or not any(one.dtype.is_floating or one.dtype.is_complex for one in tf.nest.flatten(results))


def _shapes(results: Any) -> list[Any]:
    return [one.shape for one in tf.nest.flatten(results)]


_left_alone = [False]


@contextmanager
def _matrices_left_alone() -> Iterator[None]:
    before, _left_alone[0] = _left_alone[0], True
    try:
        yield
    finally:
        _left_alone[0] = before


@contextmanager
def perturbed_matrices(seed: int) -> Iterator[None]:
    """Perturb the matrices of `NORMWISE` kernels that run eagerly in the block, also in gradients, and nothing else.

    Functions run as usual, which derivatives under test may depend on. Decompositions that may split are left
    unchanged.
    """
    with _calls_changed(seed, None, set(), factors_stay=True):
        yield


_dependent: list[set[int]] = []
"""The ids of tensors that depend on those named by `computed_from`, for each block that perturbs operations."""


@contextmanager
def _following() -> Iterator[set[int]]:
    _dependent.append(set())
    try:
        yield _dependent[-1]
    finally:
        _dependent.pop()


def computed_from(tensors: Iterable[Any]) -> None:
    """Declare these tensors and variables to be all that a perturbed function depends on."""
    if _dependent:
        named = {(one.handle if hasattr(one, "handle") else one)._id for one in tensors}
        for known in _dependent:
            known |= named


def _follow(known: set[int], flat: Sequence[Any], results: Any) -> None:
    """Note that the results of an operation, and the variables that it writes, depend on the known tensors."""
    written = [one for one in flat if one.dtype == tf.resource]
    known.update(one._id for one in (*tf.nest.flatten(results), *written) if isinstance(one, ops.EagerTensor))


@contextmanager
def _calls_changed(
    seed: int | None,
    rounded: Callable[[str, Iterable[Any], Any], Any] | None,
    known: set[int],
    factors_stay: bool = False,
) -> Iterator[None]:
    """Change the matrices of `NORMWISE` kernels, and the results of all operations where `rounded` says how."""
    generator, ours = None if seed is None else np.random.default_rng((seed, 1)), [False]

    def run(name: str, inputs: Sequence[Any], call: Callable[[Sequence[Any]], Any]) -> Any:
        if ours[0] or (rounded is None and name not in NORMWISE):
            return call(inputs)
        flat = [one for one in tf.nest.flatten(list(inputs)) if isinstance(one, ops.EagerTensor)]
        if known and known.isdisjoint(one._id for one in flat):
            return call(inputs)
        ours[0] = True
        try:
            stays = _left_alone[0] or (factors_stay and _splits(name, inputs))
            if generator is not None and name in NORMWISE and not stays:
                inputs = [shaken(one, generator) if _is_matrix(one) else one for one in inputs]
            results = call(inputs)
            results = results if rounded is None else rounded(name, flat, results)
        finally:
            ours[0] = False
        if known:
            _follow(known, flat, results)
        return results

    def quickly(original: Callable[..., Any], context: Any, name: str, label: Any, *args: Any) -> Any:
        return run(name, args, lambda inputs: original(context, name, label, *inputs))

    def slowly(original: Callable[..., Any], handle: Any, device: Any, name: str, given: Any, *args: Any) -> Any:
        return run(name, given, lambda inputs: original(handle, device, name, inputs, *args))

    calls = (*FAST_EXECUTION, quickly), (*KERNEL, slowly)
    with _marked(seed), patched(*calls):
        yield


def _splits(name: str, given: Sequence[Any]) -> bool:
    """Whether an operation with these inputs and attributes returns `DECOMPOSING` factors, not only singular values."""
    if name not in DECOMPOSING:
        return False
    flags = [after for one, after in pairwise(given) if isinstance(one, str) and one in ("compute_uv", "compute_v")]
    return all(flags)


def _is_matrix(value: Any) -> bool:
    return tf.is_tensor(value) and value.dtype.name in ROUNDOFF and len(value.shape) > 1


def _none(_: Any) -> bool:
    return False


def _unit(value: Any) -> float:
    return 2 * ROUNDOFF.get(value.dtype.name, 0.0) if tf.is_tensor(value) else 0.0


def _perturbed_gradient(
    function: Callable[..., Any],
    generator: np.random.Generator,
    inside: Callable[[], AbstractContextManager[None]],
    *,
    outputs: Callable[[Any], bool],
    polar: bool,
) -> Callable[..., Any]:
    moved = partial(perturbed, generator=generator, polar=polar)

    def gradient(op: Any, *cotangents: Any) -> Any:
        if not tf.executing_eagerly():
            return function(op, *cotangents)
        other = copy(op)
        if op.outputs:  # the tape keeps no outputs that the gradient function does not read
            other.outputs = [moved(output) if outputs(output) else output for output in op.outputs]
        given = list(map(moved, cotangents))
        with inside():
            parts = function(other, *given)
        many = isinstance(parts, (list, tuple))
        return list(map(moved, parts)) if many else moved(parts)

    return gradient
