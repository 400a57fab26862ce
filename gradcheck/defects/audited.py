"""The result of an audit: operations with known defects or without a derivative, and what the audit did not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from gradcheck.defects.kernel_use import KernelUse, LostDerivative
from gradcheck.defects.library_use import LibraryUse
from gradcheck.defects.records import Defect
from gradcheck.result import Place
from gradcheck.tracing.library_functions import FUNCTIONS

HERE = {True: "in its region with these values", None: "perhaps in its region", False: "not in its region"}
UNKNOWN = "; what decides is not known here"


@dataclass(frozen=True)
class DefectHere:
    """A known defect of an operation at one order; `inside` says whether the operation lies in its region.

    It is None if that depends on what is not known: values that no run gave, or the operations before and after.
    """

    defect: Defect
    order: int
    inside: bool | None

    @property
    def about(self) -> str:
        """The kind of defect, and whether it applies here, in words."""
        one = self.defect
        here = HERE[self.inside] + (UNKNOWN if self.inside is None else "")
        return f"{one.category}, {one.severity} at order {self.order}, since TensorFlow {one.releases.since}; {here}"

    def lines(self, told: Mapping[str | None, str], others: Sequence[DefectHere] = (), layer: str = "") -> list[str]:
        """The lines to print, with the same defect's `others` at other orders, and the remedy for a `layer`, if any.

        A remedy that was printed before (in `told`) is replaced by the name of the record that has it.
        """
        one = self.defect
        found = [f"  {one.name}: {one.title}", *(f"    {each.about}" for each in (self, *others))]
        if self.inside is not False:
            found += [f"    link    {one.upstream}"] if one.upstream else []
            remedy = [f"as for {told[one.remedy]}"] if one.remedy in told else list(remedy_lines(one, layer))
            labels = ["remedy", *[""] * len(remedy)]
            found += [f"    {label:<8}{line}" for label, line in zip(labels, remedy, strict=False)]
        return found


@dataclass(frozen=True)
class AuditedOperation:
    """An operation with something to report, and the line that runs it, `count` times.

    `kernel` is TensorFlow's name, or that of a public function or layer made of several kernels, such as tf.norm;
    `where` says where the operation is if no line of the code runs it. `layer` and `kind` are the name and the public
    class of the layer of Keras that it runs in, if any; then `place` may be the line that makes the layer.
    """

    kernel: str
    place: Place | None
    where: str
    count: int
    defects: tuple[DefectHere, ...]
    lost: tuple[LostDerivative, ...]
    layer: str = ""
    kind: str = ""

    @property
    def inside(self) -> bool:
        """Whether it lies in the region of a known defect."""
        return any(one.inside for one in self.defects)

    @property
    def rank(self) -> int:
        """0 where it is inside of a region, 1 where it may be, 2 where a derivative is lost, 3 for all others."""
        answers = [one.inside for one in self.defects]
        return 0 if True in answers else 1 if None in answers else 2 if self.lost else 3

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        of_kind = f" ({self.kind})" if self.kind not in ("", self.kernel) else ""
        layer = f"layer {self.layer}{of_kind}" if self.layer else ""
        at = ", ".join(filter(None, (layer, self.where if self.place is None else str(self.place))))
        lines = [f"{self.kernel}{times}: {at}"]
        told: dict[str | None, str] = {}
        records: dict[str, list[DefectHere]] = {}
        for one in sorted(self.defects, key=lambda one: (one.inside is False, one.inside is None, one.order)):
            records.setdefault(one.defect.name, []).append(one)
        for one, *others in records.values():
            lines += one.lines(told, others, self.kind)
            if one.inside is not False and one.defect.remedy is not None:
                told.setdefault(one.defect.remedy, one.defect.name)
        lines += [f"  order {one.order} {one.outcome}: {one.why}" for one in self.lost]
        return "\n".join(lines)


@dataclass(frozen=True)
class AuditResult:
    """The known defects of the operations of some code or model; made to be printed.

    `operations` are those with something to report, those in a region first. `looked_at` counts all operations that
    were seen, `kernels` their kernels. `notes` say what was not seen. `order` is the highest order of the derivatives
    that the code takes, and 2 if it takes none, since its caller may take either; `derives` says whether it does.
    """

    name: str
    operations: tuple[AuditedOperation, ...]
    looked_at: int
    kernels: int
    notes: tuple[str, ...] = ()
    order: int = 2
    derives: bool = False

    @property
    def wrong(self) -> tuple[AuditedOperation, ...]:
        """The operations whose derivative is wrong here, at an order that the code takes."""
        taken = (any(each.inside and each.order <= self.order for each in one.defects) for one in self.operations)
        return tuple(one for one, wrong in zip(self.operations, taken, strict=True) if wrong)

    @property
    def inside(self) -> tuple[AuditedOperation, ...]:
        """The operations that lie in the region of a known defect, at either order."""
        return tuple(one for one in self.operations if one.inside)

    @property
    def headline(self) -> str:
        """The findings in one line."""
        ranks = [one.rank for one in self.operations]
        lost = sum(bool(one.lost) for one in self.operations)
        parts = [
            (ranks.count(0), "in the region of a known defect"),
            (ranks.count(1), "perhaps in one"),
            (
                sum(bool(one.defects) for one in self.operations) - ranks.count(0) - ranks.count(1),
                "outside of the region of one",
            ),
            (lost, "without a derivative"),
        ]
        told = ", ".join(f"{count} {words}" for count, words in parts if count)
        if len(self.wrong) < ranks.count(0):
            told += f"; the code takes first derivatives alone, of which {len(self.wrong) or 'none'} is wrong here"
        none = "no operation with a known defect" if self.looked_at else "no operation of TensorFlow ran"
        return f"gradcheck audit of {self.name}: {told or none}"

    def __str__(self) -> str:
        counts = (self.looked_at, "operation"), (self.kernels, "kernel")
        operations, kernels = (f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
        seen = f"looked at {operations} of {kernels}; not a proof that the others are right"
        if not self.looked_at:
            seen = "looked at nothing: what NumPy or Python computes, or hands on as it is, has no derivative"
        return "\n".join([self.headline, *map(str, self.operations), seen, *(f"not seen: {one}" for one in self.notes)])


def audited(
    name: str,
    uses: Iterable[KernelUse | LibraryUse],
    notes: Iterable[str],
    order: int = 2,
    *,
    derives: bool = False,
) -> AuditResult:
    """The audit of kernels and calls where they are used, in code that takes derivatives up to this `order`.

    Equal ones of one line are counted.
    """
    used = [one for one in uses if one.kernel != "Const"]
    seen = [one for one in used if isinstance(one, KernelUse)]
    told = [one for use in used if (one := _operation(use)) is not None]
    told.sort(key=lambda one: (one.rank, repr(_alike(one))))
    groups = [list(group) for _, group in groupby(told, key=lambda one: (one.rank, repr(_alike(one))))]
    merged = (replace(group[0], count=len(group)) for group in groups)
    return AuditResult(name, tuple(merged), len(seen), len({one.kernel for one in seen}), tuple(notes), order, derives)


def _operation(use: KernelUse | LibraryUse) -> AuditedOperation | None:
    defects, lost = tuple(DefectHere(*found) for found in use.defects()), use.lost()
    if not defects and not lost:
        return None
    return AuditedOperation(use.kernel, use.place, use.where, 1, defects, lost, use.layer, use.kind)


def _alike(one: AuditedOperation) -> tuple[Any, ...]:
    return one.kernel, one.place, one.defects, one.lost, one.layer


LAYER_RECORDS = frozenset(("keras_layer_normalization", "keras_prelu"))
"""The operations of the examples of records that are about layers."""
LAYERS = {
    "keras.layers.LayerNormalization": """\
