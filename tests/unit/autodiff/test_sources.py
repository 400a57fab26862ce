"""How a call's arguments are taken apart into sources, and put together again."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import simplex
from gradcheck.autodiff.sources import as_tensors, parse_arguments, paths

v, w = tf.Variable(1.0, name="v"), tf.Variable([2.0], name="w")


def test_names_and_dtypes_of_sources() -> None:
    inputs = ({"b": 1.0, "a": [np.float32(2.0), 3]}, 1j, True, "text", None)
    found = parse_arguments(inputs, None, ["d", "z"])
    assert [(source.name, source.dtype) for source in found.sources] == [
        ("d['a'][0]", "float32"),
        ("d['b']", "float64"),
        ("z", "complex128"),
    ]
    assert [source.count for source in found.sources] == [1, 1, 2]


def test_rebuilding_replaces_the_sources_only() -> None:
    inputs = ({"b": 1.0, "a": [tf.constant(2.0), 3]}, 4.0)
    found = parse_arguments(inputs, None)
    (rebuilt, last) = found.rebuilt(["A0", "B", "last"])
    assert (rebuilt["a"][0], rebuilt["b"], last) == ("A0", "B", "last")
    assert int(rebuilt["a"][1]) == 3
    assert list(parse_arguments((1.0, 2), None).rebuilt(["x"])[:1]) == ["x"]


def test_variables_once_each_under_their_first_name() -> None:
    found = parse_arguments((v, 1.0, v), [w, v], ["p", "x", "q"])
    assert [source.name for source in found.sources] == ["x", "p", "variables[0] (w:0)"]
    assert found.positions == (1, 0, 3)
    assert found.total == 5
    assert found.listed() == [False, False, True]


def test_variables_of_integers_are_no_sources() -> None:
    n = tf.Variable(3)
    found = parse_arguments((n, 1.0), None)
    assert [source.name for source in found.sources] == ["inputs[1]"]
    assert found.rebuilt(["x"])[0] is n


def test_as_tensors_constraints_are_left_out() -> None:
    bare, (held, other) = as_tensors((simplex(w), [simplex([0.5, 0.5]), 2.0]))
    assert bare is w
    assert (held.dtype, other.dtype, held.numpy().tolist()) == (tf.float64, tf.float64, [0.5, 0.5])


def test_a_single_variable_and_nested_ones() -> None:
    assert [source.name for source in parse_arguments((), v).sources] == ["variables[0] (v:0)"]
    nested = parse_arguments((), {"one": v, "two": [w]}).sources
    assert [source.name for source in nested] == ["variables[0] (v:0)", "variables[1] (w:0)"]


def test_paths_are_in_tensorflows_order() -> None:
    structure = {"b": [1, (2, 3)], "a": {"z": 4, "y": 5}}
    assert [value for _, value in paths("x", structure)] == tf.nest.flatten(structure)
    assert paths("x", structure)[0] == ("x['a']['y']", 5)
    assert paths("x", structure)[-1] == ("x['b'][1][1]", 3)


def test_nothing_floating_names_what_there_is() -> None:
    with pytest.raises(ValueError, match="inputs hold bool, int32, string"):
        parse_arguments((1, True, "a"), None)
