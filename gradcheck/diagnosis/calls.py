"""Explain a derivative that the user's code took: compare each source, and diagnose the wrong ones; traced or eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.errors import sentence_of
from gradcheck.autodiff.reverse import DerivativeRaisedError
from gradcheck.diagnosis import rules
from gradcheck.diagnosis.custom_gradients import refused_in_a_graph
from gradcheck.diagnosis.diagnosis import diagnose, diagnose_error, diagnose_not_finite
from gradcheck.diagnosis.internal_errors import cause_searched
from gradcheck.diagnosis.not_finite_value import finite
from gradcheck.diagnosis.paths import dependency_path, differentiable
from gradcheck.diagnosis.source_comparison import COARSE, CallProblem, compared
from gradcheck.diagnosis.surrogates import surrogate_on_path
from gradcheck.diagnosis.unconnected import dependence, kept_between_calls, not_crossed, source_names, step_between
from gradcheck.diagnosis.zeros import zero_note
from gradcheck.numerics.difference import first_difference
from gradcheck.result import Diagnosis, Finding, Kind, OrderResult, Place, Reason, Result, SourceResult, Verdict
from gradcheck.tracing.call_source import call_source
from gradcheck.tracing.hooks import derivatives_observed
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall, WatchEvent, key
from gradcheck.tracing.replay import FAR_MOVES, influence, nearly_equal, nondeterminism
from gradcheck.tracing.state import state_restored
from gradcheck.tracing.user_code import at, call_user_code, place_of, quoted
from gradcheck.verdict.asked import Asked, Named
from gradcheck.verdict.lines import sample_values
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.summary import broken, element_of, estimate_text, notes_of, out_of_time, undecided

SHOWN = 12
"""Gradients of up to this many elements are printed as numbers."""
NO_SOURCES = "no sources: a model has no variables before it is built, and no trainable ones if it is frozen"
TARGET = "the target is NaN or infinite"
TRACED = "the code with its tf.function traced"
KEPT = (
    " when the code runs eagerly; a tf.function freezes Python numbers, attributes and NumPy random numbers at "
    "tracing: pass them as tensors, or hold them in variables"
)
STEP = 2.0**-10
"""The relative step by which the element with the largest derivative is found."""
STEPWISE = "small perturbations do not change the target, larger ones do"

Results = tuple[Any, ...]
"""The results of one derivative, one per source."""


def explained_call(
    record: CodeRecord, call: DerivativeCall, asked: Asked, probes: int, names: Sequence[str] | None = None
) -> Result:
    """Compare the result of a call with finite differences of its targets, and diagnose what is wrong.

    Sources that are to be skipped are left out. `names` are those of the sources, if they are not to be read from the
    line of the call.
    """
    where = place_of(call.line, call.method)
    if call.error is not None:
        message, cause = f"{type(call.error).__name__}: {sentence_of(call.error)}", None
        with cause_searched():
            cause = diagnose_error(record, call)
        return _failed(Kind.RAISES, "the derivative", message, message, where, cause)
    if not call.sources:
        return _failed(Kind.MISSING, "the sources", "none", NO_SOURCES, where)
    difference = nondeterminism(record, call)
    if difference is not None:
        order = undecided(1, Reason.NOT_DETERMINISTIC, difference)
        return Result({1: order}, _not_compared(call, asked, names, difference))
    named = named_sources(call, names)
    sources = [call_source(record, call, one, name) for one, (name, _) in zip(call.sources, named, strict=True)]
    sources = [
        one
        for position, (one, source) in enumerate(zip(sources, named, strict=True))
        if one.position == position and asked.of(*source) is not None  # each once
    ]
    connected = [one for one in sources if differentiable(one) and one.given is not None]
    try:
        groups = [
            pair
            for tolerance, places in asked.groups([named[one.position] for one in connected])
            for pair in compared([connected[place] for place in places], tolerance, probes)
        ]
    except DerivativeRaisedError as error:  # rows of IndexedSlices that the source does not have
        return _failed(Kind.RAISES, "the derivative", str(error), str(error), where)
    groups += [([one], OrderResult(1, Verdict.AGREE, compared=1)) for one in sources if one not in connected]
    verdicts = {one: order for group, order in groups for one in group}
    orders, results = [order for _, order in groups], []
    for one in sources:
        order, note, unconnected = verdicts[one], "", False
        finding = order.findings[0] if order.findings else None
        zeros = one in connected and call.zeros and not np.any(tf.convert_to_tensor(one.given).numpy())
        if finding is None and (zeros or one not in connected):
            note, finding, unconnected = diagnose_unconnected(one)
            orders += [] if finding is None else [OrderResult(1, Verdict.MISMATCH, (finding,))]
        right = False if finding else None if unconnected or order.verdict is Verdict.INCONCLUSIVE else True
        there = all(map(finite, call.targets)) or one.given is None
        origin = None
        if not finding and not (there and finite(one.given)):
            with cause_searched():
                origin = diagnose_not_finite(one)
        if right is None and not there and not unconnected:
            note = TARGET
        elif right is None and origin is None and not unconnected:
            note = ", ".join(reason.value for reason in order.reasons)
            with cause_searched():
                note = "; ".join(filter(None, (note, surrogate_on_path(one))))
        elif right and not note and COARSE < order.relative_resolution <= 1:  # above 1, the gradient is 0
            note = f"an error below {order.relative_resolution:.0%} of the largest derivative would not have shown"
        if right and not note:
            with cause_searched():
                note = zero_note(one)
        shown = shown_gradient(one.given)
        results.append(SourceResult(where, one.name, shown, right, note, finding, origin, unconnected))
    # A function may not use a tensor that it is given: its derivative is zero, and that was seen.
    if all(one.unconnected for one in results) and any(one.input is None for one in sources):
        count = len(results)
        orders = [OrderResult(1, Verdict.INCONCLUSIVE, reasons=(Reason.UNCONNECTED,), inconclusive=count)]
    return merged(orders, results, _constant_updates(record, sources))


def not_reached(call: DerivativeCall, asked: Asked, names: Sequence[str] | None) -> Result:
    """The result of a derivative that was not compared within the time limit."""
    order = out_of_time(1)
    return Result({1: order}, _not_compared(call, asked, names, order.notes[0]))


def _not_compared(
    call: DerivativeCall, asked: Asked, names: Sequence[str] | None, why: str
) -> tuple[SourceResult, ...]:
    """The results for the sources of a derivative that was not compared."""
    where, pairs = place_of(call.line, call.method), zip(named_sources(call, names), call.results or (), strict=False)
    return tuple(
        SourceResult(where, source[0], shown_gradient(given), None, why)
        for source, given in pairs
        if asked.of(*source) is not None
    )


def diagnose_unconnected(source: CallSource) -> tuple[str, Finding | None, bool]:
    """Return a note on a source whose gradient is None, or a finding with its diagnosis; and whether it is unconnected.

    It is unconnected if no move of it changes the target, either: nothing is wrong, and nothing can be called correct.
    """
    if not differentiable(source):
        diagnosis = rules.integer_source(source)
        finding = broken(1, Kind.MISSING, source.name, f"autodiff gives None, {diagnosis.evidence}").findings[0]
        return "", replace(finding, diagnosis=diagnosis), False
    moved = influence(source)
    zeros = "zeros that stand for None: " if source.call.zeros else ""
    step = None if moved.large else step_between(source)
    if step is not None:
        moved = influence(source, FAR_MOVES)
    if not moved.large:
        if zeros and _covered(source):
            return "", None, False
        if step is not None:
            unmoved = not_crossed(step)
        elif made_of := _made_of(source):
            unmoved = f"the target does not depend on it{made_of}"
        else:
            unmoved = dependence(source)
        return f"{zeros}{unmoved}{kept_between_calls(source)}", None, True
    reason = f"autodiff gives {'zeros for None' if zeros else 'None'}, "
    found = _largest_derivative(CallProblem([source]), reason) if moved.small else None
    finding, place = found or (broken(1, Kind.MISSING, source.name, reason + STEPWISE).findings[0], None)
    cause = None
    with cause_searched():
        cause = diagnose(source, finding, place, moved)
    if cause is None and (zeros or not moved.small):
        seen = moved.small or (zeros and _covered(source))
        return ("" if seen else f"{zeros}it only controls branches"), None, False
    return "", replace(finding, diagnosis=cause), False


def _covered(source: CallSource) -> bool:
    """Whether the tape that covers everything finds a path from the targets to the source.

    If it does, zeros are actual derivatives, such as those of an inactive relu, and do not stand for None.
    """
    try:
        return source.record.covering.gradient(list(source.call.targets), source.tensor) is not None
    except Exception:  # from a gradient function on the path: it was reached
        return True


def _made_of(source: CallSource) -> str:
    """Describe a source that was computed from something that the tape watches and the target depends on; else empty.

    An example is the `x[0]` of `tape.gradient(loss, x[0])`, a new tensor.
    """
    record, call = source.record, source.call
    if source.output is None:
        return ""
    events, targets = record.before(call), {key(target) for target in call.targets}
    watches = (event for event in events if isinstance(event, WatchEvent) and event.tape == call.tape)
    watched = {key(event.tensor): event.tensor for event in watches}
    behind = (one for operation in reversed(record.ancestors(source.tensor)) for one in operation.inputs)
    for name in dict.fromkeys(key(one) for one in behind if key(one) in watched):
        path = dependency_path(events, call.targets, watched[name], lambda number, output: None)
        if path.operations or name in targets:
            what = "variable" if name in record.variables else "tensor"
            maker = record.operations[source.output[0]]
            return (
                f": {maker.name}{at(maker.line)} made it, a tensor of its own, from a {what} that the target does "
                f"depend on; ask for the gradient with respect to that {what}"
            )
    return ""


def _largest_derivative(problem: CallProblem, reason: str) -> tuple[Finding, tuple[int, int]] | None:
    """The finding at the element with the largest derivative, and its place; None where differences are inconclusive.

    One step along each of the first coordinates finds the element.
    """
    count = min(problem.point.size, SMALL)
    lines = np.eye(count, problem.point.size)
    steps = STEP * np.maximum(np.abs(problem.point[:count, None]), 0.5)
    changes = np.abs(problem.values(problem.point + steps * lines) - problem.values(problem.point[None, :])) / steps
    changes = np.where(np.isfinite(changes), changes, 0.0)
    line, row = map(int, np.unravel_index(np.argmax(changes), changes.shape))
    estimate = first_difference(sample_values(problem, lines[[line]], lambda points: problem.values(points)[:, [row]]))
    if not estimate.conclusive[0, 0]:
        return None
    value, bound = float(estimate.value[0, 0]), float(estimate.bound[0, 0])
    name, index, _ = element_of(problem.sources, line)
    output = None if problem.call.method == "gradient" else row
    reason += estimate_text(value, bound)
    return Finding(Kind.MISSING, 1, name, index, output, None, value, bound, None, reason), (row, line)


def _constant_updates(record: CodeRecord, sources: Iterable[CallSource]) -> list[str]:
    """The note on updates of other variables that depend on a source and are no part of the derivative."""
    numbers = sorted({number for source in sources for number in source.kept})
    lines = dict.fromkeys(quoted(record.operations[number].line) for number in numbers)
    what = f"variables that {', '.join(lines)} updated before the tape was opened"
    return [f"{what} count as constants in its derivative"] if lines else []


def _failed(
    kind: Kind, name: str, given: str, reason: str, where: Place | None = None, diagnosis: Diagnosis | None = None
) -> Result:
    """The result where no source can be compared."""
    finding = replace(broken(1, kind, name, reason).findings[0], diagnosis=diagnosis)
    order = OrderResult(1, Verdict.MISMATCH, (finding,))
    return Result({1: order}, (SourceResult(where, name, given, False, finding=finding),))


def named_sources(call: DerivativeCall, names: Sequence[str] | None) -> list[Named]:
    """The sources of a derivative with these names, or those in its line, and the variables among them."""
    pairs = zip(source_names(call) if names is None else names, call.sources, strict=True)
    return [(name, source if hasattr(source, "handle") else None) for name, source in pairs]


def merged(orders: Sequence[OrderResult], sources: Iterable[SourceResult], notes: Sequence[str] = ()) -> Result:
    """Merge several verdicts on first derivatives, with all sources and further notes."""
    resolutions = [order.resolution for order in orders if np.isfinite(order.resolution)]
    sources, wrong_first = tuple(sources), sorted(orders, key=lambda order: not order.findings)
    order = OrderResult(
        order=1,
        verdict=Verdict.worst([Verdict.AGREE, *(order.verdict for order in orders)]),
        findings=tuple(finding for order in orders for finding in order.findings),
        reasons=tuple(dict.fromkeys(reason for order in orders for reason in order.reasons)),
        notes=(*notes_of(orders), *notes),
        resolution=max(resolutions, default=float("nan")),
        compared=sum(order.compared for order in orders),
        inconclusive=sum(order.inconclusive for order in orders),
        curve=next((order.curve for order in wrong_first if order.curve is not None), None),
    )
    return Result({1: order}, sources, tuple(one.name for one in sources if one.unconnected))


def shown_gradient(given: Any) -> str:
    """Format a gradient: the numbers while they are few, else the shape."""
    if given is None:
        return "None"
    value = np.asarray(tf.convert_to_tensor(given).numpy())
    if value.size > SHOWN:
        return f"a gradient of shape {value.shape}"
    text = np.array2string(value, separator=", ", formatter={"float_kind": lambda number: f"{number:.6g}"})
    return " ".join(text.split())


def as_traced(record: CodeRecord) -> tuple[CodeRecord, Result | None]:
    """Return the record with the gradients of the traced code, and a disagreement where that computes something else.

    Derivatives that are taken inside a traced function have no values of their own: there the values that the code
    returns are compared. Where a traced function computes something else, its gradients belong to that, and the eager
    ones are kept.
    """
    if not record.calls_functions or record.error is not None:
        return record, None
    taken: list[tuple[Results, Results]] = []  # the targets and the results

    def keep(tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
        start, result = len(taken), compute()
        # Replaces those that TensorFlow took to compute it.
        taken[start:] = [(tuple(tf.nest.flatten(arguments["target"])), tuple(tf.nest.flatten(result)))]
        return result

    with state_restored(), derivatives_observed(keep):
        try:
            returned = call_user_code(record.f, record.inputs)
        except Exception as error:  # from the code, which runs traced here
            cause = refused_in_a_graph(record, error)
            return record, _failed(Kind.RAISES, TRACED, type(error).__name__, sentence_of(error), diagnosis=cause)
    parts = (part.values if isinstance(part, tf.IndexedSlices) else part for _, results in taken for part in results)
    if len(taken) == len(record.derivatives) and all(part is None or hasattr(part, "_numpy") for part in parts):
        found, disagreement = _taken(record, taken)
    else:
        found, disagreement = _returned(record, returned)
    events = [
        replace(event, results=found.get(event.number, event.results))
        if isinstance(event, DerivativeCall) and event.error is None
        else event
        for event in record.events
    ]
    return replace(record, events=events), disagreement


def _taken(record: CodeRecord, taken: Sequence[tuple[Results, Results]]) -> tuple[dict[int, Results], Result | None]:
    """The results of the tapes in the traced code, where the targets are the same; and a target that differs."""
    found, disagreement = {}, None
    for call, (targets, results) in zip(record.derivatives, taken, strict=True):
        inside = not all(hasattr(target, "_numpy") for target in map(tf.convert_to_tensor, targets))
        if inside or all_same(call.targets, targets) or all_same(call.results or (), results):
            found[call.number] = results
        elif disagreement is None:
            pairs = zip(call.targets, targets, strict=False)
            eager, traced = next((pair for pair in pairs if not _same(*pair)), (None, None))
            text = f"the target of {quoted(call.line)} is {_shown(eager)}{KEPT}"
            disagreement = _failed(Kind.MODES, TRACED, _shown(traced), text)
    return found, disagreement


def _returned(record: CodeRecord, returned: Any) -> tuple[dict[int, Results], Result | None]:
    """The results that the traced code returned, where the code returns those of its tapes; and another difference."""
    eager, traced = tf.nest.flatten(record.result), tf.nest.flatten(returned)
    if len(eager) != len(traced):
        return {}, _failed(
            Kind.MODES, TRACED, f"{len(traced)} tensors", f"it returns {len(eager)} when it runs eagerly"
        )
    results, start = {}, 0
    for call in record.derivatives:
        given = call.results or ()
        for position in range(start, len(eager) - len(given) + 1):
            if all(one is two for one, two in zip(given, eager[position:], strict=False)):
                start = position + len(given)
                if all_same(given, traced[position:start]):
                    results[call.number] = tuple(traced[position:start])
                break
    for position, (first, second) in enumerate(zip(eager, traced, strict=True)):
        if not _same(first, second):
            text = f"result {position} is {_shown(first)}{KEPT}"
            return results, _failed(Kind.MODES, TRACED, _shown(second), text)
    return results, None


def all_same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two lists of derivatives, or of other results, are equal up to rounding."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: Any, second: Any) -> bool:
    if first is None and tf.is_tensor(second):
        return not np.any(tf.convert_to_tensor(second).numpy())  # functions give zeros where tapes give None
    if not (tf.is_tensor(first) and tf.is_tensor(second)):
        return (first is None) == (second is None)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not (first.dtype.is_floating or first.dtype.is_complex):
        return True
    one, two = (np.asarray(tf.convert_to_tensor(tensor).numpy()) for tensor in (first, second))
    return nearly_equal(one, two, first.dtype.name)


def _shown(value: Any) -> str:
    return "None" if value is None else np.array2string(np.asarray(value), precision=6, threshold=12)
