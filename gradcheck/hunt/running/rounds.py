"""The order of a run with a budget: examples go round, and every operation is looked at before any is looked at again.

A test of Hypothesis is visited several times, for one new example at first and later for twice as many as the last
time, until it has had those of its profile. Importing this module imports neither TensorFlow nor NumPy.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import SkipTest

import pytest

from gradcheck.hunt.running.project_operations import MARKER

VISIT: pytest.StashKey[Visit] = pytest.StashKey()
AT_ONCE = 2
"""A test of many operations, such as one of graphs in a mode, is visited this many times a round."""
LOWER = 2.0
"""A test of an order below an operation's highest one is visited once in this many rounds: the highest order's examples
compare the lower one, too, except where the highest one is known to be wrong."""
RARER = 1.4
"""A test of an operation in its modes, most of which take a trace, is visited once in this many rounds: about as often
as it takes for each mode to be compared 30 times in the first round."""
RAREST = 8.0
"""A test whose marker says that it is `rare`, such as one on thousands of elements, once in this many."""
UNDRAWN = 0.07
"""The share of the time for what draws no examples, such as records of known defects."""
SHRINKING = 300
"""The seconds that Hypothesis shrinks by itself."""
SETTINGS, SEED = "_hypothesis_internal_use_settings", "_hypothesis_internal_use_seed"


class Visit(NamedTuple):
    """The number of a visit to a test, in its order, and the number of `examples` that are new in it."""

    number: int
    examples: int


def planned(items: Sequence[pytest.Item], waiting: Mapping[str, int], salt: str, workers: int) -> list[pytest.Item]:
    """Return the visits to tests, for `workers` processes that take one of as many equal parts of the list each.

    In the first round come the operations at their highest order, among them a share of those in their modes, or of
    what is rare, and all that draws no examples, such as records of known defects; later the lower orders as well. Of
    tests alike, those that have been `waiting` for longest come first, by the numbers of the last runs that finished
    them; of those that have waited as long, a `salt` decides where they draw.
    """
    highest: dict[str, int] = {}
    for item in items:
        name, order, _ = _subject(item)
        highest[name] = max(order, highest.get(name, 0))
    alike: dict[tuple[bool, float, float], list[pytest.Item]] = {}
    for item in items:
        alike.setdefault((drawing(item), *_turns(item, highest)), []).append(item)
    due: list[tuple[float, pytest.Item]] = []
    for (draws, first, every), group in alike.items():
        group.sort(key=lambda item: (waiting.get(item.nodeid, 0), draws and _shuffled(salt, item.nodeid)))
        for place, item in enumerate(group):
            start = first + every * place / len(group)
            due += _visits(item, start, every) if draws else [(start, item)]
    ordered = [item for _, item in sorted(due, key=lambda visit: visit[0])]
    return [item for worker in range(workers) for item in ordered[worker::workers]]


def _turns(item: pytest.Item, highest: Mapping[str, int]) -> tuple[float, float]:
    """The round in which a test is visited first, and the number of rounds from one visit to the next."""
    name, order, rare = _subject(item)
    if drawing(item) and not order:
        return 0.0, RAREST if rare else RARER if name else 1 / AT_ONCE
    return (1.0, LOWER) if 0 < order < highest[name] else (0.0, 1.0)


def _visits(item: Any, start: float, every: float) -> Iterator[tuple[float, pytest.Item]]:
    """Yield a test's visits with the times at which they are due, in rounds."""
    number, at, left = 0, start, int(getattr(item.function, SETTINGS).max_examples)
    while left > 0:
        examples = min(left, 2 ** int(number * min(every, 1)))
        visited = copy.copy(item)
        visited.stash, visited._request = pytest.Stash(), False
        visited.stash[VISIT] = Visit(number, examples)
        yield at, visited
        number, at, left = number + 1, at + every, left - examples


