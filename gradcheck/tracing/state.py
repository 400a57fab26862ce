"""The state that a function changes, put back: variables of any kind, and random generators, or draws without a state.

A variable is read or assigned through its handle, or by a tf.function that captured the handle. Both are watched; its
value is kept at the first access, as the tensor that the variable shares its buffer with, so that nothing is copied.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import op_callbacks, op_def_registry, ops
from tensorflow.python.ops import resource_variable_ops, stateful_random_ops

from gradcheck.tracing.hooks import RANDOM_OPERATIONS, Wrapper, patched
from gradcheck.tracing.summaries import summaries_left_out

SEEDS = {"seed", "alg", "algorithm"}
"""The inputs through which an operation gets the state for its random numbers."""

VARIABLE = resource_variable_ops.BaseResourceVariable
FUNCTION = concrete_function.ConcreteFunction


class VariableSnapshot:
    """The variables that were accessed, by the ids of their handles, with their earlier values."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, Any]] = {}

    def note(self, handle: Any) -> None:
        """Keep the value behind a handle, unless it is known, not a variable's, or not initialised."""
        if not isinstance(handle, ops.EagerTensor) or handle._id in self._held or handle.is_packed:
            return
        data = getattr(handle, "_handle_data", None)
        if data is None or not data.is_set or len(data.shape_and_type) != 1:
            return
        with tf.init_scope():
            if tf.raw_ops.VarIsInitializedOp(resource=handle):
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=data.shape_and_type[0].dtype)
                self._held[handle._id] = handle, value

    def value(self, variable: Any) -> Any:
        """The value from before, a tensor; the current one if the variable was not accessed."""
        with tf.init_scope():
            handle = variable.handle
            return self._held[handle._id][1] if handle._id in self._held else variable.value()

    def accessed(self) -> tuple[tuple[Any, Any], ...]:
        """The handles and earlier values of all accessed variables."""
        return tuple(self._held.values())

    def changed(self) -> tuple[tuple[Any, Any], ...]:
        """The handles and earlier values of the variables that have another value now."""
        return tuple(
            (handle, value)
            for handle, value in self._held.values()
            if not np.array_equal(tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype).numpy(), value.numpy())
        )

    def restore(self) -> None:
        """Give every variable its earlier value."""
        with context.eager_mode():
            for handle, value in self._held.values():
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)


