"""Find the origin of NaN in a value: the first operation that makes it from finite numbers, or an input."""

from __future__ import annotations

import cmath
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import is_
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.util import tf_decorator

from gradcheck.autodiff.sources import named_leaves, parameter_names
from gradcheck.diagnosis.blame import back_to_this_one, described
from gradcheck.diagnosis.internal_errors import cause_searched, internal_errors_told
from gradcheck.diagnosis.unconnected import variable_name
from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.kernels import MOVING, OF_INTEGERS, READING, WHERE
from gradcheck.tracing.record import CodeRecord, RecordedOperation, key
from gradcheck.tracing.state import state_restored
from gradcheck.tracing.user_code import at, place_of
from gradcheck.typing import Array

HARMLESS = 0.5
"""Replaces numbers that are not finite, to see the effect of the others."""

LOGARITHMS = {
    "Softmax": "tf.nn.log_softmax(logits), or a cross entropy with from_logits=True",
    "Sigmoid": "tf.math.log_sigmoid(logits), or a cross entropy with from_logits=True",
}
"""Functions that compute the logarithm of an operation's result without that result."""

SQUARING = frozenset(("Square", "Pow", "Mul"))
OF_SQUARES = SQUARING | {"Sub", "Neg", "AddV2"}
"""The kernels that compute 1 - tanh(u)**2."""
OF_TANH = {
    **dict.fromkeys(
        ("Log", "Log1p"),
        "write log(1 - tanh(u)**2) as 2 * (tf.math.log(2.0) - u - tf.nn.softplus(-2 * u)), which stays finite",
    ),
    "Atanh": "use u in place of tf.atanh(tf.tanh(u)), or clip the argument, such as tf.clip_by_value(x, -0.999999, "
    "0.999999), where u is not known",
}
"""The remedies for operations of the hyperbolic tangent of u, where it is rounded to -1 or 1."""

REMEDIES = {
    **dict.fromkeys(
        ("Sqrt", "Rsqrt"),
        "the slope of a square root is infinite at 0: keep its argument away from there, such as "
        "tf.sqrt(tf.maximum(x, 1e-12)), or a norm as tf.sqrt(tf.reduce_sum(x**2) + 1e-12)",
    ),
    **dict.fromkeys(
        ("Log", "Log1p"),
        "the slope of a logarithm is infinite at its pole: keep its argument away from there, such as "
        "tf.math.log(tf.maximum(x, 1e-12))",
    ),
    **dict.fromkeys(
        ("RealDiv", "Div", "Reciprocal", "Inv", "Xdivy"),
        "keep the divisor away from 0, such as tf.maximum(d, 1e-12), or use tf.math.divide_no_nan",
    ),
    "Pow": "the derivative of x**p is p * x**(p - 1), which is infinite at x = 0 where p < 1 (differentiated again: "
    "where p < 2), and 0 * infinity where p is 0: keep x away from 0, such as tf.pow(tf.maximum(x, 1e-12), p), and "
    "leave out elements with p = 0",
    **dict.fromkeys(
        ("Asin", "Acos", "Atanh", "Acosh"),
        "the slope is infinite at the ends of the domain: clip the argument, such as tf.clip_by_value(x, -0.999999, "
        "0.999999)",
    ),
    **dict.fromkeys(
        ("Atan2", "Angle", "ComplexAbs"),
        "it has no derivative at the origin: keep one of its arguments away from 0 by adding a small number",
    ),
    **dict.fromkeys(
        ("Exp", "Expm1", "Sinh", "Cosh", "Lgamma"),
        "the value is too large for its dtype: clip the argument, such as tf.minimum(x, 80.0) in float32, or compute "
        "with logarithms (tf.reduce_logsumexp, tf.nn.log_softmax, tf.nn.softplus)",
    ),
    **dict.fromkeys(
        ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"),
        "one of the logits is infinite, or all are -infinity: mask with a large finite number, such as -1e9",
    ),
}
"""The remedies in the backward pass, by the names of operations."""

