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


class Text:
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

    def flag(self, share: int = 2) -> bool:
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

    def made(self, expression: str, planted: bool = False) -> str:
        """A new name for the value of an expression."""
        name = next(self.names)
        self.add(f"{name} = {expression}", planted)
        return name

    def chain(self, name: str, least: int = 0, operations: Sequence[str] = UNARY) -> str:
        """Some operations one after another, from `name` on."""
        count = least + index(self.draw, 3)
        for _ in range(count):
            name = self.made(self.choice(operations).format(name))
        return name

    def literal(self) -> str:
        """Numbers of the module's shape."""
        one: list[str] = [self.choice(NUMBERS) for _ in range(4)]
        if self.shape == "scalar":
            return one[0]
        row = f"[{one[0]}, {one[1]}]"
        return row if self.shape == "vector" else f"[{row}, [{one[2]}, {one[3]}]]"

    def module(self) -> tuple[str, int | None]:
        """The whole text, and the number of the planted line in it."""
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


def tape(text: Text) -> str:
    """The line that opens a tape."""
    return f"with tf.GradientTape({'persistent=True' if text.flag(4) else ''}) as tape:"


def ended(text: Text, name: str) -> str:
    """The loss: the sum of a value, of a value times w, or the value itself."""
    form = text.choice(("tf.reduce_sum({0})", "tf.reduce_sum({0} * c)", "{0} * 2.0", "tf.reduce_mean({0})"))
    return text.made(form.format(name))


def closing(text: Text, loss: str, source: str = "x") -> None:
    """Asks for the gradient, alone or in a list or dict, and returns it."""
    form = text.choice(("{0}", "[{0}]", "dict(a={0})"))
    text.add(f"return tape.gradient({loss}, {form.format(source)})")


def whole(text: Text) -> None:
    """A5: everything inside the tape."""
    with text.block(tape(text)):
        loss = ended(text, text.chain("x", least=1))
    closing(text, loss)


def two_sources(text: Text) -> None:
    """D2: several sources."""
    with text.block(tape(text)):
        loss = text.made(f"tf.reduce_sum({text.chain('x', least=1)} * {text.chain('w', least=1)})")
    text.add(f"return tape.gradient({loss}, {text.choice(('[x, w]', 'dict(x=x, w=w)'))})")


def watched_tensor(text: Text) -> None:
    """D5: a tensor that is watched."""
    with text.block(tape(text)):
        text.add("tape.watch(c)")
        loss = ended(text, text.chain("c", least=1))
    closing(text, loss, source="c")


def only_watched(text: Text) -> None:
    """D6: watch_accessed_variables=False, and the variable is watched."""
    with text.block("with tf.GradientTape(watch_accessed_variables=False) as tape:"):
        text.add("tape.watch(x)")
        loss = ended(text, text.chain("x", least=1))
    closing(text, loss)


def watched_untrainable(text: Text) -> None:
    """A variable that is not trainable, watched."""
    text.trainable = False
    with text.block(tape(text)):
        text.add("tape.watch(x)")
        loss = ended(text, text.chain("x", least=1))
    closing(text, loss)


def intermediate(text: Text) -> None:
    """D7: with respect to a value in between."""
    with text.block(tape(text)):
        middle = text.made(text.choice(NONLINEAR).format("x"))
        loss = ended(text, text.chain(middle, least=1))
    closing(text, loss, source=middle)


def asked_twice(text: Text) -> None:
    """D8: a persistent tape."""
    with text.block("with tf.GradientTape(persistent=True) as tape:"):
        middle = text.chain("x", least=1)
        loss = ended(text, middle)
    text.add(f"return tape.gradient({middle}, x), tape.gradient({loss}, x)")


def second(text: Text) -> None:
    """B4: the second derivative."""
    with text.block("with tf.GradientTape() as outer:"):
        with text.block("with tf.GradientTape() as inner:"):
            value = text.chain(text.made(text.choice(NONLINEAR).format("x")))
        first = text.made(f"inner.gradient({value}, x)")
    text.add(f"return {first}, outer.gradient({first}, x)")


