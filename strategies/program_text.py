"""The source text of a drawn function that takes gradients, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .choices import Draw, index

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
