"""A derivative that somebody's code took, explained source by source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.gradients import WrongShapeError
from gradcheck.autodiff.sources import Source
from gradcheck.diagnosis.call_problem import CallProblem
from gradcheck.diagnosis.case import Loss, at
from gradcheck.diagnosis.diagnose import covered, diagnose
from gradcheck.diagnosis.influence import Influence, influence
from gradcheck.diagnosis.lines import place_of
from gradcheck.diagnosis.origins import Origin, origin_of
from gradcheck.diagnosis.record import Derivative
from gradcheck.diagnosis.replay import Code
from gradcheck.diagnosis.rules.usage import raised
from gradcheck.diagnosis.source_names import source_names
from gradcheck.finding import INCONCLUSIVE, MISMATCH, Cause, Diagnosis, Finding, Kind, OrderResult, SourceResult
from gradcheck.verdict.entries import Tolerance
from gradcheck.verdict.probing import SMALL, first_order
from gradcheck.verdict.summary import Names, broken, summarise

NOTHING = "the target does not depend on it"
BRANCH = "it only decides which way the code goes"


@dataclass(frozen=True)
class Explained:
    """The verdict on a call and what it says of each source."""

    order: OrderResult
    sources: tuple[SourceResult, ...]


def explained_call(code: Code, call: Derivative, tolerance: Tolerance, probes: int) -> Explained:
    """Hold the answer of a call against differences of its targets, and diagnose what is wrong."""
    if call.error is not None:
        return _raised(code, call)
    return _Explaining(code, call, tolerance, probes).explained()


def _raised(code: Code, call: Derivative) -> Explained:
    message = f"{type(call.error).__name__}: {call.error}"
    order = broken(1, Kind.RAISES, "the derivative", message)
    finding = replace(order.findings[0], diagnosis=raised(code.record, call))
    where = place_of(call.line, call.method)
    source = SourceResult(where, "the derivative", message, False, finding=finding)
    return Explained(replace(order, findings=(finding,)), (source,))


@dataclass(frozen=True)
class _Named:
    """A source of the call: its name, origin, and as a Source where it is floating or complex."""

    place: int
    name: str
    origin: Origin
    source: Source | None


@dataclass(frozen=True)
class _Explaining:
    code: Code
    call: Derivative
    tolerance: Tolerance
    probes: int

    def explained(self) -> Explained:
        named = self._named()
        floating = [one for one in named if one.source is not None]
        orders = self._orders(floating)
        findings = {finding.input: finding for order in orders for finding in order.findings}
        results = [self._source(one, findings.get(one.name.split(" (")[0]) or findings.get(one.name), orders) for one in named]
        return Explained(merged([*orders, *(_found(one) for one in results if one.finding is not None)]), tuple(results))

    def _named(self) -> list[_Named]:
        found: dict[int, _Named] = {}
        for place, (name, tensor) in enumerate(zip(source_names(self.call), self.call.sources, strict=True)):
            origin = origin_of(self.code.record, self.call, tensor)
            dtype = tf.as_dtype(tensor.dtype)
            source = None
            if dtype.is_floating or dtype.is_complex:
                source = Source(name, np.asarray(origin.value), dtype.name)
            found.setdefault(id(getattr(tensor, "handle", tensor)), _Named(place, name, origin, source))
        return list(found.values())

    def _orders(self, floating: Sequence[_Named]) -> list[OrderResult]:
        """All sources together while they are few, or agree; else each by itself, so that the wrong one is named."""
        if not floating:
            return []
        whole = self._order(floating)
        counts = [coordinate_count(one.source.shape, one.source.value.dtype) for one in floating if one.source]
        if sum(counts) <= SMALL or whole.verdict != MISMATCH or len(floating) == 1:
            return [whole]
        return [self._order([one]) for one in floating]

    def _order(self, floating: Sequence[_Named]) -> OrderResult:
        sources = tuple(one.source for one in floating if one.source is not None)
        origins = tuple(one.origin for one in floating)
        problem = CallProblem(self.code, self.call, sources, origins, tuple(one.place for one in floating))
        by_name = {one.name: one for one in floating}

        def explain(finding: Finding, coordinate: int | None) -> Finding:
            name = finding.input.split(" (real part)")[0].split(" (imaginary part)")[0]
            return self._diagnosed(by_name[name], finding) if name in by_name else finding

        try:
            tables = first_order(problem, self.tolerance, self.probes)
        except WrongShapeError as error:
            return broken(1, Kind.SHAPE, error.source, str(error))
        return summarise(1, tables, Names.of(sources), explain=explain)
