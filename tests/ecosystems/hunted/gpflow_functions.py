"""GPflow's likelihoods, mean functions, log densities, covariances and conditionals, of tensors; parameters are fixed.

A line has a name, the function, and where it is defined.
"""

from functools import partial

import gpflow
import gradcheck
import numpy as np
import tensorflow as tf

operation = partial(gradcheck.operation, modes=())
lik, m, d = gpflow.likelihoods, gpflow.mean_functions, gpflow.logdensities

NEAR, UNIT, SCALE, POSITIVE = (-3, 3), (0, 1), (0.1, 5), (0.05, 6)
COLUMN, COLUMNS = [(2, 1), (3, 1)], [((2, 1), (2, 1)), ((3, 1), (3, 1))]
POINTS, SQUARE = [(2, 1), (3, 2)], [(2, 2), (3, 3)]


def likelihood(name, made, label, methods):
    """Registers log densities, expectations and moments; a label is a domain, or the one of a discrete likelihood."""
    continuous = isinstance(label, tuple)
    domain = {"f": (-2, 2), "variance": (0.1, 2), **({"y": label} if continuous else {})}
    for method in methods.split():
        moments = method.startswith("conditional")
        takes = {"f": True, "variance": not (moments or method == "log_prob"), "y": continuous and not moments}
        names = tuple(name for name, taken in takes.items() if taken)
        shapes = [((2, 1),) * len(names), ((3, 1),) * len(names)]
        operation(name=f"gpflow_{name}_{method}", shapes=shapes, domain={one: domain[one] for one in names})(called(getattr(made, method), None if continuous or moments else label))


def called(method, label):
    """A function of tensors; the first argument of a method, the inputs, is ignored by all of these."""

    def function(*tensors):
        labels = () if label is None else (tf.zeros_like(tensors[0]) + label,)
        return method(tf.zeros_like(tensors[0]), *tensors, *labels)

    return function


def definite(x):
    """A positive definite matrix."""
    return x @ tf.linalg.matrix_transpose(x) + tf.eye(x.shape[-1], dtype=x.dtype)


def lower(x):
    """A lower triangular matrix with a diagonal above 0."""
    return tf.linalg.band_part(x, -1, 0) / 4 + tf.eye(x.shape[-1], dtype=x.dtype)


def conditional(kmn, kmm, f):
    """The mean and the variances of a Gaussian vector, given another."""
    variances = tf.constant([9.0, 8.0, 7.0], tf.float64)
    return gpflow.conditionals.base_conditional(kmn, definite(kmm), variances, f)


OF_LABELS, MOMENTS = "log_prob variational_expectations predict_log_density", "conditional_mean conditional_variance"
RBF = gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=0.8)
PLACES = gpflow.inducing_variables.InducingPoints([[0.3], [-0.7]])
SCALES = gpflow.inducing_variables.Multiscale([[0.3], [-0.7]], [[1.1], [0.6]])

