"""Signals in frames, and what is made of frames.

Spectrograms, cosine transforms, windows (`signal`); losses of labels for sequences of frames, CTC (`nn`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import along_axis, operation, tf
from gradcheck.hunt.catalogue.shapes import at_least, axes, nonempty_matrix, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE

_signal = partial(operation, "signal", shapes=vector)
_long = partial(_signal, when=lambda shape: shape[-1] >= 4, starts=((4,), (5,), (8,), (2, 4)))
_shifted = partial(_signal, batching=along_axis, starts=((2,), (3,), (2, 3)), axis=axes)
_of_coefficients = partial(_signal, starts=((2,), (3,), (4,), (2, 3)))
_of_frames = partial(_signal, shapes=nonempty_matrix)


def _frame_steps(shape: Shape) -> range:
    return range(1, shape[-1] + 1)


def loss_of_sequence(x: tf.Tensor, labels: Any, blank: int, *, merged: bool = True) -> tf.Tensor:
    """Minus the log of the probability that the classes of all frames collapse to the labels.

    A frame leads from a label or blank to itself, to the next, or over a blank between labels that differ (Graves et
    al., "Connectionist temporal classification", 2006, section 4.1). Where repetitions are not merged, a label stands
    at one frame only, and needs no blank before an equal one.
    """
    impossible = -1e300  # the logarithm of 0, but differences of it exist
    blank %= x.shape[-1]
    states = [blank, *(state for label in labels for state in (label, blank))]
    log_p = tf.gather(tf.nn.log_softmax(x), states, axis=-1)
    here, there = np.indices([len(states)] * 2)
    stays = (there == here) & (merged | (there % 2 == 0))
    leaps = (there == here + 2) & (there % 2 == 1) & ((not merged) | np.not_equal.outer(states, states))
    ways = np.where(stays | (there == here + 1) | leaps, 0.0, impossible)
    reached = log_p[..., 0, :] + np.where(there[0] < 2, 0.0, impossible)
    for frame in range(1, x.shape[-2]):
        reached = log_p[..., frame, :] + tf.reduce_logsumexp(reached[..., tf.newaxis] + ways, -2)
    return -tf.reduce_logsumexp(reached[..., -2:], -1)


def losses_of_sequences(
    x: tf.Tensor,
    *,
    labels: Any,
    cut: int,
    blank: int = -1,
    merged: bool = True,
    collapsed: bool = False,
    **_ways: Any,
) -> tf.Tensor:
    """The losses of two sequences, of which the second has fewer frames; one with more labels than frames has none."""
    losses = []
    for row, (sequence, frames) in enumerate(zip(labels, (x.shape[-2], x.shape[-2] - cut), strict=True)):
        kept = [one for at, one in enumerate(sequence) if not (collapsed and at and sequence[at - 1] == one)]
        classes = [label + (0 <= blank <= label) for label in kept]
        part = x[..., row, :frames, :]
        fits = len(kept) <= frames
        losses.append(loss_of_sequence(part, classes, blank, merged=merged) if fits else 0.0 * part[..., 0, 0])
    return tf.stack(losses, -1)


def sparse_labels(labels: Any) -> tf.SparseTensor:
    places = [(row, place) for row, sequence in enumerate(labels) for place in range(len(sequence))]
    return tf.sparse.SparseTensor(places, [label for sequence in labels for label in sequence], [len(labels), 3])


def ctc_loss_of_batch(x: tf.Tensor, *, labels: Any, cut: int, collapsed: bool, merged: bool) -> tf.Tensor:
    """The losses of two sequences of frames, (2, frames, classes); the last class is the blank."""
    given = sparse_labels(labels)
    return tf.raw_ops.CTCLoss(
        inputs=tf.transpose(x, [1, 0, 2]),
        labels_indices=given.indices,
        labels_values=given.values,
        sequence_length=[x.shape[1], x.shape[1] - cut],
        preprocess_collapse_repeated=collapsed,
        ctc_merge_repeated=merged,
        ignore_longer_outputs_than_inputs=True,
    ).loss


def ctc_loss_of_labels(x: tf.Tensor, *, labels: Any, cut: int, blank: int, time_major: bool, form: str) -> tf.Tensor:
    """The losses of two sequences of frames, (2, frames, classes); labels are counted without the blank."""
    classes = [[label + (0 <= blank <= label) for label in sequence] for sequence in labels]
    frames, logits = [x.shape[1], x.shape[1] - cut], tf.transpose(x, [1, 0, 2]) if time_major else x
    if form == "sparse":
        return tf.nn.ctc_loss(sparse_labels(classes), logits, None, frames, time_major, None, blank)
    padded = [(*sequence, 0, 0, 0)[:3] for sequence in classes]
    unique = tf.nn.ctc_unique_labels(padded) if form == "unique" else None
    counts, single = [len(sequence) for sequence in labels], tf.cast(logits, tf.float32)
    return tf.cast(tf.nn.ctc_loss(padded, single, counts, frames, time_major, unique, blank), tf.float64)


SEQUENCES = ((0, 1), (1,)), ((0, 0), (1, 0)), ((1, 0, 1), (1,))

_ctc_batch = partial(
    operation,
    "nn",
    looped=True,
    shapes=at_least(2, 4, 3),
    when=lambda shape: shape[0] == 2,
    starts=((2, 4, 3), (2, 5, 3), (2, 4, 4)),
    labels=SEQUENCES,
    reference=losses_of_sequences,
    # The kernel, too, takes logarithms of sums in float32 (ctc_loss_util.h): a few units of 2**-24 a step.
    rtol=1e-6,
)


_ctc_labels = partial(_ctc_batch, cut=(0, 1), blank=(0, -1, 1), time_major=BOOL)

FRAMES = (
    _shifted("fftshift", lambda x, *, axis: tf.signal.fftshift(x, axes=axis), "Roll"),
    _shifted("ifftshift", lambda x, *, axis: tf.signal.ifftshift(x, axes=axis), "Roll"),
    _signal(
        "frame",
        lambda x, *, length, step, padded, axis: tf.signal.frame(
            x, length, step, pad_end=padded, pad_value=2.0, axis=axis
        ),
        "GatherV2 Reshape",
        batching=along_axis,
        starts=((3,), (4,), (2, 3)),
        length=(2, 1),
        step=(1, 2, 3),
        padded=BOOL,
        axis=axes,
        when=lambda shape: min(shape) > 1,
    ),
    _of_frames(
        "overlap_and_add",
        lambda x, *, step: tf.signal.overlap_and_add(x, step),
        "Sum Pad",
        starts=((2, 2), (3, 2), (2, 3), (2, 2, 2)),
        step=_frame_steps,
    ),
    _long(
        "stft",
        lambda x, *, length, step, bins, windowed, padded: tf.signal.stft(
            x, length, step, fft_length=bins, window_fn=[None, tf.signal.hann_window][windowed], pad_end=padded
        ),
        "RFFT",
        result="complex128",
        length=(4, 3, 2),
        step=(1, 2, 3),
        bins=(None, 4, 8),
        windowed=BOOL,
        padded=BOOL,
    ),
    _of_frames(
        "inverse_stft",
        lambda x, *, length, step, window: tf.signal.inverse_stft(
            x,
            length,
            step,
            fft_length=2 * x.shape[-1] - 2,
            window_fn=[None, tf.signal.hann_window, tf.signal.inverse_stft_window_fn(step)][window],
        ),
        "IRFFT",
        when=lambda shape: shape[-1] > 1,
        starts=((2, 3), (1, 2), (2, 2, 3)),
        dtypes=("complex128",),
        length=lambda shape: (2 * shape[-1] - 2, 2, 2 * shape[-1]),
        step=(1, 2),
        window=(0, 1, 2),
    ),
    _long(
        "mdct",
        lambda x, *, length, windowed, padded, norm: tf.signal.mdct(
            x, length, window_fn=[None, tf.signal.vorbis_window][windowed], pad_end=padded, norm=norm
        ),
        "RFFT Real",
        length=(4, 8),
        windowed=BOOL,
        padded=lambda shape: (True, False) if shape[-1] >= 8 else (True,),
        norm=(None, "ortho"),
    ),
    _of_frames(
        "inverse_mdct",
        lambda x, *, windowed, norm: tf.signal.inverse_mdct(
            x, window_fn=[None, tf.signal.vorbis_window][windowed], norm=norm
        ),
        "Real",
        when=lambda shape: shape[-1] % 2 == 0,
        starts=((2, 2), (1, 4), (2, 2, 2)),
        windowed=BOOL,
        norm=(None, "ortho"),
    ),
    _of_coefficients(
        "idct",
        lambda x, *, type, norm: tf.signal.idct(x, type=type, norm=norm),
        "RFFT",
        type=(2, 3, 4),
        norm=(None, "ortho"),
    ),
    _of_coefficients("idct_type_1", lambda x: tf.signal.idct(x, type=1), "RFFT", when=lambda shape: shape[-1] > 1),
    _of_coefficients("mfccs_from_log_mel_spectrograms", lambda x: tf.signal.mfccs_from_log_mel_spectrograms(x), "RFFT"),
    operation(
        "signal",
        "kaiser_window",
        lambda x, *, length: tf.signal.kaiser_window(length, beta=x, dtype=tf.float64),
        "BesselI0e",
        POSITIVE,
        looped=True,
        when=lambda shape: shape == (),
        starts=((),),
        length=(3, 4, 2),
    ),
    _ctc_batch(
        "ctc_loss_of_batch",
        ctc_loss_of_batch,
        "CTCLoss",
        cut=lambda shape: (0, 1, shape[1] - 1),
        collapsed=BOOL,
        merged=(True, False),
    ),
    _ctc_labels(
        "ctc_loss_of_sparse_labels",
        ctc_loss_of_labels,
        "CTCLoss ConcatV2 Transpose",
        form=("sparse",),
    ),
    # In forward mode every loop of it is traced anew, a second each time: ctc_loss_dense is drawn in modes.
    _ctc_labels(
        "ctc_loss_of_dense_labels",
        ctc_loss_of_labels,
        "Cast ConcatV2 Transpose",
        form=("dense", "unique"),
        labels=(*SEQUENCES, ((1, 0), ())),
        modes=(),
    ),
)
