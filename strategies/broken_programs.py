"""Functions that take gradients with tapes, as source text: right ones, and ones that are broken in one known way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from gradcheck.result import Cause

from .right_programs import NONLINEAR, RIGHT, ProgramText
from .values import Draw, index

Builder = Callable[[ProgramText], None]


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


def outside_before(program: ProgramText) -> None:
    """A2, A4: a part is computed before the tape."""
    part = program.assign(program.choice(NONLINEAR).format("x"), planted=True)
    part = program.chain(part)
    loss = program.loss_under_tape(part, least=0)
    program.return_gradient(loss)


def outside_partly(program: ProgramText) -> None:
    """A3: one term is computed before the tape, another one inside."""
    part = program.assign(program.choice(NONLINEAR).format("x"), planted=True)
    with program.block(program.open_tape()):
        other = program.chain("x", least=1)
        loss = program.loss_of(program.assign(f"{part} + {other}"))
    program.return_gradient(loss)


def outside_stopped(program: ProgramText) -> None:
    """A part is computed while the recording of the tape is stopped."""
    with program.block(program.open_tape()):
        first = program.chain("x", least=1)
        with program.block("with tape.stop_recording():"):
            part = program.assign(program.choice(NONLINEAR).format(first), planted=True)
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def outside_after(program: ProgramText) -> None:
    """The loss is computed after the tape was closed."""
    with program.block(program.open_tape()):
        first = program.chain("x", least=1)
    last = program.assign(program.choice(NONLINEAR).format(first), planted=True)
    program.return_gradient(program.loss_of(last))


def unwatched_tensor(program: ProgramText) -> None:
    """D5 without the watch: a tensor is differentiated that is not watched."""
    with program.block(program.open_tape()):
        part = program.assign(program.choice(NONLINEAR).format("c"), planted=True)
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss, source="c")


def unwatched_variable(program: ProgramText) -> None:
    """D6: watch_accessed_variables=False and no watch."""
    with program.block("with tf.GradientTape(watch_accessed_variables=False) as tape:"):
        program.add("tape.watch(w)")
        part = program.assign(program.choice(NONLINEAR).format("x"), planted=True)
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def watched_late(program: ProgramText) -> None:
    """The tensor is watched after it was used."""
    with program.block(program.open_tape()):
        part = program.assign(program.choice(NONLINEAR).format("c"), planted=True)
        program.add("tape.watch(c)")
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss, source="c")


def not_trainable(program: ProgramText) -> None:
    """D4: the variable is not trainable."""
    program.trainable = False
    with program.block(program.open_tape()):
        part = program.assign(program.choice(NONLINEAR).format("x"), planted=True)
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def replaced(program: ProgramText) -> None:
    """D4, D12: a variable's name stands for a tensor."""
    program.add("p = x")
    program.add(f"p = {program.choice(('p + 1.0', 'p - 0.1 * c', 'p * 0.5', 'tf.identity(p)'))}", planted=True)
    loss = program.loss_under_tape("p")
    program.return_gradient(loss, source="p")


def replaced_in_a_loop(program: ProgramText) -> None:
    """D12: the first round is right, the second is not."""
    program.add("p, found = x, []")
    with program.block("for _ in range(2):"):
        loss = program.loss_under_tape("p")
        program.add(f"found.append(tape.gradient({loss}, p))")
        program.add(f"p = {program.choice(('p + 1.0', 'p - 0.1 * c'))}", planted=True)
    program.add("return found")


def swapped(program: ProgramText) -> None:
    """B5: the outer tape gives the first derivative, the inner one is to give the second."""
    with program.block("with tf.GradientTape() as outer:"), program.block("with tf.GradientTape() as inner:"):
        value = program.assign(program.choice(NONLINEAR).format("x"))
        value = program.chain(value)
    first = program.assign(f"outer.gradient({value}, x)", planted=True)
    program.add(f"return inner.gradient({first}, x)")


def taken_outside(program: ProgramText) -> None:
    """The first derivative is taken after the outer tape was closed."""
    with program.block("with tf.GradientTape() as outer:"):
        with program.block("with tf.GradientTape() as inner:"):
            value = program.assign(program.choice(NONLINEAR).format("x"))
            value = program.chain(value)
        program.add("pass") if program.chance() else program.assign("c + 1.0")
    first = program.assign(f"inner.gradient({value}, x)", planted=True)
    program.add(f"return outer.gradient({first}, x)")


def used(program: ProgramText) -> None:
    """B3: a tape that is not persistent is used twice."""
    with program.block("with tf.GradientTape() as tape:"):
        first = program.chain("x", least=1)
        loss = program.loss_of(first)
    gradient = program.assign(f"tape.gradient({loss}, x)")
    again = program.assign(
        f"tape.gradient({program.choice((loss, first))}, {program.choice(('x', 'w'))})", planted=True
    )
    program.add(f"return {gradient}, {again}")


def numpy_step(program: ProgramText) -> None:
    """D13: one step is NumPy's."""
    with program.block(program.open_tape()):
        first = program.chain("x", least=1)
        steps = (
            "np.sin({0})",
            "tf.constant(np.tanh({0}.numpy()))",
            "np.exp(0.5 * {0}.numpy())",
            "float(tf.reduce_sum({0}))",
        )
        part = program.assign(program.choice(steps).format(first), planted=True)
        loss = program.loss_of(program.assign(f"tf.sin(c * {part})"))
    program.return_gradient(loss)


