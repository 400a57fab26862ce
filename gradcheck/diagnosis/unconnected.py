"""Sources that the target does not depend on: what it depends on instead, and tensors made before the code ran."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.diagnosis.internal_errors import cause_searched, internal_errors_told
from gradcheck.diagnosis.paths import differentiable, path_breaks, path_of_values
from gradcheck.result import OrderResult, Reason, Result, Verdict
from gradcheck.tracing.call_source import call_source
from gradcheck.tracing.kernels import STOPPING
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall, HostRead, RecordedOperation, key
from gradcheck.tracing.replay import replayed
from gradcheck.tracing.user_code import Line, assignment_to, at, listed, mentions, quoted
from gradcheck.verdict.failure import GradientUnconnected, UnconnectedWarning

NAMED = 3
"""The number of variables, and of tensors from before, that are named."""
LOOKED_AT = 32
"""The number of tensors from before, those of the source's shape first, that are searched for the source."""
UNCONNECTED = "{} is unconnected: its gradient is None, and {}"
USE_OR_IGNORE = (
    "What to do: compute everything that depends on it inside the code, list the variable that is actually used, or "
    'pass unconnected="ignore".'
)
KEPT = "something is kept between calls"


def source_names(call: DerivativeCall) -> list[str]:
    """A unique name for each source: as written in the code, else the variable's own, else its number."""
    written = call.expressions if len(call.expressions) == len(call.sources) else [""] * len(call.sources)
    found: list[str] = []
    for position, (name, source) in enumerate(zip(written, call.sources, strict=True)):
        if not name and hasattr(source, "handle"):
            name = variable_name(source)
        name = name or f"sources[{position}]"
        found.append(name if name not in found else f"{name} (sources[{position}])")
    return found


def variable_name(variable: Any) -> str:
    """The name that a variable was given; empty if it was given none."""
    own = str(getattr(variable, "path", None) or variable.name).split(":")[0]
    return "" if own == "Variable" else own


def dependence(source: CallSource, subject: str = "the target") -> str:
    """Say that the target does not depend on a source, but on other variables; name earlier tensors that it reads.

    Variables of the same shape, or of a similar name, come first.
    """
    variables, captured = _read(source)
    but = f", but on {listed(_first(variables))}" if variables else ""
    return "; ".join([f"{subject} does not depend on it{but}", *_copied(source), *captured[:NAMED]])


def step_between(source: CallSource) -> RecordedOperation | None:
    """The first operation through which the value of a source reaches the targets, but no gradient comes back.

    This follows the structure of the code; moves of the source are not considered.
    """
    path = path_of_values(source.record, source.call, source.tensor)
    steps = (found.operation for found in path_breaks(source.record.before(source.call), path, None))
    return next((one for one in steps if not one.states_written and one.name not in STOPPING), None)


def not_crossed(step: RecordedOperation, subject: str = "the target") -> str:
    """Say that no move of a source crossed the step between it and the target."""
    return f"no perturbation that was tried changed {subject}: {step.name}{at(step.line)} lies between"


def _copied(source: CallSource) -> list[str]:
    """Say whose copies the sources are, if none has an effect, and all have the shapes of other variables.

    A single one also has to have the value of another.
    """
    record, call = source.record, source.call
    needed, found = {key(target) for target in call.targets}, dict[int, Any]()
    for operation in reversed([one for one in record.before(call) if isinstance(one, RecordedOperation)]):
        if not needed.isdisjoint(map(key, operation.outputs)):
            needed |= set(map(key, operation.inputs))
            found |= {key(one): record.variables[key(one)] for one in operation.inputs if key(one) in record.variables}
    own = [one for one in call.sources if hasattr(one, "handle")]
    if len(own) < len(call.sources) or any(key(one) in found for one in own):
        return []
    free, originals = list(found.values()), []
    for one in own:
        alike = [other for other in free if other.shape == one.shape and other.dtype == one.dtype]
        same = [other for other in alike if np.array_equal(other.numpy(), one.numpy())]
        if not (same or (alike and len(own) > 1)):
            return []
        originals.append((same or alike)[0])
        free = [other for other in free if other is not originals[-1]]
    holder = _holder(record.f, originals)
    names = [variable_name(one) or record.expressions.get(key(one), "") or "that variable" for one in originals]
    instead = f"{holder}.trainable_variables" if holder else listed(_first(names))
    has = f"the sources have the shapes of {'the variables of ' + holder if holder else listed(_first(names))}"
    has = has if len(own) > 1 else f"it has the value of {names[0]}"
    return [f"{has}, as a copy has: differentiate {instead} instead"]


