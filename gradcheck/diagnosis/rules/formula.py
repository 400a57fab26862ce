"""Causes that lie in a formula: a gradient that somebody wrote by hand and that is wrong."""

from __future__ import annotations

import inspect
import linecache
from typing import Any

import numpy as np
from tensorflow.python.ops import custom_gradient

from gradcheck.autodiff.bystanders import undone
from gradcheck.autodiff.opening import open_function
from gradcheck.autodiff.problem import TapeProblem
from gradcheck.diagnosis.case import Case, at
from gradcheck.diagnosis.lines import Line, place_of
from gradcheck.diagnosis.record import CustomCall, Operation
from gradcheck.finding import Cause, Diagnosis
from gradcheck.verdict.entries import MISMATCH, Tolerance
from gradcheck.verdict.probing import Table, first_order

Array = np.ndarray[Any, Any]


def wrong_formula(case: Case) -> Diagnosis | None:
    """The first tf.custom_gradient on the path whose own derivative differs from its differences."""
    for number in case.path.operations:
        operation = case.record.operations[number]
        if operation.function is not None:
            table = _wrong(operation.function)
            if table is not None:
                return _said(case, operation, operation.function, table)
    return None


def _wrong(call: CustomCall) -> Table | None:
    """The table with wrong entries of the function under tf.custom_gradient at the arguments of the call."""

    def again(*args: Any) -> Any:
        return custom_gradient._eager_mode_decorator(call.function, args, call.kwargs)

    try:
        with undone():
            tables = first_order(TapeProblem(open_function(again, call.args, None)), Tolerance(), 8)
    except Exception:  # a function that cannot be called by itself cannot be blamed
        return None
    return next((table for table in tables if table.entries.any(MISMATCH)), None)


def _said(case: Case, operation: Operation, call: CustomCall, table: Table) -> Diagnosis:
    entries = table.entries
    line, row = map(int, np.unravel_index(np.argmax(entries.excess()), entries.status.shape))
    name = call.function.__name__
    defined = _definition(call)
    evidence = (
        f"called alone{at(operation.line)}, the function {name} under tf.custom_gradient gives the derivative "
        f"{entries.autodiff[line, row]:.6g} where differences say {entries.difference[line, row]:.6g}"
    )
    remedy = f"correct the gradient that {name}{at(defined)} returns"
    return Diagnosis(Cause.CUSTOM_GRADIENT, evidence, remedy, place_of(defined, name), case.loss.lost)


def _definition(call: CustomCall) -> Line:
    """The line on which the function is defined, below its decorators."""
    code = inspect.unwrap(call.function).__code__
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).strip().startswith("@"):
        number += 1
    return code.co_filename, number
