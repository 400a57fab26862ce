"""Training steps that run in a TensorFlow 1 session: its variables, the effect of a call of `run`, and its runner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import context

from gradcheck.diagnosis.diagnosis import graph_diagnosis
from gradcheck.diagnosis.wrong_gradient import LostPart
from gradcheck.result import Diagnosis
from gradcheck.tracing.hooks import SESSION_RUN, patched
from gradcheck.tracing.state import UNCHANGED, ChangedState, hidden_state
from gradcheck.training.optimizers import OptimizerCall
from gradcheck.training.runner import StepRunner
from gradcheck.training.side_effects import UnrepeatableStepError
from gradcheck.training.step_run import StepRun
from gradcheck.typing import Array


def session_of(session: Any) -> Any:
    """Return the given session, or else the default one where a graph is being built; None for eager code.

    Raises ValueError if a graph is being built without a session, TypeError for anything but a session.
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


APPLY = re.compile(r"(Resource)?(Sparse)?Apply(?P<rule>\w+)$")
STATEFUL = re.compile(
    r"(Iterator(V2)?GetNext\w*|Queue\w*Dequeue\w*|Reader(Read|Restore)\w*|Random\w+|Multinomial)(V\d)?$"
)
ROLES = {"alpha": "rate", "lr": "rate", "delta": "gradient", "grad": "gradient", "indices": "indices"}
"""The roles of the inputs of an operation that applies a gradient; of two with the same role the later counts."""
CLIP = re.compile(r"clip_by_norm|clip_by_global_norm")


@dataclass(frozen=True)
class GradientApplication:
    """An operation that applies a gradient by a `rule`, such as GradientDescent, to the variable of this name.

    `tensors` are its inputs by role: "gradient", and perhaps "indices" and "rate".
    """

    operation: Any
    rule: str
    variable: str
    tensors: dict[str, Any]


@dataclass(frozen=True)
class GraphRun:
    """The part of a graph that runs for `fetches`, with the tensors `fed`.

    `applications` are the operations that apply gradients, `stateful` is one whose state lies in the session, out of
    reach, `clip_functions` are those that clip by a norm, `numbers` the fetched floating scalars, one of which may be
    the loss.
    """

    fetches: Any
    fed: Sequence[Any]
    applications: Sequence[GradientApplication]
    stateful: Any
    clip_functions: Sequence[str]
    numbers: Sequence[Any]


def graph_run(graph: Any, fetches: Any, fed: Sequence[Any]) -> GraphRun:
    """Follow a graph from the fetches to the fed tensors."""
    cut = {graph.as_graph_element(tensor).name for tensor in fed}
    flat = tf.nest.flatten(fetches, expand_composites=True)
    elements = [graph.as_graph_element(fetch) for fetch in flat if fetch is not None]
    waiting = [getattr(element, "op", element) for element in elements]
    seen: dict[str, Any] = {}
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs if tensor.name not in cut]
            waiting += operation.control_inputs
    operations = [seen[name] for name in sorted(seen)]
    return GraphRun(
        fetches=fetches,
        fed=fed,
        applications=[made for operation in operations if (made := _application(operation)) is not None],
        stateful=next((operation for operation in operations if STATEFUL.match(operation.type)), None),
        clip_functions=sorted({found.group() for name in seen if (found := CLIP.search(name))}),
        numbers=[each for each in elements if tf.is_tensor(each) and each.dtype.is_floating and each.shape == ()],
    )


def _application(operation: Any) -> GradientApplication | None:
    found = APPLY.match(operation.type)
    if not found:
        return None
    names = [argument.name for argument in operation.op_def.input_arg]
    inputs = dict(zip(names, operation.inputs, strict=True))
    tensors = {role: inputs[name] for name, role in ROLES.items() if name in inputs}
    if "gradient" not in tensors:
        return None
    return GradientApplication(operation, found["rule"], operation.inputs[0].op.name, tensors)


