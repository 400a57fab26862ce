"""Small data sets that are read many times, without the threads that tune a pipeline for a large one.

To start and to stop these takes longer than to read a few elements, and so does what Keras makes of arrays.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def untuned(rows: Any) -> Any:
    """A data set of the rows of an array, or of each of several.

    >>> [float(row) for row in untuned([0.5, 1.5])]
    [0.5, 1.5]
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    return tf.data.Dataset.from_tensor_slices(rows).with_options(options)