def _holder(f: Any, variables: Sequence[Any]) -> str:
    """The code's name of an object whose trainable variables these are, in order; empty if there is none."""
    for name in ("python_function", "__wrapped__", "__func__", "func"):
        f = getattr(f, name, f)
    names = inspect.getclosurevars(f) if inspect.isfunction(f) else None
    held = {} if names is None else {**names.globals, **names.nonlocals}
    for name, one in held.items():
        own = getattr(one, "trainable_variables", None)
        if isinstance(own, (list, tuple)) and {key(given) for given in own} == set(map(key, variables)):
            return name
    return ""


def unconnected_notes(
    recorded: Callable[[], CodeRecord] | None, named: Sequence[tuple[str, Any]], subject: str
) -> list[str]:
    """A note on each unconnected variable, with its name; `recorded` returns a record of the code, if possible."""
    record, calls, notes = None, list[DerivativeCall](), list[str]()
    with internal_errors_told() as internal:
        with cause_searched():
            record = recorded() if recorded is not None and named else None
        if record is not None:
            calls = [call for call in record.derivatives if call.targets and call.error is None]
        for name, variable in named:
            own = [one for one in calls if any(key(source) == key(variable) for source in one.sources)]
            text = f"{subject} does not depend on it"
            if record is not None and calls:
                with cause_searched():
                    source = call_source(record, (own or calls)[-1], variable, variable_name(variable))
                    step = step_between(source)
                    text = dependence(source, subject) if step is None else not_crossed(step, subject)
            notes.append(UNCONNECTED.format(name, text))
    return [*notes, *internal]


def nothing_connected(order: OrderResult) -> OrderResult:
    """The result of an order all of whose sources are unconnected: its agreement means nothing."""
    if order.verdict is not Verdict.AGREE:
        return order
    count = order.inconclusive + order.compared
    reasons = (Reason.UNCONNECTED,)
    return OrderResult(order.order, Verdict.INCONCLUSIVE, reasons=reasons, notes=order.notes, inconclusive=count)


def tell_unconnected(
    name: str,
    result: Result,
    unconnected: str,
    inconclusive: str | None,
    stacklevel: int,
    *,
    advice: str = USE_OR_IGNORE,
) -> bool:
    """Raise or warn about unconnected variables in the result of checking `name`; return whether all are unconnected.

    If all are, nothing was compared, and `inconclusive` decides, too, whether that is raised.
    """
    alone = result.orders[1].reasons == (Reason.UNCONNECTED,)
    if not result.unconnected or unconnected == "ignore" or (alone and inconclusive == "ignore"):
        return alone
    begins = tuple(f"{one} is unconnected" for one in result.unconnected)
    about = [f"    {note}" for note in result.orders[1].notes if note.startswith(begins)]
    message = "\n".join([f"in the check of the gradient of {name}", *about, "", advice])
    if unconnected == "raise" or (alone and inconclusive != "warn"):
        raise GradientUnconnected(message, result) from None
    warnings.warn(message, UnconnectedWarning, stacklevel=stacklevel + 1)
    return alone


def without_effect(places: Iterable[int], changes: Callable[[Sequence[int]], bool]) -> list[int]:
    """The places without an effect: all are moved together first, and each by itself if that `changes` something."""
    found = list(places)
    if not found or not changes(found):
        return found
    return [place for place in found if len(found) > 1 and not changes([place])]


def kept_between_calls(source: CallSource) -> str:
    """Say that the first call, or a copy of the source's tensor, does have a gradient; empty if not."""
    record, call = source.record, source.call
    if (call.number, source.position) in record.given_at_first:
        return f"; the first call and the second differ: the first gave it a gradient, so that {KEPT}"
    if source.input is None and not source.captured:
        return ""
    copy = tf.constant(np.asarray(source.value))
    leaves = [copy if leaf is source.tensor else leaf for leaf in record.leaves]
    renewed = replace(record, inputs=tf.nest.pack_sequence_as(record.inputs, leaves))
    with _in_its_place(record.f, source.tensor, copy):
        results = replayed(renewed, call, [], with_results=True).results
    if results is None or results[source.position] is None:
        return ""
    return f"; two calls differ: with a copy of {source.name} in its place there is a gradient, so that {KEPT}"


