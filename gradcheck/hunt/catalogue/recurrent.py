"""The kernels of LSTM layers (family `nn`).

They exist in single precision only: differences are taken of a formula in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import float32, operation, tf
from gradcheck.hunt.catalogue.shapes import at_least
from gradcheck.hunt.opspec import Formula, Interval, OpSpec

_nn = partial(operation, "nn")


def lstm_kernel(kernel: Callable[..., tf.Tensor], *arguments: tf.Tensor, clip: float = 0.0) -> tf.Tensor:
    """All results of two steps of an LSTM layer in one operation, in single precision; maybe with peepholes."""
    x, w, b, h, c, *peepholes = float32(*arguments)
    wci, wcf, wco = peepholes or ([0.0], [0.0], [0.0])
    flags = {"cell_clip": clip, "use_peephole": bool(peepholes)}
    return kernel(seq_len_max=2, x=x, w=w, b=b, h_prev=h, cs_prev=c, wci=wci, wcf=wcf, wco=wco, **flags)


def lstm_steps(
    x: tf.Tensor,
    w: tf.Tensor,
    b: tf.Tensor,
    h: tf.Tensor,
    c: tf.Tensor,
    *peepholes: tf.Tensor,
    order: str = "igfo",
    forget_bias: float = 1.0,
    clip: float = np.inf,
) -> list[tf.Tensor]:
    """Two steps of an LSTM with one unit: its outputs, its states and its output gates.

    `order` are the columns of the input gate, the candidate, the forget gate and the output gate.
    """
    wci, wcf, wco = [one[..., tf.newaxis, :] for one in peepholes] or [0.0] * 3
    steps = []
    for step in (0, 1):
        z = tf.concat([x[..., step, :, :], h], -1) @ w + b[..., tf.newaxis, :]
        gate = {name: z[..., column : column + 1] for column, name in enumerate(order)}
        kept = tf.sigmoid(gate["f"] + forget_bias + wcf * c) * c
        c = tf.clip_by_value(kept + tf.sigmoid(gate["i"] + wci * c) * tf.tanh(gate["g"]), -clip, clip)
        output = tf.sigmoid(gate["o"] + wco * c)
        h = output * tf.tanh(c)
        steps.append((h, c, output))
    return [tf.stack(kept, -3) for kept in zip(*steps, strict=True)]


def _lstm(
    name: str, source: Formula, gradient: str, reference: Formula, *, peepholes: int = 0, **fields: Any
) -> OpSpec:
    # The gates are kept far from 0 and 1: their slopes s (1 - s) are differences, of which single precision keeps few
    # digits there.
    return _nn(
        name,
        source,
        gradient,
        Interval(-1.0, 1.0),
        looped=True,
        shapes=at_least(2, 1, 1),
        when=lambda shape: shape[0] == 2,
        others=lambda shape: [((shape[2] + 1, 4), (4,), (shape[1], 1), (shape[1], 1), *[(1,)] * peepholes)],
        starts=((2, 1, 1), (2, 1, 2), (2, 2, 1)),
        reference=reference,
        rtol=1e-5,
        **fields,
    )


RECURRENT = (
    _lstm(
        "block_lstm",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).h, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[0],
    ),
    _lstm(
        "block_lstm_v2",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTMV2, x, w, b, h, c).h, tf.float64),
        "BlockLSTMV2",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c, order="ifgo", forget_bias=0.0)[0],
    ),
    _lstm(
        "block_lstm_state",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).cs, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[1],
    ),
    _lstm(
        "block_lstm_gate",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).o, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[2],
    ),
    _lstm(
        "block_lstm_v2_peepholes",
        lambda x, w, b, h, c, wci, wcf, wco: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTMV2, x, w, b, h, c, wci, wcf, wco).h, tf.float64
        ),
        "BlockLSTMV2",
        lambda x, w, b, h, c, wci, wcf, wco: lstm_steps(x, w, b, h, c, wci, wcf, wco, order="ifgo", forget_bias=0.0)[0],
        peepholes=3,
    ),
    _lstm(
        "block_lstm_peepholes",
        lambda x, w, b, h, c, wci, wcf, wco: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c, wci, wcf, wco).cs, tf.float64
        ),
        "BlockLSTM",
        lambda x, w, b, h, c, wci, wcf, wco: lstm_steps(x, w, b, h, c, wci, wcf, wco)[1],
        peepholes=3,
    ),
    _lstm(
        "block_lstm_clipped",
        lambda x, w, b, h, c, *, clip: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c, clip=clip).h, tf.float64
        ),
        "BlockLSTM",
        lambda x, w, b, h, c, *, clip: lstm_steps(x, w, b, h, c, clip=clip)[0],
        clip=(0.0625,),
    ),
)
