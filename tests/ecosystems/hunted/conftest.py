"""Registers the operations of all tables."""

import gpflow_functions  # noqa: F401
import gpflow_kernels  # noqa: F401
import tfp_bijectors  # noqa: F401
import tfp_distributions  # noqa: F401
import tfp_functions  # noqa: F401
