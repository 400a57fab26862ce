"""Reproduction scripts: a graph and its derivative as straight-line code that needs only TensorFlow and NumPy."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import CodeType
from typing import Any

import numpy as np

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.hunt import mode_script
from gradcheck.hunt.catalogue import CATALOGUE, FUNCTIONS
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.opspec import FIELD, Form

HEAD = '''"""{title}"""

{imports}

import numpy as np
import tensorflow as tf
'''

FIRST = """
def autodiff():
    tensors = [tf.constant(value) for value in inputs]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = objective(function, *tensors)
    return tape.gradient(value, tensors)
"""

SECOND = """
def autodiff():
    tensors = [tf.constant(value) for value in inputs]
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            value = objective(function, *tensors)
        gradient = [None if g is None else tf.convert_to_tensor(g) for g in inner.gradient(value, tensors)]
    known = [i for i, part in enumerate(gradient) if part is not None]
    if not known:
        return gradient
    vectors = [tf.constant(direction[i]) for i in known]
    return outer.gradient([gradient[i] for i in known], tensors, output_gradients=vectors)
"""

MOVED_FIRST = '''
def moved(i, element, unit, s):
    """The objective with one element of one input moved by s * unit."""
    point = [value.copy() for value in inputs]
    point[i][element] += s * unit
    return float(objective({oracle}, *map(tf.constant, point)))
'''

MOVED_SECOND = '''
def moved(i, element, unit, s, t):
    """The objective at inputs + t * direction, with one element of one input moved by s * unit besides."""
    point = [np.array(value + t * vector) for value, vector in zip(inputs, direction)]
    point[i][element] += s * unit
    return float(objective({oracle}, *map(tf.constant, point)))


def mixed(h, *place):
    """The central difference of the second derivative along the element and along the direction."""
    return [a * b * moved(*place, a * h, b * h) / (4 * h * h) for a in (1, -1) for b in (1, -1)]
'''

DIFFERENCE = '''
def difference(i, element, unit):
    """Central differences, extrapolated, at the step where they agree best; and how far they may be off."""
    best, least = np.nan, np.inf
    for scale, step in itertools.product({{1.0, abs(inputs[i][element]) or 1.0}}, 10.0 ** -np.arange(1.0, {steps})):
        h = scale * step
        rows = [{row} for h in (h, h / 2, h / 4)]
        coarse, middle, fine = map(sum, rows)
        once, twice = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
        rounding = 8 * {eps} * (np.abs(rows[2]).max() + abs(inputs[i][element] * twice / h))
        if abs(twice - once) + rounding < least:
            best, least = twice, abs(twice - once) + rounding
    return best, least
'''

ROW_FIRST = "[a * moved(i, element, unit, a * h) / (2 * h) for a in (1, -1)]"
ROW_SECOND = "mixed(h, i, element, unit)"

SLOPES = '''
def slopes(i, element, unit):
    """The one-sided slopes, extrapolated, at the step where they agree best; and how far they may be off."""
    best, least = (np.nan, np.nan), np.inf
    for scale, step in itertools.product({{1.0, abs(inputs[i][element]) or 1.0}}, 10.0 ** -np.arange(1.0, 8.0)):
        h, here = scale * step, moved(i, element, unit, 0.0)
        rows = [[(moved(i, element, unit, s) - here) / s for s in (-h, -h / 2, h, h / 2)] for h in (h, h / 2)]
        once, twice = [(2 * row[1] - row[0], 2 * row[3] - row[2]) for row in rows]
        rounding = 32 * {eps} * (abs(here) / h + max(map(abs, twice)))
        error = max(abs(twice[0] - once[0]), abs(twice[1] - once[1])) + rounding
        if error < least:
            best, least = twice, error
    return *sorted(best), least
'''

COMPARE = {
    False: """
            expected, error = difference(i, element, unit)
            gap, size, shown = abs(taken - expected), abs(expected), f"{expected:.15g}"
""",
    True: """
            low, high, error = slopes(i, element, unit)
            gap, size, shown = max(low - taken, taken - high, 0.0), max(abs(low), abs(high)), f"{low:.8g} to {high:.8g}"
