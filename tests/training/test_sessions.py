"""C1, C2 and C6 in TensorFlow 1 sessions: gradients as data, fetched, averaged, fed back and applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_step

v1 = tf.compat.v1
N, RATE = 3, 0.1
RESULT = """gradcheck: agree
order 1: agree ({compared} compared, 0 inconclusive)
"""


@dataclass
class Network:
    """C1's network in a session: two layers of tanh, W3, and the squared distance from the norm of x."""

    session: Any
    x: Any
    loss: Any
    pairs: list[Any]
    train: Any
    sample: np.ndarray

    @property
    def gradients(self) -> list[Any]:
        return [gradient for gradient, _ in self.pairs]

    @property
    def names(self) -> list[str]:
        return [variable.op.name for _, variable in self.pairs]

    def values(self) -> list[np.ndarray]:
        with self.session.graph.as_default():
            return self.session.run(v1.global_variables())


@pytest.fixture(params=["variables", "resource variables"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    threads = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1)  # in the caller's thread
    with tf.Graph().as_default(), v1.Session(config=threads) as session:
        rng = np.random.default_rng(0)
        shapes = {"W1": (N, N), "b1": (N,), "W2": (N, N), "b2": (N,), "W3": (N,)}
        resource = request.param == "resource variables"
        w1, b1, w2, b2, w3 = (
            v1.get_variable(name, initializer=rng.normal(size=shape), use_resource=resource)
            for name, shape in shapes.items()
        )
        x = v1.placeholder(tf.float64, (N, 1))
        # x + b1 is (N, 1) + (N,): the sum broadcasts to (N, N), and with it all that follows.
        h1 = tf.tanh(tf.matmul(w1, x + b1))
        h2 = tf.tanh(tf.matmul(w2, h1) + b2)
        loss = (tf.reduce_sum(w3 * h2) - tf.norm(x)) ** 2
        optimizer = v1.train.GradientDescentOptimizer(RATE)
        pairs = optimizer.compute_gradients(loss)
        train = optimizer.apply_gradients(pairs)
        session.run(v1.global_variables_initializer())
        yield Network(session, x, loss, pairs, train, rng.normal(size=(N, 1)))


def test_c1_the_gradients_of_a_session(network: Network) -> None:
    assert network.names == ["W1", "b1", "W2", "b2", "W3"]
    before = network.values()
    result = assert_step(lambda: network.session.run((network.loss, network.gradients), {network.x: network.sample}))
    assert str(result).startswith(RESULT.format(compared=27))
    assert result.orders[1].notes == ("27 entries were compared together, in 1 random combination",)
    assert result.resolution[1] < 1e-8
    for value, kept in zip(network.values(), before, strict=True):
        np.testing.assert_array_equal(value, kept)


def test_c1_the_gradients_that_the_graph_applies_are_caught(network: Network) -> None:
    _, w3 = network.pairs[-1]

    def step() -> Any:
        return network.session.run((network.loss, network.train), {network.x: network.sample})

    assert assert_step(step, variables=[w3]).verdict == "agree"


def averaged(network: Network, samples: list[np.ndarray], divisor: float) -> Any:
    """C2: the gradients of every sample, their sum over `divisor` in NumPy, fed back and applied."""
    fetches = (network.loss, network.gradients)
    fetched = [network.session.run(fetches, {network.x: sample}) for sample in samples]
    lists = [gradients for _, gradients in fetched]
    mean = [sum(parts) / divisor for parts in zip(*lists, strict=True)]
    network.session.run(network.train, dict(zip(network.gradients, mean, strict=True)))
    return np.mean([loss for loss, _ in fetched]), mean


@pytest.fixture
def samples(network: Network) -> list[np.ndarray]:
    return [network.sample, 2 * network.sample, network.sample[::-1]]


def test_c2_every_variable_moves_by_the_rate_times_the_mean(network: Network, samples: list[np.ndarray]) -> None:
    before = network.values()
    _, mean = averaged(network, samples, 3)
    for value, kept, gradient in zip(network.values(), before, mean, strict=True):
        # TensorFlow 1's optimizers hold a rate that is a Python number in float32, whatever the variables are.
        np.testing.assert_array_equal(value, kept - np.float64(np.float32(RATE)) * gradient)


def test_c2_agrees(network: Network, samples: list[np.ndarray]) -> None:
    b1, w3 = network.pairs[1][1], network.pairs[4][1]
    before = network.values()
    result = assert_step(lambda: averaged(network, samples, 3)[0], variables=[b1, w3])
    assert str(result).startswith(RESULT.format(compared=2 * N))
    for value, kept in zip(network.values(), before, strict=True):
        np.testing.assert_array_equal(value, kept)


@pytest.mark.parametrize("network", ["resource variables"], indirect=True)
def test_c2_a_sum_for_a_mean_is_wrong(network: Network, samples: list[np.ndarray]) -> None:
    (_, b1) = network.pairs[1]
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_step(lambda: averaged(network, samples, 1)[0], variables=[b1])
    (finding,) = caught.value.result.findings  # type: ignore[union-attr]
    assert finding.autodiff == pytest.approx(3 * (finding.difference or 0.0))


@pytest.fixture
def cubes() -> Iterator[Any]:
    """A session with one variable, the sum of its cubes, its gradient, and a descent."""
    with tf.Graph().as_default(), v1.Session() as session:
        a = v1.get_variable("a", initializer=np.array([1.0, 2.0, 3.0]))
        loss = tf.reduce_sum(a**3)
        session.run(v1.global_variables_initializer())
        yield session, a, loss, tf.gradients(loss, [a])[0]


@pytest.mark.parametrize("place", [0, 1])
def test_a_variable_that_the_loss_does_not_use_is_left_out(place: int) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        pair = [v1.get_variable(name, initializer=np.arange(1.0, size)) for name, size in (("a", 4), ("b", 3))]
        used = pair[place]
        loss = tf.reduce_sum(used**3)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[used])
        session.run(v1.global_variables_initializer())
        result = assert_step(lambda: session.run((loss, train)))
        assert (result.verdict, result.orders[1].compared) == ("agree", int(used.shape[0]))
        assert [len(value) for value in session.run(pair)] == [3, 2]


