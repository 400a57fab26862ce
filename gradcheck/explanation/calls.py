"""What the sources of a derivative are called in the line that takes it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import WrongShapeError
from gradcheck.autodiff.sources import Source, paths
from gradcheck.comparison.probes import first_order
from gradcheck.comparison.summary import broken, summarise, undecided
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.explanation.call_problem import FEW, CallProblem, influence, plainly_agrees, unlike
from gradcheck.explanation.case import Loss
from gradcheck.explanation.checked import diagnosed
from gradcheck.explanation.diagnosis import covered, diagnose, unconnected
from gradcheck.explanation.paths import differentiable
from gradcheck.explanation.places import Line, place_of, tree_of
from gradcheck.explanation.record import DerivativeCall, Origin, key, origin_of
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.replay import Code
from gradcheck.explanation.rules.formula import integer_source, raised
from gradcheck.result import Finding, Kind, OrderResult, Reason, SourceResult, Verdict

POSITION = {"gradient": 1, "jacobian": 1, "batch_jacobian": 1}


def source_names(call: DerivativeCall, earlier: int = 0) -> list[str]:
    """A name for each source, no two alike: as written in the code, else the variable's own, else its number.

    `earlier`: so many calls of the method were made on this line before.
    """
    written = _written(call, earlier)
    names = written if len(written) == len(call.sources) else [""] * len(call.sources)
    found: list[str] = []
    for position, (name, source) in enumerate(zip(names, call.sources, strict=True)):
        name = name or _own_name(source) or f"sources[{position}]"
        found.append(name if name not in found else f"{name} (sources[{position}])")
    return found


def _own_name(source: Any) -> str:
    """A variable's name, where somebody gave it one."""
    if not hasattr(source, "handle"):
        return ""
    name = str(getattr(source, "path", None) or source.name).split(":")[0]
    return "" if name == "Variable" else name


def _written(call: DerivativeCall, earlier: int) -> list[str]:
    """The expressions for the sources in the call's source text; empty where it cannot be read."""
    if call.line is None:
        return []
    nodes = _calls(call.line, call.method)
    if not nodes:
        return []
    node = nodes[earlier % len(nodes)]
    named = [k.value for k in node.keywords if k.arg in ("sources", "source")]
    argument = named[0] if named else node.args[1] if len(node.args) > 1 else None
    return [] if argument is None else _expressions(argument)


def _expressions(node: ast.expr) -> list[str]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in _expressions(item)]
    if isinstance(node, ast.Dict):
        # TensorFlow flattens a dict in the order of its keys.
        keys = [ast.unparse(name) if name is not None else "" for name in node.keys]
        pairs = sorted(zip(keys, node.values, strict=True), key=lambda pair: pair[0])
        return [text for _, value in pairs for text in _expressions(value)]
    return [ast.unparse(node)]


def _calls(line: Line, method: str) -> list[ast.Call]:
    """The calls of the method on a line, in the order in which they are written."""
    calls = [
        node
        for node in ast.walk(tree_of(line[0]))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and node.func.end_lineno is not None
        and node.lineno <= line[1] <= node.func.end_lineno
    ]
    return sorted(calls, key=lambda node: (node.lineno, node.col_offset))


ROWS = (
    "; batch_jacobian takes for granted that a row of the target depends on the same row of the source alone: "
    "where that is not so, use jacobian"
)
SHOWN = 12
"""Gradients of so many elements are printed as numbers."""


@dataclass(frozen=True)
class Explained:
    """The verdict on a call and what it says of each source."""

    order: OrderResult
    sources: tuple[SourceResult, ...]


def explained_call(
    code: Code, call: DerivativeCall, tolerance: Tolerance, probes: int, names: Sequence[str] | None = None
) -> Explained:
    """Hold the answer of a call against differences of its targets, and diagnose what is wrong.

    `names` are those of the sources, if they are not to be read from the line of the call.
    """
    if call.error is not None:
        return _raised(code, call)
    if names is None:
        before = code.record.derivatives[: call.number]
        names = source_names(call, sum((one.line, one.method) == (call.line, call.method) for one in before))
    doubt = unlike(code, call)
    if doubt is not None:
        return _undecided(call, names, doubt)
    return _Explaining(code, call, tuple(names), tolerance, probes).explained()


def _undecided(call: DerivativeCall, names: Sequence[str], doubt: str) -> Explained:
    where = place_of(call.line, call.method)
    pairs = zip(names, call.results or (), strict=True)
    sources = tuple(SourceResult(where, name, shown_gradient(given), None, doubt) for name, given in pairs)
    return Explained(undecided(1, Reason.NOT_DETERMINISTIC, doubt), sources)


def _raised(code: Code, call: DerivativeCall) -> Explained:
    message = f"{type(call.error).__name__}: {call.error}"
    order = broken(1, Kind.RAISES, "the derivative", message)
    finding = replace(order.findings[0], diagnosis=raised(code.record, call))
    where = place_of(call.line, call.method)
    source = SourceResult(where, "the derivative", message, False, finding=finding)
    return Explained(replace(order, findings=(finding,)), (source,))


