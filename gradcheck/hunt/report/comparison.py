"""A graph's derivative held against differences once more, element by element, for the tables and drawings of a page.

Everything here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.comparison.first_order import compare_first
from gradcheck.comparison.second_order import compare_second
from gradcheck.comparison.summary import element_of
from gradcheck.comparison.tables import Comparison, Tolerance, stacked
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.graph_problem import GraphProblem, nonsmooth_nodes
from gradcheck.numerics.probing import axes
from gradcheck.result import Verdict

Array = np.ndarray[Any, Any]

MOST = 256
"""More elements than these are not looked at one by one."""


@dataclass(frozen=True)
class ElementComparison:
    """The gradient of <w, y>, or its Hessian times a direction (order 2), beside differences, one entry a coordinate.

    `cotangent` (m,) is w in coordinates; `direction` (n,) is None at order 1.
    """

    graph: Graph
    cotangent: Array
    direction: Array | None
    mode: Mode = PLAIN

    @staticmethod
    def of(graph: Graph, cotangent: Input, direction: Sequence[Input] = (), mode: Mode = PLAIN) -> ElementComparison:
        """The comparison that a report is about."""
        vectors = [to_coordinates(vector.array()) for vector in direction]
        return ElementComparison(
            graph, to_coordinates(cotangent.array()), np.concatenate(vectors) if vectors else None, mode
        )

    @cached_property
    def problem(self) -> GraphProblem:
        """The graph under the cotangent, as a function of all its inputs' coordinates."""
        values = values_of(self.graph)
        largest = max(float(np.max(np.abs(value), initial=0.0)) for value in values)
        smooth = nonsmooth_nodes(self.graph, values).smooth
        shape, dtype = tuple(values[-1].shape), str(values[-1].dtype)
        return GraphProblem(self.graph, shape, dtype, smooth, self.cotangent, largest, mode=self.mode)

    @cached_property
    def entries(self) -> Comparison:
        """One entry a coordinate, arrays of shape (n,).

        Raises DerivativeRaisedError and WrongShapeError where there is no derivative to compare, ValueError beyond 256
        coordinates.
        """
        count = self.problem.point.size
        if count > MOST:
            raise ValueError(f"{count} elements were given; at most {MOST} are compared one by one")
        if self.direction is None:
            return stacked([compare_first(self.problem, axes(count), np.ones((1, 1)), Tolerance())])
        return stacked(compare_second(self.problem, self.direction[None, :], np.ones(1), Tolerance())[:1])

    @property
    def worst(self) -> int:
        """The coordinate whose error is the largest beside what is allowed, a wrong one where there is any."""
        wrong = self.entries.where(Verdict.MISMATCH)
        return int(
            np.argmax(np.where(wrong, np.maximum(self.entries.excess(), 1.0), -1.0 / (1.0 + self.entries.excess())))
        )

    @property
    def verdict(self) -> str:
        """The worst verdict of the entries."""
        worst = Verdict.worst([Verdict.AGREE, *(verdict for verdict in Verdict if self.entries.any(verdict))])
        return "agree at a kink" if worst == Verdict.AGREE and self.entries.at_kink.any() else worst.value

    @property
    def counts(self) -> tuple[int, int]:
        """How many entries are wrong, and how many were compared."""
        wrong, inconclusive = (int(np.sum(self.entries.where(v))) for v in (Verdict.MISMATCH, Verdict.INCONCLUSIVE))
        return wrong, self.entries.verdict.size - inconclusive

    def name(self, coordinate: int) -> str:
        """The element behind a coordinate, such as `input 0[1, 2]`."""
        name, index, _ = element_of(self.problem.sources, coordinate)
        return f"{name}[{', '.join(map(str, index))}]" if index else name
