"""Intervals, the defaults of an OpSpec, how entries are written, and the vocabularies of shapes and kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.graph import Shape
from gradcheck.hunt.evaluation import over_points, single
from gradcheck.operations import distances, shapes
from gradcheck.operations.language import along_axis, operation, points_last, reduces_points, rows_first
from gradcheck.operations.spec import (
    NONNEGATIVE,
    POSITIVE,
    REALS,
    Choice,
    Formula,
    Indices,
    Interval,
    OpSpec,
    Rule,
    attribute_names,
)


@pytest.mark.parametrize(
    ("interval", "value", "inside"),
    [
        (REALS, 0.0, True),
        (POSITIVE, 0.0, False),
        (POSITIVE, 1e-300, True),
        (NONNEGATIVE, 0.0, True),
        (NONNEGATIVE, -1e-300, False),
        (Interval(-1.0, 1.0), 1.0, False),
        (Interval(-1.0, 1.0, closed=True), 1.0, True),
        (REALS, np.nan, False),
        (POSITIVE, 1.0 - 1.0j, False),
        (POSITIVE, 1.0 + 1.0j, True),
    ],
)
def test_interval_contains(interval: Interval, value: complex, inside: bool) -> None:
    assert interval.contains(np.array([1.0 + 1.0j if isinstance(value, complex) else 0.5, value])) is inside


def test_interval_contains_an_empty_array() -> None:
    assert POSITIVE.contains(np.zeros((0,)))


def test_one_domain_and_one_dtype_serve_all_arguments() -> None:
    spec = OpSpec("f", lambda x, y: x + y, (), "math", arity=2, domains=(POSITIVE,), dtypes=("complex128",))
    assert (spec.domain(0), spec.domain(1)) == (POSITIVE, POSITIVE)
    assert (spec.dtype(0), spec.dtype(1)) == ("complex128", "complex128")


def test_each_argument_has_its_own_domain_and_dtype() -> None:
    spec = OpSpec(
        "f", lambda x, y: x + y, (), "math", arity=2, domains=(REALS, POSITIVE), dtypes=("float64", "complex128")
    )
    assert (spec.domain(0), spec.domain(1)) == (REALS, POSITIVE)
    assert (spec.dtype(0), spec.dtype(1)) == ("float64", "complex128")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3), (2, 1, 2)])
def test_broadcasting_shapes_broadcast(shape: Shape) -> None:
    pairs = shapes.broadcasting(shape)
    assert pairs[0] == (shape, shape)
    for first, second in pairs:
        assert first == shape
        np.broadcast_shapes(first, second)


@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1), (2, 2, 1), (2, 1, 3, 2)])
def test_matmul_shapes_multiply(shape: Shape) -> None:
    pairs = shapes.matmul(shape)
    assert len(pairs) >= 2
    for first, second in pairs:
        np.matmul(np.ones(first), np.ones(second))


REFUSED: list[tuple[Rule, Shape]] = [
    (shapes.matmul, (2,)),
    (shapes.matmul, (2, 0)),
    (shapes.vector, ()),
    (shapes.vector, (2, 0)),
    (shapes.ranked, ()),
    (shapes.nonempty, (0,)),
    (shapes.nonempty_matrix, (0, 2)),
    (shapes.square, ()),
    (shapes.square, (2,)),
    (shapes.square, (2, 3)),
    (shapes.square, (0, 0)),
    (shapes.at_least(1, 1, 1), (2, 2)),
    (shapes.at_least(1, 1, 1), (2, 2, 0)),
    (shapes.at_least(2, 3), (3, 2)),
]


def test_shapes_that_are_refused() -> None:
    assert [(place, shape) for place, (rule, shape) in enumerate(REFUSED) if rule(shape) != []] == []


@pytest.mark.parametrize(
    ("distance", "arguments", "attributes", "expected"),
    [
        (distances.at_zero, ([-2.0, 0.0],), {}, [2.0, 0.0]),
        (distances.second_at_zero, ([1.0], [-3.0]), {}, [3.0]),
        (distances.at(0.0, 6.0), ([1.0, 6.0],), {}, [[1.0, 6.0], [5.0, 0.0]]),
        (distances.at_integers, ([1.75, -2.0],), {}, [0.25, 0.0]),
        (distances.between, ([1.0, 2.0], 1.5), {}, [0.5, 0.5]),
        (distances.norms, ([[3.0, 4.0], [0.0, 0.0]],), {}, [5.0, 0.0]),
        (distances.norms, ([[3.0, 0.0], [4.0, 0.0]],), {"axis": -2}, [5.0, 0.0]),
        (distances.ties, ([3.0, 1.0, 1.5],), {}, [0.5, 1.5]),
        (distances.ties_of_largest, ([3.0, 1.0, 1.5],), {}, [1.5]),
        (distances.ties_of_smallest, ([3.0, 1.0, 1.5],), {}, [0.5]),
        (distances.ties_of_largest, ([[3.0], [1.0]],), {"axis": -2}, [[2.0]]),
        (distances.ties_of_largest, ([3.0],), {}, []),
        (distances.ties_within(distances.ties_of_largest), ([3.0, 1.0, 1.5, 9.0],), {"ids": (0, 1, 0, -1)}, [1.5]),
        (distances.gaps_of_eigenvalues, ([[2.0, 0.0], [0.0, 5.0]],), {}, [3.0]),
        (distances.gap_of_abscissa, ([[2.0, 1.0], [0.0, 5.0]],), {}, [3.0]),
        (distances.gap_of_abscissa, ([[0.0, -1.0], [1.0, 2.0]],), {}, [0.0]),
        (distances.gap_of_abscissa, ([[0.0, -1.0 + 0j], [1.0, 2.0]],), {}, [0.0]),
        (distances.gap_of_abscissa, ([[1.0, 1.0], [0.0, 1.0 + 1e-6]],), {}, [1e-6]),
        (distances.gap_of_abscissa, ([[0.0, -1.0], [1.0, 0.0]],), {}, [2.0]),
        (distances.gaps_of_singular_values, ([[-2.0, 0.0], [0.0, 5.0]],), {}, [5.0, 2.0, 3.0]),
    ],
)
def test_distances(distance: Any, arguments: Any, attributes: dict[str, Any], expected: Any) -> None:
    np.testing.assert_allclose(distance(*map(np.array, arguments), **attributes), expected, atol=1e-15)


def test_attributes_are_the_parameters_by_keyword() -> None:
    assert attribute_names(lambda x, y, *, factor, axis: factor * x + axis * y) == ("axis", "factor")
    assert attribute_names(lambda x, *others, **ways: x) == ()


def test_an_entry_takes_its_arity_from_its_source() -> None:
    def scaled(x: Any, y: Any, *, factor: float) -> Any:
        return factor * x * y

    assert operation("math", "f", lambda x, y, z: x + z * y, "Mul AddV2").arity == 3
    spec = operation("math", "f", scaled, "Mul", factor=(2.0,))
    assert (spec.arity, spec.gradients, spec.domains, dict(spec.attributes((), ()))) == (
        *(2, ("Mul",), (REALS,)),
        {"factor": Choice((2.0,))},
    )


def test_an_entry_declares_what_its_source_names_in_the_order_given() -> None:
    source = lambda x, *, a, b, c: x[a, b, c]  # noqa: E731
    spec = operation("array", "f", source, c=range(2), a=lambda shape: shape, b=Indices(2, 3))
    assert list(spec.attributes((4, 5)).items()) == [("c", Choice((0, 1))), ("a", Choice((4, 5))), ("b", Indices(2, 3))]
    with pytest.raises(TypeError, match="wich"):
        operation("array", "f", lambda x, *, which: x[which], wich=(0, 1))


def test_indices_may_be_more_in_a_file_where_their_entry_says_so() -> None:
    assert [Indices(2, 3, longer=longer).offers((0, 1, 2)) for longer in (False, True)] == [False, True]
    assert not Indices(2, 3, longer=True).offers((0,))
    assert not Indices(2, 3, longer=True).offers((0, 1, 3))
    assert not Indices(2, 3, longer=True).offers((0,) * 4097)


def test_an_entry_restricts_and_completes_shapes() -> None:
    def when(shape: Shape) -> bool:
        return shape[-1] > 1

    spec = operation(
        "math", "f", lambda x, y: x + y, shapes=shapes.vector, when=when, others=lambda shape: [((),), (shape,)]
    )
    assert [spec.shapes(shape) for shape in [(), (1,), (2,)]] == [[], [], [((2,), ()), ((2,), (2,))]]


def test_the_form_for_points_follows_from_the_source_unless_it_is_given() -> None:
    def first(x: Any) -> Any:
        return x[0]

    def last(x: Any) -> Any:
        return x[-1]

    assert operation("array", "f", first).batched is None
    assert operation("array", "f", first, batching=lambda form: {first: last}[form]).batched is last
    assert operation("array", "f", first, batching=points_last, batched=last).batched is last


POINTS = np.arange(12.0).reshape(2, 3, 2)
"""Two points, each a matrix."""


@pytest.mark.parametrize(
    ("form", "batching", "attributes"),
    [
        (lambda x: x[:2] - x[-1], points_last, {}),
        (lambda x: tf.cumsum(x, 0), rows_first, {}),
        *((lambda x, *, axis: tf.cumsum(x, axis), along_axis, {"axis": axis}) for axis in (0, 1, -1)),
        *(
            (lambda x, *, axis: tf.reduce_sum(x, axis), reduces_points, {"axis": axis})
            for axis in (0, -1, (0, 1), None)
        ),
    ],
)
def test_a_form_for_points_does_with_each_what_the_operation_does(
    form: Formula, batching: Any, attributes: Any
) -> None:
    expected = [form(tf.constant(point), **attributes) for point in POINTS]
    np.testing.assert_array_equal(batching(form)(tf.constant(POINTS), **attributes), expected)


def test_an_operation_on_batches_takes_one_point_as_a_batch_of_one() -> None:
    spec = operation("array", "f", lambda x, y, *, by: tf.stack([x * by, y], axis=1), in_batch=True, by=(2.0, 3.0))
    x, y = tf.constant([[1.0], [2.0]]), tf.constant([[5.0], [7.0]])
    points = over_points(spec)(x, y, by=3.0)
    np.testing.assert_array_equal(points, [[[3.0], [5.0]], [[6.0], [7.0]]])
    for row in (0, 1):
        np.testing.assert_array_equal(single(spec)(x[row], y[row], by=3.0), points[row])


def test_raw_operations_name_their_gradients() -> None:
    def source(x: Any) -> Any:
        return tf.raw_ops.MatrixDiag(diagonal=tf.raw_ops.Neg(x=x))

    assert operation("array", "f", source).gradients == ("MatrixDiag", "Neg")
    assert operation("array", "f", source, "MatrixDiag").gradients == ("MatrixDiag",)
    assert operation("nn", "f", lambda x: tf.nn.silu(x)).gradients == ()
