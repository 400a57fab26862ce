"""GPflow's kernels, and what is built on them, with parameters held fixed: these are variables.

A line has a name and the kernel. Each is registered as a function of two sets of points, and one as that of a single
set: the covariances of all pairs, and the variances.
"""

from functools import partial

import gpflow
import gradcheck
import numpy as np

k = gpflow.kernels

GIVEN = {"variance": 1.3, "lengthscales": 0.8}


def coincident(x, y=None):
    """The distances of all pairs of points, without those of a point from itself."""
    pairs = x[:, None] - (x if y is None else y)
    distances = np.linalg.norm(pairs, axis=-1)
    return distances[~np.eye(len(x), dtype=bool)] if y is None else distances


def kernel(name, made, *, dimensions=(1, 2), diagonal=True, **declared):
    """Registers the covariances of two sets of points, of one with itself, and the variances."""
    operation = partial(gradcheck.operation, domain=(-2, 2), modes=())
    pairs, sets = [((2, n), (3, n)) for n in dimensions], [(3, n) for n in dimensions]
    operation(name=f"gpflow_{name}", shapes=pairs, special={"coinciding points": lambda x, y: np.any(coincident(x, y) == 0)}, **declared)(lambda x, y: made(x, y))
    operation(name=f"gpflow_{name}_of_one", shapes=sets, special={"coinciding points": lambda x: np.any(coincident(x) == 0)}, **declared)(lambda x: made(x))
    if diagonal:
        operation(name=f"gpflow_{name}_diagonal", shapes=sets)(lambda x: made(x, full_cov=False))


kernel("arc_cosine_0", k.ArcCosine(order=0, variance=1.3), singular=coincident)
kernel("arc_cosine_1", k.ArcCosine(order=1, variance=1.3), curvature_jumps=coincident)
kernel("arc_cosine_2", k.ArcCosine(order=2, variance=1.3))
kernel("change_points", k.ChangePoints([k.Matern52(**GIVEN), k.Linear()], locations=[0.3], steepness=2.0), dimensions=(1,))
kernel("cosine", k.Cosine(**GIVEN), diagonal=False, singular=coincident)
kernel("exponential", k.Exponential(**GIVEN), diagonal=False, kinks=coincident)
kernel("linear", k.Linear(variance=1.3))
kernel("matern12", k.Matern12(**GIVEN), diagonal=False, kinks=coincident)
kernel("matern32", k.Matern32(**GIVEN), diagonal=False)
kernel("matern52", k.Matern52(**GIVEN), diagonal=False)
kernel("periodic", k.Periodic(k.SquaredExponential(**GIVEN), period=1.7), diagonal=False)
kernel("polynomial", k.Polynomial(degree=3, variance=1.3, offset=0.7))
kernel("product", k.SquaredExponential(**GIVEN) * k.Linear(variance=1.3))
kernel("rational_quadratic", k.RationalQuadratic(**GIVEN, alpha=1.4), diagonal=False)
kernel("squared_exponential", k.SquaredExponential(**GIVEN), diagonal=False)
kernel("sum", k.RationalQuadratic(**GIVEN) + k.Linear(variance=1.3))
