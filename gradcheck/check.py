"""The public API of a check: `check` returns a Result, `assert_close` raises if it is a mismatch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from gradcheck.autodiff.errors import sentence_of
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.autodiff.sources import Source, as_tensors, parameter_names, parse_arguments
from gradcheck.diagnosis.calls import merged
from gradcheck.diagnosis.check_diagnosis import CheckDiagnosis
from gradcheck.diagnosis.custom_gradients import UNUSED, custom_gradients_called, notes_on_keywords
from gradcheck.diagnosis.held_values import SCORE, notes_on_samples
from gradcheck.diagnosis.internal_errors import NOT_FOUND, NOT_REACHED, internal_errors_told
from gradcheck.diagnosis.jumps import NEVER_TRAINED, SMOOTH, notes_on_jumps
from gradcheck.diagnosis.not_finite_value import value_origin
from gradcheck.diagnosis.unconnected import nothing_connected, tell_unconnected, unconnected_notes
from gradcheck.options import Options, name_of, options_from, refuse_misread_model, refuse_modes
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.function import Function
from gradcheck.problem.given import GivenGradient, coarser, given_gradient
from gradcheck.problem.observed_call import ObservedCall, observed_call
from gradcheck.problem.opening import NotFiniteValueError, open_function, refuse_graph, specs_of, with_keywords
from gradcheck.progress import TimeUpError, at, counted, shown
from gradcheck.result import Finding, Kind, OrderResult, Reason, Result, Verdict
from gradcheck.runtime import example_under_way
from gradcheck.tracing.hooks import EAGERLY, functions_run_eagerly
from gradcheck.tracing.intended import Intended
from gradcheck.tracing.record import CodeRecord
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.replay import MOVES, displacement
from gradcheck.tracing.state import (
    UNCHANGED,
    ChangedState,
    generators,
    hidden_state,
    seeded,
    state_restored,
    variables_restored,
)
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.typing import Array
from gradcheck.verdict.asked import Allowed
from gradcheck.verdict.entry_curve import worst_curve
from gradcheck.verdict.failure import (
    FAILURES,
    GradientInconclusive,
    GradientUnconnected,
    InconclusiveWarning,
    UnconnectedWarning,
    doubt,
    failure,
)
from gradcheck.verdict.probes import PROBES, first_order
from gradcheck.verdict.second_order import second_order
from gradcheck.verdict.summary import broken, out_of_time, summarise, undecided
from gradcheck.verdict.tables import Tolerance

NOT_LOOKED_FOR = (
    "The cause was not looked for while Hypothesis was trying examples. "
    "Run this example alone, with @example(...), to see the cause."
)
MOVED = 2.0**-8
"""Offset, absolute and relative, at which f is probed for exceptions."""
CONSTRAINED = "for constrained inputs use gradcheck.simplex (a sum of 1), gradcheck.symmetric, …"
ASSIGNED = "f assigns {} itself: TensorFlow's gradient is that of the assigned value, and stops at the assignment"
EMPTY = "the inputs or the outputs have no elements: there is nothing to compare, which agrees trivially"


@told_plainly
def check(
    f: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    order: int = 1,
    variables: Any = None,
    gradient: Any = None,
    rtol: Allowed = None,
    atol: Allowed = None,
    skip: Sequence[str] = (),
    probes: int = PROBES,
    seconds: float | None = None,
    intended: Any = (),
) -> Result:
    """Compare the derivatives of `f` at `inputs` with finite-difference estimates that carry an error bound.

    `f` takes tensors (numbers, arrays, variables, lists and dicts of them) and returns a floating or complex tensor, or
    a nested structure of tensors; named tuples and dataclasses are structures, too, and None among tensors is left out.
    Python floats, and lists or tuples of numbers, become float64; for float32 give `tf.constant(x)`. Floating and
    complex inputs, keyword arguments in `kwargs`, and `variables` are differentiated; a model or a layer among
    `variables` stands for its trainable ones. Integers, booleans and strings are passed as tensors; close over Python
    values: `lambda x: f(x, "tanh")`.

    `order=2` compares first and second derivatives. `gradient` is compared in place of TensorFlow's: the gradient of
    the sum of f's outputs (of its real part, as in `tape.gradient`), given as values in the structure of the inputs, or
    as a callable that takes the arguments of `f`; those of `kwargs` come last. `rtol` and `atol`: errors up to
    atol + rtol * |derivative| do not matter; if an error of that size could not have been seen, the verdict is
    inconclusive. By default every error that can be seen matters. Up to 24 coordinates, and outputs, are compared one
    by one, more of them along `probes` random directions. From 7 inputs or 25 outputs on, one direction in eight comes
    first, and the check ends if it agrees.

    `rtol={"kernel": 1e-3}`, and likewise `atol`, is for some sources, by their names in messages or the last parts of a
    path; the default remains for the others, and of two tolerances the larger for mixed second derivatives. Sources
    that `skip=["embedding"]` names are held fixed and not compared, as a note says.

    `intended` names what stops or replaces a gradient on purpose: a tf.stop_gradient or a custom gradient, by a
    function that it is, or is called in, or by a line, such as "train.py:12". It is held, so that the rest is compared,
    at first order: a tf.stop_gradient gives its value at the inputs, a custom gradient the linear function with its
    gradient there.

    After `seconds`, the check ends at its next evaluation: what it has found stands, an order that was not decided is
    inconclusive, and a note says so.

    One of `variables` is unconnected if its gradient is None and `f` does not change with it: `unconnected` of the
    result names it, a note says what `f` does depend on, and the verdict is inconclusive if nothing else is left.

    Variables and the generators of Python, NumPy and TensorFlow are left as they were. Raises TypeError, ValueError or
    RuntimeError, naming the argument, if there is nothing to check.

    >>> import tensorflow as tf
    >>> print(check(lambda x: tf.sin(x) * x, 2.0).verdict)
    agree
    >>> check(lambda x, y: tf.stop_gradient(x) * y, 2.0, 3.0, skip=["x"]).orders[1].notes
    ('skipped, and not compared: x',)
    """
    f, gradient, inputs = with_keywords(f, gradient, inputs, kwargs)
    options = options_from(order, rtol, atol, probes, seconds, skip)
    return result_of(f, inputs, options, variables, gradient, intended=intended)


def result_of(
    f: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: Options,
    variables: Any = None,
    gradient: Any = None,
    *,
    intended: Any = (),
    causes: bool = True,
    unused: bool = False,
) -> Result:
    """Return the result of `check`; without `causes`, no causes of findings are looked for.

    With `unused`, the caller reports which of the variables are unconnected.
    """
    refuse_graph("gradcheck")
    refuse_misread_model("check", f, inputs)
    if options.order == 2 and gradient is not None and not callable(gradient):
        raise ValueError(
            f"gradient is of type {type(gradient).__name__}, which holds values at one point; order=2 differentiates "
            "the gradient and needs a callable: pass gradient=lambda x: ..., or use order=1"
        )
    if Intended(intended) and options.order == 2:
        raise ValueError("intended= is for first derivatives; what is held has none of second order: use order=1")
    asked, notes = options.asked, list[str]()
    groups: list[tuple[Tolerance, list[int] | None]] = [(asked.loosest(), None)]
    with shown(name_of(f), options.seconds):
        if asked.by_name:
            sources = parse_arguments(inputs, variables, parameter_names(f)).sources
            named = [(source.name, source.variable) for source in sources]
            notes, groups = asked.notes_on(named), [*asked.groups(named)]
        compared = partial(_compared, f, inputs, options, variables, gradient, intended, causes, unused)
        parts = [compared(*group) for group in groups]
        if len(parts) == 1 and not notes:
            return parts[0]
        kept = sorted(chain.from_iterable(only or () for _, only in groups))
        # The parts lack second derivatives with respect to sources of two of them.
        several = options.order == 2 and len(parts) > 1
        return _joined(parts, compared(asked.loosest(), kept) if several else None, notes)


def _joined(parts: Sequence[Result], whole: Result | None, notes: Sequence[str]) -> Result:
    """Join the results for some sources each; the `whole` has second derivatives of all of them."""
    connected = [one for one in parts if Reason.UNCONNECTED not in one.orders[1].reasons] or parts
    others = [note for one in parts if one not in connected for note in one.orders[1].notes]
    orders = {}
    for number in parts[0].orders:
        own = [one.orders[number] for one in connected]
        every = [whole.orders[2]] if number == 2 and whole is not None else []
        order = merged([*own, *every], (), [*others, *notes] if number == 1 else ()).orders[1]
        findings = dict[tuple[str, Kind], Finding]()  # those of the whole may repeat those of a part
        for one in order.findings:
            findings.setdefault((one.input, one.kind), one)
        relative = [one.relative_resolution for one in own if np.isfinite(one.relative_resolution)]
        orders[number] = replace(
            order,
            order=number,
            findings=tuple(sorted(findings.values(), key=lambda finding: list(Kind).index(finding.kind))),
            relative_resolution=max(relative, default=np.nan),
            by_source=tuple(chain.from_iterable(one.by_source for one in own)),
            compared=sum(one.compared for one in every or own),
            inconclusive=sum(one.inconclusive for one in every or own),
        )
    return Result(orders, unconnected=tuple(chain.from_iterable(one.unconnected for one in parts)))


def _compared(
    f: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: Options,
    variables: Any,
    gradient: Any,
    intended: Any,
    causes: bool,
    unused: bool,
    tolerance: Tolerance,
    only: Sequence[int] | None,
) -> Result:
    """Compare the derivatives with respect to all sources, or `only` those with these numbers, with one tolerance."""
    held = Intended(intended)
    orders, found = range(1, options.order + 1), dict[int, OrderResult]()
    with ExitStack() as stack:
        try:
            with custom_gradients_called() as calls:
                function, notes, of_state = _steady(stack, f, inputs, variables, causes, held, only)
            notes += [held.note] if held else []
            problem, (lost, unconnected) = function, _without_gradient(function, gradient, unused)
            if gradient is None:
                notes += [f"{source.name} has no gradient (None)" for source in lost]
            else:
                given = given_gradient(function, gradient)
                problem = GivenGradient.of(function, given, called=callable(gradient))
                notes += [note for note in [coarser(function, given)] if note]
            own = CheckDiagnosis(function, None, order=1).record if causes else None
            notes += unconnected_notes(own, [(source.name, source.variable) for source in unconnected], "f")
            diagnosis = partial(CheckDiagnosis, function, gradient, causes=causes)
            for number in orders:
                with internal_errors_told() as internal:
                    of_calls = (*notes, *of_state) if number == 1 else ()
                    searched = diagnosis(order=number, first=found.get(1))
                    result = _checked(problem, searched, options.probes, tolerance, of_calls)
                told = [one.diagnosis for one in result.findings if one.diagnosis is not None]
                advice = notes_on_keywords(calls, told) if number == 1 else []
                if number == 1 and own is not None and not result.findings and function.held.generators:
                    advice += notes_on_samples(own())
                if number == 1 and gradient is None and not unused:
                    advice += _never_trained(function, result.findings, own)
                found[number] = replace(result, notes=(*result.notes, *advice, *internal))
                if len(unconnected) == len(function.sources):
                    found[number] = nothing_connected(found[number])
        except NothingToCompareError as error:
            return Result({number: error.result(number) for number in orders})
        except TimeUpError:
            return Result({number: found.get(number) or out_of_time(number) for number in orders})
        return Result(found, unconnected=tuple(source.name for source in unconnected))


class NothingToCompareError(Exception):
    """Nothing can be compared; `result` takes an order and returns its result."""

    def __init__(self, result: Callable[[int], OrderResult]) -> None:
        super().__init__()
        self.result = result


def _steady(
    stack: ExitStack,
    f: Callable[..., Any],
    inputs: tuple[Any, ...],
    variables: Any,
    causes: bool,
    intended: Intended,
    only: Sequence[int] | None,
) -> tuple[Function, list[str], list[str]]:
    """Open the function so that all of its calls start from the same state, with its float64 form.

    Also returns notes on how it is run, and on the state that it changes, which is put back when the stack is closed.
    Raises NothingToCompareError where there are no elements, or calls differ.
    """
    snapshot, before = stack.enter_context(state_restored()), generators()
    try:
        function = open_function(intended.around(f) if callable(f) else f, inputs, variables, only)
    except NotFiniteValueError as error:
        origin = causes and value_origin(lambda: recorded(f, as_tensors(inputs, parameter_names(f))))
        raise ValueError(f"{error}; {origin}" if origin else str(error)) from None
    moved = [source.variable for source in function.sources if source.variable is not None]
    stack.enter_context(variables_restored(moved))
    _refuse_empty(function)
    changed = ChangedState(snapshot.changed(), tuple(generator for generator in before if generator.used))
    function, notes = replace(function, held=changed.besides(moved)), list[str]()
    observed = observed_call(function)
    if _is_random(function, observed):
        stack.enter_context(seeded())
        held = replace(function.held, generators=(*function.held.generators, generators()[-1]))
        function = replace(function, held=held)
        if _apart(function) and not _apart(eager := replace(function, f=_run_eagerly(function.f))):
            function, notes = eager, [EAGERLY]
        if apart := _apart(function):
            note = f"two calls at the same inputs {apart}; {hidden_state(partial(function.value, function.point))}"
            raise NothingToCompareError(lambda order: undecided(order, Reason.NOT_DETERMINISTIC, note))
        # Later draws may have another shape than those of the first call.
        function = replace(function, results=specs_of(function.call(function.tensors(function.point))))
        _refuse_empty(function)
        observed = observed_call(function)
    if intended:
        function.value(function.point)  # with the random numbers of later calls
        intended.hold()
    of_state = [ASSIGNED.format(source.name) for source in function.sources if changed.holds(source.variable)]
    of_state += [] if function.held == UNCHANGED else [function.held.note]
    return with_float64_form(replace(function, seconds=observed.seconds), observed), notes, of_state


def _refuse_empty(function: Function) -> None:
    if function.point.size == 0 or function.outputs == 0:
        raise NothingToCompareError(lambda order: OrderResult(order, Verdict.AGREE, notes=(EMPTY,)))


def _is_random(function: Function, observed: ObservedCall) -> bool:
    """Whether two calls at the same inputs differ, or may: random numbers times zero show in no value."""
    first = function.opened
    differs = first is not None and bool(_difference(function, first, observed.value))
    return observed.draws or (differs and bool(_apart(function)))


def _apart(function: Function) -> str:
    """Describe how two calls at the same inputs differ beyond rounding; else empty."""
    return _difference(function, *(function.value(function.point) for _ in range(2)))


def _run_eagerly(f: Callable[..., Any]) -> Callable[..., Any]:
    """Run every tf.function in the function as plain Python, so that its random operations start alike at each call."""

    def eagerly(*arguments: Any) -> Any:
        with functions_run_eagerly():
            return f(*arguments)

    return eagerly


def _difference(function: Function, first: Array, second: Array) -> str:
    if first.shape != second.shape:
        return f"return {first.size} and {second.size} numbers"
    slack = 1e3 * function.precision * np.maximum(np.abs(first), np.abs(second))
    return "" if np.all(np.abs(first - second) <= slack) else f"differ by {np.max(np.abs(first - second)):.3g}"


def _checked(
    problem: Function, diagnosis: CheckDiagnosis, probes: int, tolerance: Tolerance, notes: tuple[str, ...]
) -> OrderResult:
    """Compare the order that `diagnosis` is for."""
    order = diagnosis.order
    at(f"order {order}")
    try:
        tables = (first_order if order == 1 else second_order)(problem, tolerance, probes)
        explain = diagnosis.explained
        result = summarise(order, tables, problem.sources, notes=notes, explain=explain, tolerance=tolerance)
        result = replace(result, curve=worst_curve(problem, tables, problem.sources))
        return _with_what_is_raised(diagnosis.noted(result), problem)
    except DerivativeRaisedError as error:
        result = broken(order, Kind.RAISES, "the inputs", str(error))
        return replace(result, findings=(replace(result.findings[0], diagnosis=diagnosis.error()),))
    except WrongShapeError as error:
        result = broken(order, Kind.SHAPE, error.source, str(error))
        return replace(result, findings=(replace(result.findings[0], diagnosis=diagnosis.wrong_shape()),))


def _with_what_is_raised(result: OrderResult, problem: Function) -> OrderResult:
    """Add a note on what `f` raises near the point to a result that lacks values there."""
    if not {Reason.NOT_FINITE, Reason.JUMP}.intersection(result.reasons):
        return result
    for way in (1.0, -1.0):
        moved = problem.point + way * MOVED * (1 + np.abs(problem.point))
        if not problem.contains(moved):
            continue
        try:
            problem.value(moved)
        except Exception as error:  # from f; the note quotes it
            note = f"f raised {type(error).__name__} at inputs near the given ones: {sentence_of(error)}; {CONSTRAINED}"
            return replace(result, notes=(*result.notes, note))
    return result


def _without_gradient(function: Function, gradient: Any, unused: bool) -> tuple[list[Source], list[Source]]:
    """The sources for which TensorFlow returns None, where that matters: those that f depends on, and unconnected ones.

    Unconnected are listed variables that `f` does not change with; with `unused` they are left out.
    """
    listed = function.arguments.listed()
    if gradient is not None and not any(listed):
        return [], []
    try:
        connected = function.gradients(np.ones((1, function.outputs))).connected[0]
    except (DerivativeRaisedError, WrongShapeError):
        return [], []
    lost, unconnected = [], []
    for source, part, named in zip(function.sources, function.parts, listed, strict=True):
        none = source.count > 0 and not connected[part].any()
        if none and (not named or _changes(function, part)):
            lost.append(source)
        elif none and not unused:
            unconnected.append(source)
    return lost, unconnected


def _never_trained(
    function: Function, findings: Sequence[Finding], recorded: Callable[[], CodeRecord] | None
) -> list[str]:
    """A note on listed variables with which the function changes in jumps alone; `recorded` as for unconnected ones."""
    sources = zip(function.sources, function.parts, function.arguments.listed(), strict=True)
    wrong = tuple(one.input for one in findings)
    trained = [
        (source, part)
        for source, part, named in sources
        if named and source.count and source.variable.trainable and not source.name.startswith(wrong)
    ]
    # With equal weights the derivatives of outputs may cancel, as those of a softmax do.
    weights = 1.0 + np.cos(np.arange(function.outputs))[None] / 4

    def look(moved: Mapping[int, Array]) -> tuple[Array, Set[int]]:
        counted(1)
        point = function.point.copy()
        for number, values in moved.items():
            point[trained[number][1]] = values
        if (value := _value_at(function, point)) is not None:
            with suppress(DerivativeRaisedError, WrongShapeError):
                slopes = function.gradients(weights, point).values[0]
                return value, {number for number in moved if slopes[trained[number][1]].any()}
        return np.full(function.outputs, np.nan), frozenset()

    try:
        for cotangents in (np.ones_like(weights), weights):  # the first are known already
            if trained:
                given = function.gradients(cotangents).values[0]
                trained = [(source, part) for source, part in trained if not given[part].any()]
    except (DerivativeRaisedError, WrongShapeError):
        return []
    found = [(source.name, source.variable, function.point[part]) for source, part in trained]
    return notes_on_jumps(recorded, found, look, function.precision, "f") if found else []


def _value_at(function: Function, point: Array) -> Array | None:
    """The values of the function at a point; None if it raises."""
    try:
        return function.value(point)
    except Exception:  # from f, whatever it is: at the given inputs it did not raise
        return None


def _changes(function: Function, part: slice) -> bool:
    """Whether the function changes, or raises, when a part of the point is moved."""
    before = function.value(function.point)
    for move in MOVES:
        moved = function.point.copy()
        moved[part] += displacement(moved[part], move)
        if (value := _value_at(function, moved)) is None:
            return True
        overflowed = np.isfinite(before).all() and not np.isfinite(value).all()  # 0 * infinity is no dependence
        if not overflowed and not np.array_equal(value, before, equal_nan=True):
            return True
    return False


@told_plainly
def assert_close(
    f: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    order: int = 1,
    variables: Any = None,
    gradient: Any = None,
    rtol: Allowed = None,
    atol: Allowed = None,
    skip: Sequence[str] = (),
    probes: int = PROBES,
    seconds: float | None = None,
    intended: Any = (),
    inconclusive: str | None = None,
    unconnected: str = "warn",
) -> None:
    """Raise a GradientMismatch unless the derivatives of `f` agree with finite differences; arguments as for `check`.

    Raises the subclass of GradientMismatch for the most severe kind found. If first order is entirely inconclusive,
    raises GradientInconclusive; if only a part of it is, or only second order, warns with InconclusiveWarning;
    `inconclusive` = "raise", "warn" or "ignore" overrides both. A UserWarning names a custom gradient that TensorFlow
    does not use, because it is called by keyword, and a sample that a score function (REINFORCE) has to hold.

    For listed variables that are unconnected, as in `check`, `unconnected="warn"` warns with UnconnectedWarning,
    "raise" raises GradientUnconnected, "ignore" does neither; if all of them are, and nothing is left to compare,
    "warn" raises, too, unless `inconclusive` overrides that. The same holds for variables with which `f` changes in
    jumps alone, as through tf.round: their gradient, None or zeros, is right, but they are never trained.

    >>> import tensorflow as tf
    >>> assert_close(tf.tanh, [0.5, -1.0], order=2)
    """
    refuse_modes(inconclusive, unconnected)
    options = options_from(order, rtol, atol, probes, seconds, skip)
    f, gradient, inputs = with_keywords(f, gradient, inputs, kwargs)
    checked = partial(result_of, f, inputs, options, variables, gradient, intended=intended)
    # With a given gradient the cause decides the kind, and the kind the exception's class.
    example = example_under_way() if gradient is None else None
    label = "autodiff" if gradient is None else "given"
    if example is None:
        raise_unless_good(name_of(f), checked(), label, inconclusive, unconnected, argument=gradient is not None)
        return

    def with_causes() -> Result | None:
        return checked() if example_under_way() is example else None

    raise_unless_good(name_of(f), checked(causes=False), label, inconclusive, unconnected, with_causes)


def raise_unless_good(
    name: str,
    result: Result,
    label: str,
    inconclusive: str | None,
    unconnected: str,
    with_causes: Callable[[], Result | None] | None = None,
    *,
    argument: bool = False,
) -> None:
    """Raise or warn as `assert_close` does for the result of checking `name`, on behalf of the code that called it.

    `label` and `argument` are those of `failure`. `with_causes` returns the result again, with causes, while these can
    still be looked for; else None.
    """
    if result.verdict == Verdict.MISMATCH:
        error = FAILURES[result.findings[0].kind](_message(name, result, label, argument=argument), result)
        if with_causes is not None:
            error.complete_when_read(partial(_completed, name, label, with_causes), NOT_LOOKED_FOR)
        raise error from None
    for note in result.orders[1].notes:
        if note.startswith((UNUSED, SCORE)):
            warnings.warn(f"{name}: {note}", UserWarning, stacklevel=4)
    for note in result.orders[1].notes:
        if note.startswith(NEVER_TRAINED) and unconnected != "ignore":
            message = f"in the check of the gradient of {name}\n    {note}\n\n{SMOOTH}"
            if unconnected == "raise":
                raise GradientUnconnected(message, result) from None
            warnings.warn(message, UnconnectedWarning, stacklevel=4)
    alone = tell_unconnected(name, result, unconnected, inconclusive, stacklevel=4)
    if alone or result.verdict != Verdict.INCONCLUSIVE or inconclusive == "ignore":
        return
    first = result.orders[1]
    nothing_seen = first.verdict == Verdict.INCONCLUSIVE and first.compared == 0
    if inconclusive == "raise" or (inconclusive is None and nothing_seen):
        raise GradientInconclusive(doubt(name, result), result) from None
    warnings.warn(doubt(name, result), InconclusiveWarning, stacklevel=4)


def _completed(name: str, label: str, with_causes: Callable[[], Result | None]) -> tuple[str, Result] | None:
    result = with_causes()
    return None if result is None or result.verdict != Verdict.MISMATCH else (_message(name, result, label), result)


def _message(name: str, result: Result, label: str, *, argument: bool = False) -> str:
    """The message of `failure`, with a note on what ended the search for a cause."""
    notes = [
        note for order in result.orders.values() for note in order.notes if note.startswith((NOT_FOUND, NOT_REACHED))
    ]
    return "\n\n".join([failure(name, result, label, argument=argument), *dict.fromkeys(notes)])
