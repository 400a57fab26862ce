"""A tf.function or a tf.cond as the tape outside sees it: one operation, whose gradient has parts for all outputs.

Whatever is connected to any output has a gradient, of zeros if that output is not among the targets; what a branch
does not use has one, if another branch uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.programs.application import Application, Compute, Operation, Parts
from gradcheck.programs.operations import MUL, zeros_like
from gradcheck.programs.record import Record
from gradcheck.programs.reverse import gradient
from gradcheck.programs.seen import evaluate
from gradcheck.programs.stage import Stage
from gradcheck.programs.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Body:
    """What a function or one branch computes: everything is recorded; `inputs` are what it takes or captures."""

    record: Record
    outputs: tuple[Tensor, ...]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Arguments, captured tensors and captured handles."""
        return tuple(tensor for tensor, application in self.record.entries.items() if application is None)


def block(name: str, stage: Stage, bodies: tuple[Body, ...], taken: int) -> tuple[Operation, tuple[Tensor, ...]]:
    """The operation that computes the outputs of the body `taken`, and its inputs."""
    inputs = tuple(dict.fromkeys(tensor for body in bodies for tensor in body.inputs))
    body = bodies[taken]

    def forward(*arrays: Array) -> tuple[Array, ...]:
        moved = {tensor: array - tensor.value for tensor, array in zip(inputs, arrays, strict=True)}
        return tuple(evaluate(body.record, body.outputs, moved))

    def backward(compute: Compute, at: Application, ups: tuple[Tensor, ...]) -> Parts:
        stage.blocked += bool(stage.active)
        connected = [_connected(one, inputs) for one in bodies]
        flows = _pulled(body, inputs, ups)
        return tuple(
            (flow or zeros_like(tensor)) if any(one[position] for one in connected) else None
            for position, (tensor, flow) in enumerate(zip(inputs, flows, strict=True))
        )

    return Operation(name, forward, backward), inputs


def _connected(body: Body, inputs: tuple[Tensor, ...]) -> list[bool]:
    targets = [output for output in body.outputs if output.floating]
    return [part is not None for part in gradient(body.record, targets, inputs, Stage().apply)]


def _pulled(body: Body, inputs: tuple[Tensor, ...], ups: tuple[Tensor, ...]) -> list[Tensor | None]:
    """The gradients of the outputs weighted with `ups`."""
    stage = Stage(active=[body.record])
    pairs = [(output, up) for output, up in zip(body.outputs, ups, strict=True) if output.floating]
    weighted = [stage.apply(MUL, output, up) for output, up in pairs]
    return gradient(body.record, weighted, inputs, Stage().apply)
