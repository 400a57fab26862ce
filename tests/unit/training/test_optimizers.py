"""Optimizers: which classes there are, how a call is read and repeated, and how they change gradients themselves."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck.training.optimizers import OptimizerCall, optimizer_methods, pairs_and_call

v1 = tf.compat.v1.train


def test_classes_that_define_a_method_themselves() -> None:
    class Own(keras.optimizers.SGD):
        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            return super().apply(grads, trainable_variables)

    found = optimizer_methods()
    assert (Own, "apply") in found
    assert (Own, "apply_gradients") not in found
    assert (keras.optimizers.Adam, "apply") not in found
    assert (v1.Optimizer, "apply_gradients") in found
    assert len(found) == len(set(found))


@pytest.mark.parametrize("named", [False, True], ids=["by place", "by name"])
@pytest.mark.parametrize("method", ["apply_gradients", "apply", "apply alone"])
def test_a_call_is_read_and_repeated_with_other_pairs(method: str, named: bool) -> None:
    x, gradient = tf.Variable([3.0, 4.0]), tf.ones(2)
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([x])
    args: dict[str, Any] = {"grads": [gradient]}
    if method == "apply_gradients":
        args = {"grads_and_vars": zip([gradient], [x], strict=True)}
    elif method == "apply":
        args["trainable_variables"] = [x]
    name = method.partition(" ")[0]
    original = getattr(keras.optimizers.SGD, name)
    given: tuple[Any, ...] = (() if named else tuple(args.values()), args if named else {})
    pairs, call = pairs_and_call(optimizer, original, name, *given)
    ((first, variable),) = pairs
    assert first is gradient
    assert variable.value is x if hasattr(variable, "path") else variable is x
    call(pairs)
    assert x.numpy().tolist() == [2.5, 3.5]
    call([(2 * gradient, x)])
    assert x.numpy().tolist() == [1.5, 2.5]


def test_what_an_optimizer_does_to_gradients_itself() -> None:
    def notes(optimizer: Any, scale: float = 1.0) -> list[str]:
        gradients = (tf.constant([3.0, 4.0]), None, tf.IndexedSlices(tf.constant([12.0]), tf.constant([1]), [2]))
        return OptimizerCall("SGD", optimizer, (None,) * 3, gradients, lambda pairs: None, scale).own_changes()

    assert notes(keras.optimizers.SGD(0.1)) == []
    assert notes(keras.optimizers.SGD(0.1, clipvalue=20.0)) == []
    assert notes(keras.optimizers.SGD(0.1, clipvalue=5.0)) == [
        "SGD clips by value to 5 (the largest was 12), its clipvalue"
    ]
    assert notes(keras.optimizers.SGD(0.1, global_clipnorm=5.0)) == [
        "SGD clips to the global norm 5 (the largest was 13), its global_clipnorm"
    ]
    assert notes(keras.optimizers.SGD(0.1, global_clipnorm=5.0), scale=2.0) == [
        "SGD clips to the global norm 5 (the largest was 6.5), its global_clipnorm"
    ]
    for option in ("clipvalue", "clipnorm", "global_clipnorm"):
        assert notes(keras.optimizers.SGD(0.1, **{option: 5.0}), scale=4.0) == []


def test_a_learning_rate_that_is_a_number() -> None:
    def rate(optimizer: Any) -> float | None:
        return OptimizerCall("", optimizer, (), (), lambda pairs: None).learning_rate

    assert rate(keras.optimizers.SGD(0.5)) == 0.5
    assert rate(v1.GradientDescentOptimizer(0.25)) == 0.25
    assert rate(v1.GradientDescentOptimizer(lambda: 0.25)) is None
    assert rate(object()) is None
