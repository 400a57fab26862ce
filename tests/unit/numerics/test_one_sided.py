"""Classification of points: each kind by name, then sweeps in which nothing smooth may be classified as a kink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.one_sided import OneSided, Smoothness, classify, confirm, subgradient_allows
from gradcheck.numerics.sampling import CONFIRM, EPS64, FIRST, Sample, Stencil, coordinate_steps, sample

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]

SMOOTH, CURVATURE_JUMP, KINK, JUMP, SINGULAR, UNKNOWN = Smoothness


def along(f: Function, x: Array | float, *, stencil: Stencil = FIRST, zoom: float = 1.0) -> OneSided:
    """Classify an elementwise function at many points, each as a line of its own with one output."""
    x = np.atleast_1d(np.asarray(x, dtype=np.float64))
    step = coordinate_steps(x, typical=1.0) * zoom
    with np.errstate(all="ignore"):
        values = f(x[:, None] + step[:, None] * stencil.offsets)
    return classify(Sample(stencil, step, values[..., None], np.abs(x), EPS64))


def kinds(f: Function, x: Array | float, *, stencil: Stencil = FIRST) -> Array:
    return np.asarray(along(f, x, stencil=stencil).kind[:, 0])


def relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


NAMED: dict[str, tuple[Function, float, Smoothness]] = {
    "relu at 0": (relu, 0.0, KINK),
    "relu at 1e-5 from its kink": (relu, 1e-5, SMOOTH),
    "relu at 1e-5 left of its kink": (relu, -1e-5, SMOOTH),
    "relu(x - 1) at 1e-5 from its kink": (lambda x: relu(x - 1.0), 1.0 + 1e-5, SMOOTH),
    "abs at 0": (np.abs, 0.0, KINK),
    "relu at 0, that bends more than it kinks": (lambda x: 0.6 - 3e-7 * relu(x) - 0.6 * relu(x) ** 2, 0.0, KINK),
    "a small kink between two bends": (lambda x: 1e-6 * np.abs(x) + np.cos(x), 0.0, KINK),
    "floor at an integer": (np.floor, 3.0, JUMP),
    "floor at a hundred": (np.floor, 100.0, JUMP),
    "floor between integers": (np.floor, 3.3, SMOOTH),
    "ceil at 0": (np.ceil, 0.0, JUMP),
    "sign at 0": (np.sign, 0.0, JUMP),
    "round at a half": (np.round, 2.5, JUMP),
    "x*|x| at 0": (lambda x: x * np.abs(x), 0.0, CURVATURE_JUMP),
    "x*|x| far from 0 in value": (lambda x: 1e6 + x * np.abs(x), 0.0, CURVATURE_JUMP),
    "huber at its seam": (lambda x: np.where(np.abs(x) < 1, 0.5 * x * x, np.abs(x) - 0.5), 1.0, CURVATURE_JUMP),
    "|x|**1.5 at 0": (lambda x: np.abs(x) ** 1.5, 0.0, CURVATURE_JUMP),
    "|x|**2.5 at 0": (lambda x: np.abs(x) ** 2.5, 0.0, SMOOTH),
    "x**3 at 0": (lambda x: x**3, 0.0, SMOOTH),
    "sqrt at 0": (np.sqrt, 0.0, SINGULAR),
    "sqrt(|x|) at 0": (lambda x: np.sqrt(np.abs(x)), 0.0, SINGULAR),
    "x*log(x) at 0": (lambda x: np.where(x > 0, x * np.log(np.abs(x)), 0.0), 0.0, SINGULAR),
    "a jump onto a square root": (lambda x: np.where(x > 0, 1.0 + np.sqrt(np.abs(x)), 0.0), 0.0, SINGULAR),
    "floor where the row meets many steps": (np.floor, 1e5, UNKNOWN),
    "1/x at 0": (lambda x: 1.0 / x, 0.0, SINGULAR),
    "log at 0": (np.log, 0.0, SINGULAR),
    "sqrt(x**4) at 0": (lambda x: np.sqrt(x**4), 0.0, SMOOTH),
    "log near its edge": (np.log, 1e-6, SMOOTH),
    "tie of a maximum": (lambda x: np.maximum(x, 2.0 - x), 1.0, KINK),
    "1e6 + sin": (lambda x: 1e6 + np.sin(x), 1.0, SMOOTH),
    "a constant": (lambda x: 0.0 * x + 3.0, 1.0, SMOOTH),
    "zero": (lambda x: 0.0 * x, 0.0, SMOOTH),
    "a kink at 1e-9, between the steps": (lambda x: np.abs(x - 1.0), 1.0 + 1e-9, UNKNOWN),
    "a kink at 1e-8, between the steps": (lambda x: np.abs(x - 1.0), 1.0 + 1e-8, UNKNOWN),
    "noise on every value": (lambda x: x + 1e-3 * np.sin(1e13 * x + 1e9 * x**2), 1.0, UNKNOWN),
}


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_kind_by_name(stencil: Stencil) -> None:
    found = {name: Smoothness(kinds(f, x, stencil=stencil)[0]) for name, (f, x, _) in NAMED.items()}
    assert found == {name: kind for name, (_, _, kind) in NAMED.items()}


def test_one_sided_slopes_are_within_their_bounds() -> None:
    found = along(lambda x: np.where(x > 0, np.exp(2 * x), np.cos(x) - 3 * x), 0.0)
    assert found.kind[0, 0] == KINK
    assert abs(found.left[0, 0] + 3.0) <= found.left_bound[0, 0] < 1e-9
    assert abs(found.right[0, 0] - 2.0) <= found.right_bound[0, 0] < 1e-9


def test_slopes_at_a_jump_are_those_of_the_branches() -> None:
    found = along(lambda x: np.where(x >= 0, 5.0 + 2.0 * x, -x), 0.0)
    np.testing.assert_allclose([found.left[0, 0], found.right[0, 0]], [-1.0, 2.0], rtol=1e-12)


def test_slopes_at_singular_points() -> None:
    root = along(np.sqrt, 0.0)
    assert np.isnan(root.left[0, 0])
    assert root.right[0, 0] == np.inf
    cusp = along(lambda x: np.sqrt(np.abs(x)), 0.0)
    assert (cusp.left[0, 0], cusp.right[0, 0]) == (-np.inf, np.inf)


def test_slopes_of_a_smooth_function_at_the_power_of_a_fraction() -> None:
    found = along(lambda x: 2.0 * x + np.abs(x) ** 1.5, 0.0)
    assert found.kind[0, 0] == CURVATURE_JUMP
    assert abs(found.right[0, 0] - 2.0) <= found.right_bound[0, 0] < 1e-6


def test_slopes_where_the_power_of_a_fraction_has_another_one_beside_it() -> None:
    found = along(lambda x: np.abs(x) ** 1.3 * (1.0 + np.abs(x)), 0.0, stencil=CONFIRM)
    assert found.kind[0, 0] == CURVATURE_JUMP
    assert abs(found.right[0, 0]) <= found.right_bound[0, 0] < 1e-6


def test_lines_and_outputs_are_classified_each_by_itself() -> None:
    def f(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        return np.stack([np.abs(x) + y**2, np.maximum(y, 1.0), np.floor(x) * y, x * np.abs(x) + np.sin(y)], axis=1)

    directions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    found = classify(sample(f, np.array([0.0, 1.0]), directions))
    expected = [
        [KINK, SMOOTH, JUMP, CURVATURE_JUMP],
        [SMOOTH, KINK, SMOOTH, SMOOTH],
        [KINK, KINK, JUMP, CURVATURE_JUMP],
    ]
    np.testing.assert_array_equal(found.kind, expected)
    np.testing.assert_allclose(found.right[2, :2], [1.0 - 2.0, 0.0], atol=1e-9)


def test_steps_outside_the_domain_do_not_hide_a_smooth_point() -> None:
    x = np.array([0.3])
    with np.errstate(invalid="ignore"):
        lines = sample(lambda p: np.sqrt(1.0 - p**2), x, np.eye(1), step=np.array([2.0]))
    found = classify(lines)
    assert found.kind[0, 0] == SMOOTH
    np.testing.assert_allclose(found.right, -0.3 / np.sqrt(0.91), rtol=1e-6)


def test_subgradients() -> None:
    found = along(np.abs, np.zeros(6))
    autodiff = np.array([-1.0, 0.0, 1.0, 1.0 + 1e-6, -1.1, np.nan])[:, None]
    np.testing.assert_array_equal(subgradient_allows(found, autodiff)[:, 0], [True, True, True, False, False, False])
    assert subgradient_allows(found, autodiff, slack=1e-5)[3, 0]
    root = along(np.sqrt, np.zeros(3))
    np.testing.assert_array_equal(
        subgradient_allows(root, np.array([[np.inf], [0.0], [np.nan]]))[:, 0], [True, False, False]
    )


def test_a_finer_row_withdraws_what_it_refutes_and_nothing_else() -> None:
    def confirmed(f: Function) -> tuple[int, int]:
        coarse, finer = along(f, 0.0), along(f, 0.0, zoom=2.0**-20)
        return int(coarse.kind[0, 0]), int(confirm(coarse, finer).kind[0, 0])

    assert confirmed(lambda x: np.tanh(1e10 * x)) == (JUMP, SMOOTH)
    assert confirmed(np.ceil) == (JUMP, JUMP)
    assert confirmed(lambda x: x + 1e-3 * np.abs(x)) == (KINK, KINK)
    assert confirmed(lambda x: 1e3 + x + 1e-5 * np.abs(x)) == (KINK, KINK)
    assert confirmed(lambda x: np.sqrt(np.abs(x))) == (SINGULAR, SINGULAR)


SIGNED: dict[str, tuple[Function, Function, float, float]] = {
    "exp": (np.exp, np.exp, -6, 2.5),
    "sin": (np.sin, np.cos, -6, 6),
    "1e6 + sin": (lambda x: 1e6 + np.sin(x), np.cos, -6, 6),
    "sin 1000 x": (lambda x: np.sin(1e3 * x), lambda x: 1e3 * np.cos(1e3 * x), -6, 3),
    "tanh": (np.tanh, lambda x: 1.0 / np.cosh(x) ** 2, -6, 1),
    "steep": (lambda x: np.tanh(1e4 * x), lambda x: 1e4 / np.cosh(1e4 * x) ** 2, -6, -2.8),
    "cubic": (lambda x: x**3 - 2 * x, lambda x: 3 * x**2 - 2, -6, 6),
    "inverse": (lambda x: 1.0 / x, lambda x: -1.0 / x**2, -6, 6),
    "bell": (lambda x: np.exp(-50 * x * x), lambda x: -100 * x * np.exp(-50 * x * x), -6, 0.5),
    "hyperbola": (lambda x: np.sqrt(x * x + 1e-6), lambda x: x / np.sqrt(x * x + 1e-6), -6, 6),
    "pole": (lambda x: 1 / (x * x + 1e-4), lambda x: -2 * x / (x * x + 1e-4) ** 2, -6, 6),
    "sin 1/x": (lambda x: np.sin(1 / x), lambda x: -np.cos(1 / x) / x**2, -6, 6),
}
POSITIVE: dict[str, tuple[Function, Function, float, float]] = {
    "log": (np.log, lambda x: 1 / x, -6, 6),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), -6, 6),
    "x log x": (lambda x: x * np.log(x), lambda x: np.log(x) + 1, -6, 6),
    "power": (lambda x: x**2.7, lambda x: 2.7 * x**1.7, -6, 6),
}
CANCELLING: dict[str, Function] = {
    "offset": lambda x: (x + 1e5) - 1e5 + np.sin(x),
    "expm1": lambda x: (np.exp(x) - 1) / x,
    "versine": lambda x: (1 - np.cos(x)) / x**2,
    "square": lambda x: (x - 1e4) ** 2 - 1e8,
}


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_no_smooth_point_is_called_anything_else(stencil: Stencil) -> None:
    rng = np.random.default_rng(20)
    unknown, points = 0, 0
    errors = []
    for name, (f, slope, low, high) in {**SIGNED, **POSITIVE}.items():
        x = 10.0 ** rng.uniform(low, high, 200)
        x *= rng.choice([-1.0, 1.0], 200) if name in SIGNED else 1.0
        found = along(f, x, stencil=stencil)
        kind, smooth = found.kind[:, 0], found.kind[:, 0] == SMOOTH
        assert set(np.unique(kind)) <= {SMOOTH, UNKNOWN}, name
        unknown, points = unknown + int((~smooth).sum()), points + 200
        for side, bound in ((found.left, found.left_bound), (found.right, found.right_bound)):
            errors.append((np.abs(side[:, 0] - slope(x)) / bound[:, 0])[smooth])
    assert points >= 2000
    assert unknown <= 0.02 * points
    relative = np.concatenate(errors)
    assert np.mean(relative <= 1.0) >= 0.999
    assert relative.max() <= 10.0


def test_lost_digits_are_never_called_a_kink_or_a_jump() -> None:
    rng = np.random.default_rng(21)
    for name, f in CANCELLING.items():
        x = 10.0 ** rng.uniform(-6, 2, 500) * rng.choice([-1.0, 1.0], 500)
        assert set(np.unique(kinds(f, x))) <= {SMOOTH, UNKNOWN}, name


BASES: tuple[Function, ...] = (np.exp, np.sin, np.square, np.tanh, lambda u: 1e3 + u)
BREAKS: dict[Smoothness, tuple[Function, float]] = {
    KINK: (np.abs, -3.0),
    JUMP: (lambda u: np.where(u > 0, 1.0, 0.0), -2.0),
    CURVATURE_JUMP: (lambda u: u * np.abs(u), -2.0),
}


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_breaks_on_smooth_functions_are_all_recognised(kind: Smoothness, stencil: Stencil) -> None:
    """Breaks of relative size 10**-3 (or -2) to 100, at 0 and at scales 1e-6 to 1e6, values scaled by 1e-6 to 1e6."""
    rng = np.random.default_rng(22)
    break_, least = BREAKS[kind]
    for base in BASES:
        x = 10.0 ** rng.uniform(-6, 6, 120) * rng.choice([-1.0, 0.0, 1.0], 120)
        size = np.where(x == 0.0, 1.0, np.abs(x))[:, None]
        amount = 10.0 ** rng.uniform(least, 2, 120)[:, None]
        height = 10.0 ** rng.uniform(-6, 6, 120)[:, None]

        def f(
            points: Array, base: Function = base, data: tuple[Array, ...] = (x[:, None], size, amount, height)
        ) -> Array:
            centre, size, amount, height = data
            u = (points - centre) / size
            return np.asarray(height * (base(1.0 + u) + amount * break_(u)))

        np.testing.assert_array_equal(kinds(f, x, stencil=stencil), kind)


def test_a_kink_nearby_is_never_taken_for_one_at_the_point() -> None:
    rng = np.random.default_rng(23)
    for distance in 10.0 ** np.arange(-12.0, -0.9):
        x = rng.uniform(0.5, 2.0, 40)

        def f(points: Array, x: Array = x) -> Array:
            return np.asarray(relu(points - x[:, None]) + points**2)

        found = set(np.unique(kinds(f, x + distance)))
        assert found <= ({SMOOTH} if distance > 0.9e-5 else {SMOOTH, UNKNOWN}), distance


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_a_rounded_corner_is_never_a_kink(stencil: Stencil) -> None:
    """Corners of radius 1e-1 down to the finest steps, 1e-8, whose slopes still change at the finest steps."""
    for radius in 10.0 ** np.arange(-8.0, -0.9, 0.1):

        def f(x: Array, radius: float = float(radius)) -> Array:
            return np.asarray(np.hypot(x, radius))

        assert set(np.unique(kinds(f, 0.0, stencil=stencil))) <= {SMOOTH, UNKNOWN}, radius


@pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_a_small_rounded_corner_beside_a_bend_is_never_a_kink(stencil: Stencil, share: float) -> None:
    for radius in 10.0 ** np.arange(-7.5, -0.9, 0.1):

        def f(x: Array, radius: float = float(radius)) -> Array:
            return np.asarray(share * np.hypot(x, radius) + x**2)

        assert set(np.unique(kinds(f, 0.0, stencil=stencil))) <= {SMOOTH, UNKNOWN}, radius


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_rows_that_mostly_alias_are_never_a_kink(stencil: Stencil) -> None:
    """Waves that only the finest few steps resolve: coarser entries of the tableau agree by chance."""
    rng = np.random.default_rng(24)
    x = 10.0 ** rng.uniform(4.5, 7.0, 4000)
    found = along(np.cos, x, stencil=stencil)
    kind = found.kind[:, 0]
    assert set(np.unique(kind)) <= {SMOOTH, UNKNOWN}
    error = (np.abs(found.right[:, 0] + np.sin(x)) / found.right_bound[:, 0])[kind == SMOOTH]
    assert len(error) >= 1000
    assert np.mean(error <= 1.0) >= 0.99
    assert error.max() <= 10.0


def test_a_side_that_rounding_inside_makes_flat_is_known_within_that_rounding() -> None:
    """The terms that cancelled, of size 1, left steps of 2**-30, which the function's own size does not reveal."""
    unit, gentle = 2.0**-30, 1e-3
    step = coordinate_steps(np.zeros(1), typical=1.0)

    def f(x: Array) -> Array:
        return np.where(x > 0, x, np.round(gentle * x / unit) * unit)

    taken = Sample(FIRST, step, f(step[:, None] * FIRST.offsets)[..., None], np.zeros(1), EPS64)
    known = classify(replace(taken, floor=unit))
    assert known.kind[0, 0] == KINK
    assert abs(known.left[0, 0] - gentle) <= known.left_bound[0, 0] < gentle / 10
    unaware = classify(taken)
    assert abs(unaware.left[0, 0] - gentle) > unaware.left_bound[0, 0]


@pytest.mark.parametrize(("offset", "slope", "kink"), [(0.0, 1.0, 2e-3), (1.0, 0.0, 2e-6)])
def test_no_noise_makes_a_kink_smooth(offset: float, slope: float, kink: float) -> None:
    """A kink of two thousandths of the slope, or, where there is none, of two millionths of the function."""
    for scale in 10.0 ** np.arange(-13.0, -4.0):
        for seed in range(10):
            rng = np.random.default_rng(seed)

            def f(x: Array, noise: Any = rng.standard_normal, scale: float = scale) -> Array:
                return np.asarray(offset + slope * x + kink * np.abs(x - 1.0) + scale * noise(x.shape))

            assert kinds(f, 1.0)[0] != SMOOTH, (scale, seed)
