"""TensorFlow Probability's special functions and positive semidefinite kernels.

A line has a name, the function of tensors, and where it is defined. Orders of Bessel functions are numbers: there is no
derivative with respect to them.
"""

from functools import partial

import gradcheck
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfm, tfk = tfp.math, tfp.math.psd_kernels
operation = partial(gradcheck.operation, modes=())

NEAR, UNIT, SHAPE, POSITIVE, SCALE = (-3, 3), (0, 1), (0.2, 6), (0.05, 6), (0.3, 3)
VECTOR = [(3,), (2, 3)]
PAIR = [((2,), (2,)), ((3, 2), (3, 2))]
ONE, TWO = map(np.float64, (1, 2))


def other(x, y):
    """The distance of two arguments."""
    return np.abs(x - y)


def perpendicular(x, y):
    """Whether the product of two arguments is -1, which the formula for the tangent of a difference divides by 0."""
    return np.any(1 + x * y == 0)


def size(x, threshold):
    """The distance from both ends of the zone that a soft threshold maps to 0."""
    return np.abs(np.abs(x) - threshold)


def whole(a, b, _):
    """Whether a parameter of the incomplete beta function is a whole number."""
    return np.any(a == np.round(a)) or np.any(b == np.round(b))


def definite(x):
    """A positive definite matrix."""
    return x @ tf.linalg.matrix_transpose(x) + tf.eye(x.shape[-1], dtype=x.dtype)


operation(name="tfp_math_atan_difference", domain=NEAR, special={"product of -1": perpendicular})(lambda x, y: tfm.atan_difference(x, y))
operation(name="tfp_math_bessel_iv_ratio", domain=POSITIVE)(lambda z: tfm.bessel_iv_ratio(TWO, z))
operation(name="tfp_math_bessel_ive", domain=NEAR)(lambda z: tfm.bessel_ive(TWO, z))
operation(name="tfp_math_bessel_ive_0", domain=NEAR)(lambda z: tfm.bessel_ive(np.float64(0), z))
operation(name="tfp_math_bessel_kve", domain=POSITIVE)(lambda z: tfm.bessel_kve(TWO, z))
operation(name="tfp_math_betainc", domain={"a": SHAPE, "b": SHAPE, "x": UNIT}, special={"a whole parameter": whole})(lambda a, b, x: tfm.betainc(a, b, x))
operation(name="tfp_math_betaincinv", domain={"a": SCALE, "b": SCALE, "x": (0.1, 0.9)}, orders=(1,))(lambda a, b, x: tfm.betaincinv(a, b, x))
operation(name="tfp_math_clip_by_value_preserve_gradient", domain=(-1, 1))(lambda x: tfm.clip_by_value_preserve_gradient(x, -1.0, 1.0))
operation(name="tfp_math_dawsn", domain=(-6, 6))(lambda x: tfm.dawsn(x))
operation(name="tfp_math_erfcinv", domain=(0, 2))(lambda x: tfm.erfcinv(x))
operation(name="tfp_math_erfcx", domain=NEAR)(lambda x: tfm.erfcx(x))
operation(name="tfp_math_fill_triangular", shapes=VECTOR)(lambda x: tfm.fill_triangular(x))
operation(name="tfp_math_hpsd_logdet", shapes=[(2, 2), (3, 3)], domain=(-1, 1))(lambda x: tfm.hpsd_logdet(definite(x)))
operation(name="tfp_math_hpsd_solvevec", shapes=[((2, 2), (2,))], domain=(-1, 1))(lambda x, y: tfm.hpsd_solvevec(definite(x), y))
operation(name="tfp_math_hpsd_quadratic_form_solvevec", shapes=[((2, 2), (2,))], domain=(-1, 1))(lambda x, y: tfm.hpsd_quadratic_form_solvevec(definite(x), y))
operation(name="tfp_math_igammacinv", domain={"a": SHAPE, "p": (0.1, 0.9)}, orders=(1,))(lambda a, p: tfm.igammacinv(a, p))
operation(name="tfp_math_igammainv", domain={"a": SHAPE, "p": (0.1, 0.9)}, orders=(1,))(lambda a, p: tfm.igammainv(a, p))
operation(name="tfp_math_lambertw", domain=(-0.3, 6))(lambda z: tfm.lambertw(z))
operation(name="tfp_math_lambertw_winitzki_approx", domain=(-0.3, 6))(lambda z: tfm.lambertw_winitzki_approx(z))
operation(name="tfp_math_lbeta", domain=SHAPE)(lambda a, b: tfm.lbeta(a, b))
operation(name="tfp_math_log1mexp", domain=(-6, -0.05))(lambda x: tfm.log1mexp(x))
operation(name="tfp_math_log1psquare", domain=NEAR)(lambda x: tfm.log1psquare(x))
operation(name="tfp_math_log_add_exp", domain=NEAR)(lambda x, y: tfm.log_add_exp(x, y))
operation(name="tfp_math_log_bessel_ive", domain=POSITIVE)(lambda z: tfm.log_bessel_ive(TWO, z))
operation(name="tfp_math_log_bessel_kve", domain=POSITIVE)(lambda z: tfm.log_bessel_kve(TWO, z))
operation(name="tfp_math_log_combinations", shapes=[((), (3,)), ((2,), (2, 3))], domain={"n": (3, 6), "k": (1, 3)})(lambda n, k: tfm.log_combinations(n, k))
operation(name="tfp_math_log_cosh", domain=NEAR)(lambda x: tfm.log_cosh(x))
operation(name="tfp_math_log_cumsum_exp", shapes=VECTOR, domain=NEAR)(lambda x: tfm.log_cumsum_exp(x))
operation(name="tfp_math_log_gamma_correction", domain=(8, 20))(lambda x: tfm.log_gamma_correction(x))
operation(name="tfp_math_log_gamma_difference", domain={"x": SHAPE, "y": (8, 20)})(lambda x, y: tfm.log_gamma_difference(x, y))
operation(name="tfp_math_log_sub_exp", domain=NEAR, singular=other)(lambda x, y: tfm.log_sub_exp(x, y))
operation(name="tfp_math_logerfc", domain=NEAR)(lambda x: tfm.logerfc(x))
operation(name="tfp_math_logerfcx", domain=NEAR)(lambda x: tfm.logerfcx(x))
operation(name="tfp_math_lu_reconstruct", shapes=[(2, 2), (3, 3)], domain=NEAR)(lambda x: tfm.lu_reconstruct(x, tf.range(x.shape[-1])))
operation(name="tfp_math_owens_t", domain=NEAR)(lambda h, a: tfm.owens_t(h, a))
operation(name="tfp_math_reduce_kahan_sum", shapes=VECTOR, domain=NEAR)(lambda x: tfm.reduce_kahan_sum(x * x, axis=-1).total)
operation(name="tfp_math_reduce_log_harmonic_mean_exp", shapes=VECTOR, domain=NEAR)(lambda x: tfm.reduce_log_harmonic_mean_exp(x, axis=-1))
operation(name="tfp_math_reduce_logmeanexp", shapes=VECTOR, domain=NEAR)(lambda x: tfm.reduce_logmeanexp(x, axis=-1))
operation(name="tfp_math_reduce_weighted_logsumexp", shapes=[(one, one) for one in VECTOR], domain={"x": NEAR, "w": POSITIVE})(lambda x, w: tfm.reduce_weighted_logsumexp(x, w, axis=-1))
operation(name="tfp_math_round_exponential_bump_function", domain=(-2, 2))(lambda x: tfm.round_exponential_bump_function(x))
operation(name="tfp_math_smootherstep", domain=(-1, 2))(lambda x: tfm.smootherstep(x))
operation(name="tfp_math_soft_sorting_matrix", shapes=VECTOR, domain=NEAR, orders=(1,))(lambda x: tfm.soft_sorting_matrix(x, np.float64(0.7)))
operation(name="tfp_math_soft_threshold", domain={"x": NEAR, "threshold": (0.1, 1)}, kinks=size)(lambda x, threshold: tfm.soft_threshold(x, threshold))
operation(name="tfp_math_softplus_inverse", domain=POSITIVE)(lambda x: tfm.softplus_inverse(x))
operation(name="tfp_math_sqrt1pm1", domain=(-0.9, 6))(lambda x: tfm.sqrt1pm1(x))


