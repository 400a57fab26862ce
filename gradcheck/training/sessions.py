"""Training steps that run in a TensorFlow 1 session: its variables, what a call of `run` does, and its runner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import context

from gradcheck.explanation.diagnosis import graph_diagnosis
from gradcheck.explanation.interception import patched
from gradcheck.explanation.wrong_gradient import LostPart
from gradcheck.result import Diagnosis
from gradcheck.training.runner import StepRun, StepRunner
from gradcheck.training.side_effects import UnrepeatableStepError
from gradcheck.training.step_recorder import OptimizerCall

Array = np.ndarray[Any, Any]


def session_of(session: Any) -> Any:
    """The session given, or else the default one where a graph is being built; None for eager code.

    Raises ValueError where a graph is being built and there is no session, TypeError for what is no session.
    """
    if session is None and not tf.executing_eagerly():
        session = tf.compat.v1.get_default_session()
        if session is None:
            raise ValueError(
                "a graph is being built, and there is no session to run the step in; "
                "give session=, or call assert_step inside of `with tf.compat.v1.Session() as session:`"
            )
    if session is not None and not isinstance(session, BaseSession):
        raise TypeError(f"session is of type {type(session).__name__}; a tf.compat.v1.Session was expected")
    return session


class SessionState:
    """The variables of a session's graph that have values, by their places in `variables`, and those values."""

    def __init__(self, session: Any) -> None:
        self.session = session
        with session.graph.as_default():
            known = (*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables())
            self._trainable = list(tf.compat.v1.trainable_variables())
        distinct = list({id(variable): variable for variable in known}.values())
        values = [self._read(variable) for variable in distinct]
        self.variables = [variable for variable, value in zip(distinct, values, strict=True) if value is not None]
        self.initial = [value for value in values if value is not None]
        self._current: list[Array | None] = list(self.initial)

    def places(self, variables: Any) -> list[int]:
        """The places of these variables, or of the trainable ones. Raises ValueError for one without a value."""
        given = self._trainable if variables is None else tf.nest.flatten(variables)
        known = {id(variable): place for place, variable in enumerate(self.variables)}
        for variable in given:
            if id(variable) not in known:
                raise ValueError(
                    f"{getattr(variable, 'name', type(variable).__name__)} has no value in the session; give variables "
                    "of its graph, and run tf.compat.v1.global_variables_initializer() before"
                )
        return [known[id(variable)] for variable in given]

    def load(self, changed: Mapping[int, Array]) -> None:
        """Give the variables at these places these values, and all others their initial ones."""
        for place, (variable, initial) in enumerate(zip(self.variables, self.initial, strict=True)):
            value = changed.get(place, initial)
            if not _same(self._current[place], value):
                self.session.run(variable.initializer, {variable.initializer.inputs[1]: value})
                self._current[place] = value

    def values(self, places: Sequence[int]) -> tuple[Array, ...]:
        """The values at these places now."""
        if all(self._current[place] is not None for place in places):
            return tuple(np.array(self._current[place]) for place in places)
        return tuple(np.asarray(value) for value in self.session.run([self.variables[place] for place in places]))

    def forget(self) -> None:
        """Any variable may have changed."""
        self._current = [None] * len(self.initial)

    def _read(self, variable: Any) -> Array | None:
        try:
            return np.asarray(self.session.run(variable))
        except tf.errors.FailedPreconditionError:  # not initialized
            return None


def _same(one: Array | None, other: Array) -> bool:
    return one is other or (one is not None and one.shape == other.shape and one.tobytes() == other.tobytes())


APPLY = re.compile(r"(Resource)?(Sparse)?Apply(?P<rule>\w+)$")
WRITE = re.compile(r"(Resource\w+|(Sparse)?Apply\w+|Assign\w*|Scatter(Nd)?(Update|Add|Sub|Mul|Div|Min|Max)|CountUpTo)$")
HIDDEN = re.compile(r"(StatefulPartitionedCall|While|If|Case|PyFunc|EagerPyFunc)$")
STATEFUL = re.compile(
    r"(Iterator(V2)?GetNext\w*|Queue\w*Dequeue\w*|Reader(Read|Restore)\w*|Random\w+|Multinomial)(V\d)?$"
)
GRADIENT, RATE = ("grad", "delta"), ("lr", "alpha")
CLIP = re.compile(r"clip_by_norm|clip_by_global_norm")


