"""The result of a check: frozen records, filled by the layers above numerics and printed by the reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from math import ceil, inf, isfinite, log10
from typing import NoReturn

from gradcheck.step_curve import CurvePlot, StepCurve, plot

APART, LISTED = 10.0, 8
"""A source's resolution is printed if it differs from the usual one by more than APART; at most LISTED are printed."""


class Word(str, Enum):
    """A member of the enum is its word: equal to it, printed as it, and written to files as it."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)


class Verdict(Word):
    """The outcomes of a comparison, the best first.

    >>> f"{Verdict.MISMATCH}", Verdict.MISMATCH == "mismatch"
    ('mismatch', True)
    """

    AGREE = "agree"
    INCONCLUSIVE = "inconclusive"
    MISMATCH = "mismatch"

    @staticmethod
    def worst(verdicts: Iterable[Verdict]) -> Verdict:
        """Return the worst of several verdicts."""
        return max(verdicts, key=list(Verdict).index)


class NoTruth:
    """A result with a verdict, which is neither true nor false: as a plain object it would always be true."""

    def __bool__(self) -> NoReturn:
        """Raises TypeError, so that `assert check(f, x)` does not pass for a mismatch."""
        raise TypeError(
            f"{type(self).__name__} is neither true nor false; a verdict was meant: let gradcheck.assert_close (or "
            'assert_step) raise at a mismatch, or compare .verdict, as in result.verdict == "agree"'
        )


class Kind(Word):
    """The kinds of mismatch, the most severe first."""

    RAISES = "raises"
    SHAPE = "wrong shape or dtype"
    MISSING = "missing"
    PARTIAL = "partial"
    NON_FINITE = "non-finite"
    WRONG_VALUE = "wrong value"
    SUBDIFFERENTIAL = "outside the subdifferential"
    UPDATE = "wrong update"
    MODES = "modes disagree"


class Reason(Word):
    """Reasons why a comparison is inconclusive."""

    HIGHER_KINK = "kink of higher order"
    COMPOSED_KINK = "convention at a composed kink"
    ILL_CONDITIONED = "ill-conditioned"
    TOLERANCE = "tolerance finer than can be seen"
    TOO_COARSE = "resolution too coarse"
    STAIRCASE = "staircase"
    JUMP = "jump or infinite slope"
    NOT_FINITE = "function not finite"
    NOT_DETERMINISTIC = "not deterministic"
    UNCONNECTED = "unconnected"
    TOO_EXPENSIVE = "too expensive"
    CANNOT_RUN = "cannot run in this mode"


class Cause(Word):
    """Causes of a gradient that is None, zero, partial or wrong, as reports name them."""

    OUTSIDE_TAPE = "computed outside the tape"
    NOT_WATCHED = "not watched"
    NON_TRAINABLE = "not trainable"
    REPLACED = "variable replaced by a tensor"
    NUMPY = "went through NumPy or Python numbers"
    DTYPE = "integer, boolean or string on the path"
    STATE = "went through state"
    NO_GRADIENT = "no gradient registered"
    RAISES = "the gradient of an operation raises an exception"
    NOT_DIFFERENTIABLE = "not differentiable"
    BRANCH = "a branch at one point has another derivative"
    STOP_GRADIENT = "stop_gradient"
    TAKEN_OUTSIDE = "derivative taken outside the tape that had to record it"
    USED_TAPE = "tape already used"
    CUSTOM_GRADIENT = "wrong custom gradient"
    KNOWN_DEFECT = "known defect of TensorFlow"
    OPERATION = "wrong gradient of an operation"
    NOT_COMPARED = "an operation that could not be compared by itself"
    COMPOSITION = "no operation wrong by itself"
    NOT_FINITE = "finite numbers turned into NaN or infinity"
    CAME_IN = "NaN or infinity came in"
    CHANGED_AFTERWARDS = "changed after it was taken"


@dataclass(frozen=True)
class Place:
    """A line of the user's code, and the operation that it runs."""

    file: str
    line: int
    code: str
    operation: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}"


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a lost gradient, with evidence, a remedy, and the line of the break.

    `lost` is the part of the derivative that is missing, if it is known.
    """

    cause: Cause
    evidence: str
    remedy: str
    place: Place | None = None
    lost: float | None = None

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The parts to print, each with its label."""
        where = [] if self.place is None else [("where", str(self.place))]
        return [("cause", self.cause.value), *where, ("evidence", self.evidence), ("remedy", self.remedy)]

    @property
    def printed(self) -> list[str]:
        """The lines, with their labels in a column."""
        return [f"{label:<8}  {text}" for label, text in self.lines]


ESTIMATE = "error of the estimate"
"""The name of that term of an allowed error; the error is a multiple of the estimate's bound."""


