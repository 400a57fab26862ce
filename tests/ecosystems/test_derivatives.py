"""Derivatives of TensorFlow Probability: right, except for those in `expected.py`, with the right ones there."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from gradcheck.check import result_of
from gradcheck.options import Options
from gradcheck.result import Finding, Kind, Verdict
from tests.ecosystems.cases import CASES, Inputs, plain
from tests.ecosystems.expected import RAISES, UNDECIDED, WRONG, Wrong

pytestmark = pytest.mark.exhaustive

OTHER = "the other derivative is taken along "
INPUT = re.compile(r"inputs((?:\['\w+'\])+)((?:\[[\d, ]+\])?)")


def elements(finding: Finding) -> list[str]:
    """The elements with respect to which a derivative is taken, by the names of `numbers`: one, or two at second
    order."""
    texts = (finding.element, *finding.reason.partition(OTHER)[2:])[: finding.order]
    found = [match for text in texts if (match := INPUT.match(text))]
    assert len(found) == finding.order, finding
    return [".".join(re.findall(r"\w+", match[1])) + match[2] for match in found]


def along(finding: Finding) -> tuple[str, ...]:
    """The inputs with respect to which a derivative is taken, in alphabetic order."""
    return tuple(sorted(name.partition("[")[0] for name in elements(finding)))


def numbers(inputs: Inputs, prefix: str = "") -> dict[str, float]:
    """All elements of the inputs, in order, by name."""
    found: dict[str, float] = {}
    for name, value in inputs.items():
        if isinstance(value, dict):
            found |= numbers(value, f"{prefix}{name}.")
            continue
        values = plain(value)
        for index in product(*map(range, values.shape)):
            found[f"{prefix}{name}" + (f"[{', '.join(map(str, index))}]" if index else "")] = float(values[index])
    return found


def derivative(wrong: Wrong, inputs: Inputs, names: list[str], output: int, direction: int = 0) -> float:
    """The oracle's derivative at the point, in fifty digits, or a one-sided slope there."""
    point = numbers(inputs)
    orders = tuple(names.count(name) for name in point)

    def oracle(*values: Any) -> Any:
        result = wrong.oracle(*values)
        return mpmath.re(result[output] if isinstance(result, tuple) else result)

    with mpmath.workdps(50):
        return float(mpmath.diff(oracle, tuple(map(mpmath.mpf, point.values())), orders, direction=direction))


def assert_wrong(wrong: Wrong, inputs: Inputs, finding: Finding) -> None:
    """By the check's own measure the estimate is right, and autodiff is not."""
    names, output = elements(finding), finding.output or 0
    autodiff = np.nan if finding.autodiff is None else finding.autodiff
    if finding.kind is Kind.SUBDIFFERENTIAL:
        slopes = [derivative(wrong, inputs, names, output, direction) for direction in (-1, 1)]
        assert not min(slopes) <= autodiff <= max(slopes)
        return
    right = derivative(wrong, inputs, names, output)
    assert finding.difference is not None
    assert finding.allowed is not None
    assert abs(finding.difference - right) <= finding.allowed
    assert not abs(autodiff - right) <= finding.allowed


@pytest.mark.parametrize("name", CASES)
def test_each_is_right_or_as_wrong_as_an_oracle_says(name: str) -> None:
    case = CASES[name]
    result = result_of(case.function, (case.inputs,), Options(case.order), causes=False)
    undecided = {number: set(order.reasons) for number, order in result.orders.items() if order.reasons}
    assert undecided == (UNDECIDED[name].reasons if name in UNDECIDED else {})
    raised = [finding.reason for finding in result.findings if finding.kind is Kind.RAISES]
    assert len(raised) == (name in RAISES)
    assert all(RAISES[name] in reason for reason in raised)
    findings = [finding for finding in result.findings if finding.kind is not Kind.RAISES]
    assert {along(finding) for finding in findings} == (set(WRONG[name].along) if name in WRONG else set())
    for finding in findings:
        assert_wrong(WRONG[name], case.inputs, finding)
    assert (result.verdict is Verdict.AGREE) == (name not in {*WRONG, *RAISES, *UNDECIDED})


def test_what_is_expected_is_expected_of_a_case() -> None:
    assert len(CASES) >= 200
    assert {*WRONG, *RAISES, *UNDECIDED} <= set(CASES)
