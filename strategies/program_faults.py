"""Programs that lose a gradient because of what their tapes cover, watch, or are asked."""

from __future__ import annotations

from .right_programs import NONLINEAR, Text, closing, ended, tape


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


def numpy_step(text: Text) -> None:
    """D13: one step is NumPy's."""
    with text.block(tape(text)):
        first = text.chain("x", least=1)
        steps = (
            "np.sin({0})",
            "tf.constant(np.tanh({0}.numpy()))",
            "np.exp(0.5 * {0}.numpy())",
            "float(tf.reduce_sum({0}))",
        )
        part = text.made(text.choice(steps).format(first), planted=True)
        loss = ended(text, text.made(f"tf.sin(c * {part})"))
    closing(text, loss)


def integer_source(text: Text) -> None:
    """D14: the source is an integer to begin with."""
    text.add(f"n = tf.constant({text.choice(('3', '[2, 5]', '[1, 4]'))})", planted=True)
    with text.block(tape(text)):
        text.add("tape.watch(n)")
        loss = text.made(text.choice(("n * n", "n + 2", "tf.cast(n, tf.float64) * 2.0")))
    text.add(f"return tape.gradient({loss}, n)")


def string_step(text: Text) -> None:
    """D14: a string on the path."""
    with text.block(tape(text)):
        first = text.chain("x", least=1)
        words = text.made(f"tf.strings.as_string({first}, precision=15)", planted=True)
        part = text.made(f"tf.strings.to_number({words}, tf.float64)")
        loss = ended(text, text.chain(part))
    closing(text, loss)


def through_a_variable(text: Text) -> None:
    """D15: a value goes through a variable."""
    with text.block(tape(text)):
        first = text.chain("x")
        method = text.choice(("assign_add", "assign"))
        text.add(f"w.{method}({first})", planted=True)
        part = text.chain("w", least=1)
        loss = text.made(f"tf.reduce_sum({part})")
    closing(text, loss)


def unregistered(text: Text) -> None:
    """D16: an operation without a gradient."""
    with text.block(tape(text)):
        first = text.chain("x")
        operations = ("tf.truncatemod({0}, tf.constant(5.0, tf.float64))", "tf.unique(tf.reshape({0}, [-1]))[0]")
        part = text.made(text.choice(operations).format(first), planted=True)
        loss = text.made(f"tf.reduce_sum({text.chain(part)})")
    closing(text, loss)


def not_differentiable(text: Text) -> None:
    """A step that is registered as not differentiable, or has None for a gradient."""
    with text.block(tape(text)):
        first = text.made(text.choice(("10.0 * x", "7.0 * x + 0.3", "5.0 * tf.sin(x)")))
        steps = ("tf.round({0})", "tf.floor({0})", "tf.cast(tf.cast({0}, tf.int32), tf.float64)", "tf.math.ceil({0})")
        part = text.made(text.choice(steps).format(first), planted=True)
        loss = ended(text, text.chain(part))
    closing(text, loss)


def stopped(text: Text) -> None:
    """tf.stop_gradient on the path, of the whole or of a part."""
    with text.block(tape(text)):
        first = text.chain("x", least=1)
        part = text.made(f"tf.stop_gradient({first})", planted=True)
        part = part if text.flag() else text.made(f"{part} * {first}")
        loss = ended(text, text.chain(part))
    closing(text, loss)


def custom(text: Text) -> None:
    """A gradient that somebody wrote by hand, and that is wrong."""
    value, wrong = text.choice(
        (
            ("u * tf.sigmoid(u)", "dy * tf.sigmoid(u)"),
            ("tf.square(u)", "dy * u"),
            ("tf.sin(u)", "-dy * tf.cos(u)"),
            ("tf.exp(u)", "dy"),
            ("tf.tanh(u)", "dy * (1.0 - tf.tanh(u))"),
        )
    )
    text.before += [("@tf.custom_gradient", False), ("def made(u):", True)]
    text.before += [(f"    return {value}, lambda dy: {wrong}", False), ("", False), ("", False)]
    with text.block(tape(text)):
        part = text.made(f"made({text.chain('x')})")
        loss = ended(text, text.chain(part))
    closing(text, loss)


def changed(text: Text) -> None:
    """C6: what the tape gave is clipped, scaled or averaged before it is handed on."""
    with text.block("with tf.GradientTape() as tape:"):
        part = text.chain("x", least=1, operations=NONLINEAR)
        loss = text.made(f"tf.reduce_sum({part} * w)")
    text.add(f"g, h = tape.gradient({loss}, [x, w])")
    # The limits are so small that every gradient exceeds them.
    changes = (
        *("g = 0.5 * g", "g = tf.clip_by_norm(g, 1e-6)", "g = -g", "g = tf.clip_by_value(g, -1e-6, 1e-6)"),
        "g = g + 0.1 * x",
    )
    text.add(text.choice(changes), planted=True)
    text.add(f"return {loss}, [g, h]")
