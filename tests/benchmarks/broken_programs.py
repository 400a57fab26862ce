"""Modules with a function that takes gradients with tapes: correct ones, and ones that are broken in one known way.

They are drawn from templates, which are Python except for what is drawn: `{a | b}` is one of several texts, the
simplest first; CURVED(a), GRADIENT(a) and TAPE() stand for EXPRESSIONS; `b = SOME(a)` is a chain of one to three
operations, `b = LOSS(a)` none to two and a loss. The planted line breaks the program; `---` ends the module's own
lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent, indent

from gradcheck.strategies.values import Draw, choice, index
from hypothesis import strategies as st

from gradcheck.result import Cause

NUMBERS = ("0.7", "-0.4", "1.3", "0.3", "-1.1", "0.9", "1.6", "0.2")
LITERALS = ("[{}, {}]", "{}", "[{}, {}]", "[[{}, {}], [{}, {}]]")
EXPRESSIONS = {
    "GRADIENT": "tape.gradient(loss, {@ | [@] | dict(a=@)})",
    "TAPE": "tf.GradientTape({ | | | persistent=True})",
    "LOSS": "{tf.reduce_sum(@) | tf.reduce_sum(@ * c) | @ * 2.0 | tf.reduce_mean(@)}",
    "CURVED": "{tf.sin(@) | tf.tanh(@) | tf.sigmoid(@) | tf.exp(0.5 * @) | tf.square(@) | @ ** 3}",
    "OPERATION": "{tf.sin(@) | tf.square(@) | tf.tanh(@) | tf.sigmoid(@) | tf.exp(0.5 * @) | @ ** 3 | 1.5 * @ | @ + 0.6"
    " | tf.math.softplus(@) | @ / 1.7 | tf.cos(@) | -@ | tf.identity(@)}",
}
"""The expressions that the words of a template stand for; @ is their argument."""
EXPRESSION = re.compile(rf"\b({'|'.join(EXPRESSIONS)})\((\w*)\)")
CHAIN = re.compile(r"^( *)(\w+) = (SOME|LOSS)\((\w+)\)$", re.MULTILINE)
CHOICE = re.compile(r"{([^{}]*)}")
PLANTED = "  # planted"
TRACED_SHARE = 6
HEAD = """\
import numpy as np
import tensorflow as tf

