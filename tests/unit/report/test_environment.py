from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.hunt.environment import current


def test_it_says_what_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    rows = dict(current(seed=7).rows())
    assert rows["TensorFlow"] == tf.__version__
    assert rows["NumPy"] == np.__version__
    assert rows["TF_ENABLE_ONEDNN_OPTS"] == "1"
    assert rows["TF_CPP_MIN_LOG_LEVEL"] == "not set"
    assert rows["seed"] == "7"
    assert rows["processor"]


def test_no_seed_is_said() -> None:
    assert current().seed == "not set"
