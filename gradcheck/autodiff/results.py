"""What somebody's function returns: the results that can be differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates

WANTED = "f has to return a floating or complex tensor, or a nested structure of them"
DENSE = (
    (tf.SparseTensor, "return tf.sparse.to_dense(y)"),
    (tf.RaggedTensor, "return y.to_tensor(), or y.flat_values"),
    (tf.IndexedSlices, "return tf.convert_to_tensor(y)"),
)
"""What is a tensor to TensorFlow, but has no array of its own, and how it gets one."""


def specs_of(result: Any) -> tuple[tf.TensorSpec, ...]:
    """The names, shapes and dtypes of what `f` returned. Raises TypeError and ValueError as `open_function` does."""
    flat = tf.nest.flatten(result)
    if not flat:
        raise TypeError(f"f returned {result!r}, which holds no tensor; {WANTED}")
    names = ["the result"] if len(flat) == 1 else [f"output {position}" for position in range(len(flat))]
    for name, value in zip(names, flat, strict=True):
        if value is None:
            raise TypeError(f"{name} of f is None; {WANTED} (is a return statement missing?)")
        if not tf.is_tensor(value):
            raise TypeError(
                f"{name} of f is of type {type(value).__name__}, not a tensor; {WANTED} "
                "(NumPy and Python numbers cut the gradient)"
            )
        for kind, remedy in DENSE:
            if isinstance(value, kind):
                raise TypeError(f"{name} of f is of type {kind.__name__}, not a dense tensor; {WANTED} ({remedy})")
        if value.dtype.name not in ROUNDOFF:
            raise TypeError(
                f"{name} of f has dtype {value.dtype.name}; {WANTED} (cast it, or return the part that has a gradient)"
            )
        finite = np.isfinite(to_coordinates(value.numpy()))
        if not finite.all():
            raise ValueError(
                f"{name} of f is NaN or Inf in {int(np.sum(~finite))} of {finite.size} coordinates at the inputs "
                "given; a derivative exists only where f is finite, give other inputs"
            )
    return tuple(tf.TensorSpec(value.shape, value.dtype, name) for name, value in zip(names, flat, strict=True))
