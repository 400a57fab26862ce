"""A graph's values at its literal inputs, and its gradient there without another evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.pullback import Tensors, pulled_back, watched
from gradcheck.graphs.evaluation import forward
from gradcheck.graphs.graph import Graph

Array = np.ndarray[Any, Any]


class Taped:
    """One evaluation under a tape. `values` are those at all positions, the inputs first.

    The tape is not persistent, as that of someone who wants one gradient: it gives one. What an operation raises is
    raised.
    """

    def __init__(self, graph: Graph) -> None:
        self._inputs = [tf.constant(literal.array()) for literal in graph.inputs]
        self._tape, tensors = watched(lambda inputs: forward(graph, inputs), self._inputs)
        self._output = tensors[-1]
        self.values: tuple[Array, ...] = tuple(tensor.numpy() for tensor in tensors)

    def gradient(self, cotangent: Any) -> Tensors | None:
        """The gradient of <cotangent, output>, a tensor or None an input; None if the tape is used up.

        Raises DerivativeRaisedError where the backward pass throws.
        """
        if self._tape is None:
            return None
        tape, self._tape = self._tape, None
        return pulled_back(tape, [self._output], self._inputs, [cotangent], order=1)
