"""Compare TensorFlow's automatic derivatives with finite-difference estimates that carry an error bound.

    check(f, x)                the derivatives of a function or a layer, as a Result to print
    assert_close(f, x)         the same as an assertion, for tests
    explain(step)              why a gradient is None, zero, partial, NaN or wrong, with the line and a remedy
    audit(loss)                the operations of a model that are known to be wrong
    assert_step(step, batch)   a whole training step: its gradients, and the update of every variable
    spot_check(loss, weights)  a training under way; keras.GradientMonitor is a callback for Keras

>>> import tensorflow as tf
>>> from gradcheck import check
>>> print(check(tf.sin, [0.5, 1.0]).verdict)
agree

The names load on first use (PEP 562): importing the package, or its pytest plugin, does not import TensorFlow.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcheck.audit import audit
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
    from gradcheck.defects.audited import AuditedOperation, AuditResult, DefectHere
    from gradcheck.explain import explain
    from gradcheck.operations.declaration import operation
    from gradcheck.operations.registry import OperationError
    from gradcheck.result import (
        Cause,
        Diagnosis,
        Finding,
        Kind,
        OrderResult,
        Place,
        Reason,
        Result,
        SourceResult,
        Verdict,
    )
    from gradcheck.spot_check import spot_check
    from gradcheck.step import assert_step
    from gradcheck.training.spot_walk import SpotCheck
    from gradcheck.verdict.failure import (
        GradientInconclusive,
        GradientMismatch,
        GradientMissing,
        GradientModesDisagree,
        GradientNonFinite,
        GradientOutsideSubdifferential,
        GradientPartial,
        GradientRaises,
        GradientUnconnected,
        GradientWrongShape,
        GradientWrongUpdate,
        GradientWrongValue,
        InconclusiveWarning,
        MismatchWarning,
        UnconnectedWarning,
    )

__version__ = "0.1.0"

_NAMES = {
    "gradcheck.audit": "audit",
    "gradcheck.autodiff.constraints": (
        "hermitian increasing lower_triangular positive_definite simplex symmetric upper_triangular"
    ),
    "gradcheck.check": "assert_close check",
    "gradcheck.verdict.failure": (
        "GradientInconclusive GradientMismatch GradientMissing GradientModesDisagree GradientNonFinite "
        "GradientOutsideSubdifferential GradientPartial GradientRaises GradientUnconnected GradientWrongShape "
        "GradientWrongUpdate GradientWrongValue InconclusiveWarning MismatchWarning UnconnectedWarning"
    ),
    "gradcheck.defects.audited": "AuditResult AuditedOperation DefectHere",
    "gradcheck.explain": "explain",
    "gradcheck.operations.declaration": "operation",
    "gradcheck.operations.registry": "OperationError",
    "gradcheck.result": "Cause Diagnosis Finding Kind OrderResult Place Reason Result SourceResult Verdict",
    "gradcheck.spot_check": "spot_check",
    "gradcheck.step": "assert_step",
    "gradcheck.training.spot_walk": "SpotCheck",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AuditResult",
    "AuditedOperation",
    "Cause",
    "DefectHere",
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
    "GradientUnconnected",
    "GradientWrongShape",
    "GradientWrongUpdate",
    "GradientWrongValue",
    "InconclusiveWarning",
    "Kind",
    "MismatchWarning",
    "OperationError",
    "OrderResult",
    "Place",
    "Reason",
    "Result",
    "SourceResult",
    "SpotCheck",
    "UnconnectedWarning",
    "Verdict",
    "assert_close",
    "assert_step",
    "audit",
    "check",
    "explain",
    "hermitian",
    "increasing",
    "lower_triangular",
    "operation",
    "positive_definite",
    "simplex",
    "spot_check",
    "symmetric",
    "upper_triangular",
]


def __getattr__(name: str) -> Any:
    if name == "keras":  # a module of its own, which needs Keras
        return import_module("gradcheck.keras")
    if name == "GradientMonitor":
        raise AttributeError("it stands in a module of its own: from gradcheck.keras import GradientMonitor")
    if name == "strategies":
        raise AttributeError("it stands in a package of its own, which needs Hypothesis: import gradcheck.strategies")
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