def _element(name: str, index: tuple[int, ...] | None) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


@dataclass(frozen=True)
class Finding:
    """A wrong derivative, at its worst element.

    `index` is the element of the input, `output` the element of the flattened outputs (None where a probe summed over
    them). `difference` is the estimate, within `bound`; `allowed` is the largest error that is not reported, `terms`
    are its larger parts by name. `diagnosis` is the cause, if the code shows it; `also` names the elements that move
    together with this one, if the input has a constraint.
    """

    kind: Kind
    order: int
    input: str
    index: tuple[int, ...] | None
    output: int | None
    autodiff: float | None
    difference: float | None
    bound: float | None
    allowed: float | None
    reason: str
    diagnosis: Diagnosis | None = None
    also: str = ""
    terms: tuple[tuple[str, float], ...] = ()

    @property
    def element(self) -> str:
        """The input and the element in it, such as `x[0, 1]`, or `x[1, 0] (and x[0, 1])` where two move together."""
        element = _element(self.input, self.index)
        return f"{element} ({self.also})" if self.also else element

    @property
    def allowed_for(self) -> str:
        """The terms of the allowed error, in words; empty if that is the error of the estimate alone."""
        if len(self.terms) > 1:
            return ", ".join(f"{name} {part:.1e}" for name, part in self.terms)
        return "".join(name for name, _ in self.terms if name != ESTIMATE)


@dataclass(frozen=True)
class EntryCurve:
    """The step-size curve of a derivative, at the element `index` of the `input`, with what it was compared with.

    `output` is the element of the flattened outputs, None if there is one only; the numbers are those of a Finding.
    """

    input: str
    index: tuple[int, ...] | None
    output: int | None
    autodiff: float
    difference: float
    bound: float
    allowed: float
    curve: StepCurve

    @property
    def name(self) -> str:
        """The derivative in words, such as "output element 1 with respect to x[0]"."""
        element = _element(self.input, self.index)
        return element if self.output is None else f"output element {self.output} with respect to {element}"


@dataclass(frozen=True)
class SourceResolution:
    """The smallest error that would have been noticed in the derivatives with respect to one input or variable.

    `resolution` is that error, as in OrderResult; `relative` is relative to the source's own derivative: its largest
    entry, or, if many entries were compared together, its share of their sum. Both are NaN if nothing was compared,
    `relative` also if the derivative is next to zero.
    """

    name: str
    resolution: float
    relative: float

    def __str__(self) -> str:
        relative = f" ({self.relative:.1e} of its own derivative)" if isfinite(self.relative) else ""
        return f"{self.name}: {self.resolution:.1e}{relative}"


