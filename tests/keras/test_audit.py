"""`gradcheck.audit` of Keras models: a training step, a saved model, a layer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import AuditResult, audit, check
from gradcheck.audit import audit_saved_model


def told(result: AuditResult) -> dict[str, list[tuple[str, int, bool | None]]]:
    """The defects of each kernel: name, order, inside."""
    found: dict[str, list[tuple[str, int, bool | None]]] = {}
    for one in result.operations:
        found.setdefault(one.kernel, []).extend((each.defect.name, each.order, each.inside) for each in one.defects)
    return found


def model() -> Any:
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPool2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(6, activation="gelu"),
            keras.layers.Lambda(lambda x: tf.math.cumprod(tf.nn.relu(x), axis=-1)),
            keras.layers.Dense(3),
        ]
    )
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def test_a_keras_step_runs_once_and_everything_is_as_it_was() -> None:
    images, labels = tf.random.stateless_normal((4, 8, 8, 1), (1, 2)), tf.constant([0, 1, 2, 0])
    trained = model()
    trained.optimizer.build(trained.trainable_variables)
    before = [value.numpy() for value in (*trained.variables, *trained.optimizer.variables)]
    random.seed(3), np.random.seed(3), tf.random.set_seed(3)
    drawn = random.random(), np.random.rand(), tf.random.normal(()).numpy()
    random.seed(3), np.random.seed(3), tf.random.set_seed(3)
    steps = 0

    def step(data: Any) -> Any:
        nonlocal steps
        steps += 1
        return trained.train_step(data)

    result = audit(step, (images, labels))
    assert steps == 1
    assert told(result) == {
        "Cumprod": [("cumprod-zero-order1", 1, True), ("cumprod-zero-order2", 2, True)],
        "keras.layers.BatchNormalization": [("keras_layer_normalization-order2", 2, True)],
    }
    assert result.looked_at > 50
    assert any("operations that no derivative depends on" in note for note in result.notes)
    assert drawn == (random.random(), np.random.rand(), tf.random.normal(()).numpy())
    after = [value.numpy() for value in (*trained.variables, *trained.optimizer.variables)]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_keras_model_is_read(tmp_path: Path) -> None:
    model().export(str(tmp_path), verbose=False)
    result = audit_saved_model(tmp_path)
    assert told(result) == {"Cumprod": [("cumprod-zero-order1", 1, None), ("cumprod-zero-order2", 2, None)]}
    assert {one.kernel for one in result.operations} == {"Cumprod"}
    assert result.looked_at > 20
    assert any("the values" in note for note in result.notes)


def test_a_layer_that_is_mostly_right_in_a_region_is_wrong_on_silence() -> None:
    silent = tf.zeros((1, 512))
    layer = keras.layers.MelSpectrogram(fft_length=64, sequence_stride=32, num_mel_bins=4)
    answers = [told(audit(layer, sound))["keras.layers.MelSpectrogram"] for sound in (silent, silent + tf.range(512.0))]
    name = "keras_mel_spectrogram-silence-order2"
    assert [{one: inside for one, _, inside in row}[name] for row in answers] == [True, None]


MADE = {
    "keras.layers.LayerNormalization": lambda: keras.layers.LayerNormalization(name="first"),
    "keras.layers.BatchNormalization": lambda: keras.layers.BatchNormalization(name="second"),
    "keras.layers.GroupNormalization": lambda: keras.layers.GroupNormalization(2),
    "keras.layers.PReLU": lambda: keras.layers.PReLU(alpha_initializer="ones", shared_axes=[1]),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_layer_is_named_with_the_line_that_makes_it_and_a_layer_to_use_instead(kind: str) -> None:
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(4), MADE[kind](), keras.layers.Dense(1)]
    trained = keras.Sequential(layers)
    trained.compile("sgd", "mse")
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32) * (kind != "keras.layers.PReLU")
    result = audit(trained.train_step, (x, tf.zeros((3, 1))))
    (found,) = (one for one in result.operations if one.kernel == kind)
    assert found.layer == layers[2].name
    assert found.place is not None
    assert found.place.file.endswith("test_audit.py")
    assert found.place.code.startswith(f'"{kind}": lambda: keras.layers.')
    text = str(found)
    assert text.startswith(f"{kind}: layer {layers[2].name}, tests/keras/test_audit.py:")
    assert "example of the record" not in text
    names: dict[str, Any] = {"keras": keras, "tf": tf}
    code = text.partition("with the same weights:\n")[2].splitlines()
    exec("\n".join(line.removeprefix(" " * 16) for line in code), names)
    config = {**layers[2].get_config(), "dtype": "float64"}
    made = next(one for name, one in names.items() if name in ("Normalization", "Rectifier"))
    mended, original = made.from_config(config), type(layers[2]).from_config(config)
    values = tf.constant(np.random.default_rng(1).normal(size=(3, 4)) * (kind != "keras.layers.PReLU"))
    mended.build((3, 4)), original.build((3, 4))

    def called(layer: Any) -> Any:
        return lambda given: layer(given, training=True) if "Batch" in kind else layer(given)

    np.testing.assert_allclose(called(mended)(values), called(original)(values), rtol=1e-12)
    order = 1 if "PReLU" in kind else 2
    assert check(called(original), values, order=order).verdict != "agree"
    assert check(called(mended), values, order=order).verdict == "agree"


class Net(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = keras.layers.Dense(4), keras.layers.LayerNormalization()

    def call(self, x: Any) -> Any:
        return self.norm(self.dense(x))


def test_a_layer_that_the_user_s_code_calls_is_placed_there() -> None:
    net = Net()
    net.compile("sgd", "mse")
    net(tf.ones((2, 3)))
    (found,) = audit(net.train_step, (tf.ones((2, 3)), tf.zeros((2, 4)))).operations
    assert found.kernel == "keras.layers.LayerNormalization"
    assert found.place is not None
    assert found.place.code == "return self.norm(self.dense(x))"


def two_of_a_kind() -> Any:
    return [keras.layers.LayerNormalization(), keras.layers.LayerNormalization()]


def test_where_several_lines_may_make_a_layer_its_name_has_to_do() -> None:
    both = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), *two_of_a_kind()])
    both.compile("sgd", "mse")
    found = audit(both.train_step, (tf.ones((2, 4)), tf.zeros((2, 4)))).operations
    assert {one.place for one in found} == {None}
    assert [str(one).partition("\n")[0] for one in found] == [
        f"keras.layers.LayerNormalization: layer {one.name}, in the model" for one in both.layers[1:]
    ]


@pytest.mark.parametrize(
    ("policy", "rows", "inside"), [("mixed_bfloat16", 512, True), ("mixed_bfloat16", 32, False), ("float32", 512, None)]
)
def test_a_layer_whose_bias_stops_counting_in_bfloat16_is_told(policy: str, rows: int, inside: bool | None) -> None:
    layer, x = keras.layers.Dense(3, dtype=policy), tf.ones((rows, 4))
    layer.build(x.shape)

    def loss(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(layer(x), tf.float32))

    found = told(audit(loss, x))
    assert found == ({} if inside is None else {"BiasAdd": [("bfloat16-bias_add-order1", n, inside) for n in (1, 2)]})
    with tf.GradientTape() as tape:
        value = loss(x)
    gradient = tape.gradient(value, layer.bias).numpy()
    np.testing.assert_array_equal(gradient, [256.0 if inside else rows] * 3)
