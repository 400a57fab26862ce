"""Bringing a value that lies outside of an operation's domain into it, with one more node."""

from __future__ import annotations

from functools import cache

import numpy as np
import tensorflow as tf

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.implementation import single
from gradcheck.graphs.opspec import Interval

SMOOTH_MAPS = ("sigmoid", "softplus", "tanh", "exp", "sin", "cos", "cosh", "atan", "erf", "reciprocal")
PROBES = np.array([-20.0, -3.0, -1.0, -0.5, 0.0, 0.1, 1.0, 2.0, 20.0])


@cache
def adapters(interval: Interval) -> tuple[str, ...]:
    """The smooth operations of the catalogue that map the reals (as far as they are drawn) into an interval."""
    return tuple(name for name in SMOOTH_MAPS if name in CATALOGUE and _maps_into(name, interval))


def _maps_into(name: str, interval: Interval) -> bool:
    spec = CATALOGUE[name]
    if spec.arity != 1 or spec.attributes(PROBES.shape) or spec.dtype(0) != "float64" or spec.result != "float64":
        return False
    return spec.domain(0).contains(PROBES) and interval.contains(single(spec)(tf.constant(PROBES)).numpy())
