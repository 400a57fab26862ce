"""The JSON form of a graph: names of catalogue operations and literals, nothing that could be executed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import DTYPES, Graph, Input, Node
from gradcheck.hunt.opspec import attribute_names

FORMAT = "gradcheck graph"
VERSION = 1
MAX_NODES = 64
MAX_ELEMENTS = 4096
MAX_TEXT = 1_000_000
MAX_DEPTH = 4
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
WORD = re.compile(r"[A-Za-z0-9_,.\->= ]{0,64}")


class Description(str):
    """A description of what was given, printed without quotes."""


class GraphFormatError(ValueError):
    """A document is not the JSON form of a graph; says where, what was given and what is expected."""

    def __init__(self, place: str, given: object, expected: str) -> None:
        super().__init__(f"{place}: {_shown(given)} was given; expected {expected}")
        self.place = place


def to_json(graph: Graph) -> dict[str, Any]:
    """The graph as plain dictionaries, lists, numbers and strings; floats keep every bit, complex numbers are [re, im].

    Raises GraphFormatError for a graph that `from_json` would not take (a value that is not finite, an attribute that
    is no literal, more than 64 nodes or 4,096 elements).

    >>> to_json(Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),)))["nodes"]
    [{'op': 'sin', 'parents': [0], 'attrs': {}}]
    """
    data = unchecked_json(graph)
    from_json(data)
    return data


def unchecked_json(graph: Graph) -> dict[str, Any]:
    """The same, in a fifth of the time, of a graph that `from_json` is known to take, or that nobody need read back."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "inputs": [
            {"dtype": value.dtype, "shape": [int(size) for size in value.shape], "values": _numbers(value)}
            for value in graph.inputs
        ],
        "nodes": [
            {
                "op": node.op,
                "parents": [int(parent) for parent in node.parents],
                "attrs": {name: _listed(value, f"$.nodes[{place}].attrs.{name}") for name, value in node.attrs},
            }
            for place, node in enumerate(graph.nodes)
        ],
    }


def from_json(data: Any) -> Graph:
    """The graph of a JSON form; raises GraphFormatError for anything that `to_json` would not have written."""
    keys(data, "$", ("format", "version", "inputs", "nodes"))
    if data["format"] != FORMAT:
        raise GraphFormatError("$.format", data["format"], repr(FORMAT))
    if integer(data["version"], "$.version") != VERSION:
        raise GraphFormatError("$.version", data["version"], f"version {VERSION}")
    inputs = items(data["inputs"], "$.inputs", MAX_NODES)
    nodes = items(data["nodes"], "$.nodes", MAX_NODES)
    if not inputs:
        raise GraphFormatError("$.inputs", inputs, "at least one input")
    if len(inputs) + len(nodes) > MAX_NODES:
        raise GraphFormatError("$", len(inputs) + len(nodes), f"at most {MAX_NODES} inputs and nodes together")
    literals = tuple(input_from_json(value, f"$.inputs[{place}]") for place, value in enumerate(inputs))
    if sum(len(value.values) for value in literals) > MAX_ELEMENTS:
        raise GraphFormatError(
            "$.inputs", Description("more"), f"at most {MAX_ELEMENTS} elements in all inputs together"
        )
    return Graph(literals, tuple(_node(node, place, len(literals)) for place, node in enumerate(nodes)))


def to_text(graph: Graph) -> str:
    """The JSON form as text."""
    return json.dumps(to_json(graph), indent=2, allow_nan=False) + "\n"


def from_text(text: str) -> Graph:
    """The graph of a JSON text; raises GraphFormatError for whatever is not exactly one."""
    return from_json(parse(text))


def parse(text: str) -> Any:
    """Strict JSON: no NaN, no Infinity, no name twice in an object, no endless nesting; raises GraphFormatError."""
    if len(text) > MAX_TEXT:
        raise GraphFormatError("$", Description(f"a text of {len(text)} characters"), f"at most {MAX_TEXT}")
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except GraphFormatError:
        raise
    except RecursionError:
        raise GraphFormatError("$", Description("deep nesting"), "the JSON form of a graph, five levels deep") from None
    except ValueError as error:
        raise GraphFormatError("$", Description(f"a text that is not JSON ({error})"), "JSON") from None


def input_to_json(value: Input) -> dict[str, Any]:
    """A literal tensor as its dtype, shape and values in row-major order."""
    return {"dtype": value.dtype, "shape": list(value.shape), "values": _numbers(value)}


def input_from_json(data: Any, place: str, read: Callable[[Any, str], float] | None = None) -> Input:
    """The literal tensor at a place of a document, its real numbers taken by `read` (None: finite ones only).

    Raises GraphFormatError.
    """
    keys(data, place, ("dtype", "shape", "values"))
    if not isinstance(data["dtype"], str) or data["dtype"] not in DTYPES:
        raise GraphFormatError(f"{place}.dtype", data["dtype"], f"one of {', '.join(DTYPES)}")
    shape = tuple(
        integer(size, f"{place}.shape[{axis}]", MAX_ELEMENTS)
        for axis, size in enumerate(items(data["shape"], f"{place}.shape", 8))
    )
    values = items(data["values"], f"{place}.values", MAX_ELEMENTS)
    if math.prod(shape) != len(values):
        raise GraphFormatError(
            f"{place}.values", Description(f"{len(values)} values"), f"{math.prod(shape)}, as shape {shape} holds"
        )
    real = read or number
    scalar = partial(_complex, real=real) if data["dtype"] == "complex128" else real
    literal = Input(shape, tuple(scalar(x, f"{place}.values[{i}]") for i, x in enumerate(values)), data["dtype"])
    if data["dtype"] == "float32" and any(3.4028235e38 < abs(x) < math.inf for x in literal.values):
        raise GraphFormatError(f"{place}.values", Description("a value beyond float32"), "values that float32 can hold")
    return literal