def _subject(item: pytest.Item) -> tuple[str, int, bool]:
    """The operation ("" for many) and the order (0 for several) that a test is about, and whether it is rare."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return "", 0, False
    name, order = (*marker.args, 0)[:2]
    return name, order, bool(marker.kwargs.get("rare"))


FIXTURES = {"gradcheck_coverage", "gradcheck_event"}


def hunts(item: pytest.Item) -> bool:
    """Whether a test hunts, so that the budget of a run counts for it."""
    return not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def drawing(item: Any) -> bool:
    """Whether a test hunts with examples that Hypothesis draws."""
    return hunts(item) and hasattr(getattr(item, "function", None), SETTINGS)


@dataclass
class Spending:
    """The `seconds` of a process in a run with a budget, and the tests that are over for it, silently.

    Those are further visits to a test that has failed, which would fail again, what draws no examples, once its share
    of the time is spent, and all that is left when the time is over, except for the first one, which says so.
    """

    seconds: float = math.inf
    undrawn: float = 0.0
    failed: set[str] = field(default_factory=set)
    _told: bool = False

    def passes_over(self, item: pytest.Item, *, over: bool) -> bool:
        """Whether to pass over a test without a report."""
        if not hunts(item):
            return False
        if over:
            told, self._told = self._told, True
            return told
        return item.nodeid in self.failed or (not drawing(item) and self.undrawn > UNDRAWN * self.seconds)


def _shuffled(salt: str, name: str) -> int:
    data = f"{salt} {name}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def make(item: Any, begin: Callable[[int], None], seed: str) -> None:
    """Make a visit: in the first one, examples that failed before are tried again; then new ones are drawn.

    `begin` is called with the number of the visit before new ones are drawn. Hypothesis begins with the smallest
    example, which the second visit alone takes. With a `seed`, or derandomised, each visit draws from one of its own.
    """
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis.errors import Unsatisfiable

    visit, own = item.stash[VISIT], getattr(item.function, SETTINGS)
    given = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}

    # Few examples, or one that failed before, may all lie in regions of known defects, which the run's counts show.
    def run(chosen: settings, seed: int | str = "") -> None:
        with suppress(Unsatisfiable), _used(item.function, chosen, seed):
            item.obj(**given)

    if visit.number == 0 and own.database is not None:
        again = [phase for phase in own.phases if phase not in (Phase.generate, Phase.target)]
        with suppress(SkipTest):  # where none has failed
            run(settings(own, phases=again, database=_failing_examples(own.database)))
    begin(visit.number)
    new = [phase for phase in own.phases if phase is not Phase.reuse]
    unchecked = (*own.suppress_health_check, HealthCheck.filter_too_much)
    most = visit.examples + (visit.number != 1)  # the smallest one counts where it is not passed over
    chosen = settings(own, phases=new, max_examples=most, suppress_health_check=unchecked)
    run(chosen, _shuffled(seed, f"{item.nodeid} {visit.number}") if seed or own.derandomize else "")


def _failing_examples(kept: Any) -> Any:
    """Return a database without the examples that passed, which Hypothesis keeps to search for larger targets.

    A test that may draw no new examples would try as many of them as a profile has examples. There is no setting for
    it; where the name of their key is another, a test says so.
    """
    from hypothesis.database import ExampleDatabase

    class FailingExamples(ExampleDatabase):
        def fetch(self, key: bytes) -> Iterable[bytes]:
            return () if key.endswith(b".pareto") else kept.fetch(key)

        def save(self, key: bytes, value: bytes) -> None:
            kept.save(key, value)

        def delete(self, key: bytes, value: bytes) -> None:
            kept.delete(key, value)

        def move(self, src: bytes, dest: bytes, value: bytes) -> None:
            kept.move(src, dest, value)

    return FailingExamples()


@contextmanager
def shrunk_within(seconds: float) -> Iterator[None]:
    """A context in which Hypothesis shrinks for so many seconds at most, and says nothing about it.

    Examples are passed over by then, but hundreds would still be drawn, which runs their operations, for up to five
    minutes. There is no setting for it; where the private names are gone, a test says so.
    """
    from hypothesis.internal.conjecture import engine

    given = {"MAX_SHRINKING_SECONDS": min(seconds, SHRINKING), "report": lambda text: None}
    before = {name: getattr(engine, name) for name in given if hasattr(engine, name)}
    vars(engine).update({name: given[name] for name in before})
    try:
        yield
    finally:
        vars(engine).update(before)


@contextmanager
def _used(function: Any, chosen: Any, seed: int | str = "") -> Iterator[None]:
    """A context in which a test has other settings, and a seed if one is given."""
    before = {name: getattr(function, name) for name in (SETTINGS, SEED)}
    setattr(function, SETTINGS, chosen)
    if seed:
        setattr(function, SEED, seed)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(function, name, value)
