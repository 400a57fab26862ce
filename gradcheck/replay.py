"""Taking the derivative that a report or a known defect is about, on the TensorFlow that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.pullback import pullbacks, second_pullbacks
from gradcheck.graphs.evaluation import forward
from gradcheck.graphs.graph import Graph, Input

Array = np.ndarray[Any, Any]


def derivative(graph: Graph, order: int, cotangent: Input, direction: Sequence[Input] = ()) -> list[Array | None]:
    """The gradient of sum(cotangent * output), or the Hessian times `direction` (order 2), for each input.

    None where TensorFlow gives None. Raises DerivativeRaised where it throws.
    """

    def outputs(sources: list[Any]) -> list[Any]:
        return [forward(graph, sources)[-1]]

    sources = [tf.constant(value.array()) for value in graph.inputs]
    weights = [tf.constant(cotangent.array())]
    if order == 1:
        parts = pullbacks(outputs, sources, [weights])[0]
    else:
        vectors = [tf.constant(vector.array()) for vector in direction]
        parts = second_pullbacks(outputs, sources, weights, [vectors]).products[0]
    return [None if part is None else tf.convert_to_tensor(part).numpy() for part in parts]
