"""A finding's fields for JUnit's XML, as pytest's record_property takes them."""

from __future__ import annotations

from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.report.confirm import Confirmation


def properties(found: GraphFinding, confirmation: Confirmation | None = None) -> tuple[tuple[str, str], ...]:
    """Pairs of name and value, all texts, in a fixed order; what a finding has no value for is left out.

    Use it as `for name, value in properties(discovery): record_property(name, value)`.
    """
    worst, signature = found.findings[0], found.signature
    pairs = {
        "name": found.name,
        "operation": signature.operation,
        "order": signature.order,
        "kind": signature.kind,
        "description": found.description,
        "path": signature.path,
        "mode": signature.mode,
        "element": worst.element,
        "autodiff": worst.autodiff,
        "difference": worst.difference,
        "bound": worst.bound,
        "allowed": worst.allowed,
        "cause": None if worst.diagnosis is None else worst.diagnosis.cause,
        "remedy": None if worst.diagnosis is None else worst.diagnosis.remedy,
        "tensorflow": None if found.environment is None else found.environment.tensorflow,
        "confirmed": None if confirmation is None else str(confirmation.confirmed).lower(),
    }
    return tuple((f"gradcheck.{name}", str(value)) for name, value in pairs.items() if value is not None)
