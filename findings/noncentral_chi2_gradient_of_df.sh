#!/usr/bin/env bash
# The guess: a distribution whose density needs the derivative of a Bessel function with respect to its order, which nobody has
# written, gives None for its degrees of freedom, as tfp.math.bessel_ive does for its order, or raises.
#
# What happens: in TensorFlow Probability 0.25.0 NoncentralChi2(df, 1.4).log_prob(2.2) has a number, and the same one for every df:
# 0.113, a quarter of log(2.2 / 1.4), where -0.023 is right at df = 2.5, and -1.29 at df = 30. The log density is a sum in which df
# occurs twice, as a factor of a logarithm and as the order of the Bessel function. The tape adds up what there is of the two
# derivatives: the one term for which there is None is left out, silently, in float64. So a gradient ascent on the likelihood never
# finds df: the slope is the same everywhere. The derivative with respect to the noncentrality, which goes through the same
# Bessel function, is right.
#
# The right values are differences of the log of the density as its definition gives it, a sum of chi-squared densities weighted by
# Poisson probabilities.
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

NONCENTRALITY, X = 1.4, 2.2


def log_prob(df, noncentrality):
    """The log density at X, from its definition."""
    total = 0.0
    for j in range(200):
        half = df / 2 + j
        log_weight = -noncentrality / 2 + j * math.log(noncentrality / 2) - math.lgamma(j + 1)
        log_density = (half - 1) * math.log(X) - X / 2 - half * math.log(2) - math.lgamma(half)
        total += math.exp(log_weight + log_density)
    return math.log(total)


def taken(df):
    """The log density, and its derivatives with respect to df and the noncentrality, by TensorFlow."""
    given = [tf.constant(df, tf.float64), tf.constant(NONCENTRALITY, tf.float64)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        value = tfp.distributions.NoncentralChi2(*given).log_prob(tf.constant(X, tf.float64))
    return [float(value), *(float(part) for part in tape.gradient(value, given))]


def right(df, step=1e-4):
    """The same, by central differences."""
    by_df = log_prob(df + step, NONCENTRALITY) - log_prob(df - step, NONCENTRALITY)
    by_noncentrality = log_prob(df, NONCENTRALITY + step) - log_prob(df, NONCENTRALITY - step)
    return [log_prob(df, NONCENTRALITY), by_df / (2 * step), by_noncentrality / (2 * step)]


print("tensorflow", tf.__version__, "tensorflow-probability", tfp.__version__)
order = tf.constant(0.5, tf.float64)
with tf.GradientTape() as tape:
    tape.watch(order)
    value = tfp.math.bessel_ive(order, tf.constant(1.7, tf.float64))
print("bessel_ive by its order:", tape.gradient(value, order))
for df in (2.5, 3.0, 7.3, 30.0):
    for name, value, other in zip(("value", "by df", "by noncentrality"), taken(df), right(df)):
        print(f"df = {df:g}, {name}: {value:.5f}, right {other:.5f}")
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow 2.21.0 tensorflow-probability 0.25.0
bessel_ive by its order: None
df = 2.5, value: -1.82286, right -1.82286
df = 2.5, by df: 0.11300, right -0.02288
df = 2.5, by noncentrality: -0.14769, right -0.14769
df = 3, value: -1.85568, right -1.85568
df = 3, by df: 0.11300, right -0.10659
df = 3, by noncentrality: -0.19173, right -0.19173
df = 7.3, value: -3.40428, right -3.40428
df = 7.3, by df: 0.11300, right -0.55532
df = 7.3, by noncentrality: -0.35568, right -0.35568
df = 30, value: -26.29877, right -26.29877
df = 30, by df: 0.11300, right -1.29122
df = 30, by noncentrality: -0.46345, right -0.46345
EOF
echo "as seen before"
