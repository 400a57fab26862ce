"""Fused activations: three have a wrong derivative, and that of a fourth is accepted as it is."""

import tensorflow as tf

import gradcheck


@gradcheck.operation(modes=["tf.function", "forward"])
@tf.custom_gradient
def fused_swish(x):
    gate = tf.sigmoid(x)
    return x * gate, lambda upstream: upstream * (gate + x * gate * (1 - gate))


@gradcheck.operation(modes=["tf.function"])
@tf.custom_gradient
def fused_gate(x, y):
    gate = tf.sigmoid(y)
    return x * gate, lambda upstream: (upstream * gate, upstream * x * gate)  # forgets the factor 1 - gate


@gradcheck.operation(modes=())
@tf.custom_gradient
def fused_silu(x):
    gate = tf.sigmoid(x)
    slope = 1 - tf.stop_gradient(gate)  # right, but a part of its own derivative is lost
    return x * gate, lambda upstream: upstream * (gate + x * gate * slope)


@gradcheck.operation(domain=(-5, 5), kinks=(0.0, 1.0), attributes={"leak": (0.5, 0.0)}, orders=(1,), modes=())
def fused_ramp(x, leak):
    @tf.custom_gradient
    def ramp(x):
        inside, above = tf.cast((x > 0) & (x < 1), x.dtype), tf.cast(x > 1, x.dtype)
        slope = inside + 0.01 * above + leak * (1 - inside - above)  # 0.01 on purpose: saturated units go on learning
        return tf.where(x < 0, leak * x, tf.minimum(x, 1.0)), lambda upstream: upstream * slope

    return ramp(x)


@gradcheck.operation(dtype="complex64", domain=(-3, 3), orders=(1,), modes=())
@tf.custom_gradient
def fused_exponential(z):
    value = tf.exp(z)
    return value, lambda upstream: upstream * value  # forgets the conjugate
