"""Methods of TensorFlow Probability's distributions, as functions of their parameters and of a value.

A line has the distribution, the domains of its parameters, and its methods with the domain of the value, or the value of
a discrete variable, or None for a method without one. Where a bound of one argument is another one, their domains lie
apart. Where the incomplete gamma function is differentiated with respect to its first argument, TensorFlow has no second
derivative: the order is 1. The Kumaraswamy, von Mises and inverse Gaussian shapes stay near 1: far from it their densities underflow.
"""

import gradcheck
import numpy as np
import tensorflow_probability as tfp

tfd = tfp.distributions

NEAR, SCALE, SHAPE, UNIT = (-3, 3), (0.1, 5), (0.2, 6), (0, 1)
SMALL, POSITIVE, MIDDLE = (-0.3, 0.3), (0.05, 6), (-0.9, 0.9)
LOC_SCALE = {"loc": NEAR, "scale": SCALE}


def distribution(name, make, parameters, methods, **declared):
    """Registers methods of a distribution; a value is the last of their arguments."""
    for listed, value in methods.items():
        for method in listed.split():
            domain = {**parameters, **({"value": value} if isinstance(value, tuple) else {})}
            gradcheck.operation(name=f"tfp_{name}_{method}", domain=domain, modes=(), **declared)(called(make, method, value))


def called(make, method, value):
    """A function of the parameters and of the value, if that is drawn."""

    def function(*tensors):
        given = (tensors[-1],) if isinstance(value, tuple) else () if value is None else (np.float64(value),)
        return getattr(make(*tensors[: len(tensors) - isinstance(value, tuple)]), method)(*given)

    return function


def at_loc(loc, scale, *others):
    """The distance of the value from loc."""
    return np.abs(others[-1] - loc)


def at_second(_, loc, scale, *others):
    """The distance of the value from loc, where that is the second parameter."""
    return np.abs(others[-1] - loc)


def located(loc, scale, *others):
    """Whether a value is that of loc."""
    return np.any(others[-1] == loc)


def located_second(_, loc, scale, *others):
    """Whether a value is that of loc, where that is the second parameter."""
    return np.any(others[-1] == loc)


def fair(probs, *_):
    """Whether the probability is 1/2, where formulas divide by 0."""
    return np.any(probs == 0.5)


def whole(a, b, _):
    """Whether a parameter of the incomplete beta function is a whole number."""
    return np.any(a == np.round(a)) or np.any(b == np.round(b))


def whole_count(count, _):
    """Whether a parameter of the incomplete beta function is a whole number, where the other one is constant."""
    return np.any(count == np.round(count))


def whole_of_pert(low, peak, high, _):
    """Whether a parameter of the incomplete beta function is a whole number in the distribution of a peak between two ends."""
    shares = 4 * (peak - low) / (high - low), 4 * (high - peak) / (high - low)
    return any(np.any(np.abs(share - np.round(share)) < 1e-12) for share in shares)


def at_peak(low, high, peak, value):
    """The distance of the value from the peak of a triangle."""
    return np.abs(value - peak)