@pytest.mark.parametrize(
    ("clip", "note"),
    [
        (lambda g: np.clip(g, -4, 4), "clipped by value to at most 4"),
        (lambda g: g / np.linalg.norm(g), "clipped to the norm 1 for each variable (the longest was 29.6985)"),
    ],
    ids=["value", "norm"],
)
def test_c6_clipped_in_numpy(cubes: Any, clip: Any, note: str) -> None:
    session, _, loss, gradient = cubes

    def step() -> Any:
        value, fetched = session.run((loss, gradient))
        return value, [clip(fetched)]

    assert assert_step(step).orders[1].notes == (f"changed after it was taken: {note}",)


def test_c6_clipped_in_the_graph(cubes: Any) -> None:
    session, a, loss, gradient = cubes
    (clipped,), _ = tf.clip_by_global_norm([gradient], 1.0)
    apply = v1.train.GradientDescentOptimizer(RATE).apply_gradients([(clipped, a)])
    note = "changed after it was taken: clipped to the global norm 1 (it was 29.6985)"
    assert assert_step(lambda: session.run((loss, apply))).orders[1].notes == (note,)


def test_a_session_given_by_name_outside_of_its_graph() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a = v1.get_variable("a", initializer=2.0)
        loss = a**3
        (gradient,) = tf.gradients(loss, [a])
        doubled = 2 * gradient
        session = v1.Session()
        session.run(a.initializer)
    assert assert_step(lambda: session.run((loss, [gradient])), session=session, variables=[a]).verdict == "agree"
    with pytest.raises(gradcheck.GradientWrongValue):
        assert_step(lambda: session.run((loss, [doubled])), session=session)
    session.close()


