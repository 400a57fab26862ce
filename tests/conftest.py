"""What every test needs: nobody ever imports `strategies` under the name of its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

# A project of its own, with a test that fails by design: tests/packaging runs it against the installed wheel.
collect_ignore = ["thirdparty"]


@pytest.fixture(autouse=True)
def _strategies_has_one_name() -> Iterator[None]:
    yield
    assert "strategies" not in sys.modules, "strategies was imported; its only name is gradcheck.strategies"
