"""Explain why a gradient is None, zero or partial in code that is not under test: the public API `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from itertools import chain
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.constraints import Constrained
from gradcheck.autodiff.errors import sentence_of
from gradcheck.autodiff.sources import (
    as_tensors,
    frozen_variables,
    named_leaves,
    parameter_names,
    variable_of,
    variables_in,
)
from gradcheck.diagnosis.calls import all_same, as_traced, explained_call, merged, named_sources, not_reached
from gradcheck.diagnosis.custom_gradients import notes_on_keywords
from gradcheck.diagnosis.held_values import notes_on_samples
from gradcheck.diagnosis.internal_errors import internal_errors_told
from gradcheck.diagnosis.paths import differentiable
from gradcheck.options import name_of, notes_on_frozen, options_from, refuse_misread_model, refuse_training
from gradcheck.problem.function import tensors_of
from gradcheck.progress import TimeUpError, at, shown
from gradcheck.result import Reason, Result
from gradcheck.tracing.blame_time import BlameTime
from gradcheck.tracing.hooks import EAGERLY, layers_observed
from gradcheck.tracing.intended import Intended
from gradcheck.tracing.record import CodeRecord, TapeChange
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.state import UNCHANGED, seeded, state_restored
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.tracing.user_code import quoted
from gradcheck.verdict.asked import Allowed
from gradcheck.verdict.probes import PROBES

IN_LOW_PRECISION = (
    "the code computes in less than float64, where differences show large errors alone, and no float64 form of it "
    "decided; give it float64 inputs and variables (in Keras, keras.config.set_floatx('float64') before the layers)"
)
EAGER_MODE = "eager execution"
"""The words in TensorFlow's messages about calls that work only in a graph."""
GRAPH_ALONE = (
    "explain runs every tf.function eagerly, to see its lines; graph-only calls, such as tf.gradients or the name of a "
    "tensor, fail there: use a tf.GradientTape, and no names of tensors"
)


@told_plainly
def explain(
    f: Callable[..., Any],
    *inputs: Any,
    variables: Any = None,
    rtol: Allowed = None,
    atol: Allowed = None,
    skip: Sequence[str] = (),
    probes: int = PROBES,
    seconds: float | None = None,
    intended: Any = (),
) -> Result:
    """Explain every derivative that `f` takes: for each source, whether it is correct, and if not, why.

    `f` may open its own tapes: each of its calls of gradient, jacobian and batch_jacobian is compared with finite
    differences of the call's target, and a lost part is traced to the line that lost it. `f` may be a training step,
    such as a Keras model's train_step. If it takes no derivative, it has to return a tensor (or a nested structure of
    them); then the gradient of the sum of its results is explained, with respect to the floating inputs and
    `variables`, or, if there are neither, to the trainable variables that it reads. Inputs, `rtol`, `atol`, `skip`,
    `probes`, `seconds` and `intended` are those of `check`; constrained inputs, such as those of `gradcheck.symmetric`,
    are refused.

    `f` is run many times; variables that it assigns, and the generators of Python, NumPy and TensorFlow, are left as
    they were. Print the result to read it; `result.sources` holds one SourceResult per source and call, with
    `gradient`, `right` and `diagnosis` (cause, evidence, remedy, place, and `lost`, the size of the lost part). A
    source whose gradient is None and that changes the target in no run is `unconnected`: its note says what the target
    does depend on. The verdict is inconclusive if a derivative has no other sources.

    If `f` raises after it took a derivative, as in an optimizer that got no gradient, a note says so. Raises TypeError,
    ValueError or RuntimeError, naming the argument, if there is nothing to explain, and ValueError if `f` runs on the
    replicas of a strategy, each in a thread of its own, or uses a tape that was opened before it ran.

    >>> import tensorflow as tf
    >>> x = tf.Variable(1.0)
    >>> def gradient():
    ...     square = x**2
    ...     with tf.GradientTape() as tape:
    ...         loss = 3 * square
    ...     return tape.gradient(loss, x)
    >>> (source,) = explain(gradient).sources
    >>> source.right, source.diagnosis.cause.value
    (False, 'computed outside the tape')
    """
    if not callable(f):
        raise TypeError(
            f"f is of type {type(f).__name__}, a callable was expected: gradcheck.explain(f, x) runs f(x) and explains "
            "the derivatives that it takes"
        )
    refuse_misread_model("explain", f, inputs)
    asked = options_from(1, rtol, atol, probes, seconds, skip).asked
    _refuse_constrained(chain.from_iterable(named_leaves(inputs, parameter_names(f))))
    listed, held, frozen = _listed(variables), Intended(intended), notes_on_frozen(f)
    with ExitStack() as stack:
        internal = stack.enter_context(internal_errors_told())
        stack.enter_context(shown(name_of(f), seconds))
        stack.enter_context(state_restored())
        f = held.around(f)
        first, own = _recorded(f, inputs, listed)
        if own is not None and frozen:
            raise ValueError(f"f takes no derivative: nothing to explain; {frozen[0]}")
        if first.draws:
            stack.enter_context(seeded())
        # Replays do not repeat what only a first run makes, such as an optimizer's slots or cached constants.
        time = BlameTime()
        record, names = _recorded(f, inputs, listed)
        if held:
            record = _held(held, record, f, inputs, listed)
        record = replace(record, given_at_first=first.with_gradients - record.with_gradients)
        disagreement, notes = None, [held.note] if held else []
        if first.draws:
            notes += [f"{', '.join(first.draws)}: {EAGERLY}"] if first.calls_functions else []
        else:
            record, disagreement = as_traced(record)
        notes += [] if record.held == UNCHANGED else [record.held.note]
        if _own_error(record):
            notes += [f"after its last derivative, {_raised(record)}"]
        record = replace(record, time=time)
        calls = record.derivatives if names is None else record.derivatives[-1:]
        named = [named_sources(call, names) for call in calls]
        notes += asked.notes_on(list(chain.from_iterable(named)))
        calls = [call for call, sources in zip(calls, named, strict=True) if not sources or asked.groups(sources)]
        found = []
        for number, call in enumerate(calls, 1):
            at(f"derivative {number} of {len(calls)}")
            try:
                found.append(explained_call(record, call, asked, probes, names))
            except TimeUpError:
                found.append(not_reached(call, asked, names))
    blurred = any(Reason.ILL_CONDITIONED in one.orders[1].reasons for one in found)
    if blurred and any(one.dtype.is_floating and one.dtype.size < 8 for call in calls for one in call.targets):
        notes.append(IN_LOW_PRECISION)
    random = any(Reason.NOT_DETERMINISTIC in one.orders[1].reasons for one in found)
    found += [] if disagreement is None or random else [disagreement]
    causes = [one.diagnosis for result in found for one in result.sources if one.diagnosis is not None]
    wrong = any(one.findings for result in found for one in result.orders.values())
    notes += [*notes_on_keywords(record.operations, causes), *([] if wrong else notes_on_samples(record))]
    notes += [*frozen, *internal]
    return merged([one.orders[1] for one in found], (source for one in found for source in one.sources), notes)


