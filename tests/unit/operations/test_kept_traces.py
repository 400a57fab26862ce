"""Functions and sessions that are made once: the gradients that they keep, and when these are forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.python.framework import ops

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import trial
from gradcheck.operations.language import traced_anew

WAYS = {
    "traced": Node.of("cond", 0, flag=True),
    "a loop": Node.of("scan", 0, reverse=False),
    "a session": Node.of("cond_of_tensorflow_1", 0, flag=True, known="shape"),
}


@pytest.mark.parametrize("node", WAYS.values(), ids=WAYS)
def test_a_gradient_that_was_replaced_is_not_kept_beyond_the_block(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph((Input((2,), (0.5, 2.0)),), (node,))

    def verdict() -> str:
        return str(trial.run(graph, (1,)).result.verdict)

    entry = ops.gradient_registry._registry["Sin"]
    right = entry["type"]
    assert verdict() == "agree"
    with traced_anew():
        monkeypatch.setitem(entry, "type", lambda op, cotangent: 1.5 * right(op, cotangent))
        assert verdict() == "mismatch"
        monkeypatch.setitem(entry, "type", right)
    assert verdict() == "agree"


def test_what_is_made_once_is_kept_otherwise() -> None:
    from gradcheck.operations.tensorflow_1 import session_of_tensorflow_1 as sessions

    graph: Any = Graph((Input((2,), (0.5, 2.0)),), (WAYS["a session"],))
    trial.run(graph, (1,))
    before = sessions.cache_info().misses
    trial.run(graph, (1,))
    assert sessions.cache_info().misses == before