def keys(data: Any, place: str, expected: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Holds an object to exactly its names; raises GraphFormatError."""
    if not isinstance(data, dict):
        raise GraphFormatError(place, data, f"an object with {', '.join(expected)}")
    for name in data:
        if name not in expected and name not in optional:
            raise GraphFormatError(
                place, Description(f"the name {_shown(name)}"), f"only {', '.join([*expected, *optional])}"
            )
    for name in expected:
        if name not in data:
            raise GraphFormatError(place, Description(f"an object without {name!r}"), f"all of {', '.join(expected)}")


def items(data: Any, place: str, limit: int) -> list[Any]:
    """A list of at most `limit` items; raises GraphFormatError."""
    if not isinstance(data, list):
        raise GraphFormatError(place, data, "a list")
    if len(data) > limit:
        raise GraphFormatError(place, Description(f"a list of {len(data)}"), f"at most {limit} items")
    return data


def integer(data: Any, place: str, limit: int = 2**31) -> int:
    """An integer from 0 to `limit`, not a bool; raises GraphFormatError."""
    if type(data) is not int or not 0 <= data <= limit:
        raise GraphFormatError(place, data, f"an integer from 0 to {limit}")
    return data


def number(data: Any, place: str) -> float:
    """A finite number as a float; raises GraphFormatError."""
    if type(data) not in (int, float) or (type(data) is int and abs(data) > 2**53) or not math.isfinite(data):
        raise GraphFormatError(place, data, "a finite number")
    return float(data)


def text(data: Any, place: str, pattern: re.Pattern[str] | None = None) -> str:
    """A text of at most 2,000 characters, of a pattern where one is given; raises GraphFormatError."""
    if not isinstance(data, str) or not 0 < len(data) <= 2000 or (pattern is not None and not pattern.fullmatch(data)):
        raise GraphFormatError(place, data, f"a text like {pattern.pattern}" if pattern else "a text")
    return data


def choice(data: Any, place: str, choices: Sequence[str]) -> str:
    """One of some texts; raises GraphFormatError."""
    if not isinstance(data, str) or data not in choices:
        raise GraphFormatError(place, data, f"one of {', '.join(choices)}")
    return data


def _complex(data: Any, place: str, real: Callable[[Any, str], float]) -> complex:
    pair = items(data, place, 2)
    if len(pair) != 2:
        raise GraphFormatError(place, data, "[real part, imaginary part]")
    return complex(real(pair[0], f"{place}[0]"), real(pair[1], f"{place}[1]"))


def _node(data: Any, place: int, inputs: int) -> Node:
    here = f"$.nodes[{place}]"
    keys(data, here, ("op", "parents", "attrs"))
    name = data["op"]
    if not isinstance(name, str) or name not in CATALOGUE:
        raise GraphFormatError(f"{here}.op", name, "the name of an operation of the catalogue")
    spec = CATALOGUE[name]
    parents = items(data["parents"], f"{here}.parents", MAX_NODES)
    if len(parents) != spec.arity:
        raise GraphFormatError(
            f"{here}.parents", Description(f"{len(parents)} parents"), f"{spec.arity}, as {name} takes"
        )
    numbers = tuple(integer(x, f"{here}.parents[{i}]", inputs + place - 1) for i, x in enumerate(parents))
    expected = attribute_names(spec.source)
    keys(data["attrs"], f"{here}.attrs", expected)
    attrs = ((key, _literal(data["attrs"][key], f"{here}.attrs.{key}")) for key in sorted(expected))
    return Node(name, numbers, tuple(attrs))


def _literal(data: Any, place: str, depth: int = 0) -> Any:
    if data is None or type(data) is bool:
        return data
    if type(data) is int:
        if abs(data) > 2**53:
            raise GraphFormatError(place, data, "an integer that float64 holds exactly")
        return data
    if type(data) is float:
        return number(data, place)
    if isinstance(data, str) and WORD.fullmatch(data):
        return data
    if isinstance(data, list) and depth < MAX_DEPTH:
        parts = items(data, place, MAX_ELEMENTS)
        return tuple(_literal(part, f"{place}[{i}]", depth + 1) for i, part in enumerate(parts))
    raise GraphFormatError(place, data, "null, a bool, a number, a plain word, or a list of these")


def _listed(value: Any, place: str) -> Any:
    if isinstance(value, tuple):
        return [_listed(part, place) for part in value]
    return _literal(value, place)


def _numbers(value: Input) -> list[Any]:
    if value.dtype == "complex128":
        return [[float(complex(x).real), float(complex(x).imag)] for x in value.values]
    return [float(x.real) for x in value.values]


def _no_constant(name: str) -> Any:
    raise GraphFormatError("$", name, "finite numbers only")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise GraphFormatError(
            "$", Description(f"an object that names {_shown(sorted(k for k, _ in pairs))}"), "each name once"
        )
    return found


def _shown(given: object) -> str:
    if isinstance(given, Description):
        return given
    text = ascii(given) if not isinstance(given, dict | list) else f"a {type(given).__name__} of {len(given)}"
    return text if len(text) <= 80 else f"{text[:77]}..."
