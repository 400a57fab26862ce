"""The file of a root cause: its examples, each a record of a known defect, with what they share said once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated, Any, Literal

from msgspec import Meta

from gradcheck import documents
from gradcheck.defects.records import DEFECT, NAME, Known
from gradcheck.documents import Document, DocumentError, matching

SHAREABLE = ("format", "title", "source", "releases", "class", "upstream", "remedy", "kernels")
"""The fields of records that speak of the cause; the others are always an example's own."""


class KnownCause(Document, frozen=True, tag_field="format", tag="gradcheck known cause", kw_only=True):
    """A root cause of known defects, with its examples.

    An example's own fields and the `shared` ones make up a record, as the schemas of known-defect and known-tape-defect
    describe it; the record's `group` is the `cause`. No field stands in both places, no two examples have one name.
    """

    version: Literal[1] = 1
    cause: Annotated[str, matching(NAME.pattern)]
    shared: Annotated[dict[str, Any], Meta(extra_json_schema={"propertyNames": {"enum": list(SHAREABLE)}})]
    examples: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        for field in self.shared:
            if field not in SHAREABLE:
                raise DocumentError("$.shared", field, f"only {', '.join(SHAREABLE)}; put others into the examples")
        elsewhere = dict.fromkeys(self.shared, "$.shared has it") | {"group": "$.cause is it"}
        names: list[Any] = []
        for number, own in enumerate(self.examples):
            place = f"$.examples[{number}]"
            for field in own:
                if field in elsewhere:
                    raise DocumentError(f"{place}.{field}", own[field], f"no {field} here, since {elsewhere[field]}")
            if "name" in own and own["name"] in names:
                raise DocumentError(f"{place}.name", own["name"], "a name that no example before it has")
            names.append(own.get("name"))


KnownDocument = Known | KnownCause
"""The documents that a file of known defects may be; that of one record is the earlier form, still read."""


def records_of(document: KnownDocument) -> tuple[Known, ...]:
    """The records of a document; raises DocumentError, which names the place in the document."""
    if not isinstance(document, KnownCause):
        return (document,)
    found: list[Known] = []
    for number, own in enumerate(document.examples):
        with _placed(document, number):
            data = {**document.shared, **own, "group": document.cause}
            found.append(documents.convert(data, Known))  # type: ignore[arg-type]  # a union is no type
    return tuple(found)


def check_each(document: KnownDocument, records: Sequence[Known], check: Callable[[Known], object]) -> None:
    """Gives each of a document's records to `check`; the DocumentErrors that this raises name the place in it."""
    for number, one in enumerate(records):
        with _placed(document, number):
            check(one)


@contextmanager
def _placed(document: KnownDocument, number: int) -> Iterator[None]:
    """Turns the place that a DocumentError names in an example into that in the document."""
    try:
        yield
    except DocumentError as error:
        if not isinstance(document, KnownCause):
            raise
        field = documents.STEP.match(error.place, 1)
        part = "shared" if field is not None and field[1] in document.shared else f"examples[{number}]"
        raise DocumentError(f"$.{part}{error.place[1:]}", error.given, error.expected) from None


def text_of(records: Sequence[Known]) -> str:
    """The text of the file of a cause's records; it depends on nothing but these."""
    ordered = [documents.plain(one) for one in sorted(records, key=lambda one: one.name)]
    shared = {
        field: value
        for field, value in ordered[0].items()
        if field in SHAREABLE and all(field in one and _alike(one[field], value) for one in ordered)
    }
    said = {*shared, "version", "group"}
    examples = tuple({field: value for field, value in one.items() if field not in said} for one in ordered)
    return documents.to_text(KnownCause(cause=records[0].cause, shared=shared, examples=examples))


def by_cause(records: Sequence[Known]) -> list[list[Known]]:
    """The records of each root cause, the worst first, and the causes by their worst record."""
    gathered = sorted(records, key=lambda one: one.cause)
    groups = [sorted(group, key=lambda one: one.rank) for _, group in groupby(gathered, key=lambda one: one.cause)]
    return sorted(groups, key=lambda group: (group[0].category != DEFECT, group[0].category, group[0].rank))


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are written alike, unlike 1 and 1.0."""
    return documents.to_text(one) == documents.to_text(other)
