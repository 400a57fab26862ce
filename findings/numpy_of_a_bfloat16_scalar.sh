#!/usr/bin/env bash
# The guess: NumPy takes a tensor of TensorFlow whatever its number type and shape: where np.isfinite(loss) works for a vector in
# bfloat16 and for a scalar in float16, it works for a scalar in bfloat16.
#
# What happens: with TensorFlow 2.21.0, NumPy 2.4.6 and ml_dtypes 0.6.0 it raises ValueError ("object __array__ method not producing an
# array"), and so does every function of NumPy, np.asarray included. The tensor's __array__ returns the scalar of ml_dtypes, which is
# no array; NumPy passes over the same slip for the scalars of its own types. So code that is tested on batches, or in float16, fails
# at its first scalar loss in bfloat16 or float8. np.asarray(tensor.numpy()) and float(tensor) work.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0 numpy==2.4.6 ml_dtypes==0.6.0

cat > "$scratch/seen.py" <<'EOF'
import ml_dtypes
import numpy as np
import tensorflow as tf

print("tensorflow", tf.__version__, "numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
for dtype in ("float16", "bfloat16", "float8_e5m2"):
    for value in (1.5, [1.5]):
        tensor = tf.cast(tf.constant(value), dtype)
        try:
            said = np.isfinite(tensor)
        except ValueError as error:
            said = f"ValueError: {error}"
        print(f"{dtype:<11} shape {tuple(tensor.shape)!s:<4} np.isfinite: {said}; of .numpy(): {np.isfinite(tensor.numpy())}")
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow 2.21.0 numpy 2.4.6 ml_dtypes 0.6.0
float16     shape ()   np.isfinite: True; of .numpy(): True
float16     shape (1,) np.isfinite: [ True]; of .numpy(): [ True]
bfloat16    shape ()   np.isfinite: ValueError: object __array__ method not producing an array; of .numpy(): True
bfloat16    shape (1,) np.isfinite: [ True]; of .numpy(): [ True]
float8_e5m2 shape ()   np.isfinite: ValueError: object __array__ method not producing an array; of .numpy(): True
float8_e5m2 shape (1,) np.isfinite: [ True]; of .numpy(): [ True]
EOF
echo "as seen before"
