#!/usr/bin/env bash
# The guess: np.isnan and np.max know a NaN in bfloat16, so what NumPy has for NaN works there as in float16: np.nan_to_num takes it
# out of a gradient, np.nanmean and np.nansum leave it out, np.sort puts it last, and the median of what holds one is NaN.
#
# What happens: with NumPy 2.4.6 and ml_dtypes 0.6.0 np.nan_to_num returns the NaN as it was, without a warning, and np.nanmean and
# np.nansum are NaN: they act on types below np.inexact, of which bfloat16 is none. np.sort puts nothing across a NaN: large numbers stay
# before it and small ones behind, in np.unique, too. np.median does not look for NaN in such a type, and takes what comes to lie in
# the middle, here the NaN and there the largest of the numbers. np.max, np.nanmax and np.nanmedian are right.
#
# The right values are those of the same numbers in float16.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.6.0

cat > "$scratch/seen.py" <<'EOF'
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
for name in ("isnan", "max", "nanmax", "nanmedian", "nan_to_num", "nansum", "nanmean", "sort", "unique", "median"):
    for numbers in ([4, 3, np.nan, 2, 1], [2, 1, np.nan]):
        said = [np.asarray(getattr(np, name)(np.array(numbers, dtype))).tolist() for dtype in (np.float16, ml_dtypes.bfloat16)]
        alike = np.array_equal(*said, equal_nan=True)
        print(f"{name:<10} of {numbers}: {said[0]}" + (" in both" if alike else f" in float16, {said[1]} in bfloat16"))
EOF

seen=$("$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
numpy 2.4.6 ml_dtypes 0.6.0
isnan      of [4, 3, nan, 2, 1]: [False, False, True, False, False] in both
isnan      of [2, 1, nan]: [False, False, True] in both
max        of [4, 3, nan, 2, 1]: nan in both
max        of [2, 1, nan]: nan in both
nanmax     of [4, 3, nan, 2, 1]: 4.0 in both
nanmax     of [2, 1, nan]: 2.0 in both
nanmedian  of [4, 3, nan, 2, 1]: 2.5 in both
nanmedian  of [2, 1, nan]: 1.5 in both
nan_to_num of [4, 3, nan, 2, 1]: [4.0, 3.0, 0.0, 2.0, 1.0] in float16, [4.0, 3.0, nan, 2.0, 1.0] in bfloat16
nan_to_num of [2, 1, nan]: [2.0, 1.0, 0.0] in float16, [2.0, 1.0, nan] in bfloat16
nansum     of [4, 3, nan, 2, 1]: 10.0 in float16, nan in bfloat16
nansum     of [2, 1, nan]: 3.0 in float16, nan in bfloat16
nanmean    of [4, 3, nan, 2, 1]: 2.5 in float16, nan in bfloat16
nanmean    of [2, 1, nan]: 1.5 in float16, nan in bfloat16
sort       of [4, 3, nan, 2, 1]: [1.0, 2.0, 3.0, 4.0, nan] in float16, [3.0, 4.0, nan, 1.0, 2.0] in bfloat16
sort       of [2, 1, nan]: [1.0, 2.0, nan] in both
unique     of [4, 3, nan, 2, 1]: [1.0, 2.0, 3.0, 4.0, nan] in float16, [3.0, 4.0, nan, 1.0, 2.0] in bfloat16
unique     of [2, 1, nan]: [1.0, 2.0, nan] in both
median     of [4, 3, nan, 2, 1]: nan in both
median     of [2, 1, nan]: nan in float16, 2.0 in bfloat16
EOF
echo "as seen before"
