"""The front door: `check` gives a Result, `assert_close` raises where it is not good."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.bystanders import restored
from gradcheck.autodiff.function import Function
from gradcheck.autodiff.given import given_gradient
from gradcheck.autodiff.gradients import WrongShapeError
from gradcheck.autodiff.opening import open_function, widened
from gradcheck.autodiff.problem import GivenProblem, TapeProblem
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.finding import INCONCLUSIVE, MISMATCH, Kind, OrderResult, Reason, Result
from gradcheck.verdict.entries import Tolerance
from gradcheck.verdict.explanation import Explanation
from gradcheck.verdict.failure import FAILURES, GradientInconclusive, InconclusiveWarning
from gradcheck.verdict.probing import first_order
from gradcheck.verdict.second_order import second_order
from gradcheck.verdict.summary import Names, broken, summarise, undecided
from gradcheck.verdict.text import doubt, failure

MODES = ("raise", "warn", "ignore")


def check(
    f: Callable[..., Any],
    *inputs: Any,
    order: int = 1,
    variables: Any = None,
    gradient: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    probes: int = 8,
) -> Result:
    """Hold the derivatives of `f` at `inputs` against finite differences with an error bound.

    `f` takes tensors (numbers, arrays, variables, lists and dicts of them) and returns a floating or complex tensor, or a
    nested structure of tensors. Floating and complex inputs, and `variables`, are differentiated; integer, boolean and
    string inputs are handed through. `order=2` asks for first and second derivatives. `gradient` holds somebody's own
    gradient of the sum of f's outputs (values, or a callable that takes what `f` takes) against the differences instead of
    TensorFlow's. `rtol` and `atol`: smaller errors do not matter; where nobody could have seen an error of that
    size, the verdict is inconclusive. `probes` random directions stand in for the coordinates beyond 24 of them.

    Raises TypeError, ValueError or RuntimeError, naming the argument, where there is nothing to check.

    >>> import tensorflow as tf
    >>> check(lambda x: tf.sin(x) * x, 2.0).verdict
    'agree'
    """
    tolerance = _arguments(order, rtol, atol, probes)
    function = open_function(f, inputs, variables)
    with restored([source.variable for source in function.sources if source.variable is not None]):
        if function.point.size == 0 or function.output_parts[-1].stop == 0:
            return _empty(order)
        _refuse_unused(function)
        orders = _Inspection(function, gradient, order, tolerance, probes).orders()
    return Result({result.order: result for result in orders})


def assert_close(
    f: Callable[..., Any],
    *inputs: Any,
    order: int = 1,
    variables: Any = None,
    gradient: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    probes: int = 8,
    inconclusive: str | None = None,
) -> None:
    """Raise a GradientMismatch unless the derivatives of `f` agree with finite differences; arguments as for `check`.

    Raises the subclass of GradientMismatch for the most severe kind found. Where first order is inconclusive everywhere,
    raises GradientInconclusive; where a part is, warns with InconclusiveWarning; `inconclusive` = "raise", "warn" or
    "ignore" overrides both.

    >>> import tensorflow as tf
    >>> assert_close(tf.tanh, [0.5, -1.0], order=2)
    """
    __tracebackhide__ = True
    if inconclusive not in (None, *MODES):
        raise ValueError(f"inconclusive was {inconclusive!r}; expected one of {', '.join(map(repr, MODES))}")
    result = check(f, *inputs, order=order, variables=variables, gradient=gradient, rtol=rtol, atol=atol, probes=probes)
    name = getattr(f, "__name__", type(f).__name__)
    if result.verdict == MISMATCH:
        raise FAILURES[result.findings[0].kind](failure(name, result), result) from None
    if result.verdict != INCONCLUSIVE or inconclusive == "ignore":
        return
    first = result.orders[1]
    nothing_seen = first.verdict == INCONCLUSIVE and first.compared == 0
    if inconclusive == "raise" or (inconclusive is None and nothing_seen):
        raise GradientInconclusive(doubt(name, result), result) from None
    warnings.warn(doubt(name, result), InconclusiveWarning, stacklevel=2)


@dataclass(frozen=True)
class _Inspection:
    function: Function
    gradient: Any
    order: int
    tolerance: Tolerance
    probes: int

    def orders(self) -> list[OrderResult]:
        numbers = range(1, self.order + 1)
        first, second = (self.function.value(self.function.point) for _ in range(2))
        slack = 1e3 * self.function.roundoff * np.maximum(np.abs(first), np.abs(second))
        if not np.all(np.abs(first - second) <= slack):
            moved = float(np.max(np.abs(first - second)))
            note = f"two calls at the same inputs differ by {moved:.3g}; fix the seed inside f, or switch dropout off"
            return [undecided(number, Reason.NOT_DETERMINISTIC, note) for number in numbers]
        return [self._guarded(number) for number in numbers]

    def _guarded(self, number: int) -> OrderResult:
        try:
            return self._first() if number == 1 else self._second()
        except DerivativeRaisedError as error:
            return broken(number, Kind.RAISES, "the inputs", explained(str(error)))
        except WrongShapeError as error:
            return broken(number, Kind.SHAPE, error.source, str(error))

    def _first(self) -> OrderResult:
        tables = first_order(self._problem(), self.tolerance, self.probes)
        explanation = Explanation(self.function, self.gradient)
        return summarise(1, tables, self._names(), notes=self._notes(), explain=explanation)

    def _second(self) -> OrderResult:
        tables, alone = second_order(self._problem(), self.tolerance, self.probes)
        notes = () if alone is None else (f"of the three estimates {alone} stands alone",)
        return summarise(2, tables, self._names(), notes=notes)

    def _problem(self) -> TapeProblem:
        wide = widened(self.function)
        if self.gradient is None:
            return TapeProblem(self.function, wide)
        return GivenProblem(self.function, wide, given=given_gradient(self.function, self.gradient))

    def _names(self) -> Names:
        sources = self.function.sources
        return Names(
            tuple(source.name for source in sources),
            tuple(source.shape for source in sources),
            tuple(source.value.dtype for source in sources),
        )

    def _notes(self) -> tuple[str, ...]:
        if self.gradient is not None:
            return ()
        ones = np.ones((1, self.function.output_parts[-1].stop))
        row = self.function.pullbacks(ones)[0]
        return tuple(
            f"{source.name} has no gradient (None)"
            for source, part in zip(self.function.sources, row, strict=True)
            if part is None
        )


def explained(message: str) -> str:
    """What TensorFlow raised, with the remedy where there is a well-known one."""
    if "non-persistent GradientTape" in message:
        return message + " Remedy: open a second tape, or make this one persistent: tf.GradientTape(persistent=True)."
    return message


def _arguments(order: int, rtol: float | None, atol: float | None, probes: int) -> Tolerance:
    if isinstance(order, bool) or order not in (1, 2):
        raise ValueError(f"order was {order!r}; 1 (first derivatives) or 2 (first and second derivatives) was expected")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (np.isscalar(value) and 0 <= float(value) < np.inf):  # type: ignore[arg-type]
            raise ValueError(f"{name} was {value!r}; a finite number, zero or positive, was expected")
    if isinstance(probes, bool) or not isinstance(probes, int) or probes < 8:
        raise ValueError(
            f"probes was {probes!r}; an integer of at least 8 was expected (a wrong entry slips by with 2**-7)"
        )
    return Tolerance(rtol, atol)


def _empty(order: int) -> Result:
    note = "the inputs or the outputs hold no elements: there is nothing to compare, which agrees trivially"
    return Result({n: OrderResult(order=n, verdict="agree", notes=(note,)) for n in range(1, order + 1)})


def _refuse_unused(function: Function) -> None:
    """A variable that was asked for and has nothing to do with `f` is a mistake in the call."""
    if not any(source.variable is not None for source in function.sources):
        return
    ones = np.ones((1, function.output_parts[-1].stop))
    try:
        row = function.pullbacks(ones)[0]
    except DerivativeRaisedError:
        return
    base = function.value(function.point)
    for source, part, gradient in zip(function.sources, function.parts, row, strict=True):
        if gradient is not None or source.variable is None:
            continue
        moved = function.point.copy()
        moved[part] = moved[part] * 1.25 + 0.125
        if np.array_equal(function.value(moved), base, equal_nan=True):
            raise ValueError(
                f"{source.name} is not used by f: its gradient is None, and f does not change with it; "
                "leave it out of variables=, or use it inside f"
            )
