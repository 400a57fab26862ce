"""Whole LSTM layers in one operation (family `nn`): kernels in float32 only, two steps, one unit."""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Interval, OpSpec

# Gates far from 0 and 1: their slopes s (1 - s) are differences, of which single precision keeps few digits there.
UNSATURATED = Interval(-1.0, 1.0)

CALL = (
    "tf.cast(tf.raw_ops.{op}(seq_len_max=2, x=tf.cast({{0}}, tf.float32), w=tf.cast({{1}}, tf.float32), "
    "b=tf.cast({{2}}, tf.float32), h_prev=tf.cast({{3}}, tf.float32), cs_prev=tf.cast({{4}}, tf.float32), "
    "wci=[0.0], wcf=[0.0], wco=[0.0], cell_clip=0.0, use_peephole=False).{output}, tf.float64)"
)
# The cell with a forget gate; `kept` is the output (0), the cell's state (1) or the output gate (2).
FORMULA = (
    "(lambda gates: (lambda cell: (lambda first: (lambda second: tf.stack([first[{kept}], second[{kept}]], -3))("
    "cell({{0}}[..., 1, :, :], *first)))(cell({{0}}[..., 0, :, :], {{3}}, {{4}})))(lambda x, h, c, *_: "
    "(lambda i, f, g, o: (lambda c: (o * tf.tanh(c), c, o))(f * c + i * g))("
    "*gates(tf.concat([x, h], -1) @ {{1}} + {{2}}[..., tf.newaxis, :]))))(lambda z: (tf.sigmoid(z[..., :1]), "
    "tf.sigmoid(z[..., {f}:{f} + 1]{bias}), tf.tanh(z[..., {g}:{g} + 1]), tf.sigmoid(z[..., 3:])))"
)
V1 = {"f": 2, "g": 1, "bias": " + 1.0"}  # the gates in the order i, g, f, o; the forget bias defaults to 1
V2 = {"f": 1, "g": 2, "bias": ""}


def _layer(shape: Shape) -> list[tuple[Shape, ...]]:
    if len(shape) != 3 or shape[0] != 2 or not all(shape):
        return []
    _, batch, features = shape
    return [(shape, (features + 1, 4), (4,), (batch, 1), (batch, 1))]


def _lstm(name: str, op: str, output: str, formula: str) -> OpSpec:
    return OpSpec(
        name,
        "nn",
        CALL.format(op=op, output=output),
        (op,),
        arity=5,
        looped=True,
        shapes=_layer,
        starts=((2, 1, 1), (2, 1, 2), (2, 2, 1)),
        domains=(UNSATURATED,),
        reference=formula,
        rtol=1e-5,
        orders=(1,),  # BlockLSTMGrad has no registered gradient
    )


OPERATIONS = (
    _lstm("block_lstm", "BlockLSTM", "h", FORMULA.format(kept=0, **V1)),
    _lstm("block_lstm_v2", "BlockLSTMV2", "h", FORMULA.format(kept=0, **V2)),
    _lstm("block_lstm_state", "BlockLSTM", "cs", FORMULA.format(kept=1, **V1)),
    _lstm("block_lstm_gate", "BlockLSTM", "o", FORMULA.format(kept=2, **V1)),
)
