"""Causes that no tape can mend: a step on the path through which no gradient comes."""

from __future__ import annotations

from gradcheck.diagnosis.case import Case, at, code_at
from gradcheck.diagnosis.edges import differentiable, registered
from gradcheck.diagnosis.paths import written
from gradcheck.finding import Cause, Diagnosis

STATEFUL = ("Iterator", "Queue", "Stack", "Barrier", "LookupTable", "TensorArray", "Dataset")
PLAIN = {"Identity", "ReadVariableOp", "Const"}


def numpy(case: Case) -> Diagnosis | None:
    """A value that left TensorFlow and came back as a constant."""
    if case.first.number not in case.path.hops:
        return None
    operation = case.first.operation
    left = case.path.hops[case.first.number]
    how = "" if left is None else f": {left.method.strip('_')}() took it out{at(left.line)}"
    evidence = (
        f"{case.loss.words}: a value that depends on {case.name} came back{at(operation.line)} as a constant that NumPy "
        f"or Python had computed{how}"
    )
    line = operation.line if left is None else left.line
    remedy = f"write {code_at(line)} with TensorFlow's operations, so that the value stays a tensor"
    return case.diagnosis(Cause.NUMPY, evidence, remedy)


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
    holders = [case.record.variables[id(h)] for h in written(operation) if id(h) in case.record.variables]
    holder = f"the variable {holders[0].name.split(':')[0]}" if holders else f"what {operation.name} keeps"
    evidence = (
        f"{case.loss.words}: {operation.name}{at(operation.line)} puts a value that depends on {case.name} into "
        f"{holder}; a tape follows tensors, not state"
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
    remedy = (
        f"write {code_at(operation.line)} with other operations, or give it a gradient with tf.custom_gradient"
    )
    return case.diagnosis(Cause.NO_GRADIENT, evidence, remedy)


def dtype(case: Case) -> Diagnosis | None:
    """A comparison, a string, an integer that is computed with."""
    operation = case.first.operation
    numeric = [tensor for tensor in operation.outputs if tensor.dtype.is_integer]
    if operation.backward is not None or any(differentiable(tensor) for tensor in operation.outputs):
        return None
    if numeric and any(differentiable(tensor) for tensor in operation.inputs) or not operation.outputs:
        return None
    kinds = " and ".join(dict.fromkeys(tensor.dtype.name for tensor in operation.outputs))
    evidence = (
        f"{case.loss.words}: {operation.name}{at(operation.line)} gives {kinds}, which carries no gradient"
    )
    remedy = f"keep the path in floating point: write {code_at(operation.line)} without {kinds}"
    return case.diagnosis(Cause.DTYPE, evidence, remedy)


def custom_gradient(case: Case) -> Diagnosis | None:
    """A tf.custom_gradient that gives None, or that uses a tensor which is not among its arguments."""
    operation = case.first.operation
    if operation.function is None:
        return None
    name = operation.function.function.__name__
    evidence = (
        f"{case.loss.words}: the function {name} under tf.custom_gradient, called{at(operation.line)}, gives no gradient "
        f"for a value that depends on {case.name} (None, or a tensor that is not among its arguments)"
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
    evidence = (
        f"{case.loss.words}: {name}{at(operation.line)} is registered as not differentiable{steps}"
    )
    remedy = f"replace {code_at(operation.line)} by something smooth, or give it a gradient with tf.custom_gradient"
    return case.diagnosis(Cause.NOT_DIFFERENTIABLE, evidence, remedy)


RULES = (numpy, stop_gradient, state, no_gradient, dtype, custom_gradient, not_differentiable)
"""In the order in which they are asked; the last one always answers."""
