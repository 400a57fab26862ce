"""The table of checks: distributions, divergences, bijectors, kernels and special functions, each at a point inside.

A row has a name, by which `expected.py` refers to it, and named inputs. Floats and lists of them are differentiated,
integers are not. Special points (an integer order, a concentration of 1, coincident points) are mentioned in the name
of the row. Left out are those that TensorFlow Probability 0.25 cannot run with NumPy 2.4 (SoftmaxCentered,
IteratedSigmoidCentered, UnitVector), and the inverse of RayleighCDF, which computes in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import gradcheck
from gradcheck.autodiff.constraints import Constrained

tfb, tfd, tfm, kernels = tfp.bijectors, tfp.distributions, tfp.math, tfp.math.psd_kernels

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A function of a dict of inputs, the point, and the highest order at which it is checked there."""

    function: Callable[[Inputs], Any]
    inputs: Inputs
    order: int = 2


def not_integers(value: Any) -> bool:
    """Whether a value of the table is to be differentiated."""
    return not np.issubdtype(np.asarray(plain(value)).dtype, np.integer)


def typed(value: Any, dtype: str = "float64") -> Any:
    """A tensor of the values; a constrained input is returned as it is."""
    return value if isinstance(value, Constrained) else tf.constant(value, dtype)


def plain(value: Any) -> Any:
    """The values of an input, constrained or not."""
    return np.asarray(value.value if isinstance(value, Constrained) else value)


@dataclass(frozen=True)
class Distribution:
    """A distribution, its parameters, a value, and the methods that are checked there."""

    make: Callable[..., Any]
    parameters: Inputs
    value: Any
    methods: str = "log_prob"
    order: int = 2
    dtype: str = "float64"


OF_VALUE = ("log_prob", "prob", "cdf", "log_cdf", "survival_function", "log_survival_function")
PROBABILITY = 0.3
"""The probability at which quantiles are taken."""

ALL = "log_prob cdf survival_function entropy mean variance quantile"