def _held(
    held: Intended, before: CodeRecord, f: Callable[..., Any], inputs: tuple[Any, ...], variables: Sequence[Any]
) -> CodeRecord:
    """Record the code with what is intended held. Raises ValueError if that changes a derivative, unlike `before`."""
    held.hold()
    record, _ = _recorded(f, inputs, variables)
    for call, other in zip(before.derivatives, record.derivatives, strict=False):
        if not all_same(call.results or (), other.results or ()):
            raise ValueError(
                f"what is intended cannot be held in the derivative that {quoted(call.line)} takes, such as one of "
                "second order: explain the step without intended="
            )
    return record


def _recorded(
    f: Callable[..., Any], inputs: tuple[Any, ...], variables: Sequence[Any]
) -> tuple[CodeRecord, list[str] | None]:
    """Record the code; the names of the sources are returned too if the derivative is not its own.

    Raises RuntimeError if it raised before it took a derivative, ValueError if it runs on replicas or uses a tape that
    was opened before, TypeError if it differentiates a ragged tensor.
    """
    parameters = parameter_names(f)
    with layers_observed() as layers:
        record = recorded(f, as_tensors(inputs, parameters))
    refuse_training(record.result)
    if record.replicas:
        raise ValueError(
            f"f runs on replicas ({record.replicas}), each in its own thread, which explain does not see; pass the "
            "function that is passed to strategy.run, with the inputs of one replica"
        )
    if record.derivatives:
        _refuse_earlier_tapes(record)
        _refuse_ragged(record)
        _refuse_graphs(record)
        return record, None
    if record.error is not None:
        hint = f"; {GRAPH_ALONE}" if record.calls_functions or EAGER_MODE in str(record.error) else ""
        raise RuntimeError(
            f"{_raised(record)}; it has to run before its gradients can be explained{hint}"
        ) from record.error
    return _differentiated(record, variables, parameters, frozen_variables(layers.values()))


def _refuse_earlier_tapes(record: CodeRecord) -> None:
    """Raise ValueError for a derivative of values from before the run, which no run of the code computes again."""
    opened = {event.tape for event in record.events if isinstance(event, TapeChange) and event.change == "opened"}
    for call in record.derivatives:
        if call.tape not in opened:
            raise ValueError(
                f"the tape that {quoted(call.line)} uses was opened before f ran, but explain perturbs only what f "
                "computes: open the tape and compute the loss inside f"
            )


