#!/usr/bin/env bash
# The guess: TF_ENABLE_ONEDNN_OPTS=0 changes the last digits. TensorFlow's own message at import says so: with oneDNN "you may see
# slightly different numerical results due to floating-point round-off errors from different computation orders", and the flag turns
# that off. It is what people set to make results repeatable.
#
# What happens: in TensorFlow 2.21.0 on a CPU with AVX-512 the gradient of tf.nn.conv2d for a filter in bfloat16 is right with oneDNN;
# with the flag at 0 it is what is left of a sum that stops: each term is added in bfloat16 itself, whose next number after 256 is
# 258, so that a sum of ones ends at 256, and all of it at a few such partial sums. Of 25,088 equal terms (32 images of 28 by 28
# pixels) more than half are gone, for a depthwise filter, too, and of 4,096 rows in tf.einsum; how many depends on how many
# partial sums a processor's vectors have. A processor without AVX-512 has no oneDNN kernels in bfloat16, whatever the flag.
# tf.matmul of the same numbers is right either way, and so are all of them in float16 and float32. A model with
# mixed_bfloat16 trains its filters with a part of their gradients, and no message says so.
#
# The right values: the number of terms, all of which are 1.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0

cat > "$scratch/seen.py" <<'EOF'
import tensorflow as tf

IMAGES, ROWS = tf.ones([32, 28, 28, 1]), tf.ones([4096, 4])
FILTER, WEIGHTS = tf.ones([1, 1, 1, 1]), tf.ones([4, 4])
CASES = {
    "conv2d": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), IMAGES, FILTER, 25088),
    "depthwise_conv2d": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), IMAGES, FILTER, 25088),
    "einsum": (lambda x, w: tf.einsum("bi,ij->bj", x, w), ROWS, WEIGHTS, 4096),
    "matmul": (lambda x, w: x @ w, ROWS, WEIGHTS, 4096),
}
for name, (function, x, w, terms) in CASES.items():
    said = []
    for dtype in (tf.bfloat16, tf.float16, tf.float32):
        weights = tf.cast(w, dtype)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            y = function(tf.cast(x, dtype), weights)
        taken = float(tf.reduce_max(tf.cast(tape.gradient(y, weights), tf.float32)))
        left = "all" if abs(taken - terms) < 0.01 * terms else "less than half" if taken < terms / 2 else taken
        said.append(f"{left} in {dtype.name}")
    print(f"{name}, {terms} terms: {', '.join(said)}")
EOF

run() {
    echo "TF_ENABLE_ONEDNN_OPTS=$1"
    TF_ENABLE_ONEDNN_OPTS=$1 TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors" ||
        { cat "$scratch/errors" >&2; exit 1; }
}

seen=$(run 0)
echo "$seen"
diff - <(echo "$seen") <<'EOF'
TF_ENABLE_ONEDNN_OPTS=0
conv2d, 25088 terms: less than half in bfloat16, all in float16, all in float32
depthwise_conv2d, 25088 terms: less than half in bfloat16, all in float16, all in float32
einsum, 4096 terms: less than half in bfloat16, all in float16, all in float32
matmul, 4096 terms: all in bfloat16, all in float16, all in float32
EOF
if grep -qs avx512f /proc/cpuinfo; then
    seen=$(run 1)
    echo "$seen"
    diff - <(echo "$seen") <<'EOF'
TF_ENABLE_ONEDNN_OPTS=1
conv2d, 25088 terms: all in bfloat16, all in float16, all in float32
depthwise_conv2d, 25088 terms: all in bfloat16, all in float16, all in float32
einsum, 4096 terms: all in bfloat16, all in float16, all in float32
matmul, 4096 terms: all in bfloat16, all in float16, all in float32
EOF
fi
echo "as seen before"
