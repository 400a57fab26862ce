"""Derivatives that raise: a tape that was used up, an operation without a gradient."""

from __future__ import annotations

import re

import tensorflow as tf

from gradcheck.diagnosis.case import at, code_at, place
from gradcheck.diagnosis.lines import place_of
from gradcheck.diagnosis.origins import Origin
from gradcheck.diagnosis.record import Derivative, Operation, Record
from gradcheck.finding import Cause, Diagnosis


def raised(record: Record, call: Derivative) -> Diagnosis | None:
    """Why a tape raised an exception when it was asked; None where it says so well enough itself."""
    message = str(call.error)
    if "non-persistent GradientTape" in message:
        return _used(record, call)
    found = re.search(r"gradient registry has no entry for: (\w+)", message)
    return _unregistered(record, call, found.group(1)) if found else None


def _used(record: Record, call: Derivative) -> Diagnosis:
    earlier = [one for one in record.derivatives[: call.number] if one.tape == call.tape]
    first = f", and was asked{at(earlier[0].line)} before" if earlier else ""
    evidence = f"a tape that is not persistent answers once{first}"
    remedy = (
        "ask for all derivatives in one call, open a second tape, or make this one persistent: "
        "tf.GradientTape(persistent=True)"
    )
    return Diagnosis(Cause.USED_TAPE, evidence, remedy, place_of(call.line, call.method))


def _unregistered(record: Record, call: Derivative, name: str) -> Diagnosis:
    used = [e for e in record.events[: call.position] if isinstance(e, Operation) and e.name == name]
    recorded = [operation for operation in used if call.tape in operation.tapes] or used
    line = recorded[0].line if recorded else None
    evidence = f"TensorFlow has no gradient for {name}{', which ran' + at(line) if line else ''}"
    remedy = f"write {code_at(line)} with other operations, or give it a gradient with tf.custom_gradient"
    return Diagnosis(Cause.NO_GRADIENT, evidence, remedy, place(recorded[0]) if recorded else None)


def integer_source(record: Record, name: str, origin: Origin) -> Diagnosis:
    """A source that is no floating tensor to begin with."""
    kind = tf.as_dtype(origin.tensor.dtype).name
    line = None if origin.output is None else record.operations[origin.output[0]].line
    made = f", made{at(line)}" if line else ""
    evidence = f"{name} is of dtype {kind}{made}; only floating and complex tensors have gradients"
    remedy = f"make {name} a floating tensor: a constant such as 10.0, or tf.cast({name}, tf.float32)"
    return Diagnosis(Cause.DTYPE, evidence, remedy, place_of(line))