def _refuse_ragged(record: CodeRecord) -> None:
    """Raise TypeError for a derivative of a ragged tensor, or with respect to one: it is several tensors, not one."""
    for call in record.derivatives:
        for what, given in (("target", call.targets), ("source", call.sources)):
            if any(isinstance(one, tf.RaggedTensor) for one in given):
                raise TypeError(
                    f"the {what} of {quoted(call.line)} is a RaggedTensor; a tensor or a variable was expected: "
                    "give its flat_values to the tape instead"
                )


def _refuse_graphs(record: CodeRecord) -> None:
    """Raise ValueError for a derivative that the code takes while it builds a tf.Graph: nothing has a value there."""
    for call in record.derivatives:
        graphs = [getattr(one, "graph", None) for one in call.targets if not hasattr(one, "_numpy")]
        if call.error is None and any(isinstance(one, tf.Graph) and not hasattr(one, "captures") for one in graphs):
            raise ValueError(
                f"{quoted(call.line)} takes a derivative in a tf.Graph, whose tensors have no values; explain runs "
                "eager code: build the graph first, and check what its session runs with "
                "gradcheck.assert_step(step, session=session)"
            )


def _own_error(record: CodeRecord) -> bool:
    """Whether the code raised an exception that is not that of a derivative."""
    return record.error is not None and not any(record.error is call.error for call in record.derivatives)


def _raised(record: CodeRecord) -> str:
    """The exception that the code raised, as the beginning of a sentence."""
    message = "" if record.error is None else sentence_of(record.error).rstrip(".")
    return f"f raised {type(record.error).__name__}" + (f": {message}" if message else "")


def _refuse_constrained(named: Iterable[tuple[str, Any]]) -> None:
    """Raise TypeError for a constrained input: the elements of a source are moved one by one, out of its set."""
    for name, given in named:
        if isinstance(given, Constrained):
            raise TypeError(
                f"{name} has a constraint ({type(given.constraint).__name__}), which explain does not support; a "
                "plain tensor or variable was expected: pass its value, or use gradcheck.check, which keeps the "
                "constraint and names causes, too"
            )


def _listed(variables: Any) -> list[Any]:
    """The listed variables, flat. Raises TypeError for anything else."""
    if variables is None:
        return []
    given = variables_in(variables)
    _refuse_constrained((f"variables[{position}]", item) for position, item in enumerate(given))
    for position, item in enumerate(given):
        if variable_of(item) is None:
            raise TypeError(
                f"variables[{position}] is of type {type(item).__name__}; a tf.Variable was expected, or a model "
                "(pass tensors as inputs: gradcheck.explain(f, tensor))"
            )
    return [variable_of(item) for item in given]


def _differentiated(
    record: CodeRecord, variables: Sequence[Any], parameters: Sequence[str], frozen: Set[int]
) -> tuple[CodeRecord, list[str]]:
    """Record the gradient of the sum of the function's results; return the record and the names of its sources.

    Variables that are `frozen`, by id, are no sources unless they are listed. Raises ValueError if there is nothing to
    differentiate with respect to, TypeError if there is no tensor to differentiate.
    """
    leaves = list(chain.from_iterable(named_leaves(record.inputs, parameters)))
    floating = [position for position, (_, leaf) in enumerate(leaves) if tf.is_tensor(leaf) and differentiable(leaf)]
    held = list(variables)
    if not floating and not held:
        read = record.variables.values()
        held = [variable for variable in read if variable.trainable and id(variable_of(variable)) not in frozen]
    if not floating and not held:
        raise ValueError(
            "f takes no derivative, no floating input and reads no trainable variable (is model.trainable False?): "
            "nothing to explain; give a function that calls tape.gradient, a float input (2.0, not 2), or "
            "variables=[...]"
        )
    flat = tensors_of(record.result)
    if not any(tf.is_tensor(part) and differentiable(part) for part in flat):
        kinds = ", ".join(sorted({part.dtype.name if tf.is_tensor(part) else type(part).__name__ for part in flat}))
        raise TypeError(
            f"f takes no derivative and returned {kinds or 'nothing'}, not a floating tensor; return the tensor to "
            "differentiate (not its .numpy()), or call tape.gradient inside f"
        )

    @wraps(record.f)  # so that its inputs keep their names
    def gradient(*inputs: Any) -> Any:
        sources = [tf.nest.flatten(inputs)[position] for position in floating] + held
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            parts = tensors_of(record.f(*inputs))
            outputs = [part for part in parts if tf.is_tensor(part) and differentiable(part)]
        return tape.gradient(outputs, sources)

    names = [leaves[position][0] for position in floating] + [variable.name.split(":")[0] for variable in held]
    distinct = [n if names.count(n) == 1 else f"{n} (sources[{position}])" for position, n in enumerate(names)]
    return recorded(gradient, record.inputs), distinct
