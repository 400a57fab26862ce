"""Every operation of the catalogue is what its entry says."""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import signatures
from gradcheck.strategies.values import alternatives, smooth
from tensorflow.python.framework.ops import gradient_registry
from tensorflow.python.ops import map_ops  # noqa: F401  (registers gradients that `import tensorflow` does not)

from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects import known
from gradcheck.defects.records import version_of
from gradcheck.defects.region import COMPLEX
from gradcheck.hunt import catalogue
from gradcheck.hunt.catalogue import CATALOGUE, FUNCTIONS, GROUPS, by_name
from gradcheck.hunt.catalogue.control_flow import plus_or_minus_the_sum, times_the_sine
from gradcheck.hunt.catalogue.language import traced, traced_anew
from gradcheck.hunt.census import Judgement, census
from gradcheck.hunt.evaluation import forward, single
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.nonsmooth import count_on
from gradcheck.hunt.opspec import Choice, Distances, OpSpec

Array = np.ndarray[Any, Any]

SPECS = tuple(CATALOGUE.values())
NONSMOOTH = tuple(spec for spec in SPECS if spec.kinks or spec.singular)
KINKED = tuple(spec for spec in SPECS if spec.kinks)
C1_NOT_C2 = tuple(spec for spec in SPECS if spec.curvature_jumps)
IN_FLOAT64 = tuple(spec for spec in SPECS if 2 in spec.orders and (spec.reference or not spec.rtol))
REFERENCED = tuple(spec for spec in SPECS if spec.reference)
BATCHED = tuple(spec for spec in SPECS if not spec.looped)
EPS = float(np.finfo(np.float64).eps)
WIDER = {
    "complex_pow": "at 0 a power above the first has the slope 0 on all sides",
    "crop_and_resize": "an image of one value has no kinks",
}
"""Declared points at which the function is smooth after all: the declaration is wider than it has to be."""


def named(specs: tuple[OpSpec, ...]) -> Any:
    return pytest.mark.parametrize("spec", specs, ids=[spec.name for spec in specs])


def alone(spec: OpSpec, example: Any, arguments: Any = None) -> Array:
    tensors = [tf.constant(value) for value in (arguments or example.arguments)]
    return np.asarray(single(spec)(*tensors, **example.attributes).numpy())


def graph_of(spec: OpSpec, example: Any) -> Graph:
    inputs = tuple(
        Input(value.shape, tuple(value.ravel().tolist()), spec.dtype(position))
        for position, value in enumerate(example.arguments)
    )
    return Graph(inputs, (Node.of(spec.name, *range(spec.arity), **example.attributes),))


def over(spec: OpSpec, example: Any, points: list[Array], *, reference: bool) -> Array:
    graph = graph_of(spec, example)
    return np.asarray(forward(graph, [tf.constant(p) for p in points], points=True, reference=reference)[-1].numpy())


def largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0))


def distance(spec: OpSpec, example: Any, *declared: Distances | None) -> float:
    """The distance to the nearest declared point: kinks and singular ones, unless what is declared is given."""
    found = [d for d in declared or (spec.kinks, spec.singular) if d]
    smallest = (np.min(d(*example.arguments, **example.attributes), initial=np.inf) for d in found)
    return float(min(smallest, default=np.inf))


def moves(spec: OpSpec, value: Array, rng: np.random.Generator) -> Array:
    """Five random directions and their opposites, the sign in front, behind a row that does not move."""
    direction = rng.uniform(0.5, 1.0, (5, *value.shape)) * rng.choice([-1.0, 1.0], (5, *value.shape))
    if np.iscomplexobj(value):
        direction = direction + 1j * rng.uniform(0.5, 1.0, direction.shape)
    return np.concatenate([np.zeros((1, *value.shape)), direction, -direction])


def tiny(value: Array) -> bool:
    """Whether a step of usual size leads far away from the argument."""
    return EPS < largest(value) < EPS ** (1 / 3)