""",
}

VERDICT = """
try:
    objective(function, *map(tf.constant, inputs))
except Exception as error:
    print(f"TensorFlow {{tf.__version__}}: the function itself raises")
    print(f"{{type(error).__name__}}: {{error}}")
    print("INCONCLUSIVE")
    sys.exit(2)
try:
    derivative = autodiff()
except Exception as error:
    print(f"TensorFlow {{tf.__version__}}: the function is computed, its derivative raises")
    print(f"{{type(error).__name__}}: {{error}}")
    print("WRONG")
    sys.exit(1)

wrong = unsure = 0
print(f"TensorFlow {{tf.__version__}}: {what}")
print(f"{{'element':<18}} {{'autodiff':>22}} {{'{against}':>22}} {{'error at most':>14}}")
for i, (name, value) in enumerate(zip(names, inputs)):
    given = None if derivative[i] is None else tf.convert_to_tensor(derivative[i]).numpy()
    if given is not None and given.shape != value.shape:
        print(f"{{name}}: the derivative has shape {{given.shape}}, the input {{value.shape}}")
        wrong += 1
        continue
    for element in np.ndindex(value.shape):
        for unit in (1.0, 1.0j) if np.iscomplexobj(value) else (1.0,):
            taken = 0.0 if given is None else float((given[element] / unit).real)
            {compare}
            tolerance = 10 * error + {rtol} * size
            mark = ""
            if not np.isfinite(error) or tolerance > max(0.1 * size, 1e-6):
                mark, unsure = "inconclusive", unsure + 1
            if np.isfinite(error) and not gap <= tolerance:
                mark, wrong = "<- wrong", wrong + 1
            label = name + (str(list(element)) if element else "") + (" imag" if unit == 1.0j else "")
            text = "None" if given is None else f"{{taken:.15g}}"
            print(f"{{label:<18}} {{text:>22}} {{shown:>22}} {{error:>14.1e}} {{mark}}".rstrip())

if wrong:
    print("WRONG")
    sys.exit(1)
if unsure:
    print("INCONCLUSIVE")
    sys.exit(2)