@dataclass(frozen=True)
class OrderResult:
    """The verdict at one order of differentiation.

    `resolution` is the smallest absolute error that would have been noticed in all compared entries: an error of this
    size would not have agreed. `relative_resolution` is relative to the largest derivative. For entries that were
    compared together, as a note says, `resolution` is that of their sum, weighted by the magnitudes of the inputs and
    divided by those of the outputs, and `relative_resolution` is relative to its largest term. `by_source` has both for
    each source, relative to its own derivative. `compared` and `inconclusive` count entries. `curve` is that of the
    worst entry, if its differences are known.
    """

    order: int
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    resolution: float = float("nan")
    relative_resolution: float = float("nan")
    by_source: tuple[SourceResolution, ...] = ()
    compared: int = 0
    inconclusive: int = 0
    curve: EntryCurve | None = None

    def __str__(self) -> str:
        lines = [f"order {self.order}: {self.verdict} ({self.compared} compared, {self.inconclusive} inconclusive)"]
        relative = f" ({self.relative_resolution:.1e} of the largest derivative)"
        if isfinite(self.resolution):
            lines.append(f"  resolution {self.resolution:.1e}{relative if isfinite(self.relative_resolution) else ''}")
            lines += [f"    {line}" for line in self._apart()]
        lines += [f"  inconclusive: {reason.value}" for reason in self.reasons]
        for finding in self.findings:
            lines += [f"  {finding.kind.value} at {finding.element}: {finding.reason}"]
            lines += [f"      {line}" for line in (finding.diagnosis.printed if finding.diagnosis else ())]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _apart(self) -> list[str]:
        """The resolutions of sources that are far finer, or coarser, than the usual one."""
        known = sorted(one.resolution for one in self.by_source if isfinite(one.resolution))
        usual = known[len(known) // 2] if known else self.resolution
        apart = [
            one
            for one in self.by_source
            if max(usual, one.resolution) > APART * min(usual, one.resolution)
            or one.relative > APART * self.relative_resolution
        ]
        rest = [f"… and {len(apart) - LISTED} more, by resolution_of(name)"] if len(apart) > LISTED else []
        return [*map(str, apart[:LISTED]), *rest]


@dataclass(frozen=True)
class SourceResult:
    """The gradient of one source of a recorded derivative.

    `call` is the line that took it (None if `explain` did), `name` the source as written there, `gradient` TensorFlow's
    result, as text. `right` is None if the comparison is inconclusive; then `note` says why. For a correct gradient
    `note` says more, `finding` says what is wrong, `origin` where NaN or infinity comes from in a gradient that cannot
    be compared. A source is `unconnected` if the gradient is None and the target does not change with it: `right` is
    None, and `note` says what the target does depend on, and which tensors were made before the code ran.
    """

    call: Place | None
    name: str
    gradient: str
    right: bool | None
    note: str = ""
    finding: Finding | None = None
    origin: Diagnosis | None = None
    unconnected: bool = False

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The cause of a wrong, or not finite, gradient, if it is known."""
        return self.origin if self.finding is None else self.finding.diagnosis

    def __str__(self) -> str:
        verdict = {True: "right", False: "wrong", None: "inconclusive"}[self.right]
        verdict = verdict if self.finding is None else self.finding.kind.value
        verdict = verdict if self.origin is None else "not finite"
        verdict = "unconnected" if self.unconnected else verdict
        lines = [f"{self.name}: {self.gradient}, {verdict}" + (f" ({self.note})" if self.note else "")]
        if self.diagnosis is not None:
            lines += self.diagnosis.printed
        elif self.finding is not None:
            lines += [self.finding.reason]
        return "\n    ".join(lines)


@dataclass(frozen=True)
class Result(NoTruth):
    """The result of `check`, order by order; print it to read it. A notebook shows it as tables.

    `sources` is the result of `explain` for each source of each derivative. `unconnected` names those of its sources,
    or of the listed variables, whose gradient is None and with which nothing changes; notes say more.
    """

    orders: Mapping[int, OrderResult]
    sources: tuple[SourceResult, ...] = ()
    unconnected: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the checked orders."""
        return Verdict.worst(order.verdict for order in self.orders.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the first order's first, the most severe kind first within an order."""
        return tuple(finding for order in self.orders.values() for finding in order.findings)

    @property
    def resolution(self) -> dict[int, float]:
        """The smallest absolute error that would have been noticed, for each order."""
        return {number: order.resolution for number, order in self.orders.items()}

    def resolution_of(self, name: str, order: int = 1) -> float:
        """The smallest absolute error that would have been noticed with respect to one input or variable.

        `name` is the one in findings, such as "x" or "variables[0] (dense/kernel)", or a part of it that no other has.
        In the units of `OrderResult.resolution`; NaN if nothing of it was compared. Raises KeyError for another name,
        and for an order that was not checked.

        >>> from gradcheck import check
        >>> check(lambda x, y: x**2 + 1e-6 * y**2, 1.0, 1.0).resolution_of("y") < 1e-9
        True
        """
        if order not in self.orders:
            raise KeyError(f"order {order} was not checked; known are {', '.join(map(str, self.orders))}")
        sources = self.orders[order].by_source
        found = [one for one in sources if one.name == name] or [one for one in sources if name in one.name]
        if len(found) != 1:
            known = ", ".join(one.name for one in sources) or "none, as nothing was compared"
            raise KeyError(f"{name!r} names {len(found)} sources where one was expected; known are {known}")
        return found[0].resolution

    def plot(self, order: int | None = None) -> CurvePlot:
        """The step-size curve of the worst entry, as a drawing: of this order, or else of the first one that is wrong.

        It shows how far plain central differences lie from autodiff's value and from the estimate, step by step, beside
        the allowed error. A notebook shows it; `.save("curve.svg")` writes it to a file. It consists of the differences
        that the check has taken: raises ValueError if it knows none of a single entry, KeyError for an order that was
        not checked.

        >>> from gradcheck import check
        >>> check(lambda x: x**2, 3.0, gradient=5.0).plot().svg[:4]
        '<svg'
        """
        if order is not None and order not in self.orders:
            raise KeyError(f"order {order} was not checked; known are {', '.join(map(str, self.orders))}")
        chosen = self.orders.values() if order is None else [self.orders[order]]
        known = [one for one in chosen if one.curve is not None]
        found = next((one.curve for one in known if one.findings), known[0].curve if known else None)
        if found is None:
            raise ValueError(
                "no derivative was compared by itself, or with differences, so that there is no curve; check fewer "
                "inputs or outputs at once, or leave some out with skip="
            )
        return plot(found.name, found.curve, found.autodiff, found.difference, found.bound, found.allowed)

    def to_json(self) -> str:
        """The result as a JSON text: the verdict and all fields of the records by name; null for NaN and infinity.

        >>> from gradcheck import check
        >>> import json
        >>> json.loads(check(lambda x: x**2, 3.0).to_json())["orders"]["1"]["compared"]
        1
        """
        import msgspec  # which a check does not need

        fields = {"verdict": self.verdict, **msgspec.to_builtins(self, str_keys=True)}
        return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()

    def __repr__(self) -> str:
        orders = (f"order {number} {one.verdict}, {one.compared} compared" for number, one in self.orders.items())
        return f"<gradcheck.Result: {'; '.join(orders)}>"

    def _repr_html_(self) -> str:
        """The table of sources or findings that a notebook shows, the curve of the worst, and the printed result."""
        rows = [_row_of_source(one) for one in self.sources] or [_row_of_finding(one) for one in self.findings]
        head = ("derivative", "verdict", "gradient", "estimate", "cause", "where", "remedy")
        shown = [cell for cell in range(len(head)) if any(row[cell] for row in rows)]
        lines = [f"<p><b>gradcheck: {self.verdict}</b></p>"]
        if rows:
            lines.append(
                '<div style="overflow-x:auto"><table><thead><tr>'
                + "".join(f"<th>{head[cell]}</th>" for cell in shown)
                + "</tr></thead><tbody>"
            )
            for row in rows:
                cells = (f'<td style="text-align:left;vertical-align:top">{escape(row[cell])}</td>' for cell in shown)
                lines.append(f"<tr>{''.join(cells)}</tr>")
            lines.append("</tbody></table></div>")
        if any(one.curve is not None for one in self.orders.values()):
            drawn = self.plot()
            opened = " open" if self.verdict is Verdict.MISMATCH else ""
            lines.append(
                f"<details{opened}><summary>step-size curve of {escape(drawn.name)}</summary>"
                f'<div style="overflow-x:auto">{drawn.svg}</div></details>'
            )
        lines.append(f"<details><summary>as printed</summary><pre>{escape(str(self))}</pre></details>")
        return "\n".join(lines)

    def __str__(self) -> str:
        parts = list(map(str, self.orders.values()))
        if self.sources:
            notes = [f"note: {note}" for order in self.orders.values() for note in order.notes]
            parts = [*_by_call(self.sources), *notes]
        return "\n".join([f"gradcheck: {self.verdict}", *parts])


def _row_of_finding(one: Finding) -> tuple[str, ...]:
    given = "None" if one.kind is Kind.MISSING else ""
    known = (
        text if number is None else f"{number:.6g}" for number, text in ((one.autodiff, given), (one.difference, ""))
    )
    return (f"order {one.order}, {one.element}", one.kind.value, *known, *_cells_of(one.diagnosis))


def _row_of_source(one: SourceResult) -> tuple[str, ...]:
    wrong = one.finding
    verdict = {True: "right", False: "wrong", None: "inconclusive"}[one.right] if wrong is None else wrong.kind.value
    estimate = "" if wrong is None or wrong.difference is None else f"{wrong.difference:.6g} at {wrong.element}"
    return (one.name, verdict, one.gradient, estimate, *_cells_of(one.diagnosis))


def _cells_of(diagnosis: Diagnosis | None) -> tuple[str, str, str]:
    if diagnosis is None:
        return "", "", ""
    where = "" if diagnosis.place is None else str(diagnosis.place)
    return f"{diagnosis.cause.value}: {diagnosis.evidence}", where, diagnosis.remedy


def _by_call(sources: tuple[SourceResult, ...]) -> list[str]:
    """The sources below the calls that they belong to; a cause that many have in common is printed once."""
    lines: list[str] = []
    call = None
    named: dict[tuple[Cause, Place], str] = {}
    for source in sources:
        if source.call is not None and source.call != call:
            lines.append(str(source.call))
        call = source.call
        first, *rest = str(source).split("\n")
        diagnosis = source.diagnosis
        if diagnosis is not None and diagnosis.place is not None:
            name = named.setdefault((diagnosis.cause, diagnosis.place), source.name)
            rest = rest if name is source.name else [f"    {diagnosis.cause.value}, as for {name}"]
        lines += [f"  {line}" for line in (first, *rest)]
    return lines


def told_apart(first: float, second: float, digits: int = 6) -> tuple[str, str]:
    """Format two numbers with this many digits, or with as many as show two digits of their difference.

    >>> told_apart(2.718281828, 2.718281831), told_apart(0.5, 2.0)
    (('2.718281828', '2.718281831'), ('0.5', '2'))
    """
    apart = abs(first - second)
    if 0 < apart < inf:
        digits = max(digits, min(ceil(log10(max(abs(first), abs(second))) - log10(apart)) + 2, 17))
    return f"{first:.{digits}g}", f"{second:.{digits}g}"
