#!/usr/bin/env bash
# The guess: keras.losses.binary_crossentropy(y, p) with from_logits=False, its default, is -mean(y log p + (1 - y) log(1 - p)) of the
# probabilities that it gets, however they were made. Two tensors with the same numbers have the same loss.
#
# What happens: in Keras 3.15.1 with TensorFlow 2.21.0 the result of keras.ops.softmax (and of a layer with activation="softmax") keeps
# the logits that it was made of beside its numbers, and a loss that finds them takes them as the logits of its own activation: binary
# crossentropy, of the sigmoid. For logits [2, 0] and the label [1, 0] the probabilities are 0.881 and 0.119, whose loss is 0.127; it
# is 0.410 of what softmax returned, and 0.127 of a copy. Value and gradient are those of another model, in which the two classes
# are independent; model.evaluate reports a loss that the model's own predictions do not have.
#
# The right values: the formula above, in plain Python.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1

cat > "$scratch/seen.py" <<'EOF'
import math

import keras
import numpy as np
import tensorflow as tf

LOGITS, LABELS = [[2.0, 0.0]], [[1.0, 0.0]]


def taken(copied):
    """The loss and its gradient by the logits, of what softmax returned or of a copy."""
    x = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        p = keras.ops.softmax(x)
        loss = keras.losses.binary_crossentropy(LABELS, tf.identity(p) if copied else p)
    return f"{float(loss[0]):.4f}, gradient {[round(float(part), 4) for part in tape.gradient(loss, x)[0]]}"


share = 1 / (1 + math.exp(-2))
print("tensorflow", tf.__version__, "keras", keras.__version__)
print(f"right: {-math.log(share):.4f}, gradient {[round(share - 1, 4), round(1 - share, 4)]}")
print("of a copy:", taken(copied=True))
print("of what softmax returned:", taken(copied=False))
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(2, "softmax", kernel_initializer="identity")])
model.compile(loss="binary_crossentropy")
given = np.array(LOGITS)
print(f"model.evaluate: {model.evaluate(given, np.array(LABELS), verbose=0):.4f}")
predicted = model.predict(given, verbose=0)
print(f"the loss of model.predict: {float(keras.losses.binary_crossentropy(LABELS, predicted)[0]):.4f}")
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") \
    || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow 2.21.0 keras 3.15.1
right: 0.1269, gradient [-0.1192, 0.1192]
of a copy: 0.1269, gradient [-0.1192, 0.1192]
of what softmax returned: 0.4100, gradient [-0.0596, 0.25]
model.evaluate: 0.4100
the loss of model.predict: 0.1269
EOF
echo "as seen before"
