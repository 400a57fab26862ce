from __future__ import annotations

import numpy as np
import pytest

from gradcheck.autodiff.reverse import WrongShapeError
from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt.finding import Example
from gradcheck.hunt.recheck import derivative, differences

STAIRS = Graph(
    (Input((2,), (0.3, 0.25)),),
    (
        Node.of("quantize_and_dequantize_v2", 0, narrow=False, rounding="HALF_TO_EVEN", signed=True),
        Node.of("square", 1),
    ),
)


def test_differences_start_from_the_step_on_which_a_straight_through_operation_stands() -> None:
    weights, step = literal([1.0, 1.0]), 1 / 127
    (slope,) = differences(Example(STAIRS, 1, weights))
    np.testing.assert_allclose(slope, [2 * round(0.3 / step) * step, 2 * round(0.25 / step) * step], rtol=1e-9)
    second_order = Example(STAIRS, 2, weights, (literal([1.0, 0.5]),))
    (curvature,) = differences(second_order)
    np.testing.assert_allclose(curvature, [2.0, 1.0], rtol=1e-6)
    (first,), (second,) = derivative(Example(STAIRS, 1, weights)), derivative(second_order)
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(first, slope, rtol=1e-9)
    np.testing.assert_allclose(second, [2.0, 1.0], rtol=1e-9)


def test_differences_of_samples_follow_the_distribution_function() -> None:
    graph = Graph((Input((1,), (2.5,)),), (Node.of("stateless_gamma", 0),))
    example = Example(graph, 1, literal([1.0]))
    (given,), (slope,) = derivative(example), differences(example)
    assert slope == pytest.approx(given, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_a_derivative_of_another_shape_is_refused(order: int) -> None:
    """At order 2 no direction fits the first one, of which TensorFlow would raise something else."""
    graph = Graph((Input((3,), (3.0, 1.0, 2.0)),), (Node.of("isotonic_regression", 0, decreasing=True),))
    direction = (literal([1.0, 0.5, 0.25]),) * (order - 1)
    with pytest.raises(WrongShapeError, match=r"of shape \(3, 1\); its source is of shape \(3,\)"):
        derivative(Example(graph, order, literal([1.0, 2.0, 4.0]), direction))


def test_an_input_without_elements_has_a_derivative_without_elements() -> None:
    graph = Graph((Input((2,), (0.5, 1.5)), Input((0,), ())), (Node.of("sin", 1), Node.of("sin", 0)))
    first, second = derivative(Example(graph, 1, literal([1.0, 2.0])))
    assert first is not None
    np.testing.assert_allclose(first, np.cos([0.5, 1.5]) * [1.0, 2.0], rtol=1e-15)
    assert second is not None
    assert second.shape == (0,)


def test_an_input_that_the_output_does_not_depend_on_has_none() -> None:
    graph = Graph((Input((2,), (0.5, 1.5)), Input((), (3.0,))), (Node.of("sin", 0),))
    assert derivative(Example(graph, 1, literal([1.0, 2.0])))[1] is None
