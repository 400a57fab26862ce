#!/usr/bin/env bash
# The guess: Beta(c, c).cdf(0.5) is 1/2 for every c, so whatever rounding does, its derivative with respect to c is 0; and where
# the concentrations are whole numbers the CDF is a polynomial, so its gradient is the most exact there.
#
# What happens: in TensorFlow Probability 0.25.0 the derivative is 0 to twelve digits at c = 2.0001, and 8.0e-3 at c = 2. At whole
# concentrations the gradient with respect to one of them is off, by 8 % for Beta(2, 1) at 0.5, silently, in float64, while the CDF
# is right. tfp.math.betainc, which says that its custom gradient is the correct one, sums the series of the CDF and of its
# derivatives in one loop, and ends it at the first term of the CDF that is small. At a whole concentration that term is exactly 0,
# and the series of the derivative, which goes on, is cut. It depends on the value which of the two concentrations it is.
#
# The right values are closed forms: 1 - (1 - x)^b for Beta(1, b), 1 - (1 - x)^b (1 + b x) for Beta(2, b), differentiated by b.
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


def gradient(a, b, x):
    """The derivatives of Beta(a, b).cdf(x) with respect to a and to b."""
    a, b = tf.constant(a, tf.float64), tf.constant(b, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        cdf = tfp.distributions.Beta(a, b).cdf(tf.constant(x, tf.float64))
    return [float(part) for part in tape.gradient(cdf, [a, b])]


def right(a, b, x):
    """The derivative with respect to b, for a = 1 and a = 2."""
    tail, log = (1 - x) ** b, math.log1p(-x)
    return -tail * log if a == 1 else -tail * ((1 + b * x) * log + x)


print("tensorflow", tf.__version__, "tensorflow-probability", tfp.__version__)
for c in (2.0, 2.0001):
    print(f"Beta({c:g}, {c:g}).cdf(0.5): d/dc = {sum(gradient(c, c, 0.5)):.6f}, right 0")
for a, b, x in ((1.0, 1.0, 0.3), (1.0, 1.0001, 0.3), (2.0, 1.0, 0.5), (2.0, 1.0001, 0.5), (2.0, 3.0, 0.3)):
    print(f"Beta({a:g}, {b:g}).cdf({x:g}): d/db = {gradient(a, b, x)[1]:.6f}, right {right(a, b, x):.6f}")
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow 2.21.0 tensorflow-probability 0.25.0
Beta(2, 2).cdf(0.5): d/dc = 0.008032, right 0
Beta(2.0001, 2.0001).cdf(0.5): d/dc = 0.000000, right 0
Beta(1, 1).cdf(0.3): d/db = 0.255000, right 0.249672
Beta(1, 1.0001).cdf(0.3): d/db = 0.249664, right 0.249664
Beta(2, 1).cdf(0.5): d/db = 0.291667, right 0.269860
Beta(2, 1.0001).cdf(0.5): d/db = 0.269859, right 0.269859
Beta(2, 3).cdf(0.3): d/db = 0.129681, right 0.129545
EOF
echo "as seen before"
