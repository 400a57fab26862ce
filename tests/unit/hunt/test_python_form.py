from __future__ import annotations

import ast
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import COND, PFOR, Mode
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import over_points, values_of
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.opspec import Choice, OpSpec
from gradcheck.hunt.script import definitions_of, expression, to_python

ZERO = Graph((Input((3,), (0.0, 2.0, 3.0)),), (Node.of("cumprod", 0, exclusive=False, reverse=False),))
SMOOTH = Graph(
    (Input((2,), (1.0, 2.0)), Input((), (0.001,))),
    (Node.of("mul", 0, 1), Node.of("sin", 2), Node.of("log", 1), Node.of("add", 3, 4)),
)
TIE = Graph((Input((2,), (1.0, 2.0)), Input((2,), (1.0, 5.0))), (Node.of("maximum", 0, 1), Node.of("sin", 2)))


def test_the_text_is_straight_line_code() -> None:
    text = to_python(SMOOTH, 1, [1.0, -0.5])
    body = text.partition("def function(x1, x2):\n")[2].partition("\n\n")[0]
    assert body.splitlines() == [
        "    y1 = x1 * x2",
        "    y2 = tf.sin(y1)",
        "    y3 = tf.math.log(x2)",
        "    y4 = y2 + y3",
        "    return y4",
    ]
    assert "x1 = np.array([1.0, 2.0])\nx2 = np.array(0.001)\n" in text
    assert "w = np.array([1.0, -0.5])\n" in text


def test_the_text_depends_on_the_arguments_only() -> None:
    assert to_python(SMOOTH, 2, [1.0, 0.5]) == to_python(SMOOTH, 2, np.array([1.0, 0.5]))
    assert to_python(SMOOTH, 2, direction=[[1.0, 0.5], 2.0]) != to_python(SMOOTH, 2, direction=[[1.0, 0.5], 3.0])