print("RIGHT")
"""


Array = np.ndarray[Any, Any]
Literal = Input | Array | Sequence[complex] | complex

IMPORTS = {
    r"\bfunctools\.": "import functools",
    r"itertools": "import itertools",
    r"sys": "import sys",
    r"\bCallable\[": "from collections.abc import Callable",
    r"\bAny\b": "from typing import Any",
}
"""What has to be imported from the standard library for what a script uses."""


def to_python(
    graph: Graph,
    order: int,
    cotangent: Literal | None = None,
    direction: Sequence[Literal] | None = None,
    *,
    title: str = "",
    one_sided: bool = False,
    mode: Mode = PLAIN,
) -> str:
    """A stand-alone script for the derivative of sum(cotangent * output) with respect to every input of a graph.

    Order 1 compares the gradient, order 2 the Hessian times `direction` (one literal for each input, all ones if None),
    each with central differences of the function's values. The cotangent has the output's shape (all ones if None); of
    complex outputs the real part of the sum is taken. With `one_sided` (a finding at a kink, order 1) the gradient must
    lie between the slopes on both sides. The script prints a comparison and exits with 1 if the derivative is wrong, 0
    if it is right, 2 if it is inconclusive. The derivative is taken in `mode`. The text depends on nothing but
    the arguments.

    Raises ValueError for another order, or a direction that does not fit the inputs.
    """
    if order not in (1, 2) or (one_sided and order == 2):
        raise ValueError(f"order was {order!r}; a script is written for order 1 or 2 (at a kink, 1)")
    if direction is not None and len(direction) != len(graph.inputs):
        raise ValueError(f"{len(direction)} directions were given for {len(graph.inputs)} inputs; each needs one")
    names = variables(graph)[: len(graph.inputs)]
    specs = [CATALOGUE[node.op] for node in graph.nodes]
    oracle = "reference" if any(spec.reference for spec in specs) else "function"
    definitions = list(definitions_of(form for spec in specs for form in (spec.source, spec.reference)))
    parts = [*_inputs(graph, names, order, direction), *definitions, _function(graph)]
    if oracle == "reference":
        parts.append(_reference(graph))
    parts.append(_objective(graph, names, cotangent))
    parts += [FIRST if order == 1 else SECOND] if mode == PLAIN else mode_script.derivative(mode, order)
    parts += _differences(graph, order, one_sided, oracle)
    parts.append(_verdict(graph, order, one_sided))
    imports = [line for pattern, line in IMPORTS.items() if any(re.search(pattern, part) for part in parts)]
    title = _plain(title) or f"A derivative of order {order} of TensorFlow, beside differences."
    return _spaced([HEAD.format(title=title, imports="\n".join(imports)), *parts])


def definitions_of(forms: Iterable[Form | None]) -> Iterator[str]:
    """The sources of all functions that forms are or call, directly or not, in the order of definition."""
    found: list[Callable[..., Any]] = []
    waiting = [function for form in forms if form is not None for function in _called(form)]
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if function not in found:
            found.append(function)
            known = [function.__globals__.get(name) for name in _globals_read(function.__code__)]
            waiting += [value for value in known if callable(value) and inspect.isfunction(inspect.unwrap(value))]
    for function in sorted(found, key=lambda each: (each.__module__, each.__code__.co_firstlineno)):
        yield inspect.getsource(function)


def _called(form: Form) -> list[Callable[..., Any]]:
    if not isinstance(form, str):
        return [form]
    return [FUNCTIONS[word] for word in re.findall(r"(?<![.\w])\w+", form) if word in FUNCTIONS]


def _globals_read(code: CodeType) -> Iterator[str]:
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_read(inner)


def _inputs(graph: Graph, names: Sequence[str], order: int, direction: Sequence[Literal] | None) -> list[str]:
    lines = [f"{name} = {_array(value.array())}" for name, value in zip(names, graph.inputs, strict=True)]
    lines += [f"inputs = [{', '.join(names)}]", f"names = {_quoted(names)}"]
    if order == 2:
        vectors = direction or [np.ones(value.shape) for value in graph.inputs]
        texts = [_array(_fitted(v, x.shape, x.dtype)) for v, x in zip(vectors, graph.inputs, strict=True)]
        lines.append(f"direction = [{', '.join(texts)}]")
    return ["\n".join(lines)]


def variables(graph: Graph) -> list[str]:
    """The variable of each position in the script: x or x1, x2, … for inputs, y or y1, y2, … for nodes."""
    return [*_numbered("x", len(graph.inputs)), *_numbered("y", len(graph.nodes))]


def expression(node: Node, names: Sequence[str], *, reference: bool = False) -> str:
    """A node's source text, or the call of its function, with the parents' variables and its attributes' literals."""
    spec = CATALOGUE[node.op]
    form = spec.reference if reference and spec.reference else spec.source
    parents = [names[parent] for parent in node.parents]
    if isinstance(form, str):
        values = {name: repr(value) for name, value in node.attrs}
        values.update({str(place): parent for place, parent in enumerate(parents)})
        return FIELD.sub(lambda match: values[match[1]], form)
    return f"{form.__name__}({', '.join([*parents, *(f'{name}={value!r}' for name, value in node.attrs)])})"


def _function(graph: Graph) -> str:
    names = variables(graph)
    lines = [f"def function({', '.join(names[: len(graph.inputs)])}):"]
    lines += [f"    {names[position]} = {expression(node, names)}" for position, node in graph.positions()]
    return "\n".join([*lines, f"    return {names[-1]}"])


def _reference(graph: Graph) -> str:
    names = variables(graph)
    first = names[: len(graph.inputs)]
    lines = [
        f"def reference({', '.join(first)}):",
        '    """The function whose derivative is meant, in float64; row 0 holds the given inputs, row 1 these."""',
        *(f"    {name} = tf.stack([inputs[{number}], {name}])" for number, name in enumerate(first)),
    ]
    for position, node in graph.positions():
        lines.append(f"    {names[position]} = {_over_rows(node, names)}")
    return "\n".join([*lines, f"    return {names[-1]}[1]"])


