"""Frozen records as plain JSON and back, strictly, by their annotations: nothing is executed, nothing else is taken."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.graph_json import (
    MAX_ELEMENTS,
    Description,
    GraphFormatError,
    from_json,
    input_from_json,
    input_to_json,
    items,
    keys,
    number,
    to_json,
)

MAX_WORDS = 50_000
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(record: Any) -> Any:
    """A record as dictionaries, lists, numbers and texts; numbers that JSON does not know are "nan", "inf", "-inf".

    Takes dataclasses, graphs, literal inputs, enumerations, tuples, mappings, numbers, texts and None. Raises
    GraphFormatError for a graph that `decode` would not take.

    >>> encode((1.0, math.inf))
    [1.0, 'inf']
    """
    if isinstance(record, Graph):
        return to_json(record)
    if isinstance(record, Input):
        return encode(input_to_json(record))
    if isinstance(record, Enum):
        return record.value
    if is_dataclass(record):
        return {field.name: encode(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, Mapping):
        return {name: encode(value) for name, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [encode(value) for value in record]
    if isinstance(record, float) and not math.isfinite(record):
        return repr(float(record))
    return record


def decode(kind: Any, data: Any, place: str) -> Any:
    """The record of a type from what `encode` made of it; fields with defaults may be left out.

    `kind` is a dataclass or an annotation of one of its fields. Raises GraphFormatError, a ValueError, which names the
    place, what was given and what is expected.

    >>> decode(tuple[float, ...], [1.0, "inf"], "$")
    (1.0, inf)
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return None if data is None else decode(get_args(kind)[0], data, place)
    if origin is tuple:
        return tuple(decode(get_args(kind)[0], part, f"{place}[{i}]") for i, part in enumerate(_list(data, place)))
    if origin is Mapping:
        return _mapping(get_args(kind)[1], data, place)
    if kind in _SCALARS:
        return _SCALARS[kind](data, place)
    if issubclass(kind, Enum):
        return _member(kind, data, place)
    return _record(kind, data, place)


def words(data: Any, place: str) -> str:
    """A text of at most 50,000 characters that can be written to a file; raises GraphFormatError."""
    if not isinstance(data, str):
        raise GraphFormatError(place, data, "a text")
    if len(data) > MAX_WORDS:
        raise GraphFormatError(place, Description(f"a text of {len(data)} characters"), f"at most {MAX_WORDS}")
    try:
        data.encode()
    except UnicodeEncodeError:
        raise GraphFormatError(place, data, "a text without halves of characters") from None
    return data


def _record(kind: Any, data: Any, place: str) -> Any:
    hints, needed, optional = _annotations(kind)
    keys(data, place, needed, optional)
    given = {name: decode(hints[name], value, f"{place}.{name}") for name, value in data.items()}
    try:
        return kind(**given)
    except GraphFormatError:
        raise
    except ValueError as error:
        raise GraphFormatError(place, Description(f"something else ({error})"), f"a {kind.__name__}") from None


@cache
def _annotations(kind: Any) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    needed = tuple(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(kind), needed, tuple(field.name for field in fields(kind) if field.name not in needed)


def _mapping(kind: Any, data: Any, place: str) -> dict[str, Any]:
    keys(data, place, (), data)
    return {words(name, place): decode(kind, value, f"{place}.{ascii(name)[:80]}") for name, value in data.items()}


def _member(kind: Any, data: Any, place: str) -> Any:
    values = [member.value for member in kind]
    if not isinstance(data, str) or data not in values:
        raise GraphFormatError(place, data, f"one of {', '.join(values)}")
    return kind(data)


def _list(data: Any, place: str) -> list[Any]:
    return items(data, place, MAX_ELEMENTS)


def _integer(data: Any, place: str) -> int:
    if type(data) is not int or abs(data) > 2**53:
        raise GraphFormatError(place, data, "an integer that float64 holds exactly")
    return data


def _real(data: Any, place: str) -> float:
    return SPECIAL[data] if isinstance(data, str) and data in SPECIAL else number(data, place)


def _truth(data: Any, place: str) -> bool:
    if type(data) is not bool:
        raise GraphFormatError(place, data, "true or false")
    return data


def _graph(data: Any, place: str) -> Graph:
    return from_json(data)


def _input(data: Any, place: str) -> Input:
    return input_from_json(data, place, read=_real)


_SCALARS = {str: words, int: _integer, float: _real, bool: _truth, Graph: _graph, Input: _input}
