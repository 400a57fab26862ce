"""Hypothesis profiles: `ci` for tests, always the same examples; `dev` for a hunt, `nightly` for a long one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase, MultiplexedDatabase
from hypothesis.errors import InvalidArgument
from hypothesis.internal.conjecture import providers

TESTS, HUNT = "ci", "dev"
EXAMPLES = {"dev": 10, "ci": 5, "nightly": 1000}
# Without Phase.explain: the blame names the culprit, and explaining costs as much as shrinking.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)
REDIS = "GRADCHECK_REDIS"
PATIENCE = 10.0


def register(folder: Path) -> None:
    """Registers the three profiles; `dev` and `nightly` keep their failures in one database below `folder`.

    They descend from Hypothesis's own defaults and not from the active profile: where the variable CI is set, that is
    Hypothesis's `ci`, which is derandomised and keeps nothing, and a nightly hunt would find the same every night.
    """
    kept = database(folder)
    _leave_out_local_constants()
    for name in EXAMPLES:
        settings.register_profile(name, made(name, kept))


def add(name: str, folder: Path) -> None:
    """Registers one of the three profiles as `register` does, unless there is one of that name, and changes nothing
    else: draws in a project's other tests stay what they were."""
    try:
        settings.get_profile(name)
    except InvalidArgument:
        if name in EXAMPLES:
            settings.register_profile(name, made(name, database(folder)))


def made(name: str, kept: ExampleDatabase, times: int = 1) -> settings:
    """The settings of one of the three profiles, with its number of examples multiplied by `times`."""
    return settings(
        parent=settings.get_profile("default"),
        max_examples=times * EXAMPLES[name],
        deadline=None,
        phases=PHASES,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=name == TESTS,
        database=None if name == TESTS else kept,
        print_blob=True,
    )


@contextmanager
def local_constants_left_out() -> Iterator[None]:
    """A context in which draws depend on the seed alone, as after `register`; a project's other tests are not
    affected."""
    before = getattr(providers, "_get_local_constants", None)
    _leave_out_local_constants()
    try:
        yield
    finally:
        if before is not None:
            providers._get_local_constants = before


def _leave_out_local_constants() -> None:
    """Makes draws depend on the seed alone, and not on the modules that are loaded.

    Hypothesis mixes the constants of the project's own modules into what it draws (since 6.131), which depends on the
    tests that ran before in the process: neither a seed nor a derandomised test would repeat its examples. There is no
    setting for it; where the private name is gone, a test says so.
    """
    if hasattr(providers, "_get_local_constants"):
        nothing = type(providers._local_constants)()
        providers._get_local_constants = lambda: nothing


def chosen(profile: str | None, seed: object = None) -> str:
    """The profile of a pytest run: the one that was named; else, with a seed, a hunt; else the tests' fixed examples.

    >>> chosen(None), chosen(None, seed=7), chosen("nightly")
    ('ci', 'dev', 'nightly')
    """
    return profile or (TESTS if seed is None else HUNT)


def database(folder: Path) -> ExampleDatabase:
    """The failures below `folder`, and those of the Redis server that GRADCHECK_REDIS names, for several machines.

    Raises ValueError, which says what to do, where that server does not answer or the package redis is not installed.
    """
    local = DirectoryBasedExampleDatabase(folder / "examples")
    url = os.environ.get(REDIS)
    if not url:
        return local
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis, RedisError
    except ImportError:
        raise ValueError(
            f"{REDIS} was {_without_password(url)!r}, but redis is not installed; pip install 'gradcheck[redis]'"
        ) from None
    try:
        server = Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        server.ping()
    except (RedisError, ValueError) as error:
        shown = _without_password(url)
        # The part of a URL that cannot be parsed may belong to its password.
        why = type(error).__name__ if isinstance(error, ValueError) and shown != url else error
        raise ValueError(
            f"{REDIS} was {shown!r}: {why}. Expected a server that answers, such as redis://localhost:6379/0; "
            f"start it, or unset {REDIS} to keep failures on this machine alone"
        ) from None
    return MultiplexedDatabase(local, RedisExampleDatabase(server))


def _without_password(url: str) -> str:
    """A URL that may be printed, such as into the log of a CI.

    >>> _without_password("redis://:secret@host:6379/0?password=secret")
    'redis://host:6379/0'
    """
    scheme = url[: url.index("://") + 3] if "://" in url else ""
    return scheme + url[len(scheme) :].rpartition("@")[2].partition("?")[0]