def step_of(spec: OpSpec) -> float:
    """The step of one-sided differences."""
    return float((EPS if spec.reference else max(EPS, spec.rtol)) ** (1 / 3))


def one_sided(spec: OpSpec, example: Any, *, shares: bool = False) -> tuple[Array, Array, float, bool]:
    """The one-sided changes of the function in five directions, the change that rounding may make, and steepness.

    With `shares`, tiny arguments move by a share of their own size.
    """
    rng = np.random.default_rng(7)
    step = step_of(spec)
    sizes = [largest(value) if shares and tiny(value) else 1.0 for value in example.arguments]
    points = [
        value + step * size * moves(spec, value, rng) for value, size in zip(example.arguments, sizes, strict=True)
    ]
    centre, *rest = over(spec, example, points, reference=True)
    right, left = np.array(rest[:5]) - centre, centre - np.array(rest[5:])
    size = 1 + largest(centre)
    steep = not (np.isfinite(size) and max(largest(right), largest(left)) <= 5e2 * step * size)
    return right, left, step * size, steep


def slopes_agree(spec: OpSpec, example: Any) -> bool:
    """Whether the one-sided slopes meet in five directions; a value that does not exist on one side counts as no.

    What is not smooth at a tiny argument may look smooth from further away.
    """

    def agree(shares: bool) -> bool:
        right, left, allowed, steep = one_sided(spec, example, shares=shares)
        return not steep and largest(right - left) <= 1e-2 * (allowed + largest(right))

    return all(map(agree, {False, any(map(tiny, example.arguments))}))


def on_declared_points(spec: OpSpec, sampler: Any) -> list[Any]:
    """Examples on a declared kink or singular point, all of whose arguments have elements."""
    moved = (candidate for point in sampler.generic(spec) for candidate in shifted(spec, point))
    return [
        example
        for example in chain(moved, sampler.special(spec))
        if distance(spec, example) < 1e-14 and all(value.size for value in example.arguments)
    ]


def curvature_jump(spec: OpSpec, example: Any) -> float:
    """By how much the one-sided second derivatives along a random direction differ, if that does not shrink with h."""
    rng = np.random.default_rng(9)
    unit = [moves(spec, value, rng)[1:2] for value in example.arguments]
    steps = np.array([0.0, *(k * h for h in (1e-2, 2.5e-3) for k in (-2, -1, 1, 2))])
    points = [
        value + steps.reshape(-1, *[1] * value.ndim) * direction
        for value, direction in zip(example.arguments, unit, strict=True)
    ]
    centre, *rest = over(spec, example, points, reference=True)
    jumps = []
    for h, (far_left, left, right, far_right) in ((1e-2, rest[:4]), (2.5e-3, rest[4:])):
        jumps.append(largest((far_right - 2 * right) - (far_left - 2 * left)) / h**2)
    coarse, fine = jumps
    return fine if fine > 0.6 * coarse and fine > 1e-2 * (1 + largest(centre)) else 0.0


def shifted(spec: OpSpec, example: Any, *declared: Distances | None) -> Iterator[Any]:
    """The example with the first element of an argument moved by its distance, which often ends on the kink.

    It is moved up and down, and a complex one towards 0, too.
    """
    away, arguments = distance(spec, example, *declared), example.arguments
    for place, argument in enumerate(arguments):
        towards_zero = [-one / abs(one) for one in argument.flat[:1] if np.iscomplexobj(argument) and one]
        for direction in (1, -1, *towards_zero):
            if np.isfinite(away) and argument.size:
                moved = argument.copy()
                moved.flat[0] += direction * away
                if place == 0 or spec.domain(place).contains(moved):
                    yield replace(example, arguments=(*arguments[:place], moved, *arguments[place + 1 :]))


