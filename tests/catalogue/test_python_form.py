from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from gradcheck.autodiff.mode import COND, PFOR, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.script import expression, to_python
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.printed_calls import definitions_of, node_of, texts_of
from tests import slices
from tests.catalogue.entries import defined, plain_graph

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


RAISES = {"resize_antialiased", "loop_of_gathers_of_tensorflow_1", "replaced_loop_variable_of_tensorflow_1"}
"""Operations whose gradients raise, eagerly and always, or in some loops of TensorFlow 1, as their records say."""
FUNCTIONS = sorted(name for name, spec in CATALOGUE.items() if any(definitions_of((spec.source, spec.reference))))
"""The operations that are functions of the catalogue, or call one."""


ENDING = "\nprint(float(objective(function, *map(tf.constant, inputs))), len(autodiff()), 'gradcheck' in sys.modules)"


def test_printed_functions_have_names_of_their_own() -> None:
    """A function of the catalogue must not be called like another one, or like what every script defines."""
    texts = {text for spec in CATALOGUE.values() for text in definitions_of((spec.source, spec.reference))}
    names = [node.name for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names)) == len(texts)
    scripts = (to_python(SMOOTH, 2, mode=mode) for mode in (Mode(PFOR), Mode(mode=COND)))
    reserved = {name for script in scripts for name in defined(script)}
    assert not reserved & set(names)


FORMS = [form for spec in CATALOGUE.values() for form in (spec.source, spec.reference) if form is not None]
LAMBDAS = [form for form in FORMS if form.__name__ == "<lambda>"]


def test_every_lambda_is_found_in_its_file() -> None:
    """A form that is one is written out, from the expression that it was made by."""
    for form in LAMBDAS:
        node = node_of(form)
        names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        assert names == [*form.__code__.co_varnames[: len(names)]]
    assert len(LAMBDAS) > 1000