@dataclass(frozen=True)
class _Named:
    """A source of the call: its name, origin, and as a Source where it is floating or complex."""

    place: int
    name: str
    origin: Origin
    source: Source | None


@dataclass(frozen=True)
class _Explaining:
    code: Code
    call: DerivativeCall
    names: tuple[str, ...]
    tolerance: Tolerance
    probes: int

    def explained(self) -> Explained:
        named = self._named()
        answers = self.call.results or ()
        connected = [one for one in named if one.source is not None and answers[one.place] is not None]
        orders, findings, undecided = self._orders(connected)
        results = []
        for one in named:
            if one in connected:
                note, finding = "", findings.get(one.place)
            else:
                note, finding = self._none(one)
                orders.append(_order_of(finding))
            if finding is None and one in connected and self._zeros(one):
                note, finding = unconnected(self._problem([one]), one.name)
                orders += [] if finding is None else [_order_of(finding)]
            results.append(self._result(one, None if one.place in undecided else True, note, finding))
        return Explained(merged(orders), tuple(results))

    def _named(self) -> list[_Named]:
        found: dict[int, _Named] = {}
        for place, (name, tensor) in enumerate(zip(self.names, self.call.sources, strict=True)):
            origin = origin_of(self.code.record, self.call, tensor)
            dtype = tf.as_dtype(tensor.dtype)
            floating = dtype.is_floating or dtype.is_complex
            source = Source(name, np.asarray(origin.value), dtype.name) if floating else None
            found.setdefault(key(tensor), _Named(place, name, origin, source))
        return list(found.values())

    def _orders(self, named: Sequence[_Named]) -> tuple[list[OrderResult], dict[int, Finding], set[int]]:
        """All sources together if they plainly agree; else each by itself, so that the wrong one is named.

        With the verdicts go the worst finding for each source (by its place in the call), and the undecided places.
        """
        if not named:
            return [], {}, set()
        problem = self._problem(named)
        try:
            table = plainly_agrees(problem, self.tolerance, self.probes)
        except WrongShapeError as error:
            return [broken(1, Kind.SHAPE, error.source, str(error))], {}, set()
        if table is not None:
            return [summarise(1, [table], problem.sources)], {}, set()
        if len(named) == 1 or problem.point.size <= FEW:
            order, findings, undecided = self._order(named)
            return [order], findings, undecided
        each = [self._orders([one]) for one in named]
        findings = {place: finding for _, found, _ in each for place, finding in found.items()}
        return (
            [o for orders, _, _ in each for o in orders],
            findings,
            {place for *_, places in each for place in places},
        )

    def _order(self, named: Sequence[_Named]) -> tuple[OrderResult, dict[int, Finding], set[int]]:
        problem = self._problem(named)
        ends = np.cumsum([source.count for source in problem.sources])
        findings: dict[int, Finding] = {}

        def owner(coordinate: int) -> int:
            return int(np.searchsorted(ends, coordinate, side="right"))

        def explain(finding: Finding, coordinate: int | None) -> Finding:
            if coordinate is None and len(named) > 1:
                return finding
            position = 0 if coordinate is None else owner(coordinate)
            inside = None if coordinate is None else coordinate - int(ends[position]) + problem.sources[position].count
            finding = self._diagnosed(named[position], finding, inside)
            findings.setdefault(named[position].place, finding)
            return finding

        tables = first_order(problem, self.tolerance, self.probes)
        doubtful = {column for table in tables for column in _doubtful(table)}
        owners = {owner(column) for column in doubtful if column is not None}
        places = {one.place for p, one in enumerate(named) if None in doubtful or p in owners}
        return summarise(1, tables, problem.sources, explain=explain), findings, places

    def _problem(self, named: Sequence[_Named]) -> CallProblem:
        sources = tuple(one.source for one in named if one.source is not None)
        return CallProblem(
            self.code, self.call, sources, tuple(one.origin for one in named), tuple(one.place for one in named)
        )

    def _diagnosed(self, one: _Named, finding: Finding, coordinate: int | None) -> Finding:
        """The finding with its cause; what a wider tape or another step would give is a part that is lost."""
        row = finding.output or 0
        whole = None if coordinate is None else covered(self.code, self.call, one.origin, row, coordinate)
        element = finding.element if finding.index else ""
        loss = Loss(finding.autodiff, finding.difference, whole, element=element)
        seen = influence(self.code, self.call, one.origin)
        answer = diagnose(self.code, self.call, one.name, one.origin, seen, loss)
        reason = finding.reason + (ROWS if answer is None and self.call.method == "batch_jacobian" else "")
        output = None if self.call.method == "gradient" else finding.output
        return diagnosed(replace(finding, output=output, reason=reason), answer)

    def _zeros(self, one: _Named) -> bool:
        """Whether the answer may be the zeros that stand for None."""
        answer = (self.call.results or ())[one.place]
        return self.call.zeros and not np.any(tf.convert_to_tensor(answer).numpy())

    def _none(self, one: _Named) -> tuple[str, Finding | None]:
        """What there is to say of a source without a gradient."""
        if one.source is not None:
            return unconnected(self._problem([one]), one.name)
        answer = integer_source(self.code.record, one.name, one.origin)
        reason = f"autodiff gives None, {answer.evidence}"
        return "", Finding(Kind.MISSING, 1, one.name, None, None, None, None, None, None, reason, answer)

    def _result(self, one: _Named, right: bool | None, note: str, finding: Finding | None) -> SourceResult:
        where = place_of(self.call.line, self.call.method)
        given = shown_gradient((self.call.results or ())[one.place])
        return SourceResult(where, one.name, given, False if finding else right, note, finding)


