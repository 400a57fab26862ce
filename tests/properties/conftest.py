"""The Hypothesis profiles of the suite: `dev` unless `--hypothesis-profile=` names another."""

from __future__ import annotations

from pathlib import Path

import pytest
from gradcheck.strategies import profiles
from hypothesis import settings

profiles.register(Path(__file__).parents[2] / ".hypothesis")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(profiles.DEFAULT)
