"""All known defects: a page, the worst and most common first, searchable, with nothing to load; a list in Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import causes
from gradcheck.defects.records import (
    ABSENT,
    CONVENTION,
    DEFECT,
    LIMITATION,
    Defect,
    DerivativeValues,
    Known,
    Severity,
    TapeDefect,
)
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.report.issue_text import issue_of, script_of, script_of_tape
from gradcheck.hunt.report.rendering import code, counted, render
from gradcheck.hunt.script import array_text, expression, variables
from gradcheck.operations.printed_calls import repeated
from gradcheck.result import told_apart
from gradcheck.typing import Array

COLOURS = {Severity.SILENT: "wrong", Severity.NONE: "wrong", Severity.NOT_FINITE: "doubt", Severity.RAISES: "doubt"}
API = re.compile(r"\b(?:tf|np|keras)(?:\.\w+)*\.(\w+)")
CALL = re.compile(r"\b(\w+)\(")
FOLDERS = {"tensorflow": "python", "keras": "src"}
"""The folder of each package with the code in which calls are counted."""
BETWEEN, LONG = re.compile(r"(\n\n+|\n(?=Issue type: ))"), 60
"""Between the parts of a script or an issue's text, and the least length of one that the page has only once."""
SHOWN = 8
"""The most elements of a derivative that are shown."""


@dataclass(frozen=True)
class KnownEntry:
    """A record as the page shows it: `values` are (input, wrong, right), `issue` what comes before the script
    and behind it in the text of an issue; `uses` says how common its operation is."""

    record: Known
    call: str
    values: tuple[tuple[str, str, str], ...]
    script: str
    issue: tuple[str, str]
    uses: int
    taken: str

    @property
    def rank(self) -> tuple[bool, bool, Severity, int, str]:
        """The sort key: defects first, plain derivatives first, then the most severe, then the most common."""
        one = self.record
        return one.category != DEFECT, self.taken != "", one.severity, -self.uses, one.name


