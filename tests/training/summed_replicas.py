"""Gradients of two replicas that are reduced unlike their loss; prints causes, and verdicts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import gradcheck

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = tf.Variable([[0.7], [-0.3]], dtype=tf.float64, name="weights")
    many = tf.Variable(tf.random.stateless_normal((2, 40), (1, 2), dtype=tf.float64), name="many")

samples = tf.constant([[0.5, 1.0, 0.2], [-1.0, 0.25, 0.4], [2.0, 0.5, -1.0], [0.1, -1.0, 0.3]], tf.float64)
shards = strategy.experimental_distribute_values_from_function(
    lambda replica: samples[replica.replica_id_in_sync_group :: 2]
)


def mean(errors: Any) -> Any:
    return tf.reduce_mean(errors)


def average(errors: Any) -> Any:
    return tf.nn.compute_average_loss(tf.reduce_mean(errors, 1), global_batch_size=4)


def make_step(of_loss: str, of_gradient: str, loss_of: Any = mean, factor: float = 1.0, variable: Any = weights) -> Any:
    def replica_step(shard: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of((tf.tanh(shard[:, :2] @ variable) - shard[:, 2:]) ** 2)
        return loss, tape.gradient(loss, variable)

    def step() -> Any:
        losses, gradients = strategy.run(replica_step, args=(shards,))
        gradient = strategy.reduce(of_gradient, gradients, axis=None)
        return strategy.reduce(of_loss, losses, axis=None), [factor * gradient]

    return step


def said(step: Any, variable: Any = weights) -> str:
    try:
        return gradcheck.assert_step(step, variables=[variable]).verdict
    except gradcheck.GradientWrongValue as error:
        found = None if error.result is None else error.result.findings[0].diagnosis
        return "no cause" if found is None else f"{found.evidence} -> {found.remedy}"


summed = make_step("MEAN", "SUM")
for step in (summed, tf.function(summed)):
    print(said(step))
print(said(make_step("MEAN", "SUM", variable=many), many))
print(said(tf.function(make_step("SUM", "MEAN"))))
for right in (make_step("MEAN", "MEAN"), make_step("SUM", "SUM"), make_step("SUM", "SUM", average)):
    print(said(tf.function(right)))
print(said(make_step("SUM", "SUM", factor=2.0)))
