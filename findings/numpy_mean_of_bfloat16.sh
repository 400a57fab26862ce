#!/usr/bin/env bash
# The guess: np.mean adds up float16 in float32, as its documentation says, so it adds up the coarser bfloat16 in float32, too; and
# where np.sum does not, it adds in pairs. The mean of a thousand ones is 1, and their variance 0.
#
# What happens: with NumPy 2.4.6 and ml_dtypes 0.6.0 the mean of a thousand ones in bfloat16 is 0.2559, their variance is 0.2559 and
# their sum 256, whatever the shape and number, silently: they are added one by one in bfloat16, where 256 + 1 is 256. So a loss or
# a metric that is averaged with NumPy over a batch is smaller the larger the batch is, and np.std of what is constant is not 0.
# np.dot, np.convolve and np.percentile are right, and so is dtype=np.float32. In float8_e8m0fnu, the type of the scales of MX blocks,
# the sum of anything is NaN: np.sum begins with 0, which that type does not have.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.6.0

cat > "$scratch/seen.py" <<'EOF'
import ml_dtypes
import numpy as np

print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
for dtype in (np.float16, ml_dtypes.bfloat16):
    for shape in ((1000,), (40, 1000)):
        ones = np.ones(shape, dtype)
        print(
            f"{np.dtype(dtype).name:<8} ones {shape}: mean {ones.mean()}, variance {ones.var()}, sum {ones.sum()},"
            f" mean with dtype=np.float32 {ones.mean(dtype=np.float32)}"
        )
scales = np.ones(4, ml_dtypes.float8_e8m0fnu)
print(f"float8_e8m0fnu, 4 ones: sum {scales.sum()}, max {scales.max()}, with dtype=np.float32 {scales.sum(dtype=np.float32)}")
EOF

seen=$("$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
numpy 2.4.6 ml_dtypes 0.6.0
float16  ones (1000,): mean 1.0, variance 0.0, sum 1000.0, mean with dtype=np.float32 1.0
float16  ones (40, 1000): mean 1.0, variance 0.0, sum 40000.0, mean with dtype=np.float32 1.0
bfloat16 ones (1000,): mean 0.255859375, variance 0.255859375, sum 256.0, mean with dtype=np.float32 1.0
bfloat16 ones (40, 1000): mean 0.00640869140625, variance 0.00640869140625, sum 256.0, mean with dtype=np.float32 1.0
float8_e8m0fnu, 4 ones: sum nan, max 1.0, with dtype=np.float32 4.0
EOF
echo "as seen before"
