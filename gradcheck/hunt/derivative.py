"""Taking the derivative that a report or a known defect is about, on the TensorFlow that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.execution import pullbacks, second_pullbacks
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import WrongShapeError
from gradcheck.hunt.evaluation import forward, forward_points
from gradcheck.hunt.graph import Graph, Input

Array = np.ndarray[Any, Any]
Values = tuple[tuple[float, ...] | None, ...]
STEP = 2.0**-10


def derivative(
    graph: Graph, order: int, cotangent: Input, direction: Sequence[Input] = (), mode: Mode = PLAIN
) -> list[Array | None]:
    """The gradient of sum(cotangent * output), or the Hessian times `direction` (order 2), for each input.

    It is taken in `mode`; None where TensorFlow gives None. Raises DerivativeRaisedError where it throws,
    ModeUnavailableError where the mode has none, WrongShapeError where a derivative has another shape than its input.
    """

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(graph, sources)[-1]]

    sources = [tf.constant(value.array()) for value in graph.inputs]
    weights = [tf.constant(cotangent.array())]
    if order == 1:
        parts = pullbacks(mode, outputs, sources, [weights])[0]
    else:
        vectors = [tf.constant(vector.array()) for vector in direction]
        parts = second_pullbacks(mode, outputs, sources, weights, [vectors]).products[0]
    arrays = [None if part is None else tf.convert_to_tensor(part).numpy() for part in parts]
    for number, (array, value) in enumerate(zip(arrays, graph.inputs, strict=True)):
        if array is not None and array.shape != value.shape:
            raise WrongShapeError(f"input {number}", f"of shape {array.shape}", f"of shape {value.shape}")
    return arrays


def differences(
    graph: Graph, order: int, cotangent: Input, direction: Sequence[Input] = (), *, step: float = STEP
) -> list[Array]:
    """The same from the values of the references alone, without a bound: extrapolated central differences of one step.

    Every evaluation is a batch of two points, because a reference may look at row 0, the unperturbed one.
    """
    point = [value.array() for value in graph.inputs]
    along = [vector.array() for vector in direction]
    weights = cotangent.array()

    def objective(moved: list[Array]) -> float:
        rows = [tf.constant(np.stack(pair)) for pair in zip(point, moved, strict=True)]
        output = forward_points(graph, rows)[-1][1].numpy()
        return float(np.sum(np.conj(weights) * output).real)

    def slope(moved: list[Array], vectors: list[Array], h: float) -> float:
        ahead, behind = ([a + s * b for a, b in zip(moved, vectors, strict=True)] for s in (h, -h))
        return (objective(ahead) - objective(behind)) / (2 * h)

    def central(vectors: list[Array], h: float) -> float:
        if order == 1:
            return slope(point, vectors, h)
        ahead, behind = ([a + s * b for a, b in zip(point, vectors, strict=True)] for s in (h, -h))
        return (slope(ahead, along, h) - slope(behind, along, h)) / (2 * h)

    def entry(place: int, element: tuple[int, ...], unit: complex) -> float:
        vectors = [np.zeros_like(part) for part in point]
        vectors[place][element] = unit
        return (4 * central(vectors, step / 2) - central(vectors, step)) / 3

    results = []
    for place, part in enumerate(point):
        result = np.zeros_like(part)
        for element in np.ndindex(part.shape):
            result[element] = entry(place, element, 1.0)
            if np.iscomplexobj(part):
                result[element] += 1j * entry(place, element, 1.0j)
        results.append(result)
    return results


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


def _reals(part: Array) -> list[float]:
    flat = part.ravel()
    if np.iscomplexobj(flat):
        flat = np.stack([flat.real, flat.imag], axis=-1).ravel()
    return [float(x) for x in flat]
