"""Functions with exact derivatives: each is written once, evaluated by NumPy in float64 and by mpmath in 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Any

import mpmath
import numpy as np

Array = np.ndarray[Any, Any]

DIGITS = 50


class Float64:
    """The mathematical functions in float64, by the names that `Exact` has too."""

    sin, cos, tan, exp, log, sqrt = np.sin, np.cos, np.tan, np.exp, np.log, np.sqrt
    sinh, cosh, tanh, arctan, arcsin, arctanh = np.sinh, np.cosh, np.tanh, np.arctan, np.arcsin, np.arctanh
    expm1, log1p, cbrt = np.expm1, np.log1p, np.cbrt
    erf = np.vectorize(erf, otypes=[np.float64])


class Exact:
    """The same functions in mpmath."""

    sin, cos, tan, exp, log, sqrt = mpmath.sin, mpmath.cos, mpmath.tan, mpmath.exp, mpmath.log, mpmath.sqrt
    sinh, cosh, tanh, arctan, arcsin = mpmath.sinh, mpmath.cosh, mpmath.tanh, mpmath.atan, mpmath.asin
    arctanh, expm1, log1p, erf = mpmath.atanh, mpmath.expm1, mpmath.log1p, mpmath.erf

    @staticmethod
    def cbrt(x: Any) -> Any:
        return mpmath.sign(x) * mpmath.cbrt(abs(x))


@dataclass(frozen=True)
class Function:
    """`formula(m, x)`, with `m` one of the two modules, and where to try it: |x| or x between `low` and `high`.

    With `log` the magnitudes are log-uniform and, if `signed`, of either sign; else x is uniform.
    """

    name: str
    formula: Callable[[Any, Any], Any]
    low: float
    high: float
    log: bool = False
    signed: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Points, shape (count,)."""
        if not self.log:
            return rng.uniform(self.low, self.high, count)
        magnitudes = np.exp(rng.uniform(np.log(self.low), np.log(self.high), count))
        return magnitudes * (rng.choice([-1.0, 1.0], count) if self.signed else 1.0)

    def __call__(self, x: Array) -> Array:
        """The values in float64."""
        with np.errstate(all="ignore"):
            return np.asarray(self.formula(Float64, x), dtype=np.float64)

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """The first and second derivative at points (count,), to 50 digits, rounded to float64."""
        with mpmath.workdps(DIGITS):
            pairs = [
                [mpmath.diff(lambda t: self.formula(Exact, t), mpmath.mpf(float(value)), n) for n in (1, 2)]
                for value in x
            ]
            exact = np.array([[float(value) for value in pair] for pair in pairs])
        return exact[:, 0], exact[:, 1]


