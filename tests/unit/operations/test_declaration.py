"""`gradcheck.operation`: the entry that it makes of a function, and what it refuses."""

from __future__ import annotations

import re
import sys
from ast import literal_eval
from collections.abc import Iterable, Iterator
from importlib import import_module, invalidate_caches, reload
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import signatures, starts

import gradcheck
from gradcheck.autodiff.mode import Mode
from gradcheck.defects.region import Region, narrowest
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt.evaluation import over_points, single
from gradcheck.hunt.graph_json import from_json, to_json
from gradcheck.operations.acceptance import accept
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import REGISTERED, OperationError, Origin, forget, origins, registered
from gradcheck.operations.spec import POSITIVE, REALS, SHAPES, Interval, OpSpec


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Tests that draw from the whole catalogue run in the same process."""
    before = dict(CATALOGUE)
    yield
    forget(list(REGISTERED))
    assert before == CATALOGUE


def made(function: Any, **fields: Any) -> OpSpec:
    """The catalogue entry of a function."""
    name = fields.get("name", function.__name__)
    gradcheck.operation(**fields)(function)
    return CATALOGUE[name]


def own_identity(x: Any) -> Any:
    return tf.identity(x)


def own_product(x: Any, y: Any, scale: float = 1.0) -> Any:
    return scale * x * y


def test_without_arguments_a_function_is_elementwise_on_all_reals_and_stays_what_it_was() -> None:
    assert gradcheck.operation(own_identity) is own_identity
    spec = CATALOGUE["own_identity"]
    assert (spec.arity, spec.domains, spec.starts, spec.orders, spec.looped) == (1, (REALS,), SHAPES, (1, 2), False)
    assert spec.kinks is None
    assert starts("own_identity") == SHAPES
    accept(REGISTERED["own_identity"])


def test_everything_that_can_be_said_is_what_the_catalogue_says() -> None:
    spec = made(
        own_product,
        shapes=[((2,), (2,)), ((None, 3), (3,))],
        domain={"y": "positive", 0: (-1, 1)},
        kinks=lambda x, y, scale: np.abs(x - scale * y),
        attributes={"scale": (0.5, 2.0)},
        orders=(1,),
        modes=["tf.function", "forward", "XLA"],
    )
    assert spec.domains == (Interval(-1.0, 1.0), POSITIVE)
    assert spec.attributes((2,), (2,))["scale"].offers(0.5)
    assert signatures("own_product", (1, 3)) == (((1, 3), (3,)),)
    assert starts("own_product") == ((2,), (2, 3), (1, 3), (3, 3))
    assert (spec.orders, spec.looped) == ((1,), True)
    assert spec.modes == (Mode("reverse", "tf.function"), Mode("forward"), Mode("reverse", "XLA"))
    assert spec.kinks is not None
    assert spec.kinks(np.ones(2), np.array([2.0, 1.0]), scale=0.5).tolist() == [0.0, 0.5]
    graph = Graph((literal([1.0, 2.0]), literal([3.0, 4.0])), (Node.of("own_product", 0, 1, scale=2.0),))
    assert from_json(to_json(graph)) == graph
    rows = over_points(spec)(tf.ones((3, 2), tf.float64), tf.ones((3, 2), tf.float64), scale=2.0)
    assert rows.shape == (3, 2)


def test_numbers_are_distances_from_points() -> None:
    spec = made(own_identity, kinks=(0.0, 6.0), singular=1, curvature_jumps=(2,))
    x = np.array([0.5, 6.0])
    assert spec.kinks is not None
    assert spec.kinks(x).min(axis=0).tolist() == [0.5, 0.0]
    assert spec.singular is not None
    assert spec.singular(x).tolist() == [[0.5, 5.0]]
    assert spec.curvature_jumps is not None


def test_a_set_of_the_arguments_limits_what_a_record_leaves_out() -> None:
    made(own_product, attributes={"scale": (1.0, 2.0)}, special={"equal elements": lambda x, y: np.any(x == y)})
    region = Region("own_product", (1,), "equal elements")
    x, y = np.array([1.0, 2.0]), np.array([3.0, 2.0])
    assert region.contains("own_product", {"scale": 1.0}, [x, y], 1)
    assert not region.contains("own_product", {"scale": 1.0}, [x, x + 1], 1)
    assert narrowest("own_product", {"scale": 1.0}, [x, y], 1).set_name == "equal elements"
    assert narrowest("own_product", {"scale": 1.0}, [x, x + 1], 1).set_name == "one in argument 0"


def test_a_layer_with_fixed_weights_in_float32() -> None:
    layer = tf.keras.layers.Dense(2, name="own_dense")
    layer.build((None, 3))
    gradcheck.operation(shapes=[(None, 3)], dtype="float32")(layer)
    spec = CATALOGUE["own_dense"]
    value = single(spec)(tf.ones((1, 3), tf.float64))
    assert (value.dtype, value.shape) == (tf.float64, (1, 2))
    assert spec.rtol > 0
    accept(REGISTERED["own_dense"])


def own_turn(z: Any, phi: Any) -> Any:
    return z * tf.exp(tf.complex(tf.zeros_like(phi), phi))


def own_power(z: Any) -> Any:
    return tf.math.real(z * tf.math.conj(z))


def own_circle(x: Any) -> Any:
    return tf.complex(tf.cos(x), tf.sin(x))


def test_complex_dtypes_are_those_of_all_arguments_or_of_each_and_that_of_the_result_follows() -> None:
    spec = made(own_identity, dtype="complex128")
    assert (spec.dtypes, spec.result, spec.rtol) == (("complex128",), "complex128", 0.0)
    spec = made(own_turn, dtype={0: tf.complex64, "phi": np.float32}, domain={"phi": (-9, 9)})
    assert (spec.dtypes, spec.result, spec.rtol > 0) == (("complex128", "float64"), "complex128", True)
    spec = made(own_power, dtype="complex64", result="float32")
    assert (spec.dtypes, spec.result, spec.rtol > 0) == (("complex128",), "float64", True)
    spec = made(own_circle, result="complex128")
    assert (spec.dtypes, spec.result, spec.rtol) == (("float64",), "complex128", 0.0)
    for registered_one in list(REGISTERED.values()):
        accept(registered_one)


@pytest.mark.parametrize("given", [tf.float32, np.dtype("float32"), np.float32, "float32"], ids=repr)
def test_a_dtype_is_one_of_tensorflow_or_numpy_or_its_name(given: Any) -> None:
    """tf.float32 is equal to Python's float, and so is NumPy's dtype float64."""
    spec = made(own_product, dtype={"x": given, "y": np.dtype("float64")}, result=given)
    assert (spec.dtypes, spec.result, spec.rtol > 0) == (("float64", "float64"), "float64", True)


def test_what_computes_in_complex64_gets_it_and_gives_graphs_their_complex128() -> None:
    given = []

    def own_sine(z: Any) -> Any:
        given.append(z.dtype)
        return tf.sin(z)

    spec = made(own_sine, dtype="complex64")
    value = single(spec)(tf.constant([1j], tf.complex128))
    assert (given, value.dtype) == ([tf.complex64], tf.complex128)
    assert value.numpy() == pytest.approx(np.sin(1j), rel=spec.rtol)


def test_points_of_the_plane_and_the_domain_of_both_parts() -> None:
    spec = made(own_power, dtype="complex128", result="float64", kinks=(0, 1j), domain=(-3, 3))
    z = np.array([3 + 5j, 1j])
    assert spec.kinks is not None
    assert spec.kinks(z).min(axis=0).tolist() == [5.0, 0.0]
    assert spec.domain(0).contains(np.array([2 + 2j]))
    assert not spec.domain(0).contains(np.array([2 + 4j]))


class WithoutSignature:
    """Distances from zero, by a function without a signature, as a ufunc of older NumPy."""

    __signature__ = 3

    def __call__(self, x: Any) -> Any:
        return np.abs(x)


@pytest.mark.parametrize("distances", [np.abs, WithoutSignature()])
def test_distances_may_come_from_a_function_that_does_not_tell_its_parameters(distances: Any) -> None:
    spec = made(own_product, shapes=[(2,)], attributes={"y": (2.0,)}, kinks=distances)
    assert spec.kinks is not None
    assert spec.kinks(np.array([-3.0, 0.5]), y=2.0).tolist() == [3.0, 0.5]


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"domain": (2, 1)}, r"domain was \(2, 1\); expected .* bounds with the lower first"),
    ({"domain": (1.0, 1.0)}, r"domain was \(1.0, 1.0\); expected"),
    ({"domain": "real"}, r"domain was 'real'; expected one of 'reals'"),
    ({"domain": {"z": "reals"}}, r"names of arguments \(x\); 'z' is not one"),
    ({"domain": {"x": range(3)}}, r"domain\['x'\] was range\(0, 3\)"),
    ({"modes": ["turbo"]}, r"modes was \['turbo'\]; expected a list of .*'tf.function'.*; 'turbo' is not one"),
    ({"shapes": (3,)}, r"expected a list of shapes, such as \[\(3,\), \(2, 3\)\]"),
    ({"shapes": []}, r"shapes was \[\]"),
    ({"shapes": 3}, r"shapes was 3; expected a list of shapes"),
    ({"modes": 3}, r"modes was 3; expected a list of .*; 3 is not one"),
    ({"attributes": ["x"]}, r"attributes was \['x'\]; expected a dict of literals by name"),
    ({"attributes": 3}, r"attributes was 3; expected a dict"),
    ({"name": 3}, r"name was 3; expected a lower-case name"),
    ({"shapes": [((2,), (3,))]}, r"one shape for each.*; it takes 1"),
    ({"shapes": [(100,)]}, r"at most 64 elements"),
    ({"kinks": "zero"}, r"kinks was 'zero'; expected numbers, such as"),
    ({"special": {"large"}}, r"special was {'large'}; expected a dict of functions of the arguments by name"),
    ({"special": {"large": 3}}, r"special\['large'\] was 3; expected .*; it takes 1"),
    ({"special": {"large": lambda x, y: x > y}}, r"special\['large'\] was <function .*; it takes 1"),
    ({"special": {"zero in argument 0": lambda x: True}}, r"'zero in argument 0' is no name, or that of another set"),
    ({"orders": 3}, r"orders was 3; expected \(1, 2\)"),
    ({"dtype": "int32"}, r"dtype was 'int32'; expected 'float64', 'complex128', or 'float32' and 'complex64'"),
    ({"dtype": complex}, r"dtype was <class 'complex'>; expected 'float64'"),
    ({"dtype": float}, r"dtype was <class 'float'>; expected 'float64'"),
    ({"dtype": {"x": "half"}}, r"dtype\['x'\] was 'half'; expected .*or a dict by argument"),
    ({"dtype": {1: "complex64"}}, r"dtype was \{1: 'complex64'\}; expected names of arguments \(x\); 1 is not one"),
    ({"result": "complex"}, r"result was 'complex'; expected 'float64'.* or None"),
    ({"kinks": 1j}, r"kinks was 1j; expected numbers, such as"),
    ({"dtype": "complex64", "kinks": complex("inf")}, r"kinks was \(inf\+0j\); expected numbers"),
    ({"attributes": {"beta": (1,)}}, r"names of parameters; 'beta' is not one"),
    ({"attributes": {"x": ()}}, r"attributes\['x'\] was \(\); expected a few literals"),
    ({"name": "Bad Name"}, r"name was 'Bad Name'; expected a lower-case name"),
    ({"name": "x1"}, r"name was 'x1'; expected a lower-case name"),
    ({"name": "lambda"}, r"name was 'lambda'; expected a lower-case name"),
    ({"name": "softplus"}, r"'softplus' at test_declaration.py:\d+: the name is taken by .*TensorFlow's catalogue"),
]


def test_what_does_not_fit_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for fields, complaint in MISFITS:
        with subtests.test(complaint):
            with pytest.raises(OperationError, match=complaint):
                gradcheck.operation(**fields)(own_identity)
            assert REGISTERED == {}


def test_as_many_plain_shapes_as_arguments_are_refused_with_both_ways_to_write_them() -> None:
    with pytest.raises(OperationError, match=r"shapes was \[\(None, 3\), \(3,\)\]; expected ") as caught:
        gradcheck.operation(shapes=[(None, 3), (3,)])(own_product)
    assert REGISTERED == {}
    each, alternatives = map(literal_eval, re.findall(r"(\[\(\(.*?\)\)\]) for ", str(caught.value)))
    assert made(own_product, name="own_each", shapes=each).shapes((2, 3)) == [((2, 3), (3,))]
    assert made(own_product, name="own_both", shapes=alternatives).shapes((3,)) == [((3,), (3,))]


@pytest.mark.parametrize("shapes", [[(3,), (3,)], [(3,), (2, 3), (2,)], [(3,), ((2, 3), (3,))]], ids=str)
def test_plain_shapes_that_can_only_be_alternatives_are_taken(shapes: list[Any]) -> None:
    assert made(own_product, shapes=shapes).shapes((3,)) == [((3,), (3,))]


@pytest.mark.parametrize(
    ("kinks", "found"),
    [
        (0.0, [3.0, 1.0, 2.0, 4.0]),
        ((0.0, 3.0), [3.0, 1.0, 0.0, 4.0, 2.0, 4.0, 1.0, 7.0]),
        ({"y": 2.0}, [0.0, 6.0]),
        ({1: (2.0, -4.0)}, [0.0, 6.0, 6.0, 0.0]),
        ({"x": 3.0, 1: -4.0}, [0.0, 4.0, 6.0, 0.0]),
    ],
)
def test_numbers_are_those_of_all_arguments_or_of_the_named_ones(kinks: Any, found: list[float]) -> None:
    spec = made(own_product, kinks=kinks, singular={"x": ()}, curvature_jumps={})
    assert spec.kinks is not None
    assert spec.kinks(np.array([3.0, -1.0]), np.array([2.0, -4.0])).tolist() == found
    assert spec.singular is spec.curvature_jumps is None


def test_numbers_of_arguments_of_different_shapes() -> None:
    spec = made(own_product, shapes=[((2,), (1,))], kinks={"x": 1.0, "y": 0.0})
    assert spec.kinks is not None
    assert spec.kinks(np.array([1.0, 2.0]), np.array([5.0])).tolist() == [0.0, 1.0, 5.0]


@pytest.mark.parametrize(
    ("kinks", "complaint"),
    [
        ({"z": 0.0}, r"kinks was {'z': 0\.0}; expected names of arguments \(x, y\); 'z' is not one"),
        ({"y": "zero"}, r"kinks\['y'\] was 'zero'; expected numbers"),
        ({"y": (0.0, float("nan"))}, r"kinks\['y'\] was \(0\.0, nan\); expected numbers"),
        ((0.0, "one"), r"kinks was \(0\.0, 'one'\); expected numbers"),
    ],
)
def test_points_of_no_argument_and_other_things_than_numbers_are_refused(kinks: Any, complaint: str) -> None:
    with pytest.raises(OperationError, match=complaint):
        gradcheck.operation(kinks=kinks)(own_product)


def test_a_name_that_another_has_is_taken_and_a_module_may_be_loaded_twice() -> None:
    gradcheck.operation(name="own_taken")(own_identity)
    with pytest.raises(OperationError, match=r"taken by the operation at test_declaration.py:\d+; give another"):
        gradcheck.operation(name="own_taken")(own_product)
    for _ in range(2):
        gradcheck.operation(name="own_loaded_twice")(own_identity)


def with_factor(factor: float) -> Any:
    return lambda x: factor * x


def all_registered(name: str, given: Iterable[tuple[Any, dict[str, Any]]]) -> None:
    for function, declared in given:
        gradcheck.operation(name=name, **declared)(function)


def test_one_line_may_register_a_function_again_but_no_other_one_and_not_otherwise_declared() -> None:
    taken = r"'own_again' at test_declaration.py:(\d+): the name is taken by the operation at test_declaration.py:\1;"
    one = with_factor(1.0), dict[str, Any]()
    all_registered("own_again", [one, one])
    others: list[tuple[Any, dict[str, Any]]] = [(with_factor(2.0), {}), (one[0], {"domain": (0, 1)})]
    for other in [*others, (one[0], {"shapes": [(3,)]})]:
        forget(list(REGISTERED))
        with pytest.raises(OperationError, match=taken):
            all_registered("own_again", [one, other])
        assert CATALOGUE["own_again"].domains == (REALS,)


def test_layers_that_one_line_registers_are_told_apart() -> None:
    layers = [tf.keras.layers.Dense(2, name=f"own_layer_{number}") for number in range(2)]
    with pytest.raises(OperationError, match="the name is taken by the operation at"):
        all_registered("own_layer", [(layer, {"shapes": [(None, 3)], "dtype": "float32"}) for layer in layers])


HELPER = """
import gradcheck

