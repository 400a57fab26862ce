"""The source text of a program, which needs only TensorFlow and NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck.defects import tape_program as form
from gradcheck.hunt.tapes.operations import OPERATIONS

INDENT = "    "
HEAD = ("import numpy as np", "import tensorflow as tf", "")


def to_python(program: form.Program) -> str:
    """The program as a script, which prints every derivative (a traced one: all of them in the end)."""
    made = [_variable(variable) for variable in program.variables]
    if not program.traced:
        lines = [*HEAD, *(f"{v.name} = {text}" for v, text in zip(program.variables, made, strict=True))]
        return "\n".join([*lines, *_block(program.body, 0, traced=False)]) + "\n"
    # A function may give the name of a variable to a tensor, which makes the name its own.
    outside, own = f"variables = [{', '.join(made)}]", f"[{', '.join(v.name for v in program.variables)}] = variables"
    names = [statement.name for statement in program.statements() if isinstance(statement, form.Derive)]
    lines = [*HEAD, outside, "", "", "@tf.function", "def program():", INDENT + own]
    lines += _block(program.body, 1, traced=True)
    lines += [f"{INDENT}return [{', '.join(names)}]", "", "", "print(program())"]
    return "\n".join(lines) + "\n"


def _variable(variable: form.Variable) -> str:
    trainable = "" if variable.trainable else ", trainable=False"
    return f"tf.Variable({_numbers(variable.literal)}, dtype=tf.float64{trainable})"


def _numbers(literal: form.Literal) -> Any:
    return np.reshape(literal.values, literal.shape).tolist()


def _block(body: tuple[form.Statement, ...], depth: int, traced: bool) -> list[str]:
    lines = [line for statement in body for line in _lines(statement, depth, traced)]
    return lines or [INDENT * depth + "pass"]


def _lines(statement: form.Statement, depth: int, traced: bool) -> Iterator[str]:
    margin = INDENT * depth
    match statement:
        case form.Open(tapes, body):
            yield f"{margin}with {', '.join(map(_tape, tapes))}:"
            yield from _block(body, depth + 1, traced)
        case form.Resume(tape, body):
            yield f"{margin}with {tape}:"
            yield from _block(body, depth + 1, traced)
        case form.Stop(tape, body):
            yield f"{margin}with {tape}.stop_recording():"
            yield from _block(body, depth + 1, traced)
        case form.Loop(count, body):
            yield f"{margin}for _ in range({count}):"
            yield from _block(body, depth + 1, traced)
        case form.Branch(_, condition, threshold, then, otherwise):
            yield f"{margin}if tf.reduce_sum({condition}) > {threshold}:"
            yield from _block(then, depth + 1, traced)
            yield f"{margin}else:"
            yield from _block(otherwise, depth + 1, traced)
        case form.Call(function, names, arguments, body):
            yield f"{margin}@tf.function"
            yield f"{margin}def {function}({', '.join(arguments)}):"
            yield from _block(body, depth + 1, traced)
            yield f"{margin}{INDENT}return [{', '.join(names)}]"
            yield f"{margin}[{', '.join(names)}] = {function}({', '.join(arguments)})"
        case _:
            yield margin + _line(statement)
            if isinstance(statement, form.Derive) and not traced:
                yield f"{margin}print({statement.name!r}, {statement.name})"


def _line(statement: form.Statement) -> str:
    match statement:
        case form.Constant(name, literal):
            return f"{name} = tf.constant({_numbers(literal)}, dtype=tf.float64)"
        case form.Apply(name, operation, arguments):
            return f"{name} = {(OPERATIONS[operation].text or operation).format(*arguments)}"
        case form.Assign(variable, method, value):
            return f"{variable}.{method}({value})"
        case form.Watch(tape, name):
            return f"{tape}.watch({name})"
        case form.Reset(tape):
            return f"{tape}.reset()"
        case form.Derive(name, tape, method, targets, sources, zeros):
            unconnected = ", unconnected_gradients='zero'" if zeros else ""
            return f"{name} = {tape}.{method}({_handed(targets)}, {_handed(sources)}{unconnected})"
    raise TypeError(f"{type(statement).__name__} is no statement of a program")


def _tape(tape: form.Tape) -> str:
    options = ["persistent=True"] * tape.persistent + ["watch_accessed_variables=False"] * (not tape.accessed)
    return f"tf.GradientTape({', '.join(options)}) as {tape.name}"


def _handed(structure: form.Structure) -> str:
    if structure.form == "dict":
        return "{" + ", ".join(f"{k!r}: {name}" for k, name in zip(form.KEYS, structure.names, strict=False)) + "}"
    return f"[{', '.join(structure.names)}]" if structure.form == "list" else structure.names[0]