x = tf.Variable({}, dtype=tf.float64)
w = tf.Variable({}, dtype=tf.float64)
c = tf.constant({}, dtype=tf.float64)
"""


def _under_tape(*inside: str, before: Sequence[str] = (), source: str = "x", tape: str = "TAPE()") -> str:
    """The template of lines that compute `a` under a tape; the gradient of a loss of it is returned."""
    lines = (f"with {tape} as tape:", *(f"    {line}" for line in inside), "    loss = LOSS(a)")
    return "\n".join((*before, *lines, f"return GRADIENT({source})"))


NOT_WATCHING = "tf.GradientTape(watch_accessed_variables=False)"
NOT_TRAINABLE = ("x = tf.Variable(x, trainable=False)", "---")
BROKEN: dict[Cause, dict[str, str]] = {
    Cause.OUTSIDE_TAPE: {
        "outside before (A2, A4)": _under_tape("a = SOME(a)", before=["a = CURVED(x)  # planted"]),
        "outside in part (A3)": _under_tape("b = SOME(x)", "a = a + b", before=["a = CURVED(x)  # planted"]),
        "outside while stopped": _under_tape(
            "a = SOME(x)", "with tape.stop_recording():", "    a = CURVED(a)  # planted"
        ),
        "outside after": """
            with TAPE() as tape:
                a = SOME(x)
            loss = CURVED(a)  # planted
            loss = LOSS(loss)
            return GRADIENT(x)""",
    },
    Cause.NOT_WATCHED: {
        "unwatched tensor (D5)": _under_tape("a = CURVED(c)  # planted", source="c"),
        "unwatched variable (D6)": _under_tape("tape.watch(w)", "a = CURVED(x)  # planted", tape=NOT_WATCHING),
        "watched late": _under_tape("a = CURVED(c)  # planted", "tape.watch(c)", source="c"),
    },
    Cause.NON_TRAINABLE: {
        "not trainable (D4)": _under_tape("a = CURVED(x)  # planted", before=NOT_TRAINABLE),
    },
    Cause.REPLACED: {
        "replaced (D4, D12)": _under_tape(
            "a = SOME(p)",
            before=["p = x", "p = {p + 1.0 | p - 0.1 * c | p * 0.5 | tf.identity(p)}  # planted"],
            source="p",
        ),
        "replaced after the first round (D12)": """
            p, found = x, []
            for _ in range(2):
                with TAPE() as tape:
                    a = SOME(p)
                    loss = LOSS(a)
                found.append(tape.gradient(loss, p))
                p = {p + 1.0 | p - 0.1 * c}  # planted
            return found""",
    },
    Cause.NUMPY: {
        "NumPy or Python numbers (D13)": _under_tape(
            "a = SOME(x)",
            "a = {np.sin(a) | tf.constant(np.tanh(a.numpy())) | np.exp(0.5 * a.numpy()) | float(tf.reduce_sum(a))}"
            "  # planted",
            "a = tf.sin(c * a)",
        ),
    },
    Cause.DTYPE: {
        "integer source (D14)": """
            n = tf.constant({3 | [2, 5] | [1, 4]})  # planted
            with TAPE() as tape:
                tape.watch(n)
                loss = {n * n | n + 2 | tf.cast(n, tf.float64) * 2.0}
            return tape.gradient(loss, n)""",
        "string (D14)": _under_tape(
            "a = SOME(x)", "a = tf.strings.to_number(tf.strings.as_string(a, precision=15), tf.float64)  # planted"
        ),
    },
    Cause.STATE: {
        "through a variable (D15)": _under_tape("a = SOME(x)", "w.{assign_add | assign}(a)  # planted", "a = SOME(w)"),
    },
    Cause.NO_GRADIENT: {
        "no gradient (D16)": _under_tape(
            "a = SOME(x)",
            "a = {tf.truncatemod(a, tf.constant(5.0, tf.float64)) | tf.unique(tf.reshape(a, [-1]))[0]}  # planted",
            "a = tf.reduce_sum(a)",
        ),
    },
    Cause.RAISES: {
        "a gradient that raises": _under_tape(
            *("a = SOME(x)", "a = made(a)  # planted"),
            before=[
                *("@tf.custom_gradient", "def made(u):", "    def pullback(dy):"),
                "        raise {ValueError('no') | NotImplementedError('later') | TypeError('no')}",
                *("    return {u * 2.0 | tf.square(u) | tf.sin(u)}, pullback", "---"),
            ],
        ),
    },
    Cause.NOT_DIFFERENTIABLE: {
        "not differentiable": _under_tape(
            "a = {10.0 * x | 7.0 * x + 0.3 | 5.0 * tf.sin(x)}",
            "a = {tf.round(a) | tf.floor(a) | tf.cast(tf.cast(a, tf.int32), tf.float64) | tf.math.ceil(a)}  # planted",
        ),
    },
    Cause.STOP_GRADIENT: {
        "stopped, all of it or a part": _under_tape(
            "a = SOME(x)", "b = tf.stop_gradient(a)  # planted", "a = {b * a | tf.sin(b)}"
        ),
    },
    Cause.TAKEN_OUTSIDE: {
        "swapped (B5)": """
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    a = CURVED(x)
                    a = SOME(a)
            b = outer.gradient(a, x)  # planted
            return inner.gradient(b, x)""",
        "taken outside": """
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    a = CURVED(x)
                    a = SOME(a)
                {b = c + 1.0 | pass}
            b = inner.gradient(a, x)  # planted
            return outer.gradient(b, x)""",
    },
    Cause.USED_TAPE: {
        "used twice (B3)": """
            with tf.GradientTape() as tape:
                a = SOME(x)
                loss = LOSS(a)
            g = tape.gradient(loss, x)
            h = tape.gradient({loss | a}, {x | w})  # planted
            return g, h""",
    },
    Cause.CUSTOM_GRADIENT: {
        "wrong gradient written by hand": _under_tape(
            *("a = SOME(x)", "a = made(a)"),
            before=[
                *(
                    "@tf.custom_gradient",
                    "def made(u):  # planted",
                    "    return {u * tf.sigmoid(u), lambda dy: dy * tf.sigmoid(u)",
                ),
                "| tf.square(u), lambda dy: dy * u | tf.sin(u), lambda dy: -dy * tf.cos(u)",
                "| tf.exp(u), lambda dy: dy | tf.tanh(u), lambda dy: dy * (1.0 - tf.tanh(u))}",
                "---",
            ],
        ),
    },
    # The limits are so small that every gradient exceeds them.
    Cause.CHANGED_AFTERWARDS: {
        "changed after it was taken (C6)": """
            with tf.GradientTape() as tape:
                a = CURVED(x)
                a = {a * 1.5 | tf.sin(a) | tf.square(a)}
                loss = tf.reduce_sum(a * w)
            g, h = tape.gradient(loss, [x, w])
            g = {0.5 * g | tf.clip_by_norm(g, 1e-6) | -g | tf.clip_by_value(g, -1e-6, 1e-6) | g + 0.1 * x}  # planted
            return loss, [g, h]""",
    },
}
"""The templates of each cause, by what they do (and the scenario of which they are variants)."""

RIGHT = {
    "everything inside (A5)": _under_tape("a = SOME(x)"),
    "two sources (D2)": """
        with TAPE() as tape:
            a = SOME(x)
            b = SOME(w)
            loss = tf.reduce_sum(a * b)
        return tape.gradient(loss, {[x, w] | dict(x=x, w=w)})""",
    "watched tensor (D5)": _under_tape("tape.watch(c)", "a = SOME(c)", source="c"),
    "only what is watched (D6)": _under_tape("tape.watch(x)", "a = SOME(x)", tape=NOT_WATCHING),
    "watched, not trainable": _under_tape("tape.watch(x)", "a = SOME(x)", before=NOT_TRAINABLE),
    "intermediate (D7)": _under_tape("b = CURVED(x)", "a = SOME(b)", source="b"),
    "persistent (D8)": """
        with tf.GradientTape(persistent=True) as tape:
            a = SOME(x)
            loss = LOSS(a)
        return tape.gradient(a, x), tape.gradient(loss, x)""",
    "second derivative (B4)": """
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                a = CURVED(x)
                a = SOME(a)
            b = inner.gradient(a, x)
        return b, outer.gradient(b, x)""",
    "siblings (B1)": """
        with tf.GradientTape() as one, tf.GradientTape() as two:
            a = SOME(x)
            loss = LOSS(a)
        return one.gradient(a, x), two.gradient(loss, x)""",
    "branch (D11)": _under_tape("if tf.reduce_sum(w) > 0.5:", "    a = CURVED(x)", "else:", "    a = CURVED(x)"),
    "loop": _under_tape("a = x", "for _ in range({2 | 3}):", "    a = {tf.sin(a) | tf.tanh(a) + c | a * 0.5 + w}"),
    "zeros, or None, for what the loss does not use (D4, D17)": """
        with TAPE() as tape:
            a = SOME(x)
            loss = LOSS(a)
        return tape.gradient(loss, [x, w]{ | , unconnected_gradients=tf.UnconnectedGradients.ZERO})""",
    "logged while stopped": _under_tape(
        "a = SOME(x)", "with tape.stop_recording():", "    b = tf.reduce_max(tf.stop_gradient(a))"
    ),
    "logged in NumPy": _under_tape("a = SOME(x)", "b = np.max(a.numpy())"),
    "right gradient written by hand": _under_tape(
        *("a = SOME(x)", "a = made(a)"),
        before=[
            *("@tf.custom_gradient", "def made(u):"),
            "    return {u * tf.sigmoid(u), lambda dy: dy * tf.sigmoid(u) * (1.0 + u * (1.0 - tf.sigmoid(u)))",
            "| tf.square(u), lambda dy: 2.0 * dy * u | tf.sin(u), lambda dy: dy * tf.cos(u)}",
            "---",
        ],
    ),
    "training step": """
        with TAPE() as tape:
            a = SOME(x)
            loss = LOSS(a)
        g = tape.gradient(loss, x)
        x.assign_sub(0.1 * g)
        return g""",
    "Jacobian": """
        with TAPE() as tape:
            a = SOME(x)
        return tape.jacobian(a, x)""",
}
EAGER = ("NumPy or Python numbers (D13)", "string (D14)", "logged in NumPy")
"""The templates that cannot be traced."""


@dataclass(frozen=True)
class WrittenProgram:
    """A module with a function `program()`, the cause and line that break it (None if it is right), and the
    template."""

    text: str
    cause: Cause | None
    line: int | None
    kind: str

    @property
    def step(self) -> bool:
        """Whether the function is a training step, which returns its loss and its gradients for x and w."""
        return self.cause is Cause.CHANGED_AFTERWARDS


@st.composite
def broken_programs(draw: Draw, cause: Cause | None = None) -> WrittenProgram:
    """Programs that are broken in exactly one way, by a drawn or a given cause."""
    chosen = choice(draw, tuple(BROKEN)) if cause is None else cause
    return _written(draw, BROKEN[chosen], chosen)


@st.composite
def right_programs(draw: Draw) -> WrittenProgram:
    """Programs whose gradients are right."""
    return _written(draw, RIGHT, None)


def _written(draw: Draw, templates: Mapping[str, str], cause: Cause | None) -> WrittenProgram:
    """A module from one of the templates: variables x and w, a constant c, and the function."""
    kind = choice(draw, tuple(templates))
    literal = choice(draw, LITERALS)
    head = HEAD.format(*(literal.format(*(choice(draw, NUMBERS) for _ in range(4))) for _ in "xwc"))
    traced = kind not in EAGER and index(draw, TRACED_SHARE) == TRACED_SHARE - 1
    own, _, body = dedent(templates[kind]).removeprefix("\n").rpartition("---\n")
    function = "@tf.function\n" * traced + "def program():\n" + indent(_expanded(draw, body), "    ")
    lines = f"{head}{_expanded(draw, own)}\n\n{function}".splitlines()
    line = next((number for number, text in enumerate(lines, 1) if text.endswith(PLANTED)), None)
    return WrittenProgram("\n".join(text.removesuffix(PLANTED) for text in lines) + "\n", cause, line, kind)


def _expanded(draw: Draw, template: str) -> str:
    """A template's text with all of its open parts drawn, from top to bottom."""
    text = CHAIN.sub(lambda found: _chain(draw, *found.groups()), template)
    text = EXPRESSION.sub(lambda found: EXPRESSIONS[found[1]].replace("@", found[2]), text)
    return CHOICE.sub(lambda found: choice(draw, [one.strip() for one in found[1].split("|")]), text)


def _chain(draw: Draw, margin: str, name: str, end: str, operand: str) -> str:
    """Lines that apply operations one after another, from `operand` on."""
    applied = ["OPERATION"] * index(draw, 3) + ["LOSS" if end == "LOSS" else "OPERATION"]
    operands = [operand, *[name] * len(applied)]
    return "\n".join(f"{margin}{name} = {one}({of})" for one, of in zip(applied, operands, strict=False))
