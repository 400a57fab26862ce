"""The tests of a project's own operations: each in random graphs, in its modes, and its known defects.

They are made for one run of pytest, by gradcheck.pytest_plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import known
from gradcheck.defects.records import Defect
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.examine import drawing, examine
from gradcheck.hunt.known_graphs import left_out_in, ways
from gradcheck.hunt.recheck import of_known
from gradcheck.operations.acceptance import accept
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import REGISTERED, OperationError

from . import profiles
from .graphs import graphs, limits

NAME = "gradcheck"
TIMES = 5
"""How many times the examples of an operation of the catalogue each operation of a project gets."""

MOST_NODES = (1, 8, 8, 8)
"""One graph in four is the operation alone, to which graphs with other operations then shrink in one step."""


class OperationModule(pytest.Module):
    """A module of tests that are generated instead of read from a file."""

    made: dict[str, Any]

    def _getobj(self) -> ModuleType:
        module = ModuleType(NAME)
        vars(module).update(self.made)
        return module


def collected(
    session: pytest.Session, operations: Sequence[str], defects: Sequence[Defect], profile: str | None, seed: object
) -> list[pytest.Item]:
    """The tests of registered operations, and of the records of known defects that are about them.

    The examples are those of a profile, by name ("ci" if there is neither a name nor a seed).
    """
    name = profiles.chosen(profile if profile in profiles.EXAMPLES else None, seed)
    kept = profiles.database(session.config.rootpath / ".hypothesis")
    module = OperationModule.from_parent(session, path=Path(__file__), name=NAME, nodeid=NAME)
    budgeted = session.config.getoption("--gradcheck-minutes") is not None
    module.made = tests(operations, defects, lambda times: profiles.made(name, kept, times), budgeted)
    return [item for item in module.collect() if isinstance(item, pytest.Item)]


def tests(
    operations: Sequence[str],
    defects: Sequence[Defect],
    profile: Callable[[int], settings],
    budgeted: bool,
) -> dict[str, Any]:
    """Test functions by name: of registered operations, and of the project's own records of known defects.

    `profile` gives the settings with a multiple of a profile's examples. The tests take pytest's fixtures. With a
    budget, an operation is accepted when it has its turn, and not by a test of its own, which would be outside of it.
    """

    in_modes = _cases_in_modes(operations)
    told: dict[str, str] = {}

    @pytest.fixture(autouse=True, scope="module")
    def repeatable() -> Iterator[None]:
        with profiles.local_constants_left_out():
            yield

    @pytest.fixture
    def accepted(request: pytest.FixtureRequest, operation: str) -> None:
        if not (refusal := _refusal(operation)):
            return
        if budgeted and told.setdefault(operation, request.node.nodeid) == request.node.nodeid:
            pytest.fail(refusal, pytrace=False)
        pytest.skip(f"{operation} is not what it was registered as")

    @pytest.mark.parametrize("operation", [_param(name, name, name) for name in operations])
    def test_registration(operation: str) -> None:
        if refusal := _refusal(operation):
            pytest.fail(refusal, pytrace=False)

    @pytest.mark.usefixtures("accepted")
    @profile(TIMES)
    @pytest.mark.parametrize(("operation", "order"), _plain_cases(operations))
    @given(data=st.data())
    def test_operation(gradcheck_coverage: Coverage, operation: str, order: int, data: Any) -> None:
        with drawing(operation, order, gradcheck_coverage):
            most = data.draw(limits(*MOST_NODES))
            drawn = graphs(
                containing=operation, operations=_with(operation), order=order, max_nodes=most, known=known.excludes
            )
            graph = data.draw(drawn)
        examine(graph, order, gradcheck_coverage, operation=operation, lower=True)

    @pytest.mark.usefixtures("accepted")
    @profile(1)
    @pytest.mark.parametrize(("operation", "mode", "order"), in_modes)
    @given(data=st.data())
    def test_operation_in_a_mode(
        gradcheck_coverage: Coverage, operation: str, mode: Any, order: int, data: Any
    ) -> None:
        drawn = graphs(
            containing=operation,
            operations=_with(operation),
            order=order,
            max_nodes=1 if mode.number_type else 2,
            known=partial(left_out_in, mode),
            number_type=mode.number_type or "float64",
        )
        with drawing(operation, order, gradcheck_coverage):
            graph = data.draw(drawn)
        examine(graph, order, gradcheck_coverage, operation=operation, mode=mode)

    made = {
        "repeatable": repeatable,
        "accepted": accepted,
        **({} if budgeted else {"test_registration": test_registration}),
        "test_operation": test_operation,
    }
    if in_modes:  # pytest reports a test without cases as skipped, in each visit
        made["test_operation_in_a_mode"] = test_operation_in_a_mode
    if not defects:
        return made

    @pytest.mark.parametrize("defect", [_param(one, one.signature.operation, one.name) for one in defects])
    def test_known(gradcheck_event: Callable[[Event], None], defect: Defect) -> None:
        seen = of_known(defect)
        gradcheck_event(KnownReplayed(defect.name, seen.state, tf.__version__, seen.message, defect.category))
        if seen.state is not State.STILL or seen.changed:
            pytest.fail(
                f"{defect.name}: {seen.state}: {seen.message}; the record in reports/known no longer describes "
                f"{defect.title!r}, so correct it or take it away",
                pytrace=False,
            )

    return {**made, "test_known": test_known}


def _param(value: Any, operation: str, name: str, *others: Any) -> Any:
    return pytest.param(value, *others, id=name, marks=pytest.mark.gradcheck_operation(operation))


@cache
def _with(operation: str) -> tuple[str, ...]:
    """TensorFlow's operations and this one of the project's; errors of another one are left to its own tests."""
    return tuple(name for name in CATALOGUE if name not in REGISTERED or name == operation)


def _refusal(operation: str) -> str:
    try:
        accept(REGISTERED[operation])
    except OperationError as error:
        return str(error)
    return ""


def _plain_cases(operations: Sequence[str]) -> list[Any]:
    return [
        _param(name, name, f"{name}-order{order}", order) for name in operations for _, order in ways(name, (PLAIN,))
    ]


def _cases_in_modes(operations: Sequence[str]) -> list[Any]:
    return [
        _param(name, name, f"{name}-order{order}, {mode}", mode, order)
        for name in operations
        for mode, order in ways(name, CATALOGUE[name].modes or ())
    ]
