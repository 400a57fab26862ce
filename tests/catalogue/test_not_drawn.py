"""The registered gradients that no operation of the catalogue goes through: run otherwise, or out of a CPU's reach."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import mpmath
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.debug.lib import debug_gradients
from tensorflow.python.framework import kernels
from tensorflow.python.ops import gen_array_ops, gen_control_flow_ops

from gradcheck.hunt.census import Judgement, census, gradient_functions
from tests.planting import planted

X = tf.constant([1.5, -2.5, 4.5], tf.float64)

V1_ARRAYS = [
    f"TensorArray{name}{version}"
    for name in ("Concat", "Gather", "Read", "Scatter", "Split", "Write")
    for version in ("", "V2")
]
ELSEWHERE = {"_EagerConst", "ArgMax", "ArgMin", "LoopCond", "TopK", *V1_ARRAYS}
"""Those that have a CPU kernel, and are out of reach for another reason, which a test below shows."""


CallsOf = Callable[[str], list[Any]]


@pytest.fixture
def calls_of() -> Iterator[CallsOf]:
    """The operations that a registered gradient function is called with from now on."""
    with ExitStack() as stack:

        def of(name: str) -> list[Any]:
            calls = list[Any]()

            def counted(right: Callable[..., Any]) -> Callable[..., Any]:
                def gradient(operation: Any, *upstream: Any) -> Any:
                    calls.append(operation)
                    return right(operation, *upstream)

                return gradient

            stack.enter_context(planted([name], counted))
            return calls

        yield of


def by_tape(f: Callable[[Any], Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def in_a_graph(f: Callable[[Any], Any], x: Any) -> Any:
    return tf.function(lambda x: (tf.gradients(f(x), x)[0],))(x)[0]


@contextmanager
def tensorflow_1(producer: int = 0) -> Iterator[Any]:
    """A session with a graph of TensorFlow 1, maybe of a release with operations that were removed since."""
    graph = tf.compat.v1.GraphDef()
    if producer:
        graph.versions.producer = producer
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.import_graph_def(graph, name="")
            yield session
    finally:
        tf.compat.v1.enable_control_flow_v2()


def has_cpu_kernel(operation: str) -> bool:
    return any(kernel.device_type == "CPU" for kernel in kernels.get_registered_kernels_for_op(operation).kernel)


def test_what_is_excluded_has_no_kernel_on_a_cpu_or_another_reason() -> None:
    excluded = {row.operation for row in census().values() if row.judgement is Judgement.EXCLUDED}
    assert set(filter(has_cpu_kernel, excluded)) == ELSEWHERE


def test_what_a_test_has_to_run_is_run_below() -> None:
    run = {"TruncateDiv", "RandomGamma", "DebugGradientIdentity", "Relayout", "RelayoutLike", *COMPILED}
    run |= set().union(*REFS.values())
    assert run == {row.operation for row in census().values() if row.judgement is Judgement.TEST}


@pytest.mark.parametrize("derivative", [by_tape, in_a_graph])
@pytest.mark.parametrize("extreme", [tf.argmax, tf.argmin])
def test_nothing_calls_the_gradient_of_a_place_since_integers_have_none(
    derivative: Callable[..., Any], extreme: Callable[..., Any], calls_of: CallsOf
) -> None:
    calls = [calls_of(name) for name in ("ArgMax", "ArgMin")]
    found = derivative(lambda x: tf.cast(extreme(x), tf.float64) * x, X)
    assert found.numpy() == pytest.approx(np.full(3, extreme(X)))
    assert derivative(lambda x: tf.cast(extreme(x), tf.float64), X) is None
    assert calls == [[], []]


def test_no_function_of_tensorflow_makes_the_constants_whose_gradient_refuses() -> None:
    assert not hasattr(tf.raw_ops, "EagerConst")
    assert not hasattr(gen_array_ops, "_eager_const")
    with pytest.raises(AssertionError, match="should never interact with gradient APIs"):
        gradient_functions()["_EagerConst"](None, X)


def test_the_gradient_of_a_truncated_quotient_is_none(calls_of: CallsOf) -> None:
    calls = calls_of("TruncateDiv")
    assert by_tape(lambda x: tf.truncatediv(x, tf.constant(2.0, tf.float64)), X) is None
    assert len(calls) == 1


def test_a_gamma_sample_moves_so_that_its_share_stays(calls_of: CallsOf) -> None:
    """Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018): dz/da = -(dF/da) / (dF/dz).

    Each call draws other samples, so that differences of them say nothing.
    """
    calls, shapes = calls_of("RandomGamma"), tf.constant([0.6, 2.5, 30.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(shapes)
        z = tf.random.gamma([], shapes, dtype=tf.float64, seed=1)
    found = tape.gradient(z, shapes)
    assert len(calls) == 1

    def share(shape: Any, sample: Any) -> Any:
        return mpmath.gammainc(shape, 0, sample, regularized=True)

    with mpmath.workdps(40):
        places = [(mpmath.mpf(float(a)), mpmath.mpf(float(at))) for a, at in zip(shapes, z, strict=True)]
        right = [float(-mpmath.diff(share, place, (1, 0)) / mpmath.diff(share, place, (0, 1))) for place in places]
    assert found.numpy() == pytest.approx(right, rel=1e-9)


def test_the_condition_of_a_loop_is_a_boolean_which_has_no_gradient(calls_of: CallsOf) -> None:
    """One turn: (x + 1)**2 + x, whose derivative at 0.5 is 4."""
    calls, exits = (calls_of(name) for name in ("LoopCond", "Exit"))
    with tensorflow_1() as session:
        x = tf.constant([0.5], tf.float64)
        y = tf.compat.v1.while_loop(lambda y: tf.reduce_sum(y) < 2.0, lambda y: (y * y + x,), (x + 1.0,))
        assert session.run(tf.gradients(y, x)[0]) == pytest.approx([4.0])
    assert not calls
    assert exits


@pytest.mark.parametrize("flag", [True, False])
def test_a_variable_that_a_branch_does_not_read_is_given_zeros(flag: bool, calls_of: CallsOf) -> None:
    """So that _SwitchGrad is never left with the gradient of one branch alone, whatever its inputs are."""
    calls = calls_of("Switch")
    with tensorflow_1() as session:
        variable = tf.compat.v1.get_variable("x", initializer=X.numpy(), use_resource=True)
        y = tf.compat.v1.cond(tf.constant(flag), lambda: tf.sin(variable), lambda: tf.ones(X.shape, X.dtype))
        gradient = tf.gradients(y, variable)[0]
        second = tf.gradients(gradient, variable)[0]
        session.run(variable.initializer)
        assert session.run(gradient) == pytest.approx(flag * np.cos(X))
        assert session.run(second) == pytest.approx(-flag * np.sin(X))
        assert not [one.name for one in session.graph.get_operations() if "cond_resource_grad" in one.name]
    assert any(call.inputs[0].dtype == tf.resource for call in calls)


@pytest.mark.parametrize("back_prop", [True, False])
def test_a_derivative_inside_of_a_loop_passes_what_comes_from_outside(back_prop: bool, calls_of: CallsOf) -> None:
    """Two turns, each adds the derivative of x sin(x); without back_prop nothing comes out of them."""
    calls, x = calls_of("Enter"), X.numpy()
    with tensorflow_1() as session:
        given = tf.constant(x)
        y = tf.compat.v1.while_loop(
            lambda i, _: i < 2,
            lambda i, y: (i + 1, y + tf.gradients(tf.sin(given) * given, given)[0]),
            (0, given),
            back_prop=back_prop,
        )[1]
        assert calls
        assert session.run(y) == pytest.approx(x + 2 * (np.sin(x) + x * np.cos(x)))
        gradient = tf.gradients(y, given)[0]
        if back_prop:
            assert session.run(gradient) == pytest.approx(1 + 2 * (2 * np.cos(x) - x * np.sin(x)))
        else:
            assert gradient is None


def switched(x: Any) -> Any:
    return gen_control_flow_ops.ref_switch(x, tf.constant(True)).output_true


def merged(x: Any) -> Any:
    return gen_control_flow_ops.ref_merge(gen_control_flow_ops.ref_switch(x, tf.constant(True))).output


def looped(x: Any) -> Any:
    return tf.compat.v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y), (0, x))[1]


def watched(x: Any) -> Any:
    return debug_gradients.GradientsDebugger().identify_gradient(x)


LOOP = {"RefEnter", "RefExit", "RefMerge", "RefNextIteration", "RefSwitch", "RefIdentity"}
REFS: dict[Callable[[Any], Any], set[str]] = {
    gen_array_ops.ref_identity: {"RefIdentity"},
    switched: {"RefSwitch"},
    merged: {"RefSwitch", "RefMerge"},
    looped: LOOP,
    watched: {"DebugGradientRefIdentity"},
}


@pytest.mark.parametrize("f", REFS, ids=lambda f: f.__name__)
def test_a_reference_to_a_variable_of_tensorflow_1_hands_its_gradient_on(
    f: Callable[[Any], Any], calls_of: CallsOf
) -> None:
    calls = {name: calls_of(name) for name in REFS[f]}
    with tensorflow_1() as session:
        variable = tf.compat.v1.get_variable("x", initializer=np.array([0.3, 0.7]), use_resource=False)
        y = tf.sin(f(variable._ref()))
        gradient = tf.gradients(y, variable)[0]
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(gradient) == pytest.approx(np.cos([0.3, 0.7]))
    assert all(calls.values())


def test_a_debugger_sees_the_gradient_that_it_hands_on(calls_of: CallsOf) -> None:
    calls = calls_of("DebugGradientIdentity")
    with tensorflow_1() as session:
        debugger, x = debug_gradients.GradientsDebugger(), tf.constant([0.3, 0.7], tf.float64)
        with debugger:
            gradient = tf.gradients(tf.sin(debugger.identify_gradient(x)), x)[0]
        gradients = session.run([gradient, debugger.gradient_tensor(x)])
    assert len(calls) == 1
    for gradient in gradients:
        assert gradient == pytest.approx(np.cos([0.3, 0.7]))


def given_to_array(version: str, kind: str, x: Any) -> Any:
    """A tensor array of an early version, written or read by an operation of a kind and another one."""
    make, call = (lambda name: getattr(tf.raw_ops, f"TensorArray{name}{version}")), {"dtype": tf.float32}
    handle = make("")(size=3, dtype=tf.float32)
    if kind in ("Read", "Write"):
        flow = make("Write")(handle=handle, index=0, value=x, flow_in=0.0)
        return make("Read")(handle=handle, index=0, flow_in=flow, **call)
    if kind in ("Concat", "Split"):
        flow = make("Split")(handle=handle, value=x, lengths=tf.constant([1, 1, 1], tf.int64), flow_in=0.0)
        return make("Concat")(handle=handle, flow_in=flow, **call).value
    flow = make("Scatter")(handle=handle, indices=[0, 1, 2], value=x, flow_in=0.0)
    return make("Gather")(handle=handle, indices=[0, 1, 2], flow_in=flow, **call)


@pytest.mark.parametrize("name", V1_ARRAYS)
def test_the_gradient_of_an_early_tensor_array_takes_handles_of_the_third_version_alone(name: str) -> None:
    version = "V2" if name.endswith("V2") else ""
    kind = name.removeprefix("TensorArray").removesuffix("V2")
    with tensorflow_1(producer=25 if version else 15):
        x = tf.constant([0.3, 0.7, 0.9])
        y = given_to_array(version, kind, x)
        with pytest.raises(TypeError, match=r"'TensorArrayGradV3' Op has type string.* expected type of resource"):
            tf.gradients(y, x)


def test_the_only_kernel_of_the_first_top_k_asks_for_an_attribute_that_it_has_not() -> None:
    with tensorflow_1(producer=6) as session:
        x = tf.constant([0.3, 0.7, 0.9])
        values = tf.raw_ops.TopK(input=x, k=2).values
        with pytest.raises(tf.errors.InvalidArgumentError, match="constraint on attr 'index_type' not in NodeDef"):
            session.run(values)
        with pytest.raises(ValueError, match=r"(?s)Num gradients 2 generated .* do not match num inputs 1"):
            tf.gradients(values, x)


def product(x: Any) -> Any:
    return gen_xla_ops.xla_einsum(x, tf.sin(x), "ab,bc->ac")


def sharded(x: Any) -> Any:
    return gen_xla_ops.xla_sharding(tf.sin(x))


def to_shard(x: Any) -> Any:
    return gen_xla_ops.xla_spmd_full_to_shard_shape(tf.sin(x), manual_sharding="")


def to_full(x: Any) -> Any:
    return gen_xla_ops.xla_spmd_shard_to_full_shape(tf.sin(x), manual_sharding="", full_shape=[2, 2])


COMPILED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "XlaEinsum": (product, lambda x: tf.matmul(x, tf.sin(x))),
    "XlaSharding": (sharded, tf.sin),
    "XlaSpmdFullToShardShape": (to_shard, tf.sin),
    "XlaSpmdShardToFullShape": (to_full, tf.sin),
}


@pytest.mark.parametrize("name", COMPILED)
def test_what_only_compilers_make_has_the_gradient_of_what_it_computes(name: str, calls_of: CallsOf) -> None:
    calls, x = calls_of(name), tf.constant([[0.3, 0.7], [-1.2, 2.1]])
    compiled, plain = COMPILED[name]
    found = by_tape(tf.function(compiled, jit_compile=True), x)
    np.testing.assert_allclose(found, by_tape(plain, x), rtol=1e-6)
    assert calls


DTENSOR = """
    import tensorflow as tf
    from tensorflow.experimental import dtensor
    from tensorflow.python.framework import ops

    registered, calls = ops.gradient_registry._registry, []
    for name in ("CopyToMesh", "CopyToMeshGrad", "Relayout", "RelayoutLike"):
        def counted(operation, gradient, name=name, function=registered[name]["type"]):
            calls.append(name)
            return function(operation, gradient)
        registered[name]["type"] = counted

    mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    whole = dtensor.Layout([dtensor.UNSHARDED, dtensor.UNSHARDED], mesh)
    rows = dtensor.Layout(["x", dtensor.UNSHARDED], mesh)
    values = tf.constant([[0.3, 0.7], [-1.2, 2.1]])

    def gradient(f):
        with tf.GradientTape() as tape:
            x = dtensor.copy_to_mesh(values, whole)
            tape.watch(x)
            y = tf.reduce_sum(f(x))
        found = dtensor.unpack(tape.gradient(y, x))[0]
        tf.debugging.assert_near(found, tf.cos(values), 1e-6, 1e-6)

    gradient(lambda x: dtensor.relayout(tf.sin(x), rows))
    gradient(lambda x: dtensor.relayout_like(tf.sin(x), x))
    print(*calls)
"""


@pytest.mark.exhaustive
def test_layouts_of_a_mesh_hand_gradients_on_and_nothing_makes_the_copies_of_before() -> None:
    command = [sys.executable, "-c", textwrap.dedent(DTENSOR)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["Relayout", "RelayoutLike"], done.stderr
