"""Find operations with known defects, or without second derivatives, in the user's code, by running it once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry, ops

from gradcheck.autodiff.errors import sentence_of
from gradcheck.autodiff.mode import PLAIN
from gradcheck.autodiff.sources import as_tensors, parameter_names
from gradcheck.defects import known
from gradcheck.defects.audited import AuditResult, audited
from gradcheck.defects.graph_functions import FunctionKernels
from gradcheck.defects.kernel_use import KernelUse
from gradcheck.defects.library_use import LibraryUse
from gradcheck.defects.region import names
from gradcheck.diagnosis.known_defect import dependent_on, kernel_use, library_uses
from gradcheck.options import name_of
from gradcheck.problem.opening import refuse_graph
from gradcheck.tracing.kernels import PYTHON
from gradcheck.tracing.library_functions import OPERATIONS
from gradcheck.tracing.operation import attribute_kinds
from gradcheck.tracing.record import CodeRecord, DerivativeCall, HostRead, RecordedOperation, key
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.tracing.user_code import file_owner, line_that_makes, place_of, running_frame

COMPILED = ("__forward_", "__inference_")
"""Prefixes of the names of functions that TensorFlow compiles."""
OF_SAVING = ("_traced_save", "_traced_restore", "__backward_", "__forward_")
"""Parts of the names of functions that do not belong to a saved model's own computation."""
WITHOUT_LINE = "not in the given code"


@told_plainly
def audit(f: Callable[..., Any], *inputs: Any) -> AuditResult:
    """List the operations of `f` with known defects of TensorFlow, or without a derivative; no differences are taken.

    `f` is run once, eagerly, on `inputs` as in `check`: a function of tensors, or a training step that opens its own
    tapes, such as a Keras model's train_step. Of the operations that its derivatives (or, if it takes none, its
    results) depend on, the result's `operations` are those of which something is known: defects at either order,
    whether these values lie in the region of one, and derivatives that are None or raise, so that a gradient penalty or
    a Hessian would fail. `result.inside` are those in a region, `result.wrong` those in the region at an order that `f`
    takes. Print the result to read it; its `notes` say what was not seen. An operation of which nothing is known need
    not be correct: `check` compares.

    Variables that `f` assigns, and the generators of Python, NumPy and TensorFlow, are left as they were.

    Raises TypeError if `f` cannot be called, ValueError inside a graph, and RuntimeError if `f` raises.

    >>> import tensorflow as tf
    >>> (found,) = audit(tf.math.cumprod, [0.0, 2.0]).inside
    >>> found.kernel, found.defects[0].defect.name
    ('Cumprod', 'cumprod-zero-order1')
    """
    if not callable(f):
        raise TypeError(
            f"f is of type {type(f).__name__}, a callable was expected: gradcheck.audit(f, x) runs f(x) once "
            "(for a saved model: python -m gradcheck audit FOLDER)"
        )
    refuse_graph("gradcheck.audit")
    record = recorded(f, as_tensors(inputs, parameter_names(f)))
    error = record.error
    if error is not None and not any(error is call.error for call in record.derivatives):
        raise RuntimeError(
            f"f raised {type(error).__name__}: {sentence_of(error)}; it has to run before its operations can be audited"
        ) from error
    needed = _differentiated(record)
    operations = _without_constants(needed)
    inner = FunctionKernels(_definition, ops.gradient_registry.list())
    for one in operations:
        inner.read(_called(one), one.place, f", which {one.name} calls: its values are not known")
    everywhere, differentiated = _taken(record, record.operations), _taken(record, operations)
    kernels = (_use(one, everywhere) for one in operations)
    calls = library_uses(operations, differentiated, dependent_on(_sources(record), record.operations), WITHOUT_LINE)
    file = _file_of(f)
    seen: list[KernelUse | LibraryUse] = [*kernels, *calls]
    uses = [*(_placed(one, file) for one in seen), *inner.uses]
    notes = [*_of_code(record, needed), *_of_functions(inner), *_of_records(OPERATIONS)]
    return audited(name_of(f), uses, notes, _highest_order(record), derives=bool(record.derivatives))


