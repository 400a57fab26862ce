"""Operations of the tables in `hunted/` of which there are records: their functions in mpmath, from their definitions.

Each takes and returns arrays of mpmath's numbers, as the operation does tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import atan, besseli, exp, expm1, lambertw, log, mpf, ncdf, sign, sqrt, zeta

from tests.ecosystems import expected

Oracle = Callable[..., Any]


def elementwise(function: Oracle) -> Oracle:
    """A function of numbers, of arrays of one shape."""
    return lambda *arrays: np.vectorize(function, otypes=[object])(*arrays)


def limit(function: Oracle) -> Oracle:
    """An elementwise function of loc, scale, concentration and more, whose formula divides by the concentration."""
    return elementwise(lambda loc, scale, concentration, *x: function(loc, scale, concentration or mpf("1e-40"), *x))


def of_pairs(function: Oracle) -> Oracle:
    """A function of two points, of two sets of points: one row for each point of the first."""
    return lambda x, y: np.array([[function(*one, *other) for other in y] for one in x], object)


def of_points(function: Oracle) -> Oracle:
    """A function of two points, of arrays whose last dimension has their coordinates."""

    def oracle(x: Any, y: Any) -> Any:
        rows = zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
        return np.array([function(*one, *other) for one, other in rows], object).reshape(x.shape[:-1])

    return oracle


def of_one(oracle: Oracle) -> Oracle:
    """A function of two sets of points, of one with itself."""
    return lambda x: oracle(x, x)


def logistic(x: Any) -> Any:
    return 1 / (1 + exp(-x))


def change_points(x: Any, y: Any) -> Any:
    """A Matern kernel of 5/2 before 0.3, and a linear one behind it, with a steepness of 2."""
    one, other = (logistic(2 * (at - mpf(0.3))) for at in (x, y))
    return (1 - one) * (1 - other) * matern52(x, y) + one * other * x * y


def laplace_cdf(loc: Any, scale: Any, x: Any) -> Any:
    z = (x - loc) / scale
    return mpf(1) / 2 - sign(z) * expm1(-abs(z)) / 2


def laplace_survival(loc: Any, scale: Any, x: Any) -> Any:
    return laplace_cdf(-loc, scale, -x)


def distance(*values: Any) -> Any:
    """The distance between two points, the first half of the coordinates and the second."""
    half = len(values) // 2
    return sqrt(sum((x - y) ** 2 for x, y in zip(values[:half], values[half:], strict=True)))


def matern32(*points: Any) -> Any:
    t = sqrt(3) * distance(*points) / mpf(0.8)
    return mpf(1.3) * (1 + t) * exp(-t)


def matern52(*points: Any) -> Any:
    t = sqrt(5) * distance(*points) / mpf(0.8)
    return mpf(1.3) * (1 + t + t**2 / 3) * exp(-t)


def gamma_gamma_log_prob(a: Any, b: Any, rate: Any, x: Any) -> Any:
    """The density of a Gamma variable of concentration a whose rate is a Gamma variable, of concentration b."""
    return b * log(rate) + (a - 1) * log(x) - (a + b) * log(x + rate) - expected.log_beta(a, b)


def generalized_pareto_inverse_slope(loc: Any, scale: Any, concentration: Any, y: Any) -> Any:
    """The logarithm of the slope of the inverse of loc + log(1 + exp(x)), the bijector of a concentration from 0 on."""
    return -log(-expm1(loc - y))


def kumaraswamy_slope(a: Any, b: Any, x: Any) -> Any:
    return expected.kumaraswamy_log_prob(a, b, x)


def lambert_w_normal_cdf(loc: Any, scale: Any, tailweight: Any, y: Any) -> Any:
    return ncdf(lambert_w_tail_inverse(0, 1, tailweight, (y - loc) / scale))


def lambert_w_tail_inverse(shift: Any, scale: Any, tailweight: Any, y: Any) -> Any:
    z = (y - shift) / scale
    return shift + scale * z * exp(-lambertw(tailweight * z**2).real / 2)


def kumaraswamy_inverse_slope(a: Any, b: Any, u: Any) -> Any:
    return -expected.kumaraswamy_log_prob(a, b, (1 - (1 - u) ** (1 / b)) ** (1 / a))


def negative_binomial_cdf(count: Any, chance: Any) -> Any:
    """At most 3 successes before so many failures."""
    return expected.beta_cdf(count, 4, 1 - chance)


def pert_cdf(low: Any, peak: Any, high: Any, x: Any) -> Any:
    width = high - low
    return expected.beta_cdf(1 + 4 * (peak - low) / width, 1 + 4 * (high - peak) / width, (x - low) / width)


def relaxed_bernoulli_log_prob(temperature: Any, logits: Any, x: Any) -> Any:
    """The density of the logistic function of (logits + a logistic variable) / temperature."""
    z = temperature * (log(x) - log(1 - x)) - logits
    return log(temperature) - log(x) - log(1 - x) - z - 2 * log(1 + exp(-z))


def weibull_inverse_slope(scale: Any, concentration: Any, u: Any) -> Any:
    return -expected.weibull_log_prob(concentration, scale, scale * (-log(1 - u)) ** (1 / concentration))


def weibull_slope(scale: Any, concentration: Any, x: Any) -> Any:
    return expected.weibull_log_prob(concentration, scale, x)


def extreme_value_quantile(loc: Any, scale: Any, concentration: Any, p: Any) -> Any:
    return loc + scale * expm1(-concentration * log(-log(p))) / concentration


def two_piece_student_t_cdf(df: Any, loc: Any, scale: Any, skewness: Any, x: Any) -> Any:
    """Two halves of a density, stretched by 1 / skewness below loc and by skewness above."""
    share = 1 / (1 + skewness**2)
    if x <= loc:
        return 2 * share * expected.student_t_cdf(df, loc, scale / skewness, x)
    return share + 2 * (1 - share) * (expected.student_t_cdf(df, loc, scale * skewness, x) - mpf(1) / 2)


ORACLES: dict[str, Oracle] = {
    "gpflow_change_points": of_pairs(change_points),
    "gpflow_change_points_of_one": of_one(of_pairs(change_points)),
    "gpflow_matern32": of_pairs(matern32),
    "gpflow_matern32_of_one": of_one(of_pairs(matern32)),
    "gpflow_matern52": of_pairs(matern52),
    "gpflow_matern52_of_one": of_one(of_pairs(matern52)),
    # With GPflow's initial coefficients it is the constant 1.
    "gpflow_polynomial_mean": lambda x: 1 + 0 * x[:, :1],
    "tfp_beta_cdf": elementwise(expected.beta_cdf),
    "tfp_beta_log_prob": elementwise(expected.beta_log_prob),
    "tfp_chi2_log_prob": elementwise(expected.chi2_log_prob),
    "tfp_continuous_bernoulli_log_prob": elementwise(expected.continuous_bernoulli_log_prob),
    # Of the bijector's own image.
    "tfp_cumsum_inverse": lambda x: x,
    "tfp_gamma_gamma_log_prob": elementwise(gamma_gamma_log_prob),
    "tfp_gamma_log_prob": elementwise(expected.gamma_log_prob),
    "tfp_generalized_extreme_value_cdf": limit(expected.extreme_value_cdf),
    "tfp_generalized_extreme_value_cdf_forward": limit(expected.extreme_value_cdf),
    "tfp_generalized_extreme_value_cdf_forward_log_det_jacobian": limit(expected.extreme_value_log_prob),
    "tfp_generalized_extreme_value_cdf_inverse": limit(extreme_value_quantile),
    "tfp_generalized_extreme_value_log_prob": limit(expected.extreme_value_log_prob),
    "tfp_generalized_extreme_value_mean": limit(expected.extreme_value_mean),
    "tfp_generalized_normal_cdf": elementwise(expected.generalized_normal_cdf),
    "tfp_generalized_pareto_cdf": limit(lambda *given: 1 - expected.generalized_pareto_survival(*given)),
    "tfp_generalized_pareto_inverse_log_det_jacobian": elementwise(generalized_pareto_inverse_slope),
    "tfp_generalized_pareto_log_prob": limit(expected.generalized_pareto_log_prob),
    "tfp_generalized_pareto_survival_function": limit(expected.generalized_pareto_survival),
    "tfp_kernel_exp_sin_squared": of_points(lambda *points: expected.exp_sin_squared(mpf(0.8), mpf(1.7), *points)),
    "tfp_kumaraswamy_cdf_forward_log_det_jacobian": elementwise(kumaraswamy_slope),
    "tfp_kumaraswamy_cdf_inverse_log_det_jacobian": elementwise(kumaraswamy_inverse_slope),
    "tfp_kumaraswamy_log_prob": elementwise(expected.kumaraswamy_log_prob),
    "tfp_lambert_w_normal_cdf": elementwise(lambert_w_normal_cdf),
    "tfp_lambert_w_normal_log_prob": elementwise(expected.lambert_w_normal_log_prob),
    "tfp_lambert_w_tail_forward_log_det_jacobian": elementwise(lambda *given: expected.lambert_w_tail(*given)[1]),
    "tfp_lambert_w_tail_inverse": elementwise(lambert_w_tail_inverse),
    "tfp_lambert_w_tail_inverse_log_det_jacobian": elementwise(lambda *x: expected.lambert_w_tail_inverse(*x)[1].real),
    "tfp_laplace_cdf": elementwise(laplace_cdf),
    "tfp_laplace_log_cdf": elementwise(lambda *given: log(laplace_cdf(*given))),
    "tfp_laplace_survival_function": elementwise(laplace_survival),
    "tfp_math_betainc": elementwise(expected.beta_cdf),
    "tfp_sigmoid_beta_cdf": elementwise(lambda a, b, x: expected.beta_cdf(a, b, logistic(x))),
    "tfp_math_atan_difference": elementwise(lambda x, y: atan(x) - atan(y)),
    "tfp_math_bessel_ive": elementwise(lambda z: exp(-abs(z)) * besseli(2, z)),
    "tfp_math_lambertw": elementwise(lambda z: lambertw(z).real),
    "tfp_negative_binomial_cdf": elementwise(negative_binomial_cdf),
    "tfp_pert_cdf": elementwise(pert_cdf),
    "tfp_power_forward_log_det_jacobian": elementwise(lambda exponent, x: log(exponent) + (exponent - 1) * log(x)),
    "tfp_power_inverse_log_det_jacobian": elementwise(lambda exponent, y: (1 / exponent - 1) * log(y) - log(exponent)),
    "tfp_relaxed_bernoulli_log_prob": elementwise(relaxed_bernoulli_log_prob),
    "tfp_student_t_cdf": elementwise(expected.student_t_cdf),
    "tfp_two_piece_student_t_cdf": elementwise(two_piece_student_t_cdf),
    "tfp_weibull_cdf_forward_log_det_jacobian": elementwise(weibull_slope),
    "tfp_weibull_cdf_inverse_log_det_jacobian": elementwise(weibull_inverse_slope),
    "tfp_weibull_log_prob": elementwise(expected.weibull_log_prob),
    "tfp_zipf_log_prob": elementwise(lambda s: -s * log(3) - log(zeta(s))),
}
