"""Every public callable of TensorFlow is an operation of the catalogue, or its line in the list says truly why not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import signatures
from gradcheck.strategies.values import alternatives, smooth

from gradcheck.defects.records import version_of
from gradcheck.hunt.census import gradient_functions
from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec
from tests import slices
from tests.catalogue.surface import (
    NAMESPACES,
    NOT_WALKED,
    Namespace,
    SurfaceRow,
    Walk,
    Why,
    covered,
    lines,
    met,
    resolved,
    walk,
    walked,
)

LINES = tuple(lines().values())
PROVED = tuple(line for line in LINES if line.proof and line.why in (Why.NOT_DIFFERENTIABLE, Why.NO_GRADIENT))
FORMS = tuple(line for line in LINES if line.why is Why.ANOTHER_FORM)
NEWEST = (2, 21)
UNPROVED = 54
"""Lines of what is not differentiable that no run shows: they yield no tensor, or need a file, a graph or a GPU."""


def run(line: SurfaceRow, given: dict[str, Any]) -> list[Any]:
    """The tensors of the line's expression that have a real or complex number type."""
    value = eval(line.proof, {"tf": tf, "np": np, "keras": import_module("keras"), **given})
    parts = tf.nest.flatten(value, expand_composites=True)
    return [part for part in parts if tf.is_tensor(part) and (part.dtype.is_floating or part.dtype.is_complex)]


def arguments() -> dict[str, Any]:
    return {
        "vector": tf.constant([0.25, 0.5], tf.float64),
        "matrix": tf.constant([[2.0, 0.5], [0.5, 1.0]], tf.float64),
        "image": tf.reshape(tf.linspace(tf.constant(0.1, tf.float64), 0.9, 48), [4, 4, 3]),
    }


def present(these: Iterable[SurfaceRow]) -> list[SurfaceRow]:
    """Without those that an older release does not have; those of the newest are asked for by a test of its own."""
    return [line for line in these if line.name in walk().names]


def missing(found: Walk) -> list[str]:
    return sorted(set(found.names) - set(covered()) - set(lines()))


def test_every_public_callable_is_in_the_catalogue_or_in_the_list() -> None:
    assert missing(walk()) == [], "write an operation, or a line of surface.tsv that says why there is none"


@pytest.mark.parametrize("space", NAMESPACES, ids=lambda space: space.name)
def test_what_is_new_in_a_namespace_is_noticed(monkeypatch: pytest.MonkeyPatch, space: Namespace) -> None:
    """A function, and a class where these are walked: a layer, a loss, a quantizer, a metric."""
    module = resolved(space.name)
    monkeypatch.setattr(module, "new_function", lambda x: x, raising=False)
    monkeypatch.setattr(module, "NewClass", type("NewClass", (), {}), raising=False)
    names = ["NewClass", "new_function"] if space.classes else ["new_function"]
    first = next(one.name for one in NAMESPACES if resolved(one.name) is module)
    assert missing(walked()) == [f"{first}.{name}" for name in names]


def test_what_the_list_names_is_public() -> None:
    if version_of(tf.__version__) >= NEWEST:
        assert sorted(set(lines()) - set(walk().names)) == [], "gone, or another name of something else"


def test_what_has_no_operation_yet_is_not_in_the_catalogue() -> None:
    """A callable without a derivative may help to write an operation; no other line stands beside one."""
    without = (Why.NOT_DIFFERENTIABLE, Why.NO_GRADIENT)
    assert [line.name for line in LINES if line.name in covered() and line.why not in without] == []


def test_every_line_has_a_reason_and_stands_once() -> None:
    assert [line.name for line in LINES if not line.note] == []
    text = Path(__file__).with_name("surface.tsv").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 1 + len(LINES)


def test_what_is_said_to_have_no_derivative_has_none(subtests: pytest.Subtests) -> None:
    """Its results are no numbers, or their gradient is None, or TensorFlow has no gradient function to call."""
    for line in present(PROVED):
        with subtests.test(line.name):
            assert_no_derivative(line)


def assert_no_derivative(line: SurfaceRow) -> None:
    given = arguments()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(list(given.values()))
        results = run(line, given)
    for result in results:
        try:
            gradients = tape.gradient(result, list(given.values()))
        except LookupError:
            assert line.why is Why.NO_GRADIENT
        else:
            assert gradients == [None] * len(given)


def test_what_is_said_to_have_no_gradient_is_not_registered() -> None:
    lines_of = [line for line in LINES if line.why is Why.NO_GRADIENT]
    named = {line.name: re.search(r"no gradient is registered for (\w+)", line.note) for line in lines_of}
    assert [name for name, operation in named.items() if operation is None] == []
    found = {name: operation[1] for name, operation in named.items() if operation}
    assert {name: one for name, one in found.items() if gradient_functions().get(one) is not None} == {}


def test_how_many_lines_no_run_shows() -> None:
    open_lines = [line.name for line in LINES if line.why is Why.NOT_DIFFERENTIABLE and not line.proof]
    assert len(open_lines) == UNPROVED


PLACED = {
    *("Cast", "Complex", "Imag", "Real", "Identity", "IdentityN", "ReadVariableOp", "EnsureShape"),
    *("BroadcastTo", "ConcatV2", "ExpandDims", "Pack", "Reshape", "Squeeze", "StridedSlice", "Transpose"),
}
"""Kernels that only put numbers elsewhere, or take them as another type: they make no other operation of one."""