distribution("bates", lambda low, high: tfd.Bates(3.0, low, high), {"low": (-3, -2), "high": (2, 3)}, {"log_prob cdf": (-1.9, 1.9)})
distribution("bernoulli", tfd.Bernoulli, {"logits": NEAR}, {"log_prob": 1.0, "entropy mean variance": None})
distribution("beta", tfd.Beta, {"a": SHAPE, "b": SHAPE}, {"log_prob": UNIT, "entropy": None})
distribution("beta", tfd.Beta, {"a": SHAPE, "b": SHAPE}, {"cdf": UNIT}, special={"a whole parameter": whole})
distribution("beta_binomial", lambda a, b: tfd.BetaBinomial(5.0, a, b), {"a": SHAPE, "b": SHAPE}, {"log_prob": 2.0, "variance": None})
distribution("binomial", lambda logits: tfd.Binomial(6.0, logits=logits), {"logits": NEAR}, {"log_prob cdf": 2.0})
distribution("cauchy", tfd.Cauchy, LOC_SCALE, {"log_prob cdf log_cdf": NEAR, "quantile": UNIT, "entropy": None})
distribution("chi", tfd.Chi, {"df": SHAPE}, {"log_prob": POSITIVE, "mean": None})
distribution("chi", tfd.Chi, {"df": SHAPE}, {"cdf": POSITIVE}, orders=(1,))
distribution("chi2", tfd.Chi2, {"df": SHAPE}, {"log_prob": POSITIVE}, special={"two degrees of freedom": lambda df, value: np.any(df == 2)})
distribution("chi2", tfd.Chi2, {"df": SHAPE}, {"cdf": POSITIVE}, orders=(1,))
distribution("continuous_bernoulli", lambda probs: tfd.ContinuousBernoulli(probs=probs), {"probs": UNIT}, {"log_prob cdf quantile": UNIT, "mean variance": None}, special={"even chances": fair})
distribution("doublesided_maxwell", tfd.DoublesidedMaxwell, LOC_SCALE, {"log_prob": NEAR}, singular=at_loc)
distribution("exp_gamma", tfd.ExpGamma, {"concentration": SHAPE, "rate": SCALE}, {"log_prob": NEAR})
distribution("exp_gamma", tfd.ExpGamma, {"concentration": SHAPE, "rate": SCALE}, {"cdf": NEAR}, orders=(1,))
distribution("exp_inverse_gamma", tfd.ExpInverseGamma, {"concentration": SHAPE, "scale": SCALE}, {"log_prob": NEAR})
distribution("exponential", tfd.Exponential, {"rate": SCALE}, {"log_prob cdf log_cdf survival_function": POSITIVE, "quantile": UNIT})
distribution("exponentially_modified_gaussian", tfd.ExponentiallyModifiedGaussian, {**LOC_SCALE, "rate": SCALE}, {"log_prob cdf": NEAR})
distribution("gamma", tfd.Gamma, {"concentration": SHAPE, "rate": SCALE}, {"log_prob": POSITIVE, "entropy": None})
distribution("gamma", tfd.Gamma, {"concentration": SHAPE, "rate": SCALE}, {"cdf survival_function": POSITIVE}, orders=(1,))
distribution("gamma_gamma", tfd.GammaGamma, {"concentration": SHAPE, "mixing": SHAPE, "rate": SCALE}, {"log_prob": POSITIVE})
distribution("generalized_extreme_value", tfd.GeneralizedExtremeValue, {"loc": (-1, 1), "scale": (1, 3), "concentration": SMALL}, {"log_prob cdf": (-1, 1), "mean": None})
distribution("generalized_normal", tfd.GeneralizedNormal, {**LOC_SCALE, "power": (1, 3)}, {"log_prob": NEAR}, singular=at_loc)
distribution("generalized_normal", tfd.GeneralizedNormal, {**LOC_SCALE, "power": (1, 3)}, {"cdf": NEAR}, curvature_jumps=at_loc, special={"at loc": located}, orders=(1,))
distribution("generalized_pareto", tfd.GeneralizedPareto, {"loc": (-3, -1), "scale": (3, 5), "concentration": (-0.3, 0.8)}, {"log_prob cdf survival_function": (-1, 1)})
distribution("geometric", lambda probs: tfd.Geometric(probs=probs), {"probs": UNIT}, {"log_prob cdf": 2.0, "entropy": None})
distribution("gumbel", tfd.Gumbel, LOC_SCALE, {"log_prob cdf": NEAR, "quantile": UNIT})
distribution("half_cauchy", lambda scale: tfd.HalfCauchy(np.float64(0), scale), {"scale": SCALE}, {"log_prob cdf": POSITIVE, "quantile": UNIT})
distribution("half_normal", tfd.HalfNormal, {"scale": SCALE}, {"log_prob cdf": POSITIVE, "quantile": UNIT})
distribution("half_student_t", lambda df, scale: tfd.HalfStudentT(df, np.float64(0), scale), {"df": SHAPE, "scale": SCALE}, {"log_prob cdf": POSITIVE})
distribution("horseshoe", tfd.Horseshoe, {"scale": SCALE}, {"log_prob": POSITIVE})
distribution("inverse_gamma", tfd.InverseGamma, {"concentration": SHAPE, "scale": SCALE}, {"log_prob": POSITIVE})
distribution("inverse_gamma", tfd.InverseGamma, {"concentration": SHAPE, "scale": SCALE}, {"cdf": POSITIVE}, orders=(1,))
distribution("inverse_gaussian", tfd.InverseGaussian, {"loc": (0.5, 2), "concentration": (0.5, 2)}, {"log_prob cdf": (0.5, 3)})
distribution("johnson_su", tfd.JohnsonSU, {"skewness": NEAR, "tailweight": (0.5, 2), **LOC_SCALE}, {"log_prob cdf": NEAR})
distribution("kumaraswamy", tfd.Kumaraswamy, {"a": (0.5, 3), "b": (0.5, 3)}, {"log_prob cdf quantile": UNIT})
distribution("lambert_w_normal", tfd.LambertWNormal, {**LOC_SCALE, "tailweight": (0, 1)}, {"log_prob cdf": NEAR}, special={"at loc": located})
distribution("laplace", tfd.Laplace, LOC_SCALE, {"log_prob": NEAR}, kinks=at_loc)
distribution("laplace", tfd.Laplace, LOC_SCALE, {"cdf log_cdf survival_function": NEAR}, curvature_jumps=at_loc, special={"at loc": located})
distribution("laplace", tfd.Laplace, LOC_SCALE, {"quantile": UNIT}, curvature_jumps={"value": 0.5})
distribution("log_logistic", tfd.LogLogistic, LOC_SCALE, {"log_prob cdf": POSITIVE, "quantile": UNIT})
distribution("log_normal", tfd.LogNormal, LOC_SCALE, {"log_prob cdf": POSITIVE, "quantile": UNIT})
distribution("logistic", tfd.Logistic, LOC_SCALE, {"log_prob cdf survival_function": NEAR, "quantile": UNIT})
distribution("logit_normal", tfd.LogitNormal, LOC_SCALE, {"log_prob cdf": UNIT})
distribution("moyal", tfd.Moyal, LOC_SCALE, {"log_prob cdf": NEAR})
distribution("negative_binomial", lambda count, probs: tfd.NegativeBinomial(count, probs=probs), {"count": SHAPE, "probs": UNIT}, {"log_prob": 3.0})
distribution("negative_binomial", lambda count, probs: tfd.NegativeBinomial(count, probs=probs), {"count": SHAPE, "probs": UNIT}, {"cdf": 3.0}, special={"a whole count": whole_count})
distribution("noncentral_chi2", lambda noncentrality: tfd.NoncentralChi2(np.float64(3), noncentrality), {"noncentrality": SCALE}, {"log_prob": POSITIVE})
distribution("normal", tfd.Normal, LOC_SCALE, {"log_prob cdf log_cdf survival_function": NEAR, "quantile": UNIT, "entropy": None})
distribution("normal_inverse_gaussian", tfd.NormalInverseGaussian, {**LOC_SCALE, "tailweight": (1, 3), "skewness": MIDDLE}, {"log_prob": NEAR})
distribution("pareto", tfd.Pareto, {"concentration": SHAPE, "scale": (0.1, 1)}, {"log_prob cdf": (1, 6)})
distribution("pert", lambda low, peak, high: tfd.PERT(low, peak, high), {"low": (-3, -2), "peak": (-1, 1), "high": (2, 3)}, {"log_prob": (-1.9, 1.9)})
distribution("pert", lambda low, peak, high: tfd.PERT(low, peak, high), {"low": (-3, -2), "peak": (-1, 1), "high": (2, 3)}, {"cdf": (-1.9, 1.9)}, special={"a whole parameter": whole_of_pert})
distribution("poisson", tfd.Poisson, {"rate": SCALE}, {"log_prob cdf": 2.0})
distribution("probit_bernoulli", tfd.ProbitBernoulli, {"probits": NEAR}, {"log_prob": 1.0})
distribution("relaxed_bernoulli", tfd.RelaxedBernoulli, {"temperature": (0.5, 2), "logits": NEAR}, {"log_prob cdf": UNIT})
distribution("sigmoid_beta", tfd.SigmoidBeta, {"a": SHAPE, "b": SHAPE}, {"log_prob cdf": NEAR}, special={"a whole parameter": whole})
distribution("sinh_arcsinh", tfd.SinhArcsinh, {**LOC_SCALE, "skewness": (-1, 1), "tailweight": (0.5, 2)}, {"log_prob cdf": NEAR})
distribution("skellam", tfd.Skellam, {"rate1": SCALE, "rate2": SCALE}, {"log_prob": 1.0})
distribution("student_t", tfd.StudentT, {"df": SHAPE, **LOC_SCALE}, {"log_prob cdf": NEAR}, special={"at loc": located_second})
distribution("triangular", tfd.Triangular, {"low": (-3, -2), "high": (2, 3), "peak": (-1, 1)}, {"log_prob": (-1.9, 1.9)}, kinks=at_peak)
distribution("triangular", tfd.Triangular, {"low": (-3, -2), "high": (2, 3), "peak": (-1, 1)}, {"cdf": (-1.9, 1.9)}, curvature_jumps=at_peak)
distribution("truncated_cauchy", lambda loc, scale: tfd.TruncatedCauchy(loc, scale, -5.0, 5.0), LOC_SCALE, {"log_prob cdf": NEAR})
distribution("truncated_normal", lambda loc, scale: tfd.TruncatedNormal(loc, scale, -5.0, 5.0), LOC_SCALE, {"log_prob cdf": NEAR, "quantile": UNIT})
distribution("two_piece_normal", tfd.TwoPieceNormal, {**LOC_SCALE, "skewness": SCALE}, {"log_prob cdf": NEAR}, curvature_jumps=at_loc)
distribution("two_piece_student_t", tfd.TwoPieceStudentT, {"df": SHAPE, **LOC_SCALE, "skewness": SCALE}, {"log_prob cdf": NEAR}, curvature_jumps=at_second, special={"at loc": located_second})
distribution("uniform", tfd.Uniform, {"low": (-3, -2), "high": (2, 3)}, {"log_prob cdf": (-1.9, 1.9), "quantile": UNIT})
distribution("von_mises", tfd.VonMises, {"loc": NEAR, "concentration": (0, 3)}, {"log_prob cdf": NEAR})
distribution("weibull", tfd.Weibull, {"concentration": SHAPE, "scale": SCALE}, {"log_prob cdf": POSITIVE, "quantile": UNIT})
distribution("zipf", tfd.Zipf, {"power": (1.5, 6)}, {"log_prob": 3.0})
