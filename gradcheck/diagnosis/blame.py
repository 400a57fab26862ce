"""Find the operation to blame: the first factor of the chain rule whose own derivative is wrong at its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.constraints import hermitian
from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates
from gradcheck.autodiff.reverse import DerivativeRaisedError, Gradients, WrongShapeError
from gradcheck.autodiff.sources import Source
from gradcheck.diagnosis.chain import Factor, factors
from gradcheck.diagnosis.known_defect import known_composition, orders_of, recognised
from gradcheck.diagnosis.wrong_gradient import WrongGradient
from gradcheck.numerics.difference import EXCLUSION, crude_difference
from gradcheck.numerics.probing import directions_at
from gradcheck.numerics.sampling import EPS64, QUICK, LinePoints, Stencil, largest_steps
from gradcheck.problem.function import Function
from gradcheck.problem.opening import open_function
from gradcheck.problem.problem import Problem
from gradcheck.progress import TimeUpError, time_limit
from gradcheck.result import Cause, Diagnosis, Finding, Kind, OrderResult, Reason, Verdict, told_apart
from gradcheck.tracing.blame_time import TIMES, BlameTime
from gradcheck.tracing.graph_interpreter import OF_GRAPH
from gradcheck.tracing.kernels import ONE_TRIANGLE
from gradcheck.tracing.operation import attribute_kinds, widened
from gradcheck.tracing.record import CodeRecord, DerivativeCall, RecordedOperation
from gradcheck.tracing.state import state_restored
from gradcheck.tracing.user_code import at, definition_of, file_owner, place_of
from gradcheck.typing import Array
from gradcheck.verdict.first_order import compare_first
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.looks import screened
from gradcheck.verdict.measured_rounding import ulp_rounding
from gradcheck.verdict.probes import PROBES, first_order
from gradcheck.verdict.summary import more_time, summarise, undecided
from gradcheck.verdict.tables import Comparison, Tolerance

NEXT, NEARBY = 2.0**-15, 2.0 ** np.array([-6.0, -7.0])
"""Steps of a quick check, relative to the largest step: one for a central difference, then two for extrapolation."""
RICHARDSON = np.array([-1.0, 4.0]) / 3.0
"""Weights of Richardson extrapolation, which removes the second-order error of the central differences."""
RIGHT = 1e6
"""An error of up to this many roundings of the summed products is no suspicion in a quick check."""
ONE = np.ones((1, 1))
DRAWS = 4
NOT_ALONE = "it cannot run by itself"
NO_COTANGENT = "the cotangent that reached it is not finite"
CRUDE = Stencil(ratio=4.0, count=4)
"""The stencil that ranks coordinates: 9 evaluations on a line."""
FEW, AT_A_TIME = 64, 4
"""Up to FEW coordinates are compared one by one, AT_A_TIME at a time."""
MOST = 20000
"""An operation that needs more values than this to be compared is left as unclear."""


class NotByItselfError(Exception):
    """The operation cannot run by itself, or has no finite value then; the message is that of the cause."""


class TooExpensiveError(Exception):
    """The comparison of an operation would take too long."""


@dataclass(frozen=True)
class FactorProblem(Problem):
    """A factor weighted by the cotangents that reached it: a function with one output."""

    function: Function
    cotangent: Array
    time: BlameTime
    spent: list[int] = field(default_factory=list)

    @cached_property
    def point(self) -> Array:
        return self.function.point

    @property
    def parts(self) -> tuple[slice, ...]:
        return self.function.parts

    @property
    def outputs(self) -> int:
        return 1

    @property
    def roundoff(self) -> float:
        return self.function.roundoff

    @property
    def precision(self) -> float:
        return self.function.precision

    @cached_property
    def terms(self) -> float:
        """Also covers intermediate values in the operation, by its change when the arguments are rounded."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, self.point.size))
        unit = 2 * self.roundoff
        moved = self.values(np.vstack([self.point[None, :], self.point * (1 + unit * signs)]))
        weighted = self.function.values(self.point[None, :])[0] * self.cotangent
        return float(max(np.max(np.abs(weighted), initial=0.0), np.max(np.abs(moved[1:] - moved[0])) / unit))

    @cached_property
    def in_float64(self) -> Problem | None:
        wide = self.function.wide
        return None if wide is None else FactorProblem(wide, self.cotangent, self.time)

    def values(self, points: Array | LinePoints) -> Array:
        self.time.refuse_more()
        self.spent.append(len(points))
        if sum(self.spent) > MOST:
            raise TooExpensiveError
        used = self.cotangent != 0
        with np.errstate(invalid="ignore", over="ignore"):
            product: Array = self.function.values(points)[:, used] @ self.cotangent[used, None]
        return product

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        return self.function.gradients(cotangents @ self.cotangent[None, :], point)


