"""The known defects in whose regions a kernel of TensorFlow lies at actual inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from gradcheck.autodiff.mode import NUMBER_TYPES, PLAIN, Mode
from gradcheck.defects import known
from gradcheck.defects.records import Defect, KernelForm
from gradcheck.defects.region import COMPLEX, Region, names
from gradcheck.typing import Array

IN_NUMBER_TYPES = tuple(Mode(mode=mode) for mode in NUMBER_TYPES)
UNKNOWN = np.zeros(())
"""Stands for an argument whose value is not known, where the value does not matter."""
AXES = ("axis", "reduction_indices", "dim", "dims", "axes")
"""TensorFlow's names for inputs that name dimensions; negative ones count from the end."""


@dataclass(frozen=True)
class KernelCall:
    """A kernel, its inputs as arrays (None: no value is known), its attributes, the outputs that are used (None: any).

    `attributes` are Python's values; those of tensors, such as an axis, count as inputs. `is_complex` says whether it
    takes complex numbers, if no known input does. Without `values`, the inputs that derivatives are taken with respect
    to count as unknown.
    """

    kernel: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any]
    outputs: Collection[int] | None = None
    is_complex: bool = False
    values: bool = True

    def argument(self, place: int) -> Array | None:
        """An input as an argument of a region's operation; None where it is not known, or counts as unknown."""
        value = _at(self.inputs, place)
        return None if value is None or (value.dtype.kind in "fcV" and not self.values) else value


def defects_at(kernel: str, inputs: Sequence[Any], attributes: Mapping[str, Any], order: int) -> tuple[Defect, ...]:
    """The known defects of the installed TensorFlow that apply where a kernel runs with these inputs and attributes.

    `inputs` are array-like, None where a value is not known.

    >>> [one.name for one in defects_at("Cumprod", [[0.0, 2.0], 0], {"exclusive": False, "reverse": False}, 1)]
    ['cumprod-zero-order1']
    """
    call = KernelCall(kernel, [None if value is None else np.asarray(value) for value in inputs], attributes)
    return tuple(defect for defect in defects_of(kernel, order) if applies(defect, call, order))


def defects_of(kernel: str, order: int) -> tuple[Defect, ...]:
    """The known defects that a kernel has at all, at some inputs, in the installed TensorFlow."""
    found = _by_kernel(known.library_folder()).get(kernel, ())
    return tuple(one for one in found if any(region.concerns(order) for region in one.regions))


def applies(defect: Defect, call: KernelCall, order: int, *, drawn: bool = True) -> bool | None:
    """Whether a call lies in a region of a defect at this order; None if that depends on what is not known.

    Not known are missing values, the effect of inputs other than those for which a record holds, and what comes before
    the inputs, arrives at the outputs or is raised; for `drawn` see `in_regions`.
    """
    answers = [
        answer if certain or not answer else None
        for form in defect.kernels
        if (certain := _holds(form, call)) is not False
        for op, attrs, arguments in _translated(form, call)
        for answer in (in_regions(defect, op, attrs, arguments, order, drawn=drawn),)
    ]
    return _any(answers)


def in_regions(
    defect: Defect,
    op: str,
    attrs: Mapping[str, Any],
    arguments: Sequence[Array | None],
    order: int,
    *,
    apart: bool | None = None,
    drawn: bool = True,
) -> bool | None:
    """Whether an operation lies in a region of a defect at this order; None if that depends on what is not known.

    `apart`: whether no two arguments are the same tensor; if it is None, different values show that. Regions in which
    generation draws, because most of what lies inside is right, only count where the operation is known to be wrong:
    without `drawn`, they give None.
    """
    if apart is None and all(_differ(*pair) for pair in combinations(arguments, 2)):
        apart = True
    answers = ((region, _inside(region, op, attrs, arguments, order, apart)) for region in defect.regions)
    return _any([None if inside and region.drawn and not drawn else inside for region, inside in answers])


def defects_of_operation(op: str, order: int) -> tuple[Defect, ...]:
    """The known defects that an operation of the catalogue has at all, in the installed TensorFlow."""
    wanted, known_here = names(op), _of_folder(known.library_folder())
    plain = (one for one in known_here if one.signature.taken == PLAIN)
    return tuple(one for one in plain if any(each.op in wanted and each.concerns(order) for each in one.regions))


