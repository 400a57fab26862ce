"""A Keras callback that regularly compares the gradient of the current batch with differences of its loss."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.summary.tb_summary import TBNotInstalledError

from gradcheck.autodiff.sources import paths, variable_of
from gradcheck.diagnosis.unconnected import tell_unconnected
from gradcheck.explain import explain
from gradcheck.options import refuse_directions
from gradcheck.result import Result, Verdict
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.tracebacks import told_plainly
from gradcheck.training.spot_walk import SpotCheck, not_finite
from gradcheck.training.watched_step import CheckedSources, WatchedStep, raised, repeatable
from gradcheck.verdict.failure import (
    FAILURES,
    GradientMismatch,
    GradientNonFinite,
    InconclusiveWarning,
    MismatchWarning,
)

ACTIONS = ("warn", "raise")
USE_OR_FREEZE = "What to do: compute everything that depends on it inside the step, or set its trainable to False."
ERROR, RESOLUTION = "gradient_error", "gradient_resolution"
"""The names of the largest error and the resolution of an epoch's spot checks in the logs."""

ATTEMPTS = 3
"""After this many failed checks in succession, the monitor makes no more in a training."""


class GradientMonitor(keras.callbacks.Callback):  # type: ignore[misc]
    """Compares the gradient of the current batch, at the current weights, with differences of its loss.

    At the first batch, and every `every` batches after it, the derivatives that the model's train_step takes of its
    loss with respect to variables are compared along a few `directions`, as in `gradcheck.spot_check`: in a graph that
    is traced once, or eagerly if the model runs eagerly or its step cannot be traced. For a model that is not built,
    the first check is at the second batch, since the training creates the weights. The largest error of an epoch and
    its resolution, relative to sum |gradient * direction|, are `gradient_error` and `gradient_resolution` in the logs
    of its end, for the history and for later callbacks, including TensorBoard: NaN for an epoch without a check, or
    without a finite gradient. Those of each check go to the default summary writer if there is one.

    A disagreement along a direction is examined by `gradcheck.explain`, which takes longer. A gradient that it calls
    wrong, or that is not finite, raises the GradientMismatch of its kind (`action="raise"`) or warns with a
    MismatchWarning (`"warn"`), once; the message names the operation and the line, or says that NaN or infinity is in
    the batch or in the weights. Weights without a gradient that do not change the loss are named once, in an
    UnconnectedWarning. Dropout and seeds are held fixed for a check; weights, moving averages, seeds, metrics and the
    order of the data are left as they were.

    The training continues whatever happens in a check. Cases that cannot be watched, such as more than one replica,
    complex weights or a step without a tape, give one InconclusiveWarning, with the reason, and NaN in the logs; the
    next check tries again, until three in succession have failed.

    Raises ValueError for invalid arguments.

    >>> import keras
    >>> import numpy as np
    >>> model = keras.Sequential([keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> x, y = np.linspace(-1.0, 1.0, 32).reshape(16, 2), np.ones(16)
    >>> history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[GradientMonitor(every=3)])
    >>> max(history.history["gradient_error"]) < 1e-3
    True
    """

    _supports_tf_logs = True
    """Lets Keras 2 pass the logs that the history is made of, not a copy."""

    @told_plainly
    def __init__(self, every: int = 1000, *, directions: int = 2, action: str = "warn") -> None:
        super().__init__()
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise ValueError(f"every was {every!r}; a number of batches, at least 1, was expected")
        if action not in ACTIONS:
            raise ValueError(f"action was {action!r}; expected one of {', '.join(map(repr, ACTIONS))}")
        refuse_directions(directions)
        self.every, self.directions, self.action = every, directions, action
        self.checks: list[SpotCheck] = []
        """All spot checks so far."""
        self._steps: list[WatchedStep] = []
        self._batches = self._taking = self._due = self._epoch_began = self._failures = 0
        self._unconnected_told = self._told = self._doubted = self._failed = self._stepped = self._waits = False
        self._doubts: list[str] = []
        self._unconnected: SpotCheck | None = None
        self._wrong: GradientMismatch | None = None
        self._replaced: tuple[Any, Any] | None = None

    def _implements_train_batch_hooks(self) -> bool:
        """Asked by Keras 2, which asks the same of other batches."""
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    _implements_predict_batch_hooks = _implements_test_batch_hooks

    def on_train_begin(self, logs: Any = None) -> None:
        self._put_back()
        self._steps, self._failures = [], 0
        self._doubted = self._stepped = self._waits = False
        with self._going_on():
            replicas = self.model.distribute_strategy.num_replicas_in_sync
            if replicas == 1:
                ways = (False,) if self.model.run_eagerly else (True, False)
                self._steps = [WatchedStep(self.model.train_step, traced=traced) for traced in ways]
            else:
                self._doubts.append(
                    f"the model is trained on {replicas} replicas, but a check sees the gradient of only one: train it "
                    "on one device for a while"
                )
        self._warn()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_began = len(self.checks)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._steps:
            return
        self._failed = False
        with self._going_on():
            self._taking = int(self.model.steps_per_execution)
            if self._due < self._batches + self._taking:
                self._waits = not (self._stepped or all(layer.built for layer in self.model._flatten_layers()))
                if not self._waits:
                    self._replace_train_function()
        if self._failed:
            self._count()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._put_back():
            self._failed = True
            self._doubts.append("the training does not call model.train_function, where the monitor gets a batch")
            self._count()
        self._batches += self._taking
        self._stepped = True

    def on_train_end(self, logs: Any = None) -> None:
        self._put_back()
        if self._waits:
            self._doubts.append(
                "the only batches were those that created the weights; build the model before calling fit"
            )
            self._warn()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seen = [check for check in self.checks[self._epoch_began :] if np.isfinite(check.error)]
        if logs is not None:
            logs[ERROR] = max((check.error for check in seen), default=np.nan)
            logs[RESOLUTION] = max((check.resolution for check in seen), default=np.nan)

    def _replace_train_function(self) -> None:
        """Let the next call of the model's train_function check the first of its batches."""
        train = self.model.train_function

        def checked(iterator: Any) -> Any:
            __tracebackhide__ = True
            self._put_back()
            held: list[Any] = []
            again = iterator
            with self._going_on():
                again = _beginning_with(held, iterator, self._taking, self.model.distribute_strategy)
            if again is iterator:
                self._count()
                return train(iterator)
            try:
                held.append(next(iterator))
            except StopIteration:
                return train(iterator)
            self._look(held[0])
            return train(again)

        self.model.train_function, self._replaced = checked, (checked, train)

    def _put_back(self) -> bool:
        """Give the model back its train_function, unless it has another one by now; return whether one was replaced."""
        if self._replaced is None:
            return False
        (ours, train), self._replaced = self._replaced, None
        if self.model.train_function is ours:
            self.model.train_function = train
        return True

    def _look(self, data: Any) -> None:
        """Check a batch; raises a mismatch if requested, and nothing else."""
        __tracebackhide__ = True
        self._wrong, self._failed = None, False
        with self._going_on():
            self._check(data)
        self._count()
        if self._unconnected is not None and not self._unconnected_told:
            self._unconnected_told = True
            result = self._unconnected.result
            tell_unconnected(f"batch {self._batches}", result, "warn", "warn", stacklevel=2, advice=USE_OR_FREEZE)
        if self._wrong is None:
            return
        if self.action == "raise":
            raise self._wrong
        warnings.warn(str(self._wrong), MismatchWarning, stacklevel=2)

    def _count(self) -> None:
        """End a check; if it failed, warn, and stop checking after too many failures in succession."""
        self._due += self.every * -(-(self._batches + self._taking - self._due) // self.every)
        self._failures = self._failures + 1 if self._failed else 0
        if self._failures == ATTEMPTS:
            self._steps = []
        self._warn()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Let the training continue whatever fails inside; failures are shown later, where warnings may be errors."""
        try:
            yield
        except Exception as error:  # from the model, TensorFlow or gradcheck: the training goes on
            self._failed = True
            self._doubts.append(raised(error))

    def _warn(self) -> None:
        """Warn of what is not watched, once in a training."""
        doubts, self._doubts = self._doubts, []
        if doubts and not self._doubted:
            self._doubted = True
            warnings.warn(
                f"GradientMonitor could not compare the gradient at batch {self._batches} of the training: "
                f"{'; '.join(dict.fromkeys(doubts))}. The training continues, with NaN in its logs where nothing was "
                f"compared; the monitor tries again every {self.every} batches, until {ATTEMPTS} checks in a row fail",
                InconclusiveWarning,
                stacklevel=2,
            )

    def _check(self, data: Any) -> None:
        for sources, found in self._found(data):
            if isinstance(found, str):
                self._failed = True
                self._doubts.append(found)
                continue
            if found.result.unconnected and self._unconnected is None:
                named = {variable.name: variable_of(variable) for variable in sources}
                self._unconnected = found.noted(named, partial(recorded, self.model.train_step, (data,)))
            self.checks.append(found)
            if tf.summary.should_record_summaries():
                with suppress(TBNotInstalledError):
                    tf.summary.scalar(ERROR, found.error, step=self._batches)
                    tf.summary.scalar(RESOLUTION, found.resolution, step=self._batches)
            if np.isnan(found.error) and found.finite:
                order = found.result.orders[1]
                self._doubts.append("; ".join([*(reason.value for reason in order.reasons), *order.notes]))
            suspected = found.verdict == Verdict.MISMATCH or not found.finite
            if suspected and not self._told:
                with repeatable(self.model.train_step):
                    explained = explain(self.model.train_step, data)
                known = any(source.origin is not None for source in explained.sources)
                if explained.verdict == Verdict.MISMATCH or known or not found.finite:
                    weights = [*self.model.weights, *sources]
                    told = [_difference(found)] if found.finite else _without_end(data, weights, known)
                    self._tell(told, explained)

    def _found(self, data: Any) -> list[CheckedSources]:
        """The checks of a batch by graphs, or, if these fail, by the step's own eager code."""
        tried = []
        for step in self._steps:
            tried.append((step, step.checks(data, self.directions)))
            if not any(isinstance(found, str) for _, found in tried[-1][1]):
                break
        best, walked = min(reversed(tried), key=lambda one: np.mean([isinstance(found, str) for _, found in one[1]]))
        self._steps.sort(key=lambda step: step is not best)  # the next check begins with it
        return walked

    def _tell(self, told: Sequence[str], explained: Result) -> None:
        self._told = True
        lines = [f"at batch {self._batches} of the training the gradient {told[0]}", *told[1:], str(explained)]
        kinds = [source.finding.kind for source in explained.sources if source.finding is not None]
        self._wrong = (FAILURES[kinds[0]] if kinds else GradientNonFinite)("\n".join(lines), explained)


def _beginning_with(held: Sequence[Any], iterator: Any, count: int, strategy: Any) -> Any:
    """An iterator over the future contents of `held`, then the other batches of a call that takes `count`.

    It has the same type: for another one the training's function would be traced again, with other random numbers.
    """
    again = tf.data.Dataset.from_generator(
        lambda: itertools.chain(held, itertools.islice(iterator, count - 1)), output_signature=iterator.element_spec
    )
    return iter(strategy.distribute_datasets_from_function(lambda _: again))


def _difference(found: SpotCheck) -> str:
    size, noticed = f"{found.error:.1e}", f"{found.resolution:.1e}"
    return f"differs from finite differences of the loss by {size}; an error of {noticed} would have been noticed"


def _without_end(data: Any, weights: Sequence[Any], known: bool) -> list[str]:
    """Describe a gradient that is not finite, and its origin; `known` says that an operation is known to make it so."""
    lines = ["is not finite"]
    if numbers := _endless_numbers(data):
        lines.append(
            f"the batch contains NaN or infinity: {', '.join(numbers)}; leave such rows out of the data, or replace "
            "these numbers"
        )
    if spoilt := not_finite(weights):
        lines.append(
            f"{spoilt}, from an earlier update or as loaded: start again from finite weights, with "
            "GradientMonitor(every=1) to find the first batch with a non-finite gradient"
        )
    if not (known or numbers or spoilt):
        lines.append(
            "the batch and the weights are finite, and no single operation is known to make NaN or infinity of finite "
            "numbers: look for a constant that is not finite in the model or its loss"
        )
    return lines


def _endless_numbers(data: Any) -> list[str]:
    """The places of NaN or infinity in the data of a batch, such as "data[0] (1 of 64 numbers)"."""
    found = []
    for name, leaf in paths("data", data):
        parts = [part for part in tf.nest.flatten(leaf, expand_composites=True) if tf.is_tensor(part)]
        floating = [part for part in parts if part.dtype.is_floating]
        count = sum(int(tf.math.count_nonzero(~tf.math.is_finite(part))) for part in floating)
        if count:
            found.append(f"{name} ({count} of {sum(int(tf.size(part)) for part in floating)} numbers)")
    return found
