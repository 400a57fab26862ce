"""Constrained inputs: the maps of the constraints; right functions agree, planted errors are found and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import hermitian, increasing, lower_triangular, positive_definite, simplex, symmetric, upper_triangular
from gradcheck.autodiff.constraints import Constrained
from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.sources import Source, parse_arguments
from gradcheck.problem.given import GivenGradient
from gradcheck.problem.opening import open_function
from tests import slices
from tests.verdicts import check

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(20)
X = RNG.normal(size=(3, 3))
Z = X[:2, :2] + 1j * RNG.normal(size=(2, 2))
SYMMETRIC = X + X.T
DEFINITE = X @ X.T + np.eye(3)
HERMITIAN = Z @ Z.conj().T + np.eye(2)
np.fill_diagonal(HERMITIAN, HERMITIAN.diagonal().real)  # not the 1e-17 of some processors, a scale of its own
COMPLEX_SYMMETRIC = Z + Z.T
BATCH = np.stack([DEFINITE, 2 * DEFINITE + np.eye(3)])
P, Q = RNG.dirichlet(np.ones(4)), RNG.dirichlet(np.ones(4))
SIDES = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
SORTED = np.array([-1.5, 0.0, 0.25, 4.0])

INPUTS = {
    "symmetric": (symmetric(SYMMETRIC), 6),
    "complex symmetric": (symmetric(COMPLEX_SYMMETRIC), 6),
    "hermitian": (hermitian(HERMITIAN), 4),
    "real hermitian": (hermitian(SYMMETRIC), 6),
    "definite": (positive_definite(DEFINITE), 6),
    "complex definite": (positive_definite(HERMITIAN), 4),
    "batch": (positive_definite(BATCH), 12),
    "lower": (lower_triangular(np.tril(X)), 6),
    "upper": (upper_triangular(np.triu(Z)), 6),
    "simplex": (simplex(P), 4),
    "simplices": (simplex(np.stack([P, Q])), 8),
    "increasing": (increasing(SORTED), 4),
}


def source_of(given: Constrained) -> Source:
    (source,) = parse_arguments((given,), None, ["x"]).sources
    return source


@pytest.mark.parametrize("name", INPUTS)
def test_the_coordinates_start_at_the_value_and_stay_in_the_set(name: str) -> None:
    given, count = INPUTS[name]
    source = source_of(given)
    start = source.coordinates(source.value)
    assert start.shape == (count,)
    np.testing.assert_array_equal(source.at(start), given.value)
    for _ in range(5):
        moved = source.at(start * (1 + 1e-3 * RNG.uniform(-1, 1, count)))
        assert given.constraint.violation("x", moved) is None
        assert not np.array_equal(moved, given.value)


@pytest.mark.parametrize("name", INPUTS)
def test_a_gradient_is_pulled_back_by_the_adjoint(name: str) -> None:
    given, count = INPUTS[name]
    source = source_of(given)
    move = RNG.normal(size=count)
    gradient = RNG.normal(size=source.shape).astype(source.value.dtype)
    if np.iscomplexobj(gradient):
        gradient += 1j * RNG.normal(size=source.shape)
    ahead = source.at(source.coordinates(source.value) + move) - source.value
    np.testing.assert_allclose(source.displacement(move), ahead, rtol=0, atol=1e-14)
    pushed = to_coordinates(gradient) @ to_coordinates(source.displacement(move))
    np.testing.assert_allclose(source.derivatives(gradient) @ move, pushed, rtol=1e-12)


def kl(p: Any) -> Any:
    return tf.reduce_sum(p * tf.math.log(p / Q), axis=-1)


def median(x: Any) -> Any:
    return tf.sort(x)[..., 1] * tf.sort(x)[..., 2] + tf.math.log(x[..., 3] - x[..., 2])


RIGHT: dict[str, tuple[Callable[..., Any], Constrained]] = {
    "cholesky": (tf.linalg.cholesky, positive_definite(DEFINITE)),
    "cholesky, batch": (tf.linalg.cholesky, positive_definite(BATCH)),
    "cholesky, float32": (tf.linalg.cholesky, positive_definite(np.array([[2, 0.5], [0.5, 1]], "f"))),
    "cholesky, 8 x 8": (tf.linalg.cholesky, positive_definite(np.eye(8) + 0.1)),
    "cholesky, condition 2e7": (tf.linalg.cholesky, positive_definite([[1.0, 1 - 1e-7], [1 - 1e-7, 1.0]])),
    "eigvalsh": (tf.linalg.eigvalsh, symmetric(SYMMETRIC)),
    "eigvalsh, complex": (tf.linalg.eigvalsh, hermitian(HERMITIAN)),
    "eigh": (lambda a: tf.linalg.eigh(a)[0], symmetric(SYMMETRIC)),
    "logdet": (tf.linalg.logdet, positive_definite(DEFINITE)),
    "logdet, complex": (tf.linalg.logdet, positive_definite(HERMITIAN)),
    "inverse": (tf.linalg.inv, symmetric(SYMMETRIC)),
    "inverse, complex": (tf.linalg.inv, symmetric(COMPLEX_SYMMETRIC)),
    "forward substitution": (lambda a: tf.linalg.triangular_solve(a, SIDES), lower_triangular(np.tril(X))),
    "back substitution": (lambda a: tf.linalg.triangular_solve(a, SIDES, lower=False), upper_triangular(np.triu(X))),
    "divergence": (kl, simplex(P)),
    "divergences": (kl, simplex(np.stack([P, Q]))),
    "divergence, float32": (lambda p: kl(tf.cast(p, tf.float64)), simplex(np.array([0.25, 0.5, 0.125, 0.125], "f"))),
    "median": (median, increasing(SORTED)),
    "gaps": (lambda x: tf.math.log(x[1:] - x[:-1]), increasing([1.0, 1.0 + 1e-6, 4.0])),
}


OF_EACH_SET = [
    *("cholesky, batch", "cholesky, float32", "cholesky, condition 2e7", "eigvalsh", "eigvalsh, complex"),
    *("inverse, complex", "forward substitution", "back substitution", "divergence, float32", "median", "gaps"),
]


@slices.parametrized("name", RIGHT, lambda _: OF_EACH_SET)
def test_right_functions_agree(name: str) -> None:
    f, given = RIGHT[name]
    result = check(f, given, order=2)
    assert result.verdict == "agree", str(result)
    assert max(order.relative_resolution for order in result.orders.values()) < 1e-3


def test_entry_by_entry_cholesky_which_reads_one_triangle_disagrees() -> None:
    (finding,) = check(tf.linalg.cholesky, DEFINITE).findings
    row, column = finding.index or (0, 0)
    assert (row < column, finding.difference) == (True, 0.0)


BESIDE: dict[str, tuple[Constrained, float]] = {
    "definite": (positive_definite([[1.0]]), -0.5),
    "simplex": (simplex([0.5, 0.5]), -0.5),
    "increasing": (increasing([1.0, 2.0]), 2.0),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_point_outside_of_the_set_has_no_value_and_no_gradient(name: str) -> None:
    given, first = BESIDE[name]
    calls: list[Any] = []

    def called(x: Any) -> Any:
        calls.append(x)
        return x

    function = open_function(called, (given,), None)
    outside = function.point.copy()
    outside[0] = first
    calls.clear()
    assert np.isnan(function.values(outside[None, :])).all()
    for problem in (function, GivenGradient.of(function, called)):
        assert np.isnan(problem.gradients(np.ones((1, problem.outputs)), outside).values).all()
    assert calls == []


@slices.parametrized("name", ["complex definite", "definite", "lower", "simplex", "increasing"], slices.every(2))
def test_the_function_is_never_asked_outside_of_the_set(name: str) -> None:
    given, _ = INPUTS[name]
    asked = []

    def f(x: Any) -> Any:
        asked.append(x.numpy())
        return tf.reduce_sum(tf.math.real(x * tf.math.conj(x)), axis=[])

    check(f, given, order=2)
    assert len(asked) > 100
    for value in asked:
        assert given.constraint.violation("x", value) is None


def off_by(f: Callable[[Any], Any], error: Array) -> Callable[[Any], Any]:
    """The scalar function `f` with an error in its gradient."""

    @tf.custom_gradient
    def nothing(x: Any) -> Any:
        return tf.zeros([], tf.float64), lambda dy: tf.cast(dy, x.dtype) * tf.constant(error, x.dtype)

    return lambda x: f(x) + nothing(x)


def unit(shape: tuple[int, ...], *index: int, size: complex = 1e-6) -> Array:
    error = np.zeros(shape, complex)
    error[index] = size
    return error if np.imag(size) else error.real


def total(x: Any) -> Any:
    return tf.reduce_sum(tf.math.real(x * tf.math.conj(x) * x))


SQUARE = (3, 3)
PLANTED = {
    "symmetric": (symmetric(SYMMETRIC), unit(SQUARE, 0, 2), "x[2, 0] (and x[0, 2])"),
    "diagonal": (symmetric(SYMMETRIC), unit(SQUARE, 1, 1), "x[1, 1]"),
    "real part": (hermitian(HERMITIAN), unit((2, 2), 0, 1), "x (real part)[1, 0] (and x[0, 1])"),
    "imaginary": (hermitian(HERMITIAN), unit((2, 2), 0, 1, size=1e-6j), "x (imaginary part)[1, 0] (and x[0, 1])"),
    "definite": (positive_definite(BATCH), unit((2, 3, 3), 1, 0, 1), "x[1, 1, 0] (and x[1, 0, 1])"),
    "lower": (lower_triangular(np.tril(X)), unit(SQUARE, 2, 1), "x[2, 1]"),
    "upper": (upper_triangular(np.triu(X)), unit(SQUARE, 0, 2), "x[0, 2]"),
    "simplex": (simplex(P), unit((4,), 2), "x[2] (the others giving way in proportion)"),
    "increasing": (increasing(SORTED), unit((4,), 3), "x[3]"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found_and_named(name: str) -> None:
    given, error, element = PLANTED[name]
    assert check(total, given).verdict == "agree"
    (finding,) = check(off_by(total, error), given).findings
    assert (finding.kind, finding.element) == (gradcheck.Kind.WRONG_VALUE, element)


ASKEW = unit(SQUARE, 0, 2) - unit(SQUARE, 2, 0)
INVISIBLE = {
    "antisymmetric": (symmetric(SYMMETRIC), ASKEW),
    "antihermitian": (hermitian(HERMITIAN), unit((2, 2), 1, 1, size=1e-6j)),
    "above": (lower_triangular(np.tril(X)), unit(SQUARE, 1, 2)),
    "below": (upper_triangular(np.triu(X)), unit(SQUARE, 2, 0)),
    "constant": (simplex(P), np.full(4, 1e-6)),
}


@pytest.mark.parametrize("name", INVISIBLE)
def test_what_no_move_in_the_set_can_show_does_not_count(name: str) -> None:
    given, error = INVISIBLE[name]
    assert check(off_by(total, error), given).verdict == "agree"
    assert check(off_by(total, error), given.value).verdict == "mismatch"


def test_a_cholesky_gradient_that_does_not_halve_its_diagonal() -> None:
    def pulled(a: Any, dl: Any, *, halved: bool) -> Any:
        """Murray 2016, equation 8."""
        root = tf.linalg.cholesky(a)
        middle = tf.linalg.band_part(tf.matmul(root, dl, transpose_a=True), -1, 0)
        middle = tf.linalg.set_diag(middle, tf.linalg.diag_part(middle) / 2) if halved else middle
        outer = tf.linalg.triangular_solve(root, tf.linalg.adjoint(middle), adjoint=True)
        return tf.linalg.triangular_solve(root, tf.linalg.adjoint(outer), adjoint=True)

    ones = np.tril(np.ones((3, 3)))
    a = positive_definite(DEFINITE)
    gradcheck.assert_close(tf.linalg.cholesky, a, gradient=lambda x: pulled(x, ones, halved=True), order=2)
    gradcheck.assert_close(tf.linalg.cholesky, a, gradient=pulled(DEFINITE, ones, halved=True).numpy())
    with pytest.raises(gradcheck.GradientWrongValue, match=r"with respect to x\["):
        gradcheck.assert_close(lambda x: tf.linalg.cholesky(x), a, gradient=lambda x: pulled(x, ones, halved=False))


def test_the_message_names_both_elements() -> None:
    def logdet(a: Any) -> Any:
        return off_by(tf.linalg.logdet, unit((2, 2), 0, 1, size=0.5))(a)

    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        gradcheck.assert_close(logdet, symmetric(DEFINITE[:2, :2]))
    assert "order 1, wrong value: the derivative of output element 0 with respect to a[1, 0] (and a[0, 1])\n" in str(
        caught.value
    )
    assert "off by       0.5 " in str(caught.value)


def test_variables_stay_in_their_sets_and_as_they_were() -> None:
    v, w = tf.Variable(DEFINITE), tf.Variable(P)
    gradcheck.assert_close(lambda a: tf.linalg.cholesky(a), positive_definite(v), order=2)
    named = [positive_definite(v), simplex(w)]
    gradcheck.assert_close(lambda: tf.linalg.logdet(v) * kl(w), variables=named, order=2)
    np.testing.assert_array_equal(v.numpy(), DEFINITE)
    np.testing.assert_array_equal(w.numpy(), P)
    assert check(lambda: tf.linalg.cholesky(v), variables=v).verdict == "mismatch"


def test_structured_inputs_stand_in_structures_beside_others() -> None:
    def f(inputs: Any, scale: Any) -> Any:
        return scale * tf.linalg.logdet(inputs["a"]) + tf.reduce_sum(inputs["b"][0] ** 2)

    given = ({"a": positive_definite(DEFINITE), "b": [np.ones(2)]}, 3.0)
    assert check(f, *given, order=2).verdict == "agree"
    finding = check(f, *given, gradient=({"a": np.zeros((3, 3)), "b": [2 * np.ones(2)]}, None)).findings[0]
    assert finding.input in ("inputs['a']", "scale")


OUTSIDE = {
    "x is not symmetric: x[0, 1] is 2.0, x[1, 0] is 3.0; give (x + transpose(x)) / 2, or x itself to perturb its "
    "elements one by one": symmetric([[1.0, 2.0], [3.0, 4.0]]),
    "x is not Hermitian: x[0, 1] is 1j, x[1, 0] is 1j; give (x + adjoint(x)) / 2, or x itself to perturb its elements "
    "one by one": hermitian([[1.0, 1j], [1j, 4.0]]),
    "x is not positive definite: the smallest eigenvalue of x[1] is -1, a positive one was expected; add a multiple of "
    "the identity, or give gradcheck.symmetric(x)": positive_definite([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]),
    "x is not lower triangular: x[0, 1] is 2.0, 0 was expected; give tf.linalg.band_part(x, -1, 0), or x itself to "
    "perturb all its elements": lower_triangular([[1.0, 2.0], [3.0, 4.0]]),
    "x is not upper triangular: x[1, 0] is 3.0, 0 was expected; give tf.linalg.band_part(x, 0, -1), or x itself to "
    "perturb all its elements": upper_triangular([[1.0, 2.0], [3.0, 4.0]]),
    "x is not inside the simplex: x[1] is 0.0, a positive number was expected; at the boundary there is no step to "
    "both sides, give a small number instead of zero": simplex([1.0, 0.0]),
    "x is not inside the simplex: x[1] sums to 1.25, 1 was expected; divide by the sum along the last axis": simplex(
        [[0.5, 0.5], [0.75, 0.5]]
    ),
    "x is not increasing: x[1] is 2.0, x[2] is 2.0; sort it along the last axis and move equal elements apart": (
        increasing([1.0, 2.0, 2.0])
    ),
    "x has shape (2,); square matrices, of shape (..., n, n), were expected": symmetric([1.0, 2.0]),
    "x has shape (1, 2); square matrices, of shape (..., n, n), were expected": lower_triangular([[1.0, 2.0]]),
    "x has shape () and dtype float64; real vectors, of shape (..., n), were expected": simplex(1.0),
    "x has shape (1,) and dtype complex128; real vectors, of shape (..., n), were expected": increasing([1j]),
}


@pytest.mark.parametrize("message", OUTSIDE, ids=range(len(OUTSIDE)))
def test_values_outside_of_the_set_are_refused(message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        check(tf.identity, OUTSIDE[message])
    assert str(caught.value).replace("input[", "x[").replace("input", "x") == message


def test_other_refusals() -> None:
    with pytest.raises(TypeError, match="holds int32; a constrained input has to be floating or complex"):
        check(lambda x: x, symmetric([[1, 2], [2, 1]]))
    with pytest.raises(TypeError, match="holds None; a constrained input"):
        check(lambda x: x, simplex(None))
    with pytest.raises(ValueError, match="x holds 1 NaN or Inf"):
        check(lambda x: x, increasing([1.0, np.nan]))


def test_rounding_is_no_reason_to_refuse() -> None:
    for dtype in ("float32", "float64"):
        askew = (DEFINITE * (1 + 2 * np.finfo(dtype).eps * np.tri(3))).astype(dtype)
        assert not np.array_equal(askew, askew.T)
        source_of(symmetric(askew))
    source_of(simplex((P * (1 + 1e-16)).astype(np.float32)))
    source_of(simplex(np.full(10, 0.1)))


@pytest.mark.parametrize("make", [symmetric, positive_definite, lower_triangular])
def test_empty_matrices_agree_trivially(make: Callable[[Any], Constrained]) -> None:
    assert check(lambda x: x, make(np.zeros((0, 0)))).verdict == "agree"
