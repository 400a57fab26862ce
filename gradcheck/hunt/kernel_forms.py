"""Finds the kernel of TensorFlow that an operation of the catalogue runs, by running it on some arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf
from msgspec.structs import replace
from tensorflow.python.framework import op_def_registry

from gradcheck.autodiff.mode import PLAIN
from gradcheck.check import check
from gradcheck.defects.kernel_defects import KernelCall, applies, differs, is_axis, plain_setting
from gradcheck.defects.records import Defect, KernelForm, Severity
from gradcheck.defects.region import ANY, Region, names
from gradcheck.hunt.evaluation import single, values_of
from gradcheck.hunt.graph_json import from_document
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.drawn_arguments import drawn_arguments
from gradcheck.operations.spec import OpSpec
from gradcheck.result import Verdict
from gradcheck.tracing.kernels import RIGHT_GRADIENT
from gradcheck.tracing.operation import attribute_kinds
from gradcheck.tracing.record import RecordedOperation
from gradcheck.tracing.recorder import recorded
from gradcheck.typing import Array

LARGEST = 64
"""The most elements of an input that is kept as a setting."""
OTHERS = 12
"""The most kernels of other operations that are checked."""
SIZES = ("num_segments", "size", "crop_size")
"""TensorFlow's names of inputs that only give the size of the output."""
SQUARED = (tf.float32, tf.float64, tf.complex64, tf.complex128)
"""The types of outputs whose derivatives are checked."""
SETTING_TYPES = ("int", "bool", "string", "list(int)")
"""The types of a kernel's attributes that say what it computes."""


@dataclass(frozen=True)
class KernelSample:
    """The kernel that an operation ran for some arguments and attributes."""

    arguments: Sequence[Array]
    attributes: Mapping[str, Any]
    kernel: RecordedOperation

    @cached_property
    def inputs(self) -> list[Array]:
        """The kernel's inputs; NaN for one whose value cannot be read."""
        unread = (tf.resource, tf.variant)
        return [np.full((), np.nan) if one.dtype in unread else one.numpy() for one in self.kernel.inputs]

    @cached_property
    def places(self) -> list[int | None]:
        """For each argument, the number of the kernel's input with its values; None if there is none."""
        return [
            next((place for place, one in enumerate(self.inputs) if _alike(one, argument)), None)
            for argument in self.arguments
        ]

    @property
    def reshaped(self) -> bool:
        """Whether an argument reaches the kernel in another shape, other than with a leading dimension of one."""
        pairs = zip(self.places, self.arguments, strict=True)
        return any(
            self.inputs[place].shape not in (one.shape, (1, *one.shape)) for place, one in pairs if place is not None
        )

    @property
    def rows(self) -> bool:
        """Whether the arguments are the only rows of the inputs."""
        pairs = [(place, one) for place, one in zip(self.places, self.arguments, strict=True) if place is not None]
        return bool(pairs) and all(self.inputs[place].shape == (1, *one.shape) for place, one in pairs)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The kernel's attributes, and its other inputs by number, as plain values; None for large ones."""
        definition = op_def_registry.get(self.kernel.name)
        kinds, given = attribute_kinds(self.kernel.name), self.kernel.operation.settings
        found = {name: _plain(value) for name, value in given.items() if kinds.get(name) in SETTING_TYPES}
        for place, value in enumerate(self.inputs):
            if place not in self.places and not _is_size(definition, place):
                found[str(place)] = plain_setting(value) if value.size <= LARGEST else None
        return found

    @property
    def call(self) -> KernelCall:
        """The call of the kernel, in the form in which records are asked about it."""
        attributes = {name: value for name, value in self.settings.items() if not name.isdigit()}
        return KernelCall(self.kernel.name, self.inputs, attributes, {self.output})

    @property
    def output(self) -> int:
        """The first of the kernel's outputs that another operation, or nothing but the result, uses."""
        return next((place for place, one in enumerate(self.kernel.outputs) if id(one) in self._read), 0)

    _read: frozenset[int] = frozenset()