@dataclass(frozen=True)
class GradientApplication:
    """An operation that applies a gradient: its variable's name, the tensors of the gradient and of the rate."""

    operation: Any
    variable: str
    gradient: Any
    indices: Any
    rate: Any

    @property
    def rule(self) -> str:
        """The optimizer, such as GradientDescent."""
        found = APPLY.match(self.operation.type)
        return found["rule"] if found else str(self.operation.type)


@dataclass(frozen=True)
class GraphRun:
    """The operations that run for `fetches` where the tensors `fed` are given."""

    graph: Any
    fetches: Any
    fed: Sequence[Any]

    @cached_property
    def operations(self) -> list[Any]:
        """All of them, in the order of their names."""
        cut = {self.graph.as_graph_element(tensor).name for tensor in self.fed}
        fetched = tf.nest.flatten(self.fetches, expand_composites=True)
        waiting = [self._operation(fetch) for fetch in fetched if fetch is not None]
        seen: dict[str, Any] = {}
        while waiting:
            operation = waiting.pop()
            if operation.name not in seen:
                seen[operation.name] = operation
                waiting += [tensor.op for tensor in operation.inputs if tensor.name not in cut]
                waiting += operation.control_inputs
        return [seen[name] for name in sorted(seen)]

    @cached_property
    def applications(self) -> list[GradientApplication]:
        """Those that apply gradients."""
        return [found for operation in self.operations if (found := _application(operation)) is not None]

    @cached_property
    def writes(self) -> bool:
        """Whether a variable may be changed."""
        return any(WRITE.match(operation.type) or HIDDEN.match(operation.type) for operation in self.operations)

    @cached_property
    def stateful(self) -> Any:
        """An operation whose state lies in the session, out of reach; None where there is none."""
        return next((operation for operation in self.operations if STATEFUL.match(operation.type)), None)

    @cached_property
    def clip_functions(self) -> list[str]:
        """The functions that clip by a norm."""
        return sorted({found.group() for operation in self.operations if (found := CLIP.search(operation.name))})

    @cached_property
    def numbers(self) -> list[Any]:
        """The floating scalars that are fetched, one of which may be the loss."""
        fetched = tf.nest.flatten(self.fetches, expand_composites=True)
        elements = [self.graph.as_graph_element(fetch) for fetch in fetched if fetch is not None]
        return [each for each in elements if tf.is_tensor(each) and each.dtype.is_floating and each.shape == ()]

    def _operation(self, fetch: Any) -> Any:
        element = self.graph.as_graph_element(fetch)
        return getattr(element, "op", element)


def _application(operation: Any) -> GradientApplication | None:
    if not APPLY.match(operation.type):
        return None
    names = [argument.name for argument in operation.op_def.input_arg]
    inputs = dict(zip(names, operation.inputs, strict=True))
    gradient = next((inputs[name] for name in GRADIENT if name in inputs), None)
    if gradient is None:
        return None
    rate = next((inputs[name] for name in RATE if name in inputs), None)
    return GradientApplication(operation, operation.inputs[0].op.name, gradient, inputs.get("indices"), rate)


@dataclass(frozen=True)
class GraphOptimizer:
    """The optimizer behind an operation of a graph."""

    learning_rate: float | None
    application: GradientApplication


