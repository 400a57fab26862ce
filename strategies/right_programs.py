"""Functions that take gradients as they should: what the broken ones are variations of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .values import Draw, index

NUMBERS = ("0.7", "-0.4", "1.3", "0.3", "-1.1", "0.9", "1.6", "0.2")
SHAPES = ("vector", "scalar", "vector", "matrix")
UNARY = (
    *("tf.sin({0})", "tf.square({0})", "tf.tanh({0})", "tf.sigmoid({0})", "tf.exp(0.5 * {0})", "{0} ** 3"),
    *("1.5 * {0}", "{0} + 0.6", "tf.math.softplus({0})", "{0} / 1.7", "tf.cos({0})", "-{0}", "tf.identity({0})"),
)
NONLINEAR = ("tf.sin({0})", "tf.tanh({0})", "tf.sigmoid({0})", "tf.exp(0.5 * {0})", "tf.square({0})", "{0} ** 3")
NAMES = "abdefghijklmnopqrs"
INDENT = "    "


class ProgramText:
    """A module with variables x and w, a constant c, and a function `program`; `planted` is the line that breaks it."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.shape = self.choice(SHAPES)
        self.trainable = True
        self.before: list[tuple[str, bool]] = []
        self.lines: list[tuple[str, bool]] = []
        self.depth = 1
        self.names = iter(NAMES)
        self.traced = False

    def choice(self, options: Sequence[Any]) -> Any:
        """One of several, the simplest first."""
        return options[index(self.draw, len(options))]

    def chance(self, share: int = 2) -> bool:
        """True in one case of `share`; shrinks to False."""
        return index(self.draw, share) == share - 1

    def add(self, line: str, planted: bool = False) -> None:
        """One more line of the function; `planted` marks the one that breaks it."""
        self.lines.append((INDENT * self.depth + line, planted))

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """The lines below one that ends with a colon."""
        self.add(line)
        self.depth += 1
        yield
        self.depth -= 1

    def assign(self, expression: str, planted: bool = False) -> str:
        """A new name for the value of an expression."""
        name = next(self.names)
        self.add(f"{name} = {expression}", planted)
        return name

    def chain(self, name: str, least: int = 0, operations: Sequence[str] = UNARY) -> str:
        """Some operations one after another, from `name` on."""
        count = least + index(self.draw, 3)
        for _ in range(count):
            name = self.assign(self.choice(operations).format(name))
        return name

    def literal(self) -> str:
        """Numbers of the module's shape."""
        one: list[str] = [self.choice(NUMBERS) for _ in range(4)]
        if self.shape == "scalar":
            return one[0]
        row = f"[{one[0]}, {one[1]}]"
        return row if self.shape == "vector" else f"[{row}, [{one[2]}, {one[3]}]]"

    def module(self) -> tuple[str, int | None]:
        """The whole program, and the number of the planted line in it."""
        plain = "" if self.trainable else ", trainable=False"
        head = [
            *("import numpy as np", "import tensorflow as tf", ""),
            f"x = tf.Variable({self.literal()}, dtype=tf.float64{plain})",
            f"w = tf.Variable({self.literal()}, dtype=tf.float64)",
            f"c = tf.constant({self.literal()}, dtype=tf.float64)",
            *("", ""),
        ]
        start = ["@tf.function"] * self.traced + ["def program():"]
        lines = [*((line, False) for line in head), *self.before, *((line, False) for line in start), *self.lines]
        planted = next((number for number, (_, here) in enumerate(lines, 1) if here), None)
        return "\n".join(line for line, _ in lines) + "\n", planted

    def open_tape(self) -> str:
        """The line that opens a tape."""
        return f"with tf.GradientTape({'persistent=True' if self.chance(4) else ''}) as tape:"

    def loss_of(self, name: str) -> str:
        """A loss: the sum of a value, of a value times c, its double or its mean."""
        form = self.choice(("tf.reduce_sum({0})", "tf.reduce_sum({0} * c)", "{0} * 2.0", "tf.reduce_mean({0})"))
        return self.assign(form.format(name))

    def loss_under_tape(self, source: str = "x", tape: str | None = None, watch: bool = False, least: int = 1) -> str:
        """A tape, and inside of it a loss of some operations from `source` on, which may be watched."""
        with self.block(self.open_tape() if tape is None else tape):
            if watch:
                self.add(f"tape.watch({source})")
            return self.loss_of(self.chain(source, least=least))

    def return_gradient(self, loss: str, source: str = "x") -> None:
        """Takes the gradient, alone or in a list or dict, and returns it."""
        form = self.choice(("{0}", "[{0}]", "dict(a={0})"))
        self.add(f"return tape.gradient({loss}, {form.format(source)})")


def everything_inside(program: ProgramText) -> None:
    """A5: everything inside the tape."""
    loss = program.loss_under_tape()
    program.return_gradient(loss)


def two_sources(program: ProgramText) -> None:
    """D2: several sources."""
    with program.block(program.open_tape()):
        loss = program.assign(f"tf.reduce_sum({program.chain('x', least=1)} * {program.chain('w', least=1)})")
    program.add(f"return tape.gradient({loss}, {program.choice(('[x, w]', 'dict(x=x, w=w)'))})")


def watched_tensor(program: ProgramText) -> None:
    """D5: a tensor that is watched."""
    loss = program.loss_under_tape("c", watch=True)
    program.return_gradient(loss, source="c")