@named(SPECS)
def test_text_yields_a_finite_tensor_of_the_declared_dtype(spec: OpSpec, sampler: Any) -> None:
    examples = list(sampler.generic(spec))
    assert examples, f"none of the starts {spec.starts} is admitted by the shape rule"
    for example in examples:
        value = single(spec)(*[tf.constant(argument) for argument in example.arguments], **example.attributes)
        assert value.dtype.name == spec.result
        assert np.all(np.isfinite(value.numpy())), example
        assert not hasattr(value, "_keras_mask"), "by it, Keras weighs what comes behind"


@named(BATCHED)
def test_batch_agrees_with_loop(spec: OpSpec, sampler: Any) -> None:
    rng = np.random.default_rng(5)
    for example in sampler.generic(spec, seed=1):
        points = [
            np.stack([value, *(value * (1 + 1e-2 * rng.uniform(-1, 1, value.shape)) for _ in range(2))])
            for value in example.arguments
        ]
        for row, value in enumerate(over(spec, example, points, reference=False)):
            expected = alone(spec, example, [p[row] for p in points])
            assert value.shape == expected.shape
            np.testing.assert_allclose(value, expected, rtol=0, atol=16 * max(EPS, spec.rtol) * largest(expected))


@named(BATCHED)
def test_points_are_taken_at_every_rank_that_one_point_is(spec: OpSpec) -> None:
    for shape in ((1, 1, 2, 2), (1, 1, 2, 2, 1), (1, 1, 1, 2, 2, 1)):
        for shapes in signatures(spec.name, shape)[:1]:
            inputs = tuple(smooth(one, spec.dtype(place), spec.domain(place)) for place, one in enumerate(shapes))
            tensors = [tf.constant(one.array()) for one in inputs]
            for attributes in alternatives(spec.name, shapes, 2):
                with suppress(tf.errors.OpError, ValueError):
                    single(spec)(*tensors, **attributes)
                    graph = Graph(inputs, (Node.of(spec.name, *range(spec.arity), **attributes),))
                    break
            else:
                continue
            forward(graph, [tf.stack([one] * 2) for one in tensors], points=True)


@named(REFERENCED)
def test_reference_has_the_value_of_the_source_at_the_unperturbed_point(spec: OpSpec, sampler: Any) -> None:
    for example in sampler.generic(spec, seed=2):
        reference = over(spec, example, [np.stack([value, value]) for value in example.arguments], reference=True)
        expected = alone(spec, example)
        for value in reference:
            np.testing.assert_allclose(value, expected, rtol=0, atol=16 * max(EPS, spec.rtol) * largest(expected))