DISTRIBUTIONS = {
    "Bates": Distribution(lambda low, high: tfd.Bates(3.0, low, high), {"low": -0.5, "high": 1.5}, 0.3, "log_prob cdf"),
    "Bernoulli": Distribution(tfd.Bernoulli, {"logits": 0.4}, 1, "log_prob entropy mean variance"),
    "Beta": Distribution(tfd.Beta, {"concentration1": 1.7, "concentration0": 2.4}, 0.3, ALL.replace(" quantile", "")),
    "Beta, concentrations 1": Distribution(
        tfd.Beta, {"concentration1": 1.0, "concentration0": 1.0}, 0.3, "log_prob entropy"
    ),
    "Beta, whole concentrations": Distribution(
        tfd.Beta, {"concentration1": 2.0, "concentration0": 1.0}, 0.3, "cdf survival_function", order=1
    ),
    "Beta, quantile": Distribution(tfd.Beta, {"concentration1": 1.7, "concentration0": 2.4}, 0.3, "quantile", order=1),
    "BetaBinomial": Distribution(
        lambda concentration1, concentration0: tfd.BetaBinomial(5.0, concentration1, concentration0),
        {"concentration1": 1.7, "concentration0": 2.4},
        2,
        "log_prob mean variance",
    ),
    "BetaQuotient": Distribution(
        lambda concentration1: tfd.BetaQuotient(concentration1, *np.array([3.0, 4.0, 2.5])),
        {"concentration1": 2.0},
        0.6,
        "log_prob mean",
        order=1,
    ),
    "Binomial": Distribution(
        lambda logits: tfd.Binomial(6.0, logits=logits), {"logits": -0.3}, 2, "log_prob cdf mean variance"
    ),
    "Binomial, none of them": Distribution(lambda probs: tfd.Binomial(6.0, probs=probs), {"probs": 0.3}, 0),
    "Categorical": Distribution(tfd.Categorical, {"logits": [0.2, -0.5, 1.1]}, 1, "log_prob entropy"),
    "Cauchy": Distribution(
        tfd.Cauchy, {"loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf survival_function entropy quantile"
    ),
    "Chi": Distribution(tfd.Chi, {"df": 2.5}, 1.3, "log_prob cdf entropy mean variance"),
    "Chi2": Distribution(tfd.Chi2, {"df": 2.5}, 1.3, "log_prob cdf entropy mean variance"),
    "Chi2, two degrees of freedom": Distribution(tfd.Chi2, {"df": 2.0}, 1.3, "log_prob cdf"),
    "CholeskyLKJ": Distribution(
        lambda concentration: tfd.CholeskyLKJ(3, concentration),
        {"concentration": 1.5},
        [[1.0, 0.0, 0.0], [0.3, 0.9539392014169456, 0.0], [0.2, -0.1, 0.9746794344808963]],
    ),
    "ContinuousBernoulli": Distribution(
        tfd.ContinuousBernoulli, {"probs": 0.3}, 0.6, "log_prob cdf entropy mean variance quantile"
    ),
    "ContinuousBernoulli, probs 1/2": Distribution(
        tfd.ContinuousBernoulli, {"probs": 0.5}, 0.6, "log_prob mean variance"
    ),
    "ContinuousBernoulli, probs 1/2, first order": Distribution(
        tfd.ContinuousBernoulli, {"probs": 0.5}, 0.6, "cdf", order=1
    ),
    "Dirichlet": Distribution(
        tfd.Dirichlet, {"concentration": [1.5, 2.0, 0.7]}, [0.2, 0.5, 0.3], "log_prob entropy mean variance"
    ),
    "Dirichlet, concentrations 1": Distribution(
        tfd.Dirichlet, {"concentration": [1.0, 1.0, 1.0]}, [0.2, 0.5, 0.3], order=1
    ),
    "DirichletMultinomial": Distribution(
        lambda concentration: tfd.DirichletMultinomial(4.0, concentration),
        {"concentration": [1.5, 2.0, 0.7]},
        [1, 3, 0],
    ),
    "DoublesidedMaxwell": Distribution(tfd.DoublesidedMaxwell, {"loc": 0.3, "scale": 1.2}, 0.9),
    "ExpGamma": Distribution(tfd.ExpGamma, {"concentration": 1.5, "rate": 0.8}, 0.4, "log_prob cdf mean"),
    "ExpInverseGamma": Distribution(tfd.ExpInverseGamma, {"concentration": 1.5, "scale": 0.8}, 0.4, "log_prob"),
    "ExpRelaxedOneHotCategorical": Distribution(
        tfd.ExpRelaxedOneHotCategorical,
        {"temperature": 0.7, "logits": [0.2, -0.5]},
        [-0.916290731874155, -0.5108256237659907],
    ),
    "Exponential": Distribution(tfd.Exponential, {"rate": 0.8}, 1.3, ALL),
    "ExponentiallyModifiedGaussian": Distribution(
        tfd.ExponentiallyModifiedGaussian, {"loc": 0.3, "scale": 1.2, "rate": 0.8}, 0.9, "log_prob cdf mean variance"
    ),
    "Gamma": Distribution(tfd.Gamma, {"concentration": 1.5, "rate": 0.8}, 1.3, ALL.replace(" quantile", "")),
    "Gamma, concentration 1": Distribution(tfd.Gamma, {"concentration": 1.0, "rate": 0.8}, 1.3, "log_prob cdf"),
    "Gamma, far in its tail": Distribution(
        tfd.Gamma, {"concentration": 1.5, "rate": 0.8}, 90.0, "log_prob survival_function", order=1
    ),
    "Gamma, quantile": Distribution(tfd.Gamma, {"concentration": 1.5, "rate": 0.8}, 1.3, "quantile", order=1),
    "GammaGamma": Distribution(
        tfd.GammaGamma, {"concentration": 1.5, "mixing_concentration": 2.5, "mixing_rate": 0.8}, 1.3, "log_prob mean"
    ),
    "GeneralizedExtremeValue": Distribution(
        tfd.GeneralizedExtremeValue,
        {"loc": 0.3, "scale": 1.2, "concentration": 0.2},
        0.9,
        "log_prob cdf mean variance",
    ),
    "GeneralizedExtremeValue, concentration 0": Distribution(
        tfd.GeneralizedExtremeValue,
        {"loc": 0.3, "scale": 1.2, "concentration": 0.0},
        0.9,
        "log_prob cdf mean",
        order=1,
    ),
    "GeneralizedNormal": Distribution(
        tfd.GeneralizedNormal, {"loc": 0.3, "scale": 1.2, "power": 1.7}, 0.9, "log_prob cdf entropy variance"
    ),
    "GeneralizedNormal, at loc": Distribution(
        tfd.GeneralizedNormal, {"loc": 0.3, "scale": 1.2, "power": 2.0}, 0.3, "log_prob cdf", order=1
    ),
    "GeneralizedPareto": Distribution(
        tfd.GeneralizedPareto,
        {"loc": 0.3, "scale": 1.2, "concentration": 0.2},
        0.9,
        "log_prob cdf entropy mean variance",
    ),
    "GeneralizedPareto, concentration 0": Distribution(
        tfd.GeneralizedPareto, {"loc": 0.3, "scale": 1.2, "concentration": 0.0}, 0.9, "log_prob cdf mean", order=1
    ),
    "Geometric": Distribution(tfd.Geometric, {"probs": 0.3}, 2, "log_prob cdf entropy mean variance"),
    "Gumbel": Distribution(tfd.Gumbel, {"loc": 0.3, "scale": 1.2}, 0.9, ALL),
    "HalfCauchy": Distribution(tfd.HalfCauchy, {"loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf entropy quantile"),
    "HalfNormal": Distribution(tfd.HalfNormal, {"scale": 1.2}, 0.9, ALL),
    "HalfStudentT": Distribution(
        tfd.HalfStudentT, {"df": 3.5, "loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf mean variance"
    ),
    "Horseshoe": Distribution(tfd.Horseshoe, {"scale": 1.2}, 0.9),
    "InverseGamma": Distribution(
        tfd.InverseGamma, {"concentration": 2.5, "scale": 0.8}, 1.3, "log_prob cdf entropy mean variance"
    ),
    "InverseGaussian": Distribution(
        tfd.InverseGaussian, {"loc": 1.1, "concentration": 0.8}, 1.3, "log_prob cdf mean variance"
    ),
    "JohnsonSU": Distribution(
        tfd.JohnsonSU,
        {"skewness": 0.4, "tailweight": 1.1, "loc": 0.3, "scale": 1.2},
        0.9,
        "log_prob cdf mean variance",
    ),
    "Kumaraswamy": Distribution(
        tfd.Kumaraswamy, {"concentration1": 1.7, "concentration0": 2.4}, 0.3, "log_prob cdf entropy mean"
    ),
    "Kumaraswamy, concentrations 1": Distribution(
        tfd.Kumaraswamy, {"concentration1": 1.0, "concentration0": 1.0}, 0.3, "log_prob entropy", order=1
    ),
    "LambertWNormal": Distribution(
        tfd.LambertWNormal, {"loc": 0.3, "scale": 1.2, "tailweight": 0.2}, 0.9, "log_prob cdf"
    ),
    "LambertWNormal, at loc": Distribution(
        tfd.LambertWNormal, {"loc": 0.3, "scale": 1.2, "tailweight": 0.2}, 0.3, order=1
    ),
    "LambertWNormal, tailweight 0": Distribution(
        tfd.LambertWNormal, {"loc": 0.3, "scale": 1.2, "tailweight": 0.0}, 0.9, order=1
    ),
    "Laplace": Distribution(tfd.Laplace, {"loc": 0.3, "scale": 1.2}, 0.9, ALL),
    "LKJ": Distribution(
        lambda concentration: tfd.LKJ(2, concentration), {"concentration": 1.5}, [[1.0, 0.3], [0.3, 1.0]]
    ),
    "LogLogistic": Distribution(tfd.LogLogistic, {"loc": 0.3, "scale": 0.4}, 0.9, ALL),
    "LogNormal": Distribution(tfd.LogNormal, {"loc": 0.3, "scale": 1.2}, 0.9, ALL),
    "Logistic": Distribution(tfd.Logistic, {"loc": 0.3, "scale": 1.2}, 0.9, ALL),
    "LogitNormal": Distribution(tfd.LogitNormal, {"loc": 0.3, "scale": 1.2}, 0.7, "log_prob cdf mean_approx"),
    "Moyal": Distribution(tfd.Moyal, {"loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf entropy mean variance"),
    "Multinomial": Distribution(
        lambda logits: tfd.Multinomial(4.0, logits=logits), {"logits": [0.2, -0.5, 1.1]}, [1, 3, 0]
    ),
    "MultivariateNormalDiag": Distribution(
        tfd.MultivariateNormalDiag, {"loc": [0.3, -0.2], "scale_diag": [1.2, 0.7]}, [0.9, 0.1], "log_prob entropy"
    ),
    "MultivariateNormalDiagPlusLowRankCovariance": Distribution(
        tfd.MultivariateNormalDiagPlusLowRankCovariance,
        {"loc": [0.3, -0.2], "cov_diag_factor": [1.2, 0.7], "cov_perturb_factor": [[0.4], [0.3]]},
        [0.9, 0.1],
    ),
    "MultivariateNormalFullCovariance": Distribution(
        tfd.MultivariateNormalFullCovariance,
        {"loc": [0.3, -0.2], "covariance_matrix": gradcheck.positive_definite([[1.4, 0.3], [0.3, 0.9]])},
        [0.9, 0.1],
    ),
    "MultivariateNormalTriL": Distribution(
        tfd.MultivariateNormalTriL,
        {"loc": [0.3, -0.2], "scale_tril": gradcheck.lower_triangular([[1.2, 0.0], [0.4, 0.7]])},
        [0.9, 0.1],
        "log_prob entropy",
    ),
    "MultivariateStudentT": Distribution(
        lambda df, loc, scale: tfd.MultivariateStudentTLinearOperator(df, loc, tf.linalg.LinearOperatorDiag(scale)),
        {"df": 3.5, "loc": [0.3, -0.2], "scale": [1.2, 0.7]},
        [0.9, 0.1],
        "log_prob entropy",
    ),
    "NegativeBinomial": Distribution(
        tfd.NegativeBinomial, {"total_count": 4.5, "probs": 0.3}, 3, "log_prob cdf mean variance"
    ),
    "NegativeBinomial, none of them": Distribution(tfd.NegativeBinomial, {"total_count": 4.5, "probs": 0.3}, 0),
    "NoncentralChi2": Distribution(
        tfd.NoncentralChi2, {"df": 3.0, "noncentrality": 1.4}, 2.2, "log_prob mean variance", order=1
    ),
    "Normal": Distribution(tfd.Normal, {"loc": 0.3, "scale": 1.2}, 0.9, ALL),
    "Normal, 38 standard deviations off": Distribution(
        tfd.Normal, {"loc": 0.0, "scale": 1.0}, -38.0, "log_cdf log_survival_function"
    ),
    "NormalInverseGaussian": Distribution(
        tfd.NormalInverseGaussian,
        {"loc": 0.3, "scale": 1.2, "tailweight": 1.5, "skewness": 0.4},
        0.9,
        "log_prob mean variance",
        order=1,
    ),
    "OrderedLogistic": Distribution(tfd.OrderedLogistic, {"cutpoints": [-0.5, 0.8], "loc": 0.3}, 1),
    "PERT": Distribution(
        tfd.PERT, {"low": -0.5, "peak": 0.4, "high": 1.5, "temperature": 4.0}, 0.3, "log_prob cdf mean variance"
    ),
    "Pareto": Distribution(tfd.Pareto, {"concentration": 2.5, "scale": 0.8}, 1.3, "log_prob cdf mean variance"),
    "PlackettLuce": Distribution(tfd.PlackettLuce, {"scores": [0.3, 0.9, 0.5]}, [2, 0, 1]),
    "Poisson": Distribution(tfd.Poisson, {"rate": 0.8}, 2, "log_prob cdf mean"),
    "Poisson, none of them": Distribution(tfd.Poisson, {"rate": 0.8}, 0),
    "PoissonLogNormalQuadratureCompound": Distribution(
        tfd.PoissonLogNormalQuadratureCompound, {"loc": 0.3, "scale": 0.5}, 2
    ),
    "PowerSpherical": Distribution(
        tfd.PowerSpherical,
        {"mean_direction": [0.6, 0.0, 0.8], "concentration": 1.4},
        [0.0, 0.6, 0.8],
        "log_prob entropy",
    ),
    "ProbitBernoulli": Distribution(tfd.ProbitBernoulli, {"probits": 0.4}, 1, "log_prob entropy"),
    "QuantizedDistribution": Distribution(
        lambda loc, scale: tfd.QuantizedDistribution(tfd.Normal(loc, scale)), {"loc": 0.3, "scale": 1.2}, 1
    ),
    "RelaxedBernoulli": Distribution(tfd.RelaxedBernoulli, {"temperature": 0.7, "logits": 0.4}, 0.3, "log_prob cdf"),
    "RelaxedOneHotCategorical": Distribution(
        tfd.RelaxedOneHotCategorical, {"temperature": 0.7, "logits": [0.2, -0.5]}, [0.4, 0.6]
    ),
    "SigmoidBeta": Distribution(tfd.SigmoidBeta, {"concentration1": 1.7, "concentration0": 2.4}, 0.3, "log_prob cdf"),
    "SinhArcsinh": Distribution(
        tfd.SinhArcsinh, {"loc": 0.3, "scale": 1.2, "skewness": 0.4, "tailweight": 1.1}, 0.9, "log_prob cdf"
    ),
    "Skellam": Distribution(tfd.Skellam, {"rate1": 1.2, "rate2": 0.8}, 1, "log_prob mean variance", order=1),
    "Skellam, equal counts": Distribution(tfd.Skellam, {"rate1": 1.2, "rate2": 0.8}, 0, order=1),
    "StudentT": Distribution(
        tfd.StudentT, {"df": 3.5, "loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf entropy mean variance"
    ),
    "StudentT, at loc": Distribution(tfd.StudentT, {"df": 3.5, "loc": 0.3, "scale": 1.2}, 0.3, "log_prob cdf"),
    "StudentT, quantile": Distribution(tfd.StudentT, {"df": 3.5, "loc": 0.3, "scale": 1.2}, 0.9, "quantile", order=1),
    "Triangular": Distribution(
        tfd.Triangular, {"low": -0.5, "high": 1.5, "peak": 0.4}, 0.9, "log_prob cdf entropy mean variance"
    ),
    "TruncatedCauchy": Distribution(
        tfd.TruncatedCauchy, {"loc": 0.3, "scale": 1.2, "low": -1.0, "high": 2.0}, 0.9, "log_prob cdf mean"
    ),
    "TruncatedNormal": Distribution(
        tfd.TruncatedNormal,
        {"loc": 0.3, "scale": 1.2, "low": -1.0, "high": 2.0},
        0.9,
        "log_prob cdf entropy mean variance quantile",
    ),
    "TwoPieceNormal": Distribution(
        tfd.TwoPieceNormal, {"loc": 0.3, "scale": 1.2, "skewness": 1.3}, 0.9, "log_prob cdf mean variance quantile"
    ),
    "TwoPieceStudentT": Distribution(
        tfd.TwoPieceStudentT,
        {"df": 3.5, "loc": 0.3, "scale": 1.2, "skewness": 1.3},
        0.9,
        "log_prob cdf mean variance",
        order=1,
    ),
    "Uniform": Distribution(tfd.Uniform, {"low": -0.5, "high": 1.5}, 0.9, ALL),
    "VonMises": Distribution(
        tfd.VonMises, {"loc": 0.3, "concentration": 1.4}, 0.9, "log_prob cdf entropy mean variance", order=1
    ),
    "VonMises, concentration 0": Distribution(tfd.VonMises, {"loc": 0.3, "concentration": 0.0}, 0.9, order=1),
    "VonMisesFisher": Distribution(
        tfd.VonMisesFisher,
        {"mean_direction": [0.6, 0.0, 0.8], "concentration": 1.4},
        [0.0, 0.6, 0.8],
        "log_prob entropy",
        order=1,
    ),
    "Weibull": Distribution(tfd.Weibull, {"concentration": 1.7, "scale": 0.8}, 1.3, ALL),
    "Weibull, concentration 1": Distribution(
        tfd.Weibull, {"concentration": 1.0, "scale": 0.8}, 1.3, "log_prob", order=1
    ),
    "WishartTriL": Distribution(
        tfd.WishartTriL,
        {"df": 3.5, "scale_tril": gradcheck.lower_triangular([[1.2, 0.0], [0.4, 0.7]])},
        gradcheck.positive_definite([[1.4, 0.3], [0.3, 0.9]]),
        "log_prob entropy",
    ),
    "Zipf": Distribution(tfd.Zipf, {"power": 2.4}, 3, "log_prob mean", order=1),
    "Normal, float32": Distribution(tfd.Normal, {"loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf", dtype="float32"),
    "Gamma, float32": Distribution(
        tfd.Gamma, {"concentration": 1.5, "rate": 0.8}, 1.3, "log_prob cdf", order=1, dtype="float32"
    ),
    "StudentT, float32": Distribution(
        tfd.StudentT, {"df": 3.5, "loc": 0.3, "scale": 1.2}, 0.9, "log_prob cdf", order=1, dtype="float32"
    ),
    "VonMises, float32": Distribution(
        tfd.VonMises, {"loc": 0.3, "concentration": 1.4}, 0.9, "log_prob cdf", order=1, dtype="float32"
    ),
    "LogNormal, float32": Distribution(tfd.LogNormal, {"loc": 0.3, "scale": 1.2}, 0.9, "log_prob", dtype="float32"),
}


def of_distribution(row: Distribution, method: str) -> Case:
    """The case of a method, as a function of the value and the parameters, or of the parameters alone."""
    tensors = {name: typed(value, row.dtype) for name, value in row.parameters.items()}
    value, differentiated = typed(row.value, row.dtype), not_integers(row.value)
    given = {"value": value} if method in OF_VALUE and differentiated else {}
    if method == "quantile":
        given = {"value": typed(PROBABILITY, row.dtype)}

    def function(inputs: Inputs) -> Any:
        made = row.make(**{name: inputs[name] for name in tensors})
        called = getattr(made, method)
        return called(inputs.get("value", value)) if method in (*OF_VALUE, "quantile") else called()

    return Case(function, {**tensors, **given}, row.order)


DIVERGENCES: dict[str, tuple[Callable[..., Any], Inputs, Inputs]] = {
    "Bernoulli": (tfd.Bernoulli, {"logits": 0.4}, {"logits": -0.3}),
    "Beta": (tfd.Beta, {"concentration1": 1.7, "concentration0": 2.4}, {"concentration1": 1.1, "concentration0": 0.9}),
    "Categorical": (tfd.Categorical, {"logits": [0.2, -0.5, 1.1]}, {"logits": [0.0, 0.4, -0.7]}),
    "Cauchy": (tfd.Cauchy, {"loc": 0.3, "scale": 1.2}, {"loc": -0.2, "scale": 0.7}),
    "Cauchy, equal": (tfd.Cauchy, {"loc": 0.3, "scale": 1.2}, {"loc": 0.3, "scale": 1.2}),
    "Dirichlet": (tfd.Dirichlet, {"concentration": [1.5, 2.0, 0.7]}, {"concentration": [1.0, 0.5, 1.2]}),
    "Exponential": (tfd.Exponential, {"rate": 0.8}, {"rate": 1.4}),
    "Gamma": (tfd.Gamma, {"concentration": 1.5, "rate": 0.8}, {"concentration": 2.2, "rate": 1.4}),
    "Gumbel": (tfd.Gumbel, {"loc": 0.3, "scale": 1.2}, {"loc": -0.2, "scale": 0.7}),
    "HalfNormal": (tfd.HalfNormal, {"scale": 1.2}, {"scale": 0.7}),
    "Laplace": (tfd.Laplace, {"loc": 0.3, "scale": 1.2}, {"loc": -0.2, "scale": 0.7}),
    "LogNormal": (tfd.LogNormal, {"loc": 0.3, "scale": 1.2}, {"loc": -0.2, "scale": 0.7}),
    "MultivariateNormalTriL": (
        tfd.MultivariateNormalTriL,
        {"loc": [0.3, -0.2], "scale_tril": gradcheck.lower_triangular([[1.2, 0.0], [0.4, 0.7]])},
        {"loc": [0.0, 0.5], "scale_tril": gradcheck.lower_triangular([[0.9, 0.0], [-0.3, 1.1]])},
    ),
    "Normal": (tfd.Normal, {"loc": 0.3, "scale": 1.2}, {"loc": -0.2, "scale": 0.7}),
    "Normal, equal": (tfd.Normal, {"loc": 0.3, "scale": 1.2}, {"loc": 0.3, "scale": 1.2}),
    "Pareto": (tfd.Pareto, {"concentration": 2.5, "scale": 1.3}, {"concentration": 1.2, "scale": 0.8}),
    "VonMises": (tfd.VonMises, {"loc": 0.3, "concentration": 1.4}, {"loc": -0.2, "concentration": 0.6}),
    "Weibull": (tfd.Weibull, {"concentration": 1.7, "scale": 0.8}, {"concentration": 1.2, "scale": 1.4}),
}


def of_divergence(make: Callable[..., Any], first: Inputs, second: Inputs) -> Case:
    """The divergence of one distribution from another of its kind."""

    def function(inputs: Inputs) -> Any:
        return tfd.kl_divergence(make(**inputs["first"]), make(**inputs["second"]))

    each = ({name: typed(value) for name, value in part.items()} for part in (first, second))
    return Case(function, dict(zip(("first", "second"), each, strict=True)))


@dataclass(frozen=True)
class Bijector:
    """A bijector and its parameters, a point to map forward, the order, and the set in which its image lies."""

    make: Callable[..., Any]
    point: Any
    parameters: Inputs
    order: int = 2
    image: Callable[[Any], Any] = tf.identity


LOWER = gradcheck.lower_triangular([[1.2, 0.0], [0.4, 0.7]])

BIJECTORS = {
    "Ascending": Bijector(tfb.Ascending, [0.4, -0.3, 0.9], {}),
    "CholeskyOuterProduct": Bijector(tfb.CholeskyOuterProduct, LOWER, {}, image=gradcheck.positive_definite),
    "CholeskyToInvCholesky": Bijector(tfb.CholeskyToInvCholesky, LOWER, {}, image=gradcheck.lower_triangular),
    "CorrelationCholesky": Bijector(tfb.CorrelationCholesky, [0.4, -0.3, 0.9], {}),
    "DiscreteCosineTransform": Bijector(tfb.DiscreteCosineTransform, [0.4, -0.3, 0.9], {}),
    "Exp": Bijector(tfb.Exp, 0.4, {}),
    "Expm1": Bijector(tfb.Expm1, 0.4, {}),
    "FillScaleTriL": Bijector(
        lambda: tfb.FillScaleTriL(diag_shift=None), [0.4, -0.3, 0.9], {}, image=gradcheck.lower_triangular
    ),
    "FrechetCDF": Bijector(tfb.FrechetCDF, 0.9, {"loc": 0.3, "scale": 1.2, "concentration": 1.7}),
    "GeneralizedExtremeValueCDF": Bijector(
        tfb.GeneralizedExtremeValueCDF, 0.9, {"loc": 0.3, "scale": 1.2, "concentration": 0.2}
    ),
    "GeneralizedPareto": Bijector(tfb.GeneralizedPareto, 0.4, {"loc": 0.3, "scale": 1.2, "concentration": 0.2}),
    "GompertzCDF": Bijector(tfb.GompertzCDF, 0.9, {"concentration": 0.4, "rate": 1.2}),
    "GumbelCDF": Bijector(tfb.GumbelCDF, 0.9, {"loc": 0.3, "scale": 1.2}),
    "KumaraswamyCDF": Bijector(tfb.KumaraswamyCDF, 0.3, {"concentration1": 1.7, "concentration0": 2.4}),
    "LambertWTail": Bijector(tfb.LambertWTail, 0.9, {"shift": 0.3, "scale": 1.2, "tailweight": 0.2}),
    "LambertWTail, at shift": Bijector(tfb.LambertWTail, 0.3, {"shift": 0.3, "scale": 1.2, "tailweight": 0.2}, order=1),
    "MatrixInverseTriL": Bijector(tfb.MatrixInverseTriL, LOWER, {}, image=gradcheck.lower_triangular),
    "MoyalCDF": Bijector(tfb.MoyalCDF, 0.9, {"loc": 0.3, "scale": 1.2}),
    "NormalCDF": Bijector(tfb.NormalCDF, 0.9, {}),
    "Power": Bijector(lambda power: tfb.Power(power), 0.9, {"power": 1.7}),
    "PowerTransform": Bijector(lambda: tfb.PowerTransform(0.3), 0.9, {}),
    "RationalQuadraticSpline": Bijector(
        lambda bin_widths, bin_heights, knot_slopes: tfb.RationalQuadraticSpline(
            bin_widths, bin_heights, knot_slopes, range_min=-1.0
        ),
        0.25,
        {"bin_widths": [0.5, 0.9, 0.6], "bin_heights": [0.7, 0.4, 0.9], "knot_slopes": [0.8, 1.3]},
    ),
    "Reciprocal": Bijector(tfb.Reciprocal, 0.9, {}),
    "ScaleMatvecTriL": Bijector(lambda scale_tril: tfb.ScaleMatvecTriL(scale_tril), [0.9, 0.1], {"scale_tril": LOWER}),
    "ShiftedGompertzCDF": Bijector(tfb.ShiftedGompertzCDF, 0.9, {"concentration": 0.4, "rate": 1.2}),
    "Sigmoid": Bijector(tfb.Sigmoid, 0.4, {"low": -0.5, "high": 1.5}),
    "Sinh": Bijector(tfb.Sinh, 0.4, {}),
    "SinhArcsinh": Bijector(tfb.SinhArcsinh, 0.4, {"skewness": 0.4, "tailweight": 1.1}),
    "SoftClip": Bijector(tfb.SoftClip, 0.4, {"low": -0.5, "high": 1.5, "hinge_softness": 0.7}),
    "Softfloor": Bijector(tfb.Softfloor, 1.3, {"temperature": 0.7}),
    "Softplus": Bijector(tfb.Softplus, 0.4, {"hinge_softness": 0.7}),
    "Softsign": Bijector(tfb.Softsign, 0.4, {}),
    "Softsign, at 0": Bijector(tfb.Softsign, 0.0, {}, order=1),
    "Square": Bijector(tfb.Square, 0.9, {}),
    "Tanh": Bijector(tfb.Tanh, 0.4, {}),
    "WeibullCDF": Bijector(tfb.WeibullCDF, 0.9, {"scale": 1.2, "concentration": 1.7}),
}


def of_bijector(row: Bijector) -> Case:
    """The image of the point, and the logarithm of the determinant there."""
    inputs = {**{name: typed(value) for name, value in row.parameters.items()}, "point": typed(row.point)}

    def function(inputs: Inputs) -> Any:
        bijector = row.make(**{name: inputs[name] for name in row.parameters})
        x = inputs["point"]
        log_det = bijector.forward_log_det_jacobian(x, bijector.forward_min_event_ndims)
        return {"forward": bijector.forward(x), "forward_log_det_jacobian": log_det}

    return Case(function, inputs, row.order)


def of_inverse(row: Bijector) -> Case:
    """The inverse at the image of the point, and the logarithm of its determinant."""
    inputs = {name: typed(value) for name, value in row.parameters.items()}
    image = row.make(**{name: plain(value) for name, value in inputs.items()}).forward(plain(typed(row.point)))

    def function(inputs: Inputs) -> Any:
        bijector = row.make(**{name: inputs[name] for name in row.parameters})
        y = inputs["image"]
        log_det = bijector.inverse_log_det_jacobian(y, bijector.inverse_min_event_ndims)
        return {"inverse": bijector.inverse(y), "inverse_log_det_jacobian": log_det}

    return Case(function, {**inputs, "image": row.image(image)}, row.order)


def special(f: Callable[..., Any], *values: Any, order: int = 2, dtype: str = "float64") -> Case:
    """A function of tensors in their order; integers are constants."""
    tensors = [typed(value, dtype) for value in values]
    named = {name: tensor for name, tensor, value in zip("abcde", tensors, values, strict=False) if not_integers(value)}

    def function(inputs: Inputs) -> Any:
        return f(*(inputs.get(name, tensor) for name, tensor in zip("abcde", tensors, strict=False)))

    return Case(function, named, order)


def kernel(make: Callable[..., Any], parameters: Inputs, x: Any, y: Any, order: int = 2) -> Case:
    """A positive semidefinite kernel at two points."""
    inputs = {**{name: typed(value) for name, value in parameters.items()}, "x": typed(x), "y": typed(y)}

    def function(inputs: Inputs) -> Any:
        return make(**{name: inputs[name] for name in parameters}).apply(inputs["x"], inputs["y"])

    return Case(function, inputs, order)


SCALES = {"amplitude": 1.3, "length_scale": 0.8}
APART, TOGETHER = ([0.4, -0.3], [0.9, 0.1]), ([0.4, -0.3], [0.4, -0.3])

KERNELS = {
    "ExpSinSquared": kernel(kernels.ExpSinSquared, {**SCALES, "period": 1.7}, *APART),
    "ExpSinSquared, coincident": kernel(
        lambda length_scale, period: kernels.ExpSinSquared(np.float64(1.3), length_scale, period),
        {"length_scale": 0.8, "period": 1.7},
        *TOGETHER,
    ),
    "ExponentiatedQuadratic": kernel(kernels.ExponentiatedQuadratic, SCALES, *APART),
    "ExponentiatedQuadratic, coincident": kernel(kernels.ExponentiatedQuadratic, SCALES, *TOGETHER),
    "GammaExponential": kernel(kernels.GammaExponential, {**SCALES, "power": 1.5}, *APART),
    "GeneralizedMatern": kernel(kernels.GeneralizedMatern, {"df": 1.7, **SCALES}, *APART, order=1),
    "Linear": kernel(kernels.Linear, {"bias_amplitude": 1.3, "slope_amplitude": 0.8, "shift": 0.2}, *APART),
    "MaternOneHalf": kernel(kernels.MaternOneHalf, SCALES, *APART),
    "MaternThreeHalves": kernel(kernels.MaternThreeHalves, SCALES, *APART),
    "MaternThreeHalves, coincident": kernel(kernels.MaternThreeHalves, SCALES, *TOGETHER),
    "MaternFiveHalves": kernel(kernels.MaternFiveHalves, SCALES, *APART),
    "MaternFiveHalves, coincident": kernel(kernels.MaternFiveHalves, SCALES, *TOGETHER),
    "Polynomial": kernel(
        kernels.Polynomial, {"bias_amplitude": 1.3, "slope_amplitude": 0.8, "shift": 0.2, "exponent": 2.0}, *APART
    ),
    "RationalQuadratic": kernel(kernels.RationalQuadratic, {**SCALES, "scale_mixture_rate": 1.5}, *APART),
    "RationalQuadratic, coincident": kernel(
        kernels.RationalQuadratic, {**SCALES, "scale_mixture_rate": 1.5}, *TOGETHER
    ),
}

SPECIAL = {
    "atan_difference": special(tfm.atan_difference, 1.3, 0.4),
    "atan_difference, x y = -1": special(tfm.atan_difference, 2.0, -0.5),
    "atan_difference, x y = -1, swapped": special(tfm.atan_difference, -2.0, 0.5, order=1),
    "bessel_iv_ratio": special(tfm.bessel_iv_ratio, 2.5, 1.5, order=1),
    "bessel_iv_ratio of an integer order": special(lambda z: tfm.bessel_iv_ratio(np.float64(2), z), 1.5),
    "bessel_ive": special(lambda z: tfm.bessel_ive(np.float64(1.3), z), 1.5),
    "bessel_ive, order 1/2": special(lambda z: tfm.bessel_ive(np.float64(0.5), z), 1.5, order=1),
    "bessel_ive, order 0": special(lambda z: tfm.bessel_ive(np.float64(0), z), 1.5, order=1),
    "bessel_ive, order 1": special(lambda z: tfm.bessel_ive(np.float64(1), z), 1.5, order=1),
    "bessel_ive, order 2": special(lambda z: tfm.bessel_ive(np.float64(2), z), 1.5, order=1),
    "bessel_ive, order 0 at 0": special(lambda z: tfm.bessel_ive(np.float64(0), z), 0.0, order=1),
    "bessel_ive with respect to its order": special(tfm.bessel_ive, 1.3, 1.5, order=1),
    "bessel_kve": special(lambda z: tfm.bessel_kve(np.float64(1.3), z), 1.5),
    "bessel_kve, order 0": special(lambda z: tfm.bessel_kve(np.float64(0), z), 1.5, order=1),
    "bessel_kve, order 1": special(lambda z: tfm.bessel_kve(np.float64(1), z), 1.5, order=1),
    "bessel_kve, order 2": special(lambda z: tfm.bessel_kve(np.float64(2), z), 3.5, order=1),
    "bessel_kve with respect to its order": special(tfm.bessel_kve, 1.3, 1.5, order=1),
    "betainc": special(tfm.betainc, 1.7, 2.4, 0.3),
    "betainc, parameters 1": special(tfm.betainc, 1.0, 1.0, 0.3, order=1),
    "betainc, parameters 2": special(tfm.betainc, 2.0, 2.0, 0.5, order=1),
    "betainc, parameters 1 at second order": special(lambda x: tfm.betainc(np.float64(1), np.float64(1), x), 0.3),
    "NoncentralChi2.log_prob of df alone": special(
        lambda df: tfd.NoncentralChi2(df, np.float64(1.4)).log_prob(np.float64(2.2)), 3.0, order=1
    ),
    "betaincinv": special(tfm.betaincinv, 1.7, 2.4, 0.3, order=1),
    "dawsn": special(tfm.dawsn, [0.4, 1.7, -6.0]),
    "dawsn, at 0": special(tfm.dawsn, 0.0),
    "erfcinv": special(tfm.erfcinv, [0.4, 1.0, 1.7]),
    "erfcx": special(tfm.erfcx, [0.4, 3.7, -1.2]),
    "igammacinv": special(tfm.igammacinv, 1.5, 0.3, order=1),
    "igammainv": special(tfm.igammainv, 1.5, 0.3, order=1),
    "igammainv, a = 1": special(tfm.igammainv, 1.0, 0.3, order=1),
    "interp_regular_1d_grid": special(
        lambda x, y: tfm.interp_regular_1d_grid(x, np.float64(0), np.float64(3), y), 1.3, [0.4, -0.3, 0.9, 1.5]
    ),
    "lambertw": special(tfm.lambertw, [0.4, 3.0, -0.2]),
    "lambertw, at 0": special(tfm.lambertw, 0.0),
    "lambertw_winitzki_approx": special(tfm.lambertw_winitzki_approx, 0.4),
    "lbeta": special(tfm.lbeta, 1.7, 2.4),
    "lbeta, large": special(tfm.lbeta, 1.7, 2.4e4),
    "log1mexp": special(tfm.log1mexp, [-0.4, -2.0]),
    "log1mexp, at -log 2": special(tfm.log1mexp, -0.6931471805599453),
    "log1psquare": special(tfm.log1psquare, [0.4, -2.0]),
    "log1psquare, at 0": special(tfm.log1psquare, 0.0),
    "log_add_exp": special(tfm.log_add_exp, 0.4, -0.3),
    "log_add_exp, equal": special(tfm.log_add_exp, 0.4, 0.4),
    "log_bessel_ive": special(lambda z: tfm.log_bessel_ive(np.float64(1.3), z), 1.5),
    "log_bessel_ive, order 1": special(lambda z: tfm.log_bessel_ive(np.float64(1), z), 1.5, order=1),
    "log_bessel_kve": special(lambda z: tfm.log_bessel_kve(np.float64(1.3), z), 1.5),
    "log_bessel_kve with respect to its order": special(tfm.log_bessel_kve, 1.3, 1.5, order=1),
    "log_combinations": special(tfm.log_combinations, 6.5, [1.5, 5.0]),
    "log_cosh": special(tfm.log_cosh, [0.4, -3.0]),
    "log_cosh, at 0": special(tfm.log_cosh, 0.0),
    "log_cosh, float32": special(tfm.log_cosh, [0.4, -3.0], dtype="float32"),
    "log_cumsum_exp": special(tfm.log_cumsum_exp, [0.4, -0.3, 0.9]),
    "log_gamma_correction": special(tfm.log_gamma_correction, 12.0),
    "log_gamma_difference": special(tfm.log_gamma_difference, 1.7, 2.4),
    "log_gamma_difference, large": special(tfm.log_gamma_difference, 1.7, 2.4e4),
    "log_sub_exp": special(tfm.log_sub_exp, 0.9, -0.3),
    "logerfc": special(tfm.logerfc, [0.4, 3.7, -1.2]),
    "logerfcx": special(tfm.logerfcx, [0.4, 3.7, -1.2]),
    "owens_t": special(tfm.owens_t, 0.6, 0.4),
    "owens_t, a = 1": special(tfm.owens_t, 0.6, 1.0),
    "owens_t, h = 0": special(tfm.owens_t, 0.0, 0.4),
    "reduce_kahan_sum": special(lambda x: tfm.reduce_kahan_sum(x)[0] ** 2, [0.4, -0.3, 0.9]),
    "reduce_log_harmonic_mean_exp": special(tfm.reduce_log_harmonic_mean_exp, [0.4, -0.3, 0.9]),
    "reduce_logmeanexp": special(tfm.reduce_logmeanexp, [0.4, -0.3, 0.9]),
    "reduce_weighted_logsumexp": special(tfm.reduce_weighted_logsumexp, [0.4, -0.3, 0.9], [0.5, 1.2, 0.3]),
    "round_exponential_bump_function": special(tfm.round_exponential_bump_function, [0.4, -0.9]),
    "round_exponential_bump_function, at 1": special(tfm.round_exponential_bump_function, 1.0, order=1),
    "smootherstep": special(tfm.smootherstep, 0.4),
    "smootherstep, at 0": special(tfm.smootherstep, 0.0),
    "soft_threshold": special(tfm.soft_threshold, 1.4, 0.3),
    "softplus_inverse": special(tfm.softplus_inverse, [0.4, 3.0]),
    "sqrt1pm1": special(tfm.sqrt1pm1, [0.4, -0.6]),
    "sqrt1pm1, at 0": special(tfm.sqrt1pm1, 0.0),
    "betainc, float32": special(tfm.betainc, 1.7, 2.4, 0.3, order=1, dtype="float32"),
    "lambertw, float32": special(tfm.lambertw, [0.4, 3.0], order=1, dtype="float32"),
    "owens_t, float32": special(tfm.owens_t, 0.6, 0.4, order=1, dtype="float32"),
}


def every_case() -> Iterator[tuple[str, Case]]:
    """All cases, by the names of their tests."""
    for name, row in DISTRIBUTIONS.items():
        yield from ((f"{name}: {method}", of_distribution(row, method)) for method in row.methods.split())
    yield from ((f"kl_divergence: {name}", of_divergence(*row)) for name, row in DIVERGENCES.items())
    yield from ((f"bijector {name}: forward", of_bijector(row)) for name, row in BIJECTORS.items())
    yield from ((f"bijector {name}: inverse", of_inverse(row)) for name, row in BIJECTORS.items())
    yield from ((f"kernel {name}", case) for name, case in KERNELS.items())
    yield from SPECIAL.items()


CASES = dict(every_case())
