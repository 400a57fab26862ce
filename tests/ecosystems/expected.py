"""Cases of `cases.py` that do not simply agree: the wrong ones, each with an oracle, and the undecided ones.

An oracle is the function itself in mpmath, written from its definition; the test differentiates it in fifty digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpmath import (
    atan,
    atanh,
    besseli,
    besselk,
    betainc,
    exp,
    gamma,
    lambertw,
    log,
    log1p,
    loggamma,
    pi,
    power,
    quad,
    sin,
    sqrt,
    zeta,
)

from gradcheck.result import Reason


@dataclass(frozen=True)
class Wrong:
    """Wrong derivatives: the inputs (one at first order, two at second), the right function of all inputs, and why."""

    along: tuple[tuple[str, ...], ...]
    oracle: Callable[..., Any]
    why: str


@dataclass(frozen=True)
class Undecided:
    """The reasons that a check gives at each order, and why."""

    reasons: dict[int, set[Reason]]
    why: str


XLOGY = "tf.math.xlogy loses the derivative with respect to a factor that is 0 (record xlogy-zero), xlog1py likewise."
LAST_TERM = "The series of the derivative is cut where that of the value ends: at the term that a whole number makes 0."
BRANCH = "The special case is a branch of its own, in which what is differentiated does not occur."
EVEN = "A function of |x|, whose derivative TensorFlow takes to be 0 at 0: what is even loses its second derivative."
SELECTED = "tf.where does not select what is infinite, and sends back 0 to it; 0 times infinity is NaN."
ORDER = (
    "The derivative with respect to the order of a Bessel function is not implemented: it is None, without an error."
)


def log_beta(a: Any, b: Any) -> Any:
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def beta_log_prob(a: Any, b: Any, x: Any) -> Any:
    return (a - 1) * log(x) + (b - 1) * log1p(-x) - log_beta(a, b)


def beta_cdf(a: Any, b: Any, x: Any) -> Any:
    return betainc(a, b, 0, x, regularized=True)


def beta_quotient_log_prob(a: Any, x: Any) -> Any:
    """The density of a quotient of Beta(a, 3) and Beta(4, 5/2) variables at x < 1, an integral over the second one."""

    def integrand(y: Any) -> Any:
        return y * exp(beta_log_prob(a, 3, x * y) + beta_log_prob(4, power(2, -1) * 5, y))

    return log(quad(integrand, [0, 1]))


def chi2_log_prob(df: Any, x: Any) -> Any:
    return (df / 2 - 1) * log(x) - x / 2 - df / 2 * log(2) - loggamma(df / 2)


def continuous_bernoulli_log_prob(p: Any, x: Any) -> Any:
    constant = 2 if 2 * p == 1 else 2 * atanh(1 - 2 * p) / (1 - 2 * p)
    return x * log(p) + (1 - x) * log1p(-p) + log(constant)


def dirichlet_log_prob(*values: Any) -> Any:
    a, x = values[:3], values[3:]
    terms = ((one - 1) * log(of) - loggamma(one) for one, of in zip(a, x, strict=True))
    return sum(terms) + loggamma(sum(a))


def extreme_value_log_prob(loc: Any, scale: Any, concentration: Any, x: Any) -> Any:
    log_t = -log1p(concentration * (x - loc) / scale) / concentration
    return (concentration + 1) * log_t - exp(log_t) - log(scale)


def extreme_value_cdf(loc: Any, scale: Any, concentration: Any, x: Any) -> Any:
    return exp(-exp(-log1p(concentration * (x - loc) / scale) / concentration))


def extreme_value_mean(loc: Any, scale: Any, concentration: Any, *_: Any) -> Any:
    return loc + scale * (gamma(1 - concentration) - 1) / concentration


def gamma_log_prob(concentration: Any, rate: Any, x: Any) -> Any:
    return concentration * log(rate) + (concentration - 1) * log(x) - rate * x - loggamma(concentration)


def generalized_normal_cdf(loc: Any, scale: Any, exponent: Any, x: Any) -> Any:
    density = lambda y: exp(-((abs(y - loc) / scale) ** exponent)) * exponent / (2 * scale * gamma(1 / exponent))  # noqa: E731
    return power(2, -1) + quad(density, [loc, x])


def generalized_pareto_survival(loc: Any, scale: Any, concentration: Any, x: Any) -> Any:
    return exp(-log1p(concentration * (x - loc) / scale) / concentration)


def generalized_pareto_log_prob(loc: Any, scale: Any, concentration: Any, x: Any) -> Any:
    return -(1 + 1 / concentration) * log1p(concentration * (x - loc) / scale) - log(scale)


def kumaraswamy_log_prob(a: Any, b: Any, x: Any) -> Any:
    return log(a) + log(b) + (a - 1) * log(x) + (b - 1) * log1p(-(x**a))


def lambert_w_normal_log_prob(loc: Any, scale: Any, tailweight: Any, y: Any) -> Any:
    """The logarithm of the density of loc + scale u exp(tailweight u^2 / 2) for a normal u."""
    z = (y - loc) / scale
    w = lambertw(tailweight * z**2)
    return -(z**2) * exp(-w) / 2 - log(2 * pi) / 2 - log(scale) - w / 2 - log1p(w)


def lambert_w_tail(shift: Any, scale: Any, tailweight: Any, x: Any) -> Any:
    u = (x - shift) / scale
    return shift + scale * u * exp(tailweight * u**2 / 2), tailweight * u**2 / 2 + log1p(tailweight * u**2)


def lambert_w_tail_inverse(shift: Any, scale: Any, tailweight: Any, y: Any) -> Any:
    z = (y - shift) / scale
    w = lambertw(tailweight * z**2)
    return shift + scale * z * exp(-w / 2), -w / 2 - log1p(w)


def noncentral_chi2_log_prob(df: Any, noncentrality: Any, x: Any) -> Any:
    factor = (df / 4 - power(2, -1)) * log(x / noncentrality) - (x + noncentrality) / 2 - log(2)
    return factor + log(besseli(df / 2 - 1, sqrt(noncentrality * x)))


def student_t_cdf(df: Any, loc: Any, scale: Any, x: Any) -> Any:
    constant = gamma((df + 1) / 2) / (gamma(df / 2) * sqrt(df * pi))
    return power(2, -1) + constant * quad(lambda y: (1 + y**2 / df) ** (-(df + 1) / 2), [0, (x - loc) / scale])


def weibull_log_prob(concentration: Any, scale: Any, x: Any) -> Any:
    z = x / scale
    return log(concentration / scale) + (concentration - 1) * log(z) - z**concentration


def distance(*values: Any) -> Any:
    """The distance between two points in the plane, x and y."""
    return sqrt((values[0] - values[2]) ** 2 + (values[1] - values[3]) ** 2)


def exp_sin_squared(length_scale: Any, period: Any, *points: Any) -> Any:
    sines = (sin(pi * (x - y) / period) ** 2 for x, y in zip(points[:2], points[2:], strict=True))
    return power(1.3, 2) * exp(-2 * sum(sines) / length_scale**2)


def matern(df: Any, amplitude: Any, length_scale: Any, *points: Any) -> Any:
    t = sqrt(2 * df) * distance(*points) / length_scale
    return amplitude**2 * 2 ** (1 - df) / gamma(df) * t**df * besselk(df, t)


def matern_three_halves(amplitude: Any, length_scale: Any, *points: Any) -> Any:
    t = sqrt(3) * distance(*points) / length_scale
    return amplitude**2 * (1 + t) * exp(-t)


def bessel_iv_ratio(v: Any, z: Any) -> Any:
    return besseli(v, z) / besseli(v - 1, z)


BETA, SHAPE = ("concentration1", "concentration0"), ("concentration",)
LAMBERT = ("loc", "scale", "tailweight", "value")

WRONG = {
    "Beta, concentrations 1: log_prob": Wrong(((BETA[0],), (BETA[1],), (BETA[0], "value")), beta_log_prob, XLOGY),
    "Beta, whole concentrations: cdf": Wrong(((BETA[1],),), beta_cdf, LAST_TERM),
    "Beta, whole concentrations: survival_function": Wrong(
        ((BETA[1],),), lambda a, b, x: 1 - beta_cdf(a, b, x), LAST_TERM
    ),
    "BetaQuotient: log_prob": Wrong(
        ((BETA[0],),),
        beta_quotient_log_prob,
        "The custom gradient of tfp.math's hyp2f1_small_argument has none for the parameters of the function.",
    ),
    "Chi2, two degrees of freedom: log_prob": Wrong((("df",), ("df", "value")), chi2_log_prob, XLOGY),
    "ContinuousBernoulli, probs 1/2: log_prob": Wrong((("probs", "probs"),), continuous_bernoulli_log_prob, EVEN),
    "Dirichlet, concentrations 1: log_prob": Wrong((SHAPE,), dirichlet_log_prob, XLOGY),
    "Gamma, concentration 1: log_prob": Wrong((SHAPE, (*SHAPE, "value")), gamma_log_prob, XLOGY),
    "GeneralizedExtremeValue, concentration 0: log_prob": Wrong((SHAPE,), extreme_value_log_prob, BRANCH),
    "GeneralizedExtremeValue, concentration 0: cdf": Wrong((SHAPE,), extreme_value_cdf, BRANCH),
    "GeneralizedExtremeValue, concentration 0: mean": Wrong((SHAPE,), extreme_value_mean, BRANCH),
    "GeneralizedNormal, at loc: cdf": Wrong((("loc",), ("value",)), generalized_normal_cdf, BRANCH),
    "GeneralizedPareto, concentration 0: log_prob": Wrong((SHAPE,), generalized_pareto_log_prob, BRANCH),
    "GeneralizedPareto, concentration 0: cdf": Wrong(
        (SHAPE,), lambda *values: 1 - generalized_pareto_survival(*values), BRANCH
    ),
    "Kumaraswamy, concentrations 1: log_prob": Wrong(((BETA[0],), (BETA[1],)), kumaraswamy_log_prob, XLOGY),
    "LambertWNormal, at loc: log_prob": Wrong(tuple((name,) for name in LAMBERT), lambert_w_normal_log_prob, SELECTED),
    "LambertWNormal, tailweight 0: log_prob": Wrong(
        tuple((name,) for name in LAMBERT), lambert_w_normal_log_prob, SELECTED
    ),
    "StudentT, at loc: cdf": Wrong((("df", "loc"), ("df", "value")), student_t_cdf, EVEN),
    "Weibull, concentration 1: log_prob": Wrong((SHAPE,), weibull_log_prob, XLOGY),
    "Zipf: log_prob": Wrong(
        (("power",),),
        lambda s: -s * log(3) - log(zeta(s)),
        "tf.math.zeta has no gradient with respect to its first argument.",
    ),
    "Zipf: mean": Wrong(
        (("power",),),
        lambda s: zeta(s - 1) / zeta(s),
        "tf.math.zeta has no gradient with respect to its first argument.",
    ),
    "bijector LambertWTail, at shift: forward": Wrong(
        tuple((name,) for name in ("point", "scale", "shift", "tailweight")), lambert_w_tail, SELECTED
    ),
    "bijector LambertWTail, at shift: inverse": Wrong(
        tuple((name,) for name in ("image", "scale", "shift", "tailweight")), lambert_w_tail_inverse, SELECTED
    ),
    "kernel ExpSinSquared, coincident": Wrong((("x", "x"), ("x", "y")), exp_sin_squared, EVEN),
    "kernel GeneralizedMatern": Wrong((("df",),), matern, ORDER),
    "kernel MaternThreeHalves, coincident": Wrong((("x", "x"), ("x", "y")), matern_three_halves, EVEN),
    "atan_difference, x y = -1": Wrong(
        (("a",), ("b",), ("a", "a"), ("a", "b")), lambda x, y: atan(x) - atan(y), SELECTED
    ),
    "atan_difference, x y = -1, swapped": Wrong((("a",), ("b",)), lambda x, y: atan(x) - atan(y), SELECTED),
    "bessel_iv_ratio": Wrong((("a",),), bessel_iv_ratio, ORDER),
    "bessel_ive, order 0 at 0": Wrong(
        (("a",),), lambda z: exp(-abs(z)) * besseli(0, z), "The gradient divides the order by the argument: 0 / 0."
    ),
    "bessel_ive with respect to its order": Wrong((("a",),), lambda v, z: exp(-z) * besseli(v, z), ORDER),
    "NoncentralChi2: log_prob": Wrong(
        (("df",),), noncentral_chi2_log_prob, ORDER + " The rest of the derivative is left."
    ),
    "NoncentralChi2.log_prob of df alone": Wrong(
        (("a",),), lambda df: noncentral_chi2_log_prob(df, 1.4, 2.2), ORDER + " The rest of the derivative is left."
    ),
    "betainc, parameters 1": Wrong((("b",),), beta_cdf, LAST_TERM),
    "betainc, parameters 2": Wrong((("a",),), beta_cdf, LAST_TERM),
    "lambertw, at 0": Wrong(
        (("a", "a"),), lambda z: lambertw(z).real, "The gradient selects 1 at 0 beside 0 / 0: NaN at second order."
    ),
    "log_bessel_kve with respect to its order": Wrong((("a",),), lambda v, z: z + log(besselk(v, z)), ORDER),
    "bessel_kve with respect to its order": Wrong((("a",),), lambda v, z: exp(z) * besselk(v, z), ORDER),
}

IGAMMA = "gradient registry has no entry for: IgammaGradA"
RAISES = {
    "Chi: cdf": IGAMMA,
    "Chi2: cdf": IGAMMA,
    "Chi2, two degrees of freedom: cdf": IGAMMA,
    "ExpGamma: cdf": IGAMMA,
    "Gamma: cdf": IGAMMA,
    "Gamma: survival_function": IGAMMA,
    "Gamma, concentration 1: cdf": IGAMMA,
    "GeneralizedNormal: cdf": IGAMMA,
    "InverseGamma: cdf": IGAMMA,
}
"""The messages of second derivatives that are not implemented."""

ILL, COARSE = Reason.ILL_CONDITIONED, Reason.TOO_COARSE
UNDECIDED = {
    "ContinuousBernoulli, probs 1/2, first order: cdf": Undecided(
        {1: {ILL}},
        "Wrong: -0.48 is right, autodiff gives 0, that of a branch for 1/2 alone. Beside 1/2 its values swing.",
    ),
    "Gamma, far in its tail: survival_function": Undecided({1: {ILL}}, "1 - cdf is 0 there, where 1e-31 is right."),
    "kernel MaternFiveHalves, coincident": Undecided(
        {2: {COARSE}}, "Wrong: -4.4 is right, autodiff gives 0. The distance is not smooth there, the kernel is."
    ),
    "kernel MaternThreeHalves, coincident": Undecided({2: {COARSE}}, "Third derivatives jump there."),
    "log_cosh, at 0": Undecided({1: {ILL}}, "Right: 0. Within 1e-50 of 0 the function is |x|."),
}