@contextmanager
def snapshot_variables() -> Iterator[VariableSnapshot]:
    """Keep the values of the variables that the block accesses; restoring them is left to the caller."""
    snapshot = VariableSnapshot()
    handle, call = VARIABLE.handle, FUNCTION._call_flat

    def noting_handle(variable: Any) -> Any:
        asked = handle.fget(variable)
        snapshot.note(asked)
        return asked

    def noting_call(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        for tensor in (*tensor_inputs, *captured_inputs):
            if getattr(tensor, "dtype", None) == tf.resource:
                snapshot.note(tensor)
        return call(function, tensor_inputs, captured_inputs)

    VARIABLE.handle, FUNCTION._call_flat = property(noting_handle), noting_call
    try:
        yield snapshot
    finally:
        VARIABLE.handle, FUNCTION._call_flat = handle, call


@dataclass(frozen=True)
class Generator:
    """A random generator: how its state is read and written, and the state that it had."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    state: Any

    @property
    def used(self) -> bool:
        """Whether its state has changed."""
        return not all(np.array_equal(*pair) for pair in zip(self.state, self.read(), strict=True))

    def restore(self) -> None:
        """Restore the state that it had."""
        self.write(self.state)


def generators() -> list[Generator]:
    """The global generators of Python, NumPy and TensorFlow, in their current state."""
    found: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
        ("Python", random.getstate, random.setstate),
        ("NumPy", np.random.get_state, np.random.set_state),
    ]
    seeds = getattr(context.context(), "_rng", None)
    if seeds is not None:
        found.append(("TensorFlow", seeds.getstate, partial(_restore_seeds, seeds)))
    return [Generator(name, read, write, read()) for name, read, write in found]


@contextmanager
def generators_restored() -> Iterator[None]:
    """Leave the global generators as they were, whatever happens inside; also while code is being traced.

    `tf.random.set_seed` makes another generator: then the earlier one is put back, with its seed.
    """
    before, seeds = generators(), context.context()
    held = {name: getattr(seeds, name, None) for name in ("_rng", "_seed")}
    try:
        yield
    finally:
        for generator in before:
            generator.restore()
        if getattr(seeds, "_rng", None) is not held["_rng"]:
            vars(seeds).update(held)
            seeds.clear_kernel_cache()


@contextmanager
def variables_restored(variables: Sequence[Any] = ()) -> Iterator[None]:
    """Leave variables and the generators of Python, NumPy and TensorFlow as they were, whatever happens inside."""
    with ExitStack() as stack:
        stack.enter_context(generators_restored())
        # TensorFlow has no public way to ask whether its generator exists, and getting it would create it.
        generator = getattr(stateful_random_ops, "global_generator", None)
        stack.callback(setattr, stateful_random_ops, "global_generator", generator)
        for variable in (*variables, *([] if generator is None else [generator.state])):
            with tf.init_scope():  # works while code is being traced, too
                stack.callback(_assign, variable, variable.numpy())
        yield


def _assign(variable: Any, value: Any) -> None:
    with tf.init_scope():
        variable.assign(value)


@contextmanager
def seeded() -> Iterator[None]:
    """Give TensorFlow a global seed if it has none: otherwise random operations draw other numbers at every call."""
    if context.global_seed() is not None:
        yield
        return
    tf.random.set_seed(0)
    try:
        yield
    finally:
        context.context()._set_global_seed(None)


@dataclass(frozen=True)
class ChangedState:
    """State that a call changed besides its inputs: variables, by handle and earlier value, and generators."""

    variables: tuple[tuple[Any, Any], ...] = ()
    generators: tuple[Generator, ...] = ()

    def holds(self, variable: Any) -> bool:
        """Whether `variable`, which may be None, is among them."""
        return variable is not None and any(handle is variable.handle for handle, _ in self.variables)

    def besides(self, variables: Sequence[Any]) -> ChangedState:
        """The same without some variables."""
        left_out = {variable.handle._id for variable in variables}
        return replace(self, variables=tuple(pair for pair in self.variables if pair[0]._id not in left_out))

    def put_back(self) -> None:
        """Put everything back; in a graph that is being traced, TensorFlow's state whenever the graph runs."""
        for handle, value in self.variables:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        for generator in self.generators:
            generator.restore()

    def __str__(self) -> str:
        count = len(self.variables)
        named = [f"{count} variable{'s' * (count != 1)}"] if count else []
        return " and ".join([*named, *(f"the generator of {one.name}" for one in self.generators)])

    @property
    def note(self) -> str:
        """The note on it in a result."""
        return f"restored before every call, so that all calls start from the same state: {self}"


UNCHANGED = ChangedState()


def _restore_seeds(seeds: random.Random, state: tuple[Any, ...]) -> None:
    """Put the generator of the operations' seeds back, if it was used."""
    if seeds.getstate() != state:
        seeds.setstate(state)
        # A kernel is cached under its seed and continues where it stopped; tf.random.set_seed clears the cache, too.
        context.context().clear_kernel_cache()


def observe_operations(run: Callable[[], Any], note: Callable[[str, Sequence[Any], Sequence[Any], Any], None]) -> None:
    """Run `run`; `note` gets name, inputs, outputs and attributes of each operation, or function, that it executes.

    The attributes are names and values in turn, None for a default.
    """

    def noted(name: Any, inputs: Any, attributes: Any, outputs: Any, *_: Any, **__: Any) -> None:
        note(name.decode() if isinstance(name, bytes) else name, inputs, outputs, attributes)

    op_callbacks.add_op_callback(noted)
    try:
        run()
    finally:
        op_callbacks.remove_op_callback(noted)


def nodes_of(name: str) -> Iterator[tuple[Any, bool]]:
    """Yield the nodes of the function of this name, including those of functions that they call.

    With each node comes whether it calls functions. Yields nothing for the name of an operation.
    """
    if op_def_registry.get(name) is not None:
        return
    for node in context.context().get_function_def(name).node_def:
        called = [value.func.name for value in node.attr.values() if value.HasField("func")]
        if not called and op_def_registry.get(node.op) is None:
            called = [node.op]
        yield node, bool(called)
        for inner in called:
            yield from nodes_of(inner)


def executed_operations(run: Callable[[], Any]) -> set[str]:
    """The names of the operations that `run` executes, including those inside functions."""
    names: set[str] = set()

    def note(name: str, *tensors: Sequence[Any]) -> None:
        inner = {node.op for node, calls in nodes_of(name) if not calls}
        names.update(inner if op_def_registry.get(name) is None else {name})

    observe_operations(run, note)
    return names


def stateful_operations(run: Callable[[], Any]) -> list[str]:
    """The operations with a state that is no variable's, such as random ones without a seed, that `run` executes.

    >>> stateful_operations(lambda: tf.random.uniform([]) + tf.Variable(1.0))
    ['RandomUniform']
    """
    definitions = {name: op_def_registry.get(name) for name in executed_operations(run)}
    return sorted(name for name, one in definitions.items() if one.is_stateful and not _holds_resource(one))


def hidden_state(run: Callable[[], Any]) -> str:
    """Describe what may make calls of `run` differ although variables and generators are put back, and a remedy."""
    operations = stateful_operations(run)
    if operations:
        return (
            f"it runs {', '.join(operations)}, whose state cannot be put back; give it its random numbers as inputs, "
            "or use tf.random.Generator or tf.random.stateless_uniform and the like"
        )
    return (
        "it depends on something besides variables and global random generators, such as a generator object like "
        "np.random.default_rng() (draw outside of f, or use np.random or tf.random), the time, a counter or a file"
    )


def draws_at_random(name: str) -> bool:
    """Whether an operation draws random numbers from a state of its own, seeded by two seeds.

    >>> draws_at_random("RandomUniform"), draws_at_random("StatelessRandomUniformV2")
    (True, False)
    """
    definition = op_def_registry.get(name)
    return definition is not None and any(attribute.name == "seed2" for attribute in definition.attr)


def advances_random_state(name: str) -> bool:
    """Whether an operation advances a random state: its own, or a generator's variable.

    >>> [advances_random_state(one) for one in ("RandomUniform", "RngReadAndSkip", "StatelessRandomUniformV2")]
    [True, True, False]
    """
    definition = op_def_registry.get(name)
    return definition is not None and definition.is_stateful and is_random(name)


def is_random(name: str) -> bool:
    """Whether an operation draws random numbers from any state: its own, a generator's variable, or a seed given to it.

    >>> is_random("RandomUniform"), is_random("StatelessRandomUniformV2"), is_random("StatelessIf")
    (True, True, False)
    """
    definition = op_def_registry.get(name)
    inputs = () if definition is None else (argument.name for argument in definition.input_arg)
    return draws_at_random(name) or bool(SEEDS.intersection(inputs))


def _holds_resource(definition: Any) -> bool:
    """Whether an operation works on a variable or another resource, whose state is watched separately."""
    arguments = (*definition.input_arg, *definition.output_arg)
    return any(argument.type == tf.resource.as_datatype_enum for argument in arguments)


@contextmanager
def state_restored() -> Iterator[VariableSnapshot]:
    """Leave every variable that is read or assigned inside, the generators and logs as they were, whatever happens.

    For code that changes its own state: moving averages, counters, optimizer slots, seeds. A variable made inside keeps
    the value that it was first accessed with. Tensors that were computed inside stay connected for a tape around the
    block. Summaries (TensorBoard's points) are not written.

    >>> import tensorflow as tf
    >>> calls = tf.Variable(0)
    >>> with state_restored():
    ...     _ = calls.assign_add(1)
    >>> int(calls)
    0
    """
    with summaries_left_out(), variables_restored(), snapshot_variables() as snapshot:
        try:
            yield snapshot
        finally:
            snapshot.restore()


raw = tf.raw_ops


def _shuffled(value: Any, seed: Any) -> Any:
    ranks = raw.StatelessRandomUniform(shape=tf.shape(value)[:1], seed=seed)
    return tf.gather(value, tf.argsort(ranks))


STATELESS: dict[str, Callable[..., Any]] = {
    "random_standard_normal": lambda seed, shape, dtype: raw.StatelessRandomNormal(shape=shape, seed=seed, dtype=dtype),
    "random_uniform": lambda seed, shape, dtype: raw.StatelessRandomUniform(shape=shape, seed=seed, dtype=dtype),
    "truncated_normal": lambda seed, shape, dtype: raw.StatelessTruncatedNormal(shape=shape, seed=seed, dtype=dtype),
    "random_uniform_int": lambda seed, shape, minval, maxval: raw.StatelessRandomUniformInt(
        shape=shape, seed=seed, minval=minval, maxval=maxval
    ),
    "multinomial": lambda seed, logits, num_samples, output_dtype=tf.int64: raw.StatelessMultinomial(
        logits=logits, num_samples=num_samples, seed=seed, output_dtype=output_dtype
    ),
    "random_shuffle": lambda seed, value: _shuffled(value, seed),
}
"""Stateless replacements for the functions by which TensorFlow's Python code makes stateful random operations."""


@contextmanager
def drawn_statelessly() -> Iterator[None]:
    """Make random numbers in the block depend only on how many were drawn before, in graphs, too.

    For runs that have to be alike and leave no trace: the state of a kernel inside a graph can be neither read nor put
    back.

    >>> import tensorflow as tf
    >>> runs = []
    >>> for _ in range(2):
    ...     with drawn_statelessly():
    ...         runs.append([float(tf.random.normal([])), float(tf.random.normal([]))])
    >>> runs[0] == runs[1], runs[0][0] == runs[0][1]
    (True, False)
    """
    count = itertools.count(1)

    def standing_in(stateless: Callable[..., Any]) -> Wrapper:
        def draw(original: Any, *args: Any, seed: Any = 0, seed2: Any = 0, name: Any = None, **kwargs: Any) -> Any:
            return stateless(tf.constant([next(count), 0]), *args, **kwargs)

        return draw

    with patched(*((*RANDOM_OPERATIONS[name], standing_in(stateless)) for name, stateless in STATELESS.items())):
        yield


@contextmanager
def drawn_again(drawn: Iterable[tuple[str, Any]]) -> Iterator[None]:
    """Draw the random numbers of an earlier run, given by the names of its operations and their outputs, in order.

    In a graph that is traced in the block they are constants. Where the code draws by another operation, it draws anew.

    >>> import tensorflow as tf
    >>> with drawn_again([("RandomUniform", tf.constant([0.25, 0.75]))]):
    ...     tf.random.uniform([2]).numpy().tolist()
    [0.25, 0.75]
    """
    left = iter(drawn)

    def standing_in(function: str) -> Wrapper:
        def draw(original: Any, *args: Any, **kwargs: Any) -> Any:
            name, value = next(left, ("", None))
            return value if name.lower() == function.replace("_", "") else original(*args, **kwargs)

        return draw

    with patched(*((*place, standing_in(name)) for name, place in RANDOM_OPERATIONS.items())):
        yield
