"""Causes that lie in a formula: a gradient that somebody wrote by hand and that is wrong."""

from __future__ import annotations

import inspect
import linecache
import re
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient

from gradcheck.autodiff.function import open_function
from gradcheck.autodiff.problem import TapeProblem
from gradcheck.autodiff.state import state_restored
from gradcheck.comparison.probes import first_order
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.explanation.case import Case, at, code_at, number, place
from gradcheck.explanation.places import Line, place_of
from gradcheck.explanation.record import CodeRecord, CustomCall, DerivativeCall, Origin, RecordedOperation, key
from gradcheck.result import Cause, Diagnosis, Finding, Verdict

Array = np.ndarray[Any, Any]


def wrong_formula(case: Case) -> Diagnosis | None:
    """The first tf.custom_gradient on the path whose own derivative differs from its differences."""
    for step in case.path.operations:
        operation = case.record.operations[step]
        if operation.function is not None:
            table = _wrong(operation.function)
            if table is not None:
                return _said(case, operation, operation.function, table)
    return None


def _wrong(call: CustomCall) -> Comparison | None:
    """The table with wrong entries of the function under tf.custom_gradient at the arguments of the call."""

    def again(*args: Any) -> Any:
        return custom_gradient._eager_mode_decorator(call.function, args, call.kwargs)

    try:
        with state_restored():
            tables = first_order(TapeProblem(open_function(again, call.args, None)), Tolerance(), 8)
    except Exception:  # a function that cannot be called by itself cannot be blamed
        return None
    return next((table for table in tables if table.any(Verdict.MISMATCH)), None)


def _said(case: Case, operation: RecordedOperation, call: CustomCall, table: Comparison) -> Diagnosis:
    line, row = map(int, np.unravel_index(np.argmax(table.excess()), table.verdict.shape))
    name = call.function.__name__
    defined = _definition(call)
    evidence = (
        f"called alone{at(operation.line)}, the function {name} under tf.custom_gradient gives the derivative "
        f"{table.autodiff[line, row]:.6g} where the finite-difference estimate is {table.difference[line, row]:.6g}"
    )
    remedy = f"correct the gradient that {name}{at(defined)} returns"
    return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), case.loss.lost)


def _definition(call: CustomCall) -> Line:
    """The line on which the function is defined, below its decorators."""
    code = inspect.unwrap(call.function).__code__
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).strip().startswith("@"):
        number += 1
    return code.co_filename, number


def raised(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Why a tape raised an exception when it was asked; None where it says so well enough itself."""
    message = str(call.error)
    if "non-persistent GradientTape" in message:
        return _used(record, call)
    found = re.search(r"gradient registry has no entry for: (\w+)", message)
    return _unregistered(record, call, found.group(1)) if found else None


def _used(record: CodeRecord, call: DerivativeCall) -> Diagnosis:
    earlier = [one for one in record.derivatives[: call.number] if one.tape == call.tape]
    first = f", and was asked{at(earlier[0].line)} before" if earlier else ""
    evidence = f"a tape that is not persistent answers once{first}"
    remedy = (
        "ask for all derivatives in one call, open a second tape, or make this one persistent: "
        "tf.GradientTape(persistent=True)"
    )
    return Diagnosis(Cause.USED_TAPE, evidence, remedy, place_of(call.line, call.method))


def _unregistered(record: CodeRecord, call: DerivativeCall, name: str) -> Diagnosis:
    used = [e for e in record.events[: call.position] if isinstance(e, RecordedOperation) and e.name == name]
    recorded = [operation for operation in used if call.tape in operation.tapes] or used
    line = recorded[0].line if recorded else None
    evidence = f"TensorFlow has no gradient for {name}{', which ran' + at(line) if line else ''}"
    remedy = f"write {code_at(line)} with other operations, or give it a gradient with tf.custom_gradient"
    return Diagnosis(Cause.NO_GRADIENT, evidence, remedy, place(recorded[0]) if recorded else None)


def integer_source(record: CodeRecord, name: str, origin: Origin) -> Diagnosis:
    """A source that is no floating tensor to begin with."""
    kind = tf.as_dtype(origin.tensor.dtype).name
    line = None if origin.output is None else record.operations[origin.output[0]].line
    made = f", made{at(line)}" if line else ""
    evidence = f"{name} is of dtype {kind}{made}; only floating and complex tensors have gradients"
    remedy = f"make {name} a floating tensor: a constant such as 10.0, or tf.cast({name}, tf.float32)"
    return Diagnosis(Cause.DTYPE, evidence, remedy, place_of(line))


def changed_afterwards(record: CodeRecord, given: Any, finding: Finding) -> Diagnosis | None:
    """The first operation between what a tape gave and the gradient that was handed on; None if there is none."""
    taken = {key(answer): call for call in record.derivatives for answer in call.results or () if answer is not None}
    for operation in _ancestors(record, given):
        calls = [taken[key(tensor)] for tensor in operation.inputs if key(tensor) in taken]
        if calls and operation.call is None:
            return _change_said(calls[0], operation, finding)
    return None


def _ancestors(record: CodeRecord, tensor: Any) -> list[RecordedOperation]:
    """The operations that a tensor was computed by, in order."""
    needed, found = {key(tensor)}, []
    for operation in reversed(record.operations):
        if any(key(output) in needed for output in operation.outputs):
            needed |= {key(one) for one in operation.inputs}
            found.append(operation)
    return found[::-1]


def _change_said(call: DerivativeCall, operation: RecordedOperation, finding: Finding) -> Diagnosis:
    lost = None if finding.difference is None else finding.difference - (finding.autodiff or 0.0)
    off = "" if lost is None else f"; what was handed on is off by {number(abs(lost))}"
    evidence = (
        f"the gradient was taken{at(call.line)}, and {operation.name}{at(operation.line)} changed it afterwards{off}"
    )
    remedy = f"compare the gradient from before {code_at(operation.line)}; if the change is meant, nothing is wrong"
    return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, remedy, place(operation), lost)