class SessionRunner(StepRunner):
    """Runs a step in a session; `variables` are eager copies of its variables, loaded into it for every run."""

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Any], session: Any) -> None:
        super().__init__(step, inputs)
        self._state = SessionState(session)
        self._in_graph = not tf.executing_eagerly()
        self._places: list[int] = []
        self._runs: dict[tuple[int | None, ...], GraphRun] = {}

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Run the check eagerly, also where the step builds graphs, and restore the session's variables after it."""
        try:
            with context.eager_mode():
                yield
        finally:
            self._state.load({})

    def choose(self, variables: Any) -> list[Any]:
        """Check eager copies of these variables, or of all trainable ones of the graph."""
        self._places = self._state.places(variables)
        if not self._places:
            raise ValueError("the graph has no trainable variables; give those to check as variables=[...]")
        known = self._state.variables
        copies = [tf.Variable(self._state.initial[place], name=known[place].op.name) for place in self._places]
        self.variables = tuple(copies)
        return copies

    @contextmanager
    def _environment(self, values: Sequence[Array]) -> Iterator[None]:
        self._state.load(dict(zip(self._places, values, strict=True)))
        graph = self._state.session.graph
        version = graph.version
        with (
            patched((BaseSession, "run", self._run_session)),
            graph.as_default() if self._in_graph else nullcontext(),
        ):
            yield
        if graph.version != version:
            raise UnrepeatableStepError(
                "the step adds operations to the graph, which grows with every run; build them before the step"
            )

    def _values(self) -> tuple[Array, ...]:
        return self._state.values(self._places)

    def apply_again(self, calls: Sequence[OptimizerCall]) -> tuple[Array, ...]:
        """The values of the variables after the graph's own operations applied the same gradients."""
        feed = {}
        for call in calls:
            application, (gradient,) = call.optimizer.application, call.gradients
            feed[application.gradient] = getattr(gradient, "values", gradient).numpy()
            if application.indices is not None:
                feed[application.indices] = gradient.indices.numpy()
        self._state.load(dict(zip(self._places, (variable.numpy() for variable in self.variables), strict=True)))
        self._state.forget()
        self._state.session.run([call.optimizer.application.operation for call in calls], feed)
        return self._values()

    def broken_path(self, position: int, run: StepRun, lost: LostPart) -> Diagnosis | None:
        """Where the path to the loss, the number fetched that has its value or the only one, breaks in the graph."""
        value, fetched = float(run.loss), run.recording.fetched
        tensors = [tensor for tensor, number in fetched if number == value]
        if not tensors and len({id(tensor) for tensor, _ in fetched}) == 1:
            tensors = [fetched[0][0]]
        source = self._state.variables[self._places[position]]
        found = (graph_diagnosis(tensor, source, source.op.name, lost) for tensor in tensors)
        return next((diagnosis for diagnosis in found if diagnosis is not None), None)

    def _run_session(
        self, original: Any, session: Any, fetches: Any, feed_dict: Any = None, *rest: Any, **named: Any
    ) -> Any:
        """Run what was asked for, and fetch the gradients that it applies as well."""
        if session is not self._state.session:
            return original(session, fetches, feed_dict, *rest, **named)
        run = self._graph_run(fetches, tuple(feed_dict or ()))
        if run.stateful is not None:
            raise self._guard.refuse(
                f"the step runs {run.stateful.type} ({run.stateful.name}), whose state lies in the session and cannot "
                "be put back; run it before, and feed its value"
            )
        if run.writes:
            self._state.forget()
        applications = [one for one in run.applications if self._eager_copy(one) is not None]
        parts = [[one.gradient, one.indices, one.rate] for one in applications]
        extra = [[tensor for tensor in tensors if tensor is not None] for tensors in parts]
        result, values, numbers = original(session, (fetches, extra, run.numbers), feed_dict, *rest, **named)
        self._recorder.add_derivatives(result)
        recording = self._recorder.current
        recording.fetched.extend(zip(run.numbers, map(float, numbers), strict=True))
        recording.clip_functions.extend(run.clip_functions)
        recording.optimizer_calls.extend(map(self._optimizer_call, applications, values))
        return result

    def _graph_run(self, fetches: Any, fed: tuple[Any, ...]) -> GraphRun:
        """What is going to run; a step asks for the same in every run."""
        key = (*map(id, tf.nest.flatten(fetches, expand_composites=True)), None, *map(id, fed))
        # The GraphRun holds the objects, so that no other gets the identity of one of them.
        return self._runs.setdefault(key, GraphRun(self._state.session.graph, fetches, fed))

    def _optimizer_call(self, application: GradientApplication, arrays: Sequence[Any]) -> OptimizerCall:
        rate = None if application.rate is None else float(arrays[-1])
        variable = self._eager_copy(application)
        with context.eager_mode():
            gradient = tf.constant(arrays[0])
            if application.indices is not None:
                gradient = tf.IndexedSlices(gradient, tf.constant(arrays[1]), tf.constant(variable.shape))
        optimizer = GraphOptimizer(rate, application)
        return OptimizerCall(application.rule, optimizer, (variable,), (gradient,), self.apply_again)

    def _eager_copy(self, application: GradientApplication) -> Any:
        names = [self._state.variables[place].op.name for place in self._places]
        return self.variables[names.index(application.variable)] if application.variable in names else None