def known_page(records: Sequence[Known], release: str) -> str:
    """The HTML page of some records, beside the release of TensorFlow that is installed. Imports no TensorFlow."""
    groups = by_cause(map(entry, records))
    parts = shared_parts(text for group in groups for one in group for text in (one.script, *one.issue))
    counts = Counter(str(one.severity) for one in records)
    script = resources.files("gradcheck.hunt.report").joinpath("templates/known.js").read_text(encoding="utf-8")
    return render(
        "known.html.j2",
        groups=groups,
        release=release,
        here=sum(one.covers(release) for one in records),
        records=records,
        severities=[(str(one), counts[str(one)], COLOURS[one]) for one in Severity],
        colours=COLOURS,
        counted=counted,
        parts=parts,
        others=lambda text: {part: name for part, name in parts.items() if part != text},
        pieces=pieces,
        numbers={one.name: number for number, one in enumerate(records)},
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


SECTIONS: dict[Severity | str, tuple[str, str]] = {
    Severity.SILENT: ("Silently wrong", "Another number than the derivative."),
    Severity.NONE: ("None", "No gradient, or no part of it, where there is one."),
    Severity.NOT_FINITE: ("Not finite", "NaN or infinity where the derivative is a number."),
    Severity.RAISES: ("Raises", "An error, or another shape, where there is a derivative."),
    LIMITATION: ("Documented limitations", "Limits that the documentation or the error states."),
    ABSENT: ("Not implemented", "Derivatives that TensorFlow's code says it does not have."),
    CONVENTION: ("Conventions", "Choices where more than one is defended."),
}
"""The sections of the list: defects by their severity, all else by its class, each with what it says of them."""


def known_list(records: Sequence[Known]) -> str:
    """The root causes of some records as tables in Markdown, the worst first; the same whatever is installed."""
    groups = causes.by_cause(records)
    sections: dict[Severity | str, list[list[Known]]] = {key: [] for key in SECTIONS}
    for group in groups:
        first = group[0]
        sections[first.severity if first.category == DEFECT else first.category].append(group)
    return render(
        "known.md.j2",
        records=records,
        causes=len(groups),
        sections=[(*SECTIONS[key], found) for key, found in sections.items() if found],
        counted=counted,
        orders=_orders,
        instead=_instead,
    )


def _orders(group: Sequence[Known]) -> str:
    return ", ".join(sorted({str(one.about["order"]) for one in group if "order" in one.about})) or "tape"


def _instead(record: Known) -> str:
    """The remedy of a record as code, if it is a line."""
    if record.remedy is None:
        return "–"
    return code(record.remedy) if "\n" not in record.remedy else counted(record.remedy.count("\n") + 1, "line")


def shared_parts(texts: Iterable[str]) -> dict[str, str]:
    """The long parts that several texts have, and runs of such parts, by the names under which each is on the page."""
    texts = list(texts)
    parts = _repeated(part for text in texts for part in dict.fromkeys(BETWEEN.split(text)) if len(part) > LONG)
    runs = _repeated(run for text in texts for run in _runs(text, parts) if BETWEEN.search(run.strip()))
    return {part: f"part-{number}" for number, part in enumerate([*parts, *runs], 1)}


def _repeated(parts: Iterable[str]) -> dict[str, int]:
    return {part: count for part, count in Counter(parts).items() if count > 1}


def _runs(text: str, shared: Container[str]) -> Iterator[str]:
    """A text, cut between its parts, but for those between shared ones."""
    tokens, start = BETWEEN.split(text), 0
    while start < len(tokens):
        end = start + 1
        while tokens[start] in shared and end + 1 < len(tokens) and tokens[end + 1] in shared:
            end += 2
        yield "".join(tokens[start:end])
        start = end


def pieces(text: str, named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A text as pieces (text, name), with the names of shared parts and runs of them; "" for what is only there."""
    for run in _runs(text, named):
        for piece in [run] if run in named else BETWEEN.split(run):
            yield piece, named.get(piece, "")


def by_cause(entries: Iterable[KnownEntry]) -> list[list[KnownEntry]]:
    """The entries grouped by root cause, groups and entries sorted by rank."""
    groups: dict[str, list[KnownEntry]] = {}
    for one in sorted(entries, key=lambda one: one.rank):
        groups.setdefault(one.record.cause, []).append(one)
    return list(groups.values())


def entry(record: Known) -> KnownEntry:
    """A record with all that is derived from it."""
    return record.by_kind(_of_defect, _of_tape_defect)


def _of_tape_defect(record: TapeDefect) -> KnownEntry:
    script = script_of_tape(record)
    rows = ((record.derivative, shown(record.given), shown(record.documented)),)
    return KnownEntry(record, script, rows, script, _around(script, issue_of(record, script=script)), 0, "")


def _of_defect(record: Defect) -> KnownEntry:
    graph = example_of(record).graph
    names = variables(graph)
    given = [f"{name} = {_short(literal.array())}" for name, literal in zip(names, graph.inputs, strict=False)]
    call = [f"{names[place]} = {expression(node, names)}" for place, node in graph.positions()]
    taken = "" if record.signature.taken == PLAIN else str(record.signature.taken)
    uses = common().get(named(record), 0)
    values = tuple(_values(names, record.wrong, record.right, record.kind))
    script = script_of(record)
    issue = _around(script, issue_of(record, script=script))
    return KnownEntry(record, "\n".join([*given, *call]), values, script, issue, uses, taken)


def _around(script: str, issue: str) -> tuple[str, str]:
    before, _, behind = issue.partition(script.rstrip())
    return before, behind


def _short(array: Array) -> str:
    return str(array.tolist()) if repeated(array.ravel().tolist()) is None else array_text(array)


def _values(
    names: Sequence[str], wrong: DerivativeValues, right: DerivativeValues, kind: str
) -> Iterator[tuple[str, str, str]]:
    """The wrong and the right derivative of each input, with enough digits to tell them apart."""
    for place, true in enumerate(right):
        given = wrong[place] if wrong else kind
        if isinstance(given, tuple) and isinstance(true, tuple):
            pairs = [told_apart(one, other) for one, other in zip(given, true, strict=False)]
            yield names[place], _listed([one for one, _ in pairs]), _listed([other for _, other in pairs])
        else:
            yield names[place], shown(given), shown(true)


def shown(value: object) -> str:
    """A derivative on one line.

    >>> shown((1.0, 0.5)), shown(None)
    ('1, 0.5', 'None')
    """
    return _listed([f"{one:.6g}" for one in value]) if isinstance(value, tuple) else str(value)


def _listed(numbers: Sequence[str]) -> str:
    return ", ".join(numbers[:SHOWN]) + (f", … ({len(numbers)} in all)" if len(numbers) > SHOWN else "")


def named(defect: Defect) -> str:
    """The function that a record is about, as its title names it, or else its operation.

    >>> API.search("tf.math.cumprod: the gradient at an exact zero is 0")[1]
    'cumprod'
    """
    found = API.search(defect.title)
    return found[1] if found else defect.signature.operation


@cache
def common() -> Mapping[str, int]:
    """The number of files of TensorFlow's and Keras's own Python code that call a function of each name."""
    found: Counter[str] = Counter()
    for package, part in FOLDERS.items():
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted((Path(folder) / part).rglob("*.py")):
                found.update(set(CALL.findall(path.read_text(encoding="utf-8", errors="replace"))))
    return found
