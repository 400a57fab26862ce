"""TensorFlow Probability's bijectors: both directions and the logarithms of their determinants.

A line has the bijector, the domain, that of the image, and those of the parameters. An image is handed on by
`tf.identity`: of the tensor that a bijector has made, the inverse is the point itself, of which no tape knows. Softfloor, which is
made of pieces, is looked at within one of them.
"""

import gradcheck
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfb = tfp.bijectors

REALS, NEAR, UNIT, SCALE, POSITIVE, SMALL = "reals", (-3, 3), (0, 1), (0.1, 5), (0.05, 6), (-0.3, 0.3)
LOC_SCALE = {"loc": NEAR, "scale": SCALE}


def bijector(name, make, domain, image, parameters=None, *, constant=False, **declared):
    """Registers a bijector of numbers, elementwise, in all four forms; the point is the last argument.

    Of a `constant` determinant there is no derivative.
    """
    parameters = parameters or {}
    for form, where in (("forward", domain), ("inverse", image)):
        for method, more in ((form, ()), (f"{form}_log_det_jacobian", (0,)))[: 2 - constant]:
            given = {**parameters, "point": where}
            gradcheck.operation(name=f"tfp_{name}_{method}", domain=given, modes=(), **declared)(called(make, method, more))


def called(make, method, more):
    """A function of the parameters and the point, with the shape of the point."""

    def function(*tensors):
        *parameters, point = tensors
        return tf.broadcast_to(getattr(make(*parameters), method)(point, *more), tf.shape(point))

    return function


def vectors(name, make, shapes, place=tf.identity, *, constant=False):
    """Registers a bijector of vectors or matrices in all four forms, the inverse ones at the image of a point.

    `place` puts a point into the domain of the bijector.
    """
    for form in ("forward", "inverse"):
        for method in (form, f"{form}_log_det_jacobian")[: 2 - constant]:
            gradcheck.operation(name=f"tfp_{name}_{method}", shapes=shapes, domain=NEAR, modes=())(of_vectors(make, method, place))


def of_vectors(make, method, place):
    """A function of a vector or a matrix."""

    def function(point):
        made, placed = make(), place(point)
        forward = method.startswith("forward")
        ndims = made.forward_min_event_ndims if forward else made.inverse_min_event_ndims
        given = placed if forward else tf.identity(make().forward(placed))
        return getattr(made, method)(given, *(ndims,) * method.endswith("jacobian"))

    return function


def unselected(loc, scale, concentration, point):
    """Whether the bijector of a negative concentration, which is not selected, takes the logarithm of a negative number."""
    return np.any((concentration >= 0) & (point > loc + 1))


def triangular(x):
    """A lower triangular matrix with a diagonal above 1."""
    return tf.linalg.band_part(x, -1, 0) / 4 + 2 * tf.eye(x.shape[-1], dtype=x.dtype)


VECTOR, MATRIX = [(3,), (2, 3)], [(2, 2), (3, 3)]
LOWER = tf.constant([[1.2, 0.0, 0.0], [0.4, 0.7, 0.0], [-0.3, 0.2, 0.9]], tf.float64)
SPLINE = [np.array(one) for one in ([0.5, 0.9, 0.6], [0.7, 0.4, 0.9], [0.8, 1.3])]

