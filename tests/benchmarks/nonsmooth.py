"""Points near kinks, poles, edges and branches: what a check says there, and how far it is from the derivative.

    python tests/benchmarks/nonsmooth.py [NAME ...] [--order N] [--planted] [--vectors]

For every function and every distance to the place where it is not smooth, a sign and a number: `=` agree, `?`
inconclusive, `!` mismatch, and the bound of the estimate over the true derivative (from mpmath, in 50 digits). An x
marks a true derivative outside of the bound of a conclusive estimate, a k a point that counts as a kink. `--planted`
does the same with gradients that are wrong by 1e-5 of themselves. `--vectors` has inputs of many coordinates, one or
many of which are near something: entries compared of all, and the relative resolution.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import tensorflow as tf

import gradcheck
from gradcheck.autodiff.reverse import DerivativeRaisedError
from gradcheck.problem.opening import open_function
from gradcheck.result import Verdict
from gradcheck.verdict.probes import PROBES, first_order
from gradcheck.verdict.second_order import second_order
from gradcheck.verdict.tables import Comparison, Tolerance

Array = np.ndarray[Any, Any]

DIGITS = 50
DISTANCES = tuple(10.0**-power for power in range(1, 9))
SIGNS = {Verdict.AGREE.value: "=", Verdict.INCONCLUSIVE.value: "?", Verdict.MISMATCH.value: "!"}


@dataclass(frozen=True)
class Place:
    """A function of a number, for TensorFlow and for mpmath, and an `edge` that is approached from one `side`."""

    function: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    edge: float
    side: int = 1

    def point(self, distance: float) -> float:
        """The number at this distance from the edge."""
        return self.edge + self.side * distance

    def derivative(self, point: float, order: int) -> float:
        """The true derivative, rounded to float64."""
        with mpmath.workdps(DIGITS):
            near = mpmath.mpf(abs(point - self.edge)) / 10**12 if point != self.edge else mpmath.mpf(10) ** -20
            return float(mpmath.diff(self.exact, mpmath.mpf(point), order, h=near))


def _cond(x: Any) -> Any:
    return tf.cond(x > 1.0, lambda: x**3, lambda: tf.sin(x))


def _huber(x: Any) -> Any:
    return tf.where(tf.abs(x) <= 1.0, 0.5 * x**2, tf.abs(x) - 0.5)


def _normalized(x: Any) -> Any:
    return tf.nn.l2_normalize(tf.stack([x, tf.constant(0.0, tf.float64)]))[0]


def _exact_normalized(x: Any) -> Any:
    return x / mpmath.sqrt(max(x**2, mpmath.mpf(1e-12)))


def _selu(x: Any) -> Any:
    scale, alpha = mpmath.mpf(1.0507009873554804934193349852946), mpmath.mpf(1.6732632423543772848170429916717)
    return scale * (x if x > 0 else alpha * mpmath.expm1(x))


mp = mpmath
PLACES: dict[str, Place] = {
    "relu": Place(lambda x: tf.nn.relu(x - 1.0) * x, lambda x: max(x - 1, 0) * x, 1.0),
    "relu6": Place(tf.nn.relu6, lambda x: min(max(x, 0), 6), 6.0, -1),
    "maximum": Place(lambda x: tf.maximum(x, x**2), lambda x: max(x, x**2), 1.0),
    "abs": Place(lambda x: tf.abs(tf.sin(x - 2.0)), lambda x: abs(mp.sin(x - 2)), 2.0),
    "cond": Place(_cond, lambda x: x**3 if x > 1 else mp.sin(x), 1.0),
    "cond, below": Place(_cond, lambda x: x**3 if x > 1 else mp.sin(x), 1.0, -1),
    "clip": Place(lambda x: tf.clip_by_value(tf.exp(x), 0.1, 2.0), lambda x: min(mp.exp(x), 2), float(np.log(2)), -1),
    "sort": Place(lambda x: tf.sort(tf.stack([x**2, 1.0, 3 * x]))[1], lambda x: sorted([x**2, 1, 3 * x])[1], 1.0),
    "top_k": Place(lambda x: tf.math.top_k(tf.stack([x**3, x, 0.0]), 2)[0][1], lambda x: min(x**3, x), 1.0),
    "reduce_max": Place(lambda x: tf.reduce_max(tf.stack([x**2, 4.0])), lambda x: max(x**2, 4), 2.0),
    "sqrt": Place(tf.sqrt, mp.sqrt, 0.0),
    "sqrt(x - 1)": Place(lambda x: tf.sqrt(x - 1.0), lambda x: mp.sqrt(x - 1), 1.0),
    "log": Place(tf.math.log, mp.log, 0.0),
    "log(x - 1)": Place(lambda x: tf.math.log(x - 1.0), lambda x: mp.log(x - 1), 1.0),
    "1/x": Place(lambda x: 1.0 / x, lambda x: 1 / x, 0.0),
    "1/(x - 1)": Place(lambda x: 1.0 / (x - 1.0), lambda x: 1 / (x - 1), 1.0),
    "(x - 1)**0.5": Place(lambda x: (x - 1.0) ** 0.5, lambda x: mp.sqrt(x - 1), 1.0),
    "asin": Place(tf.asin, mp.asin, 1.0, -1),
    "acos": Place(tf.acos, mp.acos, 1.0, -1),
    "atanh": Place(tf.atanh, mp.atanh, 1.0, -1),
    "acosh": Place(tf.acosh, mp.acosh, 1.0),
    "tan": Place(tf.tan, mp.tan, float(np.pi / 2), -1),
    "digamma": Place(tf.math.digamma, mp.digamma, -1.0),
    "lgamma": Place(tf.math.lgamma, lambda x: mp.log(abs(mp.gamma(x))), -1.0),
    "floor": Place(lambda x: x * tf.floor(x), lambda x: x * mp.floor(x), 2.0),
    "l2_normalize": Place(_normalized, _exact_normalized, 0.0),
    "norm": Place(lambda x: tf.norm(tf.stack([x - 1.0, 2 * x - 2.0])), lambda x: mp.sqrt(5) * abs(x - 1), 1.0),
    "divide_no_nan": Place(lambda x: tf.math.divide_no_nan(tf.sin(x), x - 1.0), lambda x: mp.sin(x) / (x - 1), 1.0),
    "huber": Place(_huber, lambda x: x**2 / 2 if abs(x) <= 1 else abs(x) - mp.mpf(1) / 2, 1.0, -1),
    "elu": Place(lambda x: tf.nn.elu(x - 1.0), lambda x: x - 1 if x > 1 else mp.expm1(x - 1), 1.0, -1),
    "selu": Place(lambda x: tf.nn.selu(x - 1.0), lambda x: _selu(x - 1), 1.0, -1),
    "softsign": Place(lambda x: tf.nn.softsign(x - 1.0), lambda x: (x - 1) / (1 + abs(x - 1)), 1.0),
    "xlogy": Place(lambda x: tf.math.xlogy(x - 1.0, x - 1.0), lambda x: (x - 1) * mp.log(x - 1), 1.0),
}

POINTS: dict[str, tuple[Place, float]] = {
    "relu6 at 6 - 1e-5": (PLACES["relu6"], 1e-5),
    "maximum 1e-6 above its switch": (PLACES["maximum"], 1e-6),
    "asin at 1 - 1e-6": (PLACES["asin"], 1e-6),
    "acos at 1 - 1e-6": (PLACES["acos"], 1e-6),
    "reduce_max, values 1e-6 apart": (PLACES["reduce_max"], 1e-6),
    "tf.cond 1e-6 from its branch": (PLACES["cond"], 1e-6),
    "atanh at 1 - 1e-6": (PLACES["atanh"], 1e-6),
    "acosh at 1 + 1e-6": (PLACES["acosh"], 1e-6),
    "l2_normalize at 0": (PLACES["l2_normalize"], 0.0),
    "sin(x) + x**2 at 2e7": (Place(lambda x: tf.sin(x) + x**2, lambda x: mp.sin(x) + x**2, 0.0), 2e7),
    "sin(x + 1e5) at 1": (Place(lambda x: tf.sin(x + 1e5), lambda x: mp.sin(x + 100000), 0.0), 1.0),
    "sin(1e5 x) + x at 1": (Place(lambda x: tf.sin(1e5 * x) + x, lambda x: mp.sin(100000 * x) + x, 0.0), 1.0),
}
"""The points by name, each with its distance to the edge."""


def table_of(function: Callable[..., Any], point: Any, order: int, tolerance: Tolerance | None = None) -> Comparison:
    """The comparison of a function of one array, at one order; the first of several tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = open_function(function, (point,), None)
        tables = (first_order if order == 1 else second_order)(problem, tolerance or Tolerance(), PROBES)
    return tables[0]