def _over_rows(node: Node, names: Sequence[str]) -> str:
    text = expression(node, names, reference=True)
    if CATALOGUE[node.op].reference:
        return text
    parents = list(dict.fromkeys(names[parent] for parent in node.parents))
    rows = parents[0] if len(parents) == 1 else f"zip({', '.join(parents)})"
    return f"tf.stack([{text} for {', '.join(parents)} in {rows}])"


def _objective(graph: Graph, names: Sequence[str], cotangent: Literal | None) -> str:
    dtype = CATALOGUE[graph.nodes[-1].op].result if graph.nodes else graph.inputs[-1].dtype
    given = ", ".join(names)
    if cotangent is None:
        weights, product = "", "f({given})"
    else:
        value = cotangent.array() if isinstance(cotangent, Input) else np.asarray(cotangent)
        weights = f"w = {_array(value.astype(dtype))}\n\n\n"
        product = "tf.math.conj(w) * f({given})" if dtype.startswith("complex") else "w * f({given})"
    product = product.format(given=given)
    if dtype.startswith("complex"):
        product = f"tf.math.real({product})"
    return f"{weights}def objective(f, {given}):\n    return tf.reduce_sum({product})"


def _differences(graph: Graph, order: int, one_sided: bool, oracle: str) -> list[str]:
    moved = MOVED_FIRST if order == 1 else MOVED_SECOND
    parts = [moved.format(oracle=oracle)]
    if one_sided:
        return [*parts, SLOPES.format(eps=_roundoff(graph))]
    row, steps = (ROW_FIRST, "8.0") if order == 1 else (ROW_SECOND, "6.0")
    return [*parts, DIFFERENCE.format(row=row, steps=steps, eps=_roundoff(graph))]


def _roundoff(graph: Graph) -> str:
    specs = [CATALOGUE[node.op] for node in graph.nodes]
    narrow = [spec.rtol for spec in specs if spec.reference is None and spec.rtol]
    single = [2.0**-23] if any(value.dtype == "float32" for value in graph.inputs) else []
    return f"{max([2.0**-52, *narrow, *single]):.2g}"


def _verdict(graph: Graph, order: int, one_sided: bool) -> str:
    rounding = max([1e-12, *(10 * CATALOGUE[node.op].rtol for node in graph.nodes)])
    if any(value.dtype == "float32" for value in graph.inputs):
        rounding = max(rounding, 1e-5)
    return VERDICT.format(
        what="the gradient" if order == 1 else "the Hessian times the direction",
        against="one-sided slopes" if one_sided else "finite differences",
        compare=COMPARE[one_sided].strip(),
        rtol=repr(rounding),
    )


def _numbered(letter: str, count: int) -> list[str]:
    return [letter] if count == 1 else [f"{letter}{number}" for number in range(1, count + 1)]


def _quoted(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _fitted(value: Literal, shape: tuple[int, ...], dtype: str) -> Array:
    array = value.array() if isinstance(value, Input) else np.asarray(value)
    if array.size != np.prod(shape, dtype=int):
        raise ValueError(f"a direction of shape {array.shape} was given for an input of shape {shape}")
    return array.reshape(shape).astype(dtype)


def _array(value: Array) -> str:
    dtype = "" if value.dtype == np.float64 and value.size else f', dtype="{value.dtype}"'
    text = repr(value.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    reshape = f".reshape({value.shape})" if value.size == 0 and value.ndim > 1 else ""
    return f"np.array({text}{dtype}){reshape}"


def _plain(title: str) -> str:
    return title.replace("\\", "/").replace('"', "'").replace("\n", " ").strip()


def _spaced(parts: Sequence[str]) -> str:
    text = parts[0].strip("\n")
    for before, part in pairwise(parts):
        lines = 3 if "def " in before + part else 2
        text += "\n" * lines + part.strip("\n")
    return text + "\n"