def _file_of(f: Any) -> str:
    """The file of the user's code that calls `audit`, else that of the function."""
    frame = running_frame()
    code = getattr(inspect.unwrap(f), "__code__", None) if frame is None else frame.f_code
    return "" if code is None else str(code.co_filename)


def _placed(use: KernelUse | LibraryUse, file: str) -> KernelUse | LibraryUse:
    """Place what only a library runs, as for a Keras model's train_step, at the line that makes its layer, if known."""
    if use.place is None or file_owner(os.path.abspath(use.place.file)) == "user":
        return use
    line = line_that_makes(use.kind.rpartition(".")[2], use.layer, file) if use.kind and file else None
    return replace(use, place=place_of(line), where=use.where if line is None and not use.layer else "in the model")


def audit_saved_model(folder: Path) -> AuditResult:
    """Audit the functions of a saved model, whose values are not known. Only its definitions are read.

    Raises ValueError if the folder holds no saved model that can be read.
    """
    from tensorflow.python.saved_model import loader_impl

    try:
        saved = loader_impl.parse_saved_model(str(folder))
    except OSError as error:
        raise ValueError(f"{folder}: cannot be read as a saved model ({error})") from None
    libraries = [graph.graph_def.library for graph in saved.meta_graphs]
    gradients = {one.registered_op_type for library in libraries for one in library.registered_gradients}
    functions = {one.signature.name: one for library in libraries for one in library.function}
    inner = FunctionKernels(functions.get, gradients)
    for graph in saved.meta_graphs:
        called = {attribute.func.name for node in graph.graph_def.node for attribute in node.attr.values()}
        names = sorted((called - {""}) | set(graph.object_graph_def.concrete_functions))
        inner.read(name for name in names if not any(part in name for part in OF_SAVING))
    if not inner.uses:
        raise ValueError(f"{folder}: a saved model without functions; save it with tf.saved_model.save or model.export")
    values = 'the values: a region that depends on them is "perhaps"'
    return audited(str(folder), inner.uses, [values, *_of_functions(inner), *_of_records(frozenset())])


def _highest_order(record: CodeRecord) -> int:
    """The highest order of the derivatives that the code takes, at most 2; 2 if it takes none."""
    orders: dict[int, int] = {}
    highest = 0
    for event in record.events:
        if isinstance(event, RecordedOperation):
            order = max((orders.get(key(tensor), 0) for tensor in event.inputs), default=0)
            orders.update({key(output): order for output in event.outputs} if order else {})
        elif isinstance(event, DerivativeCall):
            order = 1 + max((orders.get(key(target), 0) for target in event.targets), default=0)
            orders.update({key(result): order for result in event.results or () if result is not None})
            highest = max(highest, order)
    return min(highest, 2) or 2


def _targets(record: CodeRecord) -> list[Any]:
    """The targets of the derivatives that the code takes, or else its results."""
    if record.derivatives:
        return [target for call in record.derivatives for target in call.targets]
    return [part for part in tf.nest.flatten(record.result) if tf.is_tensor(part)]


def _taken(record: CodeRecord, operations: Sequence[RecordedOperation]) -> set[int]:
    """ids of the targets and of all inputs of `operations`."""
    return {id(tensor) for one in operations for tensor in one.inputs} | {id(one) for one in _targets(record)}


def _sources(record: CodeRecord) -> list[Any]:
    """The sources of the derivatives that the code takes, or else its inputs and variables."""
    if record.derivatives:
        return [source for call in record.derivatives for source in call.sources]
    return [*record.leaves, *record.variables.values()]


def _differentiated(record: CodeRecord) -> list[RecordedOperation]:
    """The operations that the targets depend on, including derivatives and constants."""
    needed = {key(target) for target in _targets(record)}
    taken, found = set(), []
    for event in reversed(record.events):
        if isinstance(event, DerivativeCall) and any(key(part) in needed for part in event.results or ()):
            taken.add(event.number)
        if isinstance(event, RecordedOperation) and (
            event.derivative in taken or any(key(output) in needed for output in event.outputs)
        ):
            needed |= {key(tensor) for tensor in event.inputs}
            found.append(event)
    return found[::-1]


