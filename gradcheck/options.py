"""The options of the public functions: checked once, with messages that say what was given and what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck.verdict.asked import Allowed, Asked
from gradcheck.verdict.probes import PROBES
from gradcheck.verdict.summary import listed

MODES = ("raise", "warn", "ignore")
"""The values of `inconclusive` and `unconnected`, which say what happens on a result that is no agreement."""


@dataclass(frozen=True)
class Options:
    """The highest order of a check, what is asked of its sources, its random probes on each side, its time limit."""

    order: int = 1
    asked: Asked = field(default_factory=Asked)
    probes: int = PROBES
    seconds: float | None = None


def options_from(
    order: int, rtol: Allowed, atol: Allowed, probes: int, seconds: float | None = None, skip: Sequence[str] = ()
) -> Options:
    """Validate the options of a check. Raises ValueError."""
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order not in (1, 2):
        raise ValueError(f"order was {order!r}; 1 (first derivatives) or 2 (first and second derivatives) was expected")
    for name, given in (("rtol", rtol), ("atol", atol)):
        if not isinstance(given, Mapping):
            _refuse_tolerance(name, 0.0 if given is None else given)
            continue
        for key, value in given.items():
            if not isinstance(key, str):
                raise ValueError(f"{name} was {given!r}; names of inputs or variables were expected as keys")
            _refuse_tolerance(f"{name}[{key!r}]", value)
    if seconds is not None and not (_is_number(seconds) and seconds > 0):
        raise ValueError(f"seconds was {seconds!r}; a positive number, or None for no limit, was expected")
    if not isinstance(probes, int) or isinstance(probes, bool) or probes < 8:
        raise ValueError(
            f"probes was {probes!r}; an integer of at least 8 was expected (among fewer, errors may cancel unseen)"
        )
    if not isinstance(skip, (list, tuple, set)) or not all(isinstance(name, str) for name in skip):
        raise ValueError(f"skip was {skip!r}; a list of names was expected, as in skip=['embedding']")
    return Options(order, Asked(rtol, atol, tuple(skip)), probes, seconds)


def _refuse_tolerance(name: str, value: Any) -> None:
    if not (_is_number(value) and 0 <= value < np.inf):
        raise ValueError(f"{name} was {value!r}; a finite number, zero or positive, was expected")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def refuse_modes(inconclusive: str | None, unconnected: str) -> None:
    """Raise ValueError for an `inconclusive` or `unconnected` that is none of the modes."""
    modes = ", ".join(map(repr, MODES))
    if inconclusive not in (None, *MODES):
        raise ValueError(f"inconclusive was {inconclusive!r}; expected one of {modes}")
    if unconnected not in MODES:
        raise ValueError(f"unconnected was {unconnected!r}; expected one of {modes}")


def refuse_directions(directions: Any) -> None:
    """Raise ValueError for an invalid number of directions."""
    if not isinstance(directions, int) or isinstance(directions, bool) or directions < 1:
        raise ValueError(f"directions was {directions!r}; an integer of at least 1 was expected")


def refuse_uncallable(loss: Any, gradient: Any) -> None:
    """Raise TypeError for a loss, or a gradient that was given, that cannot be called."""
    for name, given in (("loss", loss), ("gradient", gradient)):
        if not callable(given) and (name == "loss" or given is not None):
            raise TypeError(
                f"{name} is of type {type(given).__name__}; a function without arguments was expected: "
                f"spot_check(lambda: loss_of(batch), variables, lambda: gradients_of(batch))"
            )


LOSS, STEP = "lambda: loss(y, model(x)), variables=model", "model.train_step, (x, y)"
"""The arguments that check the gradient of a Keras model."""
TRAINING = "which trains for many steps; a single one was expected"


def refuse_misread_model(asked: str, f: Any, inputs: Sequence[Any]) -> None:
    """Raise TypeError for a Keras model, or a method of one, with inputs that it does not take in the function `asked`.

    >>> import keras
    >>> refuse_misread_model("explain", keras.Sequential([keras.layers.Dense(1)]).train_step, [0.0, 1.0])
    Traceback (most recent call last):
    ...
    TypeError: train_step takes (data), 2 inputs were given; expected was gradcheck.explain(model.train_step, (x, y))
    """
    method = getattr(f, "python_function", f)  # of a tf.function
    given, name = ("step" if asked == "assert_step" else "f"), getattr(method, "__name__", "")
    wanted = f"gradcheck.{asked}({LOSS if asked == 'check' else STEP})"
    numbers = f"{len(inputs) or 'no'} input{' was' if len(inputs) == 1 else 's were'} given"
    if _is_model(f):
        taken = _inputs_of(f)
        if asked == "assert_step":
            raise TypeError(f"{given} is a model ({type(f).__name__}), a training step was expected: {wanted}")
        others = () if taken is None else inputs[taken:]
        if any(one is not None and not isinstance(one, bool) for one in others):
            raise TypeError(
                f"{given} is a model ({type(f).__name__}), which takes {taken} input{'s' * (taken != 1)}, "
                f"{len(inputs)} were given; to include the loss: {wanted}"
            )
    elif _is_model(getattr(method, "__self__", None)) and name == "fit":
        raise TypeError(f"{given} is the fit of a model, {TRAINING}: {wanted}")
    elif name == "train_step":
        signature = inspect.signature(method)
        try:
            signature.bind(*inputs)
        except TypeError:
            names = ", ".join(signature.parameters)
            raise TypeError(f"{name} takes ({names}), {numbers}; expected was {wanted}") from None


def refuse_training(result: Any) -> None:
    """Raise TypeError in `explain` for the result of a Keras model's `fit`."""
    if type(result).__name__ == "History" and hasattr(result, "on_epoch_end"):
        raise TypeError(f"f returned the History of model.fit, {TRAINING}: gradcheck.explain({STEP})")


def notes_on_frozen(f: Any) -> list[str]:
    """A note on the layers of a Keras model that are frozen, if `f` is its train_step.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="base", trainable=False)])
    >>> notes_on_frozen(model.train_step)
    ['frozen: base; where trainable is False no gradient is taken, and no weight is trained']
    """
    model = getattr(getattr(f, "python_function", f), "__self__", None)
    frozen = list(dict.fromkeys(_frozen(model))) if _is_model(model) else []
    if not frozen:
        return []
    return [f"frozen: {listed(frozen)}; where trainable is False no gradient is taken, and no weight is trained"]


def _frozen(layer: Any) -> Iterator[str]:
    """The names of the outermost layers in a layer that have weights and are not trainable."""
    if not layer.trainable and layer.weights:
        yield layer.name
    else:
        for inner in getattr(layer, "layers", ()):
            yield from _frozen(inner)


def _is_model(given: Any) -> bool:
    return all(hasattr(given, name) for name in ("call", "compile", "fit", "train_step", "trainable_variables"))


def _inputs_of(model: Any) -> int | None:
    """The number of inputs that a model's `call` takes by position, but `training` and `mask`; None for any number."""
    parameters = inspect.signature(model.call).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    by_position = (one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))
    return sum(one.name not in ("training", "mask") for one in by_position)


def name_of(f: Any) -> str:
    """The name of the user's function in messages."""
    return str(getattr(f, "__name__", None) or getattr(f, "_name", None) or type(f).__name__)
