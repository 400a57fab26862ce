"""A project's registered operations in pytest: their tests, and how other processes of the run learn of them.

Importing this module imports neither TensorFlow nor NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from gradcheck import runtime
from gradcheck.hunt.configuration import OWN, RunConfiguration, matching, patterns_of, selected

REFUSED = "gradcheck_refused"
MARKER = "gradcheck_operation"
FIXTURES = "gradcheck_"
REGISTRY = "gradcheck.operations.registry"
TESTS = "gradcheck.strategies.operation_tests"
PROFILES = "gradcheck.strategies.profiles"


class ProjectOperations:
    """The pytest hooks of a run that hunts, once the modules that register operations have been collected.

    `properties` says whether the properties are among the tests.
    """

    def __init__(self, config: pytest.Config, key: pytest.StashKey[RunConfiguration], properties: bool) -> None:
        self._config, self._key, self._properties = config, key, properties

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Adds the tests of the registered operations that were named.

        Refuses unknown names, names with which no test hunts, and known defects that cannot be read.
        """
        asked = self._config.getoption("--gradcheck-ops")
        try:
            names = [] if asked is None else self._chosen()
            if not (asked is None or names or self._properties):
                self._check_tests(session, items)
            if names:
                runtime.configure()
            if names or self._properties:
                from gradcheck.hunt.known_graphs import load as load_known

                known = load_known()
                items += self._tests(session, names, known) if names else []
        except ValueError as error:
            # The message about a module that has not been imported is written for the command line.
            hint = "; for pytest, conftest.py or a collected test has to import it" * ("--import" in str(error))
            self._refuse(f"{error}{hint}", items)

    def _check_tests(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Raises ValueError where no test hunts: the run would pass without having checked anything."""
        # pytest reports a module that could not be collected; it may be the one that was meant.
        if not session.testsfailed and not any(map(_hunts, items)):
            raise ValueError(
                f"operations were {self._config.getoption('--gradcheck-ops')!r}; the catalogue has some, but no test "
                f"that was collected hunts with them, such as those of tests/properties. {OWN}"
            )

    def _refuse(self, why: str, items: list[pytest.Item]) -> None:
        if not hasattr(self._config, "workeroutput"):
            raise pytest.UsageError(why)
        self._config.workeroutput[REFUSED] = why  # the process that started this one says it
        items.clear()

    def _chosen(self) -> list[str]:
        """Restricts the run to the operations that were named, and returns the registered ones."""
        from gradcheck.operations.catalogue import CATALOGUE

        chosen = selected(self._config.getoption("--gradcheck-ops"), CATALOGUE)
        self._config.stash[self._key] = replace(self._config.stash[self._key], operations=chosen)
        registered = sys.modules[REGISTRY].REGISTERED if REGISTRY in sys.modules else ()
        return [name for name in chosen if name in registered]

    def _tests(self, session: pytest.Session, names: Sequence[str], known: Iterable[Any]) -> list[pytest.Item]:
        plugins = self._config.pluginmanager
        plugins.import_plugin(TESTS)
        tests: Any = plugins.get_plugin(TESTS)
        profile, seed = (self._config.getoption(f"--hypothesis-{name}", None) for name in ("profile", "seed"))
        own = [one for one in known if one.signature.operation in names]
        made: list[pytest.Item] = tests.collected(session, names, own, profile, seed)
        return made


def add_profile(config: pytest.Config) -> None:
    """Registers the profile of --hypothesis-profile, if it is one of the hunt's and the project has none of that name.

    Raises ValueError where failures cannot be kept as the environment asks for.
    """
    name = config.getoption("--hypothesis-profile", None)
    if name is not None:
        import_module(PROFILES).add(name, config.rootpath / ".hypothesis")


def _hunts(item: pytest.Item) -> bool:
    """Whether a test is about an operation, or uses a fixture of the hunt."""
    used = getattr(item, "fixturenames", ())
    return item.get_closest_marker(MARKER) is not None or any(name.startswith(FIXTURES) for name in used)


def named(config: pytest.Config) -> tuple[str, ...] | None:
    """The operations of --gradcheck-ops that this process knows by now; None for all.

    Raises ValueError where it names none at all.
    """
    given = config.getoption("--gradcheck-ops")
    if given is None:
        return None
    from gradcheck.operations.catalogue import CATALOGUE

    return matching(patterns_of(given), CATALOGUE)


def origins_sent() -> list[list[str]]:
    """The origins of this process's registered operations, as plain data for the process that started it."""
    return [[one.module, one.folder] for one in sys.modules[REGISTRY].origins()] if REGISTRY in sys.modules else []


def load(sent: Iterable[Sequence[str]]) -> list[str]:
    """Imports the modules of another process's operations; returns messages about those that cannot be imported."""
    failed = []
    for module, folder in sent:
        from gradcheck.operations.registry import Origin

        try:
            Origin(module, folder).load()
        except (Exception, SystemExit) as error:  # whatever a user's module raises
            failed.append(
                f"the module {module}, which registers operations, cannot be imported from {folder} by another process "
                f"({type(error).__name__}: {error}): findings with these are not run again, and the run has no page; "
                "put them into a module that can be imported, which conftest.py imports"
            )
    return failed
