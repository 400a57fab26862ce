"""Spectra, correlations, quantiles beside NaN, complex numbers, scattering (families `signal`, `math`, `array`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.keras_layers import spread
from gradcheck.hunt.catalogue.keras_statistics import from_ties_of_quantile
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least, broadcasting, several, vector
from gradcheck.hunt.opspec import BOOL, Indices

_signal = partial(operation, "signal", window=("hann", "hamming", None), centred=BOOL)
_correlation = partial(operation, "math", shapes=vector, when=several, others=alike, starts=((2,), (3,), (2, 3)))

KERAS_SIGNAL = (
    _signal(
        "keras_stft",
        lambda x, *, stride, window, centred, which: tf.keras.ops.stft(x, 4, stride, 4, window=window, center=centred)[
            which
        ],
        "RFFT MirrorPad",
        shapes=at_least(4),
        starts=((4,), (6,), (5,)),
        stride=(2, 1),
        which=(0, 1),
    ),
    _signal(
        "keras_istft",
        lambda x, y, *, stride, window, centred: tf.keras.ops.istft(
            (x, y), 4, stride, 4, window=window, center=centred
        ),
        "IRFFT Complex",
        shapes=at_least(2, 3),
        when=lambda shape: shape[-1] == 3,
        others=lambda shape: [(shape,)],
        starts=((2, 3), (3, 3)),
        stride=(2, 1),
    ),
    operation(
        "math",
        "keras_polar",
        lambda x, y: tf.keras.ops.polar(x, y),
        "Cos Sin Complex Mul",
        shapes=broadcasting,
        broadcasts=True,
        result="complex128",
    ),
    operation(
        "array",
        "keras_scatter_multiply",
        lambda x, y, *, ids: tf.keras.ops.scatter_update(x, [[index] for index in ids], y, reduction="mul"),
        "TensorScatterUpdate GatherNd",
        looped=True,
        shapes=vector,
        others=lambda shape: [((2, *shape[1:]),)],
        starts=((2,), (3,), (2, 2)),
        ids=lambda shape, *_: Indices(2, shape[0]),
    ),
    # Along an axis every row is a call of its own in a tf.map_fn, as mapped operations have it.
    operation(
        "math",
        "keras_nanquantile",
        lambda x, *, q, method: tf.keras.ops.nanquantile(
            tf.concat([x, tf.zeros_like(x) + np.nan], 0), q, method=method
        ),
        "SelectV2 GatherV2 TopKV2",
        looped=True,
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
        q=(0.25, 0.9, 0.0, 1.0),  # of equal elements the median is odd: no line shows its kink
        method=("linear", "lower", "higher", "midpoint", "nearest"),
        kinks=partial(from_ties_of_quantile, axis=None),
    ),
    _correlation(
        "keras_pearson_correlation",
        lambda x, y: tf.keras.metrics.pearson_correlation(x, y),
        "RealDiv Sqrt Mean",
        singular=lambda x, y: np.stack([np.std(x, axis=-1), np.std(y, axis=-1)]),
    ),
    _correlation(
        "keras_concordance_correlation",
        # Where all are equal it bends with a second derivative of 1e7; what is added keeps some apart.
        lambda x, y: tf.keras.metrics.concordance_correlation(x, y + spread(y.shape[-1])),
        "RealDiv Square Mean",
    ),
)
