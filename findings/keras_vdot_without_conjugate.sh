#!/usr/bin/env bash
# The guess: keras.ops.vdot says that it takes the complex conjugate of its first argument, so vdot(z, z) is |z|^2 whatever the backend,
# in the precision of z.
#
# What happens: with Keras 3.15.1 on TensorFlow 2.21.0 it is z^2, without a conjugate, and its gradient is that of z^2; with the JAX
# and the NumPy backend it is |z|^2. With all three, two arguments in complex128 come back in complex64. A loss that is to be real,
# such as vdot(residual, residual), is another number on each backend, and nothing shows on real numbers.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow==2.21.0 keras==3.15.1 jax==0.7.2

cat > "$scratch/seen.py" <<'EOF'
import keras
import numpy as np

z = np.array([1 + 2j, 3 - 1j])
product = np.asarray(keras.ops.convert_to_numpy(keras.ops.vdot(z, z)))
print(f"{keras.backend.backend():<10} vdot(z, z) = {complex(product):g}  {product.dtype};  numpy.vdot {complex(np.vdot(z, z)):g}")
EOF

cat > "$scratch/gradient.py" <<'EOF'
import keras
import tensorflow as tf

z = tf.constant([1 + 2j, 3 - 1j], tf.complex128)
with tf.GradientTape() as tape:
    tape.watch(z)
    loss = tf.math.real(keras.ops.vdot(z, z))
print("gradient of its real part", tape.gradient(loss, z).numpy().tolist(), "of |z|^2", (2 * z).numpy().tolist())
EOF

seen=$(
    export TF_CPP_MIN_LOG_LEVEL=3
    for backend in tensorflow jax numpy; do KERAS_BACKEND=$backend "$scratch/venv/bin/python" "$scratch/seen.py"; done
    KERAS_BACKEND=tensorflow "$scratch/venv/bin/python" "$scratch/gradient.py"
) 2> "$scratch/errors" || { cat "$scratch/errors" >&2; exit 1; }
echo "$seen"
diff - <(echo "$seen") <<'EOF'
tensorflow vdot(z, z) = 5-2j  complex64;  numpy.vdot 15+0j
jax        vdot(z, z) = 15+0j  complex64;  numpy.vdot 15+0j
numpy      vdot(z, z) = 15+0j  complex64;  numpy.vdot 15+0j
gradient of its real part [(2-4j), (6+2j)] of |z|^2 [(2+4j), (6-2j)]
EOF
echo "as seen before"