SMOOTH = (
    Function("sin(x)", lambda m, x: m.sin(x), -10, 10),
    Function("cos(x)", lambda m, x: m.cos(x), 1e-8, 1, log=True, signed=True),
    Function("exp(x)", lambda m, x: m.exp(x), -20, 20),
    Function("exp(x), tiny x", lambda m, x: m.exp(x), 1e-8, 1e-3, log=True, signed=True),
    Function("exp(100 x)", lambda m, x: m.exp(100.0 * x), -1, 1),
    Function("exp(-x^2)", lambda m, x: m.exp(-x * x), -5, 5),
    Function("exp(-1e4 x^2)", lambda m, x: m.exp(-1e4 * x * x), -0.03, 0.03),
    Function("exp(-1/x)", lambda m, x: m.exp(-1 / x), 0.05, 5),
    Function("exp(sin x)", lambda m, x: m.exp(m.sin(x)), -10, 10),
    Function("exp(1e-8 x)", lambda m, x: m.exp(1e-8 * x), 1e6, 1e9, log=True, signed=True),
    Function("expm1(x)", lambda m, x: m.expm1(x), 1e-8, 10, log=True, signed=True),
    Function("log(x)", lambda m, x: m.log(x), 1e-8, 1e8, log=True),
    Function("log(x), edge", lambda m, x: m.log(x), 1e-8, 1e-6, log=True),
    Function("log(1 - x), edge", lambda m, x: m.log(1.0 - x), 0.9, 0.9999),
    Function("log1p(x)", lambda m, x: m.log1p(x), 1e-8, 1e4, log=True),
    Function("x log x", lambda m, x: x * m.log(x), 1e-6, 1e6, log=True),
    Function("sqrt(x)", lambda m, x: m.sqrt(x), 1e-8, 1e8, log=True),
    Function("sqrt(1 - x^2)", lambda m, x: m.sqrt(1.0 - x * x), -0.999, 0.999),
    Function("sqrt(1 + x^2)", lambda m, x: m.sqrt(1.0 + x * x), 1e-3, 1e8, log=True, signed=True),
    Function("cbrt(x)", lambda m, x: m.cbrt(x), 1e-8, 1e8, log=True, signed=True),
    Function("1/x", lambda m, x: 1.0 / x, 1e-8, 1e8, log=True, signed=True),
    Function("1/(x - 1), pole", lambda m, x: 1.0 / (x - 1.0), 0.9, 1.1),
    Function("1/(1 + 25 x^2)", lambda m, x: 1.0 / (1.0 + 25.0 * x * x), -1, 1),
    Function("1/(1e-4 + x^2)", lambda m, x: 1.0 / (1e-4 + x * x), -0.1, 0.1),
    Function("x/(1 + x)", lambda m, x: x / (1.0 + x), 1e-8, 1e4, log=True),
    Function("tan(x)", lambda m, x: m.tan(x), -1.5, 1.5),
    Function("tan(x), pole", lambda m, x: m.tan(x), 1.5607, 1.5697),
    Function("x^2", lambda m, x: x * x, 1e-8, 1e8, log=True, signed=True),
    Function("x^3 - 2 x", lambda m, x: x * x * x - 2.0 * x, -3, 3),
    Function("x^1.5", lambda m, x: x**1.5, 1e-8, 1e8, log=True),
    Function("x^-2.5", lambda m, x: x**-2.5, 1e-8, 1e8, log=True),
    Function("3 x + 2", lambda m, x: 3.0 * x + 2.0, -10, 10),
    Function("sin(50 x)", lambda m, x: m.sin(50.0 * x), -3, 3),
    Function("sin(1000 x)", lambda m, x: m.sin(1000.0 * x), -1, 1),
    Function("sin(1e8 x)", lambda m, x: m.sin(1e8 * x), 1e-9, 1e-7, log=True, signed=True),
    Function("sin(1e-8 x)", lambda m, x: m.sin(1e-8 * x), 1e6, 1e9, log=True, signed=True),
    Function("sin(x^2)", lambda m, x: m.sin(x * x), -5, 5),
    Function("sin(1/x)", lambda m, x: m.sin(1.0 / x), 0.05, 2),
    Function("sin(x)/x", lambda m, x: m.sin(x) / x, 0.1, 20),
    Function("1e8 cos(x)", lambda m, x: 1e8 * m.cos(x), -10, 10),
    Function("1e-8 sin(x)", lambda m, x: 1e-8 * m.sin(x), -10, 10),
    Function("1e6 + sin(x)", lambda m, x: 1e6 + m.sin(x), -10, 10),
    Function("exp(-x) cos(5 x)", lambda m, x: m.exp(-x) * m.cos(5.0 * x), -3, 3),
    Function("sinh(x)", lambda m, x: m.sinh(x), -10, 10),
    Function("cosh(x)", lambda m, x: m.cosh(x), -10, 10),
    Function("tanh(x)", lambda m, x: m.tanh(x), -5, 5),
    Function("tanh(20 x)", lambda m, x: m.tanh(20.0 * x), -0.3, 0.3),
    Function("1/(1 + exp(-x))", lambda m, x: 1.0 / (1.0 + m.exp(-x)), -20, 5),
    Function("log1p(exp(x))", lambda m, x: m.log1p(m.exp(x)), -20, 20),
    Function("arctan(x)", lambda m, x: m.arctan(x), -10, 10),
    Function("arctan(1e4 x)", lambda m, x: m.arctan(1e4 * x), -1e-3, 1e-3),
    Function("arcsin(x)", lambda m, x: m.arcsin(x), -0.999, 0.999),
    Function("arctanh(x)", lambda m, x: m.arctanh(x), -0.999, 0.999),
    Function("erf(x)", lambda m, x: m.erf(x), -3, 3),
)
"""Functions that are evaluated with a small mixed error, for which the bound is promised."""

CANCELLING = (
    Function("(x + 1e5) - 1e5 + sin x", lambda m, x: (x + 1e5) - 1e5 + m.sin(x), -10, 10),
    Function("(exp(x) - 1)/x", lambda m, x: (m.exp(x) - 1.0) / x, 1e-5, 1, log=True, signed=True),
    Function("(1 - cos x)/x^2", lambda m, x: (1.0 - m.cos(x)) / (x * x), 1e-2, 1, log=True, signed=True),
    Function("log(1 + x)", lambda m, x: m.log(1.0 + x), 1e-6, 1, log=True),
    Function("x - sin x", lambda m, x: x - m.sin(x), 1e-2, 1, log=True, signed=True),
    Function("sqrt(x + 1e6) - 1e3", lambda m, x: m.sqrt(x + 1e6) - 1e3, 1e-2, 1e3, log=True),
)
"""Functions that lose digits inside, by more than the promised error: a class of their own."""