def entry(place: Place, distance: float, order: int) -> str:
    """The printed entry of one point."""
    point = place.point(distance)
    try:
        table = table_of(place.function, np.float64(point), order)
    except DerivativeRaisedError:
        return "raises"
    true = place.derivative(point, order)
    verdict, bound = str(table.verdict[0, 0]), float(table.bound[0, 0])
    outside = verdict != Verdict.INCONCLUSIVE.value and not abs(float(table.difference[0, 0]) - true) <= bound
    size = bound / abs(true) if abs(true) > 1e-20 else bound
    return f"{SIGNS[verdict]}{size:.0e}{'x' if outside else ''}{'k' if table.at_kink[0, 0] else ''}"


def spoiled(place: Place, factor: float, order: int) -> Place:
    """The place with a derivative of this order wrong by a factor; at the second, the gradient itself is right."""

    @tf.custom_gradient
    def gradient(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = place.function(x)
            slope = tape.gradient(value, x)
        return slope, lambda upstream: factor * upstream * outer.gradient(slope, x, unconnected_gradients="zero")

    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        slope = gradient(x)
        return place.function(x), lambda upstream: upstream * (slope if order == 2 else factor * slope)

    return Place(wrong, place.exact, place.edge, place.side)


VECTORS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: tf.reduce_sum(tf.nn.relu(x - 1.0) * x * x),
    "relu6": lambda x: tf.reduce_sum(tf.nn.relu6(5.0 + x) * x),
    "abs": lambda x: tf.reduce_sum(tf.abs(x - 1.0) * x),
    "sqrt": lambda x: tf.reduce_sum(tf.sqrt(tf.abs(x - 1.0)) * x),
    "asin": lambda x: tf.reduce_sum(tf.asin(2.0 - tf.maximum(x, 2.0 - x)) * x),
    "elementwise relu": lambda x: tf.nn.relu(x - 1.0) * x,
    "max pairs": lambda x: tf.reduce_sum(tf.maximum(x, 1.0) * tf.maximum(x[::-1], 1.0)),
    "sort": lambda x: tf.reduce_sum(tf.sort(x) * tf.cast(tf.range(tf.size(x)), tf.float64)),
    "softmax of relu": lambda x: tf.nn.softmax(tf.nn.relu(x - 1.0)) * x,
}
"""Functions of vectors with a kink, a switch or an edge where a coordinate is 1, or two are equal."""


