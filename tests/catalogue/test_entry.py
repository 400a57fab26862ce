"""Each operation of the catalogue has the values, the gradients and the script that its entry says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import signatures
from gradcheck.strategies.values import alternatives, smooth
from tensorflow.python.framework.ops import gradient_registry
from tensorflow.python.ops import map_ops  # noqa: F401  (registers gradients that `import tensorflow` does not)

from gradcheck.defects.records import version_of
from gradcheck.graph import Graph, Node
from gradcheck.hunt.evaluation import forward, over_points, single, values_of
from gradcheck.hunt.script import to_python
from gradcheck.operations.language import traced_anew
from gradcheck.operations.spec import OpSpec
from tests import slices
from tests.catalogue.entries import EPS, SPECS, alone, defined, largest, named, over, plain_graph

MOVED = slices.sliced(("once", "again"), slices.every(2))
"""The points beside a sampled one that a batch has."""


@dataclass
class Entry:
    """An operation, sampled points with its values there, and how often each declared gradient was called."""

    spec: OpSpec
    values: list[tuple[Any, tf.Tensor]] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """Whether each declared gradient was called."""
        return set(self.called) == set(self.spec.gradients)

    def evaluate(self, example: Any) -> None:
        """Adds the value at a point, and takes gradients until each declared one was called."""
        inputs = [tf.constant(argument) for argument in example.arguments]
        with nullcontext() if self.complete else tf.GradientTape() as tape:
            if tape is not None:
                tape.watch(inputs)
            value = single(self.spec)(*inputs, **example.attributes)
        self.values.append((example, value))
        with suppress(Exception):  # a backward pass that throws is for the hunt to find
            if tape is not None:
                tape.gradient(value, inputs)

    def counting(self, name: str) -> Callable[..., Any]:
        """The gradient that is registered, which counts its calls."""
        original = gradient_registry._registry[name]["type"]

        def gradient(*arguments: Any) -> Any:
            self.called[name] += 1
            return original(*arguments)

        return gradient


def of_each_rank(examples: Sequence[Any]) -> list[Any]:
    """The first point of all arguments' ranks."""
    return list({tuple(value.ndim for value in one.arguments): one for one in reversed(examples)}.values())


def source_yields_a_finite_tensor_of_the_declared_dtype(entry: Entry) -> None:
    assert entry.values, f"none of the starts {entry.spec.starts} is admitted by the shape rule"
    for example, value in entry.values:
        assert value.dtype.name == entry.spec.result
        assert np.all(np.isfinite(value.numpy())), example
        assert not hasattr(value, "_keras_mask"), "by it, Keras weighs what comes behind"


def backward_pass_goes_through_the_declared_gradients(entry: Entry) -> None:
    # Before 2.21, tf.nn.gelu was made of other operations.
    older = entry.spec.name == "gelu" and version_of(tf.__version__) < (2, 21)
    assert older or set(entry.called) == set(entry.spec.gradients)


def batch_agrees_with_loop(entry: Entry) -> None:
    spec, rng = entry.spec, np.random.default_rng(5)
    for example, there in entry.values * (not spec.looped):
        points = [
            np.stack([value, *(value * (1 + 1e-2 * rng.uniform(-1, 1, value.shape)) for _ in MOVED)])
            for value in example.arguments
        ]
        found = over(spec, example, points, reference=False)
        for row, value in enumerate(found):
            expected = alone(spec, example, [p[row] for p in points]) if row else there.numpy()
            assert value.shape == expected.shape
            assert largest(value - expected) <= 16 * max(EPS, spec.rtol) * largest(expected), example


def points_are_taken_at_every_rank_that_one_point_is(entry: Entry) -> None:
    spec = entry.spec
    for shape in ((1, 1, 2, 2), (1, 1, 2, 2, 1), (1, 1, 1, 2, 2, 1)) * (not spec.looped):
        for shapes in signatures(spec.name, shape)[:1]:
            inputs = tuple(smooth(one, spec.dtype(place), spec.domain(place)) for place, one in enumerate(shapes))
            tensors = [tf.constant(one.array()) for one in inputs]
            for attributes in alternatives(spec.name, shapes, 2):
                with suppress(tf.errors.OpError, ValueError):
                    single(spec)(*tensors, **attributes)
                    graph = Graph(inputs, (Node.of(spec.name, *range(spec.arity), **attributes),))
                    break
            else:
                continue
            forward(graph, [tf.stack([one] * 2) for one in tensors], points=True)


def reference_has_the_value_of_the_source_at_the_unperturbed_point(entry: Entry) -> None:
    spec = entry.spec
    for example, there in entry.values * bool(spec.reference):
        expected = there.numpy()
        for value in over(spec, example, [np.stack([value, value]) for value in example.arguments], reference=True):
            np.testing.assert_allclose(value, expected, rtol=0, atol=16 * max(EPS, spec.rtol) * largest(expected))


def script_computes_what_the_operation_does(entry: Entry) -> None:
    spec, graph = entry.spec, plain_graph(entry.spec.name)
    script = defined(to_python(graph, 1))
    inputs = [tf.constant(literal.array()) for literal in graph.inputs]
    np.testing.assert_array_equal(script["function"](*inputs).numpy(), values_of(graph)[-1])
    assert ("reference" in script) == (spec.reference is not None)
    if spec.reference is not None:
        rows = [tf.stack([tensor, tensor * 0.875]) for tensor in inputs]
        meant = over_points(spec, reference=True)(*rows, **graph.nodes[0].attributes)
        np.testing.assert_array_equal(script["reference"](*(row[1] for row in rows)).numpy(), meant[1].numpy())


LAWS = (
    source_yields_a_finite_tensor_of_the_declared_dtype,
    backward_pass_goes_through_the_declared_gradients,
    batch_agrees_with_loop,
    points_are_taken_at_every_rank_that_one_point_is,
    reference_has_the_value_of_the_source_at_the_unperturbed_point,
    script_computes_what_the_operation_does,
)


@pytest.mark.sliced
@named(SPECS)
def test_entry(spec: OpSpec, sampler: Any, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    """At the first point of all ranks, or all points, and at others until each declared gradient was called."""
    entry, examples = Entry(spec), list(sampler.generic(spec, seed=1))
    taken = slices.sliced(examples, of_each_rank)
    left = [example for example in examples if all(example is not one for one in taken)]
    for name in spec.gradients:
        monkeypatch.setitem(gradient_registry._registry[name], "type", entry.counting(name))
    with traced_anew():  # what is kept has the gradients that it was traced with
        for example in taken:
            entry.evaluate(example)
        for example in chain(left, *(sampler.generic(spec, seed) for seed in (3, 4, 5))):
            if entry.complete:
                break
            entry.evaluate(example)
        for law in LAWS:
            with subtests.test(law.__name__.replace("_", " ")):
                law(entry)