def compared(factor: Factor, time: BlameTime) -> OrderResult:
    """Compare the factor's derivative with differences; inconclusive if it cannot run by itself, or is not finite.

    Only what is suspicious along one random direction is compared entry by entry. Raises TimeUpError.
    """
    time.refuse_more()
    if not factor.moved:
        return undecided(1, Reason.CANNOT_RUN, NOT_ALONE)
    try:
        with state_restored():
            problem, sources = _problem(factor, time)
            if not np.isfinite(problem.cotangent).all():
                return undecided(1, Reason.NOT_FINITE, NO_COTANGENT)
            if not suspicious(problem):
                return OrderResult(1, Verdict.AGREE, compared=1)
            return summarise(1, closely(problem), sources)
    except TooExpensiveError:
        return undecided(1, Reason.TOO_EXPENSIVE, f"more than {MOST} values")
    except (NotByItselfError, DerivativeRaisedError, WrongShapeError) as error:
        return undecided(1, Reason.CANNOT_RUN, f"{type(error).__name__}: {error}")


def closely(problem: FactorProblem) -> list[Comparison]:
    """Compare the most suspicious derivatives, a few at a time up to the first wrong one; very many by a search."""
    if problem.point.size > FEW:
        return first_order(problem, Tolerance(), PROBES)
    everywhere = np.eye(problem.point.size)
    value, error = crude_difference(Lines(problem, everywhere, ONE, Tolerance()).sample(CRUDE))
    gradient = problem.gradients(ONE).values[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.abs(gradient - value[:, 0]) / (error[:, 0] + ulp_rounding(gradient, problem.precision))
    excess = np.nan_to_num(excess, nan=np.inf, posinf=np.inf)
    tables: list[Comparison] = []
    for some in np.array_split(np.argsort(-excess), np.arange(AT_A_TIME, problem.point.size, AT_A_TIME)):
        columns = tuple(map(int, some))
        table = compare_first(problem, everywhere[some], ONE, Tolerance(), everywhere)
        tables.append(replace(table, coordinates=columns, outputs=(0,)))
        if table.any(Verdict.MISMATCH) or excess[some].min() <= 1:
            break
    return tables


def suspicious(problem: FactorProblem) -> bool:
    """Whether the derivative along one random direction contradicts the differences beyond rounding."""
    gradient = problem.gradients(ONE).values[0]
    if not np.isfinite(gradient).all():
        return True
    directions = directions_at(np.random.default_rng(0), 1, problem.point)
    products = gradient * directions[0]
    if _right_at_a_glance(problem, directions, products):
        return False
    lines = Lines(problem, directions, ONE, Tolerance())
    estimate = screened(lines.sampled, 1, beyond=True)
    error = abs(float(products.sum()) - float(estimate.value[0, 0]))
    if estimate.conclusive.all():
        rounding = ulp_rounding(np.abs(products).sum(), problem.precision)
        return bool(error > EXCLUSION * (float(estimate.bound[0, 0]) + float(rounding)))
    return not error <= problem.precision**0.5 * problem.terms


def _right_at_a_glance(problem: FactorProblem, directions: Array, products: Array) -> bool:
    """Whether few values near the point confirm a sum of products as the derivative along a direction, in float64."""
    if problem.precision > EPS64:
        return False
    largest = problem.feasible_steps(directions, largest_steps(problem.point, directions, QUICK))

    def slopes(shares: Array) -> Array:
        steps = largest * shares
        beside = np.concatenate([steps, -steps])[:, None] * directions
        right, left = np.split(problem.values(problem.point + beside)[:, 0], 2)
        return np.asarray((right - left) / (2 * steps))

    def right(slope: float) -> bool:
        return bool(abs(float(products.sum()) - slope) <= RIGHT * problem.precision * np.abs(products).sum())

    with np.errstate(invalid="ignore", over="ignore"):
        return right(float(slopes(np.array([NEXT]))[0])) or right(float(RICHARDSON @ slopes(NEARBY)))


def _problem(factor: Factor, time: BlameTime) -> tuple[FactorProblem, list[Source]]:
    """The factor as a function of its moved tensors, with its float64 form if it has one, and its named sources."""
    tensors = [factor.tensors[position] for position in factor.moved]
    try:
        function = open_function(lambda *moved: factor.function(moved), _constrained(factor, tensors), None)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotByItselfError(f"{type(error).__name__}: {error}") from error
    cotangents = [to_coordinates(np.asarray(one.numpy())) for one in factor.reached]
    pairs = zip(function.sources, factor.names, strict=True)
    sources = [replace(source, name=name) for source, name in pairs]
    return FactorProblem(_with_float64_form(factor, function, tensors), np.concatenate(cotangents), time), sources


def _with_float64_form(factor: Factor, function: Function, tensors: Sequence[Any]) -> Function:
    """Return the function with the same one of wide tensors, if it computes in less and both give the same values."""
    if function.precision <= ROUNDOFF["float64"]:
        return function
    try:
        wide_tensors = _constrained(factor, [widened(tensor) for tensor in tensors])
        wide = open_function(lambda *moved: factor.function(moved, wide=True), wide_tensors, None)
    except (TypeError, ValueError, RuntimeError):  # no kernel in float64, or float32 written in the function
        return function
    one, other = function.opened, wide.opened
    assert one is not None
    assert other is not None
    slack = function.precision**0.5 * (np.max(np.abs(one), initial=0.0) + np.finfo(np.float32).tiny)
    same = one.shape == other.shape and bool(np.all(np.abs(one - other) <= slack))
    return replace(function, wide=wide) if same else function


def _constrained(factor: Factor, moved: Sequence[Any]) -> tuple[Any, ...]:
    """The moved tensors, constrained to the sets that the operation's gradient assumes."""
    of_matrix = factor.operation.name in ONE_TRIANGLE
    pairs = zip(factor.moved, moved, strict=True)
    return tuple(hermitian(tensor) if of_matrix and position == 0 else tensor for position, tensor in pairs)


@dataclass(frozen=True)
class Blame:
    """The result of comparing the factors of the chain rule: the first wrong one, if any, by its worst `finding`.

    `looked_at` counts the compared operations, `unclear` are those that could not be compared, `left` those that the
    time limit cut off. An operation that is also wrong behind another source is compared first: `again`.
    """

    culprit: Factor | None = None
    finding: Finding | None = None
    looked_at: int = 0
    unclear: tuple[RecordedOperation, ...] = ()
    again: bool = False
    left: tuple[RecordedOperation, ...] = ()


TOGETHER = ": the error is in their composition"
NOTHING = Blame()
"""The result if nothing could be compared."""


def blame(record: CodeRecord, call: DerivativeCall, source: Any, weights: Sequence[Any] | None = None) -> Blame:
    """Compare the factors between a source and the targets of a call with differences, up to the first wrong one.

    `weights` are the cotangents of the targets. Ends early when its time is up. Raises NoChainError.
    """
    with record.time.blaming():
        return _innermost(record, _along_path(record, list(factors(record, call, source, weights))))


def _innermost(record: CodeRecord, found: Blame) -> Blame:
    """Find the wrong derivative inside a custom gradient, if its function takes derivatives itself."""
    operation = None if found.culprit is None else found.culprit.operation
    if operation is None or operation.custom_gradient is None:
        return found
    end = next(position for position, event in enumerate(record.events) if event is operation)
    for call in record.derivatives:
        if operation.began <= call.position < end and call.error is None:
            for source in call.sources:
                inner = _along_path(record, list(factors(record, call, source)))
                if inner.culprit is not None:
                    return _innermost(record, replace(inner, looked_at=found.looked_at + inner.looked_at))
    return found


def _along_path(record: CodeRecord, path: Sequence[Factor]) -> Blame:
    """Compare the factors in order."""
    with suppress(TimeUpError):
        for factor in path:
            if factor.function_of in record.wrong and (found := _blame_alone(record, factor)).culprit is not None:
                return replace(found, again=True)
    total = NOTHING
    for position, factor in enumerate(path):
        try:
            found = _blame_alone(record, factor)
        except TimeUpError:
            return replace(total, left=tuple(one.operation for one in path[position:]))
        total = replace(found, looked_at=total.looked_at + found.looked_at, unclear=total.unclear + found.unclear)
        if found.culprit is not None:
            record.wrong.add(factor.function_of)
            break
    return total


def _blame_alone(record: CodeRecord, factor: Factor) -> Blame:
    """Compare one factor; one that gives None counts as a break of the path, and not as wrong.

    If a vector-Jacobian product is wrong itself, its derivative may be anything, so that the product is compared as
    well.
    """
    orders = []
    for one in (factor, factor.underlying):
        if one is None:
            continue
        known = record.compared.get(one.key)
        order = record.compared[one.key] = compared(one, record.time) if known is None else known
        # None is a deliberate break of the path, unless a gradient function of TensorFlow has no derivative.
        given_up = one.order == 2 and one.operation.custom_gradient is None
        wrong = [finding for finding in order.findings if finding.kind is not Kind.MISSING or given_up]
        if wrong:
            return Blame(one, wrong[0], looked_at=1)
        orders.append(order)
    if any(order.findings for order in orders):
        return NOTHING
    unclear = any(order.verdict is Verdict.INCONCLUSIVE for order in orders)
    return Blame(unclear=(factor.operation,)) if unclear else Blame(looked_at=1)


def blame_diagnosis(found: Blame, lost: float | None = None) -> Diagnosis | None:
    """Describe the culprit; None where there is none. `lost` is the part of the derivative that is missing."""
    one, finding = found.culprit, found.finding
    if one is None or finding is None:
        return None
    assert finding.difference is not None
    gives, right = told_apart(finding.autodiff or 0.0, finding.difference)
    gives = "None" if finding.autodiff is None else gives
    operation, counted = one.operation, f"{looked_at_text(found)}, from the target back to this one"
    element, value = replace(finding, also="").element, one.value_at(finding.input, finding.index or ())
    numbers = (
        f"the derivative {gives} with respect to {element}, which is {value:.6g}, where the finite-difference estimate "
        f"is {right} (error at most {finding.bound or 0.0:.1e}); {'as for another input' if found.again else counted}"
    )
    call = operation.custom_gradient
    if call is not None and file_owner(call.func.__code__.co_filename) == "user":
        name, defined = call.func.__name__, definition_of(call.func)
        second = "differentiated again" if one.order == 2 else "called alone"
        evidence = f"{second}{at(operation.line)}, the function {name} under tf.custom_gradient gives {numbers}"
        remedy = f"correct the gradient that {name}{at(defined)} returns"
        return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), lost)
    if call is not None and call.func.__name__ == OF_GRAPH:
        evidence = f"{described(operation)} gives {numbers}"
        remedy = "correct the gradient that it was given under tf.custom_gradient, and save the function again"
        return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, operation.place, lost)
    if (wrapped := operation.recomputed) is not None:
        again = getattr(wrapped, "__name__", None) or getattr(wrapped, "name", None) or "the function"
        again += at(definition_of(wrapped)) if inspect.isfunction(wrapped) else ""
        second = "differentiated again, " if one.order == 2 else ""
        evidence = f"{second}what tf.recompute_grad{at(operation.line)} recomputes in the backward pass gives {numbers}"
        remedy = f"call {again} without tf.recompute_grad to see which of its operations is wrong"
        return Diagnosis(Cause.OPERATION, evidence, remedy, operation.place, lost)
    product = "the vector-Jacobian product of " if one.order == 2 else ""
    evidence = f"{product}{described(operation)}, taken alone with the cotangent that reached it, gives {numbers}"
    remedy = (
        f"the gradient that is registered for {operation.name} is wrong there, not your code: write "
        f"{operation.quoted} with other operations, or give it the right gradient with tf.custom_gradient"
    )
    return recognised(Diagnosis(Cause.OPERATION, evidence, remedy, operation.place, lost), operation, (one.order,))