CUT = """test_sessions.py:{line}: scale = tf.stop_gradient(a)
    evidence     {lost} is lost: tf.stop_gradient at test_sessions.py:{line} lets the value through, not the gradient
    remedy       leave tf.stop_gradient out of `scale = tf.stop_gradient(a)` (test_sessions.py:{line}); if that was \
its purpose, nothing is wrong
"""


@pytest.mark.parametrize("runs", [1, 2], ids=["the loss itself", "a mean of losses"])
def test_a_path_that_breaks_in_the_graph_is_named_with_its_line(runs: int) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        a = v1.get_variable("a", initializer=np.array([0.5]))
        k = v1.placeholder(tf.float64, ())
        scale = tf.stop_gradient(a)
        loss = tf.reduce_sum(k * a * scale)
        (gradient,) = tf.gradients(loss, [a])
        session.run(a.initializer)

        def step() -> Any:
            fetched = [session.run((loss, gradient), {k: float(run + 1)}) for run in range(runs)]
            return sum(value for value, _ in fetched) / runs, [sum(part for _, part in fetched) / runs]

        with pytest.raises(gradcheck.GradientWrongValue) as caught:
            assert_step(step)
    line = step.__code__.co_firstlineno - 5
    lost = {1: "0.5 of 1", 2: "0.75 of 1.5"}[runs]
    assert CUT.format(line=line, lost=lost) in str(caught.value)


def test_a_graph_without_a_cut_is_not_blamed(cubes: Any) -> None:
    session, _, loss, gradient = cubes
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_step(lambda: (session.run(loss), [3.0 * session.run(gradient)]))
    assert "evidence     all gradients are 3 times the right ones\n" in str(caught.value)


def test_an_optimizer_with_slots_leaves_them(cubes: Any) -> None:
    session, _, loss, _ = cubes
    train = v1.train.AdamOptimizer(0.1).minimize(loss)
    session.run(v1.global_variables_initializer())
    session.run(train)
    before = session.run(v1.global_variables())
    assert len(before) == 5
    assert assert_step(lambda: session.run((loss, train))).verdict == "agree"
    for value, kept in zip(session.run(v1.global_variables()), before, strict=True):
        np.testing.assert_array_equal(value, kept)


def test_a_second_move_beside_the_graphs_own(cubes: Any) -> None:
    session, a, loss, _ = cubes
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    decay = a.assign(0.5 * a)

    def step() -> Any:
        value, _ = session.run((loss, train))
        session.run(decay)
        return value

    with pytest.raises(gradcheck.GradientWrongUpdate) as caught:
        assert_step(step)
    assert "GradientDescent, given the same gradients in the same state, moves it by -1.2" in str(caught.value)


# Code that raises under a tape is called again without one, to see whether the tape is to blame.
@pytest.mark.parametrize(("error", "calls"), [(ZeroDivisionError, 8), (KeyboardInterrupt, 7)])
def test_a_session_is_put_back_after_an_exception(cubes: Any, error: type[BaseException], calls: int) -> None:
    session, a, loss, gradient = cubes
    double = a.assign(0.0 * a)
    runs = Mock()

    def step() -> Any:
        runs()
        session.run(double)
        if runs.call_count > 6:
            raise error
        return session.run((loss, [gradient]))

    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        assert_step(step)
    assert runs.call_count == calls
    assert session.run(a).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("resource", [False, True], ids=["variables", "resource variables"])
def test_variables_with_one_initial_value_have_values_of_their_own(resource: bool) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        start = tf.constant(2.0, tf.float64)
        a, b = (v1.Variable(start, name=name, use_resource=resource) for name in "ab")
        loss = a**2 * b
        train = v1.train.GradientDescentOptimizer(RATE).minimize(loss)
        session.run(v1.global_variables_initializer())
        session.run(b.assign(3.0))
        assert a.initializer.inputs[1] is b.initializer.inputs[1]
        assert assert_step(lambda: session.run((loss, train))[0]).verdict == "agree"
        assert session.run((a, b)) == (2.0, 3.0)


