"""The garbage collector while TensorFlow loads."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gradcheck.runtime import configure, loading


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    gc.enable() if enabled else gc.disable()


def test_what_is_loaded_is_set_aside_and_the_collector_runs_again() -> None:
    gc.enable()
    before = gc.get_freeze_count()
    with loading():
        assert not gc.isenabled()
        kept = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)


def test_the_collector_runs_again_where_loading_fails() -> None:
    gc.enable()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_somebody_has_stopped_stays_stopped() -> None:
    gc.disable()
    before = gc.get_freeze_count()
    with loading():
        pass
    assert not gc.isenabled()
    assert gc.get_freeze_count() <= before


def test_nothing_is_set_aside_where_tensorflow_was_there_already() -> None:
    configure()
    gc.enable()
    before = gc.get_freeze_count()
    configure.cache_clear()
    configure()
    assert gc.get_freeze_count() <= before
