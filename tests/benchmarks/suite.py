"""The test command's cost of one commit beside another's, from two files that pytest wrote with --junitxml.

    PYTHONPATH=tests/benchmarks python -m pytest -p suite --junitxml=new.xml -n auto --maxprocesses 4 --dist worksteal
    python tests/benchmarks/suite.py old.xml new.xml

With `-p suite` (any commit can be run with this file) the seconds are those of the processor, of the processes that a
test starts as well; without it, or with --wall, they are those of the clock. Printed are items, seconds and their ratio
for the whole, for the collection, and for the most expensive test functions of either commit.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ITEM, COLLECTION, RUN = "processor_seconds", "collection_processor_seconds", "run_processor_seconds"
BEGUN: pytest.StashKey[float] = pytest.StashKey()
SPENT: pytest.StashKey[float] = pytest.StashKey()


def processor() -> float:
    """Seconds of the processor that this process has had so far, and the ended processes that it started."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Measures the collection of this process."""
    begun = processor()
    result = yield
    session.config.stash[BEGUN] = processor() - begun
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Records when an item begins; the first one of a process carries the cost of the collection."""
    collected = item.config.stash.get(BEGUN, None)
    if collected is not None:
        item.user_properties.append((COLLECTION, f"{collected:.3f}"))
        del item.config.stash[BEGUN]
    item.stash[BEGUN] = processor()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Adds an item's seconds to its teardown report, from which the JUnit file takes the properties."""
    if call.when == "teardown":
        item.user_properties.append((ITEM, f"{processor() - item.stash[BEGUN]:.4f}"))
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Adds up the cost of the workers, in the controller."""
    stash = node.config.stash
    stash[SPENT] = stash.get(SPENT, 0.0) + getattr(node, "workeroutput", {}).get(RUN, 0.0)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends its whole cost; the controller puts the sum into the JUnit file."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[RUN] = processor()
        return
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "add_global_property"):
            plugin.add_global_property(RUN, f"{processor() + config.stash.get(SPENT, 0.0):.2f}")


@dataclass(frozen=True)
class Run:
    """One run of the tests: seconds and items by test function, and of the whole."""

    seconds: Mapping[str, float]
    items: Counter[str]
    collection: float
    whole: float
    processor: bool


def read(path: Path, wall: bool) -> Run:
    """Reads a JUnit file; takes wall-clock seconds if it has none of the processor, or if they are asked for."""
    root = ElementTree.parse(path).getroot()
    whole = root.find(f".//properties/property[@name='{RUN}']")
    of_processor = whole is not None and not wall
    seconds: dict[str, float] = defaultdict(float)
    items: Counter[str] = Counter()
    collection = []
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name', '').partition('[')[0]}"
        properties = {one.get("name"): one.get("value", "0") for one in case.iter("property")}
        noted = {key: float(properties[key]) for key in (ITEM, COLLECTION) if key in properties}
        seconds[name] += noted.get(ITEM, 0.0) if of_processor else float(case.get("time", 0))
        items[name] += 1
        collection += [noted[COLLECTION]] if COLLECTION in noted else []
    suite = root if root.tag == "testsuite" else root[0]
    total = float(whole.get("value", 0)) if whole is not None and of_processor else float(suite.get("time", 0))
    return Run(seconds, items, sum(collection) / max(1, len(collection)), total, of_processor)


def table(old: Run, new: Run, most: int) -> str:
    """The rows of the whole, the collection, and the most expensive functions of either run."""
    kind = "processor" if new.processor else "clock"
    columns = f"{'items   seconds':>17}"
    lines = [f"{'':>9} {'old':>17} {'new':>17}", f"{'new/old':>9} {columns} {columns}  ({kind})"]

    def row(name: str, seconds: tuple[float, float], items: tuple[int | str, int | str] = ("", "")) -> str:
        ratio = f"{seconds[1] / seconds[0]:9.3f}" if seconds[0] else f"{'-':>9}"
        return f"{ratio} {items[0]:>7} {seconds[0]:9.1f} {items[1]:>7} {seconds[1]:9.1f}  {name}"

    lines.append(row("whole run", (old.whole, new.whole), (old.items.total(), new.items.total())))
    if old.collection and new.collection:
        lines.append(row("collection, of one process", (old.collection, new.collection)))
    lines.append(
        row("all tests", (sum(old.seconds.values()), sum(new.seconds.values())), (old.items.total(), new.items.total()))
    )
    for title, run in (("of old", old), ("of new", new)):
        lines.append(f"the {most} most expensive functions {title}")
        lines += [
            row(name, (old.seconds.get(name, 0), new.seconds.get(name, 0)), (old.items[name], new.items[name]))
            for name in sorted(run.seconds, key=lambda name: -run.seconds[name])[:most]
        ]
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the JUnit file of one commit")
    parser.add_argument("new", type=Path, help="the JUnit file of the other one")
    parser.add_argument("--wall", action="store_true", help="seconds of the clock")
    parser.add_argument("--most", type=int, default=30, help="how many functions (default: 30)")
    given = parser.parse_args()
    print(table(read(given.old, given.wall), read(given.new, given.wall), given.most))


if __name__ == "__main__":
    main()