@pytest.mark.parametrize("order", [1, 2])
def test_it_needs_tensorflow_and_numpy_only(order: int) -> None:
    imported = {
        alias.name
        for node in ast.walk(ast.parse(to_python(ZERO, order)))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported == {"itertools", "sys", "numpy", "tensorflow"}


def example(name: str) -> Graph:
    """A graph of one operation, with the last of what its attributes may be."""
    spec = CATALOGUE[name]
    shapes = next(found[0] for found in map(spec.shapes, spec.starts) if found)
    attrs = {
        attribute: what.values[-1]
        if isinstance(what, Choice)
        else tuple(sorted(place % what.below for place in range(what.count)))
        for attribute, what in spec.attributes(*shapes).items()
    }
    inputs = tuple(Input(s, plain(spec, i, math.prod(s)), spec.dtype(i)) for i, s in enumerate(shapes))
    return Graph(inputs, (Node.of(name, *range(spec.arity), **attrs),))


def plain(spec: OpSpec, argument: int, count: int) -> tuple[float, ...]:
    """Different numbers inside of an argument's domain, away from kinks."""
    domain = spec.domain(argument)
    low, high = max(domain.low, -1.0), min(domain.high, max(domain.low, -1.0) + 2.0)
    return tuple(low + (high - low) * ((0.31 + 0.17 * argument + 0.618 * place) % 1.0) for place in range(count))


def defined(text: str) -> dict[str, Any]:
    """The names that a script defines before it takes the derivative."""
    namespace: dict[str, Any] = {"__name__": "script"}
    exec(compile(text.partition("\ntry:\n    objective(function, ")[0], "script", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_script_computes_what_the_operation_does(name: str) -> None:
    spec, graph = CATALOGUE[name], example(name)
    script = defined(to_python(graph, 1))
    inputs = [tf.constant(literal.array()) for literal in graph.inputs]
    np.testing.assert_array_equal(script["function"](*inputs).numpy(), values_of(graph)[-1])
    assert ("reference" in script) == (spec.reference is not None)
    if spec.reference is not None:
        rows = [tf.stack([tensor, tensor * 0.875]) for tensor in inputs]
        meant = over_points(spec, reference=True)(*rows, **graph.nodes[0].attributes)
        np.testing.assert_array_equal(script["reference"](*(row[1] for row in rows)).numpy(), meant[1].numpy())


RAISES = {"resize_antialiased", "loop_of_gathers_of_tensorflow_1", "replaced_loop_variable_of_tensorflow_1"}
"""Operations whose gradients raise, eagerly and always, or in some loops of TensorFlow 1, as their records say."""
FUNCTIONS = sorted(name for name, spec in CATALOGUE.items() if list(definitions_of((spec.source, spec.reference))))
"""The operations that are functions of the catalogue, or call one."""


ENDING = "\nprint(float(objective(function, *map(tf.constant, inputs))), len(autodiff()), 'gradcheck' in sys.modules)"


def test_scripts_print_the_functions_of_the_catalogue_and_run_without_it() -> None:
    """Of every operation that is a function, in a process that has nothing of ours; two to the end."""
    graphs = [example(name) for name in FUNCTIONS if name not in RAISES]
    cut = [to_python(graph, 1).partition("\ntry:\n    objective(function, ")[0] + ENDING for graph in graphs]
    traced = Graph((Input((2,), (0.5, 1.5)),), (Node.of("scan", 0, reverse=False), Node.of("while_loop", 1, count=2)))
    *found, first, second = verdicts(*cut, to_python(traced, 1), to_python(traced, 2))
    assert (first[0], second[0]) == (0, 0)
    for graph, (code, lines) in zip(graphs, found, strict=True):
        value, count, ours = lines[-1].split()
        assert (code, int(count), ours) == (0, len(graph.inputs), "False")
        assert float(value) == pytest.approx(float(np.sum(values_of(graph)[-1])), rel=1e-12)


def test_printed_functions_have_names_of_their_own() -> None:
    """A function of the catalogue must not be called like another one, or like what every script defines."""
    texts = {text for spec in CATALOGUE.values() for text in definitions_of((spec.source, spec.reference))}
    names = [node.name for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names)) == len(texts)
    scripts = (to_python(SMOOTH, 2, mode=mode) for mode in (Mode(PFOR), Mode(mode=COND)))
    reserved = {name for script in scripts for name in defined(script)}
    assert not reserved & set(names)


def test_a_title_cannot_leave_its_quotes() -> None:
    tree = ast.parse(to_python(ZERO, 1, title='"""\nimport os; os.remove("x") \\'))
    assert ast.get_docstring(tree) is not None
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "os" for node in ast.walk(tree))


@pytest.mark.parametrize("order", [0, 3])
def test_another_order_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match=f"order was {order}"):
        to_python(ZERO, order)