def coincident(x, y):
    """The distances of pairs of points."""
    return np.linalg.norm(x - y, axis=-1)


def kernel(name, make, domain=(-2, 2), **declared):
    """Registers a kernel of two points, with amplitude 1.3 and length scale 0.8 where it has these."""
    special = {"coinciding points": lambda x, y: np.any(coincident(x, y) == 0), "an equal coordinate": lambda x, y: np.any(x == y)}
    operation(name=f"tfp_kernel_{name}", shapes=PAIR, domain=domain, special=special, **declared)(lambda x, y: make().apply(x, y))


A, L = map(np.float64, (1.3, 0.8))
kernel("constant_plus_linear", lambda: tfk.Constant(A) + tfk.Linear(A, L, L))
kernel("exp_sin_squared", lambda: tfk.ExpSinSquared(A, L, np.float64(1.7)))
kernel("exponentiated_quadratic", lambda: tfk.ExponentiatedQuadratic(A, L))
kernel("gamma_exponential", lambda: tfk.GammaExponential(A, L, power=np.float64(1.5)), curvature_jumps=coincident)
kernel("generalized_matern", lambda: tfk.GeneralizedMatern(np.float64(1.7), A, L), orders=(1,))
kernel("kumaraswamy_transformed", lambda: tfk.KumaraswamyTransformed(tfk.ExponentiatedQuadratic(A, L), TWO, ONE), UNIT)
kernel("matern_five_halves", lambda: tfk.MaternFiveHalves(A, L))
kernel("matern_one_half", lambda: tfk.MaternOneHalf(A, L), kinks=coincident)
kernel("matern_three_halves", lambda: tfk.MaternThreeHalves(A, L))
kernel("parabolic", lambda: tfk.Parabolic(A, np.float64(9)))
kernel("polynomial", lambda: tfk.Polynomial(A, L, L, np.float64(3)))
kernel("product", lambda: tfk.ExponentiatedQuadratic(A, L) * tfk.RationalQuadratic(A, L, scale_mixture_rate=TWO))
kernel("rational_quadratic", lambda: tfk.RationalQuadratic(A, L, scale_mixture_rate=TWO))
kernel("spectral_mixture", lambda: tfk.SpectralMixture(np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2))))
