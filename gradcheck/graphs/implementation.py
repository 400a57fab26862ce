"""From the source texts of the catalogue to callables. Only texts that stand in the catalogue are ever compiled."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.graphs.opspec import OpSpec

FIELD = re.compile(r"\{(\w+)\}")


@cache
def compiled(text: str, arity: int) -> Callable[..., Any]:
    """The callable of a source text: arguments by position, attributes by keyword."""
    names = sorted({name for name in FIELD.findall(text) if not name.isdigit()})
    arguments = [f"_{position}" for position in range(arity)]
    signature = ", ".join([*arguments, "*", *names] if names else arguments)
    body = FIELD.sub(lambda match: f"_{match[1]}" if match[1].isdigit() else match[1], text)
    function: Callable[..., Any] = eval(f"lambda {signature}: {body}", {"tf": tf, "np": np})
    return function


def single(spec: OpSpec, *, reference: bool = False) -> Callable[..., Any]:
    """The operation itself (or its reference) on one point."""
    return compiled(spec.reference if reference and spec.reference else spec.source, spec.arity)


def over_points(spec: OpSpec, *, reference: bool = False) -> Callable[..., Any]:
    """The operation on arguments with a leading dimension of points."""
    if reference and spec.reference:
        return compiled(spec.reference, spec.arity)
    if spec.looped:
        return _loop(compiled(spec.source, spec.arity))
    return compiled(spec.batched or spec.source, spec.arity)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **attributes: Any) -> Any:
        rows = [tf.unstack(argument) for argument in arguments]
        return tf.stack([function(*row, **attributes) for row in zip(*rows, strict=True)])

    return run