def _doubtful(table: Comparison) -> set[int | None]:
    """The columns of a table with undecided entries."""
    lines = np.flatnonzero(table.where(Verdict.INCONCLUSIVE).any(axis=1))
    return {table.columns[int(line)] for line in lines}


def _order_of(finding: Finding | None) -> OrderResult:
    verdict = Verdict.AGREE if finding is None else Verdict.MISMATCH
    return OrderResult(1, verdict, () if finding is None else (finding,), compared=1)


def merged(orders: Sequence[OrderResult]) -> OrderResult:
    """Several verdicts on first derivatives as one."""
    if not orders:
        return OrderResult(1, Verdict.AGREE)
    resolutions = [order.resolution for order in orders if np.isfinite(order.resolution)]
    return OrderResult(
        order=1,
        verdict=Verdict.worst(order.verdict for order in orders),
        findings=tuple(finding for order in orders for finding in order.findings),
        reasons=tuple(dict.fromkeys(reason for order in orders for reason in order.reasons)),
        notes=tuple(dict.fromkeys(note for order in orders for note in order.notes)),
        resolution=max(resolutions, default=float("nan")),
        compared=sum(order.compared for order in orders),
        inconclusive=sum(order.inconclusive for order in orders),
    )


def shown_gradient(given: Any) -> str:
    """A gradient as text: the numbers while they are few, else the shape."""
    if given is None:
        return "None"
    value = np.asarray(tf.convert_to_tensor(given).numpy())
    if value.size > SHOWN:
        return f"a gradient of shape {value.shape}"
    text = np.array2string(value, separator=", ", formatter={"float_kind": lambda number: f"{number:.6g}"})
    return " ".join(text.split())


def own_call(code: Code, variables: Sequence[Any], parameters: Sequence[str]) -> tuple[Code, list[str]]:
    """Code that takes the gradient of the sum of what the function returns, and the names of its sources.

    Raises ValueError where there is nothing to differentiate with respect to, TypeError where there is no tensor to
    differentiate.
    """
    leaves = _leaves(code, parameters)
    floating = [position for position, (_, leaf) in enumerate(leaves) if tf.is_tensor(leaf) and differentiable(leaf)]
    held = list(variables)
    if not floating and not held:
        held = [variable for variable in code.record.variables.values() if variable.trainable]
    if not floating and not held:
        raise ValueError(
            "f takes no derivative, no floating input and reads no trainable variable: nothing to explain; "
            "give a function that calls tape.gradient, a float input (2.0, not 2), or variables=[...]"
        )
    _refuse_result(code.record.result)

    def gradient(*inputs: Any) -> Any:
        sources = [tf.nest.flatten(inputs)[position] for position in floating] + held
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            outputs = [part for part in tf.nest.flatten(code.f(*inputs)) if tf.is_tensor(part) and differentiable(part)]
        return tape.gradient(outputs, sources)

    names = [leaves[position][0] for position in floating] + [variable.name.split(":")[0] for variable in held]
    return Code(gradient, code.inputs, recorded(gradient, code.inputs)), _distinct(names)


def _leaves(code: Code, parameters: Sequence[str]) -> list[tuple[str, Any]]:
    named = []
    for position, value in enumerate(code.inputs):
        name = parameters[position] if position < len(parameters) else f"inputs[{position}]"
        named += paths(name, value)
    return named


def _refuse_result(result: Any) -> None:
    flat = tf.nest.flatten(result)
    if not any(tf.is_tensor(part) and differentiable(part) for part in flat):
        kinds = ", ".join(sorted({part.dtype.name if tf.is_tensor(part) else type(part).__name__ for part in flat}))
        raise TypeError(
            f"f takes no derivative and returned {kinds or 'nothing'}, no floating tensor; let f return the tensor to "
            "differentiate (not its .numpy()), or call tape.gradient inside f"
        )


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for position, name in enumerate(names):
        found.append(name if names.count(name) == 1 else f"{name} (sources[{position}])")
    return found
