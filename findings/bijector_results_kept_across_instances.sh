#!/usr/bin/env bash
# The guess: a bijector keeps its last result, so that the inverse of what it has just computed costs nothing. Kept for one object, and
# for a training step that is harmless, since each step makes a distribution of its own and opens a tape of its own.
#
# What happens: in TensorFlow Probability 0.25.0 results are kept for all bijectors of the same class and parameters, by the identity of
# the tensor that went in, for as long as the result exists. Exp().forward(x), computed before a tape is opened, say for a summary or
# a plot, is handed to another Exp() inside of the tape. No operation is recorded for it: the derivative of exp(x) + x**2 at 0.4 is
# 0.8, that of x**2, and not 2.2918. The inverse at a tensor that came out of a forward call has no derivative at all, None. Both
# come right when the result from before is deleted, or for tf.identity(x), in the same process and with the same numbers.
#
# The right value: exp(0.4) + 0.8, and 1 / y for the inverse.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps tensorflow-probability==0.25.0 \
    tf-keras==2.21.0 cloudpickle==3.1.3 decorator==5.3.1 dm-tree==0.1.10

cat > "$scratch/seen.py" <<'EOF'
import math

import tensorflow as tf
import tensorflow_probability as tfp


def slope(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    found = tape.gradient(value, x)
    return "None" if found is None else f"{float(found):.4f}"


def loss(x):
    return tfp.bijectors.Exp().forward(x) + x**2


print("tensorflow", tf.__version__, "tensorflow-probability", tfp.__version__)
x = tf.constant(0.4, tf.float64)
print(f"right: {math.exp(0.4) + 0.8:.4f}, before: {slope(loss, x)}")
seen_by_a_plot = tfp.bijectors.Exp().forward(x)
print("while a result of another bijector exists:", slope(loss, x))
print("of tf.identity(x):", slope(loss, tf.identity(x)))
del seen_by_a_plot
print("after it is deleted:", slope(loss, x))
y = tfp.bijectors.Exp().forward(x)
print(f"inverse at y, right {math.exp(-0.4):.4f}:", slope(tfp.bijectors.Exp().inverse, y))
print("inverse at tf.identity(y):", slope(tfp.bijectors.Exp().inverse, tf.identity(y)))
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow 2.21.0 tensorflow-probability 0.25.0
right: 2.2918, before: 2.2918
while a result of another bijector exists: 0.8000
of tf.identity(x): 2.2918
after it is deleted: 2.2918
inverse at y, right 0.6703: None
inverse at tf.identity(y): 0.6703
EOF
echo "as seen before"