def _is_size(definition: Any, place: int) -> bool:
    listed = [] if definition is None else definition.input_arg
    return place < len(listed) and listed[place].name in SIZES


def with_kernels(defect: Defect) -> Defect:
    """A record with the kernels that its regions' operations run; none if they are not single kernels.

    A defect that needs certain operations before it is not a kernel's fault, nor is one that raises, unless the kernel
    that the record's graph runs raises by itself. Nor are kernels given if other operations run them in the regions and
    are right, all of them. A record of a mode keeps what it says.
    """
    if defect.signature.taken != PLAIN:
        return defect
    regions = [one for one in defect.regions if one.op != ANY and not (one.producers or one.neighbours)]
    ops = dict.fromkeys(region.op for region in regions)
    forms = [form for op in ops for form in _forms(op, [one for one in regions if one.op == op], defect)]
    if defect.severity is Severity.RAISES:
        kernels = {form.kernel for form in forms}
        own = [one.kernel for op in ops for one in own_samples(defect, op) if one.kernel.name in kernels]
        forms = forms if all(wrong_alone(kernel, defect.signature.order) for kernel in own) else []
    found = replace(defect, kernels=tuple(forms))
    return found if told_apart(found) else replace(defect, kernels=())


def told_apart(defect: Defect) -> bool:
    """Whether any other operation that runs a record's kernels in its regions is wrong there; True if none runs
    them."""
    ops, order = {region.op for region in defect.regions}, defect.signature.order
    kernels = {form.kernel for form in defect.kernels}
    others = [spec for spec in CATALOGUE.values() if kernels & {*spec.gradients} and not names(spec.name) & ops]
    samples = (sample for spec in others for sample in drawn_samples(spec) if sample.kernel.name in kernels)
    inside = [*islice((sample.kernel for sample in samples if applies(defect, sample.call, order)), OTHERS)]
    return not inside or any(wrong_alone(kernel, order) for kernel in inside)


def own_samples(defect: Defect, op: str) -> Iterator[KernelSample]:
    """The samples of an operation in the record's own graph."""
    graph = from_document(defect.graph, "$.graph")
    values = values_of(graph)
    for _, node in graph.positions():
        if op in names(node.op):
            yield from _sample(CATALOGUE[node.op], [values[parent] for parent in node.parents], node.attributes)


def wrong_alone(kernel: RecordedOperation, order: int) -> bool:
    """Whether the derivative of a kernel by itself, at its recorded inputs, disagrees with finite differences."""
    floating = [place for place, one in enumerate(kernel.inputs) if one.dtype.is_floating or one.dtype.is_complex]

    def alone(*tensors: Any) -> list[Any]:
        inputs = list(kernel.inputs)
        for place, tensor in zip(floating, tensors, strict=True):
            inputs[place] = tensor
        outputs = kernel.operation.run(inputs)
        # The square shows errors for a cotangent that depends on the inputs.
        return [part for one in outputs if one.dtype in SQUARED for part in (one, one**2)]

    found = check(alone, *(kernel.inputs[place] for place in floating), order=order)
    return found.orders[order].verdict is not Verdict.AGREE


def _forms(op: str, regions: Sequence[Region], defect: Defect) -> list[KernelForm]:
    """The kernel that an operation runs, once for each output that the operation may be about; or none."""
    samples = list(drawn_samples(CATALOGUE[op])) or list(own_samples(defect, op))
    outputs = sorted({one.output for one in samples})
    forms = [form_of(op, regions, [one for one in samples if one.output == output]) for output in outputs]
    return [form for form in forms if form is not None] if None not in forms else []


