"""What a record of reports/known advises instead has the right derivative, taken in the record's own mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects.records import DEFECT, Defect
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import split_coordinates
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.known_graphs import example_of, load
from gradcheck.hunt.recheck import close, problem_of, values
from gradcheck.hunt.script import variables
from gradcheck.result import Kind

FOLDER = Path(__file__).parents[2] / "reports" / "known"
DEFECTS = load(FOLDER)
REMEDIED = [pytest.param(defect, id=defect.name) for defect in DEFECTS if defect.remedy is not None]


@dataclass(frozen=True)
class RemediedProblem(GraphProblem):
    """The problem of a graph, with the operations of a remedy in the place of its own."""

    remedy: str = ""

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        names = variables(self.graph)[: len(self.graph.inputs)]
        scope: dict[str, Any] = {"tf": tf, "np": np, **dict(zip(names, inputs, strict=True))}
        exec(self.remedy, scope)  # a committed text, which the library only prints
        return [scope["y"]]


@pytest.mark.parametrize("defect", REMEDIED)
def test_the_remedy_has_the_value_and_the_right_derivative(defect: Defect) -> None:
    example, narrow = example_of(defect), ROUNDOFF[defect.signature.taken.number_type or "float64"]
    rtol = max([1e-7, 4 * narrow, *(CATALOGUE[node.op].rtol for node in defect.graph.nodes)])
    given = replace(problem_of(example), taped=None)
    problem = RemediedProblem(**vars(given), remedy=defect.remedy or "")
    np.testing.assert_allclose(problem.forward(problem.tensors(None))[0], given.output, rtol=rtol, atol=rtol)
    one = np.ones(1)
    taken = problem.gradients(one[None, :]) if example.order == 1 else problem.products(one, problem.direction[None, :])
    parts: list[Any] = split_coordinates(taken.values[0], example.graph.inputs)
    assert close(values(parts), defect.right, rtol)


WITHOUT = {
    "batch-norm-grad-stopped-mean": "the operation of the gradient; nothing else computes it",
    "batch-norm-grad-one-tensor": "tf.identity of one of both; what then is wrong is that the mean is held constant",
    "py-function-forgets-inputs": "the rows' values given as a tensor, which is another call",
    "block-lstm-other-outputs": "the cell written out is the remedy, at 30 lines",
    "block-lstm-clip": "the cell written out is the remedy, at 30 lines",
    "block-lstm-v2-gate-order": "the cell written out is the remedy, at 30 lines",
    "betainc-in-a-and-b": "TensorFlow has no other function with this derivative",
    "zeta-in-x": "TensorFlow has no other function with this derivative",
    "safe-reciprocal": "singular vectors that a scale does not help, as singular values are 0; the others have one",
    "crop-and-resize-on-pixel": "any subgradient would do; none is at hand",
    "igamma-large": "TensorFlow has no other function with this derivative",
    "ctc-loss-dense-large": "the loss is wrong as well; its recursion written out is the remedy, at 20 lines",
    "truncated-normal-bounds": "an implicit derivative, which takes a custom gradient",
    "max-pool3d-ties": "any subgradient would do",
}
"""Root causes for whose plain records there is no short remedy, with the reason."""


def test_a_plain_defect_has_a_remedy_or_a_reason() -> None:
    kinked = (Kind.SUBDIFFERENTIAL,)
    bare = [
        one.name
        for one in DEFECTS
        if one.remedy is None
        and one.signature.taken == PLAIN
        and one.category == DEFECT
        and one.kind not in kinked
        and one.cause not in WITHOUT
    ]
    assert bare == []
