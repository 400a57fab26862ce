"""Bad input is answered with an exception that names the argument, what was given and the fix."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Reason, assert_close, assert_step, audit, check, explain, spot_check
from gradcheck.keras import GradientMonitor


def refused(error: type[Exception], words: list[str], *arguments: Any, **options: Any) -> None:
    """`check` and `assert_close` raise exactly `error`, with a message that contains the words."""
    for door in (check, assert_close):
        with pytest.raises(error) as caught:
            door(*arguments, **options)
        assert type(caught.value) is error, caught.value
        assert [word for word in words if word not in str(caught.value)] == []


def test_two_arrays_are_sent_to_numpy() -> None:
    words = ["f is of type ndarray", "a callable was expected", "numpy.testing.assert_allclose"]
    refused(TypeError, words, np.ones(3), np.ones(3))


def test_no_inputs() -> None:
    refused(ValueError, ["no inputs", "gradcheck.check(f, x)", "variables="], tf.sin)


@pytest.mark.parametrize(("given", "kind"), [(2, "int32"), (True, "bool"), ("a", "string"), (np.arange(3), "int64")])
def test_nothing_floating(given: object, kind: str) -> None:
    words = [f"inputs hold {kind}", "nothing floating", "2.0, not 2", "variables="]
    refused(ValueError, words, lambda x: x, given)


def test_an_input_that_is_no_tensor() -> None:
    refused(TypeError, ["x['a'] is of type object", "give numbers, NumPy arrays"], lambda x: x, {"a": object()})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([1.0, 2.0], object), ["x has dtype object", "x.astype('float64')"]),
        (np.longdouble(1.0), [f"x has dtype {np.dtype(np.longdouble)}", "x.astype('float64')"]),
        (tf.sparse.from_dense([1.0, 0.0]), ["x is of type SparseTensor, not a dense tensor", "x.values", "x.indices"]),
        (
            tf.ragged.constant([[1.0], []]),
            ["of type RaggedTensor, not a dense", "x.flat_values", "with_flat_values(v)"],
        ),
    ],
)
def test_an_input_whose_kind_has_no_dense_tensor(given: object, words: list[str]) -> None:
    refused(TypeError, words, lambda x: x, given)


def test_inside_of_a_graph() -> None:
    with tf.Graph().as_default():
        refused(ValueError, ["a graph is being built", "outside of it"], tf.sin, 1.0)
        with pytest.raises(ValueError, match=r"a graph is being built .* call gradcheck\.audit outside of it"):
            audit(tf.sin, np.ones(2))


def test_numbers_that_meet_float32() -> None:
    weights = tf.Variable([1.0, 2.0])
    words = [
        "f raised InvalidArgumentError",
        "lists of them are passed to f as float64: for float32 pass tf.constant(x)",
    ]
    for numbers in ([1.0, 2.0], [1, 2.0], 1.0):
        refused(RuntimeError, words, lambda x: weights * x, numbers, variables=[weights])
    with pytest.raises(RuntimeError) as caught:
        check(lambda x: weights * x, np.ones(2))
    assert "passed to f" not in str(caught.value)


@pytest.mark.parametrize("name", ["a", 1, True])
def test_what_has_to_stay_pythons(name: object) -> None:
    words = ["f raised TypeError", "unhashable", "passed to f as tensors: to keep a Python value, close over it"]
    refused(RuntimeError, words, lambda x, key: {name: x}[key], 2.0, name)


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_arguments_in_a_list_or_tuple(kind: type) -> None:
    x = tf.constant([1.0, 2.0], tf.float64)
    words = [
        f"when called with a {kind.__name__} of float64(2,), float64(2,): ",
        f"the {kind.__name__} is one argument of f: to pass several, write gradcheck.check(f, a, b)",
    ]
    refused(RuntimeError, words, lambda a, b: a * b, kind((x, x)))
    assert check(lambda a, b: a * b, x, x).verdict == "agree"
    with pytest.raises(RuntimeError, match="when called with a tuple of ") as caught:  # it takes one
        check(lambda pair: pair[0] / pair[1].nothing, (x, x))
    assert "one argument" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_inputs_that_are_not_finite(bad: float) -> None:
    words = ["x holds 1 NaN or Inf of 3 coordinates", "give a finite one"]
    refused(ValueError, words, tf.sin, np.array([1.0, bad, 2.0]))


def test_a_variable_that_is_not_finite() -> None:
    variable = tf.Variable([1.0, np.nan], name="w")
    refused(ValueError, ["variables[0] (w:0) holds 1 NaN"], lambda: variable * 2.0, variables=[variable])


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: tf.cast(x, tf.int32), ["the result of f has dtype int32", "floating or complex tensor", "cast it"]),
        (lambda x: None, ["the result of f is None", "is a return statement missing?"]),
        (lambda x: "a", ["the result of f is of type str", "floating or complex tensor"]),
        (lambda x: tf.constant("a"), ["the result of f has dtype string"]),
        (lambda x: 2.0, ["the result of f is of type float", "Python numbers cut the gradient"]),
        (lambda x: x.numpy(), ["the result of f is of type float64", "NumPy"]),
        (lambda x: [], ["f returned []", "holds no tensor"]),
        (lambda x: (x, tf.argmax([x, x])), ["output 1 of f has dtype int64"]),
        (lambda x: {"a": None, "b": None}, ["output 0 of f is None"]),
        (lambda x: tf.sparse.from_dense([x]), ["the result of f is of type SparseTensor", "tf.sparse.to_dense(y)"]),
        (lambda x: (x, tf.ragged.constant([[1], [2, 3]])), ["output 1 of f is of type RaggedTensor", "y.to_tensor()"]),
        (lambda x: tf.IndexedSlices([x], [0]), ["of type IndexedSlices, not a dense", "tf.convert_to_tensor(y)"]),
    ],
)
def test_results_without_a_derivative(f: object, words: list[str]) -> None:
    refused(TypeError, words, f, 1.5)


@pytest.mark.parametrize(("f", "x"), [(tf.math.log, -1.0), (lambda x: 1 / x, 0.0)])
def test_a_result_that_is_not_finite(f: object, x: float) -> None:
    refused(ValueError, ["the result of f is NaN or Inf in 1 of 1", "give other inputs"], f, x)


def test_a_function_that_throws() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        raise KeyError("lost")

    words = ["f raised KeyError", "float64(2,)", "lost", "f has to run"]
    refused(RuntimeError, words, f, np.ones(2))
    with pytest.raises(RuntimeError) as caught:
        check(f, np.ones(2))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1e-3, np.nan, np.inf, "1e-3", 1j, True, np.ones(2)])
def test_tolerances(name: str, value: object) -> None:
    words = [f"{name} was {value!r}", "a finite number, zero or positive"]
    refused(ValueError, words, tf.sin, 1.0, **{name: value})


@pytest.mark.parametrize("order", [0, 3, -1, True, 2.0, "1", None])
def test_orders(order: object) -> None:
    refused(ValueError, [f"order was {order!r}", "1 (first derivatives) or 2"], tf.sin, 1.0, order=order)


def test_an_order_that_numpy_counted() -> None:
    assert set(check(tf.sin, 1.0, order=np.int64(2)).orders) == {1, 2}  # type: ignore[arg-type]


@pytest.mark.parametrize("probes", [7, 0, True, 8.0])
def test_probes(probes: object) -> None:
    refused(ValueError, [f"probes was {probes!r}", "at least 8"], tf.sin, 1.0, probes=probes)


def test_inconclusive_modes() -> None:
    with pytest.raises(ValueError, match=r"inconclusive was 'no'; expected one of 'raise', 'warn', 'ignore'"):
        assert_close(tf.sin, 1.0, inconclusive="no")


def test_variables_that_f_does_not_use() -> None:
    used, idle = tf.Variable(2.0, dtype=tf.float64), tf.Variable([1.0, 2.0], dtype=tf.float64, name="idle")
    result = check(lambda x: x * used, 3.0, variables=[used, idle], order=2)
    assert (result.verdict, result.unconnected) == ("agree", ("variables[1] (idle:0)",))
    note = "variables[1] (idle:0) is unconnected: its gradient is None, and f does not depend on it, but on used"
    assert result.orders[1].notes[0] == note
    alone = check(lambda: 2.0 * used, variables=[idle], order=2)
    assert [order.reasons for order in alone.orders.values()] == [(Reason.UNCONNECTED,)] * 2
    assert (alone.verdict, alone.orders[1].compared, alone.orders[1].inconclusive) == ("inconclusive", 0, 2)
    wrong = check(lambda: 2.0 * used, variables=[idle], gradient=lambda: [tf.ones(2, tf.float64)])
    assert wrong.verdict == "mismatch"
    np.testing.assert_array_equal(idle.numpy(), [1.0, 2.0])


@pytest.mark.parametrize("place", [1.0, 7.0])
def test_a_variable_that_chooses_a_row(place: float) -> None:
    """It is not unconnected: below row 1, f is another function; beyond the last row it raises."""
    table, row = tf.constant(np.arange(8.0)), tf.Variable(place, name="row")

    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.gather(table, tf.cast(row, tf.int32)) * x

    result = check(f, 2.0, variables=[row])
    assert (result.verdict, result.unconnected) == ("inconclusive", ())
    assert "variables[0] (row:0) has no gradient (None)" in result.orders[1].notes
    assert float(row) == place


def test_a_variable_whose_gradient_is_lost_is_not_called_unused() -> None:
    variable = tf.Variable(2.0, dtype=tf.float64)
    result = check(lambda x: x * float(variable.numpy()), 3.0, variables=[variable])
    assert [finding.kind.value for finding in result.findings] == ["missing"]


def test_an_input_variable_that_f_does_not_use_is_like_any_other_input() -> None:
    result = check(lambda x, y: x * x, tf.Variable(2.0, dtype=tf.float64), tf.Variable(3.0, dtype=tf.float64))
    assert result.verdict == "agree"
    assert "y has no gradient (None)" in result.orders[1].notes


def test_variables_of_a_model_that_is_not_built() -> None:
    weights: list[Any] = []

    def layer(x: Any) -> Any:
        if not weights:
            weights.append(tf.Variable(2.0, dtype="float64", name="kernel"))
        return weights[0] * x

    refused(ValueError, ["variables= is empty; at least one tf.Variable", "before it is built"], layer, variables=[])
    words = ["variables= is empty, but f uses the trainable variables kernel:0. A Keras model", "leave variables= out"]
    refused(ValueError, words, layer, 1.5, variables=[])
    assert check(layer, 1.5).verdict == "agree"


def test_no_variables_of_a_function_that_uses_none_it_could_train() -> None:
    statistic, own = tf.Variable(2.0, dtype="float64", trainable=False), tf.Variable(1.5, dtype="float64")
    assert check(lambda x: tf.sin(x) * statistic, 1.5, variables=[]).orders[1].compared == 1
    assert check(lambda x: tf.sin(x) * own, own, variables=()).orders[1].compared == 1
    assert check(lambda x: tf.sin(x) * own, own, variables=[own]).orders[1].compared == 1


def test_variables_that_are_none() -> None:
    refused(TypeError, ["variables[0] is of type float", "a tf.Variable was expected"], tf.sin, 1.0, variables=[2.0])
    counter = tf.Variable(3, name="counter")
    words = ["variables[0] (counter:0) has dtype int32", "leave it out of variables="]
    refused(TypeError, words, tf.sin, 1.0, variables=[counter])


def test_a_gradient_of_the_wrong_structure() -> None:
    words = ["gradient holds 3 tensors, 2 expected", "x (shape (2,)), y (shape ())", "None where there is none"]
    refused(ValueError, words, lambda x, y: x * y, np.ones(2), 2.0, gradient=[1.0, 2.0, 3.0])
    words = ["gradient for x has shape (3,), its source has shape (2,)"]
    refused(ValueError, words, tf.sin, [1.0, 2.0], gradient=[1.0, 2.0, 3.0])
    words = ["gradient has the keys 'a', 'c'", "the inputs have 'a', 'b'"]
    refused(ValueError, words, lambda d: d["a"] * d["b"], {"a": 1.0, "b": 2.0}, gradient={"a": 2.0, "c": 1.0})


@pytest.mark.parametrize("gradient", [np.ones(3), lambda x: tf.ones(3, tf.float64)])
def test_a_gradient_of_the_wrong_shape(gradient: object) -> None:
    words = ["gradient for x has shape (3,)", "its source has shape (2,)", "the gradient of the sum of f's outputs"]
    refused(ValueError, words, tf.sin, np.ones(2), gradient=gradient)


@pytest.mark.parametrize(("gradient", "dtype"), [("a", "string"), (1j, "complex128"), (tf.constant(2), "int32")])
def test_a_gradient_of_the_wrong_dtype(gradient: object, dtype: str) -> None:
    refused(ValueError, [f"gradient for x has dtype {dtype}", "dtype float64"], tf.sin, 1.0, gradient=gradient)


@pytest.mark.parametrize("gradient", ["cos", np.array(["a", "b"])])
def test_a_gradient_that_is_a_text(gradient: object) -> None:
    words = ["gradient for x has dtype string", "dtype float64", "give floating values"]
    refused(ValueError, words, tf.sin, np.ones(2), gradient=gradient)


@pytest.mark.parametrize("gradient", [lambda x, y: x, lambda: 1.0, tf.function(lambda x, *, y: x)])
def test_a_gradient_that_does_not_take_what_f_takes(gradient: object) -> None:
    words = ["gradient takes (", "the 1 input of f", "argument", "a callable with the arguments of f"]
    refused(TypeError, words, tf.sin, 1.0, gradient=gradient)


def test_keys_that_cannot_be_sorted() -> None:
    words = ["d has the keys 1, 'a'", "keys of one type"]
    refused(TypeError, words, lambda d: d[1] * d["a"], {1: 2.0, "a": 3.0})


def test_values_have_no_second_derivative() -> None:
    words = ["gradient is of type float64", "order=2", "needs a callable", "or use order=1"]
    refused(ValueError, words, tf.sin, 1.0, gradient=np.cos(1.0), order=2)


def test_empty_tensors_agree_trivially_and_it_is_said() -> None:
    result = check(tf.sin, np.zeros((0, 3)), order=2)
    assert result.verdict == "agree"
    assert [order.compared for order in result.orders.values()] == [0, 0]
    assert "agrees trivially" in str(result)
    assert check(lambda x: x[:0], np.ones(3)).verdict == "agree"
    assert_close(tf.sin, np.zeros((0, 3)))


def test_a_function_that_is_not_deterministic() -> None:
    calls: list[int] = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return x * len(calls)

    result = check(f, 1.0, order=2)
    assert result.verdict == "inconclusive"
    assert [order.reasons for order in result.orders.values()] == [(Reason.NOT_DETERMINISTIC,)] * 2
    assert "two calls at the same inputs differ by 1" in str(result)
    assert "besides variables and global random generators, such as a generator object like" in str(result)


def test_a_result_whose_shape_is_not_the_same_twice() -> None:
    calls: list[int] = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return x[: 1 + len(calls) % 2]

    result = check(f, np.ones(3))
    assert result.orders[1].reasons == (Reason.NOT_DETERMINISTIC,)
    assert re.search(r"two calls at the same inputs return (1 and 2|2 and 1) numbers; it depends on", str(result))


def test_random_operations_in_a_traced_function_are_named() -> None:
    drawing = tf.function(lambda x: x * tf.random.uniform((), dtype=tf.float64))
    eager = check(drawing, 1.0)
    assert eager.verdict == "agree"
    assert "a tf.function draws different random numbers than eager code" in str(eager)
    traced = check(drawing.get_concrete_function(tf.TensorSpec((), tf.float64)), 1.0)
    assert traced.orders[1].reasons == (Reason.NOT_DETERMINISTIC,)
    assert "it runs RandomUniform, whose state cannot be put back" in str(traced)


def test_a_function_that_throws_beside_the_point_is_outside_of_its_domain_there() -> None:
    def only_here(x: tf.Tensor) -> tf.Tensor:
        if x.numpy() != 1.0:
            raise ValueError("elsewhere")
        return tf.sin(x)

    def up_to_there(x: tf.Tensor) -> tf.Tensor:
        if x.numpy() > 1.1:
            raise ValueError("too far")
        return tf.sin(x)

    result = check(only_here, 1.0, order=2)
    assert result.verdict == "inconclusive"
    assert result.orders[1].reasons == (Reason.NOT_FINITE,)
    note = "f raised ValueError at inputs near the given ones: elsewhere; for constrained inputs use"
    assert result.orders[1].notes[-1].startswith(note)
    result = check(up_to_there, 1.1)
    assert result.orders[1].reasons == (Reason.JUMP,)
    assert "f raised ValueError at inputs near the given ones: too far; " in str(result)
    result = check(up_to_there, 1.0, order=2)
    assert "f raised" not in str(result)
    assert result.verdict == "agree"
    assert result.resolution[1] < 1e-9


ELSEWHERE = {
    "eps": "gradcheck chooses the steps of its differences",
    "delta": "gradcheck chooses the steps of its differences",
    "modes": "reverse mode is compared, as tape.gradient takes it",
    "fast_mode": "as many as probes= says",
    "raise_exception": "check and explain return a Result",
    "nondet_tol": "random numbers are drawn alike in all runs",
    "second": "seconds= was meant?",
    "verbose": "it takes f, inputs, ",
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("door", [check, assert_close, assert_step, explain, spot_check])
def test_arguments_of_other_checkers_are_answered(door: Any, name: str) -> None:
    with pytest.raises(TypeError) as caught:
        door(tf.sin, 1.0, **{name: 1e-3})
    first, _, instead = str(caught.value).partition(": ")
    assert first == f"{door.__name__}() got an unexpected keyword argument {name!r}"
    if door is not spot_check:  # which takes other arguments
        assert ELSEWHERE[name] in instead or name == "verbose"
    assert name not in inspect.signature(door).parameters


def test_a_monitor_answers_them_too() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'direction': directions= was meant\?"):
        GradientMonitor(direction=3)  # type: ignore[call-arg]