def siblings(text: Text) -> None:
    """B1: two tapes in one `with`."""
    with text.block("with tf.GradientTape() as one, tf.GradientTape() as two:"):
        middle = text.chain("x", least=1)
        loss = ended(text, middle)
    text.add(f"return one.gradient({middle}, x), two.gradient({loss}, x)")


def branch(text: Text) -> None:
    """D11: an `if` decides."""
    with text.block(tape(text)):
        with text.block("if tf.reduce_sum(w) > 0.5:"):
            text.add(f"z = {text.choice(NONLINEAR).format('x')}")
        with text.block("else:"):
            text.add(f"z = {text.choice(NONLINEAR).format('x')}")
        loss = ended(text, text.chain("z"))
    closing(text, loss)


def loop(text: Text) -> None:
    """A loop of a few rounds."""
    with text.block(tape(text)):
        text.add("z = x")
        with text.block(f"for _ in range({text.choice(('2', '3'))}):"):
            text.add(f"z = {text.choice(('tf.sin(z)', 'tf.tanh(z) + c', 'z * 0.5 + w'))}")
        loss = ended(text, "z")
    closing(text, loss)


def zeros(text: Text) -> None:
    """D17: zeros for what the loss does not depend on."""
    with text.block(tape(text)):
        loss = ended(text, text.chain("x", least=1))
    text.add(f"return tape.gradient({loss}, [x, w], unconnected_gradients=tf.UnconnectedGradients.ZERO)")


def independent(text: Text) -> None:
    """D4: None for a constant that the loss does not use."""
    with text.block(tape(text)):
        loss = ended(text, text.chain("x", least=1))
    text.add(f"return tape.gradient({loss}, [x, w])")


def logged(text: Text) -> None:
    """Something is computed on the side, while recording is stopped or in NumPy, that the loss does not use."""
    with text.block(tape(text)):
        middle = text.chain("x", least=1)
        if text.traced or text.flag():
            with text.block("with tape.stop_recording():"):
                text.made(f"tf.reduce_max(tf.stop_gradient({middle}))")
        else:
            text.made(f"np.max({middle}.numpy())")
        loss = ended(text, middle)
    closing(text, loss)


def right_custom(text: Text) -> None:
    """A gradient that somebody wrote by hand, and that is right."""
    value, gradient = text.choice(
        (
            ("u * tf.sigmoid(u)", "dy * tf.sigmoid(u) * (1.0 + u * (1.0 - tf.sigmoid(u)))"),
            ("tf.square(u)", "2.0 * dy * u"),
            ("tf.sin(u)", "dy * tf.cos(u)"),
        )
    )
    lines = ("@tf.custom_gradient", "def made(u):", f"    return {value}, lambda dy: {gradient}", "", "")
    text.before += [(line, False) for line in lines]
    with text.block(tape(text)):
        loss = ended(text, text.chain(text.made(f"made({text.chain('x')})")))
    closing(text, loss)


def moved(text: Text) -> None:
    """A training step: the variables move after the gradient was taken."""
    with text.block(tape(text)):
        loss = ended(text, text.chain("x", least=1))
    text.add(f"g = tape.gradient({loss}, x)")
    text.add("x.assign_sub(0.1 * g)")
    text.add("return g")


def jacobian(text: Text) -> None:
    """A Jacobian of a value with respect to x."""
    with text.block(tape(text)):
        value = text.chain("x", least=1)
    text.add(f"return tape.jacobian({value}, x)")


RIGHT: tuple[Callable[[Text], None], ...] = (
    *(whole, two_sources, watched_tensor, only_watched, watched_untrainable, intermediate, asked_twice, second),
    *(siblings, branch, loop, zeros, independent, logged, right_custom, moved, jacobian),
)