def only_watched(program: ProgramText) -> None:
    """D6: watch_accessed_variables=False, and the variable is watched."""
    loss = program.loss_under_tape(tape="with tf.GradientTape(watch_accessed_variables=False) as tape:", watch=True)
    program.return_gradient(loss)


def watched_untrainable(program: ProgramText) -> None:
    """A variable that is not trainable, watched."""
    program.trainable = False
    loss = program.loss_under_tape(watch=True)
    program.return_gradient(loss)


def intermediate(program: ProgramText) -> None:
    """D7: with respect to a value in between."""
    with program.block(program.open_tape()):
        middle = program.assign(program.choice(NONLINEAR).format("x"))
        loss = program.loss_of(program.chain(middle, least=1))
    program.return_gradient(loss, source=middle)


def persistent(program: ProgramText) -> None:
    """D8: a persistent tape."""
    with program.block("with tf.GradientTape(persistent=True) as tape:"):
        middle = program.chain("x", least=1)
        loss = program.loss_of(middle)
    program.add(f"return tape.gradient({middle}, x), tape.gradient({loss}, x)")


def second(program: ProgramText) -> None:
    """B4: the second derivative."""
    with program.block("with tf.GradientTape() as outer:"):
        with program.block("with tf.GradientTape() as inner:"):
            value = program.chain(program.assign(program.choice(NONLINEAR).format("x")))
        first = program.assign(f"inner.gradient({value}, x)")
    program.add(f"return {first}, outer.gradient({first}, x)")


def siblings(program: ProgramText) -> None:
    """B1: two tapes in one `with`."""
    with program.block("with tf.GradientTape() as one, tf.GradientTape() as two:"):
        middle = program.chain("x", least=1)
        loss = program.loss_of(middle)
    program.add(f"return one.gradient({middle}, x), two.gradient({loss}, x)")


def branch(program: ProgramText) -> None:
    """D11: an `if` decides."""
    with program.block(program.open_tape()):
        with program.block("if tf.reduce_sum(w) > 0.5:"):
            program.add(f"z = {program.choice(NONLINEAR).format('x')}")
        with program.block("else:"):
            program.add(f"z = {program.choice(NONLINEAR).format('x')}")
        loss = program.loss_of(program.chain("z"))
    program.return_gradient(loss)


def loop(program: ProgramText) -> None:
    """A loop of a few rounds."""
    with program.block(program.open_tape()):
        program.add("z = x")
        with program.block(f"for _ in range({program.choice(('2', '3'))}):"):
            program.add(f"z = {program.choice(('tf.sin(z)', 'tf.tanh(z) + c', 'z * 0.5 + w'))}")
        loss = program.loss_of("z")
    program.return_gradient(loss)


def zeros(program: ProgramText) -> None:
    """D17: zeros for what the loss does not depend on."""
    loss = program.loss_under_tape()
    program.add(f"return tape.gradient({loss}, [x, w], unconnected_gradients=tf.UnconnectedGradients.ZERO)")


def independent(program: ProgramText) -> None:
    """D4: None for a constant that the loss does not use."""
    loss = program.loss_under_tape()
    program.add(f"return tape.gradient({loss}, [x, w])")


def logged(program: ProgramText) -> None:
    """Something is computed on the side, while recording is stopped or in NumPy, that the loss does not use."""
    with program.block(program.open_tape()):
        middle = program.chain("x", least=1)
        if program.traced or program.chance():
            with program.block("with tape.stop_recording():"):
                program.assign(f"tf.reduce_max(tf.stop_gradient({middle}))")
        else:
            program.assign(f"np.max({middle}.numpy())")
        loss = program.loss_of(middle)
    program.return_gradient(loss)


def right_custom(program: ProgramText) -> None:
    """A gradient that somebody wrote by hand, and that is right."""
    value, gradient = program.choice(
        (
            ("u * tf.sigmoid(u)", "dy * tf.sigmoid(u) * (1.0 + u * (1.0 - tf.sigmoid(u)))"),
            ("tf.square(u)", "2.0 * dy * u"),
            ("tf.sin(u)", "dy * tf.cos(u)"),
        )
    )
    lines = ("@tf.custom_gradient", "def made(u):", f"    return {value}, lambda dy: {gradient}", "", "")
    program.before += [(line, False) for line in lines]
    with program.block(program.open_tape()):
        loss = program.loss_of(program.chain(program.assign(f"made({program.chain('x')})")))
    program.return_gradient(loss)


def moved(program: ProgramText) -> None:
    """A training step: the variables move after the gradient was taken."""
    loss = program.loss_under_tape()
    program.add(f"g = tape.gradient({loss}, x)")
    program.add("x.assign_sub(0.1 * g)")
    program.add("return g")


def jacobian(program: ProgramText) -> None:
    """A Jacobian of a value with respect to x."""
    with program.block(program.open_tape()):
        value = program.chain("x", least=1)
    program.add(f"return tape.jacobian({value}, x)")


RIGHT: tuple[Callable[[ProgramText], None], ...] = (
    *(
        everything_inside,
        two_sources,
        watched_tensor,
        only_watched,
        watched_untrainable,
        intermediate,
        persistent,
        second,
    ),
    *(siblings, branch, loop, zeros, independent, logged, right_custom, moved, jacobian),
)
