"""Activation functions (family `nn`)."""

from __future__ import annotations

import numpy as np

from gradcheck.hunt.catalogue.losses import LOGITS
from gradcheck.hunt.distances import at_zero
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Choice, Interval, OpSpec


def _vectors(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape else []


# Below, exp(x) is lost in the value exp(x) - 1, of which the gradients are made: they are off by 2**-53, however small
# they are, and values of float64 cannot show it.
ABOVE = Interval(-16.0)

OPERATIONS = (
    OpSpec("relu", "nn", "tf.nn.relu({0})", ("Relu",), kinks=lambda x: np.abs(x)),
    OpSpec("relu6", "nn", "tf.nn.relu6({0})", ("Relu6",), kinks=lambda x: np.minimum(np.abs(x), np.abs(x - 6))),
    OpSpec("elu", "nn", "tf.nn.elu({0})", ("Elu",), domains=(ABOVE,), bends=at_zero),
    OpSpec("selu", "nn", "tf.nn.selu({0})", ("Selu",), domains=(ABOVE,), kinks=lambda x: np.abs(x)),
    OpSpec(
        "leaky_relu",
        "nn",
        "tf.nn.leaky_relu({0}, alpha={alpha})",
        ("LeakyRelu",),
        attributes=lambda shape: {"alpha": Choice((0.5, 0.2, 0.0, 2.0, -1.0))},
        kinks=lambda x, alpha: np.abs(x),
    ),
    OpSpec("softplus", "nn", "tf.nn.softplus({0})", ("Softplus",)),
    OpSpec(
        "softsign",
        "nn",
        "tf.nn.softsign({0})",
        ("Softsign",),
        orders=(1,),  # SoftsignGrad has no registered gradient
        bends=at_zero,
    ),
    OpSpec(
        "silu",
        "nn",
        "tf.nn.silu({0}, beta={1})",
        (),  # its gradient is a custom one, of its own
        arity=2,
        batched="{0} * tf.sigmoid({1} * {0})",
        broadcasts=True,
        shapes=lambda shape: [(shape, ()), (shape, shape)] if np.prod(shape) > 1 else [(shape, ())],
    ),
    OpSpec(
        "gelu",
        "nn",
        "tf.nn.gelu({0}, approximate={approximate})",
        ("Erfc", "Tanh"),
        attributes=lambda shape: {"approximate": BOOL},
    ),
    OpSpec("crelu", "nn", "tf.nn.crelu({0})", ("Relu", "ConcatV2"), shapes=_vectors, kinks=lambda x: np.abs([x, x])),
    OpSpec("softmax", "nn", "tf.nn.softmax({0})", ("Softmax",), shapes=_vectors),
    OpSpec("log_softmax", "nn", "tf.nn.log_softmax({0})", ("LogSoftmax",), shapes=_vectors, domains=(LOGITS,)),
    OpSpec(
        "softmax_axis",
        "nn",
        "tf.nn.softmax({0}, axis=-2)",
        ("Softmax", "Transpose"),
        shapes=lambda shape: [(shape,)] if len(shape) > 1 else [],
        starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)),
    ),
)
