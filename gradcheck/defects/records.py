"""The known defects of TensorFlow as documents: wrong derivatives, and documented behaviour that tapes do not keep."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import Meta, field

from gradcheck.autodiff.mode import EXECUTIONS, ORDERS, PLAIN, Mode
from gradcheck.defects.graph_document import MAX_NODES, GraphDocument, Tensor
from gradcheck.defects.region import Region
from gradcheck.defects.tape_program import Derive, Program
from gradcheck.documents import Count, Description, Document, DocumentError, Order, Real, Text, matching
from gradcheck.result import Kind

T = TypeVar("T")
NAME = re.compile(r"[a-z0-9_-]{1,80}")
RELEASE = re.compile(r"\d+(\.\d+){1,2}")
LINK = r"https://[\w.\/#?=&%-]+"
NONE, ZEROS = "None", "zeros"
DEFECT, LIMITATION, ABSENT, CONVENTION = "defect", "documented limitation", "not implemented", "convention"
Class = Literal["defect", "documented limitation", "not implemented", "convention"]
"""The class of a record: a violation of what TensorFlow promises; a limit that its documentation or its error states; a
derivative that its code says it does not have; or a choice where more than one is defended."""
GROUP = re.compile(r"[a-z0-9_-]{0,80}")
Release = Annotated[str, matching(RELEASE.pattern)]
DerivativeValues = tuple[tuple[float, ...] | None, ...]
"""A derivative: for each input its elements in row-major order, complex ones as two numbers; None for None."""
WORD = re.compile(r"zeros|[A-Z][A-Za-z]{2,60}")
ProgramOutcome = str | tuple[float, ...]
"""NONE, ZEROS, the name of an exception, or the numbers of a derivative in row-major order, not all of them zero."""


class Signature(Document, frozen=True):
    """The operation, how its derivative is taken, and what is wrong: the same in all findings of one defect."""

    operation: Text
    order: Order
    kind: Kind
    path: str = PLAIN.path
    mode: str = PLAIN.mode

    def __post_init__(self) -> None:
        check_mode(self.path, self.mode)

    @property
    def taken(self) -> Mode:
        """How the derivative is taken."""
        return Mode(self.path, self.mode)


class Releases(Document, frozen=True):
    """The releases of TensorFlow that have a defect: from `since` up to, not including, `until` (None: all later)."""

    since: Release = field(name="from")
    until: Release | None


class Severity(IntEnum):
    """How bad a wrong derivative is, the worst first: one that nobody notices is worse than one that stops a
    training."""

    SILENT = 1
    NONE = 2
    NOT_FINITE = 3
    RAISES = 4

    def __str__(self) -> str:
        return {1: "silently wrong", 2: "None", 3: "not finite", 4: "raises"}[self.value]


class KnownRecord(Document, frozen=True, tag_field="format", kw_only=True):
    """Something that TensorFlow does wrong: `source` says how the truth is known, `upstream` links its issue.

    Records of one root cause share the name of a `group`, which the file of a cause gives to its examples.
    """

    version: Literal[1] = 1
    name: Annotated[str, matching(NAME.pattern)]
    title: Text
    source: Text
    releases: Releases
    upstream: Annotated[str, Meta(max_length=2000), matching(LINK)] | None
    category: Class = field(default="defect", name="class")
    group: Annotated[str, matching(GROUP.pattern)] = ""

    @property
    def cause(self) -> str:
        """The name of the root cause; a record without a group is its own."""
        return self.group or self.name

    def covers(self, release: str) -> bool:
        """Whether a release of TensorFlow has it, as far as is known."""
        at, until = version_of(release), self.releases.until
        return version_of(self.releases.since) <= at and (until is None or at < version_of(until))


class KernelForm(Document, frozen=True, omit_defaults=True):
    """An operation of the regions that is one kernel of TensorFlow, so that the regions apply to the kernel's inputs.

    `arguments` has, for each of the operation's arguments, the number of the kernel's input that it is (None: it is
    computed from something else); with `rows`, the arguments lie in that input, along its first dimension. `attrs` maps
    attributes of the operation to the names of the kernel's attributes, or the numbers of its inputs. All of that holds
    where the kernel's attributes, and its inputs by number, have the values in `fixed`, number types by their names. A
    record in a number type has that type there. `output` is the number of the kernel's output from which the
    operation's result is computed.
    """

    op: Text
    kernel: Annotated[str, matching(r"[A-Za-z_]\w{0,99}")]
    arguments: Annotated[tuple[Count | None, ...], Meta(max_length=64)]
    attrs: dict[str, str | int] = {}  # noqa: RUF012  (msgspec copies it)
    fixed: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)
    output: Count = 0
    rows: bool = False


class Defect(KnownRecord, frozen=True, tag="gradcheck known defect", kw_only=True):
    """A wrong derivative of TensorFlow that has been triaged.

    `graph`, `cotangent` and `direction` are an example that replays it: TensorFlow gives `given` (empty where it raises
    or gives another shape than the input's), `right` is the true derivative, and `source` says how that is known.
    `description` says what is special about the example. Only `regions` say where the defect applies; generation leaves
    them out for its releases. `remedy` is Python that binds y to the graph's output, of the inputs as a script names
    them, with a derivative that is right. `kernels` say which kernels of TensorFlow the operations of the regions are.
    There are none where each part of a composite is right by itself (`library_functions` has these), or where the fault
    lies in how derivatives are taken.
    """

    signature: Signature
    description: Text
    graph: GraphDocument
    cotangent: Tensor
    direction: Annotated[tuple[Tensor, ...], Meta(max_length=MAX_NODES)]
    right: tuple[tuple[float, ...], ...]
    given: tuple[tuple[Real, ...] | None, ...]
    regions: Annotated[tuple[Region, ...], Meta(max_length=64)]
    remedy: Text | None = None
    kernels: Annotated[tuple[KernelForm, ...], Meta(max_length=64)] = ()
    listed: ClassVar[str] = "defects"
    replayed_by: ClassVar[str] = "test_known.py"

    def __post_init__(self) -> None:
        for name, parts in (("right", self.right), ("given", self.given)):
            if len(parts) != len(self.graph.inputs) and (parts or name == "right"):
                expected = f"one list for each of {len(self.graph.inputs)} inputs"
                raise DocumentError(f"$.{name}", Description(f"a list of {len(parts)}"), expected)
            for i, (part, value) in enumerate(zip(parts, self.graph.inputs, strict=False)):
                count = len(value.values) * (2 if value.dtype == "complex128" else 1)
                if part is not None and len(part) != count:
                    expected = f"{count} numbers, as the input has"
                    raise DocumentError(f"$.{name}[{i}]", Description(f"a list of {len(part)}"), expected)

    @property
    def kind(self) -> Kind:
        """The kind of mismatch."""
        return self.signature.kind

    @property
    def severity(self) -> Severity:
        """How bad TensorFlow's derivative is."""
        if self.kind in (Kind.RAISES, Kind.SHAPE):
            return Severity.RAISES
        if None in self.given:
            return Severity.NONE
        finite = all(map(math.isfinite, (number for part in self.wrong for number in part or ())))
        return Severity.SILENT if finite else Severity.NOT_FINITE

    @property
    def rank(self) -> tuple[bool, Severity, str]:
        """The order of records, the worst first: the plain derivatives before those of a mode."""
        return self.signature.taken != PLAIN, self.severity, self.name

    @property
    def about(self) -> dict[str, Any]:
        """The derivative that is wrong, and what is special about the example, by the names of the fields."""
        same = self.signature
        return {"operation": same.operation, "order": same.order, "kind": same.kind, "description": self.description}

    @property
    def taken(self) -> str:
        """How the derivative is taken, in words."""
        return str(self.signature.taken)

    @property
    def kernel_names(self) -> list[str]:
        """The kernels of TensorFlow that are wrong by themselves."""
        return sorted({form.kernel for form in self.kernels})

    def by_kind(self, of_defect: Callable[[Defect], T], of_tape_defect: Callable[[TapeDefect], T]) -> T:
        """The result of the first function for the record."""
        return of_defect(self)

    @property
    def wrong(self) -> DerivativeValues:
        """`given` as floats, with numbers for those that JSON lacks, such as NaN."""
        return tuple(None if part is None else tuple(map(float, part)) for part in self.given)


class TapeDefect(KnownRecord, frozen=True, tag="gradcheck known tape defect", kw_only=True):
    """Documented behaviour that tapes do not keep: the `derivative` in a program should be `documented`.

    TensorFlow gives `given`. `derivative` is the name that a statement Derive binds, or where it binds several, one of
    them, such as g[0].
    """

    program: Program
    derivative: Text
    documented: ProgramOutcome
    given: ProgramOutcome
    listed: ClassVar[str] = "tape_defects"
    replayed_by: ClassVar[str] = "test_known_tape_defects.py"
    remedy: ClassVar[None] = None
    taken: ClassVar[str] = ""

    def __post_init__(self) -> None:
        derives = (one for one in self.program.statements() if isinstance(one, Derive))
        if not any(self.derivative in one.sources.paths(one.name) for one in derives):
            raise DocumentError("$.derivative", self.derivative, "what a statement `derive` of the program binds")
        for name in ("documented", "given"):
            outcome: Any = getattr(self, name)
            # msgspec 0.22 corrupts memory where the text of a union with a tuple has a pattern.
            if isinstance(outcome, str) and not WORD.fullmatch(outcome):
                raise DocumentError(f"$.{name}", outcome, f"{NONE!r}, {ZEROS!r}, or the name of an exception")
            if isinstance(outcome, tuple) and not any(outcome):
                raise DocumentError(f"$.{name}", list(outcome), f"{ZEROS!r}, or numbers not all of which are zero")
        if self.documented == self.given:
            raise DocumentError("$.given", self.given, "something else than what is documented")

    @property
    def severity(self) -> Severity:
        """How bad the outcome is."""
        if not isinstance(self.given, str) or self.given == ZEROS:
            return Severity.SILENT
        return Severity.NONE if self.given == NONE else Severity.RAISES

    @property
    def rank(self) -> tuple[bool, Severity, str]:
        """The order of records, the worst first."""
        return False, self.severity, self.name

    @property
    def about(self) -> dict[str, Any]:
        """The documented outcome and the given one, by the names of the fields."""
        return {"documented": self.documented, "given": self.given}

    @property
    def kernel_names(self) -> list[str]:
        """No kernel is wrong by itself."""
        return []

    def by_kind(self, of_defect: Callable[[Defect], T], of_tape_defect: Callable[[TapeDefect], T]) -> T:
        """The result of the second function for the record."""
        return of_tape_defect(self)

    @property
    def kind(self) -> str:
        """The outcome and the documented one, in a few words."""
        given, documented = (one if isinstance(one, str) else "a value" for one in (self.given, self.documented))
        return f"{given}, not {'another' if given == documented else documented}"


Known = Defect | TapeDefect
"""The records of known defects.

Beside its fields each has the `kind` and `severity` of what is wrong, its `rank` among records, the name `listed` of
the list that it stands in, the test that it is `replayed_by`, and `by_kind`, which calls the function for its kind.
"""


def wrong_derivatives(records: Iterable[Known]) -> tuple[Defect, ...]:
    """The wrong derivatives among some records."""
    return tuple(one for one in records if isinstance(one, Defect))


def check_mode(path: str, mode: str) -> None:
    """Raises DocumentError for an unknown path or mode of taking derivatives."""
    for name, given, choices in (("path", path, ORDERS), ("mode", mode, EXECUTIONS)):
        if given not in choices:
            raise DocumentError(f"$.{name}", given, f"one of {', '.join(choices)}")


def version_of(release: str) -> tuple[int, ...]:
    """A release of TensorFlow as three numbers, to be compared; what follows a hyphen does not count.

    >>> version_of("2.9") < version_of("2.23.0-dev20260901")
    True
    """
    numbers = [int(part) for part in re.findall(r"\d+", release.partition("-")[0])[:3]]
    return tuple([*numbers, 0, 0, 0][:3])