likelihood("bernoulli", lik.Bernoulli(), 1.0, f"{OF_LABELS} {MOMENTS}")
likelihood("beta", lik.Beta(scale=1.4), (0.05, 0.95), f"{OF_LABELS} {MOMENTS}")
likelihood("exponential", lik.Exponential(), POSITIVE, f"{OF_LABELS} {MOMENTS}")
likelihood("gamma", lik.Gamma(shape=1.4), POSITIVE, f"{OF_LABELS} {MOMENTS}")
likelihood("gaussian", lik.Gaussian(variance=0.7), NEAR, f"{OF_LABELS} conditional_mean")
likelihood("ordinal", lik.Ordinal(np.array([-0.5, 0.8])), 1.0, OF_LABELS)
likelihood("poisson", lik.Poisson(), 2.0, f"{OF_LABELS} {MOMENTS}")
likelihood("student_t", lik.StudentT(scale=0.7, df=3.5), NEAR, f"{OF_LABELS} conditional_mean")
operation(name="gpflow_softmax_log_prob", shapes=[(2, 3)], domain=NEAR)(lambda f: lik.Softmax(3).log_prob(f, f, tf.constant([[1], [2]])))
operation(name="gpflow_linear_mean", shapes=[(2, 2), (3, 2)])(m.Linear([[0.4], [-1.2]], [0.3]))
operation(name="gpflow_constant_plus_identity", shapes=[(2, 2), (3, 2)])(lambda x: m.Additive(m.Constant([0.3, 0.4]), m.Identity(2))(x))
operation(name="gpflow_product_of_means", shapes=[(2, 2), (3, 2)], domain=NEAR)(lambda x: m.Product(m.Linear([[0.4], [-1.2]], [0.3]), m.Linear([[0.7], [1.1]], [0.2]))(x))
operation(name="gpflow_polynomial_mean", shapes=[(2, 2), (3, 2)], domain=NEAR)(m.Polynomial(degree=3, input_dim=2))
operation(name="gpflow_density_bernoulli", domain={"p": UNIT})(lambda p: d.bernoulli(np.float64(1), p))
operation(name="gpflow_density_beta", domain={"x": UNIT, "a": SCALE, "b": SCALE})(lambda x, a, b: d.beta(x, a, b))
operation(name="gpflow_density_exponential", domain=POSITIVE)(lambda x, scale: d.exponential(x, scale))
operation(name="gpflow_density_gamma", domain=POSITIVE)(lambda x, shape, scale: d.gamma(x, shape, scale))
operation(name="gpflow_density_gaussian", domain={"x": NEAR, "mu": NEAR, "var": SCALE})(lambda x, mu, var: d.gaussian(x, mu, var))
operation(name="gpflow_density_laplace", domain={"x": NEAR, "mu": NEAR, "sigma": SCALE}, kinks=lambda x, mu, _: np.abs(x - mu))(lambda x, mu, sigma: d.laplace(x, mu, sigma))
operation(name="gpflow_density_lognormal", domain={"x": POSITIVE, "mu": NEAR, "var": SCALE})(lambda x, mu, var: d.lognormal(x, mu, var))
operation(name="gpflow_density_multivariate_normal", shapes=[((2, 1), (2, 1), (2, 2))], domain=(-2, 2))(lambda x, mu, a: d.multivariate_normal(x, mu, tf.linalg.cholesky(definite(a))))
operation(name="gpflow_density_poisson", domain={"rate": SCALE})(lambda rate: d.poisson(np.float64(2), rate))
operation(name="gpflow_density_student_t", domain={"x": NEAR, "mean": NEAR, "scale": SCALE})(lambda x, mean, scale: d.student_t(x, mean, scale, np.float64(3.5)))
operation(name="gpflow_square_distance", shapes=[((2, 2), (3, 2))], domain=NEAR)(lambda x, y: gpflow.utilities.ops.square_distance(x, y))
operation(name="gpflow_difference_matrix", shapes=[((2, 2), (3, 2))], domain=NEAR)(lambda x, y: gpflow.utilities.ops.difference_matrix(x, y))
operation(name="gpflow_kuf", shapes=POINTS[:1], domain=(-2, 2))(lambda x: gpflow.covariances.Kuf(PLACES, RBF, x))
operation(name="gpflow_kuf_multiscale", shapes=POINTS[:1], domain=(-2, 2))(lambda x: gpflow.covariances.Kuf(SCALES, RBF, x))
operation(name="gpflow_gauss_kl", shapes=[((2, 1), (1, 2, 2))], domain=(-2, 2))(lambda mean, root: gpflow.kullback_leiblers.gauss_kl(mean, lower(root)))
operation(name="gpflow_gauss_kl_of_prior", shapes=[((2, 1), (1, 2, 2), (2, 2))], domain=(-2, 2))(lambda mean, root, prior: gpflow.kullback_leiblers.gauss_kl(mean, lower(root), definite(prior)))
operation(name="gpflow_conditional_mean", shapes=[((2, 3), (2, 2), (2, 1))], domain=(-2, 2))(lambda kmn, kmm, f: conditional(kmn, kmm, f)[0])
operation(name="gpflow_conditional_variance", shapes=[((2, 3), (2, 2), (2, 1))], domain=(-2, 2))(lambda kmn, kmm, f: conditional(kmn, kmm, f)[1])
