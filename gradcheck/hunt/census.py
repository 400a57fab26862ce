"""The census of TensorFlow's registered gradients: which ones finite differences can check, and why not the others.

The table beside this file has one row per operation of the gradient registry of TensorFlow 2.18 to 2.21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any


class Judgement(str, Enum):
    """How a registered gradient is judged."""

    DIFFERENCES = "finite_difference"
    ORACLE = "other_oracle"
    NONE = "none_by_design"
    RAISES = "raises_by_design"
    TEST = "test"
    EXCLUDED = "excluded"


@dataclass(frozen=True)
class RegisteredGradient:
    """A row: operation, family, judgement, the reason where differences do not apply, and the gradient function."""

    operation: str
    family: str
    judgement: Judgement
    note: str
    function: str

    @property
    def reachable(self) -> bool:
        """Whether the hunt can run it on a CPU: in eager code, in a graph of either TensorFlow, by raw operations."""
        return self.judgement not in (Judgement.TEST, Judgement.EXCLUDED)


@cache
def census() -> Mapping[str, RegisteredGradient]:
    """The rows by operation.

    >>> census()["Sin"].judgement.value
    'finite_difference'
    """
    rows = rows_of("census.tsv")
    return {row[0]: RegisteredGradient(row[0], row[1], Judgement(row[2]), row[3], row[4]) for row in rows}


def rows_of(name: str) -> Iterator[list[str]]:
    """The rows of a table beside this file, without its header."""
    text = resources.files("gradcheck.hunt").joinpath(name).read_text(encoding="utf-8")
    return (line.split("\t") for line in text.splitlines()[1:])


def gradient_functions() -> dict[str, Any]:
    """The gradient functions of the installed TensorFlow by operation; None if registered as not differentiable."""
    from tensorflow.python.framework import ops

    from gradcheck.defects.kernel_use import gradients_registered

    gradients_registered()
    return {name: entry["type"] for name, entry in ops.gradient_registry._registry.items()}
