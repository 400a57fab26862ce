"""Compares TensorFlow's automatic derivatives with finite-difference estimates that carry an error bound.

The names load on first use (PEP 562): importing the package, or its pytest plugin, does not import TensorFlow.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcheck.autodiff.constraints import (
        hermitian,
        increasing,
        lower_triangular,
        positive_definite,
        simplex,
        symmetric,
        upper_triangular,
    )
    from gradcheck.check import assert_close, check
    from gradcheck.comparison.failure import (
        GradientInconclusive,
        GradientMismatch,
        GradientMissing,
        GradientModesDisagree,
        GradientNonFinite,
        GradientOutsideSubdifferential,
        GradientPartial,
        GradientRaises,
        GradientWrongShape,
        GradientWrongUpdate,
        GradientWrongValue,
        InconclusiveWarning,
    )
    from gradcheck.explain import explain
    from gradcheck.result import Cause, Diagnosis, Finding, Kind, OrderResult, Place, Reason, Result, SourceResult
    from gradcheck.step import assert_step

__version__ = "0.1.0"

_HOME = {
    "check": "gradcheck.check",
    "assert_close": "gradcheck.check",
    "assert_step": "gradcheck.step",
    "explain": "gradcheck.explain",
    "hermitian": "gradcheck.autodiff.constraints",
    "increasing": "gradcheck.autodiff.constraints",
    "lower_triangular": "gradcheck.autodiff.constraints",
    "positive_definite": "gradcheck.autodiff.constraints",
    "simplex": "gradcheck.autodiff.constraints",
    "symmetric": "gradcheck.autodiff.constraints",
    "upper_triangular": "gradcheck.autodiff.constraints",
    "Cause": "gradcheck.result",
    "Diagnosis": "gradcheck.result",
    "Place": "gradcheck.result",
    "SourceResult": "gradcheck.result",
    "Finding": "gradcheck.result",
    "Kind": "gradcheck.result",
    "OrderResult": "gradcheck.result",
    "Reason": "gradcheck.result",
    "Result": "gradcheck.result",
    "GradientInconclusive": "gradcheck.comparison.failure",
    "GradientMismatch": "gradcheck.comparison.failure",
    "GradientMissing": "gradcheck.comparison.failure",
    "GradientModesDisagree": "gradcheck.comparison.failure",
    "GradientNonFinite": "gradcheck.comparison.failure",
    "GradientOutsideSubdifferential": "gradcheck.comparison.failure",
    "GradientPartial": "gradcheck.comparison.failure",
    "GradientRaises": "gradcheck.comparison.failure",
    "GradientWrongShape": "gradcheck.comparison.failure",
    "GradientWrongUpdate": "gradcheck.comparison.failure",
    "GradientWrongValue": "gradcheck.comparison.failure",
    "InconclusiveWarning": "gradcheck.comparison.failure",
}

__all__ = [
    "Cause",
    "Diagnosis",
    "Finding",
    "GradientInconclusive",
    "GradientMismatch",
    "GradientMissing",
    "GradientModesDisagree",
    "GradientNonFinite",
    "GradientOutsideSubdifferential",
    "GradientPartial",
    "GradientRaises",
    "GradientWrongShape",
    "GradientWrongUpdate",
    "GradientWrongValue",
    "InconclusiveWarning",
    "Kind",
    "OrderResult",
    "Place",
    "Reason",
    "Result",
    "SourceResult",
    "assert_close",
    "assert_step",
    "check",
    "explain",
    "hermitian",
    "increasing",
    "lower_triangular",
    "positive_definite",
    "simplex",
    "symmetric",
    "upper_triangular",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `gradcheck.check` the function: importing the module of that name would put the module in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