@contextmanager
def _in_its_place(f: Any, tensor: Any, copy: Any) -> Iterator[None]:
    """Replace a tensor by a copy in a Python function's closure and globals inside the block."""
    for name in ("python_function", "__wrapped__", "__func__", "func"):
        f = getattr(f, name, f)
    cells, held = getattr(f, "__closure__", None) or (), getattr(f, "__globals__", {})
    _replaced(cells, held, tensor, copy)
    try:
        yield
    finally:
        _replaced(cells, held, copy, tensor)


def _replaced(cells: Sequence[Any], held: dict[str, Any], old: Any, new: Any) -> None:
    for cell in cells:
        if _content(cell) is old:
            cell.cell_contents = new
    held.update({name: new for name, value in held.items() if value is old})


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _read(source: CallSource) -> tuple[list[str], list[str]]:
    """The names of the variables that the target depends on, and sentences on tensors that were made before."""
    record, call = source.record, source.call
    listed_sources = {key(one): one for one in call.sources}
    needed = {key(target) for target in call.targets}
    made = {key(leaf) for leaf in record.leaves} | listed_sources.keys()
    uses: dict[int, tuple[Any, Line | None, RecordedOperation | None]] = {
        key(target): (target, call.line, None) for target in call.targets
    }
    for event in reversed(record.before(call)):
        if isinstance(event, HostRead):
            uses[key(event.tensor)] = event.tensor, event.line, None
        if not isinstance(event, RecordedOperation):
            continue
        made |= {key(output) for output in event.outputs}
        if needed & {key(one) for one in (*event.outputs, *event.states_written)}:
            needed |= {key(one) for one in event.inputs}
            uses |= {key(one): (one, event.line, event) for one in event.inputs}
    variables: list[tuple[bool, Any, str]] = []
    captured: list[tuple[Any, Line | None]] = []
    for name, (tensor, line, operation) in uses.items():
        if name in record.variables and name != key(source.tensor):
            variable = listed_sources.get(name, record.variables[name])
            variables.append((name in listed_sources, variable, _name_of(variable, record, operation)))
        elif operation is not None and operation.derivative is not None:
            pass  # a gradient function reads what the code read, or constants that TensorFlow itself keeps
        elif name not in made and hasattr(tensor, "_numpy") and tensor.dtype != tf.resource and differentiable(tensor):
            captured.append((tensor, line))
    own = (variable_name(source.tensor) if hasattr(source.tensor, "handle") else "") or source.name

    def unlike(one: tuple[bool, Any, str]) -> tuple[bool, bool, float]:
        known, variable, name = one
        return known, variable.shape != source.tensor.shape, -SequenceMatcher(None, name, own).ratio()

    names = dict.fromkeys(name for _, _, name in sorted(variables, key=unlike))
    captured.sort(key=lambda one: one[0].shape != source.tensor.shape)
    told = [_from_before(source, re.split(r"[/.]", own)[-1], *one) for one in captured[:LOOKED_AT]]
    made_of_it = [text for known, text in told if known]
    return list(names), made_of_it or [text for _, text in told]


def _first(names: Sequence[str]) -> list[str]:
    return [*names[:NAMED], *([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])]


def _name_of(variable: Any, record: CodeRecord, operation: RecordedOperation | None) -> str:
    """The name of a variable that the code reads, with its layer, or the code's expression for it."""
    name = variable_name(variable) or record.expressions.get(key(variable), "")
    if not name:
        return f"a variable of shape {tuple(variable.shape)}"
    layer = None if operation is None or hasattr(variable, "path") else operation.layer
    return name if layer is None or "/" in name else f"{layer}/{name}"


def _from_before(source: CallSource, own: str, tensor: Any, line: Line | None) -> tuple[bool, str]:
    """Whether a tensor from before the run was computed from the source, as far as is known; and a sentence on it.

    `own` is the last part of the source's name.
    """
    expression = source.record.expressions.get(key(tensor), "")
    what = f"{expression or 'a tensor'}, of shape {tuple(tensor.shape)}, which {quoted(line)} reads,"
    what = f"{what} was made before the code ran"
    maker = assignment_to(expression, line, own) if expression else None
    if maker is None:
        return False, f"{what}: it is a constant here"
    if not mentions(maker, own):
        return False, f"{what} by {quoted(maker)}: it is a constant here"
    return True, f"{what} by {quoted(maker)}: what was computed from {own} in it is a constant here"
