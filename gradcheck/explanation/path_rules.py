"""Causes that no tape can mend: a step on the path through which no gradient comes, or a wrong one."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient as tf_custom_gradient

from gradcheck.autodiff.function import open_function
from gradcheck.autodiff.problem import TapeProblem
from gradcheck.autodiff.state import state_restored
from gradcheck.comparison.probes import first_order
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.explanation.paths import differentiable, registered, states_written
from gradcheck.explanation.record import (
    CodeRecord,
    CustomGradientCall,
    DerivativeCall,
    RecordedOperation,
    SourceOrigin,
    key,
)
from gradcheck.explanation.user_code import Line, at, definition_of, place_of, quoted, start_of_function
from gradcheck.explanation.wrong_gradient import WrongGradient, number, place
from gradcheck.result import Cause, Diagnosis, Finding, Verdict

HOLDERS = ("Iterator", "Queue", "Stack", "Barrier", "LookupTable", "TensorArray", "Dataset")
"""How the names of operations begin that keep what they are given."""
HOST_CODE = re.compile(r"(?<![\w.])(np|numpy|math|float|int|bool|complex|round)\b")
"""What a line says that computes with NumPy or Python numbers."""


def numpy(wrong: WrongGradient) -> Diagnosis | None:
    """A value that left TensorFlow and came back as a constant."""
    if wrong.first.number not in wrong.path.round_trips:
        return None
    read = wrong.path.round_trips[wrong.first.number]
    line = _numpy_line(wrong) if read is None else read.line
    how = f", taken out by {read.method.strip('_')}{at(line)}" if read is not None else ""
    evidence = (
        f"{wrong.lost.summary}: a value that depends on {wrong.name} comes back{at(wrong.first.line)} as a constant "
        f"that NumPy or Python computed{how}"
    )
    remedy = f"write {quoted(line)} with TensorFlow's operations, so that the value stays a tensor"
    return wrong.diagnosis(Cause.NUMPY, evidence, remedy, place_of(line, read.method if read else None))


def _numpy_line(wrong: WrongGradient) -> Line | None:
    """The line that mentions NumPy, between the value's making and its return: NumPy reads a tensor's memory unseen."""
    back = wrong.first.line
    if back is None:
        return None
    made = [
        operation.line[1]
        for operation in wrong.record.operations[: wrong.first.number]
        if operation.line is not None
        and operation.line[0] == back[0]
        and any(key(output) in wrong.path.dependent for output in operation.outputs)
    ]
    start = max([start_of_function(back), *(line for line in made if line < back[1])])
    for line in range(start, back[1]):
        if HOST_CODE.search(linecache.getline(back[0], line)):
            return back[0], line
    return back


def stop_gradient(wrong: WrongGradient) -> Diagnosis | None:
    """tf.stop_gradient."""
    line = wrong.first.line
    if wrong.first.name not in ("StopGradient", "PreventGradient"):
        return None
    evidence = f"{wrong.lost.summary}: tf.stop_gradient{at(line)} lets the value through, not the gradient"
    remedy = f"leave tf.stop_gradient out of {quoted(line)}; if that was its purpose, nothing is wrong"
    return wrong.diagnosis(Cause.STOP_GRADIENT, evidence, remedy)


def state(wrong: WrongGradient) -> Diagnosis | None:
    """A value that goes through the state of a variable, an iterator or a queue."""
    name, line = wrong.first.name, wrong.first.line
    if not states_written(wrong.first) and not name.startswith(HOLDERS) and "Dataset" not in name:
        return None
    holder = "a variable" if name.startswith("Assign") else "something that keeps it"
    evidence = (
        f"{wrong.lost.summary}: {name}{at(line)} puts a value that depends on {wrong.name} into {holder}; "
        "tapes follow tensors, not state"
    )
    remedy = f"compute with the tensor itself instead of {quoted(line)}, and store it afterwards"
    return wrong.diagnosis(Cause.STATE, evidence, remedy)


def no_gradient(wrong: WrongGradient) -> Diagnosis | None:
    """An operation for which nobody registered a gradient."""
    operation = wrong.first
    if operation.backward is not None or registered(operation.name) is not None:
        return None
    if not any(differentiable(tensor) for tensor in operation.outputs):
        return None
    evidence = f"TensorFlow has no gradient for {operation.name}, which{at(operation.line)} is on the path"
    return wrong.diagnosis(Cause.NO_GRADIENT, evidence, _rewrite(operation.line))


def _rewrite(line: Line | None) -> str:
    return f"write {quoted(line)} with other operations, or give it a gradient with tf.custom_gradient"


def dtype(wrong: WrongGradient) -> Diagnosis | None:
    """A comparison, a string, an integer that is computed with."""
    operation, line = wrong.first, wrong.first.line
    if operation.backward is not None or not operation.outputs:
        return None
    if any(differentiable(tensor) for tensor in operation.outputs):
        return None
    integer = any(tensor.dtype.is_integer for tensor in operation.outputs)
    if integer and any(differentiable(tensor) for tensor in operation.inputs):
        return None
    kinds = " and ".join(dict.fromkeys(tensor.dtype.name for tensor in operation.outputs))
    evidence = f"{wrong.lost.summary}: {operation.name}{at(line)} gives {kinds}, which carries no gradient"
    remedy = f"keep the path in floating point: write {quoted(line)} without {kinds}"
    return wrong.diagnosis(Cause.DTYPE, evidence, remedy)


def custom_gradient(wrong: WrongGradient) -> Diagnosis | None:
    """A tf.custom_gradient that gives None, or that uses a tensor which is not among its arguments."""
    call = wrong.first.custom_gradient
    if call is None:
        return None
    name = call.function.__name__
    evidence = (
        f"{wrong.lost.summary}: the function {name} under tf.custom_gradient, called{at(wrong.first.line)}, gives no "
        f"gradient for a value that depends on {wrong.name} (None, or a tensor that is not among its arguments)"
    )
    remedy = f"let the gradient of {name} return one for each of its arguments, and pass it what it uses"
    return wrong.diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy)


def not_differentiable(wrong: WrongGradient) -> Diagnosis:
    """An operation that is registered as not differentiable, or whose gradient is None."""
    name, line = wrong.first.name, wrong.first.line
    if name == "Cast":
        name = f"the cast to {wrong.first.outputs[0].dtype.name}"
    steps = "; the target moves only in steps" if wrong.lost.stepwise else ""
    evidence = f"{wrong.lost.summary}: {name}{at(line)} is registered as not differentiable{steps}"
    remedy = f"replace {quoted(line)} by something smooth, or give it a gradient with tf.custom_gradient"
    return wrong.diagnosis(Cause.NOT_DIFFERENTIABLE, evidence, remedy)


RULES = (numpy, stop_gradient, state, no_gradient, dtype, custom_gradient, not_differentiable)
"""In the order in which they are tried; the last one always gives a diagnosis."""


def unregistered(record: CodeRecord, call: DerivativeCall, name: str) -> Diagnosis:
    """The tape raised an exception because an operation of this name has no gradient."""
    used = [event for event in record.before(call) if isinstance(event, RecordedOperation) and event.name == name]
    operation = next((one for one in used if call.tape in one.tapes), used[0] if used else None)
    line = None if operation is None else operation.line
    evidence = f"TensorFlow has no gradient for {name}{', which ran' + at(line) if line else ''}"
    return Diagnosis(Cause.NO_GRADIENT, evidence, _rewrite(line), None if operation is None else place(operation))


def integer_source(record: CodeRecord, name: str, origin: SourceOrigin) -> Diagnosis:
    """A source that is no floating tensor to begin with."""
    kind = tf.as_dtype(origin.tensor.dtype).name
    line = None if origin.output is None else record.operations[origin.output[0]].line
    made = f", made{at(line)}" if line else ""
    evidence = f"{name} is of dtype {kind}{made}; only floating and complex tensors have gradients"
    remedy = f"make {name} a floating tensor: a constant such as 10.0, or tf.cast({name}, tf.float32)"
    return Diagnosis(Cause.DTYPE, evidence, remedy, place_of(line))


def wrong_formula(wrong: WrongGradient) -> Diagnosis | None:
    """The first tf.custom_gradient on the path whose own derivative is wrong, where the path is not broken."""
    for step in wrong.path.operations:
        operation = wrong.record.operations[step]
        call = operation.custom_gradient
        table = None if call is None else _mismatches(call)
        if call is None or table is None:
            continue
        name, defined = call.function.__name__, definition_of(call.function)
        worst = np.unravel_index(np.argmax(table.excess()), table.verdict.shape)
        evidence = (
            f"called alone{at(operation.line)}, the function {name} under tf.custom_gradient gives the derivative "
            f"{table.autodiff[worst]:.6g} where the finite-difference estimate is {table.difference[worst]:.6g}"
        )
        remedy = f"correct the gradient that {name}{at(defined)} returns"
        return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), wrong.lost.size)
    return None


def _mismatches(call: CustomGradientCall) -> Comparison | None:
    """The table with wrong entries of the function under tf.custom_gradient at the arguments of the call."""

    def again(*args: Any) -> Any:
        return tf_custom_gradient._eager_mode_decorator(call.function, args, call.kwargs)

    try:
        with state_restored():
            tables = first_order(TapeProblem(open_function(again, call.args, None)), Tolerance(), 8)
    except Exception:  # a function that cannot be called by itself cannot be blamed
        return None
    return next((table for table in tables if table.any(Verdict.MISMATCH)), None)


def changed_afterwards(record: CodeRecord, given: Any, finding: Finding) -> Diagnosis | None:
    """The first operation between what a tape gave and the gradient that was used; None if there is none."""
    taken = {key(one): call for call in record.derivatives for one in call.results or () if one is not None}
    for operation in _ancestors(record, given):
        calls = [taken[key(tensor)] for tensor in operation.inputs if key(tensor) in taken]
        if calls and operation.derivative is None:
            lost = None if finding.difference is None else finding.difference - (finding.autodiff or 0.0)
            off = "" if lost is None else f"; the gradient that was used is off by {number(abs(lost))}"
            line = operation.line
            evidence = f"the gradient was taken{at(calls[0].line)}, and {operation.name}{at(line)} changed it{off}"
            remedy = f"compare the gradient from before {quoted(line)}; if the change is meant, nothing is wrong"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, remedy, place(operation), lost)
    return None


def _ancestors(record: CodeRecord, tensor: Any) -> list[RecordedOperation]:
    """The operations that a tensor was computed by, in order."""
    needed, found = {key(tensor)}, []
    for operation in reversed(record.operations):
        if any(key(output) in needed for output in operation.outputs):
            needed |= {key(one) for one in operation.inputs}
            found.append(operation)
    return found[::-1]
