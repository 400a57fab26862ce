"""Programs that lose a gradient because of what their tapes cover, watch, or are asked."""

from __future__ import annotations

from .program_text import NONLINEAR, Text
from .right_programs import closing, ended, tape


def outside_before(text: Text) -> None:
    """A2, A4: a part is computed before the tape."""
    part = text.made(text.choice(NONLINEAR).format("x"), planted=True)
    part = text.chain(part)
    with text.block(tape(text)):
        loss = ended(text, text.chain(part))
    closing(text, loss)


def outside_partly(text: Text) -> None:
    """A3: one term is computed before the tape, another one inside."""
    part = text.made(text.choice(NONLINEAR).format("x"), planted=True)
    with text.block(tape(text)):
        other = text.chain("x", least=1)
        loss = ended(text, text.made(f"{part} + {other}"))
    closing(text, loss)


def outside_stopped(text: Text) -> None:
    """A part is computed while the tape is told not to record."""
    with text.block(tape(text)):
        first = text.chain("x", least=1)
        with text.block("with tape.stop_recording():"):
            part = text.made(text.choice(NONLINEAR).format(first), planted=True)
        loss = ended(text, text.chain(part))
    closing(text, loss)


def outside_after(text: Text) -> None:
    """The loss is computed after the tape was closed."""
    with text.block(tape(text)):
        first = text.chain("x", least=1)
    last = text.made(text.choice(NONLINEAR).format(first), planted=True)
    closing(text, ended(text, last))


def unwatched_tensor(text: Text) -> None:
    """D5 without the watch: a tensor is differentiated that nobody watches."""
    with text.block(tape(text)):
        part = text.made(text.choice(NONLINEAR).format("c"), planted=True)
        loss = ended(text, text.chain(part))
    closing(text, loss, source="c")


def unwatched_variable(text: Text) -> None:
    """D6: watch_accessed_variables=False and no watch."""
    with text.block("with tf.GradientTape(watch_accessed_variables=False) as tape:"):
        text.add("tape.watch(w)")
        part = text.made(text.choice(NONLINEAR).format("x"), planted=True)
        loss = ended(text, text.chain(part))
    closing(text, loss)


def watched_late(text: Text) -> None:
    """The tensor is watched after it was used."""
    with text.block(tape(text)):
        part = text.made(text.choice(NONLINEAR).format("c"), planted=True)
        text.add("tape.watch(c)")
        loss = ended(text, text.chain(part))
    closing(text, loss, source="c")


def not_trainable(text: Text) -> None:
    """D4: the variable is not trainable."""
    text.trainable = False
    with text.block(tape(text)):
        part = text.made(text.choice(NONLINEAR).format("x"), planted=True)
        loss = ended(text, text.chain(part))
    closing(text, loss)


def replaced(text: Text) -> None:
    """D4, D12: a variable's name stands for a tensor."""
    text.add("p = x")
    text.add(f"p = {text.choice(('p + 1.0', 'p - 0.1 * c', 'p * 0.5', 'tf.identity(p)'))}", planted=True)
    with text.block(tape(text)):
        loss = ended(text, text.chain("p", least=1))
    closing(text, loss, source="p")


def replaced_in_a_loop(text: Text) -> None:
    """D12: the first round is right, the second is not."""
    text.add("p, found = x, []")
    with text.block("for _ in range(2):"):
        with text.block(tape(text)):
            loss = ended(text, text.chain("p", least=1))
        text.add(f"found.append(tape.gradient({loss}, p))")
        text.add(f"p = {text.choice(('p + 1.0', 'p - 0.1 * c'))}", planted=True)
    text.add("return found")


def swapped(text: Text) -> None:
    """B5: the outer tape gives the first derivative, the inner one is asked for the second."""
    with text.block("with tf.GradientTape() as outer:"), text.block("with tf.GradientTape() as inner:"):
        value = text.made(text.choice(NONLINEAR).format("x"))
        value = text.chain(value)
    first = text.made(f"outer.gradient({value}, x)", planted=True)
    text.add(f"return inner.gradient({first}, x)")


def taken_outside(text: Text) -> None:
    """The first derivative is taken after the outer tape was closed."""
    with text.block("with tf.GradientTape() as outer:"):
        with text.block("with tf.GradientTape() as inner:"):
            value = text.made(text.choice(NONLINEAR).format("x"))
            value = text.chain(value)
        text.add("pass") if text.flag() else text.made("c + 1.0")
    first = text.made(f"inner.gradient({value}, x)", planted=True)
    text.add(f"return outer.gradient({first}, x)")


def used(text: Text) -> None:
    """B3: a tape that is not persistent is asked twice."""
    with text.block("with tf.GradientTape() as tape:"):
        first = text.chain("x", least=1)
        loss = ended(text, first)
    answer = text.made(f"tape.gradient({loss}, x)")
    again = text.made(f"tape.gradient({text.choice((loss, first))}, {text.choice(('x', 'w'))})", planted=True)
    text.add(f"return {answer}, {again}")