class Normalization(keras.layers.LayerNormalization):
    def call(self, x):
        mean = tf.reduce_mean(x, self.axis, keepdims=True)
        variance = tf.math.reduce_variance(x, self.axis, keepdims=True)
        y = (x - mean) * tf.math.rsqrt(variance + self.epsilon)
        y = y if self.gamma is None else y * self.gamma
        return y if self.beta is None else y + self.beta""",
    "keras.layers.BatchNormalization": """\
class Normalization(keras.layers.BatchNormalization):
    def _moments(self, x, mask):
        axes = [axis for axis in range(len(x.shape)) if axis != self.axis % len(x.shape)]
        return tf.reduce_mean(x, axes), tf.math.reduce_variance(x, axes)""",
    "keras.layers.GroupNormalization": """\
class Normalization(keras.layers.GroupNormalization):  # with the channels last
    def call(self, x):
        groups = tf.reshape(x, [tf.shape(x)[0], -1, self.groups, x.shape[-1] // self.groups])
        mean = tf.reduce_mean(groups, [1, 3], keepdims=True)
        variance = tf.math.reduce_variance(groups, [1, 3], keepdims=True)
        y = tf.reshape((groups - mean) * tf.math.rsqrt(variance + self.epsilon), tf.shape(x))
        y = y if self.gamma is None else y * self.gamma
        return y if self.beta is None else y + self.beta""",
    "keras.layers.PReLU": """\
class Rectifier(keras.layers.PReLU):
    def call(self, x):
        return (1 + self.alpha) / 2 * x + (1 - self.alpha) / 2 * tf.abs(x)""",
}
"""For the layers that these records are about, layers with the same weights and the right derivatives."""


def remedy_lines(defect: Defect, layer: str = "") -> Iterator[str]:
    """The code with the same value and the right derivative, as lines; nothing where none is known.

    For a layer, by its public name, the code is that of the layer, if it is known. Where the record's example has more
    operations than the one at fault, the code has them, too, and says so.
    """
    if layer in LAYERS and defect.graph.nodes[-1].op in LAYER_RECORDS:
        yield f"use another layer instead of {layer}, with the same weights:"
        yield from (f"    {line}" for line in LAYERS[layer].split("\n"))
    elif defect.remedy is not None:
        inputs = "x" if len(defect.graph.inputs) == 1 else "x1, x2, …"
        whole = f"{', then '.join(FUNCTIONS.get(node.op, node.op) for node in defect.graph.nodes)} of {inputs}"
        if len(defect.graph.nodes) == 1:
            yield f"instead of {whole} write, as for the example of the record, with the result y:"
        else:
            yield (
                f"write the operation at fault, which the record calls {defect.signature.operation}, otherwise; the "
                f"example of the record is y = {whole}, and the code that is right for all of it:"
            )
        yield from (f"    {line}" for line in defect.remedy.split("\n"))