VALUES = {
    **REMEDIES,
    "Log": "log(x) is -infinity at 0 and NaN below: keep x above 0, such as tf.math.log(tf.maximum(x, 1e-12))",
    "Log1p": "log1p(x) is -infinity at -1 and NaN below: keep x above that, such as "
    "tf.math.log1p(tf.maximum(x, -1 + 1e-6))",
    "Sqrt": "the square root of a negative number is NaN: keep its argument at 0 or above, such as "
    "tf.sqrt(tf.maximum(x, 1e-12)); rounding may take a nonnegative number below 0",
    "Rsqrt": "1 / sqrt(x) is infinite at 0 and NaN below: keep x above 0, such as tf.math.rsqrt(tf.maximum(x, 1e-12))",
    "Atanh": "it is infinite at -1 and 1, and NaN beyond: clip the argument, such as tf.clip_by_value(x, -0.999999, "
    "0.999999)",
    **dict.fromkeys(
        ("Asin", "Acos"),
        "it is NaN beyond -1 and 1: clip the argument, such as tf.clip_by_value(x, -0.999999, 0.999999)",
    ),
    "Acosh": "acosh(x) is NaN below 1: keep x above that, such as tf.maximum(x, 1.000001)",
    "Mean": "the mean of no elements is NaN: leave it out where there are none, or write "
    "tf.math.divide_no_nan(tf.reduce_sum(x), n)",
    "Pow": "x**p is NaN where x is negative and p not an integer, and infinite at x = 0 where p is negative: "
    "keep x above 0, such as tf.pow(tf.maximum(x, 1e-12), p)",
}
"""The remedies in the forward pass, by the names of operations."""
OVERFLOWING = ("Pow", "Mean")
"""The operations among these that also overflow inside their domain."""

TOO_LARGE = (
    "the value is too large for {dtype}: scale the arguments down or clip them, compute with logarithms "
    "(tf.reduce_logsumexp, tf.nn.log_softmax), or use a wider dtype"
)

CAME_IN = {
    "data": "leave such rows out of the data, or replace these numbers",
    "variable": "start again from finite values; it comes from an earlier update, or was loaded so",
    "constant": "write a finite number; a mask takes a large one, such as -1e9",
}
"""The remedies for NaN or infinity that no operation made, by origin."""


def finite(tensor: Any) -> bool:
    """Whether a tensor is None, or holds finite numbers only."""
    return tensor is None or bool(np.isfinite(as_array(tensor)).all())


def as_array(tensor: Any) -> Array:
    """Convert a tensor to an array in which NumPy can recognise NaN."""
    array = np.asarray(tf.convert_to_tensor(tensor).numpy())
    return array if array.dtype.kind in "fc" else array.astype(np.float64)  # bfloat16 is a type of its own


def element_text(element: Sequence[int]) -> str:
    """The index of an element, such as `[0, 1]`; empty for a scalar."""
    return f"[{', '.join(map(str, element))}]" if element else ""


def _floating(tensor: Any) -> bool:
    return hasattr(tensor, "_numpy") and bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _spoilt(tensor: Any) -> bool:
    return _floating(tensor) and not finite(tensor)


def _has_nan(tensor: Any) -> bool:
    return _floating(tensor) and bool(np.isnan(as_array(tensor)).any())