def form_of(op: str, regions: Sequence[Region], samples: Sequence[KernelSample]) -> KernelForm | None:
    """The kernel that an operation runs, in the detail that its regions need; None if it is not a single kernel."""
    first = samples[0]
    if (
        op_def_registry.get(first.kernel.name) is None
        or len({(one.kernel.name, tuple(one.places), one.rows) for one in samples}) > 1
    ):
        return None
    if any(first.places[argument] is None for one in regions for argument in one.deciding):
        return None
    if any(one.reshaped for one in samples) and any(_minds_shape(region) for region in regions):
        return None
    needed = {name for one in regions for name in one.asked}
    keys = {name: _key_of(name, samples) for name in first.attributes}
    if any(keys.get(name) is None for name in needed):
        return None
    mapped = {name: key for name, key in keys.items() if key is not None}
    fixed = {}
    for key, value in first.settings.items():
        # A single number that derivatives could be taken by does not decide: formulas take it smoothly.
        smooth = isinstance(value, (float, complex)) and value == value
        if key not in mapped.values() and not smooth and not _follows(key, samples, needed):
            fixed[key] = value
            if value is None or any(one.settings.get(key) != value for one in samples):
                return None
    attrs = {name: int(key) if key.isdigit() else key for name, key in mapped.items() if name in needed}
    return KernelForm(op, first.kernel.name, tuple(first.places), attrs, fixed, first.output, first.rows)


def _follows(key: str, samples: Sequence[KernelSample], needed: set[str]) -> bool:
    """Whether a setting follows from attributes alone that take few values and that no region asks about."""
    settings: dict[str, set[str]] = {}
    for one in samples:
        names = {name: value for name, value in one.attributes.items() if name not in needed}
        settings.setdefault(repr(sorted(names.items())), set()).add(repr(one.settings.get(key)))
    varies = len({value for values in settings.values() for value in values}) > 1
    return varies and 2 * len(settings) < len(samples) and all(len(values) == 1 for values in settings.values())


def drawn_samples(spec: OpSpec) -> Iterator[KernelSample]:
    """Samples of an operation for arguments of some shapes, drawn from its domains, with some of its attributes."""
    for arguments, attributes in drawn_arguments(spec):
        yield from _sample(spec, arguments, attributes)


def _sample(spec: OpSpec, arguments: Sequence[Array], attributes: Mapping[str, Any]) -> Iterator[KernelSample]:
    """The only kernel of an operation whose gradient is not known to be right; nothing where it raises."""
    record = recorded(lambda *tensors: single(spec)(*tensors, **attributes), [tf.constant(one) for one in arguments])
    if record.error is not None:
        return
    kernels = [one for one in record.operations if one.name not in RIGHT_GRADIENT or one.name in spec.gradients]
    own = [one for one in kernels if one.name in spec.gradients] if len(kernels) > 1 else kernels
    read = frozenset(id(one) for event in record.operations for one in event.inputs) | {id(record.result)}
    plain = {one.name for one in record.operations} <= RIGHT_GRADIENT | {one.name for one in own}
    kernel = own[0] if len(own) == 1 and plain else RecordedOperation(0, "", (), ())
    yield KernelSample([np.asarray(one) for one in arguments], attributes, kernel, read)


def _key_of(name: str, samples: Sequence[KernelSample]) -> str | None:
    """The kernel's setting that always equals the operation's attribute of this name."""
    keys = sorted(samples[0].settings, key=lambda key: key != name)
    return next((key for key in keys if all(_is_setting(one, key, name) for one in samples)), None)


def _is_setting(sample: KernelSample, key: str, name: str) -> bool:
    given, wanted = sample.settings.get(key), sample.attributes.get(name)
    axis = is_axis(sample.kernel.name, key)
    rank = max((one.ndim for one in sample.arguments), default=0) if axis else 0
    if axis and wanted is None:
        wanted = tuple(range(rank))
    if axis and isinstance(given, tuple) and isinstance(wanted, int):
        wanted = (wanted,)
    return (
        given is not None and isinstance(given, bool) == isinstance(wanted, bool) and not differs(given, wanted, rank)
    )


def _minds_shape(region: Region) -> bool:
    """Whether a region depends on the shape in which the elements come, as a special set of the operation may."""
    return bool(region.ranks) or region.special in CATALOGUE[region.op].special


def _alike(one: Array, other: Array) -> bool:
    same = one.dtype.kind == other.dtype.kind and one.size == other.size
    return same and bool(np.allclose(one.ravel(), other.ravel(), rtol=1e-6, atol=0.0))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value
