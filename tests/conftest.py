"""Set-up of every test: the Hypothesis profiles, and no import of `strategies` under the name of its folder."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from gradcheck.strategies import profiles
from hypothesis import settings

from gradcheck.diagnosis import internal_errors
from tests import slices

# A project of its own, with a test that fails by design: tests/packaging runs it against the installed wheel.
collect_ignore = ["thirdparty"]

SLOW = {"reliability", "packaging"}
SETTINGS = "_hypothesis_internal_use_settings"
ALLOCATIONS = 50_000
"""Allocations between two garbage collections; with the default of 700 these take 4 % of the processor time."""

profiles.register(Path(__file__).parents[1] / ".hypothesis")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --exhaustive."""
    text = "also run the tests that are sampled or skipped by default (.ci/exhaustive)"
    parser.addoption("--exhaustive", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Sets fixed examples unless the options ask for a hunt, raises internal errors, collects garbage less often."""
    internal_errors.raised = True
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
    config.addinivalue_line(
        "markers", f"{slices.SLICED}: the test command takes a share of the cases, --exhaustive all"
    )
    config.addinivalue_line("markers", f"{slices.EXHAUSTIVE}: runs with --exhaustive alone")
    profile = profiles.chosen(config.getoption("--hypothesis-profile"), config.getoption("--hypothesis-seed"))
    settings.load_profile(profile)
    slices.exhaustively = config.getoption("--exhaustive")
    slices.whole = slices.exhaustively or profile != profiles.TESTS


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Starts each item of a parametrized test from the settings of the test.

    Hypothesis's plugin (6.170) makes those of one item the parent of the next one's, and looks for a database of None
    all the way up: the thousandth item of a process exceeds Python's recursion limit.
    """
    attributes = vars(getattr(item, "function", object))
    own = attributes.get(SETTINGS)
    try:
        return (yield)
    finally:
        if own is not None:
            setattr(item.function, SETTINGS, own)  # type: ignore[attr-defined]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Makes every trace pay; lists for each attempt whether its graph can be trusted."""
    from gradcheck.problem.mapped import Mapped  # TensorFlow, which not every test needs

    attempts: list[bool] = []
    trace = Mapped._trace

    def noted(self: Any, *arguments: Any) -> Any:
        values = trace(self, *arguments)
        attempts.append(self._trusted)
        return values

    monkeypatch.setattr(Mapped, "_pays", lambda self, count: True)
    monkeypatch.setattr(Mapped, "_trace", noted)
    return attempts


@pytest.fixture(scope="session")
def instrument() -> Iterator[Callable[[str], Any]]:
    """A benchmark by its name: they are scripts, which import one another by their bare names."""
    folder = str(Path(__file__).parent / "benchmarks")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


@pytest.fixture(autouse=True)
def _strategies_has_one_name() -> Iterator[None]:
    yield
    assert "strategies" not in sys.modules, "strategies was imported; its only name is gradcheck.strategies"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only --exhaustive runs, or with it all the rest; tests that start other processes come first.

    At the end, one of these would keep a single worker busy for long.
    """
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if slices.takes({mark.name for mark in item.iter_markers()}) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    items.sort(key=lambda item: not SLOW.intersection(item.path.parts))
