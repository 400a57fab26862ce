"""The values of the project's activations; `ci.sh` also hunts for wrong derivatives of them."""

import tensorflow as tf
from activations import fused_exponential, fused_gate, fused_ramp, fused_silu, fused_swish

x = tf.constant([-1.0, 0.5, 2.0], tf.float64)


def test_activations():
    tf.debugging.assert_near(fused_swish(x), tf.nn.silu(x))
    tf.debugging.assert_near(fused_gate(x, x), tf.nn.silu(x))
    tf.debugging.assert_near(fused_silu(x), tf.nn.silu(x))
    tf.debugging.assert_near(fused_ramp(x, leak=0.5), tf.constant([-0.5, 0.5, 1.0], tf.float64))
    tf.debugging.assert_near(tf.math.abs(fused_exponential(tf.complex(x, x))), tf.exp(x))