def _without_constants(operations: Iterable[RecordedOperation]) -> list[RecordedOperation]:
    return [one for one in operations if one.name != "Const"]


def _use(one: RecordedOperation, used: set[int]) -> KernelUse:
    outputs = [number for number, output in enumerate(one.outputs) if id(output) in used]
    # The results of a derivative need not be the tensors that it computed.
    return kernel_use(one, outputs if one.derivative is None else None, WITHOUT_LINE)


def _called(one: RecordedOperation) -> Iterator[str]:
    """The names of the compiled functions that an operation calls, or is."""
    definition = op_def_registry.get(one.name)
    if definition is None and _definition(one.name) is not None:
        yield one.name
    kinds = attribute_kinds(one.name)
    for name, value in one.operation.settings.items():
        if "func" in kinds.get(name, ""):
            for each in value if isinstance(value, (list, tuple)) else (value,):
                each = getattr(each, "name", each)
                yield each.decode() if isinstance(each, bytes) else str(each)


def _definition(name: str) -> Any:
    try:
        return context.context().get_function_def(name)
    except Exception:  # TensorFlow has another kind of error for it in each release
        return None


def _of_code(record: CodeRecord, needed: Sequence[RecordedOperation]) -> Iterator[str]:
    """The notes on what is not seen of the user's code."""
    operations = _without_constants(needed)
    rest = len(_without_constants(record.operations)) - len(operations)
    reads = [one for one in record.events if isinstance(one, HostRead) and one.tensor.dtype.is_floating]
    read = sorted({str(place_of(one.line)) for one in reads if one.line is not None})
    own = [one for one in operations if one.backward is not None and _definition(one.name) is None]
    for one in own:
        if one.name.startswith(COMPILED):
            yield f"what the compiled function {one.name} does, {one.place}"
    if read:
        yield f"what NumPy or Python computes from the tensors that it reads: {'; '.join(read)}"
    entered = sorted({str(one.place) for one in needed if _from_numpy(one)} - set(read))
    if entered:
        yield f"whether NumPy arrays are computed from tensors, which cuts the gradient: {'; '.join(entered)}"
    brought = sorted({f"{one.name} ({one.place})" for one in own if not one.name.startswith(COMPILED)})
    if brought:
        yield f"whether the custom gradients of the code are right: {', '.join(brought)}; use gradcheck.check"
    if rest:
        yield f"{rest} operations that no derivative depends on, such as those of an optimizer"


def _from_numpy(one: RecordedOperation) -> bool:
    """Whether it is a floating NumPy array that a line of the user's code brings in, not Keras for it."""
    own = one.name == "Const" and one.line is not None and one.library is None
    return own and bool(one.attrs and one.attrs[1] and one.outputs[0].dtype.is_floating)


def _of_functions(inner: FunctionKernels) -> Iterator[str]:
    if inner.unread:
        yield f"{', '.join(sorted(inner.unread))}: no definition"
    python = {f"{one.kernel} ({one.where})" for one in inner.uses if one.kernel in PYTHON}
    if python:
        yield f"what Python does in {', '.join(sorted(python))}"
    if inner.custom:
        yield f"whether the custom gradients of a graph are right: {', '.join(sorted(inner.custom)[:8])}"


def _of_records(seen: Set[str]) -> Iterator[str]:
    """The note on known defects that are not looked for; `seen` are the operations that calls are recognised as."""
    records = [one for one in known.load(known.library_folder()) if one.covers(tf.__version__)]
    plain = [one for one in records if one.signature.taken == PLAIN and not one.kernels]
    composed = sum(not any(names(region.op) & seen for region in one.regions) for one in plain)
    modes = sum(one.signature.taken != PLAIN and not one.kernels for one in records)
    what = "that no kernel and no call identifies" if seen else "of functions made of several kernels, such as tf.norm,"
    yield (
        f"{composed} known defects {what} and {modes} of other modes (forward, tf.function, XLA, "
        "pfor, float16): python -m gradcheck known list"
    )