@named(SPECS)
def test_backward_pass_goes_through_the_declared_gradients(
    spec: OpSpec, sampler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: Counter[str] = Counter()
    for name in spec.gradients:
        monkeypatch.setitem(gradient_registry._registry[name], "type", _counting(name, called))
    for example in sampler.generic(spec, seed=3):
        inputs = [tf.constant(value) for value in example.arguments]
        with traced_anew():  # what is kept has the gradients that it was traced with
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = single(spec)(*inputs, **example.attributes)
            with suppress(Exception):  # a backward pass that throws is for the hunt to find
                tape.gradient(value, inputs)
        if set(called) == set(spec.gradients):
            return
    # Before 2.21, tf.nn.gelu was made of other operations.
    older = spec.name == "gelu" and version_of(tf.__version__) < (2, 21)
    assert older or set(called) == set(spec.gradients)


def _counting(name: str, called: Counter[str]) -> Any:
    original = gradient_registry._registry[name]["type"]

    def gradient(*arguments: Any) -> Any:
        called[name] += 1
        return original(*arguments)

    return gradient


@named(NONSMOOTH)
def test_function_is_not_smooth_at_distance_zero(spec: OpSpec, sampler: Any) -> None:
    found = [slopes_agree(spec, example) for example in on_declared_points(spec, sampler)]
    assert found, "no special point lies on what is declared"
    if spec.name in WIDER:
        assert any(found), "no longer wider than it has to be: take it from WIDER"
        assert not all(found)
    else:
        assert not any(found)


@named(KINKED)
def test_one_sided_slopes_exist_at_a_kink(spec: OpSpec, sampler: Any) -> None:
    kinks = [example for example in on_declared_points(spec, sampler) if distance(spec, example, spec.singular) > 1e-14]
    assert kinks
    assert not [example for example in kinks if one_sided(spec, example)[3]]


@named(KINKED)
def test_elements_that_count_as_one_kink_kink_together(spec: OpSpec, sampler: Any) -> None:
    # What lies between the slopes of each need not lie between those of their sum: crelu has at zero the derivative
    # (0, 0), to the right (1, 0) and to the left (0, -1).
    for example in on_declared_points(spec, sampler)[:60]:
        given = example.arguments, example.attributes
        single_kink = count_on(spec.kinks, *given) == 1 and not known.excludes(spec.name, given[1], given[0], 1)
        if not single_kink or distance(spec, example, spec.singular) < 1e-14 or any(map(tiny, example.arguments)):
            continue
        problem = replace(GraphProblem.evaluated(graph_of(spec, example)), cotangent=None)
        units, step = np.eye(problem.point.size), step_of(spec)
        points = problem.point + step * np.concatenate([0 * units[:1], units, -units])
        centre, right, left = np.split(problem.values(points), [1, 1 + len(units)])
        right, left = (right - centre) / step, (centre - left) / step
        with suppress(DerivativeRaisedError, WrongShapeError):  # as records say
            slopes = problem.gradients(np.eye(problem.outputs)).values.T
            near = 1e-2 * (1 + largest(right) + largest(left))
            # What is wrong by itself has a record, too.
            if np.all((slopes >= np.minimum(right, left) - near) & (slopes <= np.maximum(right, left) + near)):
                across = right - left
                share = np.sum((slopes - left) * across, axis=1) / np.maximum(np.sum(across**2, axis=1), EPS)
                together = left + np.clip(share, 0, 1)[:, None] * across
                assert largest(slopes - together) <= near, example


@named(IN_FLOAT64)
def test_curvature_jumps_nowhere_else(spec: OpSpec, sampler: Any) -> None:
    special = [example for example in sampler.special(spec) if all(value.size for value in example.arguments)]
    for example in special[:: 1 + len(special) // 12]:
        if distance(spec, example) > 0.1 and np.all(np.isfinite(alone(spec, example))):
            jumps = spec.curvature_jumps is not None and distance(spec, example, spec.curvature_jumps) < 0.1
            assert jumps or curvature_jump(spec, example) == 0, example


@named(C1_NOT_C2)
def test_curvature_jumps_at_distance_zero(spec: OpSpec, sampler: Any) -> None:
    h = 1e-4
    moved = (e for point in sampler.generic(spec, each=4) for e in shifted(spec, point, spec.curvature_jumps))
    found = (e for e in chain(moved, sampler.special(spec)) if e.arguments[0].size)
    there = [e for e in found if distance(spec, e, spec.curvature_jumps) < 1e-14 and distance(spec, e) > 0.01]
    assert there, "no special point lies on what is declared"
    for example in there[:: 1 + len(there) // 4]:
        jumps = []
        for place, argument in enumerate(example.arguments):
            before, behind = example.arguments[:place], example.arguments[place + 1 :]
            values = (alone(spec, example, [*before, argument + k * h, *behind]) for k in (-2, -1, 0, 1, 2))
            farther_left, left, centre, right, farther_right = values
            jumps.append(largest((farther_right - 2 * right) - (farther_left - 2 * left)) / h**2)
            assert largest(right + left - 2 * centre) / h < 0.01
        assert max(jumps) > 0.1


@named(SPECS)
def test_function_is_smooth_away_from_what_is_declared(spec: OpSpec, sampler: Any) -> None:
    special = list(sampler.special(spec))
    for example in [*sampler.generic(spec, seed=4), *special[:: 1 + len(special) // 8]]:
        if distance(spec, example) > 0.02 and np.all(np.isfinite(alone(spec, example))):
            assert slopes_agree(spec, example), example


@pytest.mark.parametrize(
    ("x", "which", "unique"),
    [
        ([[2.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 2, True),
        ([[2.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 1, False),
        ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], 1, True),
        ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], 2, False),
        ([[1.0, 2.0], [2.0, 4.0]], 1, True),
        ([[1.0, 2.0], [2.0, 4.0]], 2, True),
    ],
)
def test_singular_vectors_are_smooth_without_full_rank_where_they_are_unique(
    x: list[list[float]], which: int, unique: bool, sampler: Any
) -> None:
    spec = CATALOGUE["singular_vectors"]
    example = replace(next(sampler.generic(spec)), arguments=(np.array(x),), attributes={"which": which, "full": False})
    assert (distance(spec, example) > 0.1) is slopes_agree(spec, example) is unique


@pytest.mark.parametrize("x", [[0.0, 0.0], [3e-7, 4e-7], [6e-6, 8e-6], [3.0, 4.0]])
def test_a_householder_operator_is_smooth_at_zero_since_it_does_not_normalize_short_vectors(x: list[float]) -> None:
    spec, scale = CATALOGUE["householder_operator_measure"], max(np.dot(x, x), 1e-12)
    value = single(spec)(tf.constant(x, tf.float64), measure="to_dense")
    np.testing.assert_allclose(value, np.eye(2) - 2 * np.outer(x, x) / scale, rtol=0, atol=8 * EPS)
    assert spec.singular is None
    assert spec.kinks is not None
    np.testing.assert_allclose(spec.kinks(np.array(x)), abs(np.linalg.norm(x) - 1e-6), rtol=8 * EPS)


def test_the_adjoint_of_a_circulant_operator_has_another_dtype() -> None:
    """Why it is no measure of these."""
    spectrum = tf.constant([1.0, 1j], tf.complex128)
    operator = tf.linalg.LinearOperatorCirculant(spectrum, input_output_dtype=tf.complex128)
    assert (operator.inverse().dtype, operator.adjoint().dtype) == (tf.complex128, tf.complex64)


def test_grappler_empties_the_value_of_a_condition_on_the_sum_of_a_number() -> None:
    """Why cond_on_value takes none."""
    value = tf.function(plus_or_minus_the_sum, autograph=False)(tf.constant(0.5, tf.float64))
    assert (value.shape, value.dtype) == ((0,), tf.float32)
    assert float(plus_or_minus_the_sum(tf.constant(0.5, tf.float64))) == 1.0


def test_every_family_of_the_census_has_at_least_three_operations() -> None:
    reachable = Counter(row.family for row in census().values() if row.reachable)
    present = Counter(spec.family for spec in SPECS)
    missing = {family: present[family] for family, count in reachable.items() if present[family] < min(3, count)}
    assert not missing
    assert set(present) <= set(reachable)


def test_declared_gradients_stand_in_the_census() -> None:
    assert {name for spec in SPECS for name in spec.gradients} <= set(census())


def test_the_catalogue_goes_through_all_gradients_that_differences_can_judge() -> None:
    """Operations that compute gradients themselves are reached at second order."""
    comparable = {name for name, row in census().items() if row.judgement is Judgement.DIFFERENCES}
    of_gradients = {name for name in comparable if "Grad" in name or "Backprop" in name}
    declared = {name for spec in SPECS for name in spec.gradients}
    assert comparable - of_gradients <= declared


def test_every_operation_has_both_derivatives_and_what_raises_has_a_record() -> None:
    """What is only dear is drawn more rarely; a release that adds a second derivative is noticed by its record."""
    assert {spec.orders for spec in SPECS} == {(1, 2)}


def test_at_most_a_quarter_is_looped() -> None:
    assert sum(spec.looped for spec in SPECS) <= len(SPECS) / 4


OF_THEIR_OWN = {
    *("complex_abs", "complex_sign", "complex_matmul"),
    *("complex_cholesky_solve", "complex_lu_solve", "complex_lu_matrix_inverse"),
    *("complex_log_determinant", "complex_inverse", "complex_solve", "complex_triangular_solve"),
}
"""Operations with another text, or another gradient, than those of real numbers that they are named after."""


def strangers(specs: Mapping[str, OpSpec]) -> set[str]:
    """Operations named as complex forms that are none: another text or other gradients than the real ones have."""
    pairs = [(specs[name], specs.get(name.removeprefix(COMPLEX))) for name in specs if name.startswith(COMPLEX)]
    said = [(spec, real) for spec, real in pairs if real is not None]
    return {spec.name for spec, real in said if (spec.source, spec.gradients) != (real.source, real.gradients)}


def test_what_is_named_as_a_complex_form_is_one_or_no_record_takes_it_for_one() -> None:
    assert strangers(CATALOGUE) == OF_THEIR_OWN
    other = replace(CATALOGUE["complex_sin"], source="tf.sin({0}) * 2")
    assert strangers({**CATALOGUE, "complex_sin": other}) == {*OF_THEIR_OWN, "complex_sin"}
    named = {region.op for defect in known.load() for region in defect.regions}
    assert named.isdisjoint(name.removeprefix(COMPLEX) for name in OF_THEIR_OWN)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="names 'sin' twice"):
        by_name([GROUPS[0], GROUPS[0]])


def test_functions_of_two_modules_have_two_names() -> None:
    named = Counter(
        (name, value)
        for module in pkgutil.iter_modules(catalogue.__path__)
        for name, value in vars(import_module(f"{catalogue.__name__}.{module.name}")).items()
        if name in FUNCTIONS and getattr(value, "__module__", "").startswith(catalogue.__name__)
    )
    assert [name for name, count in Counter(name for name, _ in named).items() if count > 1] == []


def test_reading_the_catalogue_loads_no_tensorflow() -> None:
    code = "import sys, gradcheck.hunt.catalogue; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="the exit code is that of a signal")
def test_a_conjugated_transposition_that_moves_nothing_aborts_in_a_loop() -> None:
    """Why none is drawn; Grappler makes a node of the same name twice. Others come to their end."""
    assert CATALOGUE["conjugate_transpose"].attributes((2, 2))["perm"] == Choice(((1, 0),))
    code = """if True:
        import sys
        from gradcheck.autodiff.mode import WHILE, Mode
        from gradcheck.hunt import trial
        from gradcheck.hunt.graph import Graph, Input, Node

        moved = Node.of("conjugate_transpose", 0, perm=tuple(map(int, sys.argv[1])))
        gathered = Node.of("complex_gather", 1, indices=(1, 0, 1))
        graph = Graph((Input((2, 2), (1, 2, 3, 4), "complex128"),), (moved, gathered))
        sys.exit(trial.run(graph, (2,), mode=Mode("reverse", WHILE)).result.verdict != "agree")
    """
    identity, swap = (
        subprocess.run([sys.executable, "-c", code, perm], capture_output=True, text=True, check=False)
        for perm in ("01", "10")
    )
    assert (identity.returncode, swap.returncode) == (-signal.SIGABRT, 0), identity.stderr + swap.stderr
    assert "RemoveIdentityTranspose" in identity.stderr


def test_an_operation_that_is_a_function_has_a_traceback() -> None:
    one, two = tf.constant([1.0], tf.float64), tf.constant([1.0, 2.0], tf.float64)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        single(CATALOGUE["tensor_list_stack"])(one, two)
    assert "stacked_list" in [entry.name for entry in raised.traceback]


def test_control_flow_is_traced_once_for_values_of_one_shape() -> None:
    function = traced(times_the_sine)
    for values in ([0.5], [1.5], [2.5]):
        single(CATALOGUE["while_loop"])(tf.constant(values, tf.float64), count=2)
    before = function.experimental_get_tracing_count()
    single(CATALOGUE["while_loop"])(tf.constant([3.5], tf.float64), count=3)
    assert function.experimental_get_tracing_count() == before