bijector("exp", tfb.Exp, NEAR, POSITIVE)
bijector("expm1", tfb.Expm1, NEAR, (-0.9, 6))
bijector("frechet_cdf", tfb.FrechetCDF, (0, 3), UNIT, {"loc": (-3, -1), "scale": SCALE, "concentration": (0.5, 3)})
bijector("generalized_extreme_value_cdf", tfb.GeneralizedExtremeValueCDF, (-1, 1), UNIT, {"loc": (-1, 1), "scale": (1, 3), "concentration": SMALL})
bijector(
    "generalized_pareto",
    tfb.GeneralizedPareto,
    NEAR,
    (-1, 1),
    {"loc": (-3, -1), "scale": (3, 5), "concentration": (-0.3, 0.8)},
    singular={"concentration": 0.0},
    special={"unselected logarithm": unselected},
)
bijector("gompertz_cdf", tfb.GompertzCDF, POSITIVE, UNIT, {"concentration": (0.1, 1), "rate": (0.1, 1)})
bijector("gumbel_cdf", tfb.GumbelCDF, NEAR, UNIT, LOC_SCALE)
bijector("identity", tfb.Identity, REALS, REALS, constant=True)
bijector("kumaraswamy_cdf", tfb.KumaraswamyCDF, UNIT, UNIT, {"a": (0.5, 3), "b": (0.5, 3)})
bijector("lambert_w_tail", tfb.LambertWTail, NEAR, NEAR, {"shift": NEAR, "scale": SCALE, "tailweight": (0, 1)}, special={"at shift": lambda shift, scale, tailweight, point: np.any(point == shift)})
bijector("log", tfb.Log, POSITIVE, NEAR)
bijector("log1p", tfb.Log1p, (-0.9, 6), NEAR)
bijector("moyal_cdf", tfb.MoyalCDF, NEAR, UNIT, LOC_SCALE)
bijector("normal_cdf", tfb.NormalCDF, NEAR, UNIT)
bijector("power", tfb.Power, POSITIVE, POSITIVE, {"power": (0.5, 3)})
bijector("power_transform", lambda: tfb.PowerTransform(0.3), NEAR, POSITIVE)
bijector("rational_quadratic_spline", lambda: tfb.RationalQuadraticSpline(*SPLINE, range_min=-1.0), NEAR, NEAR, orders=(1,))
bijector("reciprocal", tfb.Reciprocal, POSITIVE, POSITIVE)
bijector("scale", tfb.Scale, NEAR, NEAR, {"scale": SCALE})
bijector("shift", tfb.Shift, NEAR, NEAR, {"shift": NEAR}, constant=True)
bijector("shifted_gompertz_cdf", tfb.ShiftedGompertzCDF, POSITIVE, UNIT, {"concentration": (0.1, 1), "rate": (0.1, 1)})
bijector("sigmoid", tfb.Sigmoid, NEAR, UNIT)
bijector("sigmoid_between", tfb.Sigmoid, NEAR, (-1.9, 1.9), {"low": (-3, -2), "high": (2, 3)})
bijector("sinh", tfb.Sinh, NEAR, NEAR)
bijector("sinh_arcsinh", tfb.SinhArcsinh, NEAR, NEAR, {"skewness": (-1, 1), "tailweight": (0.5, 2)})
bijector("soft_clip", tfb.SoftClip, NEAR, (-1.9, 1.9), {"low": (-3, -2), "high": (2, 3), "hinge_softness": (0.2, 2)})
bijector("softfloor", tfb.Softfloor, (0.6, 1.4), (0.1, 0.9), {"temperature": (0.2, 2)})
bijector("softplus", tfb.Softplus, NEAR, POSITIVE, {"hinge_softness": (0.2, 2)})
bijector("softsign", tfb.Softsign, NEAR, (-0.9, 0.9), curvature_jumps=0.0)
bijector("square", tfb.Square, POSITIVE, POSITIVE)
bijector("tanh", tfb.Tanh, NEAR, (-0.9, 0.9))
bijector("weibull_cdf", tfb.WeibullCDF, POSITIVE, UNIT, {"scale": SCALE, "concentration": (0.5, 3)})
vectors("ascending", tfb.Ascending, VECTOR)
vectors("cholesky_outer_product", tfb.CholeskyOuterProduct, MATRIX, triangular)
vectors("cholesky_to_inv_cholesky", tfb.CholeskyToInvCholesky, MATRIX, triangular)
vectors("correlation_cholesky", tfb.CorrelationCholesky, VECTOR)
vectors("cumsum", tfb.Cumsum, VECTOR, constant=True)
vectors("discrete_cosine_transform", tfb.DiscreteCosineTransform, VECTOR, constant=True)
vectors("fill_scale_tril", lambda: tfb.FillScaleTriL(diag_shift=None), VECTOR)
vectors("fill_triangular", tfb.FillTriangular, VECTOR, constant=True)
vectors("householder", lambda: tfb.Householder(np.array([0.6, 0.0, 0.8])), VECTOR, constant=True)
vectors("matrix_inverse_tril", tfb.MatrixInverseTriL, MATRIX, triangular)
vectors("permute", lambda: tfb.Permute([2, 0, 1]), VECTOR, constant=True)
vectors("scale_matvec_diag", lambda: tfb.ScaleMatvecDiag(np.array([0.6, -1.2, 0.8])), VECTOR, constant=True)
vectors("scale_matvec_tril", lambda: tfb.ScaleMatvecTriL(LOWER), VECTOR, constant=True)
vectors("transform_diagonal", lambda: tfb.TransformDiagonal(tfb.Softplus()), MATRIX)
