"""JSON documents of any origin: parsed strictly, checked against a type, refused with the place of the error."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from gradcheck import files

MAX_TEXT = 1_000_000
MAX_WORDS = 50_000
MAX_ITEMS = 4096
MAX_DEPTH = 64
EXACT = 2**53
T = TypeVar("T")


def matching(pattern: str) -> Meta:
    """The constraint that a whole text matches a pattern; a final newline does not count as its end."""
    return Meta(pattern=rf"^(?:{pattern})(?!\n)$")


Real = float | Literal["nan", "inf", "-inf"]
"""A number; NaN and infinities, which JSON lacks, are texts."""
Text = Annotated[str, Meta(min_length=1, max_length=2000)]
Words = Annotated[str, Meta(max_length=MAX_WORDS)]
Count = Annotated[int, Meta(ge=0)]
Identifier = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}")]
PHRASES = {
    r"`(array|str)` of length <=": "at most",
    r"`(array|str)` of length >=": "at least",
    r"`str` matching regex '\^\(\?:(.*)\)\(\?!\\\\n\)\$'": r"a text like '\1'",
    r"Number out of range|`float`": "a finite number",
    "`array`": "a list",
    "`bool`": "true or false",
    "`int`": "an integer",
    "`object`": "an object",
    "`str`": "a text",
    "`null`": "null",
    " <= ([0-9]+)": r" of at most \1",
    " >= ([0-9]+)": r" of at least \1",
    " > ([0-9]+)": r" of more than \1",
}
"""msgspec's names of JSON types and limits, and their words in messages."""
if TYPE_CHECKING:
    Order = int
else:
    Order = Literal[1, 2]
FLAT, NEXT = re.compile(r'\[\n *((?:"(?:[^"\\]|\\.)*"|[^]["{}])*?)\n *\]'), re.compile(r",\n *")
"""A list of numbers and texts as json.dumps writes it, and what stands between its items; no text holds a newline."""
STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a JSON document: immutable, with typed fields and no others."""


class Description(str):
    """A description of what was given, printed without quotes."""


class DocumentError(ValueError):
    """A document is invalid; names the place in it, what was given and what is expected."""

    def __init__(self, place: str, given: object, expected: str) -> None:
        super().__init__(f"{place}: {_shown(given)} was given; expected {expected}")
        self.place, self.given, self.expected = place, given, expected


def parse(text: str) -> Any:
    """Parse strict JSON of at most a million characters: no NaN, no Infinity, no duplicate names, no endless nesting.

    Raises DocumentError.
    """
    if len(text) > MAX_TEXT:
        raise DocumentError("$", Description(f"a text of {len(text)} characters"), f"at most {MAX_TEXT}")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError("$", Description("deep nesting"), f"at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise DocumentError("$", Description(f"a text that is not JSON ({error})"), "JSON") from None


def convert(data: Any, kind: type[T]) -> T:
    """Convert parsed JSON to a typed document; `kind` is a Document, or a union of some.

    No value is converted from one type to another, and nothing is executed. Raises DocumentError for another type, an
    unknown or missing field, a number that float64 does not hold exactly, and excessive texts, lists and nesting.

    >>> class Pair(Document):
    ...     left: int
    ...     right: int
    >>> convert({"left": 1, "right": 2}, Pair)
    Pair(left=1, right=2)
    >>> convert({"left": 1, "right": "2"}, Pair)
    Traceback (most recent call last):
    gradcheck.documents.DocumentError: $.right: '2' was given; expected an integer
    """
    tag = kind.__struct_config__.tag_field if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None
    try:
        if tag is not None and isinstance(data, dict) and tag not in data:
            raise msgspec.ValidationError(f"Object missing required field `{tag}`")
        made = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _refusal(error, data, kind) from None
    except UnicodeEncodeError as error:
        _limit(data, "$")  # raises with the place
        raise DocumentError("$", error.object, "valid Unicode (no lone surrogates)") from None
    except RecursionError:
        raise DocumentError("$", Description("deep nesting"), f"at most {MAX_DEPTH} levels") from None
    _limit(data, "$")
    return made


def read(path: Path, kind: type[T], what: str, form: Callable[[Any], Any] = lambda data: data) -> T:
    """Read the document in a file; `form` gives what was parsed the form of today.

    Raises ValueError, naming the file, for anything but `what`, and OSError if the file cannot be read.
    """
    try:
        return convert(form(parse(files.read(path, MAX_TEXT))), kind)
    except (DocumentError, files.FileRefusedError) as error:
        raise ValueError(f"{path}: not {what}: {str(error).removeprefix(f'{path}: ')}") from None


def plain(document: Any) -> Any:
    """Convert a document, or any record, to dictionaries, lists, numbers and texts, as `convert` takes them.

    >>> plain((1.0, math.inf))
    [1.0, 'inf']
    """
    return _without_special(msgspec.to_builtins(document, enc_hook=_number))


def to_text(document: Any) -> str:
    """Format a document as the text of a file, with each list of numbers and texts on one line."""
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    return FLAT.sub(lambda found: f"[{NEXT.sub(', ', found[1])}]", text) + "\n"


def _number(value: Any) -> Any:
    """Convert a NumPy number to a Python number."""
    if isinstance(value, numbers.Number):
        return value.item()  # type: ignore[attr-defined]  # of NumPy, as all that msgspec does not know
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _without_special(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_special(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_without_special(value) for value in data]
    return repr(data) if isinstance(data, float) and not math.isfinite(data) else data


def _limit(data: Any, place: str, depth: int = 0) -> None:
    """Raise DocumentError for values that no type rules out."""
    if isinstance(data, str):
        if len(data) > MAX_WORDS:
            raise DocumentError(place, Description(f"a text of {len(data)} characters"), f"at most {MAX_WORDS}")
        if not data.isascii() and any("\ud800" <= letter <= "\udfff" for letter in data):
            raise DocumentError(place, data, "valid Unicode (no lone surrogates)")
    elif isinstance(data, (dict, list)):
        if len(data) > MAX_ITEMS or depth > MAX_DEPTH:
            limit = f"at most {MAX_ITEMS} items, nested at most {MAX_DEPTH} deep"
            raise DocumentError(place, Description(f"a list of {len(data)}"), limit)
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            _limit(key, place)
            _limit(value, f"{place}.{ascii(key)[1:-1][:80]}" if isinstance(key, str) else f"{place}[{key}]", depth + 1)
    elif isinstance(data, float) and not math.isfinite(data):
        raise DocumentError(place, data, "a finite number")
    elif isinstance(data, int) and abs(data) > EXACT:
        raise DocumentError(place, data, "an integer that float64 holds exactly")


def _refusal(error: msgspec.ValidationError, data: Any, kind: Any) -> DocumentError:
    """Convert msgspec's error to one that shows the value at its place, and the choices there."""
    complaint, _, at = str(error).partition(" - at `")
    place = at.removeprefix("key` in `").rstrip("`") or "$"
    cause = error.__cause__
    if isinstance(cause, DocumentError):
        return DocumentError(place + cause.place.removeprefix("$"), cause.given, cause.expected)
    steps = [name or int(number) for name, number in STEP.findall(place)]
    given = Description("something else") if "[...]" in place else _part(data, steps)
    (schema,), named = msgspec.json.schema_components([kind], ref_template="{name}")
    schemas = list(_schemas(schema, named, data, steps))
    field = re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", complaint, re.DOTALL)
    if field:
        missing = field[1].startswith("missing")
        given = Description(f"an object without {field[2]!r}" if missing else f"the name {_shown(field[2])}")
        names = schemas[0].get("required" if missing else "properties", ()) if schemas else ()
        return DocumentError(place, given, f"{'all of' if missing else 'only'} {', '.join(names)}")
    if complaint.startswith("Invalid") or (schemas and all("enum" in schema for schema in schemas)):
        choices = [str(choice) for schema in schemas for choice in schema.get("enum", ())]
        number = "a finite number, or " if any(schema.get("type") == "number" for schema in schemas) else ""
        return DocumentError(place, given, f"{number}one of {', '.join(choices)}")
    if isinstance(given, str) and " of length " in complaint:
        given = Description(f"a text of {len(given)} characters")
    expected = complaint.removeprefix("Expected ").partition(", got ")[0].replace(" | ", "` or `")
    for phrase, meaning in PHRASES.items():
        expected = re.sub(phrase, meaning, expected)
    return DocumentError(place, given, expected)