def hidden(text: str) -> Iterator[str]:
    """Of a lambda, what would be put where a name is bound that it may have in a script, or that is a parameter's."""
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Lambda)
    own = {one.arg for one in node.args.args}
    for inner in ast.walk(node.body):
        if isinstance(inner, ast.Lambda):
            bound = {one.arg for one in ast.walk(inner.args) if isinstance(one, ast.arg)}
        elif isinstance(inner, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = (name for each in inner.generators for name in ast.walk(each.target))
            bound = {name.id for name in targets if isinstance(name, ast.Name)}
            yield from bound & own
        else:
            continue
        read = {name.id for name in ast.walk(inner) if isinstance(name, ast.Name)}
        if any(re.fullmatch(r"[xy]\d*", name) for name in bound):
            yield from (read & own) - bound


def test_no_name_that_a_lambda_binds_inside_hides_what_is_put_there() -> None:
    assert [*hidden("lambda x: map(lambda x: x, x)")] == []
    assert [*hidden("lambda a: map(lambda x: x + a, a)")] == ["a"]
    assert [*hidden("lambda a: [a for a in b]")] == ["a"]
    assert [*hidden("lambda a: [a for x in b]")] == ["a"]
    texts = {text for form in FORMS for text in texts_of(form) if text.startswith("lambda")}
    assert [text for text in texts if any(hidden(text))] == []


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


STAIRS = Graph(
    (Input((2,), (0.3, 0.25)),),
    (
        Node.of("quantize_and_dequantize_v2", 0, narrow=False, rounding="HALF_TO_EVEN", signed=True),
        Node.of("square", 1),
    ),
)
MISSING = Graph(
    (Input((2,), (0.3, 0.25)),),
    (Node.of("fake_quant_with_min_max_args", 0, way=(-1.0, 0.9921875, 8, False)), Node.of("mul", 1, 0)),
)
TRACED = Graph((Input((2,), (0.5, 1.5)),), (Node.of("scan", 0, reverse=False), Node.of("while_loop", 1, count=2)))
EXIT_CODES = {"RIGHT": 0, "WRONG": 1, "INCONCLUSIVE": 2}


def judged() -> dict[str, tuple[str, str]]:
    """Scripts and their verdicts."""
    steep = Graph((Input((1,), (1e-3,)),), (Node.of("log", 0), Node.of("square", 1)))
    sparse = Graph((Input((2,), (1.0, 2.0)),), (Node.of("gather_rows", 0, indices=(0, 0)), Node.of("square", 1)))
    flat = Graph((Input((1,), (1e-20,)),), (Node.of("sin", 0),))
    sample = Graph((Input((2,), (1.5, 2.5)),), (Node.of("square", 0), Node.of("stateless_gamma", 1)))
    smooth, returned, summed = to_python(SMOOTH, 1), "return tape.gradient", "return tf.reduce_sum"
    changed = {
        "a gradient of None": smooth.replace(f"{returned}(value, tensors)", "return [None, None]"),
        "a gradient that raises": smooth.replace(returned, f"raise LookupError('no gradient')\n    {returned}"),
        "a function that raises": smooth.replace(summed, f"raise OSError('no such file')\n    {summed}"),
        "differences of NaN": to_python(ZERO, 1).replace("float(objective(", "float(np.nan * objective("),
    }
    assert not {smooth, to_python(ZERO, 1)} & set(changed.values())
    return {
        "cumprod at zero": (to_python(ZERO, 1, [1.0, 1.0, 1.0]), "WRONG"),
        "cumprod at zero, order 2": (to_python(ZERO, 2, [1.0, 1.0, 1.0], [[1.0, 1.0, 1.0]]), "WRONG"),
        "a smooth graph": (to_python(SMOOTH, 1, [1.0, -0.5]), "RIGHT"),
        "a smooth graph, order 2": (to_python(SMOOTH, 2, [1.0, -0.5], [[0.5, 1.0], 0.75]), "RIGHT"),
        "a tie, between the slopes": (to_python(TIE, 1, [1.0, 0.5], one_sided=True), "RIGHT"),
        "a steep graph": (to_python(steep, 1), "RIGHT"),
        "a steep graph, order 2": (to_python(steep, 2), "RIGHT"),
        "a tiny argument": (to_python(flat, 1), "RIGHT"),
        "sparse gradients, order 2": (to_python(sparse, 2), "RIGHT"),
        "traced functions": (to_python(TRACED, 1), "RIGHT"),
        "traced functions, order 2": (to_python(TRACED, 2), "RIGHT"),
        "a reference at row 0": (to_python(STAIRS, 1), "RIGHT"),
        "a reference at row 0, order 2": (to_python(STAIRS, 2), "RIGHT"),
        "a reference at row 0, and what lacks a term": (to_python(MISSING, 2), "WRONG"),
        "a sample whose reference is at row 0": (to_python(sample, 1), "RIGHT"),
        **{name: (script, "INCONCLUSIVE") for name, script in changed.items()},
        "a gradient of None": (changed["a gradient of None"], "WRONG"),
        "a gradient that raises": (changed["a gradient that raises"], "WRONG"),
    }


@pytest.mark.sliced
def test_scripts_run_without_the_package_and_tell_right_from_wrong(subtests: pytest.Subtests) -> None:
    """All in one process that has nothing of ours; of the operations that are functions, up to the derivative."""
    names = slices.sliced([name for name in FUNCTIONS if name not in RAISES], slices.every(16))
    graphs = [plain_graph(name) for name in names]
    cut = [to_python(graph, 1).partition("\ntry:\n    objective(function, ")[0] + ENDING for graph in graphs]
    scripts = judged()
    found = verdicts(*cut, *(script for script, _ in scripts.values()))
    for graph, (code, lines) in zip(graphs, found, strict=False):
        with subtests.test(graph.nodes[0].op):
            value, count, ours = lines[-1].split()
            assert (code, int(count), ours) == (0, len(graph.inputs), "False")
            assert float(value) == pytest.approx(np.sum(values_of(graph)[-1]).real, rel=1e-12)
    said = dict(zip(scripts, found[len(graphs) :], strict=True))
    for name, (_, verdict) in scripts.items():
        with subtests.test(name):
            assert (said[name][0], said[name][1][-1]) == (EXIT_CODES[verdict], verdict)
    with subtests.test("what is wrong, and why, is printed"):
        (_, first), (_, second) = said["cumprod at zero"], said["cumprod at zero, order 2"]
        assert first[2].split() == ["x[0]", "0", "9", first[2].split()[3], "<-", "wrong"]
        assert [float(line.split()[2]) for line in second[2:5]] == pytest.approx([6.0, 4.0, 2.0], rel=1e-9)
        assert "OSError: no such file" in said["a function that raises"][1][1]
        assert "None" in said["a gradient of None"][1][2]
        assert "LookupError: no gradient" in said["a gradient that raises"][1][1]


def test_a_reference_that_looks_at_the_unperturbed_point_finds_it_in_row_0() -> None:
    steps = "    y2 = tf.stack([y1 * x for y1, x in zip(y1, x)])\n    return y2[1]\n"
    assert steps in to_python(MISSING, 2)
