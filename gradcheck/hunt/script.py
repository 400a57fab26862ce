"""Reproduction scripts: a graph and its derivative as straight-line code that needs only TensorFlow and NumPy.

Operations of a project of its own are imported from there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from gradcheck.autodiff import mode as modes
from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.mode import COND, NESTED, NUMBER_TYPES, PLAIN, VECTORIZED, WHILE, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.printed_calls import definitions_of, printed_call, repeated
from gradcheck.operations.registry import REGISTERED, own_among
from gradcheck.typing import Array

Printable = Input | Array | Sequence[complex] | complex

TEMPLATES = Environment(
    loader=PackageLoader("gradcheck.hunt.report"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.globals |= {name: value for name, value in vars(modes).items() if name.isupper()}
TEMPLATES.globals["WRAPPED"] = {
    NESTED: ", as a tf.function of its own",
    COND: " as a branch of a tf.cond",
    WHILE: " in the only turn of a tf.while_loop",
    VECTORIZED: " as a row of a tf.vectorized_map",
    **{mode: f" {mode}" for mode in NUMBER_TYPES},
}

IMPORTS = {
    r"\bfunctools\.": "import functools",
    "": "import itertools",
    r"(?<![.\w])random\.": "import random",
    "^": "import sys",
    r"\bCallable\[": "from collections.abc import Callable",
    r"\bAny\b": "from typing import Any",
}
"""Standard-library imports of a script, by the pattern in its definitions that needs them."""


def to_python(
    graph: Graph,
    order: int,
    cotangent: Printable | None = None,
    direction: Sequence[Printable] | None = None,
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
    names, first = variables(graph), len(graph.inputs)
    specs = [CATALOGUE[node.op] for node in graph.nodes]
    referred = any(spec.reference for spec in specs)
    own = own_among(spec.name for spec in specs)
    printed = (spec for spec in specs if spec.name not in REGISTERED)
    definitions = list(definitions_of(form for spec in printed for form in (spec.source, spec.reference)))
    result = specs[-1].result if specs else graph.inputs[-1].dtype
    vectors = direction or [np.ones(value.shape) for value in graph.inputs]
    single = any(value.dtype == "float32" for value in graph.inputs)
    lost = 16 * ROUNDOFF[mode.number_type] if mode.number_type else 0.0
    narrow = [spec.rtol for spec in specs if spec.reference is None]
    return TEMPLATES.get_template("reproduction.py.j2").render(
        title=_plain(title) or f"A derivative of order {order} of TensorFlow, beside differences.",
        imports=[line for pattern, line in IMPORTS.items() if re.search(pattern, "\n".join(definitions))],
        literals=[(name, array_text(value.array())) for name, value in zip(names, graph.inputs, strict=False)],
        given=", ".join(names[:first]),
        direction=[array_text(_fitted(v, x.shape, x.dtype)) for v, x in zip(vectors, graph.inputs, strict=True)],
        definitions=definitions,
        origins=list(dict.fromkeys(made.origin for made in own)),
        own=[made.spec.name for made in own],
        nodes=[(names[place], expression(node, names)) for place, node in graph.positions()],
        references=[(names[place], _over_rows(node, names)) for place, node in graph.positions()] if referred else [],
        output=names[-1],
        oracle="reference" if referred else "function",
        weights=None if cotangent is None else array_text(_value(cotangent).astype(result)),
        is_complex=result.startswith("complex"),
        order=order,
        mode=mode,
        one_sided=one_sided,
        eps=f"{max([2.0**-52, *narrow, 2.0**-23 if single else 0.0]):.2g}",
        rtol=repr(max([1e-12, *(10 * spec.rtol for spec in specs), 1e-5 if single else 0.0, lost])),
    )


def variables(graph: Graph) -> list[str]:
    """The variable of each position in the script: x or x1, x2, … for inputs, y or y1, y2, … for nodes."""
    return [
        letter if len(row) == 1 else f"{letter}{number}"
        for letter, row in (("x", graph.inputs), ("y", graph.nodes))
        for number in range(1, 1 + len(row))
    ]


def expression(node: Node, names: Sequence[str], *, reference: bool = False) -> str:
    """The call of a node's function with the parents' variables and its attributes' literals; a lambda written out."""
    spec = CATALOGUE[node.op]
    form = spec.reference if reference and spec.reference else spec.source
    parents = [names[parent] for parent in node.parents]
    if not spec.in_batch or form is spec.reference:
        return printed_call(form, parents, node.attributes)
    text = printed_call(form, [f"{parent}[tf.newaxis]" for parent in parents], node.attributes)
    return ast.unparse(ast.parse(f"({text})[0]"))


def _over_rows(node: Node, names: Sequence[str]) -> str:
    text = expression(node, names, reference=True)
    if CATALOGUE[node.op].reference:
        return text
    parents = list(dict.fromkeys(names[parent] for parent in node.parents))
    rows = parents[0] if len(parents) == 1 else f"zip({', '.join(parents)})"
    return f"tf.stack([{text} for {', '.join(parents)} in {rows}])"


def _value(given: Printable) -> Array:
    return given.array() if isinstance(given, Input) else np.asarray(given)


def _fitted(given: Printable, shape: tuple[int, ...], dtype: str) -> Array:
    array = _value(given)
    if array.size != np.prod(shape, dtype=int):
        raise ValueError(f"a direction of shape {array.shape} was given for an input of shape {shape}")
    return array.reshape(shape).astype(dtype)


def array_text(value: Array) -> str:
    """An array as Python with NumPy; long runs of equal elements are written as products."""
    dtype = "" if value.dtype == np.float64 and value.size else f', dtype="{value.dtype}"'
    text, flat = repr(value.tolist()), repeated(value.ravel().tolist())
    moved = value.ndim != 1 and (flat is not None or (value.size == 0 and value.ndim > 1))
    text = (flat or text).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}{dtype})" + (f".reshape({value.shape})" if moved else "")


def _plain(title: str) -> str:
    return title.replace("\\", "/").replace('"', "'").replace("\n", " ").strip()
