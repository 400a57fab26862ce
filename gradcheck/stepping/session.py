"""Runs of a step that works in a TensorFlow 1 session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import context

from gradcheck.autodiff.bystanders import undone
from gradcheck.diagnosis.case import Loss
from gradcheck.diagnosis.graph_record import graph_diagnosis
from gradcheck.diagnosis.patches import patched
from gradcheck.finding import Diagnosis
from gradcheck.stepping.graph_runs import Apply, GraphRun
from gradcheck.stepping.python_state import PythonState
from gradcheck.stepping.recorder import Handover
from gradcheck.stepping.refusals import RefusedStepError
from gradcheck.stepping.run import Run, Runner
from gradcheck.stepping.session_state import SessionState

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Rule:
    """The optimizer behind an operation of a graph."""

    learning_rate: float | None
    apply: Apply


class SessionRunner(Runner):
    """A Runner whose `variables` stand for those of a session: they are loaded into it for every run."""

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Any], session: Any) -> None:
        super().__init__(step, inputs)
        self._state = SessionState(session)
        self._in_graph = not tf.executing_eagerly()
        self._places: list[int] = []
        self._runs: dict[tuple[int | None, ...], GraphRun] = {}

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Run the check eagerly, also where the step builds graphs, and put the session's variables back after it."""
        try:
            with context.eager_mode():
                yield
        finally:
            self._state.load({})

    def chosen(self, variables: Any) -> list[Any]:
        """Eager variables that stand for those given, or for all trainable ones of the graph."""
        self._places = self._state.places(variables)
        if not self._places:
            raise ValueError("the graph has no trainable variables; give those to check as variables=[...]")
        known = self._state.variables
        stand_ins = [tf.Variable(self._state.kept[place], name=known[place].op.name) for place in self._places]
        self.variables = tuple(stand_ins)
        return stand_ins

    def run(self, *, keep_python: bool = False) -> Run:
        """As a Runner does it, with the values of `variables` in the session."""
        before = tuple(variable.numpy() for variable in self.variables)
        state = PythonState(self.step, generators=keep_python)
        try:
            self._state.load(dict(zip(self._places, before, strict=True)))
            with ExitStack() as stack:
                stack.enter_context(undone())
                stack.enter_context(self._refusing.refusing())
                recording = stack.enter_context(self._recorder.recording())
                stack.enter_context(patched((BaseSession, "run", self._running)))
                stack.enter_context(self._mode_of_the_step())
                version = self._state.session.graph.version
                returned = self._called()
                if self._state.session.graph.version != version:
                    raise RefusedStepError(
                        "the step adds operations to the graph, which grows with every run; build them before the step"
                    )
        finally:
            state.put_back()
        return Run(returned, self.variables, recording, before, self._state.values(self._places))

    def apply_again(self, handovers: Sequence[Handover]) -> tuple[Array, ...]:
        """The values of the variables after the graph's own operations applied the same gradients."""
        feed = {}
        for handover in handovers:
            apply, (gradient,) = handover.optimizer.apply, handover.gradients
            feed[apply.gradient] = getattr(gradient, "values", gradient).numpy()
            if apply.indices is not None:
                feed[apply.indices] = gradient.indices.numpy()
        self._state.load(dict(zip(self._places, (variable.numpy() for variable in self.variables), strict=True)))
        self._state.written()
        self._state.session.run([handover.optimizer.apply.operation for handover in handovers], feed)
        return self._state.values(self._places)

    def cut(self, position: int, run: Run, lost: Loss) -> Diagnosis | None:
        """Where the path to the loss is cut in the graph: to the number fetched that is the loss, or the only one."""
        loss, numbers = float(run.loss), run.recording.numbers
        tensors = [tensor for tensor, value in numbers if value == loss]
        if not tensors and len({id(tensor) for tensor, _ in numbers}) == 1:
            tensors = [numbers[0][0]]
        source = self._state.variables[self._places[position]]
        found = (graph_diagnosis(tensor, source, source.op.name, lost) for tensor in tensors)
        return next((diagnosis for diagnosis in found if diagnosis is not None), None)

    def _mode_of_the_step(self) -> AbstractContextManager[Any]:
        graph: AbstractContextManager[Any] = self._state.session.graph.as_default()
        return graph if self._in_graph else nullcontext()

    def _running(
        self, original: Any, session: Any, fetches: Any, feed_dict: Any = None, *rest: Any, **named: Any
    ) -> Any:
        """Answers a call of session.run, and takes the gradients that it applies."""
        if session is not self._state.session:
            return original(session, fetches, feed_dict, *rest, **named)
        run = self._graph_run(fetches, tuple(feed_dict or ()))
        if run.stateful is not None:
            raise self._refusing.refusal(
                f"the step runs {run.stateful.type} ({run.stateful.name}), whose state lies in the session and cannot "
                "be put back; run it before, and feed its value"
            )
        if run.writes:
            self._state.written()
        applies = [apply for apply in run.applies if self._stand_in(apply) is not None]
        parts = [[apply.gradient, apply.indices, apply.rate] for apply in applies]
        wanted = [[tensor for tensor in tensors if tensor is not None] for tensors in parts]
        result, values, numbers = original(session, (fetches, wanted, run.numbers), feed_dict, *rest, **named)
        self._recorder.gave(result)
        self._recorder.now.numbers.extend(zip(run.numbers, map(float, numbers), strict=True))
        self._recorder.now.clips.extend(run.clips)
        handovers = [self._handover(apply, arrays) for apply, arrays in zip(applies, values, strict=True)]
        self._recorder.now.handovers.extend(handovers)
        return result

    def _graph_run(self, fetches: Any, fed: tuple[Any, ...]) -> GraphRun:
        """What is going to run; a step asks for the same in every run."""
        key = (*map(id, tf.nest.flatten(fetches, expand_composites=True)), None, *map(id, fed))
        # The GraphRun holds the objects, so that no other gets the identity of one of them.
        return self._runs.setdefault(key, GraphRun(self._state.session.graph, fetches, fed))

    def _handover(self, apply: Apply, arrays: Sequence[Any]) -> Handover:
        rate = None if apply.rate is None else float(arrays[-1])
        variable = self._stand_in(apply)
        with context.eager_mode():
            gradient = tf.constant(arrays[0])
            if apply.indices is not None:
                gradient = tf.IndexedSlices(gradient, tf.constant(arrays[1]), tf.constant(variable.shape))
        return Handover(apply.rule, Rule(rate, apply), (variable,), (gradient,), self.apply_again)

    def _stand_in(self, apply: Apply) -> Any:
        names = [self._state.variables[place].op.name for place in self._places]
        return self.variables[names.index(apply.variable)] if apply.variable in names else None
