"""Functions that take gradients with tapes, as source text: right ones, and ones that are broken in one known way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from gradcheck.result import Cause

from . import program_faults as covered
from . import program_faults as path
from .right_programs import RIGHT, Text
from .values import Draw, index

Builder = Callable[[Text], None]


@dataclass(frozen=True)
class WrittenProgram:
    """A module with a function `program()`, the cause that breaks it (None: it is right), the line, and the builder.

    `step`: the function is a training step, which returns its loss and its gradients with respect to x and w.
    """

    text: str
    cause: Cause | None
    line: int | None
    kind: str
    step: bool = False


BROKEN: dict[Cause, Sequence[Builder]] = {
    Cause.OUTSIDE_TAPE: (
        *(covered.outside_before, covered.outside_partly, covered.outside_stopped, covered.outside_after),
    ),
    Cause.NOT_WATCHED: (covered.unwatched_tensor, covered.unwatched_variable, covered.watched_late),
    Cause.NON_TRAINABLE: (covered.not_trainable,),
    Cause.REPLACED: (covered.replaced, covered.replaced_in_a_loop),
    Cause.NUMPY: (path.numpy_step,),
    Cause.DTYPE: (path.integer_source, path.string_step),
    Cause.STATE: (path.through_a_variable,),
    Cause.NO_GRADIENT: (path.unregistered,),
    Cause.NOT_DIFFERENTIABLE: (path.not_differentiable,),
    Cause.STOP_GRADIENT: (path.stopped,),
    Cause.TAKEN_OUTSIDE: (covered.swapped, covered.taken_outside),
    Cause.USED_TAPE: (covered.used,),
    Cause.CUSTOM_GRADIENT: (path.custom,),
    Cause.CHANGED_AFTERWARDS: (path.changed,),
}
EAGER = (path.numpy_step, path.string_step)
STEPS = (path.changed,)
TRACED_SHARE = 6


def _written(draw: Draw, builder: Builder, cause: Cause | None) -> WrittenProgram:
    text = Text(draw)
    text.traced = builder not in EAGER and text.flag(TRACED_SHARE)
    builder(text)
    source, line = text.module()
    return WrittenProgram(source, cause, line, builder.__name__, builder in STEPS)


@st.composite
def broken_programs(draw: Draw, cause: Cause | None = None) -> WrittenProgram:
    """Programs that are broken in exactly one way, drawn or given."""
    chosen = list(BROKEN)[index(draw, len(BROKEN))] if cause is None else cause
    builders = BROKEN[chosen]
    return _written(draw, builders[index(draw, len(builders))], chosen)


@st.composite
def right_programs(draw: Draw) -> WrittenProgram:
    """Programs whose gradients are right."""
    return _written(draw, RIGHT[index(draw, len(RIGHT))], None)