@dataclass(frozen=True)
class ValueOrigin:
    """The first tensor, or variable, that is not finite in the forward pass to a value.

    `operation` made it: from finite numbers if `made`, else it entered there. There is no operation if it was there
    before the code ran; then `read` is the first one that takes it.
    """

    tensor: Any
    operation: RecordedOperation | None
    made: bool
    looked_at: int
    read: RecordedOperation | None = None

    def diagnosis(self, record: CodeRecord) -> Diagnosis:
        """Describe the operation, or the input, with the element, its value and a replacement."""
        count = back_to_this_one(self.looked_at)
        if self.operation is None or not self.made:
            return self._came_in(record, count)
        operation, argument = self.operation, _culpable_argument(self.operation)
        name = described(operation, called(operation))
        values = as_array(self.tensor)
        of_finite = all(map(finite, filter(_floating, operation.inputs)))
        place = tuple(map(int, np.argwhere(~np.isfinite(values) if of_finite else np.isnan(values))[0]))
        result = values[place].item()
        if argument is None or 0 in operation.inputs[argument].shape:
            where, value = "" if argument is None else " of no elements", None
        else:
            given = operation.inputs[argument]
            element = place if given.shape == self.tensor.shape else _worst(operation, given)
            value = as_array(given)[element].item()
            where = f" at {operation.argument_names[argument]}{element_text(element)} = {value:.6g}"
        behind = None if argument is None else maker_for(record, operation, operation.inputs[argument])
        evidence = f"in the forward pass, {name} returns {result:.6g}{where}; {count}"
        remedy = remedy_for_value(operation, behind, value, result, self.tensor.dtype.name)
        return Diagnosis(Cause.NOT_FINITE, evidence, remedy, operation.place)

    def _came_in(self, record: CodeRecord, count: str) -> Diagnosis:
        values = as_array(self.tensor)
        bad = np.argwhere(~np.isfinite(values))
        place = tuple(map(int, bad[0]))
        held = f"{values[place].item():.6g}" + (f" at {element_text(place)}" if place else "")
        kind, name = self._given(record)
        evidence = f"{name} holds {held}, {len(bad)} of {values.size} numbers are not finite; {count}"
        at = self.operation or self.read
        place_read = None if at is None else place_of(at.line, at.name)
        return Diagnosis(Cause.CAME_IN, evidence, CAME_IN[kind], place_read)

    def _given(self, record: CodeRecord) -> tuple[str, str]:
        """The kind of an input, and its name."""
        name = record.expressions.get(key(self.tensor), "")
        if self.operation is not None:
            what = "a constant in" if self.operation.name == "Const" else f"{called(self.operation)} in"
            return "constant" if self.operation.name == "Const" else "data", f"{what} {self.operation.quoted}"
        if hasattr(self.tensor, "handle"):
            return "variable", f"the variable {variable_name(self.tensor) or name or 'that the code reads'}"
        for leaf_name, leaf in chain.from_iterable(named_leaves(record.inputs, parameter_names(record.f))):
            if leaf is not None and key(leaf) == key(self.tensor):
                return "data", leaf_name
        reads = "" if self.read is None else f", which {self.read.quoted} reads"
        return "data", f"{name or 'a tensor'}{reads} and which was made before the code ran,"


def value_origin(recorded: Callable[[], CodeRecord]) -> str:
    """Describe the origin of NaN in the targets, or else the results, of a run, with a remedy; empty if it is unknown.

    Internal errors of the search are appended.
    """
    told = ""
    with internal_errors_told() as internal, cause_searched():
        record = recorded()
        differentiated = [target for call in record.derivatives for target in call.targets if _spoilt(target)]
        origin = origin_of(record, differentiated or filter(_spoilt, tf.nest.flatten(record.result)))
        if origin is not None:
            found = origin.diagnosis(record)
            told = f"{found.evidence}; {found.remedy}"
    return "; ".join([*filter(None, [told]), *internal])


def origin_of(record: CodeRecord, targets: Iterable[Any]) -> ValueOrigin | None:
    """The first tensor in the forward pass to the targets that is not finite and makes one of them not finite.

    Infinity from the beginning, as in a mask, counts only if no operation makes NaN from it: then that operation
    counts. None where the targets are finite, or come from unobserved code.
    """
    targets = [target for target in targets if _spoilt(target)]
    origins, of_infinity, path = _walk(record, targets)
    found = [one for one in origins if one.made or _has_nan(one.tensor)]
    if len(found) > 1:
        found = [one for one in found if _reaches(one, found, path, targets)] or found
    return found[0] if found else of_infinity or next(iter(origins), None)


def _walk(
    record: CodeRecord, targets: Sequence[Any]
) -> tuple[list[ValueOrigin], ValueOrigin | None, list[RecordedOperation]]:
    """Walk back from the targets; return the origins in the order of the forward pass, and the operations since.

    The second value is the first operation that makes NaN from infinity that entered.
    """
    needed = {key(target): target for target in targets}
    readers: dict[int, RecordedOperation] = {}
    origins: list[ValueOrigin] = []
    path: list[RecordedOperation] = []
    of_infinity = None
    inner = {key(one) for operation in record.operations if operation.backward is None for one in operation.outputs}
    for operation in reversed(record.operations):
        written = [one for one in operation.variables_written if key(one) in needed]
        # The result of a custom gradient's function was made by an operation inside it.
        own = operation.outputs if operation.backward is None else (o for o in operation.outputs if key(o) not in inner)
        made = [one for one in own if key(one) in needed]
        if not made and not written:
            continue
        path.append(operation)
        inputs = [one for one in operation.inputs if _floating(one)]
        behind = [one for one in _selected(operation, inputs) if not finite(one)]
        behind += [one for one in operation.inputs if one.dtype == tf.variant]
        if operation.name.startswith("Assign") and operation.name.endswith("VariableOp"):
            for handle in written if behind or operation.name == "AssignVariableOp" else ():
                needed.pop(key(handle))
        elif operation.name in READING and (held := record.variables.get(key(operation.inputs[0]))) is not None:
            needed[key(operation.inputs[0])], readers[key(operation.inputs[0])] = held, operation
        for one in behind:
            needed[key(one)], readers[key(one)] = one, operation
        for output in made:
            del needed[key(output)]
        tensor = next(filter(_spoilt, made), None)
        if tensor is None or operation.name in READING:
            continue
        if behind and _has_nan(tensor) and not any(map(_has_nan, inputs)):
            of_infinity = ValueOrigin(tensor, operation, True, len(path))
        elif not behind:
            origins.append(ValueOrigin(tensor, operation, bool(inputs) or operation.name in OF_INTEGERS, len(path)))
    before = [ValueOrigin(one, None, False, len(path), readers.get(name)) for name, one in needed.items() if _held(one)]
    return [*before, *reversed(origins)], of_infinity, path[::-1]