def composed(found: Blame, cause: Diagnosis | None, wrong: WrongGradient, kind: Kind) -> Diagnosis | None:
    """Combine the cause with the result for the operations; without a cause, diagnose operations that are all correct.

    A public function that they make up may be a known defect.
    """
    on_path = wrong.operations
    if cause is not None:
        return with_right(recognised_cut(cause, wrong), found)
    known = known_composition(on_path, [wrong.source.tensor])
    if known is None and any(operation.derivative is not None for operation in on_path):
        # A gradient function may recompute what it needs, so that the operation itself is on no path.
        known = known_composition(wrong.source.record.operations, [wrong.source.tensor])
    if known is not None:
        return replace(known, lost=wrong.lost.size)
    if kind not in (Kind.WRONG_VALUE, Kind.NON_FINITE) or wrong.source.call.method == "batch_jacobian":
        return None
    if found.left:
        return ended(found, wrong.lost.size)
    if found.unclear:
        names = ", ".join(dict.fromkeys(described(operation) for operation in found.unclear))
        evidence = f"{looked_at_text(found)}, none of the others is wrong by itself"
        remedy = f"check it by itself, at the arguments it has here: {names}"
        return Diagnosis(Cause.NOT_COMPARED, evidence, remedy, found.unclear[0].place, wrong.lost.size)
    if not found.looked_at or kind is not Kind.WRONG_VALUE:
        return None
    evidence = f"{looked_at_text(found)}, none is wrong by itself{TOGETHER}"
    remedy = "look for what changes a gradient between operations, or after it was taken"
    return Diagnosis(Cause.COMPOSITION, evidence, remedy, None, wrong.lost.size)


