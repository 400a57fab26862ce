"""What pytest does with the operations that a project has registered: their tests, and who else has to know them.

Importing this module imports neither TensorFlow nor NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gradcheck import runtime
from gradcheck.hunt.running.configuration import RunConfiguration, selected

REFUSED = "gradcheck_refused"
REGISTRY = "gradcheck.hunt.registry"
TESTS = "gradcheck.strategies.operation_tests"


class ProjectOperations:
    """The pytest hooks of a run that names operations: those that modules have registered by now get their tests."""

    def __init__(self, config: pytest.Config, key: pytest.StashKey[RunConfiguration]) -> None:
        self._config, self._key = config, key

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Adds the tests of the registered operations that were named; refuses names that there are not."""
        from gradcheck.hunt.catalogue import CATALOGUE

        try:
            chosen = selected(self._config.getoption("--gradcheck-ops"), CATALOGUE)
            self._config.stash[self._key] = replace(self._config.stash[self._key], operations=chosen)
            if REGISTRY in sys.modules:
                registered = sys.modules[REGISTRY].REGISTERED
                names = [name for name in chosen if name in registered]
                items += self._tests(session, names) if names else []
        except ValueError as error:
            if not hasattr(self._config, "workeroutput"):
                raise pytest.UsageError(str(error)) from None
            self._config.workeroutput[REFUSED] = str(error)  # the process that started this one says it
            items.clear()

    def _tests(self, session: pytest.Session, names: Sequence[str]) -> list[pytest.Item]:
        runtime.configure()
        from gradcheck.hunt.known_graphs import load as load_known

        plugins = self._config.pluginmanager
        plugins.import_plugin(TESTS)
        tests: Any = plugins.get_plugin(TESTS)
        profile, seed = (self._config.getoption(f"--hypothesis-{name}", None) for name in ("profile", "seed"))
        own = [one for one in load_known() if one.signature.operation in names]
        made: list[pytest.Item] = tests.collected(session, names, own, profile, seed)
        return made


def origins_sent() -> list[list[str]]:
    """From where this process has its operations, as plain data for the process that started it."""
    return [[one.module, one.folder] for one in sys.modules[REGISTRY].origins()] if REGISTRY in sys.modules else []


def load(sent: Iterable[Sequence[str]]) -> None:
    """Imports the modules from which another process of this run has its operations."""
    for module, folder in sent:
        from gradcheck.hunt.registry import Origin

        Origin(module, folder).load()