def _held(tensor: Any) -> bool:
    """Whether a tensor, or a variable, holds a number that is not finite."""
    return _spoilt(tf.convert_to_tensor(tensor) if hasattr(tensor, "handle") else tensor)


def _selected(operation: RecordedOperation, inputs: Sequence[Any]) -> list[Any]:
    """The inputs; for tf.where only those whose non-finite elements are selected."""
    if operation.name not in WHERE:
        return list(inputs)
    chosen, branches = np.asarray(operation.inputs[0].numpy()), operation.inputs[1:]
    pairs = zip((chosen, ~chosen), branches, strict=True)
    return [one for used, one in pairs if np.any(used & ~np.isfinite(as_array(one)))]


def _reaches(
    origin: ValueOrigin, others: Sequence[ValueOrigin], path: Sequence[RecordedOperation], targets: Sequence[Any]
) -> bool:
    """Whether a target is still not finite if, of several origins, only this one is.

    Also True if an operation on the path cannot run again.
    """
    changed = {key(one.tensor): _harmless(one.tensor) for one in others if one is not origin}
    with state_restored():
        for operation in path:
            inputs = [changed.get(key(one), one) for one in operation.inputs]
            if any(key(one) in changed for one in operation.outputs) or all(map(is_, inputs, operation.inputs)):
                continue
            if operation.states_written:
                return True
            if (outputs := operation.rerun_if_it_can(inputs)) is None:
                return True
            changed |= {key(old): new for old, new in zip(operation.outputs, outputs, strict=True)}
    return not all(finite(changed.get(key(target), target)) for target in targets)


def _harmless(tensor: Any) -> Any:
    value = tf.convert_to_tensor(tensor)
    return tf.where(tf.constant(np.isfinite(as_array(value))), value, tf.cast(HARMLESS, value.dtype))


def _culpable_argument(operation: RecordedOperation) -> int | None:
    """The position of the argument to name: the divisor of a division, else the first floating one, else the first."""
    floating = [i for i, one in enumerate(operation.inputs) if _floating(one)]
    if floating:
        return floating[-1] if "Div" in operation.name else floating[0]
    return 0 if operation.name in OF_INTEGERS else None


def _worst(operation: RecordedOperation, argument: Any) -> tuple[int, ...]:
    """The element with the smallest magnitude of a divisor, else with the largest."""
    sizes = np.abs(as_array(argument))
    flat = np.argmin(sizes) if "Div" in operation.name else np.argmax(sizes)
    return tuple(int(i) for i in np.unravel_index(int(flat), sizes.shape))


def maker(record: CodeRecord, tensor: Any) -> RecordedOperation | None:
    """The operation that made a tensor, or the tensor from which its elements were taken."""
    for operation in reversed(record.operations):
        if any(output is tensor for output in operation.outputs):
            if operation.name not in MOVING:
                return operation
            tensor = operation.inputs[0]
    return None


def maker_for(record: CodeRecord, operation: RecordedOperation, tensor: Any) -> RecordedOperation | None:
    """The maker of an argument of an operation; for a logarithm of 1 - tanh(u)**2 the tanh, if that is rounded to 1."""
    found = maker(record, tensor)
    if operation.name not in ("Log", "Log1p"):
        return found
    waiting, squared = [found], False
    while waiting:
        one = waiting.pop()
        if one is not None and one.name in OF_SQUARES:
            squared = squared or one.name in SQUARING
            waiting += [maker(record, each) for each in one.inputs]
        elif one is not None and one.name == "Tanh" and squared and np.any(np.abs(as_array(one.outputs[0])) == 1):
            return one
    return None if found is not None and found.name == "Tanh" else found