def with_right(cause: Diagnosis, found: Blame) -> Diagnosis:
    """Return the cause, and how many operations were found right."""
    right = f"; no other operation is wrong by itself ({looked_at_text(found)})" if found.looked_at else ""
    right = f"; {looked_at_text(found)}, none of these is wrong by itself" if found.left else right
    return replace(cause, evidence=cause.evidence + right)


def recognised_cut(cause: Diagnosis, wrong: WrongGradient) -> Diagnosis:
    """Diagnose a break of the path as a known defect, if a public function that is one causes the break."""
    return (
        cause
        if not wrong.breaks or wrong.first.call is None
        else recognised(cause, wrong.first, orders_of(wrong.operations))
    )


def ended(found: Blame, lost: float | None = None) -> Diagnosis:
    """Diagnose a search that ran out of time before an operation was found wrong, or all correct."""
    nearest = described(found.left[0])
    remedy = (
        f"check the part of the code that ends with {nearest} by itself: the operations from there back to the inputs "
        "were not looked at, those after it were"
    )
    if (limit := time_limit()) is not None:
        remedy = f"{more_time(limit)}; or {remedy}"
    evidence = f"{looked_at_text(found)}, none of these is wrong by itself"
    return Diagnosis(Cause.NOT_COMPARED, evidence, remedy, found.left[0].place, lost)