def vector(size: int, distance: float, near: int, rng: np.random.Generator) -> Array:
    """Coordinates between 0.3 and 2.3, `near` of them close to 1: from one to e**2 times `distance` away."""
    x = rng.uniform(0.3, 0.8, size) + rng.integers(0, 2, size)
    x[:near] = 1.0 + distance * rng.choice([-1.0, 1.0], near) * np.exp(rng.uniform(0.0, 2.0, near))
    return np.asarray(rng.permutation(x))


def vectors(names: Sequence[str]) -> None:
    """Prints the verdicts on vectors: entries compared of all, and the relative resolution."""
    distances = (1e-1, 1e-3, 1e-5, 1e-7)
    print(f"{'distance':43s}" + " ".join(f"{distance:16.0e}" for distance in distances))
    for name in names:
        function = VECTORS[name]
        for size, near in ((4, 1), (20, 1), (100, 10), (1000, 100)):
            for order in (1, 2):
                cells = []
                for distance in distances:
                    x = vector(size, distance, near, np.random.default_rng(5))
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        result = gradcheck.check(function, x, order=order).orders[order]
                    total = result.compared + result.inconclusive
                    cells.append(
                        f"{SIGNS[result.verdict.value]}{result.compared}/{total} {result.relative_resolution:.0e}"
                    )
                print(f"{name:18s} n={size:4d} near={near:3d} order {order} " + " ".join(f"{c:>16s}" for c in cells))


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description="Points near kinks, poles, edges and branches.")
    parser.add_argument("names", nargs="*", help="functions by name; all by default")
    parser.add_argument("--order", type=int, default=None, choices=(1, 2), help="one order only")
    parser.add_argument("--planted", action="store_true", help="gradients wrong by 1e-5 of themselves")
    parser.add_argument("--vectors", action="store_true", help="vectors with coordinates near something")
    options = parser.parse_args()
    if options.vectors:
        vectors(options.names or tuple(VECTORS))
        return
    places = {
        **{name: (place, DISTANCES) for name, place in PLACES.items()},
        **{n: (p, (d,)) for n, (p, d) in POINTS.items()},
    }
    print(f"{'distance':32s}" + "".join(f"{distance:9.0e}" for distance in DISTANCES))
    for order in (options.order,) if options.order else (1, 2):
        for name in options.names or places:
            place, distances = places[name]
            place = spoiled(place, 1.00001, order) if options.planted else place
            print(f"{order} {name:30s}" + "".join(f"{entry(place, d, order):>9s}" for d in distances), flush=True)


if __name__ == "__main__":
    main()
