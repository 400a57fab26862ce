#!/usr/bin/env bash
# The guess: keras.layers.RMSNormalization(axis=1) divides by the root mean square along axis 1, and has a weight for each place on
# that axis, by which it multiplies that place, as keras.layers.LayerNormalization(axis=1) does.
#
# What happens: in Keras 3.15.1 the weight has the size of axis 1, but is multiplied onto the last axis. If the two sizes differ the
# call raises; if they are equal, as for 8 channels of 8 columns, it runs: channel 1 with the scale 100 is not scaled, column 1 of
# every channel is, and the weight's gradient is the sum over all channels. Where the scale is still 1, nothing shows.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1

cat > "$scratch/seen.py" <<'EOF'
import keras
import numpy as np

x = np.arange(1.0, 10.0, dtype="float32").reshape(1, 3, 3) ** 2
print("keras", keras.__version__, keras.backend.backend())
for kind in (keras.layers.LayerNormalization, keras.layers.RMSNormalization):
    layer = kind(axis=1)
    before = np.asarray(layer(x))
    layer.weights[0].assign([1.0, 100.0, 1.0])
    print(kind.__name__, "axis=1, scale [1, 100, 1]: y becomes larger by")
    print(np.round(np.asarray(layer(x)) / before)[0])
try:
    keras.layers.RMSNormalization(axis=1)(x[:, :, :2])
    print("a last axis of 2: no error")
except Exception as error:
    print("a last axis of 2:", type(error).__name__)
EOF

seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$scratch/venv/bin/python" "$scratch/seen.py" 2> "$scratch/errors") || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
keras 3.15.1 tensorflow
LayerNormalization axis=1, scale [1, 100, 1]: y becomes larger by
[[  1.   1.   1.]
 [100. 100. 100.]
 [  1.   1.   1.]]
RMSNormalization axis=1, scale [1, 100, 1]: y becomes larger by
[[  1. 100.   1.]
 [  1. 100.   1.]
 [  1. 100.   1.]]
a last axis of 2: InvalidArgumentError
EOF
echo "as seen before"