def test_a_variable_may_be_listed_twice(cubes: Any) -> None:
    session, a, loss, gradient = cubes
    assert assert_step(lambda: session.run((loss, [gradient, gradient])), variables=[a, a]).orders[1].compared == 3


def test_what_a_session_cannot_put_back(cubes: Any) -> None:
    session, a, loss, gradient = cubes
    noise = tf.random.normal((), dtype=tf.float64, name="noise")
    noisy = loss + noise
    with pytest.raises(ValueError, match="the step runs RandomStandardNormal \\(noise/RandomStandardNormal\\), whose"):
        assert_step(lambda: session.run((noisy, [gradient])))
    batch = v1.data.make_one_shot_iterator(tf.data.Dataset.range(9)).get_next()
    with pytest.raises(ValueError, match="the step runs IteratorGetNext \\(IteratorGetNext\\), whose state is in the"):
        assert_step(lambda: session.run((loss, [gradient], batch)))
    with pytest.raises(ValueError, match="the step adds operations to the graph, which grows with every run"):
        assert_step(lambda: session.run((loss, tf.gradients(loss, [a]))))
    with pytest.raises(ValueError, match="b:0 has no value in the session"):
        assert_step(lambda: session.run((loss, [gradient])), variables=[v1.get_variable("b", initializer=1.0)])


def test_no_session() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="there is no session to run the step in"):
        assert_step(lambda: None)
    with pytest.raises(TypeError, match=r"session is of type int; a tf.compat.v1.Session was expected"):
        assert_step(lambda: None, session=3)


@pytest.mark.parametrize("use_resource", [True, False])
def test_an_update_on_the_path_goes_through_the_state_of_a_variable(use_resource: bool) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        a = v1.get_variable("a", initializer=np.array([0.5, 2.0]), use_resource=use_resource)
        updated = v1.assign(a, 2.0 * a, use_locking=True)
        with tf.control_dependencies([updated]):
            stored = tf.reduce_sum((a.read_value() if use_resource else updated) ** 2)
        computed = tf.reduce_sum((2.0 * a) ** 2)
        gradients = [tf.gradients(loss, [a]) for loss in (stored, computed)]
        session.run(a.initializer)

        def step() -> Any:
            return session.run((stored, [gradient for gradient in gradients[0] if gradient is not None])) or None

        def lost() -> Any:
            return session.run(stored), [None]

        with pytest.raises(gradcheck.GradientMismatch) as caught:
            assert_step(step if use_resource else lost)
        told = str(caught.value)
        assert "cause        went through state" in told
        assert ("a reference variable of TensorFlow 1" in told) is not use_resource
        assert "compute with the tensor itself instead of `updated = v1.assign(a, 2.0 * a" in told
        assert assert_step(lambda: session.run((computed, gradients[1]))).verdict == "agree"


def graph_with(use_resource: bool) -> tuple[Any, Any]:
    """A loss, and its gradient by a tape in a graph."""
    a = v1.get_variable("a", initializer=np.array([0.5, 2.0]), use_resource=use_resource)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(a**2)
    return loss, tape.gradient(loss, a)


def test_a_tape_that_gets_a_reference_variable() -> None:
    def building(use_resource: bool) -> Any:
        with tf.Graph().as_default():
            return graph_with(use_resource)[1].name

    (one,) = gradcheck.explain(lambda: building(False)).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is gradcheck.Cause.NOT_WATCHED
    assert "use_resource=True" in one.diagnosis.remedy
    with pytest.raises(
        ValueError, match=r"takes a derivative in a tf\.Graph, whose tensors have no values; .*session="
    ):
        gradcheck.explain(lambda: building(True))
    with tf.Graph().as_default(), v1.Session() as session:
        loss, gradient = graph_with(True)
        session.run(v1.global_variables_initializer())
        assert assert_step(lambda: session.run((loss, [gradient]))).verdict == "agree"