def registered(name, function):
    return gradcheck.operation(name=name)(function)

def scaled(factor):
    return lambda x: factor * x
"""
TABLE = """
from own_helper import registered, scaled

for number in range(2):
    registered(f"own_{number}", scaled(number))
registered("own_identity", lambda x: +x)
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that registers operations by a helper in another module."""
    (tmp_path / "own_helper.py").write_text(HELPER)
    (tmp_path / "own_table.py").write_text(TABLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # whose times are those of seconds
    yield tmp_path / "own_table.py"
    for name in ("own_helper", "own_table"):
        sys.modules.pop(name, None)


def test_the_origin_is_the_module_that_is_imported_whatever_helper_it_calls(table: Path) -> None:
    import_module("own_table")
    assert origins() == (Origin("own_table", str(table.parent)),)
    assert {made.place for made in REGISTERED.values()} == {"own_table.py:5", "own_table.py:6"}
    forget(list(REGISTERED))
    del sys.modules["own_table"]
    Origin("own_table", str(table.parent)).load()
    assert list(REGISTERED) == ["own_0", "own_1", "own_identity"]


def test_a_module_may_be_loaded_again_as_it_was_or_changed(table: Path) -> None:
    module = import_module("own_table")
    for text in (TABLE, f"\n\n{TABLE}"):
        table.write_text(text)
        invalidate_caches()
        reload(module)
    assert REGISTERED["own_identity"].place == "own_table.py:8"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('registered("own_identity", lambda x: -x)', ("own_table.py:7", "own_table.py:6")),
        ('for number in range(2): registered("own_both", scaled(number))', ("own_table.py:7",) * 2),
    ],
)
def test_a_helper_registers_no_name_twice(table: Path, text: str, places: tuple[str, str]) -> None:
    table.write_text(f"{TABLE}{text}\n")
    with pytest.raises(OperationError, match="at {}: the name is taken by the operation at {};".format(*places)):
        import_module("own_table")


def test_a_cell_of_a_notebook_may_be_run_again_as_it_was_or_changed() -> None:
    cell = "import gradcheck\n@gradcheck.operation\ndef own_cell(x):\n    return 2 * x\n"
    own = {"__name__": "__main__"}
    for number, text in enumerate((cell, cell, f"\n{cell}")):
        exec(compile(text, f"<cell {number // 2}>", "exec"), own)
        assert REGISTERED["own_cell"].function is own["own_cell"]
    line = "for factor in (1.0, 2.0):\n    gradcheck.operation(name='own_line')(lambda x, factor=factor: factor * x)\n"
    with pytest.raises(OperationError, match="'own_line' at <cell 3>:2: the name is taken"):
        exec(compile(line, "<cell 3>", "exec"), own)


def own_sum(*tensors: Any) -> Any:
    return tf.add_n(tensors)


def test_the_domain_names_the_arguments_of_a_function_of_any_number_of_tensors() -> None:
    spec = made(own_sum, domain={"loc": (-1, 1), "scale": "positive", "value": "reals"}, kinks={"value": 0.0})
    assert (spec.arity, spec.domains) == (3, (Interval(-1.0, 1.0), POSITIVE, REALS))
    assert spec.kinks is not None
    accept(REGISTERED["own_sum"])
    spec = made(own_sum, name="own_pair", shapes=[((2,), (2,))], domain={"x": "positive", "y": "reals"})
    assert (spec.arity, spec.domains) == (2, (POSITIVE, REALS))
    spec = made(own_sum, name="own_places", shapes=[((2,), (2,))], domain={1: "positive"})
    assert spec.domains == (REALS, POSITIVE)


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({"domain": {0: "reals", 1: "positive"}}, r"1 is not one; of a function of \*tensors, domain= has the names"),
        ({"kinks": {"x": 0.0}}, r"'x' is not one; of a function of \*tensors, domain= has the names of all"),
        ({"domain": {"x": "reals"}, "shapes": [((2,), (2,))]}, r"one shape for each.*; it takes 1"),
    ],
)
def test_a_function_of_any_number_of_tensors_is_told_where_their_names_come_from(
    declared: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(OperationError, match=complaint):
        gradcheck.operation(**declared)(own_sum)


def test_something_without_a_name_or_without_a_tensor() -> None:
    with pytest.raises(OperationError, match="name was '<lambda>'"):
        gradcheck.operation(lambda x: x)
    with pytest.raises(OperationError, match="expected a parameter without a default"):
        gradcheck.operation(name="own_constant")(lambda: 1.0)


def raising(x: Any) -> Any:
    return tf.matmul(x, x)


def as_list(x: Any) -> Any:
    return [x]


def as_array(x: Any) -> Any:
    return np.sin(x)


def in_single(x: Any) -> Any:
    return tf.cast(x, tf.float32)


def at_random(x: Any) -> Any:
    return x + tf.random.normal(x.shape, dtype=x.dtype)


def rounded(x: Any) -> Any:
    return tf.round(x)


def softmax(x: Any) -> Any:
    return tf.nn.softmax(x) if x.shape.rank else x


def reversed_sum(x: Any) -> Any:
    return x + tf.range(tf.size(x), dtype=x.dtype) if x.shape.rank == 1 else x


@tf.custom_gradient
def throwing(x: Any) -> Any:
    def gradient(_: Any) -> Any:
        raise RuntimeError("no gradient here")

    return tf.identity(x), gradient


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (
            raising,
            r"raised InvalidArgumentError: In\[0\].*; expected a result; declare valid inputs with shapes= and domain=",
        ),
        (as_list, r"gave list; expected one tensor of float64"),
        (as_array, r"gave ndarray; expected one tensor of float64"),
        (in_single, r"gave a tensor of float32; expected .*dtype='float32'"),
        (at_random, r"gave \[.*\], then \[.*\]; expected the same for the same arguments"),
        (rounded, r"is not differentiable: its gradient is None; expected"),
        (throwing, r"is not differentiable: its gradient raised .*no gradient here"),
        (softmax, r".*expected an elementwise function where no shapes are given"),
        (reversed_sum, r".*expected an elementwise function where no shapes are given"),
        (tf.math.log, r"gave \[.*nan\]; expected finite numbers; declare with domain="),
    ],
)
def test_what_is_not_what_it_was_registered_as_is_refused_with_an_example(function: Any, complaint: str) -> None:
    gradcheck.operation(name="own_refused")(function)
    with pytest.raises(
        OperationError, match=r"'own_refused' at test_declaration.py:\d+: own_refused\(.*\) " + complaint
    ):
        accept(REGISTERED["own_refused"])


@pytest.mark.parametrize(
    ("function", "types", "complaint"),
    [
        (own_power, {"dtype": "complex128"}, r"gave a tensor of float64; expected .*128.*declare result='float64'"),
        (own_power, {"dtype": "complex64"}, r"gave a tensor of float32; expected .*128.*declare result='float32'"),
        (own_circle, {}, r"gave a tensor of complex128; expected .*float64.*declare result='complex128'"),
        (own_circle, {"dtype": "float32"}, r"gave a tensor of complex64; expected .*declare result='complex64'"),
        (
            lambda z: tf.cast(z, tf.complex64),
            {"dtype": "complex128"},
            r"gave a tensor of complex64; expected one tensor of complex128.*declare dtype='complex64'",
        ),
        (tf.signal.fft, {}, r"\(\[.*\]\) raised .*; register a function of .* complex numbers only with dtype="),
        (tf.math.lgamma, {"dtype": "complex64"}, r"\(\[.*j.*\]\) raised .*; expected a result; declare valid"),
        (lambda z: z / 0, {"dtype": "complex128"}, r"gave \[.*nan.*j.*\]; expected finite numbers"),
        (lambda z: z - tf.reduce_sum(z), {"dtype": "complex128"}, r"expected an elementwise function"),
        (lambda z: tf.stop_gradient(z), {"dtype": "complex64"}, r"is not differentiable: its gradient is None"),
    ],
)
def test_complex_functions_that_are_not_what_they_were_registered_as(
    function: Any, types: dict[str, Any], complaint: str
) -> None:
    gradcheck.operation(name="own_refused", **types)(function)
    with pytest.raises(OperationError, match=r"(?s)'own_refused' at test_declaration.py:\d+: .*" + complaint):
        accept(REGISTERED["own_refused"])


def test_what_has_no_elements_is_refused() -> None:
    gradcheck.operation(name="own_empty", shapes=[(0,)])(own_identity)
    with pytest.raises(OperationError, match="all shapes are empty"):
        accept(REGISTERED["own_empty"])


def test_a_softmax_with_shapes_is_accepted_and_a_domain_helps_the_logarithm() -> None:
    gradcheck.operation(name="own_softmax", shapes=[(3,), (2, 3)])(softmax)
    gradcheck.operation(name="own_log", domain="positive")(tf.math.log)
    gradcheck.operation(name="own_root", domain=(-3.0, -2.5))(lambda x: tf.sqrt(x + 3.0))
    for made in list(REGISTERED.values()):
        accept(made)


def test_a_registered_function_is_found_by_name_and_where_it_was_registered() -> None:
    gradcheck.operation(own_identity)
    assert registered("own_identity")(tf.constant(2.0)).numpy() == 2.0
    (origin,) = origins()
    assert origin == Origin(__name__, origin.folder)
    assert __file__.startswith(origin.folder)
    with pytest.raises(OperationError, match="no operation 'sin' is registered in this process; import the module"):
        registered("sin")
