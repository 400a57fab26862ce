"""Holds TensorFlow's automatic derivatives against finite differences that carry an error bound.

The names load on first use (PEP 562): importing the package, or its pytest plugin, does not import TensorFlow.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcheck.autodiff.structured import (
        hermitian,
        increasing,
        lower_triangular,
        positive_definite,
        simplex,
        symmetric,
        upper_triangular,
    )
    from gradcheck.check import assert_close, check
    from gradcheck.explain import explain
    from gradcheck.finding import Cause, Diagnosis, Finding, Kind, OrderResult, Place, Reason, Result, SourceResult
    from gradcheck.step import assert_step
    from gradcheck.verdict.failure import (
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

__version__ = "0.1.0"

_HOME = {
    "check": "gradcheck.check",
    "assert_close": "gradcheck.check",
    "assert_step": "gradcheck.step",
    "explain": "gradcheck.explain",
    "hermitian": "gradcheck.autodiff.structured",
    "increasing": "gradcheck.autodiff.structured",
    "lower_triangular": "gradcheck.autodiff.structured",
    "positive_definite": "gradcheck.autodiff.structured",
    "simplex": "gradcheck.autodiff.structured",
    "symmetric": "gradcheck.autodiff.structured",
    "upper_triangular": "gradcheck.autodiff.structured",
    "Cause": "gradcheck.finding",
    "Diagnosis": "gradcheck.finding",
    "Place": "gradcheck.finding",
    "SourceResult": "gradcheck.finding",
    "Finding": "gradcheck.finding",
    "Kind": "gradcheck.finding",
    "OrderResult": "gradcheck.finding",
    "Reason": "gradcheck.finding",
    "Result": "gradcheck.finding",
    "GradientInconclusive": "gradcheck.verdict.failure",
    "GradientMismatch": "gradcheck.verdict.failure",
    "GradientMissing": "gradcheck.verdict.failure",
    "GradientModesDisagree": "gradcheck.verdict.failure",
    "GradientNonFinite": "gradcheck.verdict.failure",
    "GradientOutsideSubdifferential": "gradcheck.verdict.failure",
    "GradientPartial": "gradcheck.verdict.failure",
    "GradientRaises": "gradcheck.verdict.failure",
    "GradientWrongShape": "gradcheck.verdict.failure",
    "GradientWrongUpdate": "gradcheck.verdict.failure",
    "GradientWrongValue": "gradcheck.verdict.failure",
    "InconclusiveWarning": "gradcheck.verdict.failure",
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