def looked_at_text(found: Blame) -> str:
    """Describe how many operations were compared, which could not be, and how many the time limit cut off."""
    count = _counted(found.looked_at)
    if found.left:
        total = found.looked_at + len(found.unclear) + len(found.left)
        limit = time_limit()
        taken = f"{TIMES} times the time of the check" if limit is None else f"seconds={limit:g}"
        count = f"{found.looked_at} of {total} operations looked at in {taken}"
    names = dict.fromkeys(_name(operation) for operation in found.unclear)
    return count + (f", {len(found.unclear)} could not be compared ({', '.join(names)})" if names else "")


def back_to_this_one(looked_at: int) -> str:
    """Describe how many operations were looked at up to the one that a sentence is about."""
    return f"{_counted(looked_at)}, from the target back to this one"


def _counted(looked_at: int) -> str:
    return f"{looked_at} operation{'s' * (looked_at != 1)} looked at"


SHOWN = ("int", "float", "bool", "string", "shape", "list(int)")
"""The types of the attributes that are shown."""


def described(operation: RecordedOperation, name: str = "") -> str:
    """Describe an operation, or another `name`, with its line, layer and attributes."""
    kinds = attribute_kinds(operation.name)
    shown = [
        (name, one) for name, one in operation.operation.settings.items() if kinds.get(name) in SHOWN and name != "N"
    ]
    texts = [f"{name}={one.decode() if isinstance(one, bytes) else one}" for name, one in shown]
    name = (name or _name(operation)) + at(operation.line) + (f" ({operation.within})" if operation.within else "")
    return name + (f" with {', '.join(texts)}" if texts else "")


def _name(operation: RecordedOperation) -> str:
    """The name of an operation; TensorFlow numbers the functions that it has traced."""
    traced = re.fullmatch(r"__(?:forward|inference)_(.+)_\d+", operation.name)
    return operation.name if traced is None else f"the traced function {traced[1]}"
