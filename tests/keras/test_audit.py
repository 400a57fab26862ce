"""`gradcheck.audit` of Keras models: a training step, a saved model, a layer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gradcheck import AuditResult, audit
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