def integer_source(program: ProgramText) -> None:
    """D14: the source is an integer to begin with."""
    program.add(f"n = tf.constant({program.choice(('3', '[2, 5]', '[1, 4]'))})", planted=True)
    with program.block(program.open_tape()):
        program.add("tape.watch(n)")
        loss = program.assign(program.choice(("n * n", "n + 2", "tf.cast(n, tf.float64) * 2.0")))
    program.add(f"return tape.gradient({loss}, n)")


def string_step(program: ProgramText) -> None:
    """D14: a string on the path."""
    with program.block(program.open_tape()):
        first = program.chain("x", least=1)
        words = program.assign(f"tf.strings.as_string({first}, precision=15)", planted=True)
        part = program.assign(f"tf.strings.to_number({words}, tf.float64)")
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def through_a_variable(program: ProgramText) -> None:
    """D15: a value goes through a variable."""
    with program.block(program.open_tape()):
        first = program.chain("x")
        method = program.choice(("assign_add", "assign"))
        program.add(f"w.{method}({first})", planted=True)
        part = program.chain("w", least=1)
        loss = program.assign(f"tf.reduce_sum({part})")
    program.return_gradient(loss)


def unregistered(program: ProgramText) -> None:
    """D16: an operation without a gradient."""
    with program.block(program.open_tape()):
        first = program.chain("x")
        operations = ("tf.truncatemod({0}, tf.constant(5.0, tf.float64))", "tf.unique(tf.reshape({0}, [-1]))[0]")
        part = program.assign(program.choice(operations).format(first), planted=True)
        loss = program.assign(f"tf.reduce_sum({program.chain(part)})")
    program.return_gradient(loss)


def not_differentiable(program: ProgramText) -> None:
    """A step that is registered as not differentiable, or has None for a gradient."""
    with program.block(program.open_tape()):
        first = program.assign(program.choice(("10.0 * x", "7.0 * x + 0.3", "5.0 * tf.sin(x)")))
        steps = ("tf.round({0})", "tf.floor({0})", "tf.cast(tf.cast({0}, tf.int32), tf.float64)", "tf.math.ceil({0})")
        part = program.assign(program.choice(steps).format(first), planted=True)
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def stopped(program: ProgramText) -> None:
    """tf.stop_gradient on the path, of the whole or of a part."""
    with program.block(program.open_tape()):
        first = program.chain("x", least=1)
        part = program.assign(f"tf.stop_gradient({first})", planted=True)
        part = part if program.chance() else program.assign(f"{part} * {first}")
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def custom(program: ProgramText) -> None:
    """A gradient that somebody wrote by hand, and that is wrong."""
    value, wrong = program.choice(
        (
            ("u * tf.sigmoid(u)", "dy * tf.sigmoid(u)"),
            ("tf.square(u)", "dy * u"),
            ("tf.sin(u)", "-dy * tf.cos(u)"),
            ("tf.exp(u)", "dy"),
            ("tf.tanh(u)", "dy * (1.0 - tf.tanh(u))"),
        )
    )
    program.before += [("@tf.custom_gradient", False), ("def made(u):", True)]
    program.before += [(f"    return {value}, lambda dy: {wrong}", False), ("", False), ("", False)]
    with program.block(program.open_tape()):
        part = program.assign(f"made({program.chain('x')})")
        loss = program.loss_of(program.chain(part))
    program.return_gradient(loss)


def changed(program: ProgramText) -> None:
    """C6: what the tape gave is clipped, scaled or averaged before it is returned."""
    with program.block("with tf.GradientTape() as tape:"):
        part = program.chain("x", least=1, operations=NONLINEAR)
        loss = program.assign(f"tf.reduce_sum({part} * w)")
    program.add(f"g, h = tape.gradient({loss}, [x, w])")
    # The limits are so small that every gradient exceeds them.
    changes = (
        *("g = 0.5 * g", "g = tf.clip_by_norm(g, 1e-6)", "g = -g", "g = tf.clip_by_value(g, -1e-6, 1e-6)"),
        "g = g + 0.1 * x",
    )
    program.add(program.choice(changes), planted=True)
    program.add(f"return {loss}, [g, h]")


BROKEN: dict[Cause, Sequence[Builder]] = {
    Cause.OUTSIDE_TAPE: (outside_before, outside_partly, outside_stopped, outside_after),
    Cause.NOT_WATCHED: (unwatched_tensor, unwatched_variable, watched_late),
    Cause.NON_TRAINABLE: (not_trainable,),
    Cause.REPLACED: (replaced, replaced_in_a_loop),
    Cause.NUMPY: (numpy_step,),
    Cause.DTYPE: (integer_source, string_step),
    Cause.STATE: (through_a_variable,),
    Cause.NO_GRADIENT: (unregistered,),
    Cause.NOT_DIFFERENTIABLE: (not_differentiable,),
    Cause.STOP_GRADIENT: (stopped,),
    Cause.TAKEN_OUTSIDE: (swapped, taken_outside),
    Cause.USED_TAPE: (used,),
    Cause.CUSTOM_GRADIENT: (custom,),
    Cause.CHANGED_AFTERWARDS: (changed,),
}
EAGER = (numpy_step, string_step)
STEPS = (changed,)
TRACED_SHARE = 6


def _written(draw: Draw, builder: Builder, cause: Cause | None) -> WrittenProgram:
    program = ProgramText(draw)
    program.traced = builder not in EAGER and program.chance(TRACED_SHARE)
    builder(program)
    source, line = program.module()
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