NOT_WALKED = {"compat", "raw_ops", "v1", "v2", "src"}
"""Modules with other names for the same functions."""


def called(operation: RecordedOperation) -> str:
    """The public function that the code calls to run an operation: `tf.math.log`, or `tf.norm (Sqrt)`."""
    names = _names("keras" in sys.modules)
    public = next((names[code] for code in reversed(operation.codes) if code in names), None)
    if public is None or operation.inside:
        return operation.name
    same = public.split(".")[-1].replace("_", "") == operation.name.lower()
    return public if same else f"{public} ({operation.name})"


@lru_cache(maxsize=2)
def _names(keras_too: bool) -> Mapping[CodeType, str]:
    """The shortest names of the public functions, by their code."""
    found: dict[CodeType, str] = {}
    modules = {"tf": tf, **({"keras": sys.modules["keras"]} if keras_too else {})}
    for name, code in (pair for library, module in modules.items() for pair in _functions(library, module)):
        found[code] = min(found.get(code, name), name, key=lambda one: (len(one), one))
    return found


def _functions(name: str, module: ModuleType) -> Iterator[tuple[str, CodeType]]:
    for attribute, one in vars(module).items():
        if isinstance(one, ModuleType):
            inside = one.__name__.startswith(("tensorflow._api.", "keras."))
            if inside and attribute not in NOT_WALKED and not attribute.startswith("_"):
                yield from _functions(f"{name}.{attribute}", one)
        elif callable(one) and not isinstance(one, type) and not attribute.startswith("_"):
            code = getattr(inspect.unwrap(tf_decorator.unwrap(one)[1]), "__code__", None)
            if code is not None:
                yield f"{name}.{attribute}", code


def remedy_for_value(
    operation: RecordedOperation,
    behind: RecordedOperation | None,
    value: complex | None,
    result: complex,
    dtype: str,
) -> str:
    """The remedy for an operation that gives `result`, of this dtype, at `value` of its argument, if it has one.

    `behind` made the argument.
    """
    line, value = operation.quoted, 0.0 if value is None else value
    known = _instead(operation, behind, value, line)
    overflow = cmath.isinf(result) and value != 0
    if known is None and not (overflow and operation.name in OVERFLOWING):
        known = _in_line(line, VALUES.get(operation.name))
    if known is None and overflow:
        known = _in_line(line, TOO_LARGE.format(dtype=dtype))
    return known or f"keep the arguments of {line} away from that value"


def _in_line(line: str, remedy: str | None) -> str | None:
    return None if remedy is None else f"in {line}, {remedy}"


def _instead(operation: RecordedOperation, behind: RecordedOperation | None, value: complex, line: str) -> str | None:
    """The remedy for a logarithm of the result of `behind`, and for the poles of the log-gamma function."""
    if operation.name in ("Log", "Log1p") and behind is not None and behind.name in LOGARITHMS:
        return f"{behind.name} returns {value:.6g}, of which a logarithm is taken: write {LOGARITHMS[behind.name]}"
    if behind is not None and behind.name == "Tanh" and operation.name in OF_TANH:
        return f"the hyperbolic tangent{at(behind.line)} is rounded to -1 or 1: in {line}, {OF_TANH[operation.name]}"
    if operation.name == "Lgamma" and value.real <= 0:
        return f"keep the argument of {line} away from the poles at 0, -1, -2, …"
    return None


def remedy_for(
    operation: RecordedOperation,
    behind: RecordedOperation | None,
    unused: RecordedOperation | None,
    otherwise: bool,
    value: complex,
) -> str:
    """The remedy for an operation at `value` of its argument, which `behind` made.

    `unused` is a tf.where that does not select its result; `otherwise`: the result is the last argument of that.
    """
    line = operation.quoted
    if unused is not None:
        x, f = ("1.0, x", "other, f(safe)") if otherwise else ("x, 1.0", "f(safe), other")
        return (
            f"give {line} an argument that is harmless where it is not used: safe = tf.where(condition, {x}), then "
            f"tf.where(condition, {f}) with the same condition"
        )
    known = _instead(operation, behind, value, line) or _in_line(line, REMEDIES.get(operation.name))
    return known or f"keep the arguments of {line} away from that value, or give it a gradient with tf.custom_gradient"
