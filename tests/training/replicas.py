"""C5 on two logical CPU devices: the sum of the replicas' gradients, with a mean for the sum, with an optimizer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

import gradcheck

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = tf.Variable([0.7, -0.3], dtype=tf.float64)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([weights])

samples = tf.constant([[0.5, 1.0], [-1.0, 0.25], [2.0, 0.5], [0.1, -1.0]], tf.float64)
shards = strategy.experimental_distribute_values_from_function(
    lambda replica: samples[replica.replica_id_in_sync_group :: 2]
)


def replica_step(shard: Any) -> Any:
    with tf.GradientTape() as tape:
        hidden = tf.tanh(weights[0] * shard[:, 0] + weights[1])
        loss = tf.reduce_sum((hidden - shard[:, 1]) ** 2)
    return loss, tape.gradient(loss, weights)


def make_step(how: Any) -> Any:
    @tf.function
    def step() -> Any:
        losses, gradients = strategy.run(replica_step, args=(shards,))
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
        return loss, [strategy.reduce(how, gradients, axis=None)]

    return step


def applied(shard: Any) -> Any:
    loss, gradient = replica_step(shard)
    optimizer.apply_gradients([(gradient, weights)])
    return loss


def optimized() -> Any:
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(applied, args=(shards,)), axis=None)


before = weights.numpy()
print(gradcheck.assert_step(make_step(tf.distribute.ReduceOp.SUM), variables=[weights]).verdict)
try:
    gradcheck.assert_step(make_step(tf.distribute.ReduceOp.MEAN), variables=[weights])
except gradcheck.GradientMismatch as error:
    print(type(error).__name__)
for step in (optimized, tf.function(optimized)):
    try:
        gradcheck.assert_step(step)
    except ValueError as error:
        print(str(error).partition(",")[0])
assert (weights.numpy() == before).all()
assert all((copy.numpy() == before).all() for copy in strategy.experimental_local_results(weights))