def _any(answers: Collection[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


@lru_cache(maxsize=4)
def _by_kernel(folder: Path) -> Mapping[str, tuple[Defect, ...]]:
    found: dict[str, dict[str, Defect]] = {}
    for defect in _of_folder(folder):
        for form in defect.kernels:
            found.setdefault(form.kernel, {})[defect.name] = defect
    return {kernel: tuple(named.values()) for kernel, named in found.items()}


@lru_cache(maxsize=4)
def _of_folder(folder: Path) -> tuple[Defect, ...]:
    """The defects of plain derivatives; and those in a number type, whose kernels have it as an attribute."""
    import tensorflow as tf

    here = (one for one in known.load(folder) if one.covers(tf.__version__))
    return tuple(one for one in here if one.signature.taken in (PLAIN, *IN_NUMBER_TYPES))


def _holds(form: KernelForm, call: KernelCall) -> bool | None:
    """Whether a form applies to a call; None where inputs beside the arguments differ, or are not known."""
    if form.kernel != call.kernel or (call.outputs is not None and form.output not in call.outputs):
        return False
    rank = max((one.ndim for one in _arguments(form, call) if one is not None), default=0)
    answers: set[bool | None] = {True}
    for key, value in form.fixed.items():
        given, axis = _setting(call, key), is_axis(call.kernel, key)
        if given is None:
            # An attribute that this release of TensorFlow does not have, or an input whose value is not known.
            answers.add(None if key.isdigit() else True)
        elif differs(given, value, rank if axis else 0):
            answers.add(None if key.isdigit() and not axis else False)
    return False if False in answers else None if None in answers else True


def _arguments(form: KernelForm, call: KernelCall) -> list[Array | None]:
    return [None if place is None else call.argument(place) for place in form.arguments]


def _translated(form: KernelForm, call: KernelCall) -> Iterator[tuple[str, dict[str, Any], list[Array | None]]]:
    """Yields a call as the operation, attributes and arguments of a form, once per row if it has rows, or not at
    all."""
    arguments = _arguments(form, call)
    given = [argument for argument in arguments if argument is not None]
    is_complex = call.is_complex or any(one is not None and np.iscomplexobj(one) for one in call.inputs)
    if form.op.startswith(COMPLEX) and not is_complex:
        return
    op = COMPLEX + form.op.removeprefix(COMPLEX) if is_complex else form.op
    settings = {name: _setting(call, str(key)) for name, key in form.attrs.items()}
    attrs = {name: value for name, value in settings.items() if value is not None}
    if form.rows and given:
        count = min((len(argument) for argument in given if argument.ndim), default=0)
        for row in range(count):
            yield op, attrs, [None if each is None else each[row] for each in arguments]
    else:
        yield op, attrs, arguments


def _at(inputs: Sequence[Array | None], place: int) -> Array | None:
    return inputs[place] if place < len(inputs) else None


def _setting(call: KernelCall, key: str) -> Any:
    """A kernel's attribute, or an input by its number, as plain Python; None where it is not known."""
    if not key.isdigit():
        return call.attributes.get(key)
    value = _at(call.inputs, int(key))
    return None if value is None else plain_setting(value)


def is_axis(kernel: str, key: str) -> bool:
    """Whether an input, by its number, names dimensions of another."""
    if not key.isdigit():
        return False
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(kernel)
    listed = [] if definition is None else definition.input_arg
    return int(key) < len(listed) and listed[int(key)].name in AXES


def plain_setting(value: Array) -> Any:
    """The value of an input in the form of an attribute: a number, or a tuple of its rows in this form."""
    return value.item() if value.ndim == 0 else tuple(map(plain_setting, value))


def differs(given: Any, wanted: Any, rank: int) -> bool:
    """Whether a setting differs from `wanted`; dimensions may be counted from the end of `rank`.

    >>> differs(1, -1, 2), differs(0, -1, 2)
    (False, True)
    """
    return bool(_from_the_start(given, rank) != _from_the_start(wanted, rank))


def _from_the_start(value: Any, rank: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_from_the_start(part, rank) for part in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value + rank if isinstance(value, int) and -rank <= value < 0 else value


def _inside(
    region: Region,
    op: str,
    attrs: Mapping[str, Any],
    arguments: Sequence[Array | None],
    order: int,
    apart: bool | None,
) -> bool | None:
    """Whether an operation lies in a region; None if that depends on what is not known."""
    if region.op not in names(op) or not region.concerns(order) or (region.apart and apart is False):
        return False
    wanted = {name: value for name, value in region.attrs.items() if name in attrs}
    anywhere = Region(region.op, region.orders, attrs=wanted)
    if not anywhere.contains(op, attrs, [UNKNOWN], order):
        return False
    bare = structs.replace(region, producers=(), neighbours=(), apart=False, arriving="", error="")
    if _needs(bare, attrs, arguments):
        return None
    if not bare.contains(op, attrs, [UNKNOWN if each is None else each for each in arguments], order):
        return False
    known = apart or not region.apart
    return True if known and bare == structs.replace(region, apart=False) else None


def _differ(one: Array | None, other: Array | None) -> bool:
    """Whether two arguments cannot be the same tensor."""
    return one is not None and other is not None and not np.array_equal(one, other)


def _needs(region: Region, attrs: Mapping[str, Any], arguments: Sequence[Array | None]) -> bool:
    """Whether a region asks for attributes or values that are not known."""
    if any(name not in attrs for name in region.asked):
        return True
    return any(arguments[place] is None for place in region.deciding if place < len(arguments))
