"""Taking the derivative that a report or a known defect is about, on the TensorFlow that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count, from_coordinates, to_coordinates
from gradcheck.autodiff.execution import pullbacks, second_pullbacks
from gradcheck.autodiff.reverse import WrongShapeError
from gradcheck.defects.records import Values
from gradcheck.hunt.evaluation import forward, forward_points
from gradcheck.hunt.finding import Example
from gradcheck.hunt.graph import Input
from gradcheck.numerics.difference import difference_quotient

Array = np.ndarray[Any, Any]
STEP = 2.0**-10


def derivative(example: Example) -> list[Array | None]:
    """TensorFlow's derivative for each input; None where it gives None.

    Raises DerivativeRaisedError where it throws, ModeUnavailableError where the mode has none, WrongShapeError where a
    derivative has another shape than its input.
    """

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(example.graph, sources)[-1]]

    sources = [tf.constant(value.array()) for value in example.graph.inputs]
    weights = [tf.constant(example.cotangent.array())]
    if example.order == 1:
        parts = pullbacks(example.taken, outputs, sources, [weights])[0]
    else:
        vectors = [tf.constant(vector.array()) for vector in example.direction]
        parts = second_pullbacks(example.taken, outputs, sources, weights, [vectors]).products[0]
    arrays = [None if part is None else tf.convert_to_tensor(part).numpy() for part in parts]
    for number, (array, value) in enumerate(zip(arrays, example.graph.inputs, strict=True)):
        if array is not None and array.shape != value.shape:
            raise WrongShapeError(f"input {number}", f"of shape {array.shape}", f"of shape {value.shape}")
    return arrays


def differences(example: Example, *, step: float = STEP) -> list[Array]:
    """The same from the values of the references alone, without a bound: difference quotients at two steps, combined.

    The error of the quotient at half the step is a quarter, so that (4 half - whole) / 3 is left with the next order's.
    """
    inputs = example.graph.inputs
    point = _coordinates(inputs)
    along, weights = _coordinates(example.direction), example.cotangent.array()

    def objective(points: Array) -> Array:
        # A reference may compare with row 0, the unperturbed point.
        rows = [_split(row, inputs) for row in (point, *points)]
        output = forward_points(example.graph, [tf.constant(np.stack(one)) for one in zip(*rows, strict=True)])[-1]
        moved = np.conj(weights) * output.numpy()[1:]
        return np.asarray(moved.reshape(len(points), -1).sum(axis=1).real)

    def quotient(unit: Array, h: float) -> Array:
        if example.order == 1:
            return difference_quotient(objective, point, unit, h)

        def slopes(points: Array) -> Array:
            return np.stack([difference_quotient(objective, moved, along, h) for moved in points])

        return difference_quotient(slopes, point, unit, h)

    entries = [(4 * quotient(unit, step / 2) - quotient(unit, step)) / 3 for unit in np.eye(point.size)]
    return _split(np.array(entries), inputs)


def values(parts: Sequence[Array | None]) -> Values:
    """Arrays as tuples in row-major order, complex elements as real part, imaginary part."""
    return tuple(None if part is None else tuple(_reals(part)) for part in parts)


def close(one: Values, other: Values, rtol: float) -> bool:
    """Whether two derivatives agree to `rtol`, relative above 1 and absolute below; NaN agrees with NaN.

    >>> close(((1.0, float("nan")), None), ((1.0, float("nan")), None), 1e-9)
    True
    """
    return len(one) == len(other) and all(
        (a is None and b is None) or (a is not None and b is not None and len(a) == len(b) and _near(a, b, rtol))
        for a, b in zip(one, other, strict=True)
    )


def _near(one: tuple[float, ...], other: tuple[float, ...], rtol: float) -> bool:
    return bool(np.allclose(one, other, rtol=rtol, atol=rtol, equal_nan=True))


def _coordinates(parts: Sequence[Input]) -> Array:
    return np.concatenate([np.empty(0), *(to_coordinates(part.array()) for part in parts)])


def _split(row: Array, inputs: Sequence[Input]) -> list[Array]:
    """The inputs, or what has their shapes, from all their coordinates."""
    ends = np.cumsum([coordinate_count(value.shape, value.dtype) for value in inputs])
    parts = np.split(row, ends[:-1])
    return [from_coordinates(part, value.shape, value.dtype) for part, value in zip(parts, inputs, strict=True)]


def _reals(part: Array) -> list[float]:
    flat = part.ravel()
    if np.iscomplexobj(flat):
        flat = np.stack([flat.real, flat.imag], axis=-1).ravel()
    return [float(x) for x in flat]
