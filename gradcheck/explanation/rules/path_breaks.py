"""Causes that no tape can mend: a step on the path through which no gradient comes."""

from __future__ import annotations

import linecache
import re

from gradcheck.explanation.case import Case, at, code_at
from gradcheck.explanation.paths import differentiable, registered, written
from gradcheck.explanation.places import Line, place_of, start_of_function
from gradcheck.explanation.record import key
from gradcheck.result import Cause, Diagnosis

STATEFUL = ("Iterator", "Queue", "Stack", "Barrier", "LookupTable", "TensorArray", "Dataset")
MENTION = re.compile(r"(?<![\w.])(np|numpy|math|float|int|bool|complex|round)\b")


def numpy(case: Case) -> Diagnosis | None:
    """A value that left TensorFlow and came back as a constant."""
    if case.first.number not in case.path.hops:
        return None
    back = case.first.operation.line
    left = case.path.hops[case.first.number]
    line = _numpy_line(case) if left is None else left.line
    how = f", taken out by {left.method.strip('_')}{at(line)}" if left is not None else ""
    evidence = (
        f"{case.loss.words}: a value that depends on {case.name} comes back{at(back)} as a constant that NumPy or "
        f"Python computed{how}"
    )
    remedy = f"write {code_at(line)} with TensorFlow's operations, so that the value stays a tensor"
    return case.diagnosis(Cause.NUMPY, evidence, remedy, place_of(line, left.method if left else None))


def _numpy_line(case: Case) -> Line | None:
    """NumPy takes a tensor's memory unseen: the line that mentions it, between the value's making and its return."""
    back = case.first.operation.line
    if back is None:
        return None
    made = [
        operation.line[1]
        for operation in case.record.operations[: case.first.number]
        if operation.line is not None
        and operation.line[0] == back[0]
        and any(key(output) in case.path.dependent for output in operation.outputs)
    ]
    start = max([start_of_function(back), *(number for number in made if number < back[1])])
    for number in range(start, back[1]):
        if MENTION.search(linecache.getline(back[0], number)):
            return back[0], number
    return back


def stop_gradient(case: Case) -> Diagnosis | None:
    """tf.stop_gradient."""
    operation = case.first.operation
    if operation.name not in ("StopGradient", "PreventGradient"):
        return None
    evidence = f"{case.loss.words}: tf.stop_gradient{at(operation.line)} lets the value through, not the gradient"
    remedy = f"leave tf.stop_gradient out of {code_at(operation.line)}; if that was its purpose, nothing is wrong"
    return case.diagnosis(Cause.STOP_GRADIENT, evidence, remedy)


def state(case: Case) -> Diagnosis | None:
    """A value that goes through the state of a variable, an iterator or a queue."""
    operation = case.first.operation
    if not written(operation) and not operation.name.startswith(STATEFUL) and "Dataset" not in operation.name:
        return None
    holder = "a variable" if operation.name.startswith("Assign") else "something that keeps it"
    evidence = (
        f"{case.loss.words}: {operation.name}{at(operation.line)} puts a value that depends on {case.name} into "
        f"{holder}; tapes follow tensors, not state"
    )
    remedy = f"compute with the tensor itself instead of {code_at(operation.line)}, and store it afterwards"
    return case.diagnosis(Cause.STATE, evidence, remedy)


def no_gradient(case: Case) -> Diagnosis | None:
    """An operation for which nobody registered a gradient."""
    operation = case.first.operation
    if operation.backward is not None or registered(operation.name) is not None:
        return None
    if not any(differentiable(tensor) for tensor in operation.outputs):
        return None
    evidence = f"TensorFlow has no gradient for {operation.name}, which{at(operation.line)} is on the path"
    remedy = f"write {code_at(operation.line)} with other operations, or give it a gradient with tf.custom_gradient"
    return case.diagnosis(Cause.NO_GRADIENT, evidence, remedy)


def dtype(case: Case) -> Diagnosis | None:
    """A comparison, a string, an integer that is computed with."""
    operation = case.first.operation
    numeric = [tensor for tensor in operation.outputs if tensor.dtype.is_integer]
    if operation.backward is not None or any(differentiable(tensor) for tensor in operation.outputs):
        return None
    if (numeric and any(differentiable(tensor) for tensor in operation.inputs)) or not operation.outputs:
        return None
    kinds = " and ".join(dict.fromkeys(tensor.dtype.name for tensor in operation.outputs))
    evidence = f"{case.loss.words}: {operation.name}{at(operation.line)} gives {kinds}, which carries no gradient"
    remedy = f"keep the path in floating point: write {code_at(operation.line)} without {kinds}"
    return case.diagnosis(Cause.DTYPE, evidence, remedy)


def custom_gradient(case: Case) -> Diagnosis | None:
    """A tf.custom_gradient that gives None, or that uses a tensor which is not among its arguments."""
    operation = case.first.operation
    if operation.function is None:
        return None
    name = operation.function.function.__name__
    evidence = (
        f"{case.loss.words}: the function {name} under tf.custom_gradient, called{at(operation.line)}, gives no "
        f"gradient for a value that depends on {case.name} (None, or a tensor that is not among its arguments)"
    )
    remedy = f"let the gradient of {name} return one for each of its arguments, and pass it what it uses"
    return case.diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy)


def not_differentiable(case: Case) -> Diagnosis | None:
    """An operation that is registered as not differentiable, or whose gradient is None."""
    operation = case.first.operation
    name = operation.name
    if name == "Cast":
        name = f"the cast to {operation.outputs[0].dtype.name}"
    steps = "; the target moves only in steps" if case.loss.steps else ""
    evidence = f"{case.loss.words}: {name}{at(operation.line)} is registered as not differentiable{steps}"
    remedy = f"replace {code_at(operation.line)} by something smooth, or give it a gradient with tf.custom_gradient"
    return case.diagnosis(Cause.NOT_DIFFERENTIABLE, evidence, remedy)


RULES = (numpy, stop_gradient, state, no_gradient, dtype, custom_gradient, not_differentiable)
"""In the order in which they are asked; the last one always answers."""