def test_directions_must_fit_the_inputs() -> None:
    with pytest.raises(ValueError, match="1 directions were given for 2 inputs"):
        to_python(SMOOTH, 2, direction=[[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"shape \(3,\) was given for an input of shape \(2,\)"):
        to_python(SMOOTH, 2, direction=[[1.0, 1.0, 1.0], 1.0])


def test_attributes_are_literals() -> None:
    node = Node.of("cumprod", 0, exclusive=True, reverse=False)
    assert expression(node, ["x"]) == "tf.math.cumprod(x, axis=-1, exclusive=True, reverse=False)"


def verdicts(*scripts: str) -> list[tuple[int, list[str]]]:
    """Exit code and output of scripts, run one after the other in one fresh process (TensorFlow loads slowly)."""
    runner = (
        "import contextlib, io, sys\n"
        "for text in sys.stdin.read().split('\\0'):\n"
        "    out, code = io.StringIO(), 0\n"
        "    with contextlib.redirect_stdout(out):\n"
        "        try:\n"
        "            exec(compile(text, 'script', 'exec'), {'__name__': '__main__'})\n"
        "        except SystemExit as stop:\n"
        "            code = stop.code\n"
        "    print(repr((code, out.getvalue().splitlines())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", runner], input="\0".join(scripts), capture_output=True, text=True, check=True
    )
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


def test_scripts_tell_right_from_wrong() -> None:
    """Each in a fresh process: cumprod at zero is wrong, a smooth graph is right, a tie lies between the slopes."""
    steep = Graph((Input((1,), (1e-3,)),), (Node.of("log", 0), Node.of("square", 1)))
    sparse = Graph((Input((2,), (1.0, 2.0)),), (Node.of("gather_rows", 0, indices=(0, 0)), Node.of("square", 1)))
    flat = Graph((Input((1,), (1e-20,)),), (Node.of("sin", 0),))
    fake = to_python(SMOOTH, 1).replace("return tape.gradient(value, tensors)", "return [None, None]")
    blind = to_python(ZERO, 1).replace("float(objective(", "float(np.nan * objective(")
    raising = to_python(SMOOTH, 1).replace(
        "return tape.gradient", "raise LookupError('no gradient')\n    return tape.gradient"
    )
    broken = to_python(SMOOTH, 1).replace(
        "return tf.reduce_sum", "raise OSError('no such file')\n    return tf.reduce_sum"
    )
    assert broken != to_python(SMOOTH, 1)
    found = verdicts(
        to_python(ZERO, 1, [1.0, 1.0, 1.0]),
        to_python(ZERO, 2, [1.0, 1.0, 1.0], [[1.0, 1.0, 1.0]]),
        to_python(SMOOTH, 1, [1.0, -0.5]),
        to_python(SMOOTH, 2, [1.0, -0.5], [[0.5, 1.0], 0.75]),
        to_python(TIE, 1, [1.0, 0.5], one_sided=True),
        to_python(steep, 1),
        to_python(steep, 2),
        to_python(flat, 1),
        fake,
        blind,
        raising,
        to_python(sparse, 2),
        broken,
    )
    assert [code for code, _ in found] == [1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0, 2]
    assert found[0][1][2].split() == ["x[0]", "0", "9", found[0][1][2].split()[3], "<-", "wrong"]
    assert [float(line.split()[2]) for line in found[1][1][2:5]] == pytest.approx([6.0, 4.0, 2.0], rel=1e-9)
    assert [lines[-1] for _, lines in found] == [
        *(
            "WRONG",
            "WRONG",
            "RIGHT",
            "RIGHT",
            "RIGHT",
            "RIGHT",
            "RIGHT",
            "RIGHT",
            "WRONG",
            "INCONCLUSIVE",
            "WRONG",
            "RIGHT",
            "INCONCLUSIVE",
        )
    ]
    assert "OSError: no such file" in found[12][1][1]
    assert "None" in found[8][1][2]
    assert "LookupError: no gradient" in found[10][1][1]


def test_a_reference_that_looks_at_the_unperturbed_point_finds_it_in_row_0() -> None:
    stairs = Graph(
        (Input((2,), (0.3, 0.25)),),
        (
            Node.of("quantize_and_dequantize_v2", 0, narrow=False, rounding="HALF_TO_EVEN", signed=True),
            Node.of("square", 1),
        ),
    )
    missing = Graph(
        (Input((2,), (0.3, 0.25)),),
        (Node.of("fake_quant_with_min_max_args", 0, way=(-1.0, 0.9921875, 8, False)), Node.of("mul", 1, 0)),
    )
    sample = Graph((Input((2,), (1.5, 2.5)),), (Node.of("square", 0), Node.of("stateless_gamma", 1)))
    text = to_python(missing, 2)
    assert "    y2 = tf.stack([y1 * x for y1, x in zip(y1, x)])\n    return y2[1]\n" in text
    found = verdicts(to_python(stairs, 1), to_python(stairs, 2), text, to_python(sample, 1))
    assert [(code, lines[-1]) for code, lines in found] == [(0, "RIGHT"), (0, "RIGHT"), (1, "WRONG"), (0, "RIGHT")]
