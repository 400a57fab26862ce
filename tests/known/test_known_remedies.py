"""A plain record has a remedy, which tests/properties/test_known.py runs, or there is a reason why it has none."""

from __future__ import annotations

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects.records import DEFECT
from gradcheck.result import Kind
from tests import records

WITHOUT = {
    "batch-norm-grad-stopped-mean": "the operation of the gradient; nothing else computes it",
    "batch-norm-grad-one-tensor": "tf.identity of one of both; what then is wrong is that the mean is held constant",
    "py-function-forgets-inputs": "the rows' values given as a tensor, which is another call",
    "block-lstm-other-outputs": "the cell written out is the remedy, at 30 lines",
    "block-lstm-clip": "the cell written out is the remedy, at 30 lines",
    "block-lstm-v2-gate-order": "the cell written out is the remedy, at 30 lines",
    "betainc-in-a-and-b": "TensorFlow has no other function with this derivative",
    "zeta-in-x": "TensorFlow has no other function with this derivative",
    "safe-reciprocal": "singular vectors that a scale does not help, as singular values are 0; the others have one",
    "crop-and-resize-on-pixel": "any subgradient would do; none is at hand",
    "igamma-large": "TensorFlow has no other function with this derivative",
    "ctc-loss-dense-large": "the loss is wrong as well; its recursion written out is the remedy, at 20 lines",
    "truncated-normal-bounds": "an implicit derivative, which takes a custom gradient",
    "max-pool3d-ties": "any subgradient would do",
    "float8-outside-of-functions": "a tf.function around the layer; what arrives is rounded to 8 bits, as is meant",
}
"""Root causes whose plain records have no short remedy, with the reason."""


def test_a_plain_defect_has_a_remedy_or_a_reason() -> None:
    kinked = (Kind.SUBDIFFERENTIAL,)
    bare = [
        one.name
        for one in records.DEFECTS
        if one.remedy is None
        and one.signature.taken == PLAIN
        and one.category == DEFECT
        and one.kind not in kinked
        and one.cause not in WITHOUT
    ]
    assert bare == []