class SessionRunner(StepRunner):
    """Runs a step in a session; `variables` are eager copies of its variables, loaded into it for every run.

    `_known` are the initialised variables of the session's graph, `_initial` their values; `_places` are indices in
    them.
    """

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Any], session: Any) -> None:
        super().__init__(step, inputs)
        self._session = session
        self._in_graph = not tf.executing_eagerly()
        self._runs: dict[tuple[int | None, ...], GraphRun] = {}
        self._places: list[int] = []
        self._copies: dict[str, Any] = {}
        with session.graph.as_default():
            known = (*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables())
            self._trainable = list(tf.compat.v1.trainable_variables())
        self._known, self._initial = [], []
        for variable in {id(variable): variable for variable in known}.values():
            with suppress(tf.errors.FailedPreconditionError):  # not initialized
                self._initial.append(np.asarray(session.run(variable)))
                self._known.append(variable)

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Run the check eagerly, even if the step builds graphs, and restore the session's variables after it."""
        try:
            with context.eager_mode():
                yield
        finally:
            self._load([])

    def loss(self) -> Any:
        """The loss of a run, which is the session's: it cannot be traced."""
        if tf.inside_function():
            raise UnrepeatableStepError("a step that runs in a session cannot be traced")
        return self.run().loss

    def hidden_state(self) -> str:
        """Nothing that can be named: the operations known to have hidden state are refused."""
        return hidden_state(lambda: None)

    def held(self) -> ChangedState:
        """Nothing: operations that draw random numbers in a session are refused."""
        return UNCHANGED

    def choose(self, variables: Any) -> list[Any]:
        """Check eager copies of these variables, or of all trainable ones of the graph.

        Raises ValueError for a variable without a value, or if there are none.
        """
        given = self._trainable if variables is None else tf.nest.flatten(variables)
        places = {id(variable): place for place, variable in enumerate(self._known)}
        for variable in given:
            if id(variable) not in places:
                raise ValueError(
                    f"{getattr(variable, 'name', type(variable).__name__)} has no value in the session; give variables "
                    "of its graph, and run tf.compat.v1.global_variables_initializer() first"
                )
        if not given:
            raise ValueError("the graph has no trainable variables; give those to check as variables=[...]")
        self._places = [places[id(variable)] for variable in given]
        made = {place: tf.Variable(self._initial[place], name=self._known[place].op.name) for place in self._places}
        copies = [made[place] for place in self._places]
        self.variables = tuple(copies)
        self._copies = {self._known[place].op.name: copy for place, copy in made.items()}
        return self._once(copies)

    def keep(self, positions: Sequence[int]) -> None:
        """Check only the copies at these positions; the other variables get their initial values for every run."""
        super().keep(positions)
        self._places = [self._places[position] for position in positions]

    def apply_again(self, calls: Sequence[OptimizerCall]) -> tuple[Array, ...]:
        """The values of the variables after the graph's own operations applied the same gradients."""
        self._load([variable.numpy() for variable in self.variables])
        return super().apply_again(calls)

    def broken_path(self, position: int, run: StepRun, lost: LostPart) -> Diagnosis | None:
        """Diagnose the break in the graph's path to the loss, the fetched number with its value or the only one."""
        value, fetched = float(run.loss), run.fetched
        tensors = [tensor for tensor, number in fetched if number == value]
        if not tensors and len({id(tensor) for tensor, _ in fetched}) == 1:
            tensors = [fetched[0][0]]
        source = self._known[self._places[position]]
        found = (graph_diagnosis(tensor, source, source.op.name, lost) for tensor in tensors)
        return next((diagnosis for diagnosis in found if diagnosis is not None), None)

    @contextmanager
    def _environment(self, values: Sequence[Array]) -> Iterator[None]:
        self._load(values)
        graph = self._session.graph
        version = graph.version
        with (
            patched((*SESSION_RUN, self._run_session)),
            graph.as_default() if self._in_graph else nullcontext(),
        ):
            yield
        if graph.version != version:
            raise UnrepeatableStepError(
                "the step adds operations to the graph, which grows with every run; build them before the step"
            )

    def _load(self, values: Sequence[Array]) -> None:
        """Give the checked variables these values, and all others their initial ones."""
        changed = dict(zip(self._places, values, strict=False))
        operations: list[Any] = []
        feed: dict[str, Array] = {}
        for place, (variable, initial) in enumerate(zip(self._known, self._initial, strict=True)):
            tensor = variable.initializer.inputs[1].name
            if tensor in feed:  # two variables may have the same initial value
                self._session.run(operations, feed)
                operations, feed = [], {}
            operations.append(variable.initializer)
            feed[tensor] = changed.get(place, initial)
        self._session.run(operations, feed)

    def _values(self) -> tuple[Array, ...]:
        return tuple(self._session.run([self._known[place] for place in self._places]))

    def _run_session(
        self, original: Any, session: Any, fetches: Any, feed_dict: Any = None, *rest: Any, **named: Any
    ) -> Any:
        """Run the fetches, and also fetch the gradients that they apply."""
        if session is not self._session:
            return original(session, fetches, feed_dict, *rest, **named)
        # A step fetches the same in every run. The GraphRun keeps the objects alive, so that no others get their ids.
        key = (*map(id, tf.nest.flatten(fetches, expand_composites=True)), None, *map(id, feed_dict or ()))
        if key not in self._runs:
            self._runs[key] = graph_run(session.graph, fetches, tuple(feed_dict or ()))
        run = self._runs[key]
        if run.stateful is not None:
            raise self._guard.refuse(
                f"the step runs {run.stateful.type} ({run.stateful.name}), whose state is in the session and cannot "
                "be put back; run it first, and feed its value"
            )
        applications = [one for one in run.applications if one.variable in self._copies]
        extra = [one.tensors for one in applications]
        result, values, numbers = original(session, (fetches, extra, run.numbers), feed_dict, *rest, **named)
        self._recorder.add_derivatives(result)
        recording = self._recorder.current
        recording.fetched.extend(zip(run.numbers, map(float, numbers), strict=True))
        recording.clip_functions.extend(run.clip_functions)
        recording.optimizer_calls.extend(map(self._optimizer_call, applications, values))
        return result

    def _optimizer_call(self, application: GradientApplication, arrays: dict[str, Any]) -> OptimizerCall:
        """The optimizer call that an operation stands for, whose inputs have these values."""
        variable, indices = self._copies[application.variable], arrays.get("indices")
        rate = float(arrays["rate"]) if "rate" in arrays else None
        feed = {tensor: arrays[role] for role, tensor in application.tensors.items() if role != "rate"}
        with context.eager_mode():
            gradient = tf.constant(arrays["gradient"])
            if indices is not None:
                gradient = tf.IndexedSlices(gradient, tf.constant(indices), tf.constant(variable.shape))
        return OptimizerCall(
            name=application.rule,
            optimizer=SimpleNamespace(learning_rate=rate),
            variables=(variable,),
            gradients=(gradient,),
            repeat=lambda pairs: self._session.run(application.operation, feed),
        )
