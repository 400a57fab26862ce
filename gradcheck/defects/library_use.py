"""Calls of public functions made of several kernels, and the known defects in whose regions they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gradcheck.defects.kernel_defects import defects_of_operation, in_regions
from gradcheck.defects.kernel_use import LostDerivative
from gradcheck.defects.records import Defect
from gradcheck.defects.region import COMPLEX
from gradcheck.result import Place
from gradcheck.tracing.library_functions import LibraryCall, LibraryForm, OperationCall, value

FoundDefect = tuple[Defect, int, bool | None]


OF_LAYERS = frozenset(
    (
        ("keras.ops.layer_normalization", "keras.layers.LayerNormalization"),
        ("keras.ops.normalize", "keras.layers.UnitNormalization"),
        ("keras.ops.adaptive_max_pool", "keras.layers.AdaptiveMaxPooling3D"),
    )
)
"""Functions, and the layers that call them and do nothing else."""


@dataclass(frozen=True)
class LibraryUse:
    """A call of a public function that derivatives go through; `KernelUse` is the same for a kernel.

    `kernels` are those that it runs there, with the outputs that are used; `dependent` identifies the tensors and
    variables that derivatives are taken with respect to, or that depend on these. Either is None if it was not
    determined. `layer` and `kind` are the name and the public class of the layer of Keras that calls it.
    """

    call: LibraryCall
    place: Place | None
    kernels: Mapping[str, frozenset[int]] | None = None
    dependent: Set[int] | None = None
    where: str = ""
    layer: str = ""
    kind: str = ""

    @property
    def kernel(self) -> str:
        """The public name of the function, or of the layer that is nothing but a call of it."""
        function = self.call.forms[0].function.removesuffix(".call")
        return self.kind if (function, self.kind) in OF_LAYERS else function

    def defects(self) -> Iterator[FoundDefect]:
        """The known defects of the function with their orders, and whether they apply here (None: not known).

        Defects that apply at no values are left out.
        """
        found: dict[tuple[str, int], FoundDefect] = {}
        for form in self.call.forms:
            operation = self._operation(form)
            for one in () if operation is None else _defects_of(form, operation, apart=self._apart(form)):
                found.setdefault((one[0].name, one[1]), one)
        yield from found.values()

    def lost(self) -> tuple[LostDerivative, ...]:
        """Nothing: a missing derivative is reported for the kernel that lacks it."""
        return ()

    def _operation(self, form: LibraryForm) -> OperationCall | None:
        """The call as the operation of a form; None if it is not that, or if no derivative is taken by its sources."""
        given = self.call.given
        if self.dependent is not None and not any(self.call.keys[name] & self.dependent for name in form.sources):
            return None
        if self.kernels is not None and form.kernel:
            outputs = self.kernels.get(form.kernel, frozenset())
            if not outputs or (form.output is not None and form.output not in outputs):
                return None
        try:
            return form.read(**{name: given[name] for name in form.parameters})
        except (AttributeError, IndexError, TypeError, ValueError):  # a parameter of a kind that no record is about
            return None

    def _apart(self, form: LibraryForm) -> bool:
        """Whether no two parameters of a form share a tensor."""
        keys = [self.call.keys[name] for name in form.parameters]
        return not any(one & other for one, other in combinations(keys, 2))


def _defects_of(form: LibraryForm, operation: OperationCall, *, apart: bool) -> Iterator[FoundDefect]:
    arguments = [value(one) for one in operation.arguments]
    is_complex = any(one is not None and np.iscomplexobj(one) for one in arguments)
    op = COMPLEX * is_complex + form.op
    unknown = [None] * len(arguments)
    for order in form.orders:
        for defect in defects_of_operation(op, order):
            if in_regions(defect, op, operation.attributes, unknown, order) is not False:
                yield (
                    defect,
                    order,
                    in_regions(defect, op, operation.attributes, arguments, order, apart=apart, drawn=False),
                )
