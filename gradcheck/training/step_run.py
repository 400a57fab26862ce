"""One run of a training step: its loss, its gradients, and their origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.reverse import all_shaped, shaped
from gradcheck.autodiff.sources import variable_of
from gradcheck.training.gradient_changes import alike
from gradcheck.training.optimizers import OptimizerCall
from gradcheck.training.side_effects import UnrepeatableStepError
from gradcheck.typing import Array

WANTED = "return (loss, gradients), one gradient per variable in the order of variables=, or pass them to an optimizer"
ALONE = "a loss that takes no gradient is for gradcheck.assert_close(lambda: loss(batch), variables=model)"


@dataclass(frozen=True)
class TapeGradient:
    """The gradients (tensors, IndexedSlices or None) of a scalar with respect to sources, taken by a tape.

    `target` is the tensor that it differentiated, None if these were several; `updates` is the number of optimizer
    calls before the tape was opened, `replicas` that of the replicas, each of which took such gradients.
    """

    loss: Any
    sources: tuple[Any, ...]
    gradients: tuple[Any, ...]
    target: Any = None
    updates: int = 0
    replicas: int = 1

    @property
    def of_variables(self) -> bool:
        """Whether all sources are variables, and there are some."""
        return bool(self.sources) and all(variable_of(source) is not None for source in self.sources)

    def has(self, variable: Any) -> bool:
        """Whether a variable is among the sources."""
        return any(variable_of(source) is variable for source in self.sources)


@dataclass(frozen=True)
class StepRun:
    """The result of a run and its record; `before` and `after` are the values of `variables`.

    `clip_functions` names those that gradients went through, such as clip_by_norm, `clip_limits` has the limits of
    those that do not only compute a norm; `fetched` are the scalars that were fetched from a graph, with their values.

    `listed` are the variables for which it returns gradients, if these are more than the checked ones; `own` is the
    number of the derivative whose loss counts, if that is not the returned one. A run without optimizer calls has the
    scale of one with them (`known_scale`). `unmultiplied` are the numbers of the derivatives whose loss the step forgot
    to multiply by the scale.
    """

    returned: Any = None
    variables: tuple[Any, ...] = ()
    before: tuple[Array, ...] = ()
    after: tuple[Array, ...] = ()
    listed: tuple[Any, ...] = ()
    own: int | None = None
    known_scale: float = 1.0
    unmultiplied: frozenset[int] = frozenset()
    optimizer_calls: list[OptimizerCall] = field(default_factory=list)
    tape_gradients: list[TapeGradient] = field(default_factory=list)
    clip_functions: list[str] = field(default_factory=list)
    clip_limits: list[tuple[str, tuple[float, ...] | None]] = field(default_factory=list)
    fetched: list[tuple[Any, float]] = field(default_factory=list)

    @property
    def of_variables(self) -> list[TapeGradient]:
        """The gradients that tapes took with respect to variables only."""
        return [one for one in self.tape_gradients if one.of_variables]

    @cached_property
    def asked(self) -> frozenset[int]:
        """The ids of the variables that a tape or an optimizer got."""
        given = [source for one in self.tape_gradients for source in one.sources]
        given += [variable for call in self.optimizer_calls for variable in call.variables]
        return frozenset(id(variable_of(one)) for one in given)

    @property
    def _first(self) -> Any:
        return self.returned[0] if isinstance(self.returned, (tuple, list)) and self.returned else self.returned

    @property
    def returned_loss(self) -> Any:
        """The loss that the step returned; None for nothing or a dict."""
        return None if isinstance(self._first, dict) else self._first

    @cached_property
    def losses(self) -> list[Any]:
        """All losses: the one that counts, or those of the tapes of a step that returned none."""
        of_tapes = [one.loss for one in self.of_variables]
        return of_tapes if self.own is None and self.returned_loss is None and len(of_tapes) > 1 else [self.loss]

    def scale_of(self, taken: TapeGradient) -> float:
        """The factor by which the step multiplied the loss that a tape differentiated."""
        if self._forgets_scale(taken):
            return 1.0
        calls = self.optimizer_calls
        scales = (call.scale for call in calls if any(taken.has(variable_of(one)) for one in call.variables))
        return next(scales, self.known_scale)

    def _forgets_scale(self, taken: TapeGradient) -> bool:
        return any(one is taken and number in self.unmultiplied for number, one in enumerate(self.of_variables))

    def unscaled_loss(self, taken: TapeGradient) -> Any:
        """The loss that a tape differentiated, before it was scaled."""
        return unscaled(taken.loss, self.scale_of(taken))

    @cached_property
    def own_losses(self) -> dict[int, tuple[int, ...]]:
        """The losses, by the numbers of their derivatives, that tapes differentiated for some of `variables` only.

        With each come the places of its variables; a variable that was differentiated twice, or never, belongs to none.
        Empty if the tapes differentiate one loss, or if the step returns a function of its losses, such as their sum,
        which counts for all variables.
        """
        taken = self.of_variables
        if len({id(one.target) for one in taken}) < 2 or any(one.target is None for one in taken):
            return {}
        if self.returned_loss is not None and not any(alike([self.loss], [self.unscaled_loss(one)]) for one in taken):
            return {}
        found: dict[int, tuple[int, ...]] = {}
        for place, variable in enumerate(self.variables):
            numbers = [number for number, one in enumerate(taken) if one.has(variable)]
            if len(numbers) == 1:
                found[numbers[0]] = (*found.get(numbers[0], ()), place)
        return dict(sorted(found.items()))

    @cached_property
    def loss(self) -> Any:
        """The loss, a scalar tensor: the returned one, or else the one that a tape differentiated. Raises TypeError."""
        if self.own is not None:
            return self.unscaled_loss(self.of_variables[self.own])
        first = self._first
        if self.returned_loss is None:
            return self._differentiated_loss(first)
        try:
            value = first.result() if hasattr(first, "update_state") else first
            loss = tf.constant(value, tf.float64) if isinstance(value, float) else tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            kind = type(first).__name__
            raise TypeError(f"step returned {kind} for the loss, a number was expected; {WANTED}") from error
        if not loss.dtype.is_floating:
            raise TypeError(
                f"step returned a loss of dtype {loss.dtype.name}, a floating number was expected; {WANTED}"
            )
        return tf.reduce_sum(loss)

    def _differentiated_loss(self, returned: Any) -> Any:
        wanted = {id(variable) for variable in self.variables}
        found = [
            taken
            for taken in self.tape_gradients
            if not wanted or wanted & {id(variable_of(source)) for source in taken.sources}
        ]
        if len(found) == 1:
            return unscaled(found[0].loss, 1.0 if self._forgets_scale(found[0]) else self.scale)
        raise TypeError(
            f"step returned {'None' if returned is None else 'a dict'}, and its tapes differentiated {len(found)} "
            f"losses for the variables that are checked, so that it is unclear which one to check; {WANTED}; or "
            "check only variables whose gradient comes from one tape, with variables="
        )

    @cached_property
    def returned_gradients(self) -> tuple[Any, ...] | None:
        """The gradients of `variables` among those that the step returned besides the loss; None if it returned none.

        A step with an optimizer may return metrics besides the loss: then only a nested structure counts as gradients,
        and only if at least one of them came from a tape or went to an optimizer.
        """
        if not isinstance(self.returned, (tuple, list)) or len(self.returned) < 2:
            return None
        listed = self.listed or self.variables
        for part in (self.returned[1], *([] if len(self.returned) == 2 else [self.returned[1:]])):
            flat = tf.nest.flatten(part)
            if self.optimizer_calls and (not tf.nest.is_nested(part) or all(item is None for item in flat)):
                continue
            if len(flat) == len(listed) and all(map(_fits, flat, listed)) and self._holds_gradients(flat, listed):
                found = {id(variable): gradient for variable, gradient in zip(listed, flat, strict=True)}
                return tuple(found[id(variable)] for variable in self.variables)
        return None

    def _holds_gradients(self, returned: Sequence[Any], listed: Sequence[Any]) -> bool:
        """Whether a step with an optimizer returned a known gradient; without an optimizer, always True."""
        calls = self.optimizer_calls
        given = [pair for call in calls for pair in zip(call.variables, call.gradients, strict=True)]
        for value, variable in zip(returned, listed, strict=True):
            known = [*self.from_tapes(variable), *(one for other, one in given if variable_of(other) is variable)]
            both = [*known, *(unscaled(one, self.scale) for one in known)]
            if value is not None and any(alike([value], [one]) for one in both):
                return True
        return not calls

    @cached_property
    def optimizer_gradients(self) -> tuple[Any, ...] | None:
        """The gradients that optimizers got, one (or None) for each variable; None without an optimizer.

        Raises UnrepeatableStepError if a variable was updated twice.
        """
        if not self.optimizer_calls:
            return None
        checked, found = set(map(id, self.variables)), dict[int, tuple[OptimizerCall, Any]]()
        for call in self.optimizer_calls:
            for variable, gradient in zip(call.variables, call.gradients, strict=True):
                number = id(variable_of(variable))
                if number not in checked:
                    continue
                if number in found:
                    where = "in one call" if found[number][0] is call else "at two values of it"
                    raise UnrepeatableStepError(
                        f"the step passes gradients for {variable.name} to an optimizer twice, {where}; "
                        "check a step that does it once, or only the other variables, with variables="
                    )
                found[number] = call, unscaled(gradient, call.scale)
        return tuple(found.get(id(variable), (None, None))[1] for variable in self.variables)

    @property
    def gradients(self) -> tuple[Any, ...]:
        """The step's gradients: those returned, or else those that optimizers got. Raises TypeError."""
        gradients = self.optimizer_gradients if self.returned_gradients is None else self.returned_gradients
        if gradients is None:
            raise TypeError(f"step gave no gradients: it returned {_described(self.returned)}; {WANTED}; {ALONE}")
        return tuple(all_shaped(gradients, self.variables))

    def from_tapes(self, variable: Any) -> list[Any]:
        """All gradients with respect to a variable that the step's tapes took, of the loss times the scale."""
        return [
            shaped(gradient, variable)
            for taken in self.tape_gradients
            for source, gradient in zip(taken.sources, taken.gradients, strict=True)
            if variable_of(source) is variable
        ]

    @property
    def scaled(self) -> tuple[Any, ...]:
        """The gradients that the step's tapes took for each variable; None where there was not exactly one."""
        found = map(self.from_tapes, self.variables)
        return tuple(gradients[0] if len(gradients) == 1 else None for gradients in found)

    @property
    def taken(self) -> tuple[Any, ...]:
        """The same for the loss before it was scaled."""
        return tuple(unscaled(gradient, self.scale) for gradient in self.scaled)

    @property
    def scale(self) -> float:
        """The factor by which the step multiplies the loss of its variables before it takes gradients."""
        calls, wanted = self.optimizer_calls, set(map(id, self.variables))
        scales = [call.scale for call in calls if wanted & {id(variable_of(one)) for one in call.variables}]
        return next(iter([*scales, *(call.scale for call in calls)]), self.known_scale)


def unscaled(gradient: Any, scale: float) -> Any:
    """The gradient (a tensor, IndexedSlices or None) of the loss before it was multiplied by `scale`."""
    if gradient is None or scale == 1.0:
        return gradient
    gradient = tf.convert_to_tensor(gradient)
    return gradient / tf.cast(scale, gradient.dtype)


def _fits(gradient: Any, variable: Any) -> bool:
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return True
    if isinstance(gradient, (int, float)):
        return tuple(variable.shape) == ()
    return tuple(getattr(gradient, "shape", ("no tensor",))) == tuple(variable.shape)


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {', '.join(_described(item) for item in value) or 'nothing'}"
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