def _schemas(
    schema: dict[str, Any], named: dict[str, Any], data: Any, steps: list[str | int]
) -> Iterator[dict[str, Any]]:
    """The JSON Schemas that a place may follow; only one if a field of the data chooses among several."""
    if "$ref" in schema:
        yield from _schemas(named[schema["$ref"]], named, data, steps)
    elif "anyOf" in schema:
        chooser = schema.get("discriminator", {"propertyName": "", "mapping": {}})
        tag = data.get(chooser["propertyName"]) if isinstance(data, dict) else None
        chosen = chooser["mapping"].get(tag) if isinstance(tag, str) else None
        for option in schema["anyOf"] if chosen is None else [{"$ref": chosen}]:
            yield from _schemas(option, named, data, steps)
    elif steps:
        inner = schema.get("items") if isinstance(steps[0], int) else schema.get("properties", {}).get(steps[0])
        yield from _schemas(inner, named, _part(data, steps[:1]), steps[1:]) if inner else ()
    else:
        yield schema


def _part(data: Any, steps: list[str | int]) -> Any:
    """The value at a place; None if there is none."""
    try:
        return reduce(getitem, steps, data)
    except (KeyError, IndexError, TypeError):
        return None


def _refuse_constant(name: str) -> Any:
    raise DocumentError("$", name, "finite numbers only")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = _shown(sorted(name for name, _ in pairs))
        raise DocumentError("$", Description(f"an object that names {names}"), "each name once")
    return found


def _shown(given: object) -> str:
    if isinstance(given, Description):
        return given
    text = ascii(given) if not isinstance(given, (dict, list)) else f"a {type(given).__name__} of {len(given)}"
    return text if len(text) <= 80 else f"{text[:77]}..."