NUMBERS = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)


def kernels(function: Callable[[], Any]) -> set[str]:
    """The kernels in the scope `form`, and in functions, that make numbers of arguments or of variables."""
    graph = tf.compat.v1.wrap_function(function, []).graph  # unlike a tf.function, it may make variables
    reached: set[str] = set()
    made: set[str] = set()
    for one in graph.get_operations():
        if not one.name.startswith("form/"):
            reached |= {one.name} if one.type == "Identity" else set()
        elif any(tensor.dtype in NUMBERS for tensor in one.outputs) and (
            one.type == "ReadVariableOp" or any(tensor.op.name in reached for tensor in one.inputs)
        ):
            reached.add(one.name)
            made.add(one.type)
    types = {number.as_datatype_enum for number in NUMBERS}
    called = (node for inner in graph.as_graph_def().library.function for node in inner.node_def)
    return made | {node.op for node in called if types & {node.attr["T"].type, *node.attr["Tout"].list.type}}


def examples(spec: OpSpec) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """A few shapes, each with a few attributes."""
    for start in spec.starts[:3]:
        for shapes in signatures(spec.name, start)[:2]:
            values = [smooth(one, spec.dtype(place), spec.domain(place)).array() for place, one in enumerate(shapes)]
            for attributes in alternatives(spec.name, shapes, 8):
                yield values, attributes


@cache
def kernels_of(name: str, number: int) -> set[str] | None:
    """The kernels that the example of this number of an operation of the catalogue makes; None where there is none."""
    for values, attributes in islice(examples(CATALOGUE[name]), number, number + 1):
        return kernels(partial(scoped, CATALOGUE[name], values, attributes))
    return None


def beyond(made: set[str], operations: Iterable[str]) -> set[str]:
    """Without the kernels that any of the operations makes, for any shapes and attributes."""
    left = set(made)
    for name in operations:
        for number in count():
            of_example = kernels_of(name, number) if left else None
            if of_example is None:
                break
            left -= of_example
    return left


def scoped(spec: OpSpec, values: list[Any], attributes: dict[str, Any]) -> Any:
    given = [tf.identity(tf.constant(value)) for value in values]
    with tf.name_scope("form"):
        return single(spec)(*given, **attributes)


def kernels_of_line(line: SurfaceRow) -> set[str]:
    def traced() -> Any:
        given = {name: tf.identity(value) for name, value in arguments().items()}
        with tf.name_scope("form"):
            return run(line, given)

    return kernels(traced)


def forms_of_all_kinds(these: Sequence[SurfaceRow]) -> list[SurfaceRow]:
    """One in 20, and of each namespace one that is a form of one operation, and one that is made of several."""
    kinds = {(line.name.rpartition(".")[0], len(line.operations) > 1): line for line in reversed(these)}
    return [line for place, line in enumerate(these) if place % 20 == 0 or line in kinds.values()]


@pytest.mark.sliced
def test_another_form_makes_the_same_operations(subtests: pytest.Subtests) -> None:
    for line in present(slices.sliced(FORMS, forms_of_all_kinds)):
        with subtests.test(line.name):
            assert_same_operations(line)


def assert_same_operations(line: SurfaceRow) -> None:
    """It runs a kernel of the operation that it is a form of, and none but of those that it is made of."""
    made = kernels_of_line(line)
    assert set(CATALOGUE[line.operations[0]].gradients) & made
    with_gradients = {name for name in made - PLACED if gradient_functions().get(name) is not None}
    assert beyond(with_gradients, line.operations) == set()


def test_more_than_the_same_operations_is_noticed() -> None:
    line = lines()["tf.keras.layers.AdaptiveAveragePooling3D"]
    if not present([line]):
        pytest.skip(f"TensorFlow {tf.__version__} has no {line.name}")
    assert_same_operations(line)
    with pytest.raises(AssertionError):
        assert_same_operations(replace(line, note="avg_pool3d"))


def test_a_name_of_the_same_function_is_not_asked_for_again() -> None:
    assert walk().aliases["tf.reduce_sum"] == "tf.math.reduce_sum"
    for name, first in walk().aliases.items():
        assert resolved(name) is resolved(first)


def test_every_namespace_is_walked() -> None:
    found = Counter(name.rpartition(".")[0] for name in (*walk().names, *walk().aliases))
    assert set(found) == {space.name for space in NAMESPACES}


def test_every_public_module_is_walked_or_listed_with_its_reason() -> None:
    names = {space.name for space in NAMESPACES}
    assert names.isdisjoint(NOT_WALKED)
    assert sorted(met() - names - set(NOT_WALKED)) == [], "walk it, or say in NOT_WALKED why not"
    if version_of(tf.__version__) >= NEWEST:
        assert sorted(set(NOT_WALKED) - met()) == [], "gone, or in nothing that is walked"


def test_a_module_in_one_that_is_walked_is_noticed() -> None:
    without = [space for space in NAMESPACES if space.name != "tf.keras.ops.image"]
    names = {space.name for space in without}
    assert met(without) - names - set(NOT_WALKED) == {"tf.keras.ops.image"}
