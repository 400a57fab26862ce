"""Each operation of the catalogue is smooth where its entry declares nothing, and not smooth where it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.defects import known
from gradcheck.hunt.evaluation import single
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.nonsmooth import count_on
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Distances, OpSpec
from tests import slices
from tests.catalogue.entries import EPS, SPECS, Array, alone, distance, graph_of, largest, named, over

DECLARATIONS = ("kinks", "singular", "curvature_jumps", "reference")
C1_NOT_C2 = tuple(spec for spec in SPECS if spec.curvature_jumps)
WIDER = {
    "complex_pow": "at 0 a power above the first has the slope 0 on all sides",
    "crop_and_resize": "an image of one value has no kinks",
}
"""Declared points at which the function is smooth after all: the declaration is wider than it has to be."""


def spread(examples: Sequence[Any], count: int) -> Sequence[Any]:
    """Examples from all over a list, about `count` of them."""
    return examples[:: 1 + len(examples) // count]


def few(examples: Sequence[Any]) -> Sequence[Any]:
    """The examples that the test command takes."""
    return spread(examples, 4)


def simplicity(spec: OpSpec) -> tuple[bool, bool, bool, int]:
    """What comes first among operations: cheap ones, of expressions, of few arguments."""
    return bool(spec.expensive), spec.looped, spec.source.__name__ != "<lambda>", spec.arity


def representative(specs: Sequence[OpSpec]) -> list[OpSpec]:
    """For each family operations with each set of declarations, each arity, each rank of a start, looped and not."""
    found: dict[Any, OpSpec] = {}
    for spec in sorted(specs, key=simplicity):
        declared = {name for name in DECLARATIONS if getattr(spec, name)}
        ranks = (("rank", len(start)) for start in spec.starts)
        traits = (declared | {spec.result, *spec.dtypes}, ("looped", spec.looped), ("arity", spec.arity), *ranks)
        for trait in map(frozenset, traits):
            found.setdefault((spec.family, trait), spec)
    return list({spec.name: spec for spec in found.values()}.values())


def moves(value: Array, rng: np.random.Generator) -> Array:
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


@dataclass(frozen=True)
class Point:
    """A point of an operation, with the changes of the function on both sides of it."""

    spec: OpSpec
    example: Any

    @cached_property
    def one_sided(self) -> tuple[Array, Array, float, bool]:
        """The changes in five directions, the change that rounding may make, and whether the function is steep."""
        return self._one_sided(shares=False)

    def _one_sided(self, *, shares: bool) -> tuple[Array, Array, float, bool]:
        """With `shares`, tiny arguments move by a share of their own size."""
        rng, step, arguments = np.random.default_rng(7), step_of(self.spec), self.example.arguments
        sizes = [largest(value) if shares and tiny(value) else 1.0 for value in arguments]
        points = [value + step * size * moves(value, rng) for value, size in zip(arguments, sizes, strict=True)]
        centre, *rest = over(self.spec, self.example, points, reference=True)
        right, left = np.array(rest[:5]) - centre, centre - np.array(rest[5:])
        size = 1 + largest(centre)
        steep = not (np.isfinite(size) and max(largest(right), largest(left)) <= 5e2 * step * size)
        return right, left, step * size, steep

    @property
    def slopes_agree(self) -> bool:
        """Whether the one-sided slopes meet in five directions; a value that does not exist on one side counts as no.

        What is not smooth at a tiny argument may look smooth from further away.
        """

        def agree(right: Array, left: Array, allowed: float, steep: bool) -> bool:
            return not steep and largest(right - left) <= 1e-2 * (allowed + largest(right))

        near = any(map(tiny, self.example.arguments))
        return agree(*self.one_sided) and (not near or agree(*self._one_sided(shares=True)))


def slopes_agree(spec: OpSpec, example: Any) -> bool:
    return Point(spec, example).slopes_agree


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


def curvature_jump(spec: OpSpec, example: Any) -> float:
    """By how much the one-sided second derivatives along a random direction differ, if that does not shrink with h."""
    rng = np.random.default_rng(9)
    unit = [moves(value, rng)[1:2] for value in example.arguments]
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


@dataclass(frozen=True)
class Samples:
    """The points of an operation on which the laws are tried."""

    spec: OpSpec
    sampler: Any

    @cached_property
    def special(self) -> list[Any]:
        return list(self.sampler.special(self.spec))

    @cached_property
    def declared(self) -> list[Point]:
        """Points on a declared kink or singular point, kinks first, all of whose arguments have elements."""
        moved = (one for point in self.sampler.generic(self.spec) for one in shifted(self.spec, point))
        on_kinks: list[Point] = []
        singular: list[Point] = []
        for one in chain(moved, self.special):
            if distance(self.spec, one) < 1e-14 and all(value.size for value in one.arguments):
                kinks = distance(self.spec, one, self.spec.singular) > 1e-14
                (on_kinks if kinks else singular).append(Point(self.spec, one))
        return [*slices.sliced(on_kinks, few), *slices.sliced(singular, few)]


def smooth_away_from_what_is_declared(spec: OpSpec, samples: Samples) -> None:
    generic, special = samples.sampler.generic(spec, seed=4), spread(samples.special, 8)
    for example in [*slices.sliced(generic, few), *slices.sliced(special, few)]:
        if distance(spec, example) > 0.02 and np.all(np.isfinite(alone(spec, example))):
            assert slopes_agree(spec, example), example


def not_smooth_at_distance_zero(spec: OpSpec, samples: Samples) -> None:
    found = [point.slopes_agree for point in samples.declared]
    assert found, "no special point lies on what is declared"
    if spec.name in WIDER:
        assert any(found), "no longer wider than it has to be: take it from WIDER"
        assert not all(found)
    else:
        assert not any(found)


def one_sided_slopes_exist_at_a_kink(spec: OpSpec, samples: Samples) -> None:
    kinks = [point for point in samples.declared if distance(spec, point.example, spec.singular) > 1e-14]
    assert kinks
    assert not [point.example for point in kinks if point.one_sided[3]]


def elements_that_count_as_one_kink_kink_together(spec: OpSpec, samples: Samples) -> None:
    # What lies between the slopes of each need not lie between those of their sum: crelu has at zero the derivative
    # (0, 0), to the right (1, 0) and to the left (0, -1).
    for example in (point.example for point in samples.declared[:60]):
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


def curvature_jumps_nowhere_else(spec: OpSpec, samples: Samples) -> None:
    special = [example for example in samples.special if all(value.size for value in example.arguments)]
    for example in slices.sliced(spread(special, 12), few):
        if distance(spec, example) > 0.1 and np.all(np.isfinite(alone(spec, example))):
            jumps = spec.curvature_jumps is not None and distance(spec, example, spec.curvature_jumps) < 0.1
            assert jumps or curvature_jump(spec, example) == 0, example


LAWS = {
    smooth_away_from_what_is_declared: lambda spec: True,
    not_smooth_at_distance_zero: lambda spec: spec.kinks or spec.singular,
    one_sided_slopes_exist_at_a_kink: lambda spec: spec.kinks,
    elements_that_count_as_one_kink_kink_together: lambda spec: spec.kinks,
    curvature_jumps_nowhere_else: lambda spec: 2 in spec.orders and (spec.reference or not spec.rtol),
}
"""The laws of smoothness, and which operations each is of."""


@pytest.mark.sliced
@named(slices.sliced(SPECS, representative))
def test_smoothness(spec: OpSpec, sampler: Any, subtests: pytest.Subtests) -> None:
    samples = Samples(spec, sampler)
    for law, binds in LAWS.items():
        if binds(spec):
            with subtests.test(law.__name__.replace("_", " ")):
                law(spec, samples)


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
