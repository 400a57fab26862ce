"""Known defects of one mode: loaded, left out of generation in that mode, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from gradcheck.autodiff.mode import Mode
from gradcheck.defects import known
from gradcheck.defects.records import Defect
from gradcheck.documents import DocumentError, plain
from tests.records import COMMITTED, from_json


@pytest.fixture
def gaps() -> Defect:
    return next(one for one in known.load(COMMITTED) if one.name == "forward-segment_min-gaps-order1")


def test_a_defect_of_a_mode_concerns_that_mode_alone(gaps: Defect) -> None:
    assert gaps.signature.taken == Mode("forward")
    assert from_json(json.loads(json.dumps(plain(gaps)))) == gaps
    arguments = ("segment_min", {"ids": (1,)}, [np.array([2.0])], 1)
    assert gaps in known.current(Mode("forward"))
    assert gaps not in known.current()
    assert known.excludes(*arguments) is None
    assert known.excludes(*arguments, mode=Mode("forward")) is not None
    assert known.excludes(*arguments, mode=Mode("reverse", "tf.function")) is None


def test_forward_mode_leaves_out_what_a_pushforward_passes_through() -> None:
    pooled: Any = ("max_pool2d_padded", {}, [np.ones((2, 2, 1))], 1)
    assert known.excludes(*pooled) is None
    assert known.excludes(*pooled, mode=Mode("forward")) == "max_pool2d_padded-order2"
    assert known.everywhere("max_pool2d_padded", 1) is None
    assert known.everywhere("max_pool2d_padded", 1, mode=Mode("forward")) == "max_pool2d_padded-order2"
    gapped: Any = ("segment_mean", {"ids": (0, 2)}, [np.ones(2)], 2)
    assert known.excludes(*gapped) is None
    assert known.excludes(*gapped, mode=Mode("forward over forward")) == "segment_mean-gaps-order2"
    once: Any = (*gapped[:3], 1)
    assert known.excludes(*once, mode=Mode("forward")) == "segment_mean-gaps-order2"
    zero = ("reduce_prod", {"axis": -1, "keepdims": False}, [np.array([0.0, 2.0, 3.0])], 1)
    assert known.excludes(*zero, mode=Mode("forward")) is None
    assert known.excludes(*zero[:3], 2) == "reduce_prod-zero-order2"


def test_a_mode_that_there_is_not_is_refused(gaps: Defect) -> None:
    data = json.loads(json.dumps(plain(gaps)))
    data["signature"]["path"] = "sideways"
    with pytest.raises(DocumentError, match=r"\$\.signature.*'sideways'"):
        from_json(data)
